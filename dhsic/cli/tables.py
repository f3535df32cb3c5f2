"""Tables of labels and covariates: TSV, CSV, white space, PLINK; with a header or without."""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from gzip import BadGzipFile
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dhsic._typing import Array, Mask
from dhsic.errors import InputError
from dhsic.joins.keys import is_id, is_number, plain, some
from dhsic.sources.target import did_you_mean

if TYPE_CHECKING:
    import pandas as pd

#: Bytes of a file that are looked at for what is no text.
HEAD = 1 << 12
#: How files of gzip begin.
GZIP = b"\x1f\x8b"
#: What stands for a missing value, in any case.
NA = frozenset({"", ".", "na", "nan"})
#: Columns of a .fam file, which has no header; as PLINK calls them.
FAM = ("FID", "IID", "PAT", "MAT", "SEX", "PHENO")


@dataclass(frozen=True)
class Table:
    """A table of text: columns by name, (rows,) each, in the order of the file.

    Attributes
    ----------
    path : str
        Where it lies.
    columns : mapping of str to (rows,) object array
        Names without a leading "#".
    assumed : str
        What was assumed of a file without a header, for people; else empty.
    """

    path: str
    columns: Mapping[str, Array]
    assumed: str = ""

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(next(iter(self.columns.values())))

    def named(self, name: str) -> str:
        """Name of a column, which may be written with or without the "#" of a header."""
        bare = name.removeprefix("#")
        if bare not in self.columns:
            assumed = f" ({self.assumed})" if self.assumed else ""
            raise InputError(
                f"{self.path} has no column {name!r}; its columns are "
                f"{some((repr(c) for c in self.columns), 20)}{assumed}."
                f"{did_you_mean(bare, self.columns)}"
            )
        return bare

    def column(self, name: str) -> Array:
        """Text of a column, (rows,)."""
        return self.columns[self.named(name)]


def read_table(path: str, values: str = "PHENO") -> Table:
    """Read a table; the separator is taken from its first line.

    A header that lacks a name for the first column (as R writes it) is understood. Where there is
    no header, columns get the names that PLINK has for them: FID, IID, then `values` with a number.
    """
    file = Path(path)
    if not file.is_file():
        if file.exists():
            raise InputError(f"{path} is no file (a folder, a pipe?); pass a TSV or CSV file.")
        raise InputError(f"There is no table at {path}; pass a TSV or CSV file with a header.")
    try:
        top = _Top.of(file)
        frame = top.read(file)
    except (
        ValueError,
        EOFError,
        BadGzipFile,
        zlib.error,
    ) as error:  # pandas' own errors are ValueErrors
        raise InputError(f"{path} cannot be read as a table: {_why(error)}") from error
    if frame.shape[0] == 0 or frame.shape[1] == 0:
        raise InputError(f"{path} holds no rows; pass a table with a header and a row a sample.")
    columns = [frame.iloc[:, i].to_numpy(dtype=object) for i in range(frame.shape[1])]
    if top.has_header:
        names, assumed = [str(name).removeprefix("#") for name in frame.columns], ""
        names[0] = "" if names[0].startswith("Unnamed: ") else names[0]
    else:
        names = _fam_names(path, len(columns)) if top.is_fam else _headless(columns, values)
        assumed = f"no header, columns taken for {some(names, 8)}"
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise InputError(f"{path} has two columns {some(map(repr, twice))}; rename one of each.")
    return Table(path, dict(zip(names, columns, strict=True)), assumed)


def _why(error: Exception) -> str:
    """What is wrong with a table, and what to do."""
    text = str(error).strip()
    if isinstance(error, UnicodeDecodeError):
        return (
            f"byte {error.start} is 0x{error.object[error.start]:02x}, which is no UTF-8. Save it "
            "as UTF-8; of a table in Latin-1: iconv -f LATIN1 -t UTF-8 FILE > NEW."
        )
    found = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", text)
    if found:
        return (
            f"line {found[2]} has {found[3]} fields, and {found[1]} are expected. Mend that line; "
            "text that holds the separator needs quotes around it."
        )
    found = re.search(r"EOF inside string starting at row (\d+)", text)
    if found:
        return f"a quote that is opened in row {found[1]} is not closed. Close it, or leave it out."
    return text


@dataclass(frozen=True)
class _Top:
    """What the first line says of how a table is written."""

    separator: str
    n_skipped: int
    has_header: bool
    is_fam: bool
    is_gzip: bool

    @classmethod
    def of(cls, file: Path) -> _Top:
        n_skipped, line, following = 0, "", ""
        with file.open("rb") as packed:
            is_gzip = packed.read(len(GZIP)) == GZIP
        with gzip.open(file) if is_gzip else file.open("rb") as opened:
            if b"\0" in opened.read(HEAD):
                raise ValueError(
                    "it is UTF-16, or no text (a workbook?). Save it as text in UTF-8; of a table "
                    "in UTF-16: iconv -f UTF-16 -t UTF-8 FILE > NEW."
                )
            opened.seek(0)
            lines = TextIOWrapper(opened, encoding="utf-8-sig", errors="replace")
            for line in lines:
                if line.strip() and not line.startswith("##"):
                    break
                n_skipped += 1
            following = next(lines, "")
        if not line.strip():
            raise ValueError("it is empty")
        separator = next((mark for mark in ("\t", ",", ";") if mark in line), r"\s+")
        fields, below = _fields(line, separator), _fields(following, separator)
        if line.startswith("#") and below and _is_comment(fields, below):
            raise ValueError(
                f"its first line is a comment ({line.strip()[:40]!r}), and the names of the "
                "columns are expected there. Remove it, or begin it with ##."
            )
        twice = sorted({field for field in fields if field and fields.count(field) > 1})
        is_fam = file.suffix == ".fam" or (file.suffix == ".psam" and not line.startswith("#"))
        is_fam = is_fam and {"fid", "iid"}.isdisjoint(map(plain, fields[:2]))
        has_header = not is_fam and _is_header(fields)
        if has_header and twice:
            raise ValueError(f"two columns are called {twice[0]!r}; rename one of them")
        return cls(separator, n_skipped, has_header, is_fam, is_gzip)

    def read(self, file: Path) -> pd.DataFrame:
        """Columns of text, without empty rows."""
        import pandas as pd

        options: Any = {
            "sep": self.separator,
            "skiprows": self.n_skipped,
            "header": 0 if self.has_header else None,
            "dtype": str,
            "compression": "gzip" if self.is_gzip else None,
            "keep_default_na": False,
            "encoding": "utf-8-sig",
            "skipinitialspace": True,
        }
        frame = pd.read_csv(file, **options)
        if not isinstance(frame.index, pd.RangeIndex):  # a row has one field more than the header
            names, frame = list(frame.columns), frame.reset_index()
            is_empty = (frame.iloc[:, -1].fillna("") == "").all()
            if is_empty and is_id(names[0]):  # for it ends with a separator
                frame = frame.iloc[:, :-1].set_axis(names, axis=1)
            else:
                frame = frame.set_axis(["", *names], axis=1)
        frame = frame.fillna("")
        is_short = (frame.iloc[:, -1] == "").to_numpy() & (frame != "").any(axis=1).to_numpy()
        if self.separator == r"\s+" and is_short.any():
            raise ValueError(
                f"row {int(is_short.argmax()) + 1} has fewer fields than others, so blanks cannot "
                "tell which is missing; write NA for it, or separate columns by tabs"
            )
        return frame[(frame != "").any(axis=1)]


def _fields(line: str, separator: str) -> list[str]:
    """Fields of a line, without empty ones at its end."""
    by_blanks = separator == r"\s+"
    fields = line.split() if by_blanks else next(csv.reader([line], delimiter=separator), [])
    fields = [field.strip().strip('"') for field in fields]
    n = max((i + 1 for i, field in enumerate(fields) if field), default=0)
    return fields[:n]


def _is_comment(fields: list[str], below: list[str]) -> bool:
    """Whether a line that begins with "#" names no columns: the one below it does.

    >>> _is_comment(["#IID", "y"], ["a", "1"]), _is_comment(["#", "by", "me"], ["IID", "y", "z"])
    (False, True)
    """
    names = [field for field in below if is_id(field)]
    is_said = fields[0] != "#" and any(map(is_id, fields))
    return bool(names) and _is_header(below) and not is_said


def _is_header(fields: list[str]) -> bool:
    """Whether a first line names columns: one is called like ids, or none is a value.

    >>> [_is_header(line.split()) for line in ("IID 1 2", "F1 S1 0.5", "age sex", "S1 NA")]
    [True, False, True, False]
    """
    if fields[0] == "" or fields[0].startswith("#"):
        return True
    values = any(is_number(field) or field.lower() in NA for field in fields)
    return not values or any(is_id(field) for field in fields if field)


def _fam_names(path: str, n: int) -> list[str]:
    """Names of the columns of a .fam file."""
    if n not in (len(FAM) - 1, len(FAM)):
        raise InputError(
            f"{path} has {n} columns and no header; a .fam file has {len(FAM)}: {', '.join(FAM)}."
        )
    return list(FAM[:n])


def _headless(columns: list[Array], values: str) -> list[str]:
    """Names of columns without a header: FID and IID, as far as they can be ids; then values."""
    n_ids = next((i for i in range(min(2, len(columns))) if _measures(columns[i])), 2)
    n_ids = min(n_ids, len(columns) - 1)
    ids = ("FID", "IID")[2 - n_ids :]
    return [*ids, *(f"{values}{i}" for i in range(1, len(columns) - n_ids + 1))]


def _measures(values: Array) -> bool:
    """Whether numbers are no ids: some are missing, or no whole numbers."""
    text = [str(value).strip() for value in values]
    return all(is_number(t) or t.lower() in NA for t in text) and not all(t.isdigit() for t in text)


def typed(values: Array, na: tuple[str, ...] = (), not_na: tuple[str, ...] = ()) -> Array:
    """Numbers as float64 with NaN where missing; text as objects, "" where missing.

    Numbers and booleans of a store stay as they are, unless `na` names one of them; so does its
    text of fixed width, which names classes though they be called "0" and "1". Text that `not_na`
    names is a value whatever it stands for elsewhere.

    Examples
    --------
    >>> typed(np.array(["1", "NA", "2.5"], dtype=object))
    array([1. , nan, 2.5])
    >>> typed(np.array(["case", ".", "-9"], dtype=object), na=("-9",))
    array(['case', '', ''], dtype=object)
    """
    if values.dtype.kind not in "OSUT":
        coded = [float(code) for code in na if is_number(code)]
        missing = np.isin(values, coded) if coded else np.zeros(values.shape, dtype=bool)
        return np.where(missing, np.nan, values) if missing.any() else values
    text = np.char.decode(values) if values.dtype.kind == "S" else values
    text = np.array([str(value) for value in text], dtype=object)
    absent = NA - {t.strip().lower() for t in not_na}
    coded_as = frozenset(float(code) for code in na if is_number(code))
    told = [_stands_for_none(t.strip(), absent, na, coded_as) for t in text]
    missing = np.array(told, dtype=bool)
    if values.dtype.kind == "U":
        return np.where(missing, "", values)
    if missing.all() or not all(is_number(t) for t in text[~missing]):
        return np.where(missing, "", text)
    numbers = np.full(text.shape, np.nan)
    numbers[~missing] = text[~missing].astype(np.float64)
    return numbers


def _stands_for_none(
    text: str, absent: frozenset[str], na: tuple[str, ...], coded: frozenset[float]
) -> bool:
    """Whether a text says that a value is missing; numbers are compared as numbers."""
    if text.lower() in absent or text in na:
        return True
    return bool(coded) and is_number(text) and float(text) in coded


def is_missing(values: Array) -> Mask:
    """Where a typed column has no value, (m,)."""
    if values.dtype.kind == "f":
        return np.isnan(values)
    if values.dtype.kind in "OU":
        return np.asarray(values == "", dtype=bool)
    return np.zeros(values.shape, dtype=bool)


def whole_numbers(values: Array) -> Array:
    """Integers that texts say, as Python's, so that none loses a digit; 0 for other text."""
    if values.dtype.kind not in "OSUT":
        return values
    text = np.char.decode(values) if values.dtype.kind == "S" else values
    said = [str(t).strip() for t in text]
    return np.array([int(t) if t.lstrip("+-").isdecimal() else 0 for t in said], dtype=object)

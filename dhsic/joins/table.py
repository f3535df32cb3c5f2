"""Tables of labels and covariates, and which of their rows is which sample.

They are frames of Python, or text: TSV, CSV, white space, PLINK; with a header or without.

The rule, for both alike:

1. Keys are all columns of the table but those that are wanted as values and those that name
   parents, and FID and IID joined by "_". Only where none of them names a sample, and nobody is
   of a family, are ids tried that one side writes twice (``1_1`` for ``1``).
2. The key that names *all* samples is used. It is refused where a sample has several rows, and
   where another key says otherwise: any that names all samples too, or a column of ids that names
   some of them by other rows. Columns of ids that name any sample go before others, FID and one
   without a name after the rest. A FID that repeats, beside an IID, is a family and says nothing.
3. Without such a key the table is refused, with the counts of the one that names most. Where
   samples may be left out, that one is used if it names half of the samples, or half of the rows
   name some, and no other says otherwise.
4. What may be luck is no key: whole numbers in a column that is not called like ids, where the
   names of the samples are a dense range of whole numbers; a nameless count of rows, which is what
   programs write for an index, unless it changes no order.
5. Rows go by position where that is asked for, or where neither side names anything: the data have
   no sample names, and the table has no column of ids and a row for each sample.

A column holds ids by what it is called (`dhsic.joins.keys.is_id`); in a table for data without
names, by what it holds too: a word of its own in every row.
"""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO, TextIOWrapper
from itertools import dropwhile
from pathlib import Path
from typing import NoReturn

import numpy as np
import pandas as pd

from dhsic._typing import Array, Index
from dhsic.errors import InputError
from dhsic.joins.keys import (
    JOINED,
    Key,
    Keys,
    as_text,
    did_you_mean,
    free,
    is_id,
    is_index,
    is_number,
    names_rows,
    plain,
    quoted,
    some,
)

#: What callers may do about a table that does not fit: about its key, about samples that it lacks.
REMEDIES = "drop the columns that do not hold them", "Take the samples that both have"
BY_POSITION = "pass by_position=True if the rows are in the order of the data."
#: Bytes of a file that are looked at for what is no text, and how files of gzip begin.
HEAD, GZIP = 1 << 12, b"\x1f\x8b"
#: What stands for a missing value, in any case.
NA = frozenset({"", ".", "na", "nan"})
#: Columns of a .fam file, which has no header; as PLINK calls them.
FAM = ("FID", "IID", "PAT", "MAT", "SEX", "PHENO")


@dataclass(frozen=True)
class RowOrder:
    """Which row of a table is which sample."""

    rows: Index  # (m,), row of every sample in the order of the samples, -1 where there is none
    key: tuple[str, ...]  # columns with the sample names; empty where rows were taken in order
    note: str  # how it came about, for people
    n_passed_over: int = 0  # rows of no sample of the data

    def take(self, values: Array) -> Array:
        """Rows of the table in the order of the samples; "" where it lacks one."""
        if (self.rows >= 0).all():
            return values[self.rows]
        return np.append(values, "")[self.rows]  # the last one, at -1


@dataclass(frozen=True)
class Table:
    """A table, with a row for each of some samples."""

    what: str  # how messages call it; the path of a file
    columns: Mapping[str, Array]  # (rows,) each, by name without a leading "#"
    assumed: str = ""  # what was assumed of a file without a header, for people
    remedies: tuple[str, str] = REMEDIES

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
                f"{self.what} has no column {name!r}; its columns are "
                f"{some((repr(c) for c in self.columns), 20)}{assumed}."
                f"{did_you_mean(bare, self.columns)}"
            )
        return bare

    def column(self, name: str) -> Array:
        """Values of a column, (rows,)."""
        return self.columns[self.named(name)]

    def in_order(self, m: int, why: str = "as asked for") -> RowOrder:
        """Take rows as they come; refused where there are more or fewer than the m samples."""
        if self.n_rows != m:
            raise InputError(
                f"{self.what} has {self.n_rows} rows and the data have {m} samples; to go by "
                "position, pass one row a sample."
            )
        return RowOrder(np.arange(m), (), f"rows taken in order, by position, {why}")

    def by_name(
        self,
        names: Array | None,
        m: int,
        *,
        wanted: tuple[str, ...] = (),
        said: str | None = None,
        drop_missing: bool = False,
    ) -> RowOrder:
        """Match rows by name, as the rule above has it.

        Parameters
        ----------
        names : (m,) array or None
            Sample names of the data.
        wanted : tuple of str
            Columns that hold labels or covariates, so no names.
        said : str, optional
            The column with the sample names; FID_IID for both of them.
        drop_missing : bool
            Samples that the table lacks are left out.
        """
        if said is not None and (said in self.columns or plain(said) != JOINED):
            said = self.named(said)
        text = {name: as_text(values) for name, values in self.columns.items()}
        if names is None:
            self._check_nameless(text, wanted, said)
            return self.in_order(m, "for neither the table nor the data name samples")
        ours = as_text(names)
        self._check_unique(ours)
        able = [key for key in Keys(text, wanted, ours).all(said) if key.counts]
        if not able:
            self._refuse_strangers(text, wanted, ours)
        key = self._best(able, ours)
        if not key.is_whole:
            is_sure = said is not None or key.is_large
            self._check_lacking(key, ours, is_asked=drop_missing, is_sure=is_sure)
        return RowOrder(key.rows, key.columns, _note(key), int((key.at < 0).sum()))

    def _check_nameless(
        self, text: Mapping[str, Array], wanted: tuple[str, ...], said: str | None
    ) -> None:
        """Refuse a table that names samples where the data have no names."""
        if said is not None:
            raise InputError(
                f"sample_column={said!r} was given, and the data have no sample names to compare "
                "with; leave it out, and pass by_position=True to take the rows in order."
            )
        for name in _ids(text, wanted):
            if not is_index(name, text[name]):
                raise InputError(
                    f"{self.what} names its rows (column {quoted(name)}: {some(text[name], 3)}), "
                    "and the data have no sample names to compare with. Pass by_position=True if "
                    "the rows are in the order of the data."
                )

    def _check_unique(self, ours: Array) -> None:
        index = pd.Index(ours)
        if not index.is_unique:
            twice = np.unique(ours[index.duplicated()].astype(str))
            raise InputError(
                f"The data name {len(twice)} samples more than once ({some(twice)}), so rows of "
                f"{self.what} cannot be matched by name; make sample names unique, or "
                f"{BY_POSITION}"
            )

    def _best(self, able: list[Key], ours: Array) -> Key:
        """The key that names all samples, or most of them; refused where others differ."""
        best, *others = sorted(able, key=lambda key: key.worth, reverse=True)
        if best.is_luck:
            raise InputError(
                f"Column {best.told} of {self.what} holds whole numbers, as the names of the "
                f"samples are ({some(ours)}), and may be no names: it is not called like ids. If "
                f"it holds the names of the samples, {self.remedies[0]}; or {BY_POSITION}"
            )
        if best.repeated.size:
            raise InputError(
                f"Column {best.told} of {self.what} names {len(best.repeated)} samples more than "
                f"once ({some(best.repeated)}); make sample names unique, a row each."
            )
        for other in others:
            self._check_other(best, other)
        return best

    def _check_other(self, best: Key, other: Key) -> None:
        """Refuse a key that says otherwise than the best."""
        differs = best.differs(other)
        if not differs.size or (best.is_whole and not (other.is_whole or other.is_id)):
            return
        raise InputError(
            f"{best.told} and {other.told} of {self.what} name samples of the data in ways that "
            f"differ: the first names {best.n_named} of {best.m}, the second {other.n_named}, and "
            f"{len(differs)} of them by other rows. If one of them holds the names of the "
            f"samples, {self.remedies[0]}; or {BY_POSITION}"
        )

    def _refuse_strangers(
        self, text: Mapping[str, Array], wanted: tuple[str, ...], ours: Array
    ) -> NoReturn:
        if ids := _ids(text, wanted):
            problem = (
                f"Column {quoted(ids[0])} of {self.what} looks like names ({some(text[ids[0]])}), "
                f"and none of them is a sample of the data ({some(ours)})"
            )
        else:
            problem = (
                f"No column of {self.what} names the samples of the data ({some(ours)}); it has "
                f"{some(map(repr, text), 20)}"
            )
        raise InputError(f"{problem}. Make names the same, {self.remedies[0]}, or {BY_POSITION}")

    def _check_lacking(self, key: Key, ours: Array, *, is_asked: bool, is_sure: bool) -> None:
        """Refuse samples without a row, unless they may be left out and the key is sure."""
        lacking = ours[key.rows < 0]
        if set(lacking) & set(self.columns):
            raise InputError(
                f"The first row of {self.what} names a sample of the data "
                f"({some(self.columns)}), and the names of the columns are expected there; write "
                "a row of them."
            )
        if is_asked and is_sure:
            return
        more = int((key.at < 0).sum())
        luck = " Those that it names are few, and may be there by luck." if is_asked else ""
        raise InputError(
            f"Column {key.told} of {self.what} lacks {len(lacking)} of the {key.m} samples of "
            f"the data: {some(lacking)}. It names {more} that they do not have.{luck} "
            f"{self.remedies[1]}, or {self.remedies[0]}."
        )


def _ids(text: Mapping[str, Array], wanted: tuple[str, ...]) -> list[str]:
    """Columns that name rows, by what they are called or hold."""
    return [name for name in free(text, wanted) if is_id(name) or names_rows(text[name])]


def _note(key: Key) -> str:
    """What was done, for people."""
    taken = key.rows[key.rows >= 0]
    order = "the same" if (np.diff(taken) > 0).all() else "another"
    told = f" ({key.told})" if key.columns != ("",) else ""
    note = f"rows matched by sample name{told}, in {order} order"
    more, lacking = int((key.at < 0).sum()), int((key.rows < 0).sum())
    if more:
        note += f"; {more:,} rows of samples that the data do not have were passed over"
    if lacking:
        note += f"; {lacking:,} samples of the data are not there"
    return note


# Files ---------------------------------------------------------------------------------------


def read_table(path: str, values: str = "PHENO", remedies: tuple[str, str] = REMEDIES) -> Table:
    """Read a table of text; the separator is taken from its first line.

    A header that lacks a name for the first column (as R writes it) is understood. Where there is
    no header, columns get the names that PLINK has for them: FID, IID, then `values` with a number.
    """
    file = Path(path)
    if not file.is_file():
        if file.exists():
            raise InputError(f"{path} is no file (a folder, a pipe?); pass a TSV or CSV file.")
        raise InputError(f"There is no table at {path}; pass a TSV or CSV file with a header.")
    try:
        frame, has_header = _parsed(file)
    except (ValueError, EOFError, gzip.BadGzipFile, zlib.error) as error:  # pandas' are ValueErrors
        raise InputError(f"{path} cannot be read as a table: {_why(error)}") from error
    if frame.shape[0] == 0 or frame.shape[1] == 0:
        raise InputError(f"{path} holds no rows; pass a table with a header and a row a sample.")
    columns = [frame.iloc[:, i].to_numpy(dtype=object) for i in range(frame.shape[1])]
    if has_header:
        names, assumed = [str(name).removeprefix("#") for name in frame.columns], ""
        names[0] = "" if names[0].startswith("Unnamed: ") else names[0]
    else:
        is_fam = file.suffix.lower() in (".fam", ".psam")
        names = _fam_names(path, len(columns)) if is_fam else _headless(columns, values)
        assumed = f"no header, columns taken for {some(names, 8)}"
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise InputError(f"{path} has two columns {some(map(repr, twice))}; rename one of each.")
    return Table(path, dict(zip(names, columns, strict=True)), assumed, remedies)


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


def _parsed(file: Path) -> tuple[pd.DataFrame, bool]:
    """Columns of text without empty rows, and whether the file has a header."""
    packed = file.read_bytes()
    content = gzip.decompress(packed) if packed.startswith(GZIP) else packed
    if b"\0" in content[:HEAD]:
        raise ValueError(
            "it is UTF-16, or no text (a workbook?). Save it as text in UTF-8; of a table in "
            "UTF-16: iconv -f UTF-16 -t UTF-8 FILE > NEW."
        )
    lines = enumerate(TextIOWrapper(BytesIO(content), "utf-8-sig", errors="replace"))
    told = dropwhile(lambda one: not one[1].strip() or one[1].startswith("##"), lines)
    n_skipped, line = next(told, (0, ""))
    if not line:
        raise ValueError("it is empty")
    separator = next((mark for mark in ("\t", ",", ";") if mark in line), r"\s+")
    fields, below = _fields(line, separator), _fields(next(told, (0, ""))[1], separator)
    if line.startswith("#") and below and _is_comment(fields, below):
        raise ValueError(
            f"its first line is a comment ({line.strip()[:40]!r}), and the names of the columns "
            "are expected there. Remove it, or begin it with ##."
        )
    suffix = file.suffix.lower()
    is_fam = suffix == ".fam" or (suffix == ".psam" and not line.startswith("#"))
    is_fam = is_fam and {"fid", "iid"}.isdisjoint(map(plain, fields[:2]))
    has_header = not is_fam and _is_header(fields)
    twice = sorted({field for field in fields if field and fields.count(field) > 1})
    if has_header and twice:
        raise ValueError(f"two columns are called {twice[0]!r}; rename one of them")
    frame = pd.read_csv(
        BytesIO(content),
        sep=separator,
        skiprows=n_skipped,
        header=0 if has_header else None,
        dtype=str,
        keep_default_na=False,
        encoding="utf-8-sig",
        skipinitialspace=True,
    )
    return _rectangular(frame, by_blanks=separator == r"\s+"), has_header


def _rectangular(frame: pd.DataFrame, *, by_blanks: bool) -> pd.DataFrame:
    """The columns as they were meant, where lines are longer or shorter than the first."""
    if not isinstance(frame.index, pd.RangeIndex):  # a row has one field more than the header
        names, frame = list(frame.columns), frame.reset_index()
        is_empty = (frame.iloc[:, -1].fillna("") == "").all()
        if is_empty and is_id(names[0]):  # for it ends with a separator
            frame = frame.iloc[:, :-1].set_axis(names, axis=1)
        else:
            frame = frame.set_axis(["", *names], axis=1)
    frame = frame.fillna("")
    is_there = (frame != "").any(axis=1).to_numpy()
    is_short = is_there & (frame.iloc[:, -1] == "").to_numpy()
    if by_blanks and is_short.any():
        raise ValueError(
            f"row {int(is_short.argmax()) + 1} has fewer fields than others, so blanks cannot tell "
            "which is missing; write NA for it, or separate columns by tabs"
        )
    return frame[is_there]


def _fields(line: str, separator: str) -> list[str]:
    """Fields of a line, without empty ones at its end."""
    by_blanks = separator == r"\s+"
    fields = line.split() if by_blanks else next(csv.reader([line], delimiter=separator), [])
    fields = [field.strip().strip('"') for field in fields]
    while fields and not fields[-1]:
        fields.pop()
    return fields


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

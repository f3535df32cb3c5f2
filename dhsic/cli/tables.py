"""Tables of labels and covariates (TSV, CSV, white space), and which row is which sample."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dhsic._typing import Array, Index, Mask
from dhsic.cli.talk import some
from dhsic.errors import InputError
from dhsic.sources.target import did_you_mean

#: What stands for a missing value, in any case.
NA = frozenset({"", ".", "na", "nan"})


@dataclass(frozen=True)
class Table:
    """A table of text: columns by name, (rows,) each, in the order of the file."""

    path: str
    columns: Mapping[str, Array]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(next(iter(self.columns.values())))

    def column(self, name: str) -> Array:
        """Text of a column, (rows,)."""
        if name not in self.columns:
            raise InputError(
                f"{self.path} has no column {name!r}; its columns are "
                f"{some((repr(c) for c in self.columns), 20)}.{did_you_mean(name, self.columns)}"
            )
        return self.columns[name]


def read_table(path: str) -> Table:
    """Read a table with a header; the separator is taken from it.

    A header that lacks a name for the first column (as R writes it) is understood.
    """
    import pandas as pd

    file = Path(path)
    if not file.is_file():
        if file.exists():
            raise InputError(f"{path} is no file (a folder, a pipe?); pass a TSV or CSV file.")
        raise InputError(f"There is no table at {path}; pass a TSV or CSV file with a header.")
    try:
        frame = pd.read_csv(file, sep=_separator(file), dtype=str, keep_default_na=False)
    except (ValueError, UnicodeDecodeError) as error:  # pandas' own errors are ValueErrors
        raise InputError(f"{path} cannot be read as a table: {error}") from error
    if not isinstance(frame.index, pd.RangeIndex):
        frame = frame.reset_index(names="")
    if frame.shape[0] == 0 or frame.shape[1] == 0:
        raise InputError(f"{path} holds no rows; pass a table with a header and a row a sample.")
    names = [name.removeprefix("#") for name in frame.columns.astype(str)]
    names[0] = "" if names[0].startswith("Unnamed: ") else names[0]
    columns = (frame.iloc[:, i].fillna("").to_numpy(dtype=object) for i in range(len(names)))
    return Table(path, dict(zip(names, columns, strict=True)))


def _separator(file: Path) -> str:
    with file.open(encoding="utf-8", errors="replace") as lines:
        header = lines.readline()
    return next((mark for mark in ("\t", ",", ";") if mark in header), r"\s+")


@dataclass(frozen=True)
class Alignment:
    """Which row of a table is which sample.

    Attributes
    ----------
    rows : (m,) int64
        Row of every sample, in the order of the samples; -1 where the table has none.
    key : str or None
        Column with the sample names; None where rows were taken in order.
    note : str
        How it came about, for people.
    n_passed_over : int
        Rows of no sample of the data.
    """

    rows: Index
    key: str | None
    note: str
    n_passed_over: int = 0

    def take(self, values: Array) -> Array:
        """A column of the table in the order of the samples; "" where it lacks one."""
        return np.append(values, "")[self.rows]  # the last one, at -1


def align(
    table: Table,
    names: Array | None,
    m: int,
    sample_column: str | None,
    wanted: tuple[str, ...],
    *,
    drop_missing: bool = False,
) -> Alignment:
    """Match the rows of a table to the m samples of the data.

    Parameters
    ----------
    names : (m,) object array or None
        Sample names of the data.
    sample_column : str or None
        Column with sample names, when the user says so; otherwise the first one is tried,
        unless it is among `wanted`.
    wanted : tuple of str
        Columns that hold labels or covariates, so no names.
    drop_missing : bool
        Samples that the table lacks have no values, and are left out as those without one.
    """
    if sample_column is not None:
        if names is None:
            raise InputError(
                f"--sample-column {sample_column!r} was given, and the data have no sample names "
                "to compare with; leave it out to take the rows in order."
            )
        return _by_name(table, names, sample_column, drop_missing=drop_missing)
    first = next(iter(table.columns))
    if names is not None and first not in wanted and set(table.column(first)) & set(_text(names)):
        return _by_name(table, names, first, drop_missing=drop_missing)
    if names is not None and first not in wanted and _names_something(table.column(first)):
        raise InputError(
            f"Column {first!r} of {table.path} looks like names ({some(table.column(first))}), and "
            f"none of them is a sample of the data ({some(_text(names))}). Make them the same, "
            "name another column with --sample-column, or drop the column to take the rows in "
            "order."
        )
    if table.n_rows != m:
        raise InputError(
            f"{table.path} has {table.n_rows} rows and the data have {m} samples, and its first "
            f"column ({first!r}) holds none of their names; name the column that does with "
            "--sample-column, or pass one row a sample."
        )
    return Alignment(
        np.arange(m, dtype=np.int64),
        None,
        "rows taken in order, by position: the table names no samples of the data",
    )


def _names_something(values: Array) -> bool:
    """Whether a column holds a name of its own in every row: text, no numbers."""
    text = values.astype(str)
    return len(np.unique(text)) == len(text) and not any(_is_number(value) for value in text)


def _by_name(table: Table, names: Array, key: str, *, drop_missing: bool) -> Alignment:
    listed, ours = table.column(key), _text(names)
    for what, values in ((f"Column {key!r} of {table.path}", listed), ("The data", ours)):
        unique, counts = np.unique(values.astype(str), return_counts=True)
        if (counts > 1).any():
            raise InputError(
                f"{what} names {int((counts > 1).sum())} samples more than once "
                f"({some(unique[counts > 1])}); make sample names unique."
            )
    row_of = {name: i for i, name in enumerate(listed)}
    lacking = [name for name in ours if name not in row_of]
    if len(lacking) == len(ours) or (lacking and not drop_missing):
        raise InputError(
            f"Column {key!r} of {table.path} lacks {len(lacking)} of the {len(ours)} samples of "
            f"the data: {some(lacking)}. It names {len(row_of) - len(ours) + len(lacking)} that "
            "they do not have. Leave those out with --drop-missing, add rows for them, or name "
            "another column with --sample-column."
        )
    rows = np.array([row_of.get(name, -1) for name in ours], dtype=np.int64)
    more = len(row_of) - len(ours) + len(lacking)
    note = f"rows matched by sample name ({key!r})" if key else "rows matched by sample name"
    if not more and (rows == np.arange(len(rows))).all():
        note += ", in the same order"
    elif not more:
        note += ", in another order"
    else:
        note += f"; {more:,} rows of samples that the data do not have were passed over"
    return Alignment(rows, key, note, more)


def _text(names: Array) -> Array:
    return np.array([str(name) for name in names], dtype=object)


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
        coded = [float(code) for code in na if _is_number(code)]
        missing = np.isin(values, coded) if coded else np.zeros(values.shape, dtype=bool)
        return np.where(missing, np.nan, values) if missing.any() else values
    text = _text(np.char.decode(values) if values.dtype.kind == "S" else values)
    kept = {t.strip().lower() for t in not_na}
    absent = NA - kept
    missing = np.array([t.strip().lower() in absent or t.strip() in na for t in text], dtype=bool)
    if values.dtype.kind == "U":
        return np.where(missing, "", values)
    if missing.all() or not all(_is_number(t) for t in text[~missing]):
        return np.where(missing, "", text)
    numbers = np.full(text.shape, np.nan)
    numbers[~missing] = text[~missing].astype(np.float64)
    return numbers


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
    text = _text(np.char.decode(values) if values.dtype.kind == "S" else values)
    said = [t.strip() for t in text]
    return np.array([int(t) if t.lstrip("+-").isdecimal() else 0 for t in said], dtype=object)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True

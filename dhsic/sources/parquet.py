"""Parquet and Feather: tables of typed columns, of which those of a block alone are read.

Columns are as in `dhsic.sources.tables`. Numbers keep their type where all columns have one, and
none lacks a value; else they are float64, or float32 where all are that.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dhsic._typing import Array, Index
from dhsic.errors import DataError, InputError
from dhsic.sources import AbstractSource, AbstractStored, Names
from dhsic.sources.arrays import ArraySource
from dhsic.sources.arrow import UNNAMED, AbstractArrowTable, arrow_table
from dhsic.sources.blocks import Block, check_finite, take_rows
from dhsic.sources.ids import abbreviate
from dhsic.sources.odd_fields import no_features
from dhsic.sources.options import OpenOptions
from dhsic.sources.options import text as as_text
from dhsic.sources.row_numbers import (
    counting_columns,
    refuse_counting,
    refuse_rising,
    rising_columns,
)
from dhsic.sources.tables import (
    TableColumns,
    check_known,
    check_room,
    is_turned,
    refuse_counted,
    refuse_parts,
)
from dhsic.validation import EXACT

#: Values of a table up to which all are looked at when it is opened, for columns that count rows.
MOST_VALUES = 1 << 22


class ParquetSource(AbstractStored):
    """Columns of numbers of a table of Arrow, a sample a row."""

    def __init__(
        self, file: AbstractArrowTable, features: tuple[str, ...], names: Names, code: int | None
    ) -> None:
        self.file, self.features, self.names, self.missing_code = file, features, names, code
        self.n_samples, self.n_features = file.n_rows, len(features)
        self.dtype = file.dtype(features)

    def read(self, block: Block, rows: Index | None = None) -> Array:
        features = self.features[block.start : block.stop]
        table = self.file.read(list(features))
        values = np.empty((block.width, self.n_samples), self.dtype)
        for i, name in enumerate(features):
            values[i] = self._column(table.column(name), name)
        values = np.ascontiguousarray(take_rows(values, rows, slice(0, self.n_samples)))
        check_finite(values, block, rows, None, self.missing_code)
        return values.T

    def _column(self, column: Any, name: str) -> Array:
        if self.file.is_decimal(name):
            self._check_decimal(column, name)
            column = column.cast("float64", safe=False)
        elif self.dtype.kind == "f" and column.null_count:
            column = column.cast("float64", safe=self.dtype.itemsize == np.dtype(float).itemsize)
        elif column.null_count:
            raise DataError(
                f"Column {name!r} of {self.file.path} lacks {column.null_count} values, which its "
                "statistics do not say. Write the file again."
            )
        return np.asarray(column.to_numpy())

    def _check_decimal(self, column: Any, name: str) -> None:
        """Refuse whole numbers beyond those of which float64 holds every one."""
        if any(kind.scale > 0 for kind in self.file.types[name]):
            return
        values = np.abs(column.cast("float64", safe=False).to_numpy())
        if np.nanmax(values, initial=0) > EXACT:
            raise DataError(
                f"Column {name!r} of {self.file.path} holds integers beyond 2**53, up to which "
                "float64 holds every integer; digits would be lost. Leave the column out "
                "(not_features=) if it is a name and no number, or subtract an offset."
            )

    @property
    def layout(self) -> Any:
        return "parquet", self.features


def open_parquet(path: str, options: OpenOptions) -> AbstractSource:
    """Open Parquet or Feather, a sample a row; turned, it is read whole.

    Raises
    ------
    InputError
        Columns hold no numbers; the message names them.
    MemoryBudgetError
        It is to be turned, and does not fit into memory.
    """
    refuse_parts(path, options)
    file, turned, apart = arrow_table(path), is_turned(options, path), tuple(options.not_features)
    check_known(path, apart, file.names)
    others = [name for name in file.names if name not in file.index]
    if not others or not file.n_rows:
        raise InputError(f"{path} has {file.n_rows} rows and no column of features. Check it.")
    is_text = not file.is_number(others[0])
    found = TableColumns.of(others, apart, is_text=is_text, turned=turned)
    index = tuple(name for name in file.index if name not in apart)
    if found.ids and all(map(UNNAMED.fullmatch, index)) and _repeats(file, index):
        index = ()  # a column names the rows, and the index of pandas does not
    ids: tuple[str, ...] = index or tuple(others[i] for i in found.ids)
    of_folders = [name for name in file.partitions if name not in apart]
    assumed = (*(others[i] for i in found.assumed), *of_folders)
    taken = {*ids, *apart, *assumed}
    features = tuple(name for name in others if name not in taken)
    odd = [name for name in features if not file.is_number(name)]
    if odd or not features:
        listed = abbreviate((f"{n!r}: {file.type_text(n)}" for n in odd), 4)
        remedy = no_features(odd) if odd else "Check which columns are said to be none."
        raise InputError(
            f"{path} has {f'columns that hold no numbers ({listed})' if odd else 'no features'}, "
            f"and features are numbers. {remedy}"
        )
    held = [name for name in (*apart, *assumed) if name not in ids and not turned]
    source = _source(file, options, ids, features, held, turned=turned)
    source.not_features = (*apart, *assumed)
    hints = ["" if turned else found.hint(path), _of_partitions(path, of_folders)]
    source.hint = " ".join(filter(None, hints))
    return source


def _repeats(file: AbstractArrowTable, index: tuple[str, ...]) -> bool:
    """Whether an index is one column, and names rows more than once."""
    return len(index) == 1 and len(set(file.text(index[0]).tolist())) < file.n_rows


def _of_partitions(path: str, names: list[str]) -> str:
    """Sentence on columns that folders are named by; "" for none."""
    if not names:
        return ""
    return (
        f"Columns that the folders of {path} are named by ({abbreviate(map(repr, names))}) are no "
        "features; they may be a target or covariates."
    )


def _source(
    file: AbstractArrowTable,
    options: OpenOptions,
    ids: tuple[str, ...],
    features: tuple[str, ...],
    held: list[str],
    *,
    turned: bool,
) -> AbstractSource:
    path, across = file.path, np.array(features, dtype=object)
    options.feature_axis((file.n_rows, len(features)), None, path, convention=1)
    where = TableColumns(ids, are_named=True, ids=tuple(range(len(ids))), apart=(), numbers=())
    columns = [as_text(file.text(name)) for name in ids]
    along = where.row_names(path, columns, turned=turned)
    code, n_bytes = options.code_of(), 8 * file.n_rows * len(features)
    coords = {name: file.text(name) for name in held}
    names = Names(across, along, sample_coords=coords)
    source = ParquetSource(file, features, names, code)
    if not ids and features[0] == file.names[0]:
        values = source.read(Block(0, 0, 1))[:, 0].astype(np.float64)
        refuse_counted(path, f"column {features[0]!r}", values)
    if not turned:
        _refuse_row_numbers(source)
        return source
    check_room(2 * n_bytes, path, (file.n_rows, len(features)))
    whole = source.read(Block(0, 0, len(features))).T
    return ArraySource(whole, missing_code=code, names=Names(along, across))


def _refuse_row_numbers(source: ParquetSource) -> None:
    """Refuse columns that count rows in some order, or rise from each row to the next.

    Of tables that are too large to read them here, columns of integers alone are looked at.
    """
    file, n, d = source.file, source.n_samples, source.n_features
    at = np.arange(d)
    if n * d > MOST_VALUES:
        at = np.flatnonzero([file.is_whole(name) for name in source.features])
    if not at.size or n * at.size > MOST_VALUES:
        return
    names = tuple(source.features[i] for i in at)
    part = ParquetSource(file, names, Names(), source.missing_code)
    X = part.read(Block(0, 0, len(names))).astype(np.float64)
    if counting := counting_columns(X.__getitem__, (n, d)):
        listed = [names[i] for i in counting]
        refuse_counting(file.path, listed, f"not_features={listed[:4]!r}")
    if rising := rising_columns(X.__getitem__, (n, d)):
        named = [(f"column {names[i]!r}", names[i], a, b) for i, a, b in rising]
        refuse_rising(file.path, named)

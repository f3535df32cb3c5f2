"""Keys of a table: columns of ids, or combinations of them, that identify its rows as samples.

A key is a column, or two or three of FID, IID and SID together. `dhsic.joins.table` decides which
key is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from unicodedata import normalize

import numpy as np
import pandas as pd

from dhsic._typing import Array, Index
from dhsic.sources.counted_names import written_once
from dhsic.sources.ids import NAMELESS, PARENTS, is_id, is_index, plain
from dhsic.validation import is_numeral

#: Names of the columns of PLINK files that identify a sample.
FAMILY, SAMPLE, SOURCE, JOINED = "fid", "iid", "sid", "fidiid"


def as_text(values: Any) -> Array:
    """Return ids as stripped text; tuples are joined by "_", integral floats become integers.

    Accented letters are composed (NFC), because programs differ in their Unicode form.

    >>> as_text(np.array([1.0, 2.0])).tolist(), as_text(["a ", "b"]).tolist()
    (['1', '2'], ['a', 'b'])
    """
    written = (v.strip() if type(v) is str else _written(v) for v in values)
    composed = (text if text.isascii() else normalize("NFC", text) for text in written)
    return np.array([*composed], dtype=object)


def _written(value: Any) -> str:
    """Convert one id to text, see `as_text`."""
    if isinstance(value, tuple):
        return "_".join(map(_written, value))
    if isinstance(value, bytes):
        return value.decode(errors="replace").strip()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def names_rows(values: Array) -> bool:
    """Whether every row of a text column has a different value that is not a number."""
    return len(values) > 2 and pd.Index(values).is_unique and not any(map(is_numeral, values))


def is_count(names: Any) -> bool:
    """Whether names are 0, 1, 2, ..., like the default index of pandas."""
    return is_whole(names) and bool((np.asarray(names) == np.arange(len(names))).all())


def is_whole(names: Any) -> bool:
    """Whether names have an integer type; text does not."""
    index = pd.Index(np.asarray(names), tupleize_cols=False)
    return bool(pd.api.types.is_integer_dtype(index.infer_objects()))


def quoted(name: str) -> str:
    """Format a column name for messages; the first column may have no name."""
    return repr(name) if name else "(unnamed)"


@dataclass(frozen=True)
class Key:
    """One to three columns of a table that may name the samples, and the match by these names."""

    columns: tuple[str, ...]  # columns; the names are their joined values
    description: str  # of the columns, for messages
    values: Array  # (rows,), the names
    at: Index  # (rows,), position of the named sample; -1 if none
    m: int  # number of samples
    is_id: bool = True  # the column name is typical of ids
    is_luck: bool = False  # the match may be due to chance
    is_family: bool = False  # a FID with repeats, in a table with IIDs

    @cached_property
    def rows(self) -> Index:
        """First row that names each sample, (m,); -1 for samples that no row names."""
        rows = np.full(self.m, -1, dtype=np.int64)
        named_rows = np.flatnonzero(self.at >= 0)[::-1]
        rows[self.at[named_rows]] = named_rows
        return rows

    @cached_property
    def n_named(self) -> int:
        """Number of samples that the key matches."""
        return int((self.rows >= 0).sum())

    @cached_property
    def repeated(self) -> Array:
        """Names of samples that occur in several rows."""
        names = self.values[self.at >= 0]
        return np.unique(names[pd.Index(names).duplicated()].astype(str))

    @property
    def is_whole(self) -> bool:
        """Whether the key matches all samples."""
        return self.n_named == self.m

    @property
    def is_large(self) -> bool:
        """Whether the key matches at least half of the samples, or of the rows."""
        return 2 * self.n_named >= min(self.m, len(self.at))

    @property
    def counts(self) -> bool:
        """Whether the key is plausible: its matches are probably not due to chance."""
        is_certain = self.is_whole or self.is_id or (self.is_large and not self.is_luck)
        return is_certain and self.n_named > 0 and not self.is_family

    @property
    def worth(self) -> tuple[bool | int, ...]:
        """Sort key for comparing keys: the best key has the largest.

        The criteria, most important first: id columns, then FID and unnamed columns, then others;
        complete matches without repeated samples; matches that are not due to chance; the number of
        matched samples; the column IID.
        """
        name = plain(self.columns[0]) if len(self.columns) == 1 else JOINED
        by_name = self.is_id and name not in {FAMILY, *NAMELESS}, self.is_id
        is_clean = self.is_whole and not self.repeated.size
        return *by_name, is_clean, not self.is_luck, self.is_whole, self.n_named, name == SAMPLE

    def differs(self, other: Key) -> Index:
        """Return the indices of samples that `other` matches to different or additional rows."""
        named_rows = np.flatnonzero(other.at >= 0)
        return np.unique(other.at[named_rows[self.rows[other.at[named_rows]] != named_rows]])


@dataclass(frozen=True)
class Keys:
    """All possible keys of a table."""

    columns: Mapping[str, Array]  # text columns, (rows,) each
    wanted: tuple[str, ...]  # columns of labels or covariates, which are not keys
    ours: Array  # (m,), sample names of the data
    #: Whether the sample names only count rows; such an index of the table is not a key either.
    count_rows: bool = False

    def all(self, sample_column: str | None = None) -> list[Key]:
        """Return the keys of all columns, or of `sample_column` only.

        If none of them is plausible, keys for doubled ids (``id_id``) are appended.
        """
        direct = list(self._direct(sample_column))
        return direct if any(key.counts for key in direct) else [*direct, *self._twice(direct)]

    def _direct(self, sample_column: str | None) -> Iterator[Key]:
        """Yield the keys that use names unchanged; see `_twice` for doubled ids."""
        if sample_column is not None and sample_column in self.columns:
            values = self.columns[sample_column]
            yield self._of((sample_column,), quoted(sample_column), values)
            return
        names = free(self.columns, self.wanted) if sample_column is None else []
        has_ids = any(is_id(name) and plain(name) not in NAMELESS for name in names)
        for name in names:
            if not ((has_ids or self.count_rows) and is_index(name, self.columns[name])):
                yield self._judged(self._of((name,), quoted(name), self.columns[name]))
        yield from self._combined_keys()

    def _combined_keys(self) -> Iterator[Key]:
        """Yield the keys that join FID and IID, IID and SID, or all three columns."""
        for names in (FAMILY, SAMPLE), (SAMPLE, SOURCE), (FAMILY, SAMPLE, SOURCE):
            columns = tuple(column for name in names if (column := self._called(name)) is not None)
            if len(columns) == len(names):
                ids = zip(*(self.columns[column] for column in columns), strict=True)
                values = np.array(["_".join(each) for each in ids], dtype=object)
                listed = f"{', '.join(map(repr, columns[:-1]))} and {columns[-1]!r}"
                yield self._of(columns, f"{listed} as {'_'.join(columns)}", values)

    def _twice(self, keys: list[Key]) -> Iterator[Key]:
        """Yield keys for doubled ids (``id_id``), which tools write for data without families."""
        fid, iid = self._called(FAMILY), self._called(SAMPLE)
        if fid is not None and iid is not None:
            families = self.columns[fid]
            if not ((families == "0") | (families == self.columns[iid])).all():
                return  # a family name is not a sample name
            keys = [key for key in keys if key.columns == (iid,)]
        are_twice = written_once(self.ours) is not None
        for key in keys:
            once = written_once(key.values)
            if once is not None:
                yield self._of(key.columns, f"{key.description} without its repetition", once)
            elif key.is_id and are_twice:
                twice = np.array([f"{value}_{value}" for value in key.values], dtype=object)
                yield self._of(key.columns, f"{key.description} written twice", twice)

    def _of(self, columns: tuple[str, ...], description: str, values: Array) -> Key:
        """Create a key from the names (rows,) in one to three columns."""
        at = self._index.get_indexer(pd.Index(values, dtype=object))
        return Key(columns, description, values, at.astype(np.int64), len(self.ours))

    def _judged(self, key: Key) -> Key:
        """Classify a key by the name and the values of its column."""
        name = key.columns[0]
        if is_index(name, key.values):
            moves = not key.is_whole or bool((key.rows != np.arange(key.m)).any())
            return replace(key, is_id=not moves, is_luck=moves)
        if not is_id(name):
            return replace(key, is_id=False, is_luck=self._is_dense)
        repeats = plain(name) == FAMILY and not pd.Index(key.values).is_unique
        return replace(key, is_family=repeats and self._called(SAMPLE) is not None)

    def _called(self, name: str) -> str | None:
        """Return the column whose normalised name (`plain`) is `name`; None if there is none."""
        return next((column for column in self.columns if plain(column) == name), None)

    @cached_property
    def _index(self) -> pd.Index:
        return pd.Index(self.ours, dtype=object)

    @cached_property
    def _is_dense(self) -> bool:
        """Whether sample names are integers that nearly fill their range."""
        if not all(name.isdecimal() for name in self.ours):
            return False
        numbers = [int(name) for name in self.ours]
        return max(numbers) - min(numbers) < 2 * len(numbers)


def free(columns: Mapping[str, Array], wanted: tuple[str, ...]) -> list[str]:
    """Return the columns that may contain sample names: no values, and no ids of parents."""
    return [name for name in columns if name not in wanted and plain(name) not in PARENTS]

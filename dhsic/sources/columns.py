"""Column: one stored value per feature (a name, a position), read in parts.

Ten million names need a gigabyte of memory as text. A result of many features therefore refers to
the stored names. They are read on demand, only for the features in question, and written in parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from xarray.backends import BackendArray
from xarray.core import indexing

from dhsic._typing import Array, Index
from dhsic.namespace import slices

#: Key of the column of feature names.
NAME = "feature"
#: Number of features read at a time.
STRETCH = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """Values (n,) of `dtype`, one per feature.

    `read` returns the values in a slice, and is sent to workers.
    """

    n: int
    dtype: Any
    read: Callable[[slice], Array]

    def parts(self) -> Iterator[Array]:
        """Yield all values in parts of `STRETCH` features."""
        return (self.read(rows) for rows in slices(self.n, STRETCH))

    def at(self, features: Index) -> Array:
        """Return the values of the features at some positions, (c,), in the given order."""
        out = np.empty(features.size, dtype=self.dtype)
        order = np.argsort(features, kind="stable")
        ascending = features[order]
        edges = np.searchsorted(ascending, np.arange(0, self.n + STRETCH, STRETCH))
        for a, b in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            if b > a:
                first = int(ascending[a])
                values = self.read(slice(first, int(ascending[b - 1]) + 1))
                out[order[a:b]] = values[ascending[a:b] - first]
        return out

    def of(self, features: Index) -> Column:
        """Return the column of an ascending subset of features."""
        return Column(features.size, self.dtype, _SubsetReader(self, features))

    def lazily(self) -> Any:
        """Return the column as data of an xarray variable: read on demand, then kept in memory."""
        unread: Any = indexing.LazilyIndexedArray(_LazyColumn(self))
        return indexing.MemoryCachedArray(indexing.CopyOnWriteArray(unread))  # type: ignore[no-untyped-call]  # xarray's


def all_differ(parts: Callable[[], Iterable[Array]]) -> bool:
    """Whether all texts differ; each call of `parts` returns all of them, in parts.

    First 64-bit hashes of the texts are compared, then the texts with equal hashes.

    >>> all_differ(lambda: [np.array(["a", "b"], dtype=object), np.array(["c"], dtype=object)])
    True
    """
    twice = repeated_bits(parts())
    known_texts: set[str] = set()
    for part in parts() if twice.size else ():
        for name in part[np.isin(bits_of(part), twice)]:
            if name in known_texts:
                return False
            known_texts.add(name)
    return True


def repeated_bits(parts: Iterable[Array]) -> Array:
    """Return the 64-bit hashes, ascending, that occur more than once for the texts in `parts`."""
    hashes = np.concatenate([np.empty(0, np.uint64), *map(bits_of, parts)])
    hashes.sort()
    return np.unique(hashes[1:][hashes[1:] == hashes[:-1]])


def bits_of(texts: Array) -> Array:
    """Return a 64-bit hash of each text."""
    return np.asarray(pd.util.hash_array(texts, categorize=False))


@dataclass(frozen=True, slots=True, eq=False)
class _SubsetReader:
    """Reader of the values of a column for an ascending subset of features."""

    column: Column
    features: Index

    def __call__(self, rows: slice) -> Array:
        return self.column.at(self.features[rows])


class _LazyColumn(BackendArray):
    """Adapter from a column to the lazy arrays of xarray."""

    def __init__(self, column: Column) -> None:
        self.column, self.shape, self.dtype = column, (column.n,), np.dtype(column.dtype)

    def __getitem__(self, key: Any) -> Any:
        outer = indexing.IndexingSupport.OUTER
        return indexing.explicit_indexing_adapter(key, self.shape, outer, self._read_part)

    def _read_part(self, key: tuple[Any, ...]) -> Any:
        (which,), n = key, self.column.n
        if isinstance(which, slice) and which.step in (None, 1):
            start, stop, _ = which.indices(n)
            starts = range(start, stop, STRETCH)
            parts = [self.column.read(slice(a, min(a + STRETCH, stop))) for a in starts]
            return np.concatenate([np.empty(0, self.dtype), *parts])
        at = np.arange(*which.indices(n)) if isinstance(which, slice) else np.asarray(which)
        at = np.where(at < 0, at + n, at)
        return self.column.at(at.ravel()).reshape(at.shape)

"""What is converted, seen features first: (features, samples), or with alleles besides.

A source is read as selections read it; only genotypes come as they are stored, with the alleles
of each copy. A table of text is read on from where it was left, since it has no other way.
"""

from __future__ import annotations

import hashlib
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import islice
from math import prod
from typing import Any

import numpy as np

from dhsic._typing import Array
from dhsic.errors import DataError
from dhsic.sources import AbstractSource, Block, check_finite
from dhsic.sources.tables import TextTable, refuse_counted

#: Features that are read to tell one matrix from another.
LOOKED_AT = 64


class AbstractMatrix(ABC):
    """A matrix of d features and m samples that is read in rectangles.

    Attributes
    ----------
    shape : tuple of int
        (d, m), and what a value has besides.
    dtype : numpy.dtype
    grid : tuple of int
        Features and samples that storage gives at once.
    chunk_bytes : int
        Bytes of what it gives at once, decoded.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    grid: tuple[int, int]
    chunk_bytes: int

    @property
    def value_bytes(self) -> int:
        """Bytes of a value of one sample."""
        return int(prod(self.shape[2:]) * self.dtype.itemsize)

    @abstractmethod
    def read(self, features: slice, samples: slice) -> Array:
        """Values of a rectangle, (c, k, ...), C-ordered."""

    def identity(self) -> str:
        """Digest of the shape and of two corners."""
        (d, m), (_, rows) = self.shape[:2], self.grid
        digest = hashlib.sha256(repr((self.shape, str(self.dtype), self.grid)).encode())
        ends = slice(0, min(rows, m)), slice(max(0, (m - 1) // rows * rows), m)
        for samples in ends:
            corner: Any = self.read(slice(0, min(LOOKED_AT, d)), samples)
            digest.update(zlib.crc32(corner).to_bytes(4, "big"))
        return digest.hexdigest()


class SourceMatrix(AbstractMatrix):
    """The matrix of a source."""

    def __init__(self, source: AbstractSource) -> None:
        self._source, chunked = source, source.chunked
        self._raw = None if chunked is None or len(chunked.shape) < 3 else chunked
        self.shape = (source.n_features, source.n_samples)
        self.dtype, self.grid = np.dtype(source.dtype), (1, source.n_samples)
        self.chunk_bytes = source.chunk_bytes
        if chunked is not None:
            axis = chunked.feature_axis
            self.grid = int(chunked.grid[axis]), int(chunked.grid[1 - axis])
        if self._raw is not None:
            self.shape = (*self.shape, *self._raw.shape[2:])
            self.dtype = np.dtype(self._raw.dtype)

    def read(self, features: slice, samples: slice) -> Array:
        block = Block(0, features.start, features.stop)
        rows = np.arange(samples.start, samples.stop, dtype=np.int64)
        if self._raw is not None:
            return self._raw.read(block, rows)
        return np.ascontiguousarray(self._source.read(block, rows).T)


class TextMatrix(AbstractMatrix):
    """The numbers of a table of text; a first pass over it counts rows and takes what they are."""

    def __init__(self, table: TextTable) -> None:
        self._table, columns = table, table.columns
        self._at, self._rows = 0, table.rows()
        beside, n, first = [], 0, []
        for fields, numbers in table.rows():
            beside.append([fields[i] for i in (*columns.ids, *columns.apart)])
            first.append(numbers[0])
            n += 1
        self.beside = list(np.array(beside, dtype=object).reshape(n, -1).T)
        if not columns.ids and columns.numbers[0] == 0:
            refuse_counted(table.path, columns.called(0), np.array(first))
        width = len(columns.numbers)
        self.shape = (n, width) if table.turned else (width, n)
        self.dtype, self.chunk_bytes = np.dtype(np.float64), 8 * width
        self.grid = (1, width) if table.turned else (width, 1)

    def read(self, features: slice, samples: slice) -> Array:
        rows, columns = (features, samples) if self._table.turned else (samples, features)
        if rows.start < self._at:
            self._at, self._rows = 0, self._table.rows()
        found = islice(self._rows, rows.start - self._at, rows.stop - self._at)
        values = np.array([numbers[columns] for numbers in self._numbers(found)])
        self._at = rows.stop
        if len(values) < rows.stop - rows.start:
            raise DataError(f"{self._table.path} was cut while it was read. Convert it again.")
        if not self._table.turned:
            values = np.ascontiguousarray(values.T)
        block = Block(0, features.start, features.stop)
        check_finite(values, block, np.arange(samples.start, samples.stop), None, None)
        return values

    @staticmethod
    def _numbers(found: Iterator[tuple[list[str], Array]]) -> Iterator[Array]:
        return (numbers for _, numbers in found)

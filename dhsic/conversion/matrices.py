"""Matrices to convert, and the passes that convert them.

A matrix has features along the first axis and samples along the second. Genotypes are read as
stored and have a third axis, the allele copies. A text table can only be read sequentially.

A pass reads the matrix in *rectangles* of some features and some samples, and writes each as
complete chunks. A chunk of the input may overlap many rectangles, for example if it contains all
features of one sample, and rectangles contain all samples of some features. It would then be
decoded once per rectangle. In this case there are two passes, as in Pangeo's rechunker. The first
writes intermediate chunks, which have the features of a final chunk but fewer samples. The second
merges them.
"""

from __future__ import annotations

import hashlib
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, pairwise
from math import ceil, prod
from typing import Any

import numpy as np

from dhsic._typing import Array
from dhsic.errors import DataError, MemoryBudgetError
from dhsic.memory import SLACK_BYTES, human
from dhsic.sources import AbstractSource
from dhsic.sources.blocks import Block, check_finite, regular_edges
from dhsic.sources.codecs import AT_ONCE
from dhsic.sources.text_tables import TextTable

#: Number of features read to identify a matrix.
LOOKED_AT = 64
#: Copies of a rectangle or chunk in memory: decoded, transposed, and encoded.
COPIES = 4
#: Preferred size of a rectangle in bytes.
ENOUGH = 64 << 20
#: If chunks are decoded more often than this on average, an additional pass is faster.
OFTEN = 3.0


class AbstractMatrix(ABC):
    """Matrix of d features and m samples that is read in rectangles.

    Attributes
    ----------
    shape : tuple of int
        (d, m), and for genotypes the number of allele copies.
    dtype : numpy.dtype
        Type of the values.
    grid : tuple of int
        Numbers of features and samples per stored chunk.
    chunk_bytes : int
        Number of bytes of a decoded chunk.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    grid: tuple[int, int]
    chunk_bytes: int

    @property
    def value_bytes(self) -> int:
        """Number of bytes per feature and sample."""
        return int(prod(self.shape[2:]) * self.dtype.itemsize)

    @abstractmethod
    def read(self, features: slice, samples: slice) -> Array:
        """Read a rectangle of c features and k samples, (c, k, ...), C-ordered."""

    def identity(self) -> str:
        """Return a digest of the shape and some values, to recognise the same data later.

        The values are those of the first features in the first and the last samples.
        """
        (d, m), (_, rows) = self.shape[:2], self.grid
        digest = hashlib.sha256(repr((self.shape, str(self.dtype), self.grid)).encode())
        ends = slice(0, min(rows, m)), slice(max(0, (m - 1) // rows * rows), m)
        for samples in ends:
            corner: Any = self.read(slice(0, min(LOOKED_AT, d)), samples)
            digest.update(zlib.crc32(corner).to_bytes(4, "big"))
        return digest.hexdigest()


class SourceMatrix(AbstractMatrix):
    """Matrix that is read from a source."""

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
    """Numeric columns of a text table; a first pass counts rows and reads names and labels."""

    def __init__(self, table: TextTable) -> None:
        self._table, columns = table, table.columns
        self._at, self._rows = 0, table.rows()
        beside, n, first = [], 0, []
        for fields, numbers in table.rows():
            beside.append([fields[i] for i in (*columns.ids, *columns.apart)])
            first.append(numbers[0])
            n += 1
        self.beside, self.first = beside, np.array(first)
        width = len(columns.numbers)
        self.shape = (n, width) if table.turned else (width, n)
        self.dtype, self.chunk_bytes = np.dtype(np.float64), 8 * width
        self.grid = (1, width) if table.turned else (width, 1)

    def read(self, features: slice, samples: slice) -> Array:
        rows, columns = (features, samples) if self._table.turned else (samples, features)
        if rows.start < self._at:
            self._at, self._rows = 0, self._table.rows()
        lines = islice(self._rows, rows.start - self._at, rows.stop - self._at)
        values = np.array([numbers[columns] for numbers in self._numbers(lines)])
        self._at = rows.stop
        if len(values) < rows.stop - rows.start:
            raise DataError(
                f"{self._table.path} became shorter while it was read. Convert it again."
            )
        if not self._table.turned:
            values = np.ascontiguousarray(values.T)
        block = Block(0, features.start, features.stop)
        check_finite(values, block, np.arange(samples.start, samples.stop), None, None)
        return values

    @staticmethod
    def _numbers(found: Iterator[tuple[list[str], Array]]) -> Iterator[Array]:
        return (numbers for _, numbers in found)


# Rectangles -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pass:
    """Pass over a matrix: the sizes (features, samples) of written chunks and of rectangles."""

    chunks: tuple[int, int]
    rectangle: tuple[int, int]

    def rectangles(self, d: int, m: int) -> Iterator[tuple[slice, slice]]:
        """Yield the slices (features, samples) of all rectangles, by ascending samples.

        In this order a text table is read only once.
        """
        for s, t in pairwise(regular_edges(m, self.rectangle[1]).tolist()):
            for a, b in pairwise(regular_edges(d, self.rectangle[0]).tolist()):
                yield slice(a, b), slice(s, t)

    def decoded(self, grid: tuple[int, int], shape: tuple[int, ...]) -> float:
        """Return how often the pass decodes a stored chunk on average.

        `grid` is the size of a stored chunk, and `shape` the size of the matrix.
        """
        times = 1.0
        for n, run, chunk in zip(shape, self.rectangle, grid, strict=False):
            edges = regular_edges(n, run).tolist()
            times *= sum(ceil(b / chunk) - a // chunk for a, b in pairwise(edges))
            times /= ceil(n / chunk)
        return times


def passes_of(
    matrix: AbstractMatrix, chunks: tuple[int, int], process: int, memory: int
) -> list[Pass]:
    """Plan one or two passes that write a matrix in chunks, with at most `memory` bytes.

    Parameters
    ----------
    chunks : tuple of int
        Numbers of features and samples per chunk.
    process : int
        Number of bytes that the process already uses.

    Raises
    ------
    MemoryBudgetError
        The passes do not fit into `memory`; the message states both sizes.
    """
    max_values = room_of(matrix, process, memory)
    if max_values < prod(chunks):
        lacking = (prod(chunks) - max_values) * COPIES * matrix.value_bytes
        needed = human(memory + lacking)
        raise MemoryBudgetError(
            f"Converting a matrix of {matrix.shape[0]:,} features and {matrix.shape[1]:,} "
            f"samples, stored in chunks of {human(matrix.chunk_bytes)}, needs {needed} of "
            f"memory, but the limit is {human(memory)}. Raise the limit (memory_limit=) if the "
            "machine has more."
        )
    direct = Pass(chunks, _direct(matrix, chunks, max_values))
    often = direct.decoded(matrix.grid, matrix.shape)
    between = _between(matrix, chunks, max_values)
    if often <= max(OFTEN, 2 * between.decoded(matrix.grid, matrix.shape)):
        return [direct]
    n = max(1, min(max_values, ENOUGH // matrix.value_bytes) // prod(chunks))
    return [between, Pass(chunks, (n * chunks[0], chunks[1]))]


def room_of(matrix: AbstractMatrix, process: int, memory: int) -> int:
    """Return the maximum number of values per rectangle for a limit of `memory` bytes.

    `process` is the number of bytes that the process already uses.
    """
    n_chunks = prod(ceil(n / k) for n, k in zip(matrix.shape, matrix.grid, strict=False))
    reserved = process + SLACK_BYTES + COPIES * min(AT_ONCE, n_chunks) * matrix.chunk_bytes
    return (memory - reserved) // (COPIES * matrix.value_bytes)


def _direct(matrix: AbstractMatrix, chunks: tuple[int, int], room: int) -> tuple[int, int]:
    """Return the size (features, samples) of the rectangles of a single pass, in whole chunks.

    A rectangle has at most `room` values. It contains all samples if they fit.
    """
    (d, m), (width, height) = matrix.shape[:2], chunks
    enough = max(ENOUGH // matrix.value_bytes, width * height)
    samples = m if width * m <= room else max(height, room // width // height * height)
    width_wanted = max(enough // samples, min(matrix.grid[0], d))
    n = max(1, min(room // samples, width_wanted) // width)
    return min(n * width, ceil(d / width) * width), samples


def _between(matrix: AbstractMatrix, chunks: tuple[int, int], room: int) -> Pass:
    """Plan the first of two passes, with rectangles of all features and some samples.

    A rectangle has at most `room` values. If these are too few for all features, it has fewer
    features.
    """
    (d, m), width, (_, rows) = matrix.shape[:2], chunks[0], matrix.grid
    features = ceil(d / width) * width
    if features * rows > room:
        features = max(1, room // rows // width) * width
    samples = min(max(1, room // features // rows) * rows, m)
    return Pass((width, samples), (features, samples))

"""Sparse matrices that remain on disk; a block of features is read in bounded memory.

If a matrix is stored by features (CSC of AnnData), only the entries of a block are read. If it is
stored by samples (CSR), the entries of a feature are spread over the file. Every process that reads
such a matrix first sorts the entries into groups of features, a few rows at a time, in an unnamed
temporary file. The values are bitwise equal to the values that are read into memory as a whole.
"""

from __future__ import annotations

import os
import secrets
import tempfile
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

import numpy as np

from dhsic._typing import Array, Index
from dhsic.errors import DataError, ScratchError
from dhsic.sources import AbstractStored, Names
from dhsic.sources.blocks import Block, check_dtype, check_finite, check_shape, run_of
from dhsic.sources.sparse import dense_columns, places_of

#: Maximum number of bytes of a stored matrix that is read into memory, which is faster.
HELD_BYTES = 64 << 20
#: Maximum number of bytes of a chunk for reading by blocks, which decodes chunks repeatedly.
CHUNK_BYTES = 16 << 20
#: Minimum number of entries that are sorted at a time, and maximum number of steps.
ENTRIES, MOST_STEPS = 1 << 19, 1 << 11
#: Number of features of a group in the temporary file; their numbers fit into one byte.
GROUP = 32


def stays_stored(sizes: Iterable[tuple[int, int]]) -> bool:
    """Whether to read a sparse matrix by blocks, because it is large and its chunks are small.

    `sizes` contains, for each array, its number of bytes and the number of bytes per chunk (0 for
    arrays without chunks).
    """
    array_bytes, chunks = zip(*sizes, strict=True)
    return bool(sum(array_bytes) > HELD_BYTES and max(chunks) <= CHUNK_BYTES)


class AbstractParts(ABC):
    """The arrays data, indices and indptr of a stored sparse matrix, read in parts.

    The object is sent to workers, which open the stored arrays.
    """

    where: str  # the name of the matrix in messages

    @abstractmethod
    def read(self, name: str, at: slice = slice(None)) -> Array:
        """Read the array `name` (data, indices or indptr), or the slice `at` of it."""


class StoredSparse(AbstractStored):
    """Source of a sparse matrix (m, d) in a file or store, which is read block by block."""

    layout = "sparse"

    def __init__(
        self,
        parts: AbstractParts,
        shape: tuple[int, int],
        dtype: Any,
        *,
        by_features: bool,
        missing_code: int | None = None,
        names: Names | None = None,
    ) -> None:
        check_shape(shape, parts.where)
        check_dtype(dtype, parts.where)
        self.n_samples, self.n_features = shape
        self.dtype, self.missing_code = np.dtype(dtype), missing_code
        self.names = names or Names()
        self._parts, self._by_features = parts, by_features
        self._token = secrets.token_hex(8)
        self._sorted: SortedEntries | None = None
        _ = self._indptr  # raises an error now if damaged

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle; every process reads and sorts the entries itself."""
        state = {name: value for name, value in self.__dict__.items() if name != "_indptr"}
        return {**state, "_sorted": None}

    @cached_property
    def _indptr(self) -> Index:
        """Position of the first entry of each feature (CSC) or sample (CSR)."""
        n = self.n_features if self._by_features else self.n_samples
        return _checked_indptr(self._parts, n)

    def read(self, block: Block, rows: Index | None = None) -> Array:
        return self.read_columns(block, np.arange(block.width), rows).T

    def read_columns(self, block: Block, local: Index, rows: Index | None = None) -> Array:
        of_block = self._by_columns if self._by_features else self._by_groups
        values = of_block(block, rows)[run_of(local)]
        check_finite(values, block, rows, None, self.missing_code)
        return values

    def _by_columns(self, block: Block, rows: Index | None) -> Array:
        """Read a block (c, m), or (c, n) for n `rows`, of a matrix stored by features."""
        edges = self._indptr[block.start : block.stop + 1]
        at = slice(int(edges[0]), int(edges[-1]))
        data, samples = self._parts.read("data", at), self._parts.read("indices", at)
        _check_indices(samples, self.n_samples, self._parts.where)
        return dense_columns(data, samples, edges - edges[0], self.n_samples, rows)

    def _entries(self) -> SortedEntries:
        """Return the sorted entries; all copies of the source in this process share them."""
        with _SORTING:
            if self._sorted is None:
                self._sorted = _SORTED.get(self._token)
            if self._sorted is None:
                parts, d = self._parts, self.n_features
                self._sorted = SortedEntries(parts, self._indptr, d, self.dtype)
                _SORTED[self._token] = self._sorted
            return self._sorted

    def _by_groups(self, block: Block, rows: Index | None) -> Array:
        """Read a block (c, m), or (c, n) for n `rows`, of a matrix stored by samples."""
        entries_of = self._entries()
        place = places_of(rows, self.n_samples)
        m = self.n_samples if rows is None or place is None else len(rows)
        out = np.zeros((block.width, m), self.dtype)
        for group in range(block.start // GROUP, (block.stop - 1) // GROUP + 1):
            for entries in entries_of.of_group(group):
                features = entries["feature"].astype(np.int64) + (group * GROUP - block.start)
                samples = entries["sample"].astype(np.int64)
                samples = samples if place is None else place[samples]
                inside = (features >= 0) & (features < block.width) & (samples >= 0)
                at = features[inside] * m + samples[inside]
                np.add.at(out.reshape(-1), at, entries["value"][inside])  # repeated entries add up
        return np.take(out, rows, axis=1) if rows is not None and place is None else out


class SortedEntries:
    """Entries of a matrix stored by samples, sorted into groups of features, in a temporary file.

    The file has no name and is deleted when the process ends. Sorting proceeds in steps. Each step
    appends its entries group by group, with ascending samples in each group. `_bounds`
    (steps, groups + 1) contains the position of the first entry of each group in each step.
    """

    def __init__(self, parts: AbstractParts, indptr: Index, n_features: int, dtype: Any) -> None:
        self._where, n = parts.where, int(indptr[-1])
        self._kind = np.dtype([("value", dtype), ("sample", np.uint32), ("feature", np.uint8)])
        self._lock = threading.Lock()
        step = max(ENTRIES, -(-n // MOST_STEPS))
        starts = range(0, n, step)
        n_groups = -(-n_features // GROUP)
        self._bounds = np.zeros((len(starts), n_groups + 1), np.int64)
        self._bounds[:, 0] = starts
        try:
            # Unbuffered: a buffer would be written again when the file is closed on a full disk.
            self._file = tempfile.TemporaryFile(prefix="dhsic-", buffering=0)  # noqa: SIM115
            weakref.finalize(self, self._file.close)
            for k, start in enumerate(starts):
                entries, groups = self._sorted(
                    parts, indptr, slice(start, start + step), n_features
                )
                self._bounds[k, 1:] = start + np.cumsum(np.bincount(groups, minlength=n_groups))
                self._write(entries)
        except OSError as error:
            raise ScratchError(
                f"The entries of {self._where}, {n * self._kind.itemsize:,} bytes, could not be "
                f"sorted into a temporary file in {tempfile.gettempdir()} ({error}). Set TMPDIR "
                "to a folder on a disk with more space, or store the matrix by columns: adata.X "
                "= adata.X.tocsc()."
            ) from error

    def _sorted(
        self, parts: AbstractParts, indptr: Index, at: slice, d: int
    ) -> tuple[Array, Index]:
        """Read the entries in the slice `at`, and sort them by group.

        Returns the sorted entries, and the group of each entry in the original order.
        """
        features, values = parts.read("indices", at), parts.read("data", at)
        _check_indices(features, d, self._where)
        first = int(np.searchsorted(indptr, at.start, side="right")) - 1
        last = int(np.searchsorted(indptr, at.start + len(values)))
        ends = np.clip(indptr[first : last + 1], at.start, at.start + len(values))
        groups = features.astype(np.int64) // GROUP
        narrow = np.min_scalar_type(int(groups.max(initial=0)))  # 16-bit keys use radix sort
        order = np.argsort(groups.astype(narrow), kind="stable")
        entries: Array = np.empty(len(values), self._kind)
        entries["value"] = values[order]
        entries["sample"] = np.repeat(np.arange(first, last, dtype=np.uint32), np.diff(ends))[order]
        entries["feature"] = (features % GROUP)[order]
        return entries, groups

    def _write(self, entries: Array) -> None:
        unwritten = memoryview(entries.tobytes())
        while unwritten:
            unwritten = unwritten[self._file.write(unwritten) :]

    def _read(self, at: int, n_bytes: int) -> bytes:
        if hasattr(os, "pread"):
            return os.pread(self._file.fileno(), n_bytes, at)
        with self._lock:  # Windows
            self._file.seek(at)
            return self._file.read(n_bytes)

    def of_group(self, group: int) -> Iterator[Array]:
        """Yield the entries of a group of features, one array per step, by ascending sample."""
        size = self._kind.itemsize
        for start, stop in self._bounds[:, group : group + 2].tolist():
            n_bytes = (stop - start) * size
            data = self._read(start * size, n_bytes)
            if len(data) < n_bytes:
                raise ScratchError(
                    f"The temporary file with the sorted entries of {self._where} is incomplete. "
                    "Set TMPDIR to a folder in which nothing deletes files, and run again."
                )
            yield np.frombuffer(data, self._kind)


#: Sorted entries of the sources in this process, by token; the sources keep them alive.
_SORTED: weakref.WeakValueDictionary[str, SortedEntries] = weakref.WeakValueDictionary()
_SORTING = threading.Lock()


def _checked_indptr(parts: AbstractParts, n: int) -> Index:
    """Read and check indptr, (n + 1,) int64: the first entry of each of n rows or columns.

    Raises
    ------
    DataError
        The array is invalid.
    """
    indptr = parts.read("indptr").astype(np.int64)
    if len(indptr) != n + 1 or indptr[0] != 0 or (np.diff(indptr) < 0).any():
        raise DataError(
            f"{parts.where} is not a valid sparse matrix of {n:,} rows or columns: its indptr "
            f"({len(indptr):,} numbers) does not increase from 0. Write it again, or restore it."
        )
    return indptr


def _check_indices(indices: Array, n: int, where: str) -> None:
    if indices.size and not 0 <= indices.min() <= indices.max() < n:
        raise DataError(
            f"The sparse matrix {where} is damaged: it has indices beyond its {n:,} rows or "
            "columns. Create or write it again."
        )

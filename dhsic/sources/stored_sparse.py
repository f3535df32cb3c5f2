"""Sparse matrices that stay on disk: features are read a block at a time, in bounded memory.

A matrix that is stored by features (CSC of AnnData) is read where the entries of a block lie. One
that is stored by samples (CSR) holds the entries of a feature everywhere: each process that reads
it sorts the entries into groups of features once, in a temporary file without a name, some rows at
a time. Values are those of the whole matrix in memory, to the bit.
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

#: Bytes of a stored matrix up to which it is held in memory, which is faster.
HELD_BYTES = 64 << 20
#: Bytes of a chunk up to which it is decoded for each block that has entries in it.
CHUNK_BYTES = 16 << 20
#: Entries that are sorted at a time, at least, and steps that sorting takes, at most.
ENTRIES, MOST_STEPS = 1 << 19, 1 << 11
#: Features whose entries lie together in the temporary file; their numbers fit one byte.
GROUP = 32


def stays_stored(sizes: Iterable[tuple[int, int]]) -> bool:
    """Whether a matrix is read by blocks: it is large, and its chunks are not.

    `sizes` are the bytes of each of its arrays, and of a chunk of each (0 where it has none).
    """
    array_bytes, chunks = zip(*sizes, strict=True)
    return bool(sum(array_bytes) > HELD_BYTES and max(chunks) <= CHUNK_BYTES)


class AbstractParts(ABC):
    """The arrays data, indices and indptr of a stored sparse matrix, read by parts.

    It travels to workers, and opens what is stored there.
    """

    where: str  # the name of the matrix in messages

    @abstractmethod
    def read(self, name: str, at: slice = slice(None)) -> Array:
        """Part of one of the three arrays."""


class StoredSparse(AbstractStored):
    """A sparse matrix of a file or store, (m, d), whose entries are read for each block."""

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
        _ = self._indptr  # damage is refused now

    def __getstate__(self) -> dict[str, Any]:
        """Everything but what every process reads, and sorts, for itself."""
        state = {name: value for name, value in self.__dict__.items() if name != "_indptr"}
        return {**state, "_sorted": None}

    @cached_property
    def _indptr(self) -> Index:
        """Where the entries of each feature, or sample, begin."""
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
        """Values of a block (c, m) of a matrix stored by features."""
        edges = self._indptr[block.start : block.stop + 1]
        at = slice(int(edges[0]), int(edges[-1]))
        data, samples = self._parts.read("data", at), self._parts.read("indices", at)
        _check_indices(samples, self.n_samples, self._parts.where)
        return dense_columns(data, samples, edges - edges[0], self.n_samples, rows)

    def _entries(self) -> SortedEntries:
        """Sorted entries, which all copies of the source in this process share."""
        with _SORTING:
            if self._sorted is None:
                self._sorted = _SORTED.get(self._token)
            if self._sorted is None:
                parts, d = self._parts, self.n_features
                self._sorted = SortedEntries(parts, self._indptr, d, self.dtype)
                _SORTED[self._token] = self._sorted
            return self._sorted

    def _by_groups(self, block: Block, rows: Index | None) -> Array:
        """Values of a block (c, m) of a matrix stored by samples."""
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

    The file has no name and goes with the process. Each step of sorting appends its entries group
    after group, samples ascending in each; `_bounds` (steps, groups + 1) says where a group begins.
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
            # Without a buffer, which would be written again when a full disk is closed.
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
                f"sorted into a temporary file in {tempfile.gettempdir()} ({error}). Set TMPDIR to "
                "a folder on a disk with more room, or write the matrix by columns: "
                "adata.X = adata.X.tocsc()."
            ) from error

    def _sorted(
        self, parts: AbstractParts, indptr: Index, at: slice, d: int
    ) -> tuple[Array, Index]:
        """Entries of a step by group of features, and the group of each before they were sorted."""
        features, values = parts.read("indices", at), parts.read("data", at)
        _check_indices(features, d, self._where)
        first = int(np.searchsorted(indptr, at.start, side="right")) - 1
        last = int(np.searchsorted(indptr, at.start + len(values)))
        ends = np.clip(indptr[first : last + 1], at.start, at.start + len(values))
        groups = features.astype(np.int64) // GROUP
        narrow = np.min_scalar_type(int(groups.max(initial=0)))  # 16 bits are sorted by radix
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
        """Entries of a group of features, step after step, so that samples ascend."""
        size = self._kind.itemsize
        for start, stop in self._bounds[:, group : group + 2].tolist():
            n_bytes = (stop - start) * size
            data = self._read(start * size, n_bytes)
            if len(data) < n_bytes:
                raise ScratchError(
                    f"The temporary file with the sorted entries of {self._where} is cut. Run "
                    "again, with TMPDIR at a folder that is left alone."
                )
            yield np.frombuffer(data, self._kind)


#: Sorted entries of the sources of this process, by their tokens; held by whoever sorts or reads.
_SORTED: weakref.WeakValueDictionary[str, SortedEntries] = weakref.WeakValueDictionary()
_SORTING = threading.Lock()


def _checked_indptr(parts: AbstractParts, n: int) -> Index:
    """Where the entries of each row or column begin, (n + 1,) int64; damage is refused."""
    indptr = parts.read("indptr").astype(np.int64)
    if len(indptr) != n + 1 or indptr[0] != 0 or (np.diff(indptr) < 0).any():
        raise DataError(
            f"{parts.where} is no sparse matrix of {n:,} rows or columns: its indptr, of "
            f"{len(indptr):,} numbers, does not ascend from 0. Write it again, or restore it."
        )
    return indptr


def _check_indices(indices: Array, n: int, where: str) -> None:
    if indices.size and not 0 <= indices.min() <= indices.max() < n:
        raise DataError(
            f"The sparse matrix {where} is damaged: indices lead beyond its {n:,} rows or columns. "
            "Make it, or write it, again."
        )

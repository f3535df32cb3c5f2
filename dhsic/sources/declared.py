"""Sizes that a store declares, compared with memory before anything is made of them."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import zarr

from dhsic.engines.memory import available_bytes, human
from dhsic.errors import DataError, MemoryBudgetError

#: Chunks that zarr decodes at once, and how often one is held meanwhile: stored, decoded.
AT_ONCE, COPIES = 10, 2
#: What zarr keeps of every chunk of a read, and Python of a text besides its letters.
BYTES_OF_CHUNK, BYTES_OF_TEXT = 1 << 10, 64
#: Entries of an index of shards, and boundaries of chunks.
BYTES_OF_ENTRY = 16


def n_chunks_of(size: int, chunk: int, label: str) -> int:
    """How many chunks an axis has."""
    if chunk < 1 <= size:
        raise DataError(
            f"{label} is said to have chunks of {chunk} along an axis of {size}; its metadata are "
            "damaged: restore them from a copy, or write it again."
        )
    return -(-size // max(chunk, 1))


def check_whole(array: zarr.Array[Any], label: str) -> None:
    """Refuse an array whose declared sizes do not fit into memory when all of it is read.

    Raises
    ------
    MemoryBudgetError
        It would take more than this process may still get.
    """
    grid = array.shards or array.chunks
    axes = zip(array.shape, grid, strict=True)
    n_chunks = prod(n_chunks_of(size, chunk, label) for size, chunk in axes)
    at_once = min(AT_ONCE, n_chunks) * COPIES * _chunk_bytes(array)
    needed = _itemsize(array) * prod(array.shape) + at_once + n_chunks * BYTES_OF_CHUNK
    _refuse(array, label, needed, "Reading all of it")


def check_chunks(array: zarr.Array[Any], feature_axis: int, label: str) -> None:
    """Refuse a matrix of which one chunk, or the list of chunks, does not fit into memory.

    Raises
    ------
    MemoryBudgetError
        It would take more than this process may still get.
    """
    grid = array.shards or array.chunks
    axes = zip(array.shape, grid, strict=True)
    n_chunks = [n_chunks_of(size, chunk, label) for size, chunk in axes][feature_axis]
    needed = COPIES * _chunk_bytes(array) + BYTES_OF_ENTRY * n_chunks
    _refuse(array, label, needed, "Reading one chunk of it")


def _chunk_bytes(array: zarr.Array[Any]) -> int:
    """Bytes of a chunk once decoded, with the index of its inner chunks."""
    size = prod(array.shards or array.chunks)
    n_inner = size // max(prod(array.chunks), 1) if array.shards else 0
    return size * _itemsize(array) + BYTES_OF_ENTRY * n_inner


def _itemsize(array: zarr.Array[Any]) -> int:
    dtype = np.dtype(array.dtype)
    return BYTES_OF_TEXT if dtype.kind in "TO" else dtype.itemsize


def _refuse(array: zarr.Array[Any], label: str, needed: int, what: str) -> None:
    there = available_bytes()
    if needed > there:
        raise MemoryBudgetError(
            f"{label} is said to have shape {array.shape} ({array.dtype}) in chunks of "
            f"{array.shards or array.chunks}. {what} takes {human(needed)}, and there are "
            f"{human(there)}; restore its metadata if they are wrong, or write it in smaller "
            "chunks."
        )

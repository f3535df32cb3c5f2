"""Decompression that stops: a chunk makes no more bytes than its array declares.

What a codec says of its own output (Blosc, Zstandard, LZ4, text) is compared before it is decoded;
what says nothing (gzip, zlib, bzip2, LZMA) is decoded up to the limit.

Sizes that a store declares, compared with memory before anything is made of them.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable, Mapping
from io import BytesIO
from math import prod
from typing import Any

import numpy as np
import zarr
from numcodecs.compat import ensure_contiguous_ndarray

from dhsic.errors import DataError, MemoryBudgetError
from dhsic.memory import available_bytes, human

#: Bytes of a block of Zstandard, at most.
ZSTD_BLOCK = 1 << 17
ZSTD_FRAME = 0xFD2FB528
#: Frames that say nothing, such as those below, by the upper 28 bits of their first number.
ZSTD_SKIPPED = 0x184D2A5
ZSTD_RLE, ZSTD_COMPRESSED = 1, 2
#: Frames that do not say their size may end blocks early: so many times as many are expected.
ZSTD_FLUSHED = 4


class OversizeError(ValueError):
    """A chunk would make more bytes than its array declares."""

    def __init__(self, found: int | None, limit: int) -> None:
        more = "more" if found is None else f"{found:,}"
        super().__init__(f"it would make {more} bytes where at most {limit:,} belong")


def as_view(data: Any) -> memoryview:
    """The bytes of a buffer of any kind."""
    return memoryview(ensure_contiguous_ndarray(data, max_buffer_size=None)).cast("B")


def check_claim(name: str, data: Any, limit: int) -> None:
    """Refuse a chunk that says it makes more than `limit` bytes, by a codec of `CLAIMED`."""
    claimed = CLAIMED[name](as_view(data), limit)
    if claimed > limit:
        raise OversizeError(claimed, limit)


def streamed(name: str, config: Mapping[str, Any], data: Any, limit: int) -> bytes:
    """Bytes that a codec of `STREAMED` makes, at most `limit`."""
    made = STREAMED[name](as_view(data), config, limit + 1)
    if len(made) > limit:
        raise OversizeError(None, limit)
    return made


def number(view: memoryview, at: int, size: int = 4) -> int:
    """The number of `size` bytes, the least first, at a place that has to be there."""
    part = view[at : at + size]
    if len(part) < size:
        raise ValueError("it ends within its header")
    return int.from_bytes(part, "little")


def _blosc(view: memoryview, _limit: int) -> int:
    if number(view, 12) > len(view):
        raise ValueError("it is shorter than it says")
    return number(view, 4)


def _lz4(view: memoryview, _limit: int) -> int:
    return number(view, 0)


def _zstd(view: memoryview, limit: int) -> int:
    """Bytes that the frames say they make, or may make by the number of their blocks."""
    total = at = 0
    while at < len(view) and total <= limit:
        made, at = _zstd_frame(view, at, limit - total)
        total += made
    return total


def _zstd_frame(view: memoryview, at: int, limit: int) -> tuple[int, int]:
    """Bytes of one frame, and where the next one begins."""
    magic = number(view, at)
    if magic >> 4 == ZSTD_SKIPPED:
        return 0, at + 8 + number(view, at + 4)
    if magic != ZSTD_FRAME:
        raise ValueError("it is no frame of Zstandard")
    flags = number(view, at + 4, 1)
    is_single, has_checksum = flags >> 5 & 1, flags >> 2 & 1
    at += 5 + (1 - is_single) + (0, 1, 2, 4)[flags & 3]
    size = (is_single, 2, 4, 8)[flags >> 6]
    said = number(view, at, size) + (256 if size == 2 else 0)
    blocks, at = _zstd_blocks(view, at + size, limit)
    return (said if size else blocks), at + 4 * has_checksum


def _zstd_blocks(view: memoryview, at: int, limit: int) -> tuple[int, int]:
    """Bytes that the blocks of a frame make at least, if nobody cut them short, and its end."""
    most, is_last = 0, 0
    while not is_last and most <= ZSTD_FLUSHED * (limit + ZSTD_BLOCK):
        head = number(view, at, 3)
        is_last, kind, size = head & 1, head >> 1 & 3, head >> 3
        most += ZSTD_BLOCK if kind == ZSTD_COMPRESSED else size
        at += 3 + (1 if kind == ZSTD_RLE else size)
    return max(0, most // ZSTD_FLUSHED - ZSTD_BLOCK), at


def _gzip(view: memoryview, _config: Mapping[str, Any], most: int) -> bytes:
    return gzip.GzipFile(fileobj=BytesIO(view)).read(most)


def _bz2(view: memoryview, _config: Mapping[str, Any], most: int) -> bytes:
    return bz2.BZ2File(BytesIO(view)).read(most)


def _lzma(view: memoryview, config: Mapping[str, Any], most: int) -> bytes:
    format_, filters = config.get("format", lzma.FORMAT_XZ), config.get("filters")
    return lzma.LZMAFile(BytesIO(view), format=format_, filters=filters).read(most)


def _zlib(view: memoryview, _config: Mapping[str, Any], most: int) -> bytes:
    stream = zlib.decompressobj()
    made = stream.decompress(view, most)
    if not stream.eof and len(made) < most:
        raise ValueError("its stream is cut short")
    return made


#: How many bytes a chunk will make, by what it says; codecs hold themselves to it.
CLAIMED: Mapping[str, Callable[[memoryview, int], int]] = {
    "blosc": _blosc,
    "lz4": _lz4,
    "zstd": _zstd,
}
#: What a chunk makes, up to so many bytes.
STREAMED: Mapping[str, Callable[[memoryview, Mapping[str, Any], int], bytes]] = {
    "bz2": _bz2,
    "gzip": _gzip,
    "lzma": _lzma,
    "zlib": _zlib,
}


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

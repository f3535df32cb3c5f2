"""Decompression that stops: a chunk makes no more bytes than its array declares.

What a codec says of its own output (Blosc, Zstandard, LZ4, text) is compared before it is decoded;
what says nothing (gzip, zlib, bzip2, LZMA) is decoded up to the limit.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable, Mapping
from io import BytesIO
from typing import Any

from numcodecs.compat import ensure_contiguous_ndarray

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

"""Codecs that are allowed in stores: they produce only numbers and text, of limited size.

The metadata of a store declare how its chunks are decoded. Some codecs (``pickle``) run code from
the data. The rules are:

- Only the codecs in a fixed list are used, even if a library knows others.
- A chunk may not decode to more bytes than its array declares.
- If the compressed data state their decoded size (Blosc, Zstandard, LZ4, text), it is checked
  before they are decoded.
- Otherwise (gzip, zlib, bzip2, LZMA), decoding stops at the limit.
- Sizes that a store declares are compared with the available memory before anything is allocated.
"""

from __future__ import annotations

import asyncio
import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from io import BytesIO
from math import prod
from typing import Any

import numcodecs
import numpy as np
import zarr
from numcodecs.abc import Codec as Numcodec
from numcodecs.compat import ensure_contiguous_ndarray
from zarr.abc.codec import BytesBytesCodec
from zarr.codecs import ShardingCodec

from dhsic.errors import DataError, MemoryBudgetError
from dhsic.memory import available_bytes, human

#: Maximum number of bytes of a block of Zstandard.
ZSTD_BLOCK = 1 << 17
ZSTD_FRAME = 0xFD2FB528
#: Upper 28 bits of the first number of skippable frames, which contain no data.
ZSTD_SKIPPED = 0x184D2A5
ZSTD_RLE, ZSTD_COMPRESSED = 1, 2
#: Frames that do not state their size may contain blocks that are not full. Such a frame may have
#: up to this many times the minimum number of blocks.
ZSTD_FLUSHED = 4


class OversizeError(ValueError):
    """Error for a chunk that would decode to more bytes than its array declares."""

    def __init__(self, found: int | None, limit: int) -> None:
        more = "more" if found is None else f"{found:,}"
        super().__init__(f"it would decode to {more} bytes, but at most {limit:,} are allowed")


def as_view(data: Any) -> memoryview:
    """Return the bytes of any buffer as a memoryview."""
    return memoryview(ensure_contiguous_ndarray(data, max_buffer_size=None)).cast("B")


def decoded(name: str, config: Mapping[str, Any], limit: int, data: Any) -> Any:
    """Decode a chunk with the compressor `name`; OversizeError if it exceeds `limit` bytes."""
    if name in STREAMED:
        decoded = STREAMED[name](as_view(data), config, limit + 1)
        if len(decoded) > limit:
            raise OversizeError(None, limit)
        return decoded
    claimed = CLAIMED[name](as_view(data), limit)
    if claimed > limit:
        raise OversizeError(claimed, limit)
    return numcodecs.get_codec({"id": name}).decode(data)  # parameters matter only for encoding


def number(view: memoryview, at: int, size: int = 4) -> int:
    """Read an unsigned little-endian integer of `size` bytes at `at`; ValueError if absent."""
    part = view[at : at + size]
    if len(part) < size:
        raise ValueError("it ends within its header")
    return int.from_bytes(part, "little")


def _blosc(view: memoryview, _limit: int) -> int:
    if number(view, 12) > len(view):
        raise ValueError("it is shorter than its header states")
    return number(view, 4)


def _zstd(view: memoryview, limit: int) -> int:
    """Return the decoded size that Zstandard frames declare, or a lower bound from their blocks."""
    total = at = 0
    while at < len(view) and total <= limit:
        n_bytes, at = _zstd_frame(view, at, limit - total)
        total += n_bytes
    return total


def _zstd_frame(view: memoryview, at: int, limit: int) -> tuple[int, int]:
    """Return the decoded size of a Zstandard frame, and the position of the next frame."""
    magic = number(view, at)
    if magic >> 4 == ZSTD_SKIPPED:
        return 0, at + 8 + number(view, at + 4)
    if magic != ZSTD_FRAME:
        raise ValueError("it is not a Zstandard frame")
    flags = number(view, at + 4, 1)
    is_single, has_checksum = flags >> 5 & 1, flags >> 2 & 1
    at += 5 + (1 - is_single) + (0, 1, 2, 4)[flags & 3]
    size = (is_single, 2, 4, 8)[flags >> 6]
    stated_size = number(view, at, size) + (256 if size == 2 else 0)
    blocks, at = _zstd_blocks(view, at + size, limit)
    return (stated_size if size else blocks), at + 4 * has_checksum


def _zstd_blocks(view: memoryview, at: int, limit: int) -> tuple[int, int]:
    """Return an estimate of the decoded size of the blocks of a frame, and the end of the blocks.

    The estimate is a lower bound if at least one in `ZSTD_FLUSHED` blocks is full.
    """
    most, is_last = 0, 0
    while not is_last and most <= ZSTD_FLUSHED * (limit + ZSTD_BLOCK):
        head = number(view, at, 3)
        is_last, kind, size = head & 1, head >> 1 & 3, head >> 3
        most += ZSTD_BLOCK if kind == ZSTD_COMPRESSED else size
        at += 3 + (1 if kind == ZSTD_RLE else size)
    return max(0, most // ZSTD_FLUSHED - ZSTD_BLOCK), at


def _lzma(view: memoryview, config: Mapping[str, Any], most: int) -> bytes:
    format_, filters = config.get("format", lzma.FORMAT_XZ), config.get("filters")
    return lzma.LZMAFile(BytesIO(view), format=format_, filters=filters).read(most)


def _zlib(view: memoryview, _config: Mapping[str, Any], most: int) -> bytes:
    stream = zlib.decompressobj()
    decoded = stream.decompress(view, most)
    if not stream.eof and len(decoded) < most:
        raise ValueError("its stream is incomplete")
    return decoded


#: Functions that return the decoded size that a chunk states; these codecs never exceed it.
CLAIMED: Mapping[str, Callable[[memoryview, int], int]] = {
    "blosc": _blosc,
    "lz4": lambda view, _limit: number(view, 0),
    "zstd": _zstd,
}
#: Functions that decode a chunk up to a maximum number of bytes.
STREAMED: Mapping[str, Callable[[memoryview, Mapping[str, Any], int], bytes]] = {
    "bz2": lambda view, _config, most: bz2.BZ2File(BytesIO(view)).read(most),
    "gzip": lambda view, _config, most: gzip.GzipFile(fileobj=BytesIO(view)).read(most),
    "lzma": _lzma,
    "zlib": _zlib,
}


COMPRESSORS = frozenset(CLAIMED) | frozenset(STREAMED)
CHECKSUMS = frozenset({"crc32", "crc32c", "adler32", "fletcher32", "jenkins_lookup3"})
#: Codecs that keep the number of bytes.
ARRANGING = frozenset({"bytes", "transpose", "shuffle", "bitround"})
#: Codecs that store numbers in another dtype, and the names of their parameters for the dtype in
#: memory and in the store.
NUMBERS = {
    "astype": ("decode_dtype", "encode_dtype"),
    "delta": ("dtype", "astype"),
    "fixedscaleoffset": ("dtype", "astype"),
    "quantize": ("dtype", "astype"),
}
TEXT = frozenset({"vlen-utf8", "vlen-bytes"})
SHARDS = "sharding_indexed"
#: Codec of eight booleans per byte, and a byte with the number of booleans in the last one.
PACKED = "packbits"
#: Codecs that the index of a shard may have.
OF_INDEX = frozenset({"bytes", "crc32c"})
KNOWN = COMPRESSORS | CHECKSUMS | ARRANGING | frozenset(NUMBERS) | TEXT | {SHARDS, PACKED}
#: Maximum number of bytes that a checksum codec adds.
CHECKSUM_BYTES = 64
#: Maximum number of bytes of text of an array: a constant, and an addition per element.
TEXT_BYTES, TEXT_BYTES_EACH = 16 << 20, 1 << 10


def described(codec: Any) -> tuple[str, Mapping[str, Any]]:
    """Return the name of a codec, without the prefix of numcodecs, and its parameters.

    The codec may be one of Zarr format 2 or 3.
    """
    if isinstance(codec, Numcodec):
        config = codec.get_config()
        return str(config["id"]), config
    plain = codec.to_dict()
    return str(plain["name"]).removeprefix("numcodecs."), plain.get("configuration") or {}


class _Reading(Numcodec):  # type: ignore[misc]  # numcodecs ships no types
    """Codec of Zarr format 2 that decodes with `function` instead of its own method."""

    codec_id = "reading"  # zarr asks the class for one

    def __init__(self, codec: Any, function: Callable[[Any], Any]) -> None:
        self.codec, self.codec_id, self.function = codec, codec.codec_id, function

    def encode(self, buf: Any) -> Any:
        return self.codec.encode(buf)

    def get_config(self) -> Any:
        return self.codec.get_config()

    def decode(self, buf: Any, out: Any = None) -> Any:
        return self.function(buf)


@dataclass(frozen=True)
class _ReadingBytes(BytesBytesCodec):
    """Codec of Zarr format 3, from bytes to bytes, that decodes with `function`."""

    codec: Any
    function: Callable[[Any], Any]
    is_fixed_size = False

    def to_dict(self) -> dict[str, Any]:
        return dict(self.codec.to_dict())

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: Any) -> int:
        return int(self.codec.compute_encoded_size(input_byte_length, chunk_spec))

    async def _decode_single(self, chunk_data: Any, chunk_spec: Any) -> Any:
        decoded = await asyncio.to_thread(self.function, chunk_data.as_numpy_array())
        return chunk_spec.prototype.buffer.from_bytes(decoded)


class TextBudget:
    """Limit on the bytes of text in an array of n elements; `left` bytes may still be decoded."""

    def __init__(self, n: int) -> None:
        self.left = text_bytes(n)

    def looked_at(self, n: int, data: Any) -> Any:
        """Check encoded texts, subtract their bytes from the budget, and return `data` unchanged.

        It raises ValueError if there are not n texts, and OversizeError if the budget is exceeded.
        """
        view = as_view(data)
        count = number(view, 0)
        if count != n:
            raise ValueError(f"its header states {count:,} texts, but the chunk has {n:,}")
        n_bytes = max(0, len(view) - 4 * (n + 1))
        if n_bytes > self.left:
            raise OversizeError(n_bytes, self.left)
        self.left -= n_bytes
        return data


def text_bytes(n: int) -> int:
    """Return the maximum number of bytes that n texts may have."""
    return TEXT_BYTES + TEXT_BYTES_EACH * n


class Chain:
    """Codecs of a chunk of n elements, in the order of encoding, with limits on decoded sizes.

    `bounded` are the codecs with these limits. `n_bytes` is the maximum size of a chunk after the
    codecs added so far. `itemsize` is the size of a number in bytes, 0 for text, and None after a
    codec that produces bytes. `text` is the budget for the text of the whole array.
    """

    def __init__(self, label: str, n: int, itemsize: int, text: TextBudget) -> None:
        self.label, self.n, self.n_bytes, self.text = label, n, n * itemsize, text
        self.itemsize: int | None = itemsize
        self.bounded: list[Any] = []

    def add(self, codec: Any, shape: tuple[int, ...]) -> None:
        """Add a codec for chunks of a shape; DataError if it is not allowed."""
        name, config = described(codec)
        if name not in KNOWN or (name in TEXT and self.itemsize != 0):
            raise self._refused(name)
        if name in ARRANGING:
            self.bounded.append(codec)
        elif name in NUMBERS or name == PACKED:
            self._add_numbers(codec, name, config)
        else:
            self._add_bytes(codec, name, config, shape)
            self.itemsize = None

    def _add_numbers(self, codec: Any, name: str, config: Mapping[str, Any]) -> None:
        inner = outer = 1
        if name != PACKED:
            inner_key, of = NUMBERS[name]
            kinds = [np.dtype(str(config.get(one) or config[inner_key])) for one in (inner_key, of)]
            inner, outer = (kind.itemsize if kind.kind in "biuf" else -1 for kind in kinds)
        if inner != self.itemsize:
            raise DataError(
                f"{self.label} has the codec {name!r} for numbers of {inner} bytes, but its "
                "numbers do not have this size. Write the array again, or restore its metadata."
            )
        self.n_bytes = self.n_bytes // 8 + 2 if name == PACKED else self.n_bytes // inner * outer
        self.itemsize = outer
        self.bounded.append(codec)

    def _add_bytes(
        self, codec: Any, name: str, config: Mapping[str, Any], shape: tuple[int, ...]
    ) -> None:
        reading = _Reading if isinstance(codec, Numcodec) else _ReadingBytes
        if name in COMPRESSORS:
            self.bounded.append(reading(codec, partial(decoded, name, config, self.n_bytes)))
            self.n_bytes += self.n_bytes // 64 + 4096
        elif name in TEXT:
            look = partial(self.text.looked_at, self.n)
            self.n_bytes = min(text_bytes(self.n), self.text.left) + 4 * (self.n + 1)
            if reading is _Reading:
                self.bounded.append(_Reading(codec, lambda data: codec.decode(look(data))))
            else:
                self.bounded += [codec, _ReadingBytes(codec, look)]
        elif name == SHARDS:
            self._add_shards(codec, shape)
        else:
            self.bounded.append(codec)
            self.n_bytes += CHECKSUM_BYTES

    def _add_shards(self, codec: ShardingCodec, shape: tuple[int, ...]) -> None:
        names = {described(of)[0] for of in codec.index_codecs}
        if not names <= OF_INDEX:
            raise self._refused(", ".join(sorted(names - OF_INDEX)))
        inner = Chain(
            self.label, prod(codec.chunk_shape), self.n_bytes // max(self.n, 1), self.text
        )
        for of in codec.codecs:
            inner.add(of, codec.chunk_shape)
        n_chunks = prod(s // c for s, c in zip(shape, codec.chunk_shape, strict=True))
        shards = ShardingCodec(
            chunk_shape=codec.chunk_shape,
            codecs=inner.bounded,
            index_codecs=codec.index_codecs,
            index_location=codec.index_location,
        )
        self.bounded.append(shards)
        self.n_bytes = n_chunks * (inner.n_bytes + 16) + CHECKSUM_BYTES

    def _refused(self, name: str) -> DataError:
        return DataError(
            f"{self.label} has the codec {name!r}, which dhsic does not decode. Such a codec may "
            "run code from the store, or may decode to any size. Write the array again with one of "
            f"the codecs {', '.join(sorted(KNOWN))}."
        )


def bounded(metadata: Any, label: str) -> tuple[Any, int]:
    """Add size limits to the codecs in the metadata of an array.

    The result is the new metadata, and the maximum size in bytes of a stored chunk.
    """
    dtype = metadata.dtype.to_native_dtype()
    is_v2 = metadata.zarr_format == 2
    shape = metadata.chunks if is_v2 else metadata.chunk_grid.chunk_shape
    compressor = () if not is_v2 or metadata.compressor is None else (metadata.compressor,)
    codecs = (*(metadata.filters or ()), *compressor) if is_v2 else metadata.codecs
    is_text = dtype.kind in "TO"
    if dtype.hasobject and not (is_text and _has_text(codecs)):
        raise DataError(
            f"{label} contains Python objects ({dtype}). dhsic reads an array of objects only if "
            "it contains text. Write it as text (vlen-utf8) or as numbers."
        )
    budget = TextBudget(prod(metadata.shape))
    chain = Chain(label, prod(shape), 0 if is_text else dtype.itemsize, budget)
    for codec in codecs:
        chain.add(codec, shape)
    if not is_v2:
        return replace(metadata, codecs=tuple(chain.bounded)), chain.n_bytes
    filters = tuple(chain.bounded[: len(codecs) - len(compressor)])
    last = chain.bounded[-1] if compressor else None
    return replace(metadata, filters=filters or None, compressor=last), chain.n_bytes


def _has_text(codecs: Iterable[Any]) -> bool:
    """Whether the first codec is a text codec, or shards whose first codec is one."""
    first = next(iter(codecs), None)
    if isinstance(first, ShardingCodec):
        return _has_text(first.codecs)
    return first is not None and described(first)[0] in TEXT


#: Number of chunks that zarr decodes at once, and copies of each in memory: stored, decoded.
AT_ONCE, COPIES = 10, 2
#: Bytes that zarr uses per chunk of a read, and overhead of a Python string, in bytes.
BYTES_OF_CHUNK, BYTES_OF_TEXT = 1 << 10, 64
#: Bytes of an entry in the index of a shard, and of a chunk boundary.
BYTES_OF_ENTRY = 16


def check_fits(array: zarr.Array[Any], label: str, feature_axis: int | None = None) -> None:
    """Refuse an array if reading it would need more than the free memory, by its declared sizes.

    With `feature_axis`, the array is read one chunk after the other along this axis; by default, it
    is read completely.
    """
    grid = array.shards or array.chunks
    n_chunks = []
    for size, chunk in zip(array.shape, grid, strict=True):
        if chunk < 1 <= size:
            raise DataError(
                f"The metadata of {label} state chunks of {chunk} along an axis of {size}, so "
                "they are damaged. Restore them from a copy, or write the array again."
            )
        n_chunks.append(-(-size // max(chunk, 1)))
    dtype = np.dtype(array.dtype)
    itemsize = BYTES_OF_TEXT if dtype.kind in "TO" else dtype.itemsize
    n_inner = prod(grid) // max(prod(array.chunks), 1) if array.shards else 0
    chunk_bytes = prod(grid) * itemsize + BYTES_OF_ENTRY * n_inner
    if feature_axis is None:
        n, what = prod(n_chunks), "Reading all of it"
        at_once = min(AT_ONCE, n) * COPIES * chunk_bytes
        needed = itemsize * prod(array.shape) + at_once + n * BYTES_OF_CHUNK
    else:
        what = "Reading one chunk of it"
        needed = COPIES * chunk_bytes + BYTES_OF_ENTRY * n_chunks[feature_axis]
    there = available_bytes()
    if needed > there:
        raise MemoryBudgetError(
            f"According to its metadata, {label} has shape {array.shape} ({array.dtype}) in "
            f"chunks of {grid}. {what} needs {human(needed)}, but only {human(there)} of memory "
            "are free. If the metadata are wrong, restore them; otherwise write the array in "
            "smaller chunks."
        )

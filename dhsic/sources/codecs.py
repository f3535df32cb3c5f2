"""The codecs that are read: those that can make nothing but numbers and text, and how much.

A store says itself how its chunks decode, and some codecs run what they find (``pickle``). So
there is a list of those that may be read, whatever a library knows besides; and since a store also
says how large its chunks are, every codec is held to what follows from that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from numcodecs.abc import Codec as Numcodec
from zarr.abc.codec import BytesBytesCodec
from zarr.codecs import ShardingCodec

from dhsic.errors import DataError
from dhsic.sources.decoding import (
    CLAIMED,
    STREAMED,
    OversizeError,
    as_view,
    check_claim,
    number,
    streamed,
)

COMPRESSORS = frozenset(CLAIMED) | frozenset(STREAMED)
CHECKSUMS = frozenset({"crc32", "crc32c", "adler32", "fletcher32", "jenkins_lookup3"})
#: Those that keep the number of bytes.
ARRANGING = frozenset({"bytes", "transpose", "shuffle", "bitround"})
#: Those that store numbers as others, by their parameters of the kind in memory and in the store.
NUMBERS = {
    "astype": ("decode_dtype", "encode_dtype"),
    "delta": ("dtype", "astype"),
    "fixedscaleoffset": ("dtype", "astype"),
    "quantize": ("dtype", "astype"),
}
TEXT = frozenset({"vlen-utf8", "vlen-bytes"})
SHARDS = "sharding_indexed"
#: Eight booleans in a byte, and one that says how many the last one holds.
PACKED = "packbits"
#: Codecs that the index of a shard may have.
OF_INDEX = frozenset({"bytes", "crc32c"})
KNOWN = COMPRESSORS | CHECKSUMS | ARRANGING | frozenset(NUMBERS) | TEXT | {SHARDS, PACKED}
#: Most bytes of checksums and of their kind.
CHECKSUM_BYTES = 64
#: Text of an array has at most so many bytes, and so many besides for every element.
TEXT_BYTES, TEXT_BYTES_EACH = 16 << 20, 1 << 10


def name_of(codec: Any) -> str:
    """Name of a codec of either format, without the prefix that numcodecs have in format 3."""
    return str(_described(codec)[0])


def _described(codec: Any) -> tuple[str, Mapping[str, Any]]:
    if isinstance(codec, Numcodec):
        config = codec.get_config()
        return str(config["id"]), config
    plain = codec.to_dict()
    return str(plain["name"]).removeprefix("numcodecs."), plain.get("configuration") or {}


def text_bytes(n: int) -> int:
    """Most bytes that n texts take."""
    return TEXT_BYTES + TEXT_BYTES_EACH * n


@dataclass
class TextBudget:
    """Bytes of text that an array may still make."""

    left: int

    def take(self, n_bytes: int) -> None:
        """Spend some."""
        if n_bytes > self.left:
            raise OversizeError(n_bytes, self.left)
        self.left -= n_bytes


@dataclass(frozen=True)
class Chain:
    """The codecs of a chunk, each bounded by what those before it make, in the order of writing.

    Attributes
    ----------
    label : str
        How messages call the array.
    n : int
        Elements of a chunk.
    n_bytes : int
        Most bytes of a chunk at this point of the chain.
    itemsize : int or None
        Bytes of a number, 0 of text, None where there are only bytes any more.
    text : TextBudget
        What text of the array may take.
    bounded : tuple
        The codecs so far.
    """

    label: str
    n: int
    n_bytes: int
    itemsize: int | None
    text: TextBudget
    bounded: tuple[Any, ...] = ()

    def then(self, codec: Any, shape: tuple[int, ...] = ()) -> Chain:
        """Add a codec; `shape` is that of the chunk.

        Raises
        ------
        DataError
            It is not one that is read.
        """
        name, config = _described(codec)
        if name not in KNOWN or (name in TEXT and self.itemsize != 0):
            raise self._refused(name)
        if name in COMPRESSORS:
            bounded = _bound(codec, name, config, self.n_bytes)
            return self._with(bounded, self.n_bytes + self.n_bytes // 64 + 4096)
        if name in TEXT:
            most = min(text_bytes(self.n), self.text.left) + 4 * (self.n + 1)
            if isinstance(codec, Numcodec):
                return self._with(CountedNumcodec(codec, self.n, self.text), most)
            return self._with(codec, most)._with(CountedCodec(self.n, self.text), most)
        if name == SHARDS:
            return self._sharded(codec, shape)
        if name in CHECKSUMS:
            return self._with(codec, self.n_bytes + CHECKSUM_BYTES)
        return self._numbers(codec, name, config)

    def _numbers(self, codec: Any, name: str, config: Mapping[str, Any]) -> Chain:
        """Add a codec that makes numbers of numbers."""
        if name in ARRANGING:
            return replace(self, bounded=(*self.bounded, codec))
        inner, outer = (1, 1) if name == PACKED else _itemsizes(name, config)
        if inner != self.itemsize:
            raise DataError(
                f"{self.label} has the codec {name!r} for numbers of {inner} bytes, and holds "
                f"others there. Write the array again, or restore its metadata."
            )
        n_bytes = self.n_bytes // 8 + 2 if name == PACKED else self.n_bytes // inner * outer
        return replace(self, n_bytes=n_bytes, itemsize=outer, bounded=(*self.bounded, codec))

    def _with(self, codec: Any, n_bytes: int) -> Chain:
        return replace(self, n_bytes=n_bytes, itemsize=None, bounded=(*self.bounded, codec))

    def _sharded(self, codec: ShardingCodec, shape: tuple[int, ...]) -> Chain:
        names = {name_of(of) for of in codec.index_codecs}
        if not names <= OF_INDEX:
            raise self._refused(", ".join(sorted(names - OF_INDEX)))
        inner = prod(codec.chunk_shape)
        itemsize = self.n_bytes // max(self.n, 1)
        start = Chain(self.label, inner, inner * itemsize, itemsize, self.text)
        chain = start.all(codec.codecs, codec.chunk_shape)
        n_chunks = prod(s // c for s, c in zip(shape, codec.chunk_shape, strict=True))
        bounded = ShardingCodec(
            chunk_shape=codec.chunk_shape,
            codecs=chain.bounded,
            index_codecs=codec.index_codecs,
            index_location=codec.index_location,
        )
        return self._with(bounded, n_chunks * (chain.n_bytes + 16) + CHECKSUM_BYTES)

    def all(self, codecs: Iterable[Any], shape: tuple[int, ...]) -> Chain:
        """Add codecs one by one."""
        chain = self
        for codec in codecs:
            chain = chain.then(codec, shape)
        return chain

    def _refused(self, name: str) -> DataError:
        return DataError(
            f"{self.label} has the codec {name!r}, which is not read: codecs that make objects may "
            "run what a store holds, and others cannot be held to a size. Write the array again "
            f"with codecs among {', '.join(sorted(KNOWN))}."
        )


def bounded(metadata: Any, label: str) -> tuple[Any, int]:
    """Metadata of an array with codecs that hold to it, and most bytes of a stored chunk.

    Raises
    ------
    DataError
        The array has a codec that is not read, or holds objects that are no text.
    """
    dtype = metadata.dtype.to_native_dtype()
    is_v2 = metadata.zarr_format == 2
    shape = metadata.chunks if is_v2 else metadata.chunk_grid.chunk_shape
    compressor = () if not is_v2 or metadata.compressor is None else (metadata.compressor,)
    codecs = (*(metadata.filters or ()), *compressor) if is_v2 else metadata.codecs
    is_text = dtype.kind in "TO"
    if dtype.hasobject and not (is_text and _has_text(codecs)):
        raise DataError(
            f"{label} holds Python objects ({dtype}), and only text is read of these. Write it as "
            "text (vlen-utf8) or as numbers."
        )
    n = prod(shape)
    itemsize = 0 if is_text else dtype.itemsize
    budget = TextBudget(text_bytes(prod(metadata.shape)))
    chain = Chain(label, n, n * itemsize, itemsize, budget).all(codecs, shape)
    if not is_v2:
        return replace(metadata, codecs=chain.bounded), chain.n_bytes
    filters = chain.bounded[: len(codecs) - len(compressor)]
    last = chain.bounded[-1] if compressor else None
    return replace(metadata, filters=filters or None, compressor=last), chain.n_bytes


def _has_text(codecs: Iterable[Any]) -> bool:
    """Whether the first codec, or the first within shards, is one of text."""
    first = next(iter(codecs), None)
    if isinstance(first, ShardingCodec):
        return _has_text(first.codecs)
    return first is not None and name_of(first) in TEXT


def _itemsizes(name: str, config: Mapping[str, Any]) -> list[int]:
    """Bytes of the numbers that a codec makes, and of those that it makes them of."""
    inner, outer = NUMBERS[name]
    dtypes = [np.dtype(str(config.get(of) or config[inner])) for of in (inner, outer)]
    return [dtype.itemsize if dtype.kind in "biuf" else -1 for dtype in dtypes]


def _bound(codec: Any, name: str, config: Mapping[str, Any], limit: int) -> Any:
    kind = BoundedNumcodec if isinstance(codec, Numcodec) else BoundedCodec
    return kind(codec, name, config, limit)


def _check_count(data: Any, n: int, text: TextBudget) -> None:
    """Compare what text says of itself with what its chunk holds, and spend its budget."""
    view = as_view(data)
    count = number(view, 0)
    if count != n:
        raise ValueError(f"it says that it holds {count:,} texts, and its chunk has {n:,}")
    text.take(max(0, len(view) - 4 * (n + 1)))


class _Reading(Numcodec):  # type: ignore[misc]  # numcodecs ships no types
    """A codec of format 2 that looks before it decodes."""

    codec_id = "reading"  # zarr asks the class for one

    def __init__(self, codec: Any) -> None:
        self.codec = codec
        self.codec_id = codec.codec_id

    def encode(self, buf: Any) -> Any:
        """Encode as the codec does."""
        return self.codec.encode(buf)

    def get_config(self) -> Any:
        """Describe the codec."""
        return self.codec.get_config()


class BoundedNumcodec(_Reading):
    """A compressor of format 2 that makes no more than `limit` bytes."""

    def __init__(self, codec: Any, name: str, config: Mapping[str, Any], limit: int) -> None:
        super().__init__(codec)
        self.name, self.config, self.limit = name, config, limit

    def decode(self, buf: Any, out: Any = None) -> Any:
        """Decode, or raise OversizeError."""
        if self.name in STREAMED:
            return streamed(self.name, self.config, buf, self.limit)
        check_claim(self.name, buf, self.limit)
        return self.codec.decode(buf)


class CountedNumcodec(_Reading):
    """Text of format 2, as much as its array holds."""

    def __init__(self, codec: Any, n: int, text: TextBudget) -> None:
        super().__init__(codec)
        self.n, self.text = n, text

    def decode(self, buf: Any, out: Any = None) -> Any:
        """Decode, or raise where there is more."""
        _check_count(buf, self.n, self.text)
        return self.codec.decode(buf)


@dataclass(frozen=True)
class BoundedCodec(BytesBytesCodec):
    """A compressor of format 3 that makes no more than `limit` bytes."""

    codec: Any
    name: str
    config: Mapping[str, Any]
    limit: int
    is_fixed_size = False

    def to_dict(self) -> dict[str, Any]:
        """Describe the codec."""
        return dict(self.codec.to_dict())

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: Any) -> int:
        """Return what the codec says, which most do not know."""
        return int(self.codec.compute_encoded_size(input_byte_length, chunk_spec))

    async def _decode_single(self, chunk_data: Any, chunk_spec: Any) -> Any:
        """Decode, or raise OversizeError."""
        data = chunk_data.as_numpy_array()
        if self.name in STREAMED:
            made = await asyncio.to_thread(streamed, self.name, self.config, data, self.limit)
            return chunk_spec.prototype.buffer.from_bytes(made)
        check_claim(self.name, data, self.limit)
        (made,) = await self.codec.decode([(chunk_data, chunk_spec)])
        return made


@dataclass(frozen=True)
class CountedCodec(BytesBytesCodec):
    """What a codec of text of format 3 is given, looked at and passed on."""

    n: int
    text: TextBudget
    is_fixed_size = True

    def to_dict(self) -> dict[str, Any]:
        """Describe what is in no store."""
        return {"name": "counted", "configuration": {"n": self.n}}

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: Any) -> int:
        """Return the size as it is."""
        return input_byte_length

    async def _decode_single(self, chunk_data: Any, chunk_spec: Any) -> Any:
        """Pass on, or raise where there is more."""
        _check_count(chunk_data.as_numpy_array(), self.n, self.text)
        return chunk_data

"""A Zarr store whose absent chunks are errors.

Zarr reads a chunk that is not there as fill values, silently: a deleted file of genotypes becomes
zeros, which are genotypes too. Here every chunk that a read asks for passes through `get`, so
nothing is listed, nothing is asked twice, and nothing can vanish between a check and the read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from zipfile import BadZipFile

import numpy as np
import zarr
from zarr.abc.store import ByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.codecs import ShardingCodec
from zarr.storage import StorePath, WrapperStore

from dhsic._typing import Mask
from dhsic.errors import DataError
from dhsic.sources.codecs import bounded
from dhsic.sources.stores import ArchiveStore, FolderStore, portable

if TYPE_CHECKING:
    from zarr.core.buffer import Buffer, BufferPrototype

MissingChunks = Literal["error", "fill"]
#: A stored chunk may be so many times as long as its codecs make it (shards that were appended to).
STORED_TWICE, STORED_BYTES = 2, 1 << 20
NOT_WRITTEN = np.uint64(2**64 - 1)  # offset of an inner chunk that a shard lacks


class StoreFailedError(Exception):
    """The store itself failed (network, permissions): says nothing about what it holds."""


class WatchedStore(WrapperStore[Store]):
    """Reads one array's chunks from `store`, and refuses to make up those that are absent.

    Parameters
    ----------
    array : zarr.Array
        The array, opened without being watched.
    label : str
        How messages call the array.
    missing_chunks : {"error", "fill"}
        "fill" leaves absent chunks to Zarr, which makes fill values of them.
    holes : {"error", "fill"}, optional
        The same of inner chunks that a shard lacks; as `missing_chunks` by default. A writer that
        writes whole shards leaves out on purpose what it leaves out of them.
    limit : int, optional
        Most bytes of a stored chunk, or shard.
    """

    def __init__(
        self,
        store: Store,
        array: zarr.Array[Any],
        label: str,
        missing_chunks: MissingChunks,
        holes: MissingChunks | None = None,
        limit: int | None = None,
    ) -> None:
        super().__init__(store)
        self._label = label
        self._prefix = f"{array.path}/" if array.path else ""
        self._fill_value = array.fill_value
        self._strict = missing_chunks == "error"
        self._limit = limit
        watches_shards = self._strict and holes != "fill"
        self._shards = ShardIndex.of(array.metadata) if watches_shards else None

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Get a chunk, or raise DataError where there is none."""
        chunk = key.removeprefix(self._prefix)
        value = await self._get(key, prototype, byte_range)
        if value is None:
            if self._strict:
                raise self._missing(f"Chunk {chunk!r}")
            return None
        if not len(value):  # zarr takes an empty shard for one that was never written
            raise damaged(chunk, self._label, "it is empty")
        hole = self._shards and self._shards.first_hole(chunk, value, byte_range)
        if hole:
            raise self._missing(f"Inner chunk {hole} of shard {chunk!r}")
        return value

    async def _get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None
    ) -> Buffer | None:
        """Ask the store for a chunk, or a part of one, that is no longer than it may be."""
        chunk, store = key.removeprefix(self._prefix), self._store
        if isinstance(byte_range, RangeByteRequest):
            self._check(chunk, byte_range.end - byte_range.start)
        try:
            if isinstance(store, FolderStore | ArchiveStore):
                return await store.get_within(self._limit, key, prototype, byte_range)
            return await store.get(key, prototype, byte_range)
        except DataError:
            raise
        except BadZipFile as error:
            raise damaged(chunk, self._label, error) from error
        except Exception as error:
            raise StoreFailedError(key) from error

    def _check(self, chunk: str, n_bytes: int) -> None:
        if self._limit is not None and n_bytes > self._limit:
            raise damaged(chunk, self._label, "its index leads beyond it")

    def _missing(self, chunk: str) -> DataError:
        return DataError(
            f"{chunk} of {self._label} is missing; the writer died or the file was deleted: write "
            "it again, or restore it. If its writer leaves out chunks that hold only the fill "
            f"value ({self._fill_value}), pass missing_chunks='fill'."
        )


def guarded(
    array: zarr.Array[Any],
    label: str,
    missing_chunks: MissingChunks = "error",
    holes: MissingChunks | None = None,
) -> zarr.Array[Any]:
    """The array, reading through a store that watches and codecs that are known and bounded.

    Whatever decodes a chunk of a store asks for the array here first.

    Raises
    ------
    DataError
        The array has codecs that are not read.
    """
    metadata, n_bytes = bounded(array.metadata, label)
    limit = STORED_TWICE * n_bytes + STORED_BYTES
    store = WatchedStore(portable(array.store), array, label, missing_chunks, holes, limit)
    made = zarr.AsyncArray(metadata=metadata, store_path=StorePath(store, array.path))
    return zarr.Array(made)


def damaged(chunk: str, label: str, why: object) -> DataError:
    """Return the error of a chunk that is there and cannot be decoded."""
    return DataError(
        f"Chunk {chunk!r} of {label} does not decode ({why}); it is damaged: write it again, or "
        "restore it."
    )


@dataclass(frozen=True)
class ShardIndex:
    """Finds inner chunks that a shard lacks, from the index at its start or end.

    The index holds an offset and a length, uint64 each, for every inner chunk. It is looked at
    as it passes by: zarr reads either whole shards or the index first.
    """

    metadata: Any  # of the array: shape, grid, codecs

    @classmethod
    def of(cls, metadata: Any) -> ShardIndex | None:
        """Return the index of a sharded array; None for others, and for unusual index codecs."""
        codec: Any = metadata.codecs[0] if metadata.zarr_format == 3 else None
        if not isinstance(codec, ShardingCodec):
            return None
        names = [c.to_dict()["name"] for c in codec.index_codecs]
        first: Any = codec.index_codecs[0].to_dict()
        if names not in (["bytes"], ["bytes", "crc32c"]):
            return None
        return cls(metadata) if first["configuration"]["endian"] == "little" else None

    def first_hole(self, key: str, value: Buffer, byte_range: ByteRequest | None) -> str | None:
        """Name the first inner chunk that is absent and within the array; None where none is."""
        codec = self.metadata.codecs[0]
        shard = self.metadata.chunk_grid.chunk_shape
        counts = tuple(s // c for s, c in zip(shard, codec.chunk_shape, strict=True))
        n_bytes = 16 * int(np.prod(counts)) + (4 if len(codec.index_codecs) == 2 else 0)
        at_end = codec.index_location.value == "end"
        if not _holds_index(byte_range, n_bytes, at_end=at_end) or len(value) < n_bytes:
            return None
        raw = value[-n_bytes:] if at_end else value[:n_bytes]
        index = np.frombuffer(raw.to_bytes(), "<u8", 2 * int(np.prod(counts)))
        absent = index.reshape(*counts, 2)[..., 0] == NOT_WRITTEN
        holes = np.argwhere(absent[self._inside(key, absent)])
        return None if not len(holes) else "/".join(map(str, holes[0]))

    def _inside(self, key: str, absent: Mask) -> tuple[slice, ...]:
        """Inner chunks of a shard that begin within the array, a box; edge shards have others."""
        at = map(int, re.findall(r"\d+", key))  # zarr 3.1's decode_chunk_key refuses "c/0/0"
        inner = self.metadata.codecs[0].chunk_shape
        axes = zip(at, absent.shape, inner, self.metadata.shape, strict=True)
        return tuple(slice(0, min(n, -(-size // c) - k * n)) for k, n, c, size in axes)


def _holds_index(byte_range: ByteRequest | None, n_bytes: int, *, at_end: bool) -> bool:
    if byte_range is None:
        return True
    expected = SuffixByteRequest(n_bytes) if at_end else RangeByteRequest(0, n_bytes)
    return byte_range == expected

"""One array of a Zarr store, read in whole chunks along its features.

Zarr reads a chunk that is not there as fill values, silently: a deleted file of genotypes becomes
zeros, which are genotypes too. Here every chunk that a read asks for passes through `get` of a
store whose absent chunks are errors, so nothing is listed, nothing is asked twice, and nothing can
vanish between a check and the read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np
import zarr
from zarr.abc.store import ByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.codecs import ShardingCodec
from zarr.storage import MemoryStore, StorePath, WrapperStore

from dhsic._typing import Array, Index, Mask
from dhsic.errors import DataError, InputError
from dhsic.sources.base import (
    Block,
    check_dtype,
    group_chunks,
    regular_edges,
    row_span,
    take_rows,
)
from dhsic.sources.codecs import bounded, check_fits
from dhsic.sources.names import text
from dhsic.sources.request import MissingChunks
from dhsic.sources.stores import ArchiveStore, FolderStore, metadata_of, portable

if TYPE_CHECKING:
    from zarr.core.buffer import Buffer, BufferPrototype

Node = zarr.Array[Any] | zarr.Group
#: A stored chunk may be so many times as long as its codecs make it (shards that were appended to).
STORED_TWICE, STORED_BYTES = 2, 1 << 20
NOT_WRITTEN = np.uint64(2**64 - 1)  # offset of an inner chunk that a shard lacks


class ChunkedArray:
    """An array (features, samples, ...) or (samples, features, ...) of a Zarr store.

    It pickles as its store and its path, and opens itself again where it is needed; the handle
    stays with the instance.

    zarr's own concurrency (``async.concurrency``) is left alone: its setting belongs to the whole
    process, and a scoped change would race between threads.

    Parameters
    ----------
    array : zarr.Array
        Any format, sharded or not, in any store.
    feature_axis : int
        0 or 1.
    missing_chunks : {"error", "fill"}
        What a chunk that is not stored is: damage, or fill values (of a writer with
        ``write_empty_chunks=False``).
    """

    def __init__(
        self, array: zarr.Array[Any], feature_axis: int, missing_chunks: MissingChunks = "error"
    ) -> None:
        if missing_chunks not in ("error", "fill"):
            raise InputError(
                f"missing_chunks={missing_chunks!r} is unknown. Pass 'error', or 'fill' to read "
                "chunks that are not stored as fill values."
            )
        self.store = portable(array.store)
        self.path = array.path
        self.label = str(StorePath(self.store, self.path))
        check_dtype(array.dtype, self.label)
        self.feature_axis = feature_axis
        self.missing_chunks = missing_chunks
        self.shape = array.shape
        self.dtype = array.dtype
        self.grid = array.shards or array.chunks
        self.chunk_bytes = prod(self.grid) * self.dtype.itemsize
        check_fits(array, self.label, feature_axis)
        # A store in memory is pickled with what it holds.
        self.client_bytes = array.nbytes_stored() if isinstance(self.store, MemoryStore) else 0

    @property
    def n_features(self) -> int:
        """Number of features d."""
        return int(self.shape[self.feature_axis])

    @property
    def n_samples(self) -> int:
        """Number of samples m."""
        return int(self.shape[1 - self.feature_axis])

    @property
    def edges(self) -> Index:
        """Boundaries of chunks (or shards) along the features."""
        return regular_edges(self.n_features, self.grid[self.feature_axis])

    @property
    def layout(self) -> Any:
        """What tells stores of the same matrix apart."""
        return self.feature_axis, self.shape, self.grid, str(self.dtype)

    @cached_property
    def handle(self) -> zarr.Array[Any]:
        """The array, opened; its chunks come through a store that watches."""
        raw = self.opened()
        found = raw.shape, raw.dtype, raw.shards or raw.chunks
        if found != (self.shape, self.dtype, self.grid):
            raise DataError(
                f"{self.label} is {raw.shape} {raw.dtype} in chunks of {found[2]} now and was "
                f"{self.shape} {self.dtype} in chunks of {self.grid} when it was opened: it was "
                "written again meanwhile, or its consolidated metadata are others. Open it anew."
            )
        return guarded(raw, self.label, self.missing_chunks)

    def opened(self) -> zarr.Array[Any]:
        """The array as zarr opens it: for its metadata, not to read its values."""
        with metadata_of(self.label):
            return zarr.open_array(self.store, path=self.path, mode="r")

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "handle"}

    def blocks(self, width: int) -> tuple[Block, ...]:
        """Group whole chunks (or shards) into blocks of up to `width` features."""
        return group_chunks(self.edges, width)

    def read(self, block: Block, rows: Index | None) -> Array:
        """Read a block features-first, (c, m, ...), C-ordered; only the chunks that hold `rows`."""
        span = row_span(rows, self.n_samples)
        features = slice(block.start, block.stop)
        region = (features, span) if self.feature_axis == 0 else (span, features)
        values = np.asarray(self._decoded(region))
        values = take_rows(np.moveaxis(values, self.feature_axis, 0), rows, span)
        return np.ascontiguousarray(values)

    def place(self, feature: int, sample: int) -> str:
        """Say where a value is stored, as the end of a clause."""
        at = (feature, sample) if self.feature_axis == 0 else (sample, feature)
        coords = (k // n for k, n in zip(at, self.grid, strict=False))
        rest = (0 for _ in self.grid[2:])
        return f", in chunk {self._key((*coords, *rest))!r} of {self.label}"

    def _key(self, coords: tuple[int, ...]) -> str:
        return str(self.handle.metadata.encode_chunk_key(coords))

    def _decoded(self, region: tuple[slice, ...]) -> Any:
        try:
            return self.handle[region]
        except DataError:
            raise
        except StoreFailedError as error:
            raise (error.__cause__ or error) from None
        except Exception:  # a codec may raise anything
            self._find_damage(region)
            return self.handle[region]  # every chunk decodes now: the failure has passed

    def _find_damage(self, region: tuple[slice, ...]) -> None:
        """Decode the chunks of a region one by one, and name the first that does not."""
        for coords, part in self._chunks_of(region):
            try:
                self.handle[part]
            except (DataError, StoreFailedError):
                raise
            except Exception as error:
                why = f"{type(error).__name__}: {error}"
                raise damaged(self._key(coords), self.label, why) from error

    def _chunks_of(
        self, region: tuple[slice, ...]
    ) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
        whole = (*region, *(slice(0, n) for n in self.shape[2:]))
        axes = zip(whole, self.grid, strict=True)
        touched = [range(s.start // n, -(-s.stop // n)) for s, n in axes]
        for coords in product(*touched):
            part = zip(coords, self.grid, self.shape, strict=True)
            yield coords, tuple(slice(k * n, min((k + 1) * n, size)) for k, n, size in part)


def read_array(
    array: zarr.Array[Any],
    missing_chunks: MissingChunks = "error",
    region: Any = ...,
    *,
    holes: MissingChunks | None = None,
) -> Array:
    """An array of labels or names, of any dtype; damage is named as that of a matrix."""
    label = str(array.store_path)
    check_fits(array, label)
    try:
        return np.asarray(guarded(array, label, missing_chunks, holes)[region])
    except (DataError, MemoryError):
        raise
    except StoreFailedError as error:
        raise (error.__cause__ or error) from None
    except Exception as error:  # a codec may raise anything
        raise DataError(
            f"{label} does not decode ({type(error).__name__}: {error}); it is damaged: write it "
            "again, or restore it."
        ) from error


def place_of(node: Node) -> StorePath:
    """Where an array or group lies, for whoever opens it again elsewhere."""
    return StorePath(portable(node.store), node.path)


def stored_names(array: zarr.Array[Any] | None) -> Callable[[], Array] | None:
    """What reads the names that an array holds, None without one."""
    return None if array is None else partial(_read_names, place_of(array))


def _read_names(place: StorePath) -> Array:
    with metadata_of(place):
        array = zarr.open_array(place.store, path=place.path, mode="r")
    return text(read_array(array, "fill"))


def child(group: zarr.Group, name: str) -> Node | None:
    """Return what lies at a path below a group, or None; damage is an error."""
    with metadata_of(f"{group.store_path}/{name}"):
        return group.get(name)


def member(group: zarr.Group, name: str) -> zarr.Array[Any] | None:
    """Return an array of a group, or None where there is none of that name."""
    found = child(group, name)
    return found if isinstance(found, zarr.Array) else None


def group_at(place: StorePath) -> zarr.Group:
    """Open the group at a place; its own metadata, not those that the root consolidates.

    Given as store and path: zarr leaves the zip file of a `StorePath` unopened.
    """
    with metadata_of(place):
        return zarr.open_group(place.store, path=place.path, mode="r", use_consolidated=False)


def dimension_names(array: zarr.Array[Any]) -> tuple[str | None, ...] | None:
    """Names of the dimensions: of the metadata in format 3, of an attribute in format 2."""
    names: Any = getattr(array.metadata, "dimension_names", None)
    if not names or not any(names):
        names = array.attrs.get("_ARRAY_DIMENSIONS")
    return tuple(names) if names and len(names) == array.ndim else None


class StoreFailedError(Exception):
    """The store itself failed (network, permissions): says nothing about what it holds."""


class WatchedStore(WrapperStore[Store]):
    """Reads one array's chunks from a store, and refuses to make up those that are absent.

    Parameters
    ----------
    array : zarr.Array
        The array, opened without being watched.
    label : str
        How messages call the array.
    missing_chunks : {"error", "fill"}
        "fill" leaves absent chunks to Zarr, which makes fill values of them.
    holes : {"error", "fill"}
        The same of inner chunks that a shard lacks.
    limit : int
        Most bytes of a stored chunk, or shard.
    """

    def __init__(
        self,
        array: zarr.Array[Any],
        label: str,
        missing_chunks: MissingChunks,
        holes: MissingChunks,
        limit: int,
    ) -> None:
        super().__init__(portable(array.store))
        self._label = label
        self._prefix = f"{array.path}/" if array.path else ""
        self._fill_value = array.fill_value
        self._strict = missing_chunks == "error"
        self._limit = limit
        watches_shards = self._strict and holes == "error"
        self._shards = ShardIndex.of(array.metadata) if watches_shards else None

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Get a chunk, or raise DataError where there is none."""
        chunk = key.removeprefix(self._prefix)
        value = await self._get(key, chunk, prototype, byte_range)
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
        self, key: str, chunk: str, prototype: BufferPrototype, byte_range: ByteRequest | None
    ) -> Buffer | None:
        """Ask the store for a chunk, or a part of one, that is no longer than it may be."""
        store, part = self._store, byte_range
        if isinstance(part, RangeByteRequest) and part.end - part.start > self._limit:
            raise damaged(chunk, self._label, "its index leads beyond it")
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

    Whatever decodes a chunk of a store asks for the array here first. `holes` are inner chunks
    that a shard lacks, by default as `missing_chunks`: a writer that writes whole shards leaves
    out on purpose what it leaves out of them.

    Raises
    ------
    DataError
        The array has codecs that are not read.
    """
    metadata, n_bytes = bounded(array.metadata, label)
    limit = STORED_TWICE * n_bytes + STORED_BYTES
    store = WatchedStore(array, label, missing_chunks, holes or missing_chunks, limit)
    return zarr.Array(zarr.AsyncArray(metadata=metadata, store_path=StorePath(store, array.path)))


def damaged(chunk: str, label: str, why: object) -> DataError:
    """Return the error of a chunk that is there and cannot be decoded."""
    return DataError(
        f"Chunk {chunk!r} of {label} does not decode ({why}); it is damaged: write it again, or "
        "restore it."
    )


@dataclass(frozen=True)
class ShardIndex:
    """The index of a sharded array: offset and length, uint64 each, for every inner chunk.

    It is looked at as it passes by: zarr reads either whole shards or the index first.
    """

    metadata: Any  # of the array: shape, grid, codecs

    @classmethod
    def of(cls, metadata: Any) -> ShardIndex | None:
        """Return the index of a sharded array; None for others, and for unusual index codecs."""
        codec: Any = metadata.codecs[0] if metadata.zarr_format == 3 else None
        if not isinstance(codec, ShardingCodec):
            return None
        first, *others = (c.to_dict() for c in codec.index_codecs)
        endian: Any = first.get("configuration", {})
        is_plain = first["name"] == "bytes" and [c["name"] for c in others] in ([], ["crc32c"])
        return cls(metadata) if is_plain and endian["endian"] == "little" else None

    def first_hole(self, key: str, value: Buffer, byte_range: ByteRequest | None) -> str | None:
        """Name the first inner chunk that is absent and within the array; None where none is."""
        codec, grid = self.metadata.codecs[0], self.metadata.chunk_grid.chunk_shape
        counts = tuple(s // c for s, c in zip(grid, codec.chunk_shape, strict=True))
        n_bytes = 16 * prod(counts) + 4 * (len(codec.index_codecs) - 1)
        at_end = codec.index_location.value == "end"
        of_index = SuffixByteRequest(n_bytes) if at_end else RangeByteRequest(0, n_bytes)
        if byte_range not in (None, of_index) or len(value) < n_bytes:
            return None
        raw = value[-n_bytes:] if at_end else value[:n_bytes]
        index = np.frombuffer(raw.to_bytes(), "<u8", 2 * prod(counts))
        absent = index.reshape(*counts, 2)[..., 0] == NOT_WRITTEN
        holes = np.argwhere(absent[self._inside(key, absent)])
        return None if not len(holes) else "/".join(map(str, holes[0]))

    def _inside(self, key: str, absent: Mask) -> tuple[slice, ...]:
        """Inner chunks of a shard that begin within the array, a box; edge shards have others."""
        at = map(int, re.findall(r"\d+", key))  # zarr 3.1's decode_chunk_key refuses "c/0/0"
        inner = self.metadata.codecs[0].chunk_shape
        axes = zip(at, absent.shape, inner, self.metadata.shape, strict=True)
        return tuple(slice(0, min(n, -(-size // c) - k * n)) for k, n, c, size in axes)

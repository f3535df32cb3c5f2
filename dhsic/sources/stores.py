"""Zarr stores that only read regular files of limited size, and that report absent chunks.

A path in a store may be a pipe, which blocks for ever, a device, which never ends, or a file that
decompresses to a thousand times its size. All files in a folder or a zip file are therefore checked
before they are read. An absent chunk of an array or of a shard raises an error. Zarr alone would
replace it by the fill value.
"""

from __future__ import annotations

import asyncio
import errno
import re
import stat
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile

import numpy as np
import zarr
from zarr.abc.store import (
    ByteRequest,
    OffsetByteRequest,
    RangeByteRequest,
    Store,
    SuffixByteRequest,
)
from zarr.codecs import ShardingCodec
from zarr.storage import LocalStore, ObjectStore, StorePath, WrapperStore, ZipStore

from dhsic.errors import DataError, DhsicError, StoreError
from dhsic.object_store import folder_of, load_obstore, sentence, without_secrets
from dhsic.sources.codecs import bounded
from dhsic.sources.options import MissingChunks

if TYPE_CHECKING:
    from zarr.core.buffer import Buffer, BufferPrototype

#: Names of metadata files, and maximum bytes of one; parsed, it needs 20 times as much memory.
METADATA = frozenset({"zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata"})
METADATA_BYTES = 32 << 20
#: A stored chunk may have this many times the bytes that its codecs produce, plus a constant,
#: because data may have been appended to shards.
STORED_TWICE, STORED_BYTES = 2, 1 << 20
NOT_WRITTEN = np.uint64(2**64 - 1)  # offset of an inner chunk that a shard lacks
#: Text of the zarr error for an array of an unknown data type.
UNKNOWN_DTYPE = "No Zarr data type found"

KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFDIR: "a folder",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def file_bytes(path: Path) -> int | None:
    """Return the size of a file in bytes; None if it does not exist.

    Raises
    ------
    DataError
        The path is not a regular file. To read it might block or never end.
    """
    try:
        info = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        if path.is_symlink():
            raise DataError(
                f"{path} is a broken link. Restore its target, or copy the store with links "
                "followed (cp -rL)."
            ) from None
        return None
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise DataError(
            f"{path} is a circular link, or is inside one. Copy the store again."
        ) from error
    if not stat.S_ISREG(info.st_mode):
        kind = KINDS.get(stat.S_IFMT(info.st_mode), "not a regular file")
        raise DataError(f"{path} is {kind}, but should be a file. Remove it, or copy it again.")
    return info.st_size


def _check_size(key: str, size: int | None, limit: int | None, where: object) -> None:
    if limit is None and key.rpartition("/")[2] in METADATA:
        limit = METADATA_BYTES
    if size is not None and limit is not None and size > limit:
        raise DataError(
            f"{key} of {where} has {size:,} bytes, but at most {limit:,} are allowed. Restore it "
            "from a copy, or write it again; store long metadata as arrays."
        )


class FolderStore(LocalStore):
    """Folder store that reads only regular files."""

    async def get(
        self,
        key: str,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
        *,
        limit: int | None = None,
    ) -> Buffer | None:
        """Read a file; raise DataError if it exceeds `limit` bytes or is not a regular file."""
        size = await asyncio.to_thread(file_bytes, self.root / key)
        _check_size(key, size, limit, self.root)
        return None if size is None else await super().get(key, prototype, byte_range)


class ArchiveStore(ZipStore):
    """Store in a zip file; decompression stops at the size that the zip file states."""

    async def get(
        self,
        key: str,
        prototype: BufferPrototype,
        byte_range: ByteRequest | None = None,
        *,
        limit: int | None = None,
    ) -> Buffer | None:
        """Read a file; raise an error if it exceeds `limit` bytes or is damaged."""
        await self._ensure_open()
        info = self._zf.NameToInfo.get(key)
        if info is None:
            return None
        if info.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
            raise DataError(
                f"{key} of {self.path} is compressed with a zip method whose output size cannot "
                "be limited. Write the zip file without compression, because Zarr compresses its "
                "chunks itself."
            )
        _check_size(key, info.file_size, limit, self.path)
        try:
            return await super().get(key, prototype, _span(byte_range, info.file_size))
        except (BadZipFile, zlib.error, RuntimeError, EOFError) as error:  # errors of zipfile
            if limit is not None:
                raise BadZipFile(str(error)) from error
            raise DataError(
                f"{key} of {self.path} cannot be decompressed ({error}). Copy or write the zip "
                "file again."
            ) from error

    async def getsize(self, key: str) -> int:
        """Return the number of bytes of a file, without decompressing it."""
        await self._ensure_open()
        if key not in self._zf.NameToInfo:
            raise FileNotFoundError(key)
        return self._zf.NameToInfo[key].file_size


class BucketStore(ObjectStore[Any]):
    """Store of the objects below a URL; each process that unpickles it opens a connection."""

    def __init__(self, url: str, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(folder_of(url, options), read_only=True)
        self._said = url, options

    def __reduce__(self) -> tuple[Any, ...]:
        return BucketStore, self._said

    def __str__(self) -> str:
        return without_secrets(self._said[0])

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Read an object; raise StoreError if the store does not answer or refuses access."""
        try:
            buffer = await super().get(key, prototype, byte_range)
        except load_obstore().exceptions.BaseError as error:
            raise StoreError(sentence(str(self), error)) from None  # its text may contain keys
        _check_size(key, None if buffer is None else len(buffer), None, self)
        return buffer


def _span(byte_range: ByteRequest | None, size: int) -> RangeByteRequest:
    """Return a byte range with an explicit end; otherwise zip would decompress the whole file."""
    if isinstance(byte_range, RangeByteRequest):
        return RangeByteRequest(byte_range.start, min(byte_range.end, size))
    if isinstance(byte_range, OffsetByteRequest):
        return RangeByteRequest(byte_range.offset, size)
    if isinstance(byte_range, SuffixByteRequest):
        return RangeByteRequest(max(0, size - byte_range.suffix), size)
    return RangeByteRequest(0, size)


def portable(store: Store) -> Store:
    """Return the store with an absolute local path, so that workers can open it."""
    if isinstance(store, FolderStore) and type(store) is not FolderStore:
        return store  # which says itself how it is opened elsewhere
    if isinstance(store, LocalStore):
        return FolderStore(store.root.resolve(), read_only=True)
    if isinstance(store, ZipStore):
        if isinstance(store, ArchiveStore) and store.path.is_absolute():
            return store  # keeps its list of files
        return ArchiveStore(store.path.resolve(), mode="r")
    return store


@contextmanager
def metadata_of(path: object) -> Iterator[None]:
    """Raise DataError for damaged metadata (zarr.json, .zarray, ...) of a store."""
    try:
        yield
    except (DhsicError, OSError, ImportError, BadZipFile, MemoryError):
        raise
    except Exception as error:  # any content may cause any error
        if UNKNOWN_DTYPE in str(error):
            raise DataError(
                f"{path} contains an array of a data type that zarr {zarr.__version__} cannot "
                f"read ({str(error)[:200]}). Write it as numbers or text, or install a newer "
                "zarr."
            ) from error
        lines = str(error).splitlines() or [""]
        reason = f"{type(error).__name__}: {lines[0][:200]}".removesuffix(": ")
        raise DataError(
            f"The metadata of {path} cannot be read ({reason}). They are damaged, or use unknown "
            "codecs or types. Restore zarr.json (or .zarray, .zgroup, .zmetadata) from a copy, "
            "or write the store again."
        ) from error


class StoreFailedError(Exception):
    """Error of the store itself, such as the network or permissions, not of its content."""


class WatchedStore(WrapperStore[Store]):
    """Store of the chunks of one array that raises an error for absent chunks.

    `label` is the name of the array in messages, and `limit` the maximum number of bytes of a
    stored chunk or shard. If `missing_chunks` is "error", absent chunks raise an error; if it is
    "fill", Zarr replaces them by fill values. `holes` has the same meaning for the inner chunks of
    a shard.
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
        self._label, self._limit = label, limit
        self._prefix = f"{array.path}/" if array.path else ""
        self._metadata: Any = array.metadata
        self._strict = missing_chunks == "error"
        self._watches_shards = self._strict and holes == "error" and _has_index(array.metadata)

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Read a chunk, or part of one; raise DataError if it is absent."""
        chunk = key.removeprefix(self._prefix)
        value = await self._within(key, chunk, prototype, byte_range)
        if value is None:
            if self._strict:
                raise self._missing(f"Chunk {chunk!r}")
            return None
        if not len(value):  # zarr treats an empty shard as absent
            raise damaged(chunk, self._label, "it is empty")
        hole = self._first_hole(chunk, value, byte_range) if self._watches_shards else None
        if hole:
            raise self._missing(f"Inner chunk {hole} of shard {chunk!r}")
        return value

    async def _within(
        self, key: str, chunk: str, prototype: BufferPrototype, part: ByteRequest | None
    ) -> Buffer | None:
        """Read a chunk, or part of one; return None if absent, raise an error if too large."""
        store, limit = self._store, self._limit
        if isinstance(part, RangeByteRequest) and part.end - part.start > limit:
            raise damaged(chunk, self._label, "its index points beyond its end")
        try:
            if isinstance(store, FolderStore | ArchiveStore):
                return await store.get(key, prototype, part, limit=limit)
            return await store.get(key, prototype, part)
        except DhsicError:
            raise
        except BadZipFile as error:
            raise damaged(chunk, self._label, error) from error
        except Exception as error:
            raise StoreFailedError(key) from error

    def _first_hole(self, chunk: str, value: Buffer, part: ByteRequest | None) -> str | None:
        """Return the position, such as "0/1", of the first absent inner chunk of a shard, or None.

        The index of a shard contains offset and length (uint64) of every inner chunk. It is checked
        when zarr reads it, in a whole shard or before parts of the shard. For other reads the
        result is None.
        """
        codec, grid = self._metadata.codecs[0], self._metadata.chunk_grid.chunk_shape
        counts = tuple(s // c for s, c in zip(grid, codec.chunk_shape, strict=True))
        n_bytes = 16 * prod(counts) + 4 * (len(codec.index_codecs) - 1)
        at_end = codec.index_location.value == "end"
        of_index = SuffixByteRequest(n_bytes) if at_end else RangeByteRequest(0, n_bytes)
        if part not in (None, of_index) or len(value) < n_bytes:
            return None
        raw = value[-n_bytes:] if at_end else value[:n_bytes]
        index = np.frombuffer(raw.to_bytes(), "<u8", 2 * prod(counts))
        absent = index.reshape(*counts, 2)[..., 0] == NOT_WRITTEN
        at = map(int, re.findall(r"\d+", chunk))  # zarr 3.1's decode_chunk_key refuses "c/0/0"
        axes = zip(at, counts, codec.chunk_shape, self._metadata.shape, strict=True)
        # Only inner chunks inside the array; shards at its edge contain others.
        inside = tuple(slice(0, min(n, -(-size // c) - k * n)) for k, n, c, size in axes)
        holes = np.argwhere(absent[inside])
        return None if not len(holes) else "/".join(map(str, holes[0]))

    def _missing(self, chunk: str) -> DataError:
        return DataError(
            f"{chunk} of {self._label} is missing: the program that wrote it died, or the file "
            "was deleted. Write it again, or restore it. If the program omits chunks that "
            f"contain only the fill value ({self._metadata.fill_value}), pass "
            "missing_chunks='fill'."
        )


def _has_index(metadata: Any) -> bool:
    """Whether an array has shards with an index that can be checked (little-endian bytes)."""
    codec: Any = metadata.codecs[0] if metadata.zarr_format == 3 else None
    if not isinstance(codec, ShardingCodec):
        return False
    first, *other_codecs = (c.to_dict() for c in codec.index_codecs)
    endian: Any = first.get("configuration", {})
    is_plain = first["name"] == "bytes" and [c["name"] for c in other_codecs] in ([], ["crc32c"])
    return is_plain and bool(endian["endian"] == "little")


def guarded(
    array: zarr.Array[Any],
    label: str,
    missing_chunks: MissingChunks = "error",
    holes: MissingChunks | None = None,
) -> zarr.Array[Any]:
    """Return the array with a store that checks its chunks; refuse codecs that are not allowed.

    All code that decodes chunks of a store uses this function. `holes` is the treatment of absent
    inner chunks of a shard, by default the value of `missing_chunks`. It should be "fill" for
    programs that write whole shards, because they omit inner chunks only on purpose.
    """
    metadata, n_bytes = bounded(array.metadata, label)
    limit = STORED_TWICE * n_bytes + STORED_BYTES
    store = WatchedStore(array, label, missing_chunks, holes or missing_chunks, limit)
    return zarr.Array(zarr.AsyncArray(metadata=metadata, store_path=StorePath(store, array.path)))


def damaged(chunk: str, label: str, why: object) -> DataError:
    """Return the error for a chunk that exists but cannot be decoded."""
    return DataError(
        f"Chunk {chunk!r} of {label} cannot be decoded ({why}). It is damaged: write it again, "
        "or restore it."
    )

"""Zarr stores that check everything they read: regular, existing files of bounded size.

What looks like a store may hold a pipe, which gives nothing for ever, a device, which never ends,
or a file that unpacks to a thousand times its size. So everything in a folder or a zip file is
looked at before it is read; and chunks are read through a store that watches, to which an absent
one, of an array or within a shard, is no fill value but an error.
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

#: Names of files of metadata, and most bytes of one: parsed, it takes 20 times as much.
METADATA = frozenset({"zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata"})
METADATA_BYTES = 32 << 20
#: A stored chunk may be so many times as long as its codecs make it (shards that were appended to).
STORED_TWICE, STORED_BYTES = 2, 1 << 20
NOT_WRITTEN = np.uint64(2**64 - 1)  # offset of an inner chunk that a shard lacks
#: What zarr says of an array whose data type it does not know.
UNKNOWN_DTYPE = "No Zarr data type found"

KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFDIR: "a folder",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def file_bytes(path: Path) -> int | None:
    """Return the size of a file; None if it does not exist.

    Raises
    ------
    DataError
        There is something else, which would never end or never begin.
    """
    try:
        info = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        if path.is_symlink():
            raise DataError(
                f"{path} is a link to nothing. Restore what it leads to, or copy the store with "
                "its links followed (cp -rL)."
            ) from None
        return None
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise DataError(
            f"{path} is, or is in, a link that leads back to itself. Copy the store again."
        ) from error
    if not stat.S_ISREG(info.st_mode):
        kind = KINDS.get(stat.S_IFMT(info.st_mode), "no file")
        raise DataError(f"{path} is {kind}, and should be a file. Remove it, or copy it again.")
    return info.st_size


def _check_size(key: str, size: int | None, limit: int | None, where: object) -> None:
    if limit is None and key.rpartition("/")[2] in METADATA:
        limit = METADATA_BYTES
    if size is not None and limit is not None and size > limit:
        raise DataError(
            f"{key} of {where} has {size:,} bytes, and at most {limit:,} belong there. Restore it "
            "from a copy, or write it again; what is long in metadata goes into arrays."
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
        """Get a file, no longer than `limit`, or raise DataError where there is something else."""
        size = await asyncio.to_thread(file_bytes, self.root / key)
        _check_size(key, size, limit, self.root)
        return None if size is None else await super().get(key, prototype, byte_range)


class ArchiveStore(ZipStore):
    """Zip store that never unpacks a file beyond its stated size."""

    async def get(
        self,
        key: str,
        prototype: BufferPrototype,
        byte_range: ByteRequest | None = None,
        *,
        limit: int | None = None,
    ) -> Buffer | None:
        """Get a file of the archive, no longer than `limit`; BadZipFile tells of a chunk."""
        await self._ensure_open()
        info = self._zf.NameToInfo.get(key)
        if info is None:
            return None
        if info.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
            raise DataError(
                f"{key} of {self.path} is compressed by a method of zip whose output cannot be "
                "bounded. Write the zip file without compression: Zarr compresses its chunks."
            )
        _check_size(key, info.file_size, limit, self.path)
        try:
            return await super().get(key, prototype, _span(byte_range, info.file_size))
        except (BadZipFile, zlib.error, RuntimeError, EOFError) as error:  # what zipfile raises
            if limit is not None:
                raise BadZipFile(str(error)) from error
            raise DataError(
                f"{key} of {self.path} does not unpack ({error}). Copy or write the zip file again."
            ) from error

    async def getsize(self, key: str) -> int:
        """Bytes of a file, without unpacking it."""
        await self._ensure_open()
        if key not in self._zf.NameToInfo:
            raise FileNotFoundError(key)
        return self._zf.NameToInfo[key].file_size


class BucketStore(ObjectStore[Any]):
    """Objects below a URL of an object store or a web server; each process opens its own."""

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
        """Get an object; StoreError tells of a store that does not answer, or not us."""
        try:
            buffer = await super().get(key, prototype, byte_range)
        except load_obstore().exceptions.BaseError as error:
            raise StoreError(sentence(str(self), error)) from None  # its text may hold keys
        _check_size(key, None if buffer is None else len(buffer), None, self)
        return buffer


def _span(byte_range: ByteRequest | None, size: int) -> RangeByteRequest:
    """Bytes from where to where: without an end, zip unpacks whatever there is."""
    if isinstance(byte_range, RangeByteRequest):
        return RangeByteRequest(byte_range.start, min(byte_range.end, size))
    if isinstance(byte_range, OffsetByteRequest):
        return RangeByteRequest(byte_range.offset, size)
    if isinstance(byte_range, SuffixByteRequest):
        return RangeByteRequest(max(0, size - byte_range.suffix), size)
    return RangeByteRequest(0, size)


def portable(store: Store) -> Store:
    """Make a store that opens anywhere: local paths absolute, since workers run elsewhere."""
    if isinstance(store, LocalStore):
        return FolderStore(store.root.resolve(), read_only=True)
    if isinstance(store, ZipStore):
        if isinstance(store, ArchiveStore) and store.path.is_absolute():
            return store  # its list of files is read once
        return ArchiveStore(store.path.resolve(), mode="r")
    return store


@contextmanager
def metadata_of(path: object) -> Iterator[None]:
    """Tell damaged metadata (zarr.json, .zarray, ...) of a store from other mistakes."""
    try:
        yield
    except (DhsicError, OSError, ImportError, BadZipFile, MemoryError):
        raise
    except Exception as error:  # metadata may hold anything
        if UNKNOWN_DTYPE in str(error):
            raise DataError(
                f"{path} holds an array of a data type that zarr {zarr.__version__} does not read "
                f"({str(error)[:200]}). Write it as numbers or text, or take a newer zarr."
            ) from error
        lines = str(error).splitlines() or [""]
        reason = f"{type(error).__name__}: {lines[0][:200]}".removesuffix(": ")
        raise DataError(
            f"The metadata of {path} do not read ({reason}); they are damaged, or of "
            "codecs or types that are not known here: restore zarr.json (or .zarray, .zgroup, "
            ".zmetadata) from a copy, or write the store again."
        ) from error


class StoreFailedError(Exception):
    """The store itself failed (network, permissions), not its content."""


class WatchedStore(WrapperStore[Store]):
    """Reads one array's chunks from a store, and refuses to make up those that are absent.

    `label` is how messages call the array, `limit` the most bytes of a stored chunk, or shard.
    Absent chunks (`missing_chunks`), and inner ones that a shard lacks (`holes`), are errors or
    left to Zarr, which makes fill values of them.
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
        """Get a chunk, or a part of one, or raise DataError where there is none."""
        chunk = key.removeprefix(self._prefix)
        value = await self._within(key, chunk, prototype, byte_range)
        if value is None:
            if self._strict:
                raise self._missing(f"Chunk {chunk!r}")
            return None
        if not len(value):  # zarr takes an empty shard for one that was never written
            raise damaged(chunk, self._label, "it is empty")
        hole = self._first_hole(chunk, value, byte_range) if self._watches_shards else None
        if hole:
            raise self._missing(f"Inner chunk {hole} of shard {chunk!r}")
        return value

    async def _within(
        self, key: str, chunk: str, prototype: BufferPrototype, part: ByteRequest | None
    ) -> Buffer | None:
        """Ask the store for what is no longer than it may be."""
        store, limit = self._store, self._limit
        if isinstance(part, RangeByteRequest) and part.end - part.start > limit:
            raise damaged(chunk, self._label, "its index leads beyond it")
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
        """Name the first inner chunk that a shard lacks and the array has; None where none is.

        The index (offset and length, uint64 each, for every inner chunk) is looked at as it
        passes by: zarr reads either whole shards or the index first.
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
        # Those that begin within the array, a box: shards at its edge have others.
        inside = tuple(slice(0, min(n, -(-size // c) - k * n)) for k, n, c, size in axes)
        holes = np.argwhere(absent[inside])
        return None if not len(holes) else "/".join(map(str, holes[0]))

    def _missing(self, chunk: str) -> DataError:
        return DataError(
            f"{chunk} of {self._label} is missing; the writer died or the file was deleted: write "
            "it again, or restore it. If its writer leaves out chunks that hold only the fill "
            f"value ({self._metadata.fill_value}), pass missing_chunks='fill'."
        )


def _has_index(metadata: Any) -> bool:
    """Whether an array is sharded, with an index of the usual codecs."""
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
    """The array, reading through a store that watches and codecs that are known and bounded.

    Whatever decodes a chunk of a store asks for the array here first. `holes` are inner chunks
    that a shard lacks, by default as `missing_chunks`: a writer that writes whole shards leaves
    out on purpose what it leaves out of them.
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

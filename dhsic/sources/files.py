"""Stores in folders and zip files, of which only files are read.

What looks like a store may hold a pipe, which gives nothing for ever, a device, which never ends,
or a file that unpacks to a thousand times its size. So everything is looked at before it is read.
"""

from __future__ import annotations

import asyncio
import errno
import stat
import zlib
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from zarr.abc.store import (
    ByteRequest,
    OffsetByteRequest,
    RangeByteRequest,
    Store,
    SuffixByteRequest,
)
from zarr.core.buffer import default_buffer_prototype
from zarr.storage import LocalStore, ZipStore

from dhsic.errors import DataError

if TYPE_CHECKING:
    from zarr.core.buffer import Buffer, BufferPrototype

#: Names of files of metadata, and most bytes of one: parsed, it takes 20 times as much.
METADATA = frozenset({"zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata"})
METADATA_BYTES = 32 << 20

KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFDIR: "a folder",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def file_bytes(path: Path) -> int | None:
    """Size of a file, None where there is nothing.

    Raises
    ------
    DataError
        There is something else, which would never end or never begin.
    """
    try:
        found = path.stat()
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
    if not stat.S_ISREG(found.st_mode):
        kind = KINDS.get(stat.S_IFMT(found.st_mode), "no file")
        raise DataError(f"{path} is {kind}, and should be a file. Remove it, or copy it again.")
    return found.st_size


def _check_size(key: str, size: int | None, limit: int | None, where: object) -> None:
    if limit is None and key.rpartition("/")[2] in METADATA:
        limit = METADATA_BYTES
    if size is not None and limit is not None and size > limit:
        raise DataError(
            f"{key} of {where} has {size:,} bytes, and at most {limit:,} belong there. Restore it "
            "from a copy, or write it again; what is long in metadata goes into arrays."
        )


class FolderStore(LocalStore):
    """A folder, of which only files are read."""

    async def get(
        self,
        key: str,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """Get a file, or raise DataError where there is something else."""
        return await self.get_within(None, key, prototype or default_buffer_prototype(), byte_range)

    async def get_within(
        self,
        limit: int | None,
        key: str,
        prototype: BufferPrototype,
        byte_range: ByteRequest | None,
    ) -> Buffer | None:
        """Get a file that has to be no longer than `limit`."""
        size = await asyncio.to_thread(file_bytes, self.root / key)
        _check_size(key, size, limit, self.root)
        return None if size is None else await super().get(key, prototype, byte_range)


class ArchiveStore(ZipStore):
    """A zip file, of which no file is unpacked to more than it says."""

    @cached_property
    def _entries(self) -> dict[str, ZipInfo]:
        with ZipFile(self.path) as archive:
            return {info.filename: info for info in archive.infolist()}

    async def get(
        self,
        key: str,
        prototype: BufferPrototype,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """Get a file of the archive."""
        try:
            return await self.get_within(None, key, prototype, byte_range)
        except BadZipFile as error:
            raise DataError(
                f"{key} of {self.path} does not unpack ({error}). Copy or write the zip file again."
            ) from error

    async def getsize(self, key: str) -> int:
        """Bytes of a file, without unpacking it."""
        if key not in self._entries:
            raise FileNotFoundError(key)
        return self._entries[key].file_size

    async def get_within(
        self,
        limit: int | None,
        key: str,
        prototype: BufferPrototype,
        byte_range: ByteRequest | None,
    ) -> Buffer | None:
        """Get a file of the archive that has to be no longer than `limit`."""
        info = self._entries.get(key)
        if info is None:
            return None
        if info.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
            raise DataError(
                f"{key} of {self.path} is compressed by a method of zip whose output cannot be "
                "bounded. Write the zip file without compression: Zarr compresses its chunks."
            )
        _check_size(key, info.file_size, limit, self.path)
        await self._ensure_open()
        try:
            return await super().get(key, prototype, _span(byte_range, info.file_size))
        except (zlib.error, RuntimeError, EOFError) as error:  # what zipfile lets through
            raise BadZipFile(str(error)) from error

    def __getstate__(self) -> dict[str, object]:
        state: dict[str, object] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_entries"}


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

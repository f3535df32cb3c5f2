"""Paths and URLs as Zarr arrays and groups, and what to do with files of other formats.

Stores in folders and zip files, of which only files are read.

What looks like a store may hold a pipe, which gives nothing for ever, a device, which never ends,
or a file that unpacks to a thousand times its size. So everything is looked at before it is read.
"""

from __future__ import annotations

import asyncio
import errno
import stat
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import url2pathname
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import zarr
from zarr.abc.store import (
    ByteRequest,
    OffsetByteRequest,
    RangeByteRequest,
    Store,
    SuffixByteRequest,
)
from zarr.core.buffer import default_buffer_prototype
from zarr.storage import LocalStore, ZipStore

from dhsic.errors import DataError, DhsicError, InputError

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


#: What ends the name of a file that is not Zarr, what it is, and how it becomes readable.
FOREIGN = (
    ((".vcf", ".vcf.gz", ".vcf.bgz", ".bcf"), "VCF", "vcf2zarr convert {path} out.vcz"),
    ((".bed", ".bim", ".fam"), "PLINK", "plink2zarr convert {stem} out.vcz"),
    ((".pgen", ".pvar", ".psam"), "PLINK 2", "plink2 --export vcf bgz, then vcf2zarr convert"),
    ((".bgen",), "BGEN", "plink2 --export vcf bgz, then vcf2zarr convert"),
    ((".h5ad",), "AnnData", "anndata.read_h5ad(path).write_zarr('out.zarr'), with a dense X"),
    ((".loom",), "Loom", "anndata.read_loom(path).write_zarr('out.zarr'), with a dense X"),
    ((".h5", ".hdf5", ".nc"), "HDF5", "xarray.open_dataset(path, chunks={{}}).to_zarr('out.zarr')"),
    ((".csv", ".csv.gz"), "CSV", "X = pandas.read_csv(path, index_col=0)"),
    ((".tsv", ".tsv.gz", ".txt", ".txt.gz"), "text", "X = pandas.read_csv(path, sep='\\t')"),
    ((".parquet",), "Parquet", "X = pandas.read_parquet(path)"),
    ((".xlsx", ".xls"), "Excel", "X = pandas.read_excel(path, index_col=0)"),
    ((".npy", ".npz"), "NumPy", "X = numpy.load(path)"),
    ((".mtx", ".mtx.gz"), "Matrix Market", "X = scipy.io.mmread(path).toarray()"),
)

#: What zarr says of an array whose data type it does not know.
UNKNOWN_DTYPE = "No Zarr data type found"


def open_store(path: str, storage_options: Mapping[str, Any] | None = None) -> Any:
    """Open the Zarr array or group at a path or URL.

    Raises
    ------
    InputError
        There is none, or something else; the message says how to make one of it.
    DataError
        Its metadata, or the zip file that it is in, are damaged.
    """
    is_url = "://" in path
    if path.startswith("file://") and not storage_options:
        path, is_url = url2pathname(urlsplit(path).path), False
    try:
        with metadata_of(path):
            store = path if is_url else _local(Path(path))
            return _opened(store, dict(storage_options) if storage_options and is_url else None)
    except BadZipFile as error:
        raise DataError(
            f"{path} is not a zip file, or its end is lost ({error}). Copy or write it again."
        ) from error
    except (FileNotFoundError, NotADirectoryError) as error:  # zarr's own not-found errors too
        raise InputError(_nothing_at(path, is_url=is_url)) from error
    except (ImportError, ValueError) as error:
        if not is_url or isinstance(error, DataError):
            raise
        raise InputError(
            f"{path} cannot be opened: {str(error).rstrip('.')}. Check the scheme (s3://, gs://, "
            "https://, ...), install its package, or copy the store to a local folder."
        ) from error


def _opened(store: Any, storage_options: dict[str, Any] | None) -> Any:
    """Open a store; without its consolidated metadata where zarr reads not all of them.

    Those of one array of a data type that zarr does not know spoil them for all others.
    """
    try:
        return zarr.open(store, mode="r", storage_options=storage_options)
    except ValueError as error:
        if UNKNOWN_DTYPE not in str(error):
            raise
    return zarr.open_group(store, mode="r", storage_options=storage_options, use_consolidated=False)


def _local(path: Path) -> Store:
    """A folder or a zip file, of which only files are read."""
    if path.suffix != ".zip":
        return FolderStore(path, read_only=True)
    if not path.is_dir():
        file_bytes(path)
    return ArchiveStore(path, mode="r")


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
        if type(error) is ValueError and "://" in str(path).removeprefix("file://"):
            raise  # fsspec, of a URL that it does not know
        raise DataError(
            f"The metadata of {path} do not read ({_first_line(error)}); they are damaged, or of "
            "codecs or types that are not known here: restore zarr.json (or .zarray, .zgroup, "
            ".zmetadata) from a copy, or write the store again."
        ) from error


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:200]}".removesuffix(": ")


def _filled(remedy: str, path: str) -> str:
    return remedy.format(path=path, stem=path.rpartition(".")[0])


def _nothing_at(path: str, *, is_url: bool) -> str:
    for suffixes, name, remedy in FOREIGN:
        if path.lower().endswith(suffixes):
            is_there = is_url or Path(path).exists()
            there = "is" if is_there else "is not there, and would be"
            return (
                f"{path} {there} a file in {name} format, and dhsic reads Zarr. Read or convert it "
                f"first: {_filled(remedy, path)}."
            )
    if is_url:
        return (
            f"There is no Zarr array or group at {path}. Check the path, and the credentials "
            "(storage_options)."
        )
    if Path(path).is_file():
        return (
            f"There is no Zarr array or group at {path}: it is a file of another format. Pass the "
            "folder or the .zip file of a Zarr store, or read it and pass the array."
        )
    if Path(path).is_dir():
        held = sorted(p.name for p in Path(path).iterdir())
        some = ", ".join(held[:5]) + (", ..." if len(held) > 5 else "")
        return (
            f"There is no Zarr array or group at {path}: it is a folder with {some or 'nothing'} "
            "in it. Pass the folder that holds zarr.json (or .zgroup, .zarray) itself."
        )
    return f"There is no Zarr array or group at {path}, nor anything else. Check the path."

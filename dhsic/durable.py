"""Files that survive: written, synced, and where they replace others, replaced atomically."""

from __future__ import annotations

import json
import logging
import os
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.codecs import Crc32cCodec
from zarr.storage import MemoryStore

from dhsic._typing import Array
from dhsic.errors import CheckpointError, DhsicError

logger = logging.getLogger("dhsic")


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{value!r} of type {type(value).__name__} is not plain data")


def plain(value: Any) -> Any:
    """Return a copy of plain data (NumPy scalars included) as JSON gives it back."""
    return json.loads(json.dumps(value, default=_plain))


def canonical(value: Any) -> str:
    """Plain data as JSON, the same text for the same data."""
    return json.dumps(value, sort_keys=True, default=_plain)


def write(path: Path, data: bytes) -> None:
    """Write a file and return when it is on the disk."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Return when the names in a folder are on the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def check_place(path: Path, what: str, refusal: type[DhsicError]) -> None:
    """Refuse a path for which more than one folder would have to be made: a slip, most likely.

    Parameters
    ----------
    what : str
        How the message calls the path.
    refusal : type
        Error to raise.
    """
    folder = path.absolute().parent
    if not folder.exists() and not folder.parent.exists():
        raise refusal(
            f"{what} {str(path)!r} is to be in {folder}, and neither that folder nor the one "
            "above is there. Make it first, or choose another path."
        )


def aside(path: Path) -> Path:
    """Name under which `switch` writes before it renames."""
    return path.with_name(f".{path.name}.tmp")


def switch(path: Path, data: bytes) -> None:
    """Replace a file atomically: whoever dies when, it holds the old content or the new."""
    write(aside(path), data)
    aside(path).replace(path)
    sync_folder(path.parent)


def write_node(folder: Path, attributes: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Write a Zarr group of one-chunk arrays, in the place of what a dead run left there."""
    if folder.exists():
        shutil.rmtree(folder)
    files: dict[str, Any] = {}
    group = zarr.create_group(MemoryStore(files), attributes=plain(attributes))
    for name, values in arrays.items():
        group.create_array(
            name,
            data=values,
            chunks=(max(values.size, 1),),
            compressors=[Crc32cCodec()],
            fill_value=-1 if values.dtype.kind == "i" else np.nan,
            chunk_key_encoding={"name": "v2", "separator": "."},  # a folder less to sync
        )
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, content.to_bytes())
    folders = {(folder / name).parent for name in files}
    for changed in [*sorted(folders, reverse=True), folder.parent, folder.parent.parent]:
        sync_folder(changed)


def read_node(folder: Path, *names: str) -> tuple[dict[str, Any], list[Array]]:
    """Read the attributes of a group and its arrays called `names`."""
    group: Any = zarr.open_group(folder, mode="r")
    return dict(group.attrs), [np.asarray(group[name][:]) for name in names]


class WriterLock:
    """The right to write in a folder: one process at a time.

    The kernel holds the lock and frees it when its holder dies, however it dies and whatever
    process has its number now; pid and host in the file are for the message.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / "lock"
        self._handle: int | None = None

    @property
    def held(self) -> bool:
        """Whether this object has the lock."""
        return self._handle is not None

    def take(self) -> None:
        """Take the lock, or say who has it."""
        if self._handle is not None:
            return
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            _flock(handle)
        except BlockingIOError as error:
            writer = os.pread(handle, 200, 0).decode(errors="replace") or "another process"
            os.close(handle)
            raise CheckpointError(
                f"{self.path.parent} is being written by {writer}. Wait until it ends, stop it, "
                "or pass another folder."
            ) from error
        except OSError as error:
            logger.warning(
                "%s cannot be locked (%s); see that one run writes it.", self.path, error
            )
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
        self._handle = handle

    def release(self) -> None:
        """Let others take it."""
        if self._handle is not None:
            os.ftruncate(self._handle, 0)
            os.close(self._handle)
            self._handle = None


def _flock(handle: int) -> None:
    try:
        import fcntl
    except ImportError as error:  # Windows
        raise OSError("no advisory locks here") from error
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)

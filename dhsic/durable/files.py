"""Files that survive: written, synced, and where they replace others, replaced atomically."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from dhsic.errors import DhsicError


def read(path: Path) -> bytes:
    """Content of a file; of a pipe or a device, which may never end, an OSError."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is no file", str(path))
    return path.read_bytes()


def write(path: Path, data: bytes) -> None:
    """Write a file and return when it is on the disk."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Return when the names in a folder are on the disk, where folders can be asked for that."""
    if os.name == "nt":
        return
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


def switch(path: Path, data: bytes, *, sync: bool = True) -> None:
    """Replace a file atomically: whoever dies when, it holds the old content or the new.

    Without `sync` it does not wait for the disk, and may be lost with the machine.
    """
    if not sync:
        aside(path).write_bytes(data)
        aside(path).replace(path)
        return
    write(aside(path), data)
    aside(path).replace(path)
    sync_folder(path.parent)


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file to write that replaces another when the block ends well: else that stays as it was."""
    part = path.with_name(f".{path.name}.partial")
    try:
        with part.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        sync_folder(path.parent)
    finally:
        part.unlink(missing_ok=True)

"""A folder of a local or mounted file system as a place.

Files that survive: written, synced, and where they replace others, replaced atomically.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from dhsic._typing import Array
from dhsic.errors import CheckpointError, DhsicError
from dhsic.storage.base import AbstractFenced, AbstractLock, AbstractPlace, gone
from dhsic.storage.lock import WriterLock
from dhsic.storage.nodes import encode


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


class FencedFile(AbstractFenced):
    """A file; the kernel sees to it that only one process writes it."""

    needs_claim = False

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> bytes | None:
        """What is there."""
        try:
            return read(self._path)
        except FileNotFoundError:
            return None

    def write(self, data: bytes) -> None:
        """Replace it; a folder that is not there any more is not made again."""
        try:
            switch(self._path, data)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise gone(self._path.parent) from error


class FolderPlace(AbstractPlace):
    """A folder.

    Parameters
    ----------
    path : path
        Need not be there.
    """

    path: Path

    def __init__(self, path: Path) -> None:
        self.path = path

    def is_there(self) -> bool:
        return self.path.is_dir()

    def make(self) -> bool:
        """Make it, and the one that it is in, if the one above that is there."""
        check_place(self.path, "The checkpoint", CheckpointError)
        is_new = not self.path.exists()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise CheckpointError(
                f"checkpoint={str(self.path)!r} is, or is in, a file. Pass a new folder."
            ) from error
        return is_new

    def unmake(self) -> None:
        if not any(self.path.iterdir()):
            self.path.rmdir()

    def names(self) -> set[str]:
        names = {path.name for path in self.path.iterdir()}
        return {name for name in names if not (name.startswith(".") and name.endswith(".tmp"))}

    def tree(self) -> list[str]:
        return [p.relative_to(self.path).as_posix() for p in self.path.rglob("*") if p.is_file()]

    def has(self, name: str) -> bool:
        return (self.path / name).exists()

    def read(self, name: str) -> bytes:
        """Content of a file."""
        return read(self.path / name)

    def read_all(self, names: Iterable[str]) -> dict[str, bytes]:
        found = {}
        for name in names:
            try:
                found[name] = self.read(name)
            except OSError:  # what the disk does not give back is as good as gone
                continue
        return found

    def write(self, name: str, data: bytes, *, sync: bool = True) -> None:
        path = self.path / name
        if path.parent != self.path:
            path.parent.mkdir(exist_ok=True)
        switch(path, data, sync=sync)

    def write_all(self, files: Mapping[str, bytes]) -> None:
        """Write files one by one, and then the names in their folders."""
        for name, data in files.items():
            path = self.path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            write(path, data)
        folders = {(self.path / name).parent for name in files}
        for folder in sorted(folders, reverse=True):
            sync_folder(folder)

    def write_node(
        self,
        name: str,
        attributes: Mapping[str, Any],
        arrays: Mapping[str, Array],
        lock: AbstractLock,
    ) -> None:
        """Write a group where nothing of it is left, in a folder that is there."""
        folder = self.path / name
        if folder.exists():
            shutil.rmtree(folder)
        try:
            folder.mkdir()
        except (FileNotFoundError, NotADirectoryError) as error:
            raise gone(folder.parent) from error
        files = encode(attributes, arrays)
        self.write_all({f"{name}/{part}": data for part, data in files.items()})
        for changed in (folder.parent, folder.parent.parent):
            sync_folder(changed)

    def remove(self, *names: str) -> None:
        """Remove files and folders."""
        for path in (self.path / name for name in names):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
                aside(path).unlink(missing_ok=True)

    def lock(self, name: str) -> WriterLock:
        return WriterLock(self.path / name)

    def fenced(self, name: str, lock: AbstractLock) -> FencedFile:
        return FencedFile(self.path / name)

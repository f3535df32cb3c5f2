"""A folder of a local or mounted file system as a place."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dhsic._typing import Array
from dhsic.durable.base import AbstractFenced, AbstractLock, AbstractPlace, gone
from dhsic.durable.files import aside, check_place, read, switch, sync_folder, write
from dhsic.durable.lock import WriterLock
from dhsic.durable.nodes import encode
from dhsic.errors import CheckpointError


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
        """Whether the folder exists."""
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
        """Remove it if nothing is in it."""
        if not any(self.path.iterdir()):
            self.path.rmdir()

    def names(self) -> set[str]:
        """Names in it, without those that `switch` leaves when it dies."""
        names = {path.name for path in self.path.iterdir()}
        return {name for name in names if not (name.startswith(".") and name.endswith(".tmp"))}

    def tree(self) -> list[str]:
        """Names of all files."""
        return [p.relative_to(self.path).as_posix() for p in self.path.rglob("*") if p.is_file()]

    def has(self, name: str) -> bool:
        """Whether there is a file of this name."""
        return (self.path / name).exists()

    def read(self, name: str) -> bytes:
        """Content of a file."""
        return read(self.path / name)

    def read_all(self, names: Iterable[str]) -> dict[str, bytes]:
        """Content of those of these files that can be read."""
        found = {}
        for name in names:
            try:
                found[name] = self.read(name)
            except OSError:  # what the disk does not give back is as good as gone
                continue
        return found

    def write(self, name: str, data: bytes, *, sync: bool = True) -> None:
        """Replace a file by a rename."""
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
        """The lock of this name."""
        return WriterLock(self.path / name)

    def fenced(self, name: str, lock: AbstractLock) -> FencedFile:
        """The file of this name."""
        return FencedFile(self.path / name)

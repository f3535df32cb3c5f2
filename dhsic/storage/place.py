"""Places: a folder, and a part of an object store, asked for the same things.

Files that survive: written, synced, and where they replace others, replaced atomically.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from os import PathLike, fspath
from pathlib import Path
from typing import IO, Any

from dhsic._typing import Array
from dhsic.errors import CheckpointError, DhsicError
from dhsic.storage.lock import AbstractLock, Lease, LostError, WriterLock, gone
from dhsic.storage.nodes import encode
from dhsic.storage.objects import Objects, Tag, as_path, check_url, is_url


class AbstractFenced(ABC):
    """The one file that makes what was written count, and that only the holder of a lock replaces.

    Attributes
    ----------
    needs_claim : bool
        Whether who takes the lock has to write it before all else, so that whoever had the lock
        before and does not know yet that it was taken away cannot write it any more.
    """

    needs_claim: bool

    @abstractmethod
    def read(self) -> bytes | None:
        """What is there, which `write` replaces; None where nothing is."""

    @abstractmethod
    def write(self, data: bytes) -> None:
        """Replace what was last read or written; LostError if another process did so before."""

    def mark(self) -> dict[str, str]:
        """What has to be in the data of the next `write`, to know it from any other."""
        return {}


class AbstractPlace(ABC):
    """Where durable things lie: names, with slashes in them, and bytes.

    Attributes
    ----------
    path : path or str
        The folder, or the URL.
    rarer : int
        How many times rarer it should be looked at than a folder, whose looks cost nothing.
    """

    path: Path | str
    rarer: int = 1

    @abstractmethod
    def is_there(self) -> bool:
        """Whether the folder exists, or anything is under the URL."""

    @abstractmethod
    def make(self) -> bool:
        """Make the folder where there is none; whether that was so."""

    @abstractmethod
    def unmake(self) -> None:
        """Remove the folder if nothing is in it."""

    @abstractmethod
    def names(self) -> set[str]:
        """Names at the top, without those that writing leaves there for a moment."""

    @abstractmethod
    def tree(self) -> list[str]:
        """Names of all files."""

    @abstractmethod
    def has(self, name: str) -> bool:
        """Whether there is a file of this name."""

    @abstractmethod
    def read(self, name: str) -> bytes:
        """Content of a file; FileNotFoundError where there is none."""

    @abstractmethod
    def read_all(self, names: Iterable[str]) -> dict[str, bytes]:
        """Content of those of these files that are there."""

    @abstractmethod
    def write(self, name: str, data: bytes, *, sync: bool = True) -> None:
        """Replace a file atomically, and return when it will survive.

        Without `sync` it may be lost with the machine, and comes sooner.
        """

    @abstractmethod
    def write_all(self, files: Mapping[str, bytes]) -> None:
        """Write files, in any order."""

    @abstractmethod
    def write_node(
        self,
        name: str,
        attributes: Mapping[str, Any],
        arrays: Mapping[str, Array],
        lock: AbstractLock,
    ) -> None:
        """Write a Zarr group of one-chunk arrays, in the place of what a dead run left there.

        Who holds `lock` no more does not write over what its successor wrote.
        """

    @abstractmethod
    def remove(self, *names: str) -> None:
        """Remove files, and folders with all that is in them; those that are not there too."""

    @abstractmethod
    def lock(self, name: str) -> AbstractLock:
        """The lock of this name."""

    @abstractmethod
    def fenced(self, name: str, lock: AbstractLock) -> AbstractFenced:
        """The file of this name, for the holder of a lock alone."""


# A folder ----------------------------------------------------------------------------------


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


# A part of an object store -----------------------------------------------------------------

#: What begins the names of objects that are there for a moment.
MOMENTARY = ".dhsic-"


class FencedObject(AbstractFenced):
    """An object that is written on the condition that it is as this process left it.

    A holder that was paused until its lease ran out, and was followed, is refused by the store
    itself: its successor has written the object first of all.
    """

    needs_claim = True

    def __init__(self, objects: Objects, name: str, lock: AbstractLock) -> None:
        self._objects = objects
        self._name = name
        self._lock = lock
        self._tag: Tag | None = None

    def read(self) -> bytes | None:
        found = self._objects.get(self._name)
        self._tag = None if found is None else found.tag
        return None if found is None else found.data

    def mark(self) -> dict[str, str]:
        return {"dhsic_write": secrets.token_hex(8)}

    def write(self, data: bytes) -> None:
        """Replace it."""
        self._lock.confirm()
        if self._tag is None:
            tag = self._objects.create(self._name, data)
        else:
            tag = self._objects.update(self._name, data, self._tag)
        if tag is None and not self._objects.has(self._name):
            raise gone(self._objects.url)
        if tag is None:
            raise LostError(
                f"{self._objects.url}/{self._name} was written by another process, which has "
                "followed this one. Let that one go on; the rounds that are done are kept."
            )
        self._tag = tag


class Bucket(AbstractPlace):
    """Objects below a URL.

    Parameters
    ----------
    url : str
        As `dhsic.storage.objects.check_url` returns it.
    """

    path: str
    rarer = 10

    def __init__(self, url: str) -> None:
        self.path = url
        self._objects = Objects(url)

    def is_there(self) -> bool:
        return bool(self._objects.top())

    def make(self) -> bool:
        """There are no folders to make."""
        return False

    def unmake(self) -> None:
        """There are no folders to remove."""

    def names(self) -> set[str]:
        return {name for name in self._objects.top() if not name.startswith(MOMENTARY)}

    def tree(self) -> list[str]:
        return self._objects.below()

    def has(self, name: str) -> bool:
        return self._objects.has(name)

    def read(self, name: str) -> bytes:
        found = self._objects.get(name)
        if found is None:
            raise FileNotFoundError(f"{self.path}/{name} is not there")
        return found.data

    def read_all(self, names: Iterable[str]) -> dict[str, bytes]:
        return self._objects.get_all(names)

    def write(self, name: str, data: bytes, *, sync: bool = True) -> None:
        self._objects.put(name, data)

    def write_all(self, files: Mapping[str, bytes]) -> None:
        """Put objects, many at once."""
        self._objects.each(lambda name: self._objects.put(name, files[name]), files)

    def write_node(
        self,
        name: str,
        attributes: Mapping[str, Any],
        arrays: Mapping[str, Array],
        lock: AbstractLock,
    ) -> None:
        """Put the objects of a group, many at once."""
        files = {f"{name}/{part}": data for part, data in encode(attributes, arrays).items()}
        self._objects.each(lambda part: self._put_ours(part, files[part], lock), files)

    def _put_ours(self, name: str, data: bytes, lock: AbstractLock) -> None:
        """Put an object where none is, or in the place of what a dead run left.

        Between looking at what is there and replacing it the lease is asked for. So what a
        successor has put there is either seen too late to be replaced, or not at all.
        """
        tag = self._objects.create(name, data)
        while tag is None:
            found = self._objects.get(name)
            lock.confirm(surely=True)
            if found is None:
                tag = self._objects.create(name, data)
            else:
                tag = self._objects.update(name, data, found.tag)

    def remove(self, *names: str) -> None:
        below: list[str] = []
        self._objects.each(lambda name: below.extend(self._objects.below(name)), names)
        self._objects.delete(*below, *filter(None, names))

    def lock(self, name: str) -> Lease:
        return Lease(self.path, name)

    def fenced(self, name: str, lock: AbstractLock) -> FencedObject:
        return FencedObject(self._objects, name, lock)


def place_at(
    path: str | PathLike[str],
    what: str = "checkpoint=",
    refusal: type[DhsicError] = CheckpointError,
) -> AbstractPlace:
    """Place at a path or URL; nothing is read or made yet.

    Parameters
    ----------
    what : str
        How messages call it.
    refusal : type
        Error to raise where the URL cannot be used.
    """
    if is_url(path):
        return Bucket(check_url(fspath(path), what, refusal))
    return FolderPlace(as_path(path))

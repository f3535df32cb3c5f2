"""Stores of what survives: a folder, and a part of an object store, asked for the same things.

A store holds names, with slashes in them, and bytes. Files of a folder are synced, and where they
replace others, replaced atomically. A put of one object is atomic too. One on a condition ends in
one of two ways even where the answer to it is lost and it is sent again: what is there then tells
which. For that no two writers may ever write the same bytes on a condition, which marks in their
contents see to.
"""

from __future__ import annotations

import errno
import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from os import PathLike, fspath
from pathlib import Path
from typing import IO, Any, NamedTuple
from urllib.parse import urlsplit

from dhsic.errors import CheckpointError, DhsicError, StoreError
from dhsic.storage.objects import (
    as_path,
    bucket_of,
    check_url,
    is_url,
    load_obstore,
    no_bucket,
    sentence,
)

Tag = Mapping[str, str]


class LostError(CheckpointError):
    """Another process has taken the right to write from this one, which was silent for long."""


def gone(path: Path | str) -> CheckpointError:
    """The error of a store that is not there any more while a run keeps its rounds in it."""
    return CheckpointError(
        f"{path} was there when this run began to write in it, and is removed or moved now: the "
        "rounds that were kept there are gone with it. Bring it back and start again, or start "
        "again with a new checkpoint."
    )


class Found(NamedTuple):
    """A file or object: what is in it, which version of it that is, and when it was written."""

    data: bytes
    tag: Tag
    modified: datetime


class AbstractStore(ABC):
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
    def tree(self, name: str = "") -> list[str]:
        """Names of all files below a name."""

    @abstractmethod
    def has(self, name: str) -> bool:
        """Whether there is a file of this name."""

    @abstractmethod
    def get(self, name: str) -> Found | None:
        """The file of this name, if there is one."""

    def read(self, name: str) -> bytes:
        """Content of a file; FileNotFoundError where there is none."""
        found = self.get(name)
        if found is None:
            raise FileNotFoundError(f"{self.path}/{name} is not there")
        return found.data

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
        self, name: str, files: Mapping[str, bytes], confirm: Callable[[], object]
    ) -> None:
        """Write files below a name, in the place of what a dead run left there.

        `confirm` raises LostError in who may write no more, and then what its successor wrote is
        not written over.
        """

    @abstractmethod
    def replace(self, name: str, data: bytes, tag: Tag | None) -> Tag:
        """Replace the version of a file that `get` or `replace` told last, None where none was.

        Only the holder of a lock does this. In a folder the kernel sees to it that there is one;
        where it was silent and is followed, an object store refuses it: LostError.
        """

    @abstractmethod
    def remove(self, *names: str) -> None:
        """Remove files, and folders with all that is in them; those that are not there too."""


def store_at(
    path: str | PathLike[str],
    what: str = "checkpoint=",
    refusal: type[DhsicError] = CheckpointError,
) -> AbstractStore:
    """Store at a path or URL; nothing is read or made yet.

    Parameters
    ----------
    what : str
        How messages call it.
    refusal : type
        Error to raise where the URL cannot be used.
    """
    if is_url(path):
        return ObjectStore(check_url(fspath(path), what, refusal))
    return FileStore(as_path(path))


# A folder ----------------------------------------------------------------------------------


def _write(path: Path, data: bytes) -> None:
    """Write a file and return when it is on the disk."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
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


def _aside(path: Path) -> Path:
    """Name under which `replacing` writes before it renames."""
    return path.with_name(f".{path.name}.tmp")


@contextmanager
def replacing(path: Path, *, sync: bool = True) -> Iterator[IO[bytes]]:
    """A file to write that replaces another when the block ends well: else that stays as it was.

    Whoever dies when, it holds the old content or the new. Without `sync` it does not wait for the
    disk, and may be lost with the machine.
    """
    part = _aside(path)
    try:
        with part.open("wb") as file:
            yield file
            file.flush()
            if sync:
                os.fsync(file.fileno())
        part.replace(path)
        if sync:
            _sync_folder(path.parent)
    finally:
        part.unlink(missing_ok=True)


class FileStore(AbstractStore):
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

    def tree(self, name: str = "") -> list[str]:
        files = (path for path in (self.path / name).rglob("*") if path.is_file())
        return [path.relative_to(self.path).as_posix() for path in files]

    def has(self, name: str) -> bool:
        return (self.path / name).exists()

    def get(self, name: str) -> Found | None:
        """The file of this name; of a pipe or a device, which may never end, an OSError."""
        path = self.path / name
        if path.exists() and not path.is_file():
            raise OSError(errno.EINVAL, "it is no file", str(path))
        try:
            return Found(path.read_bytes(), {}, datetime.fromtimestamp(path.stat().st_mtime, UTC))
        except FileNotFoundError:
            return None

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
        with replacing(path, sync=sync) as file:
            file.write(data)

    def write_all(self, files: Mapping[str, bytes]) -> None:
        """Write files one by one, and then the names in their folders."""
        for name, data in files.items():
            path = self.path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(path, data)
        folders = {(self.path / name).parent for name in files}
        for folder in sorted(folders, reverse=True):
            _sync_folder(folder)

    def write_node(
        self, name: str, files: Mapping[str, bytes], confirm: Callable[[], object]
    ) -> None:
        """Write files where nothing is left, in a folder that is there."""
        folder = self.path / name
        if folder.exists():
            shutil.rmtree(folder)
        try:
            folder.mkdir()
        except (FileNotFoundError, NotADirectoryError) as error:
            raise gone(folder.parent) from error
        self.write_all({f"{name}/{part}": data for part, data in files.items()})
        for changed in (folder.parent, folder.parent.parent):
            _sync_folder(changed)

    def replace(self, name: str, data: bytes, tag: Tag | None) -> Tag:
        """Replace it; a folder that is not there any more is not made again."""
        try:
            with replacing(self.path / name) as file:
                file.write(data)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise gone(self.path) from error
        return {}

    def remove(self, *names: str) -> None:
        for path in (self.path / name for name in names):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
                _aside(path).unlink(missing_ok=True)


# A part of an object store -----------------------------------------------------------------

#: What begins the names of objects that are there for a moment.
MOMENTARY = ".dhsic-"
#: Requests in flight at once.
AT_ONCE = 32
#: Times that a condition is tried again where the answer left open whether it held.
TRIES = 4


class ObjectStore(AbstractStore):
    """Objects below a URL, by the rest of their keys; "" is the object at the URL itself.

    Parameters
    ----------
    url : str
        As `dhsic.storage.objects.check_url` returns it.
    patience : float, optional
        Seconds that the store may stay away; `dhsic.storage.objects.PATIENCE` by default.

    Raises
    ------
    InputError
        The package that reads object stores is not installed.
    """

    path: str
    rarer = 10

    def __init__(self, url: str, patience: float | None = None) -> None:
        self.path = url
        self._prefix = urlsplit(url).path.strip("/")
        self._patience = patience

    def is_there(self) -> bool:
        return bool(self._top())

    def make(self) -> bool:
        """There are no folders to make."""
        return False

    def unmake(self) -> None:
        """There are no folders to remove."""

    def names(self) -> set[str]:
        return {name for name in self._top() if not name.startswith(MOMENTARY)}

    def _top(self) -> set[str]:
        """First parts of the names of all objects."""
        with self._asked() as obstore:
            found = obstore.list_with_delimiter(self._bucket, self._prefix)
        keys = [*found["common_prefixes"], *(meta["path"] for meta in found["objects"])]
        return {str(key).removeprefix(f"{self._prefix}/").strip("/") for key in keys}

    def tree(self, name: str = "") -> list[str]:
        with self._asked() as obstore:
            pages = obstore.list(self._bucket, prefix=self._key(name), chunk_size=1000)
            keys = [str(meta["path"]) for page in pages for meta in page]
        return [key.removeprefix(f"{self._prefix}/") for key in keys]

    def has(self, name: str) -> bool:
        with self._asked() as obstore:
            try:
                obstore.head(self._bucket, self._key(name))
            except FileNotFoundError:
                return False
            return True

    def get(self, name: str) -> Found | None:
        with self._asked() as obstore:
            try:
                result = obstore.get(self._bucket, self._key(name))
                data = bytes(result.bytes())
            except FileNotFoundError:
                return None
            return Found(data, _tag(result.meta), result.meta["last_modified"])

    def read_all(self, names: Iterable[str]) -> dict[str, bytes]:
        wanted = list(names)
        found = zip(wanted, _at_once(self.get, wanted), strict=True)
        return {name: of.data for name, of in found if of is not None}

    def write(self, name: str, data: bytes | Path, *, sync: bool = True) -> None:
        """Write an object, whatever was there; `data` may be a file."""
        with self._asked() as obstore:
            obstore.put(self._bucket, self._key(name), data)

    def write_all(self, files: Mapping[str, bytes]) -> None:
        """Put objects, many at once."""
        _at_once(lambda name: self.write(name, files[name]), files)

    def write_node(
        self, name: str, files: Mapping[str, bytes], confirm: Callable[[], object]
    ) -> None:
        """Put objects, many at once: each where none is, or in the place of what a dead run left.

        Between looking at what is there and replacing it `confirm` asks for the lease. So what a
        successor has put there is either seen too late to be replaced, or not at all.
        """

        def put(part: str) -> None:
            key, tag = f"{name}/{part}", None
            while self.put_if(key, files[part], tag) is None:
                found = self.get(key)
                confirm()
                tag = None if found is None else found.tag

        _at_once(put, files)

    def replace(self, name: str, data: bytes, tag: Tag | None) -> Tag:
        written = self.put_if(name, data, tag)
        if written is not None:
            return written
        if not self.has(name):
            raise gone(self.path)
        raise LostError(
            f"{self.path}/{name} was written by another process, which has "
            "followed this one. Let that one go on; the rounds that are done are kept."
        )

    def put_if(self, name: str, data: bytes, tag: Tag | None) -> Tag | None:
        """Write an object where version `tag` is, None where none is; None where that is not so."""
        exceptions = load_obstore().exceptions
        refused = (exceptions.AlreadyExistsError, exceptions.PreconditionError)
        mode: Any = "create" if tag is None else dict(tag)
        for last in (*[False] * (TRIES - 1), True):
            try:
                with self._asked() as obstore:
                    return _tag(obstore.put(self._bucket, self._key(name), data, mode=mode))
            except (StoreError, *refused) as error:
                found = self.get(name)  # the answer may have been lost, or be that to a second try
                if found is not None and found.data == data:
                    return found.tag
                if (None if found is None else found.tag) != tag:
                    return None
                if last:  # as it was, and still it is not written
                    if isinstance(error, StoreError):
                        raise
                    raise StoreError(no_bucket(self.path)) from None
        return None

    def remove(self, *names: str) -> None:
        def delete(name: str) -> None:
            with self._asked() as obstore:
                try:
                    obstore.delete(self._bucket, self._key(name))
                except FileNotFoundError:
                    return

        below = [name for found in _at_once(self.tree, names) for name in found]
        _at_once(delete, [*below, *filter(None, names)])

    def _key(self, name: str) -> str:
        return f"{self._prefix}/{name}" if name else self._prefix

    @property
    def _bucket(self) -> Any:
        return bucket_of(self.path, self._patience)

    @contextmanager
    def _asked(self) -> Iterator[Any]:
        """Yield `obstore`; its errors become a sentence, but for those of conditions."""
        obstore = load_obstore()
        exceptions = obstore.exceptions
        try:
            yield obstore
        except (exceptions.AlreadyExistsError, exceptions.PreconditionError):
            raise
        except FileNotFoundError:
            raise StoreError(no_bucket(self.path)) from None
        except exceptions.BaseError as error:
            raise StoreError(sentence(self.path, error)) from None  # its text may hold keys


def _tag(of: Mapping[str, Any]) -> Tag:
    """What tells a version of an object from any other."""
    return {name: str(of[name]) for name in ("e_tag", "version") if of.get(name) is not None}


def _at_once(function: Callable[[str], Any], names: Iterable[str]) -> list[Any]:
    """What a function returns for every name, several at once; raises what one of them raises."""
    wanted = list(names)
    if len(wanted) < 2:
        return list(map(function, wanted))
    with ThreadPoolExecutor(min(AT_ONCE, len(wanted))) as threads:
        return list(threads.map(function, wanted))

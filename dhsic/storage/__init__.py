"""What survives: names and bytes in a folder or an object store, written by one process at a time.

A store holds names, with slashes in them, and bytes. `store_at` gives that of a path or URL; both
kinds keep one contract. Files of a folder are synced, and where they replace others, replaced
atomically; `dhsic.storage.objects` has the other kind.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from os import PathLike, fspath
from pathlib import Path
from typing import IO, Any, NamedTuple
from urllib.parse import unquote, urlsplit

from dhsic.buckets import SCHEMES, without_secrets
from dhsic.errors import CheckpointError, DhsicError

# Paths and URLs: which are taken, and what must not be in them -----------------------------


def is_url(path: str | PathLike[str]) -> bool:
    """Whether a path is a URL of something else than a folder.

    >>> is_url("s3://bucket/run.dhsic"), is_url("file:///tmp/run.dhsic"), is_url("run.dhsic")
    (True, False, False)
    """
    return "://" in fspath(path) and not fspath(path).startswith("file://")


def as_path(path: str | PathLike[str]) -> Path:
    """Path of a folder, also where it is said as a URL."""
    text = fspath(path)
    return Path(unquote(urlsplit(text).path) if text.startswith("file://") else text)


def check_url(url: str, what: str, refusal: type[DhsicError]) -> str:
    """The URL as it is used, without slashes at its end; refuse one that cannot be used.

    The message calls it `what`, such as ``"checkpoint="``, and comes as a `refusal`.
    """
    parts = urlsplit(url)
    who, is_named, _ = parts.netloc.rpartition("@")  # of Azure: the container in an account
    if is_named and (":" in who or parts.scheme not in ("abfs", "abfss")):
        raise refusal(
            f"{what}{without_secrets(url)!r} was given with a user name or password in it, which "
            "would be written down with it. Leave them out, and put keys into the environment."
        )
    if parts.query or parts.fragment:
        raise refusal(
            f"{what}{without_secrets(url).partition('#')[0]!r} was given with a query or fragment "
            "(?, #). Leave it out; keys belong into the environment."
        )
    if parts.scheme not in SCHEMES:
        raise refusal(
            f"{what}{url!r} is neither a folder nor the URL of an object store. Pass a folder, or "
            "a URL such as s3://bucket/run.dhsic (gs://, az://)."
        )
    if not parts.netloc or not parts.path.strip("/"):
        raise refusal(
            f"{what}{url!r} names no folder in a bucket. Pass one, such as "
            f"{parts.scheme}://{parts.netloc or 'bucket'}/run.dhsic."
        )
    return url.rstrip("/")


def store_at(
    path: Any,
    what: str = "checkpoint=",
    refusal: type[DhsicError] = CheckpointError,
) -> AbstractStore:
    """Store at a path or URL, which messages call `what`; nothing is read or made yet."""
    if not isinstance(path, str | PathLike) or not str(path):
        raise refusal(
            f"{what}{path!r} is no path. Pass the name of a folder, such as 'run.dhsic', or a URL, "
            "such as 's3://bucket/run.dhsic'."
        )
    if is_url(path):
        from dhsic.storage.objects import ObjectStore

        return ObjectStore(check_url(fspath(path), what, refusal))
    return FileStore(as_path(path))


# What stores are asked for -----------------------------------------------------------------

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
    """Where durable things lie: names, with slashes in them, and bytes."""

    path: Path | str  # the folder, or the URL
    #: How many times rarer it should be looked at than a folder, whose looks cost nothing.
    rarer: int = 1

    @abstractmethod
    def is_there(self) -> bool:
        """Whether the folder exists, or anything is under the URL."""

    @abstractmethod
    def make(self) -> bool:
        """Make the folder where there is none; whether that was so."""

    @abstractmethod
    def names(self) -> set[str]:
        """Names at the top, without those that writing leaves there for a moment."""

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


# A folder ----------------------------------------------------------------------------------


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
    """Refuse a path for which more than one folder would have to be made: a slip, most likely."""
    folder = path.absolute().parent
    if not folder.exists() and not folder.parent.exists():
        raise refusal(
            f"{what} {str(path)!r} is to be in {folder}, and neither that folder nor the one "
            "above is there. Make it first, or choose another path."
        )


def _unblocked(path: str, flags: int) -> int:
    """Open a file without waiting for the other end of a pipe."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


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
    except BaseException:
        part.unlink(missing_ok=True)
        raise


class FileStore(AbstractStore):
    """A folder, which need not be there."""

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

    def names(self) -> set[str]:
        names = {path.name for path in self.path.iterdir()}
        return {name for name in names if not (name.startswith(".") and name.endswith(".tmp"))}

    def has(self, name: str) -> bool:
        return (self.path / name).exists()

    def get(self, name: str) -> Found | None:
        """The file of this name; of a pipe or a device, which may never end, an OSError."""
        path = self.path / name
        try:
            with open(path, "rb", opener=_unblocked) as file:  # has no opener
                about = os.fstat(file.fileno())
                if not stat.S_ISREG(about.st_mode):
                    raise OSError(errno.EINVAL, "it is no file", str(path))
                return Found(file.read(), {}, datetime.fromtimestamp(about.st_mtime, UTC))
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
        for part, data in files.items():
            (folder / part).parent.mkdir(parents=True, exist_ok=True)
            with (folder / part).open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        folders = {(folder / part).parent for part in files}  # whose names are to survive too
        # The folder of a round is in one that was synced when it was made.
        above = (folder.parent,) if "/" in name else (self.path, self.path.parent)
        for changed in (*sorted(folders, reverse=True), *above):
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

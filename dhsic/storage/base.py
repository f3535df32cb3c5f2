"""Interface of the stores for checkpoints and results: named files of bytes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from dhsic.errors import CheckpointError

Tag = Mapping[str, str]


class LostError(CheckpointError):
    """Error that another process took over the write lock, which was not renewed in time."""


def store_removed_error(path: Path | str) -> CheckpointError:
    """Return the error for a store that was removed while a run was writing to it."""
    return CheckpointError(
        f"{path} was removed or moved while this run was writing to it, and the rounds stored "
        "there are gone with it. Restore the folder and start again, or start again with a new "
        "checkpoint."
    )


class StoredFile(NamedTuple):
    """Content of a file or object, its version tag, and the time of its last write."""

    data: bytes
    tag: Tag
    modified: datetime


class AbstractStore(ABC):
    """Durable store of named files; names may contain slashes."""

    path: Path | str  # folder or URL
    #: Factor by which the store is polled less often than a local folder.
    rarer: int = 1

    @abstractmethod
    def is_there(self) -> bool:
        """Whether the folder exists, or any object exists below the URL."""

    @abstractmethod
    def make(self) -> bool:
        """Create the folder if it does not exist; return whether it was created."""

    @abstractmethod
    def names(self) -> set[str]:
        """Return the names of the top-level entries, without temporary files."""

    @abstractmethod
    def has(self, name: str) -> bool:
        """Whether a file with this name exists."""

    @abstractmethod
    def get(self, name: str) -> StoredFile | None:
        """Read the file with this name; return None if it does not exist."""

    def read(self, name: str) -> bytes:
        """Return the content of a file; raise FileNotFoundError if it does not exist."""
        entry = self.get(name)
        if entry is None:
            raise FileNotFoundError(f"{self.path}/{name} does not exist")
        return entry.data

    @abstractmethod
    def read_all(self, names: Iterable[str]) -> dict[str, bytes]:
        """Read files; return their contents by name, without files that do not exist."""

    @abstractmethod
    def write(self, name: str, data: bytes, *, sync: bool = True) -> None:
        """Write or replace a file atomically; return when it is safely on disk.

        If `sync` is False, the call is faster, but the file may be lost if the machine crashes.
        """

    @abstractmethod
    def write_node(
        self, name: str, files: Mapping[str, bytes], confirm: Callable[[], object]
    ) -> None:
        """Write files below a name, replacing any files of an interrupted run.

        `confirm` raises LostError if this process has lost the lock. It prevents overwriting the
        files of the process that took over.
        """

    @abstractmethod
    def replace(self, name: str, data: bytes, tag: Tag | None) -> Tag:
        """Replace version `tag` of a file by `data`; return the tag of the new version.

        `tag` was returned by the last `get` or `replace`. None means that the file does not exist
        yet. Only the holder of the lock may call this method. In a folder, the operating system
        guarantees a single holder. An object store raises LostError if another process has taken
        over.
        """

    @abstractmethod
    def remove(self, *names: str) -> None:
        """Remove files, and folders with their content; names that do not exist are ignored."""

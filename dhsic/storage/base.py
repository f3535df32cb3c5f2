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
    """Another process has taken the right to write from this one, which was silent for long."""


def gone(path: Path | str) -> CheckpointError:
    """The error of a store that is not there any more while a run keeps its rounds in it."""
    return CheckpointError(
        f"{path} was there when this run began to write in it, and is removed or moved now: the "
        "rounds that were kept there are gone with it. Bring it back and start again, or start "
        "again with a new checkpoint."
    )


class Found(NamedTuple):
    """A file or object: its content, its version tag, and the time it was written."""

    data: bytes
    tag: Tag
    modified: datetime


class AbstractStore(ABC):
    """Durable store of named files; names may contain slashes."""

    path: Path | str  # the folder, or the URL
    #: Factor on the interval between polls, relative to a local folder.
    rarer: int = 1

    @abstractmethod
    def is_there(self) -> bool:
        """Whether the folder exists, or anything is under the URL."""

    @abstractmethod
    def make(self) -> bool:
        """Create the folder if it does not exist; return whether it was created."""

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
        entry = self.get(name)
        if entry is None:
            raise FileNotFoundError(f"{self.path}/{name} is not there")
        return entry.data

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

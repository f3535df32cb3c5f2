"""The contract of places: what is asked of a folder and of an object store alike.

Plain data: what JSON can say.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dhsic._typing import Array
from dhsic.errors import CheckpointError


class LostError(CheckpointError):
    """Another process has taken the right to write from this one, which was silent for long."""


def gone(path: Path | str) -> CheckpointError:
    """The error of a place that is not there any more while a run keeps its rounds in it."""
    return CheckpointError(
        f"{path} was there when this run began to write in it, and is removed or moved now: the "
        "rounds that were kept there are gone with it. Bring it back and start again, or start "
        "again with a new checkpoint."
    )


class AbstractLock(ABC):
    """The right to write: one process at a time."""

    @property
    @abstractmethod
    def held(self) -> bool:
        """Whether this object has the lock, as far as it knows."""

    @abstractmethod
    def take(self) -> None:
        """Take the lock; CheckpointError says who has it."""

    @abstractmethod
    def release(self) -> None:
        """Let others take it."""

    @abstractmethod
    def confirm(self, *, surely: bool = False) -> None:
        """Raise LostError if another process has it by now, CheckpointError if its place is gone.

        Parameters
        ----------
        surely : bool
            Look also where that can hardly be.
        """

    @abstractmethod
    def is_taken(self) -> bool:
        """Whether some process holds it now, as far as can be seen at once."""


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

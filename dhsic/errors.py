"""Exceptions, grouped by who can fix the problem, and warnings.

Every message has three parts: the problem, the values concerned, and the remedy. Warnings point to
the line of the caller.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class DhsicError(Exception):
    """Base class of all exceptions of dhsic."""


class InputError(DhsicError, ValueError):
    """An argument, the labels or the shape of the data are invalid; the caller can fix it.

    Attributes
    ----------
    parameter : str or None
        Name of the invalid estimator parameter; None if the error has another cause.
    """

    parameter: str | None = None


class DataError(DhsicError, ValueError):
    """Stored data are missing, damaged or out of range; the read is never retried."""


class CheckpointError(DhsicError, ValueError):
    """A checkpoint belongs to another run or to a newer version of dhsic, or is damaged."""


class StoreError(DhsicError, RuntimeError):
    """An object store does not respond, or refuses access; data stored there stay valid."""


class ScratchError(DhsicError, RuntimeError):
    """Temporary files of a run are missing or damaged; start the same run again."""


class MemoryBudgetError(DhsicError, MemoryError):
    """The estimated memory of a run exceeds its limit; raised before work starts."""


class ClusterError(DhsicError, RuntimeError):
    """The cluster cannot run the job: no workers, other versions, or data it cannot access."""


def warn(sentence: str, category: type[Warning] = UserWarning) -> None:
    """Emit a warning that points to the line of user code that called the package.

    This is the line that called the outermost dhsic function on the call stack. Functions of other
    packages may lie between functions of dhsic.
    """
    outer: FrameType | None = sys._getframe()
    level = at = 1
    while outer is not None:
        level += 1
        if outer.f_globals.get("__name__", "").partition(".")[0] == "dhsic":
            at = level
        outer = outer.f_back
    warnings.warn(sentence, category, stacklevel=at)


@contextmanager
def prefix_errors(name: str) -> Iterator[None]:
    """Context in which messages of InputError get the prefix `name`, if it is not empty."""
    try:
        yield
    except InputError as error:
        if not name or str(error).startswith(f"{name}: "):
            raise
        raise InputError(f"{name}: {error}") from error

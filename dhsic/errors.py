"""Exceptions, by who can fix them, and warnings, which point at the line of the caller.

Every message has three parts: what is wrong, which values are concerned, and what to do.
"""

from __future__ import annotations

import sys
import warnings
from types import FrameType


class DhsicError(Exception):
    """Base of every error that dhsic raises on purpose."""


class InputError(DhsicError, ValueError):
    """An argument, a label vector or the shape of the data does not fit; the caller can fix it.

    Attributes
    ----------
    parameter : str or None
        Name of the estimator parameter that is wrong; None if it is none.
    """

    parameter: str | None = None


class DataError(DhsicError, ValueError):
    """Stored data are missing, damaged or outside their domain; never retried."""


class CheckpointError(DhsicError, ValueError):
    """A checkpoint belongs to another run, to a newer dhsic, or is damaged."""


class StoreError(DhsicError, RuntimeError):
    """An object store does not answer, or refuses access; data stored there stay valid."""


class ScratchError(DhsicError, RuntimeError):
    """Scratch files of a run are missing or damaged; the same run may be started again."""


class MemoryBudgetError(DhsicError, MemoryError):
    """The estimated memory of a run exceeds its budget; raised before any work."""


class ClusterError(DhsicError, RuntimeError):
    """The cluster cannot run the job (no workers, other versions, data it cannot reach)."""


def warn(sentence: str, category: type[Warning] = UserWarning) -> None:
    """Warn the caller of dhsic: the warning points at the line that called the package.

    Other packages may be between the functions of dhsic that are at work.
    """
    outer: FrameType | None = sys._getframe()
    level = at = 1
    while outer is not None:
        level += 1
        if outer.f_globals.get("__name__", "").partition(".")[0] == "dhsic":
            at = level
        outer = outer.f_back
    warnings.warn(sentence, category, stacklevel=at)

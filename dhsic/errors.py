"""What can go wrong, by whose hand it can be mended.

Every message is a sentence with three parts: what was wrong, which values, what to do.
"""

from __future__ import annotations


class DhsicError(Exception):
    """Base of every error that dhsic raises on purpose."""


class InputError(DhsicError, ValueError):
    """An argument, a label vector or the shape of the data does not fit; the caller mends it.

    Attributes
    ----------
    parameter : str or None
        Name of the parameter of an estimator that it speaks of, where it is about one.
    """

    parameter: str | None = None


class DataError(DhsicError, ValueError):
    """What a store holds is missing, damaged or outside its domain; never retried."""


class CheckpointError(DhsicError, ValueError):
    """A checkpoint belongs to another run, to a newer dhsic, or is damaged."""


class StoreError(DhsicError, RuntimeError):
    """An object store does not answer, or refuses access; what is kept there stays valid."""


class ScratchError(DhsicError, RuntimeError):
    """What a run had put aside for itself is gone or damaged; the same run may be tried again."""


class MemoryBudgetError(DhsicError, MemoryError):
    """The run promises to need more memory than it may have; raised before any work."""


class ClusterError(DhsicError, RuntimeError):
    """The cluster cannot run the job (no workers, other versions, data it cannot reach)."""

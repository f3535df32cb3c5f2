"""The work of a run as a list of passes: what each reads, computes and sends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass over features, or what this process does between passes.

    Attributes
    ----------
    round : int
        Round that it belongs to, from 1.
    what : str
        "measure", "keep", "statistic", "sample", "score" or "prepare" (which is no pass: it is
        done in this process).
    n_features : int
        Features that it is over.
    n_jobs : int
        Jobs that it is cut into, at most.
    bytes_read : int
        Stored bytes, as the history of the run counts them (not those read to keep survivors).
    bytes_decoded : int
        Stored bytes that are read and decoded in truth.
    values : float
        Values that are made ready, samples times features.
    float32, float64 : float
        Flops of matrix products.
    elements : float
        Entries of matrices that functions are taken of, in this process.
    state_bytes : int
        What every worker is sent before it, at most.
    sent_bytes : int
        The same as it turns out, where that is less; else 0.
    result_bytes : int
        What this process gets back and adds up, of all jobs together, where that is large.
    at_home : bool
        Done in this process though there is a cluster: survivors are few.
    is_open : bool
        Done only where low rank turns out to miss its tolerance.
    """

    round: int
    what: str
    n_features: int = 0
    n_jobs: int = 1
    bytes_read: int = 0
    bytes_decoded: int = 0
    values: float = 0.0
    float32: float = 0.0
    float64: float = 0.0
    elements: float = 0.0
    state_bytes: int = 0
    sent_bytes: int = 0
    result_bytes: int = 0
    at_home: bool = False
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class Work:
    """All passes of a run.

    Attributes
    ----------
    passes : tuple of Pass
        In their order.
    sizes : tuple of int
        Candidates at the start of every round.
    survivors : str
        Where features are kept on the way.
    assumed : tuple of str
        What the data decide, and was supposed.
    is_timed : bool
        Whether flops are foreseen: not for kernels and criteria without a series.
    """

    passes: tuple[Pass, ...]
    sizes: tuple[int, ...]
    survivors: str
    assumed: tuple[str, ...]
    is_timed: bool = True

    def total(self, of: Callable[[Pass], Any], *, at_most: bool = False) -> Any:
        """Sum over the passes; with `at_most`, those that may not be needed too."""
        return sum(of(p) for p in self.passes if at_most or not p.is_open)

    def bytes_of_rounds(self) -> list[int]:
        """Stored bytes of every round, as the history will have them."""
        out = [0] * len(self.sizes)
        for p in self.passes:
            if not p.is_open:
                out[p.round - 1] += p.bytes_read
        return out

    @property
    def n_passes(self) -> int:
        """Passes over features, those that may not be needed left out."""
        return sum(p.what != "prepare" and not p.is_open for p in self.passes)

    @property
    def state_bytes(self) -> int:
        """Most bytes that are sent to every worker at once."""
        return max((p.state_bytes for p in self.passes), default=0)


def float32(p: Pass) -> float:
    """Flops of a pass in float32."""
    return p.float32


def float64(p: Pass) -> float:
    """Flops of a pass in float64."""
    return p.float64

"""Survivors as sources of their own: held in memory, or left where they are stored.

Sums depend on the cut in their last bits. So features that have no place of their own (no folder
that all workers see, a full disk) are read from stored blocks as before, but by the jobs that
would read them from their place: every run over the same data sums in the same order.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from typing import Any, final

import numpy as np

from dhsic._typing import Array, Index
from dhsic.passes.packing import Form
from dhsic.sources.base import AbstractSource, Block, even_blocks, run_of
from dhsic.sources.views import ChecksummedSource


class AbstractSurvivors(AbstractSource):
    """Some features of a source, numbered anew."""

    @abstractmethod
    def columns(self, at: Index) -> Array:
        """Features at these places, ascending: (c, m), C-ordered."""

    def blocks(self, width: int) -> tuple[Block, ...]:
        return even_blocks(self.n_features, width)

    @final
    def read(self, block: Block, rows: Index | None = None) -> Array:
        return self.read_columns(block, np.arange(block.width), rows).T

    @final
    def read_columns(self, block: Block, local: Index, rows: Index | None = None) -> Array:
        values = self.columns(block.start + local)
        return values if rows is None else np.take(values, rows, axis=1)

    @final
    def fingerprint(self) -> str:
        """Refuse: it is a part of a source, and that alone can be fingerprinted."""
        raise TypeError("A part of a source has no fingerprint; ask the source that it comes from.")


class HeldSource(AbstractSurvivors):
    """Features in memory, (s, length), each contiguous, as `form` says."""

    in_memory = True

    def __init__(self, kept: Array, form: Form, missing_code: int | None) -> None:
        self.n_features, self.n_samples = len(kept), form.n_samples
        self.dtype, self.missing_code = form.dtype, missing_code
        self.client_bytes = kept.nbytes
        self.form = form
        self._kept = kept

    def columns(self, at: Index) -> Array:
        return self.form.decode(self._kept[run_of(at)])


class RecutSource(AbstractSurvivors):
    """Features where they are stored, in `base`.

    Neighbouring blocks share a stored one, so the last that a thread has read stays with it.

    Parameters
    ----------
    features : (s,) int64
        Which of the base, ascending.
    width : int
        Features of a stored block, about.
    """

    def __init__(self, base: AbstractSource, features: Index, width: int) -> None:
        self.base, self.features, self.width = base, features, width
        self.n_features, self.n_samples = features.size, base.n_samples
        self.dtype, self.missing_code = base.dtype, base.missing_code
        self.client_bytes, self.in_memory = base.client_bytes, base.in_memory
        self.chunk_bytes = base.chunk_bytes
        self._blocks = base.blocks(width)
        self._stops = np.array([block.stop for block in self._blocks])
        self._last = threading.local()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_last"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _last=threading.local())

    def some(self, which: Index) -> RecutSource:
        """Fewer of them, by their numbers here."""
        return RecutSource(self.base, self.features[which], self.width)

    def checked(self, checksum: Index, rows: Index | None) -> RecutSource:
        """The same, compared with the first pass, as of `ChecksummedSource`."""
        base = ChecksummedSource.over(self.base, checksum, rows)
        return RecutSource(base, self.features, self.width)

    def stored_width(self, block: Block) -> int:
        return sum(b.width for b in self._lie_in(self.features[block.start : block.stop]))

    def columns(self, at: Index) -> Array:
        wanted = self.features[at]
        out = np.empty((wanted.size, self.n_samples), dtype=self.dtype)
        for stored in self._lie_in(wanted):
            a, b = np.searchsorted(wanted, [stored.start, stored.stop])
            out[a:b] = self._some_of(stored, wanted[a:b] - stored.start)
        return out

    def _lie_in(self, wanted: Index) -> tuple[Block, ...]:
        """Stored blocks of some features."""
        numbers = np.unique(np.searchsorted(self._stops, wanted, side="right"))
        return tuple(self._blocks[i] for i in numbers)

    def _some_of(self, block: Block, local: Index) -> Array:
        """Some columns of a stored block, (c', m)."""
        if self.in_memory:
            return self.base.read_columns(block, local)
        if getattr(self._last, "block", None) != block:
            self._last.block, self._last.values = block, self.base.read(block).T
        values: Array = self._last.values[run_of(local)]
        return values

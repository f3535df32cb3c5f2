"""Survivors held in memory: a source over values that were read, and checked, before.

Survivors where they are stored, cut as if they were kept apart.

Sums depend on the cut in their last bits. So features that have no place of their own (no folder
that all workers see, a full disk) are read from stored blocks as before, but by the jobs that
would read them from their place: every run over the same data sums in the same order.
"""

from __future__ import annotations

import threading
from hashlib import sha256
from typing import Any

import numpy as np

from dhsic._typing import Array, Index
from dhsic.passes.packing import Form
from dhsic.sources.base import AbstractSource, Block, even_blocks, run_of
from dhsic.sources.views import ChecksummedSource


class HeldSource(AbstractSource):
    """Values of some features, a feature contiguous, packed or as stored.

    Parameters
    ----------
    kept : (s, length) array
        What is kept of them.
    form : Form
        How to read it; `read` only points where values are kept as they are.
    missing_code : int or None
        As of the source they are from.
    """

    in_memory = True

    def __init__(self, kept: Array, form: Form, missing_code: int | None) -> None:
        self.n_features, self.n_samples = len(kept), form.n_samples
        self.dtype = form.dtype
        self.missing_code = missing_code
        self.client_bytes = kept.nbytes
        self._kept = kept
        self._form = form

    def blocks(self, width: int) -> tuple[Block, ...]:
        return even_blocks(self.n_features, width)

    def read(self, block: Block, rows: Index | None = None) -> Array:
        """Columns of the block, (m, c)."""
        return self.read_columns(block, np.arange(block.width), rows).T

    def read_columns(self, block: Block, local: Index, rows: Index | None = None) -> Array:
        """Some columns of the block, (c', m): no others are unpacked."""
        values = self._form.decode(self._kept[block.start : block.stop][run_of(local)])
        return values if rows is None else np.take(values, rows, axis=1)

    def fingerprint(self) -> str:
        """Digest of all values."""
        return sha256(np.ascontiguousarray(self._kept).tobytes()).hexdigest()


class RecutSource(AbstractSource):
    """Some features of a source, numbered anew.

    Neighbouring blocks share a stored one, so the last that a thread has read stays with it.

    Parameters
    ----------
    base : AbstractSource
        Where they are stored.
    features : (s,) int64
        Which, ascending.
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

    def blocks(self, width: int) -> tuple[Block, ...]:
        return even_blocks(self.n_features, width)

    def stored_width(self, block: Block) -> int:
        return sum(b.width for b in self._lie_in(self.features[block.start : block.stop]))

    def read(self, block: Block, rows: Index | None = None) -> Array:
        """Read a block, (m, c)."""
        return self.read_columns(block, np.arange(block.width), rows).T

    def read_columns(self, block: Block, local: Index, rows: Index | None = None) -> Array:
        wanted = self.features[block.start + local]
        out = np.empty((wanted.size, self.n_samples), dtype=self.dtype)
        for stored in self._lie_in(wanted):
            a, b = np.searchsorted(wanted, [stored.start, stored.stop])
            out[a:b] = self._some_of(stored, wanted[a:b] - stored.start)
        return out if rows is None else np.take(out, rows, axis=1)

    def fingerprint(self) -> str:
        """Refuse: it is a part of a source, and that alone can be fingerprinted."""
        raise TypeError("A part of a source has no fingerprint; ask the source that it comes from.")

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

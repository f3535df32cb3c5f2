"""Survivors held in memory: a source over values that were read, and checked, before."""

from __future__ import annotations

from hashlib import sha256

import numpy as np

from dhsic._typing import Array, Index
from dhsic.scoring.packing import Form
from dhsic.sources.base import AbstractSource, Block, run_of
from dhsic.sources.cutting import even_blocks


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
        """Cut the features into blocks of `width`, the last one ragged."""
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

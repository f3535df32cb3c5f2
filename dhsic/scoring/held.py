"""Survivors held in memory: a source over values that were read, and checked, before."""

from __future__ import annotations

from hashlib import sha256

import numpy as np

from dhsic._typing import Array, Index
from dhsic.sources.base import AbstractSource, Block


class HeldSource(AbstractSource):
    """Values of some features as stored, (s, m), a feature contiguous; `read` only points."""

    in_memory = True

    def __init__(self, kept: Array, missing_code: int | None) -> None:
        self.n_features, self.n_samples = kept.shape
        self.dtype = kept.dtype
        self.missing_code = missing_code
        self.client_bytes = kept.nbytes
        self._kept = kept

    def blocks(self, width: int) -> tuple[Block, ...]:
        """Cut the features into blocks of `width`, the last one ragged."""
        starts = range(0, self.n_features, width)
        return tuple(Block(i, a, min(a + width, self.n_features)) for i, a in enumerate(starts))

    def read(self, block: Block, rows: Index | None = None) -> Array:
        """Columns of the block, (m, c)."""
        values = self._kept[block.start : block.stop]
        return (values if rows is None else values[:, rows]).T

    def fingerprint(self) -> str:
        """Digest of all values."""
        return sha256(np.ascontiguousarray(self._kept).tobytes()).hexdigest()

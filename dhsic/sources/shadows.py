"""A source and its shadows: copies of all its features whose samples are permuted.

A shadow has the values of its feature and nothing to do with the labels. In a copy all features are
permuted alike, so that shadows are to each other as their features are: linked ones stay linked.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from dhsic._typing import Array, Index
from dhsic.sources import AbstractSource, Block, Names
from dhsic.sources.views import AbstractView


class ShadowedSource(AbstractView):
    """The features of a source, and after them those of `n_copies` copies, permuted by a seed.

    Samples `rows` change places among each other, by default all of them. Features have no names,
    and blocks are those of the source, once for each copy.
    """

    def __init__(
        self, base: AbstractSource, n_copies: int, seed: int, rows: Index | None = None
    ) -> None:
        super().__init__(base)
        self._made_of = base, n_copies, seed, rows
        self.n_real, self.n_copies = base.n_features, n_copies
        self.n_features = (1 + n_copies) * self.n_real
        self.names, self.ploidy = Names(), None
        rng, some = np.random.default_rng(seed), np.arange(base.n_samples) if rows is None else rows
        self.places = np.tile(np.arange(base.n_samples), (1 + n_copies, 1))  # (1 + n_copies, m)
        for places in self.places[1:]:
            places[some] = rng.permutation(some)

    def __reduce__(self) -> tuple[Any, ...]:
        _, *others = self._made_of
        return ShadowedSource, (self.base, *others)

    def around(self, block: Block) -> Block:
        before = self._copy(block) * self.n_real
        return Block(block.index, block.start - before, block.stop - before)

    def blocks(self, width: int) -> tuple[Block, ...]:
        stored = self.base.blocks(width)
        found: list[Block] = []
        for before in range(0, self.n_features, self.n_real):
            for block in stored:
                found.append(Block(len(found), before + block.start, before + block.stop))
        return tuple(found)

    def read_columns(self, block: Block, local: Index, rows: Index | None = None) -> Array:
        around, copy = self.around(block), self._copy(block)
        if not copy:
            return self.base.read_columns(around, local, rows)
        places = self.places[copy] if rows is None else self.places[copy][rows]
        ascending = None if rows is None else np.sort(places)
        values = self.base.read_columns(around, local, ascending)
        order = places if ascending is None else np.searchsorted(ascending, places)
        permuted: Array = np.take(values, order, axis=1)
        return permuted

    def fingerprint(self) -> str:
        digest = hashlib.sha256(self.base.fingerprint().encode())
        digest.update(self.places.tobytes())
        return digest.hexdigest()

    def _copy(self, block: Block) -> int:
        """Which copy a block is of, 0 for the features themselves."""
        return block.start // self.n_real

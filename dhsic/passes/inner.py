"""Inner products of a few features: among each other, and with directions of the samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from dhsic._typing import Float, Index
from dhsic.namespace import slices
from dhsic.passes import AbstractByTile, AbstractSum, Cost, Tile, tile_height
from dhsic.passes.landmarks import sample_slices
from dhsic.passes.reader import AbstractReader
from dhsic.runtime.base import Job

#: Samples of which values are standardised at a time.
AT_ONCE = 1024


@dataclass(frozen=True, slots=True)
class Inner(AbstractSum):
    """``X'X`` of all n features of a job, (n, n)."""

    n_features: int

    def over(self, blocks: Iterator[Tile], m: int) -> Float:
        tiles = list(blocks)
        total = np.zeros((self.n_features, self.n_features))
        for some in slices(m, AT_ONCE):
            X = np.concatenate([tile.of_samples(some).values(np.float64) for tile in tiles])
            total += X @ X.T
        return total

    def add(self, left: Float, right: Float) -> Float:
        left += right
        return left

    def cost(self, m: int) -> Cost:
        n = self.n_features
        return Cost(float64=2.0 * m * n, values=m, result=8 * n * n, tile=8 * n * AT_ONCE)


@dataclass(frozen=True, slots=True)
class ProductsWithLabels(AbstractByTile):
    """``X'U`` of features, (c, q), and beside it their values at some samples, (c, s)."""

    U: Float  # (m, q)
    samples: Index  # (s,)

    def by_tile(self, m: int) -> tuple[int | None, Callable[[Tile], Float]]:
        def asked(tile: Tile) -> Float:
            X = tile.values(np.float64)
            return np.concatenate([X @ self.U, X[:, self.samples]], axis=1)

        return tile_height(m), asked

    def cost(self, m: int) -> Cost:
        width = self.U.shape[1] + self.samples.size
        return Cost(float64=2.0 * m * self.U.shape[1], values=m, columns=8 * width)


def inner_products(data: AbstractReader, features: Index) -> Float:
    """``X'X`` of standardised features (ascending), (n, n), added up over slices of the samples."""
    jobs = data.jobs(features)
    blocks = tuple(block for job in jobs for block in job.blocks)
    columns = tuple(part for job in jobs for part in job.payload)
    m = data.n_samples
    together = [Job(blocks, columns, s) for s in sample_slices(m, data.source)]
    if len(together) == 1:
        together = [replace(together[0], samples=None)]
    total: Float = data.added(Inner(features.size), together)
    return total

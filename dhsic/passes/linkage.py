"""Linkage of variants with a lead variant: squared correlations of dosages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dhsic._typing import Array, Float, Index, Mask
from dhsic.passes import AbstractByTile, Cost, Tile, tile_height
from dhsic.passes.reader import Reader
from dhsic.passes.single_pass import looked_at
from dhsic.runtime.base import AbstractRuntime
from dhsic.runtime.threads import single_blas_thread
from dhsic.sources import AbstractSource
from dhsic.sources.scaling import missing_mask
from dhsic.sources.views import SubsetSource

#: Number of float64 arrays of the size of a tile that a task holds.
TILES = 4


@dataclass(frozen=True, slots=True)
class LinkageWithLead(AbstractByTile):
    """Pass that computes the squared correlation of c features with a lead variant, (c,).

    Only samples with values of both variants are used. The result is NaN if one of the variants is
    constant in these samples.

    Attributes
    ----------
    lead : (m,)
        Values of the lead variant, 0 if missing.
    present : (m,)
        Whether the lead variant has a value.
    """

    lead: Float
    present: Mask

    def by_tile(self, m: int) -> tuple[int | None, Callable[[Tile], Array]]:
        return tile_height(2 * m), self.of_tile

    def of_tile(self, tile: Tile) -> Float:
        """Squared correlations of the features of a tile, (c,)."""
        X, present = _present(tile)
        x, here = self.lead, self.present.astype(np.float64)
        n, sums = present @ here, X @ here
        lead_sums = present @ x
        with np.errstate(invalid="ignore", divide="ignore"):
            covariance = X @ x - sums * lead_sums / n
            variance = np.square(X) @ here - sums**2 / n
            lead_variance = present @ np.square(x) - lead_sums**2 / n
            r2 = covariance**2 / (variance * lead_variance)
        return np.where((variance > 0) & (lead_variance > 0), r2, np.nan)

    def cost(self, m: int) -> Cost:
        return Cost(float64=12.0 * m, values=m, columns=8, state=9 * m,
                    tile=8 * TILES * tile_height(2 * m) * m)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Values(AbstractByTile):
    """Pass that returns features with 0 for missing values, and their indicators: (c, 2, m)."""

    def by_tile(self, m: int) -> tuple[int | None, Callable[[Tile], Array]]:
        return tile_height(m), lambda tile: np.stack(_present(tile), axis=1)

    def cost(self, m: int) -> Cost:
        return Cost(values=m, columns=16 * m)


def _present(tile: Tile) -> tuple[Float, Float]:
    """Values of a tile, and indicators of present values, (c, m) each.

    Missing values are 0. Indicators are 1 where a value is present.
    """
    mask = missing_mask(tile.raw, tile.missing_code)
    missing = np.zeros(tile.raw.shape, dtype=bool) if mask is None else mask
    return np.where(missing, 0.0, tile.raw.astype(np.float64)), (~missing).astype(np.float64)


def linkage_with(
    source: AbstractSource, lead: int, features: Index, runtime: AbstractRuntime
) -> Float:
    """Squared correlations of `features` (ascending) with the feature `lead`, (n,).

    Each correlation uses the samples with values of both features.
    """
    every = np.union1d(features, [lead])
    with single_blas_thread():
        reader, _ = looked_at(SubsetSource(source, every), runtime, None)
        at = np.searchsorted(every, [lead])
        ((values, present),) = np.concatenate([*reader.map_blocks(_Values(), reader.jobs(at))])
        again = Reader(reader.source, runtime, None)
        linkage = LinkageWithLead(values, present > 0)
        jobs = again.jobs(np.searchsorted(every, features))
        return np.asarray(np.concatenate([*again.map_blocks(linkage, jobs)]))

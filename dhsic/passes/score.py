"""Passes that score features, by an engine or by low-rank matrices, and their costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dhsic._typing import Array, Float
from dhsic.accelerator import wanted_device
from dhsic.engines import AbstractEngine
from dhsic.engines.exact_scoring import FAMILIES
from dhsic.engines.levels import gains_from_sums
from dhsic.engines.lowrank import LowRank
from dhsic.engines.scoring_problem import FeatureStats, RoundState
from dhsic.kernels.base import AbstractKernel
from dhsic.linalg.quadratic import LowRankQuadratic, form_entries, form_flops
from dhsic.namespace import namespace_of
from dhsic.passes import (
    CODE_ENTRIES,
    TILES,
    AbstractByTile,
    Cost,
    Tile,
    exact_tile,
    placed,
    split_tiles,
    tile_height,
    tile_of,
)
from dhsic.sources.scaling import Codes, Scale, code_values, scaling_of

#: Time of low-rank scoring per value, and per value and direction, relative to the time of
#: standardising a value; and maximum number of directions of a factor, to estimate its size.
SCORING, DIRECTION, MOST_DIRECTIONS = 2.0, 0.17, 128
#: Statistics of a typical feature, for cost estimates.
ORDINARY = FeatureStats(np.ones(1), np.ones(1), np.zeros(1))


@dataclass(frozen=True, slots=True)
class Score(AbstractByTile):
    """Pass that computes the gains of features by an engine, (c,), on `device` (None: the CPU).

    The gain of a feature is the change of HSIC without (or with) it.
    """

    engine: AbstractEngine
    state: Any
    device: str | None = field(default_factory=wanted_device)

    def by_tile(self, m: int) -> tuple[int | None, Callable[[Tile], Float]]:
        state, move = placed(self.device, self.state)
        dtype = dtype_of(self.engine)

        def score_tile(tile: Tile) -> Float:
            return self.engine.score(state, tile.values(dtype, move), tile.facts)

        return tile_of(dtype) if move is None else None, score_tile

    def cost(self, m: int) -> Cost:
        forms, rank = self.engine.products(self.state, ORDINARY), rank_of(self.state)
        if rank:
            return replace(lowrank_cost(m, rank, forms), values=m)
        return scoring_cost(self.state.kernel, m, forms, dtype_of(self.engine))


def scoring_cost(
    kernel: AbstractKernel, m: int, forms: float = 1.0, dtype: Any = "float32"
) -> Cost:
    """Cost of `forms` quadratic forms per feature by the exact engine.

    Workers receive one triangle for each matrix in the kernel's series expansion.
    """
    itemsize, family = np.dtype(dtype).itemsize, FAMILIES[kernel.scored_by]
    flops = form_flops(m) * forms
    return Cost(
        float32=flops if itemsize == 4 else 0.0,
        float64=flops if itemsize == 8 else 0.0,
        values=m,
        state=(kernel.exact_order or 1) * itemsize * (form_entries(m) + m),
        tile=max(exact_tile(m, family.tiles or TILES), 8 * family.squares * m * m),
    )


@dataclass(frozen=True, slots=True)
class ScoreLowRank(AbstractByTile):
    """Pass that computes the gains of features by low-rank matrices, (c,).

    The gain of a feature is the change of HSIC without it. If all values are genotypes, jobs are
    sent without the scaling, which would be most of their data. Tasks compute the scaling from the
    counts of the codes.
    """

    state: RoundState
    standardize: Scale = True
    device: str | None = field(default_factory=wanted_device)

    def by_tile(self, m: int) -> tuple[int | None, Callable[[Tile], Float]]:
        state, move = placed(self.device, self.state)
        Y = _sides(state)
        height = tile_height(m) if move is None else None

        def by_values(tile: Tile) -> Float:
            return LowRank().score(state, tile.values(np.float32, move), tile.facts)

        def score_tile(tile: Tile) -> Float:
            codes = tile.codes
            if codes is None or Y is None:
                return np.concatenate([by_values(part) for part in split_tiles([tile], height)])
            return self._of_codes(codes if move is None else codes.on(move), Y)

        return (height, by_values) if Y is None else (max(1, CODE_ENTRIES // m), score_tile)

    def _of_codes(self, codes: Codes, Y: Array) -> Float:
        U = codes.sums(Y)
        counts = np.rint(U[..., -1])
        values = code_values(scaling_of(counts, standardize=self.standardize))
        return gains_from_sums(U[..., :-1], counts, values, self.state)

    def cost(self, m: int) -> Cost:
        return lowrank_cost(m, rank_of(self.state))


def _sides(state: RoundState) -> Array | None:
    """Matrix (m, R + 2) from which the gains of genotypes are computed, or None.

    The gain of a genotype, the change of HSIC without it, follows from sums of rows of the matrix
    over the samples of each code. The columns are the R directions Y of ``A = W o K`` (label
    weights times kernel matrix), the differences between the row sums of A and of its low-rank
    form, and ones. The result is None if the state has no such form.
    """
    if not state.kernel.is_product:
        return None
    A = state.A[0]
    xp, besides = namespace_of(A.Y), state.row_sums[0] - A.row_sums
    columns = [xp.astype(besides, A.Y.dtype), xp.ones_like(besides, dtype=A.Y.dtype)]
    sides: Array = xp.concat([A.Y.T, *(column[:, None] for column in columns)], axis=1)
    return sides


def rank_of(state: RoundState) -> int:
    """Maximum number of directions of the low-rank matrices in a state; 0 for full matrices."""
    forms = (A for A in state.A.values() if isinstance(A, LowRankQuadratic))
    return max((len(A.theta) for A in forms), default=0)


def lowrank_cost(m: int, rank: int, forms: float = 1.0) -> Cost:
    """Cost of `forms` quadratic forms per feature, each with `rank` directions."""
    return Cost(
        float32=2.0 * rank * m * forms,
        values=(SCORING + DIRECTION * rank) * m,
        state=4 * MOST_DIRECTIONS * m,
        sent=4 * rank * m,
    )


def dtype_of(engine: AbstractEngine) -> str:
    """Precision of the matrix products of an engine: "float32" or "float64"."""
    return str(np.dtype(getattr(engine, "dtype", np.float64)))

"""Inner products of features: with each other, and with directions of the samples.

The gains of the linear kernel are such products (`MeasureLinear`). With ``K = sum_j x_j x_j'`` the
gain of removing feature j is ``-x_j' W x_j``, independent of the other features (JMLR 5.1.1), and W
is known before anything is read. W is the sum of a low-rank matrix and a diagonal matrix. The gain
therefore needs a few products of the feature with directions, and one product of its square with
the diagonal (`dhsic.linalg.quadratic`). The products of all runs are computed together
(`dhsic.linalg.directions`), in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.accelerator import wanted_device
from dhsic.linalg.directions import PANEL, Directions
from dhsic.linalg.quadratic import LowRankQuadratic
from dhsic.linalg.symmetric import LowRankSymmetric
from dhsic.namespace import at_a_time, namespace_of, slices
from dhsic.passes import (
    AbstractByTile,
    AbstractShared,
    AbstractSum,
    Cost,
    Tile,
    placed,
    split_tiles,
    tile_height,
)
from dhsic.passes.candidates import Gains
from dhsic.passes.landmarks import sample_slices
from dhsic.passes.reader import AbstractReader
from dhsic.passes.statistic import MEASURING, height_of, lowrank_tile, scaled
from dhsic.runtime.base import Job
from dhsic.sources.scaling import Scale, Scaling

#: Number of samples whose values are standardised at a time.
AT_ONCE = 1024
#: Number of values standardised at a time: they and their squares fit in the cache.
ENTRIES = 1 << 16


@dataclass(frozen=True, slots=True)
class Inner(AbstractSum):
    """Pass that computes the inner products of the n features of a job, (n, n) float64."""

    n_features: int

    def over(self, blocks: Iterator[Tile], m: int) -> Float:
        tiles = list(blocks)
        total = np.zeros((self.n_features, self.n_features))
        for part in slices(m, AT_ONCE):
            X = np.concatenate([tile.of_samples(part).values(np.float64) for tile in tiles])
            total += X @ X.T
        return total

    def cost(self, m: int) -> Cost:
        n = self.n_features
        return Cost(float64=2.0 * m * n, values=m, result=8 * n * n, tile=8 * n * AT_ONCE)


@dataclass(frozen=True, slots=True)
class ProductsWithLabels(AbstractByTile):
    """Pass that multiplies features X (m, c) by q columns of label weights U: ``X'U``.

    It also returns the values of the features at the s samples `samples`. The result is (c, q + s).
    """

    U: Float  # (m, q)
    samples: Index  # (s,)

    def by_tile(self, m: int) -> tuple[int | None, Callable[[Tile], Float]]:
        def multiply_tile(tile: Tile) -> Float:
            X = tile.values(np.float64)
            return np.concatenate([X @ self.U, X[:, self.samples]], axis=1)

        return tile_height(m), multiply_tile

    def cost(self, m: int) -> Cost:
        width = self.U.shape[1] + self.samples.size
        return Cost(float64=2.0 * m * self.U.shape[1], values=m, columns=8 * width)


def measured_linear(
    data: AbstractReader, weights: LowRankSymmetric, *, standardize: Scale
) -> tuple[Scaling, Gains]:
    """Run the first pass for the linear kernel; return the scaling, and the exact gains.

    The gain of a feature is the change of HSIC without it. `weights` are the label weights W (m,
    m).
    """
    ones = LowRankSymmetric.of(np.ones((data.n_samples, 1)), np.ones(1))
    form = weights.hadamard(ones).form(1.0, np.float64)
    first_results: list[Any] = []
    scaling = data.measure(
        MeasureLinear(form, standardize, p=data.p), lambda *rest: first_results.extend(rest)
    )
    gains = np.asarray(np.concatenate(first_results[0]))
    return scaling, (gains, {"engine": f"low rank {len(form.theta)}"})


def inner_products(data: AbstractReader, features: Index) -> Float:
    """Inner products of n standardised features with each other, (n, n).

    `features` are ascending positions.
    """
    jobs = data.jobs(features)
    blocks = tuple(block for job in jobs for block in job.blocks)
    columns = tuple(part for job in jobs for part in job.payload)
    m = data.n_samples
    together = [Job(blocks, columns, s) for s in sample_slices(m, data.source)]
    if len(together) == 1:
        together = [replace(together[0], samples=None)]
    total: Float = data.sum_results(Inner(features.size), together)
    return total


@dataclass(frozen=True, slots=True)
class MeasureLinear(AbstractShared, AbstractSum):
    """Pass that computes the scaling of c features, and their gains (c,) for the linear kernel.

    The gain of a feature is the change of HSIC without it. The result is a list of scalings and a
    list of gains, with one item per group of features. `form` is the low-rank quadratic form of the
    label weights W (m, m). With weights p (m,) of the samples, the scaling is weighted.
    """

    form: LowRankQuadratic
    standardize: Scale = True
    device: str | None = field(default_factory=wanted_device)
    p: Float | None = None

    @property
    def shares(self) -> tuple[Scale, str | None, bytes]:
        return self.standardize, self.device, b"" if self.p is None else self.p.tobytes()

    @classmethod
    def together(
        cls, passes: Sequence[MeasureLinear], blocks: Iterable[Tile], m: int
    ) -> list[tuple[list[Scaling], list[Float]]]:
        first, forms = passes[0], [each.form for each in passes]
        along, move = placed(first.device, Directions.of([form.Y.T for form in forms]))
        own, _ = placed(first.device, Directions.of([form.correction[:, None] for form in forms]))
        parts: list[Scaling] = []
        gains: list[list[Float]] = [[] for _ in passes]
        for tile in split_tiles(blocks, height_of(first.device, m)):
            codes = tile.codes
            if codes is not None and move is not None:
                codes = codes.on(move)
            scaling = scaled(tile, codes, m, standardize=first.standardize, p=first.p)
            parts.append(scaling)
            U, V = _products(replace(tile, scaling=scaling), along, own, move)
            both = zip(along.places, own.places, strict=True)
            for form, (place, diagonal), run_gains in zip(forms, both, gains, strict=True):
                run_gains.append(-(np.square(U[:, place]) @ form.theta + V[:, diagonal][:, 0]))
        return [([Scaling.join(parts)], gains_of_run) for gains_of_run in gains]

    def add(self, left: Any, right: Any) -> tuple[list[Scaling], list[Float]]:
        return left[0] + right[0], left[1] + right[1]

    def cost(self, m: int) -> Cost:
        n = -(-len(self.form.theta) // PANEL) + 1
        return Cost(
            float64=2.0 * PANEL * n * m,
            values=MEASURING * m,
            columns=8,
            state=8 * (len(self.form.theta) + 1) * m,
            tile=lowrank_tile(m),
        )


def _products(tile: Tile, along: Directions, own: Directions, moved: Any) -> tuple[Float, Float]:
    """Products of features with directions, and of their squares with diagonals.

    The results are (c, k) and (c, n). `along` are the directions, and `own` the diagonals of the
    quadratic forms of n runs. `moved` copies arrays to a device.
    """
    U, V = [], []
    with np.errstate(over="ignore", invalid="ignore"):  # features that overflow are rejected later
        for part in tile.split(max(1, at_a_time(own.panels[0], ENTRIES) // tile.raw.shape[1])):
            X: Array = part.values(np.float64, moved)
            U.append(along.times(X))
            V.append(own.times(namespace_of(X).square(X)))
    return np.concatenate(U), np.concatenate(V)

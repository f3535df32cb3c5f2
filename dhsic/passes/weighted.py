"""Weighted features of a source: passes for gradient descent over weights.

Weights are part of the scaling, as a factor of every feature, so the usual passes sum over weighted
features. Features of weight 0 are not read. If weights of 0 stay 0, the other features are stored
separately when they are few (`compact`). The decision depends only on their number, so a resumed
run sums in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from dhsic._typing import Float, Index, Mask
from dhsic.kernels.bandwidth import MEDIAN_SAMPLES
from dhsic.kernels.statistic import InnerProducts, Statistic, zero_upper
from dhsic.linalg.quadratic import Quadratic
from dhsic.lowrank.base import CHUNK, random_directions
from dhsic.passes import (
    TILE,
    AbstractPass,
    AbstractSum,
    Cost,
    Measure,
    Sum,
    Tile,
    exact_tile,
    split_tiles,
)
from dhsic.passes.jobs import grouped
from dhsic.passes.reader import Reader, Reporter
from dhsic.runtime.base import AbstractRuntime, Job, Jobs
from dhsic.sources import AbstractSource
from dhsic.sources.feature_blocks import BlockScaling
from dhsic.sources.scaling import Scale, Scaling


class WeightedSource:
    """Features of a source with weights, for gradient descent over the weights.

    Implements `dhsic.weighting.centred.WeightedData`. Only the n features that vary have weights.
    """

    def __init__(
        self,
        source: AbstractSource,
        runtime: AbstractRuntime,
        *,
        rows: Index | None = None,
        standardize: Scale = True,
        seed: int = 0,  # determines the random directions
        memory: int | None = None,
        block_scaling: BlockScaling | None = None,
    ) -> None:
        self._all = Reader(source, runtime, rows, memory)
        self._all.block_scaling = block_scaling
        self._few: Reader | None = None
        self._standardize, self._seed = standardize, seed
        #: Numbers of the features that vary, known after `measure`; weights are in their order.
        self.features: Index = np.empty(0, dtype=np.int64)
        self.reporter: Reporter | None = None

    @property
    def n_samples(self) -> int:
        """Number of samples m."""
        return self._all.n_samples

    @property
    def bytes_read(self) -> int:
        """Stored bytes read so far."""
        return self._all.bytes_read + (0 if self._few is None else self._few.bytes_read)

    def measure(self) -> Scaling:
        """Run the first pass over all features, and return their scaling."""
        scaling = self._all.measure(Measure(self._standardize))
        self.features = self._all.alive
        return scaling

    def sample_statistic(self) -> Statistic:
        """Statistic ``sum_j x_j x_j'`` of all features for some samples, with equal weights.

        There are about `MEDIAN_SAMPLES` samples or fewer, equally spaced.
        """
        rows_in_use = self._all.rows
        rows = np.arange(self.n_samples) if rows_in_use is None else rows_in_use
        sampled_reader = self._all.copy_unread(rows=rows[:: -(-self.n_samples // MEDIAN_SAMPLES)])
        statistic = self._sum(sampled_reader, np.ones(self.features.size))
        self._all.bytes_read += sampled_reader.bytes_read
        return statistic

    def compact(self, w: Float) -> None:
        """Store the features with weights w > 0 separately if they are few.

        Later passes then read only these features.
        """
        features = self.features[w != 0]
        if features.size:
            # Scratch of all features, if there is any, is kept until the end of the run.
            self._few = self._few or self._all.copy_unread()
            self._few.compact(features)

    def statistic(self, w: Float) -> Statistic:
        """Statistic of the features with weights w (n,), ``G_w = sum_j w_j^2 x_j x_j'``."""
        return self._sum(self._current_reader, w)

    def spreads(self, A: Float, which: Mask) -> Float:
        """Sum of squared differences between samples for each feature, weighted by A (m, m): (n,).

        The result is ``sum_ii' A_ii' (x_ij - x_i'j)^2 = 2 (x_j o x_j)' A 1 - 2 x_j' A x_j`` for the
        features in the mask `which`, and 0 for the others.
        """
        out = np.zeros(which.size)
        if which.any():
            data = self._all if which.all() else self._current_reader
            spreads = Spreads(Quadratic.of(A, 1.0, np.float64), A.sum(axis=1))
            out[which] = self._results(data, spreads, data.jobs(self.features[which]))
        return out

    def projections(self, w: Float, n_directions: int) -> Float:
        """Random projections of the samples, ``sum_j w_j omega_kj x_j``, (n_directions, m).

        omega_k are random directions of feature space.
        """
        data = self._current_reader
        jobs = grouped(self._jobs(data, w))
        if not jobs:
            return np.zeros((n_directions, data.n_samples))
        return np.asarray(data.sum_results(Projections(self._seed, n_directions), jobs))

    def pulls(self, B: Float) -> Float:
        """Sum products of features with B (n_directions, m) over random directions: (n,).

        The result is ``sum_k omega_kj <B_k, x_j>``, which is needed for gradients of functions of
        `projections`.
        """
        jobs = self._all.jobs(self.features, tags=self.features)
        return self._results(self._all, Pulls(self._seed, B), jobs)

    def close(self) -> None:
        """Release scratch files."""
        self._all.close()
        if self._few is not None:
            self._few.close()

    @property
    def _current_reader(self) -> Reader:
        return self._all if self._few is None else self._few

    def _jobs(self, data: Reader, w: Float) -> list[Job]:
        """Jobs that read the features with nonzero weights; empty if there are none."""
        features = self.features[w != 0]
        scale = data.scaling.scale.copy()
        scale[self.features] *= w
        weighted = replace(data.scaling, scale=scale)
        return data.jobs(features, weighted=weighted, tags=features) if features.size else []

    def _sum(self, data: Reader, w: Float) -> Statistic:
        jobs = grouped(self._jobs(data, w))
        if not jobs:
            return Statistic(zero_upper(data.n_samples))
        return Statistic(data.sum_results(Sum(InnerProducts()), jobs))

    def _results(self, data: Reader, a_pass: AbstractPass, jobs: Jobs) -> Float:
        data.reporter = self.reporter
        return data.scores(a_pass, jobs, aloud=True)


@dataclass(frozen=True, slots=True)
class Spreads(AbstractPass):
    """Pass that sums squared differences between samples, weighted by A (m, m), per feature: (c,).

    The result for a feature x is ``2 (x o x)' A 1 - 2 x' A x``. `forms` is A as a quadratic form,
    `row_sums` is ``A 1``.
    """

    forms: Any
    row_sums: Float

    def over(self, blocks: Iterator[Tile], m: int) -> Float:
        values = (tile.values(np.float64) for tile in split_tiles(blocks, 2 * TILE))
        return 2 * np.concatenate([X * X @ self.row_sums - self.forms.forms(X) for X in values])


@dataclass(frozen=True, slots=True)
class Projections(AbstractSum):
    """Pass that sums ``omega_kj x_j`` over weighted features x_j (m,), (n_directions, m).

    omega_k are random directions of feature space, which `seed` determines.
    """

    seed: int
    n_directions: int

    def over(self, blocks: Iterator[Tile], m: int) -> Float:
        total = np.zeros((self.n_directions, m))
        for part in _chunks(blocks):
            omega = random_directions(self.seed, part.tags, self.n_directions)
            total += omega @ part.values(np.float64)
        return total

    def cost(self, m: int) -> Cost:
        R = self.n_directions
        return Cost(2.0 * R * m, values=m, result=8 * R * m, tile=exact_tile(m + R))


@dataclass(frozen=True, slots=True)
class Pulls(AbstractPass):
    """Pass that computes ``sum_k omega_kj <B_k, x_j>`` for every feature x_j, (c,).

    omega_k are the random directions of `Projections` with this seed; B is (n_directions, m).
    """

    seed: int
    B: Float

    def over(self, blocks: Iterator[Tile], m: int) -> Float:
        return np.concatenate([self._of(part) for part in _chunks(blocks)])

    def _of(self, part: Tile) -> Float:
        omega = random_directions(self.seed, part.tags, len(self.B))
        return np.asarray(np.vecdot(part.values(np.float64) @ self.B.T, omega.T))


def _chunks(blocks: Iterator[Tile]) -> Iterator[Tile]:
    """Split blocks into tiles by the random generator of the features.

    The features of a tile have the same generator, which their tags determine.
    """
    for block in blocks:
        edges = np.flatnonzero(np.diff(block.tags // CHUNK)) + 1
        for a, b in pairwise([0, *edges.tolist(), len(block.raw)]):
            yield block.part(slice(a, b))

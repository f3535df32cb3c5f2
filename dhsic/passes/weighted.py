"""Weighted features of a source: the passes that descent over weights takes.

The weights travel in the scaling, as one more factor of every feature, so that a sum over weighted
features is the ordinary one. Features of weight 0 are not read for it. Where weights of 0 stay 0,
the others are kept apart once they are few (`settle`): whether and how follows from their number
alone, so that a resumed run sums in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from dhsic._typing import Float, Index, Mask
from dhsic.kernels.bandwidth import MEDIAN_SAMPLES
from dhsic.kernels.statistic import InnerProducts, Statistic, zero_upper
from dhsic.linalg.quadratic import Quadratic
from dhsic.lowrank.landmarks import CHUNK, random_directions
from dhsic.passes.reader import Reader, grouped
from dhsic.passes.scaled import Reporter
from dhsic.passes.task import TILE, AbstractPass, Measure, Sum, Tile, cut
from dhsic.runtime.base import AbstractRuntime, Job
from dhsic.sources.base import AbstractSource
from dhsic.sources.scaling import Scaling


class WeightedSource:
    """`dhsic.weighting.centred.WeightedData` over the features of a source that vary.

    Parameters
    ----------
    source, runtime
        Where features are read, and where tasks run.
    rows : (m,) int64, optional
        Samples that take part, in this order.
    standardize : bool
        Features to unit standard deviation.
    seed : int
        Of random directions.
    memory : int, optional
        Bytes of features that are kept in memory, as of `Reader`.

    Attributes
    ----------
    features : (n,) int64
        Numbers of the features that vary, after `measure`: weights are in their order.
    bytes_read : int
        Stored bytes read so far.
    """

    def __init__(
        self,
        source: AbstractSource,
        runtime: AbstractRuntime,
        *,
        rows: Index | None = None,
        standardize: bool = True,
        seed: int = 0,
        memory: int | None = None,
    ) -> None:
        self._all = Reader(source, runtime, rows, memory=memory)
        self._standardize = standardize
        self._few: Reader | None = None
        self._scaling: Scaling | None = None
        self._seed = seed
        self.features: Index = np.empty(0, dtype=np.int64)
        self.bytes_read = 0
        self.reporter: Reporter | None = None

    @property
    def n_samples(self) -> int:
        """Number of samples m."""
        return self._all.n_samples

    def measure(self) -> Scaling:
        """Pass over all features: how they are scaled."""
        self._all, jobs, n_bytes = self._all.first_pass()
        self.bytes_read += n_bytes
        measured = self._all.map(Measure(self._standardize), jobs)
        self._scaling = Scaling.join([part for part, _ in measured])
        self._all = self._all.checked(self._scaling)
        self.features = np.flatnonzero(~self._scaling.constant)
        return self._scaling

    def sample_statistic(self) -> Statistic:
        """``sum_j x_j x_j'`` of every so-many-th sample, as many as a median is taken over."""
        known = self._all.rows
        rows = np.arange(self.n_samples) if known is None else known
        rows = rows[:: -(-self.n_samples // MEDIAN_SAMPLES)]
        return self._sum(replace(self._all, rows=rows), np.ones(self.features.size))

    def settle(self, w: Float) -> None:
        """Keep features of weight above 0 apart once they are few; then only they are read."""
        features = self.features[w != 0]
        if features.size:
            # The scratch of all features, if there is any, stays for the end of the run.
            current = self._few or replace(self._all, scratch=None)
            self._few = current.thinned(features)

    def statistic(self, w: Float) -> Statistic:
        """``G_w = sum_j w_j^2 x_j x_j'``."""
        return self._sum(self._reader, w)

    def spreads(self, A: Float, which: Mask) -> Float:
        """``sum_ii' A_ii' (x_ij - x_i'j)^2 = 2 (x_j o x_j)' A 1 - 2 x_j' A x_j``."""
        out = np.zeros(which.size)
        if which.any():
            reader = self._all if which.all() else self._reader
            jobs = reader.jobs(self.features[which], self._scaling)
            spreads = Spreads(Quadratic.of(A, 1.0, np.float64), A.sum(axis=1))
            out[which] = self._joined(reader, spreads, jobs)
        return out

    def projections(self, w: Float, n_directions: int) -> Float:
        """``sum_j w_j omega_kj x_j``, (n_directions, m)."""
        jobs = grouped(self._jobs(self._reader, w))
        self.bytes_read += self._reader.bytes_of(jobs)
        total = np.zeros((n_directions, self.n_samples))
        for part in self._reader.map(Projections(self._seed, n_directions), jobs):
            total += part
        return total

    def pulls(self, B: Float) -> Float:
        """``sum_k omega_kj <B_k, x_j>``, (n,)."""
        jobs = self._all.jobs(self.features, self._scaling, self.features)
        return self._joined(self._all, Pulls(self._seed, B), jobs)

    def close(self) -> None:
        """Let go of scratch."""
        self._all.close()
        if self._few is not None:
            self._few.close()

    @property
    def _reader(self) -> Reader:
        return self._all if self._few is None else self._few

    def _jobs(self, reader: Reader, w: Float) -> list[Job]:
        """Jobs over the weighted features, none where all weights are 0."""
        features = self.features[w != 0]
        return reader.jobs(features, self._weighted(w), features) if features.size else []

    def _weighted(self, w: Float) -> Scaling:
        """Scaling to weighted features."""
        assert self._scaling is not None, "measure comes first"
        scale = self._scaling.scale.copy()
        scale[self.features] *= w
        return replace(self._scaling, scale=scale)

    def _sum(self, reader: Reader, w: Float) -> Statistic:
        jobs = grouped(self._jobs(reader, w))
        self.bytes_read += reader.bytes_of(jobs)
        total = zero_upper(reader.n_samples)
        for part in reader.map(Sum(InnerProducts()), jobs):
            total += part
        return Statistic(total)

    def _joined(self, reader: Reader, a_pass: AbstractPass, jobs: Sequence[Job]) -> Float:
        """Numbers of the features of all jobs."""
        self.bytes_read += reader.bytes_of(jobs)
        parts = []
        for part in reader.joined(a_pass, jobs):
            parts.append(part)
            if self.reporter is not None:
                self.reporter.scored(len(part))
        return np.concatenate(parts)


@dataclass(frozen=True, slots=True)
class Spreads(AbstractPass):
    """``2 (x_j o x_j)' A 1 - 2 x_j' A x_j``, (c,).

    Attributes
    ----------
    forms, row_sums
        A, ready for quadratic forms, and ``A 1``.
    """

    forms: Any
    row_sums: Float

    def over(self, blocks: Iterator[Tile], m: int) -> Float:
        values = (tile.values(np.float64) for tile in cut(blocks, 2 * TILE))
        return 2 * np.concatenate([X * X @ self.row_sums - self.forms.forms(X) for X in values])


@dataclass(frozen=True, slots=True)
class Projections(AbstractPass):
    """``sum_j omega_kj x_j`` over weighted features, (n_directions, m)."""

    seed: int
    n_directions: int

    def over(self, blocks: Iterator[Tile], m: int) -> Float:
        total = np.zeros((self.n_directions, m))
        for part in _chunks(blocks):
            omega = random_directions(self.seed, part.tags, self.n_directions)
            total += omega @ part.values(np.float64)
        return total


@dataclass(frozen=True, slots=True)
class Pulls(AbstractPass):
    """``sum_k omega_kj <B_k, x_j>``, (c,)."""

    seed: int
    B: Float

    def over(self, blocks: Iterator[Tile], m: int) -> Float:
        return np.concatenate([self._of(part) for part in _chunks(blocks)])

    def _of(self, part: Tile) -> Float:
        omega = random_directions(self.seed, part.tags, len(self.B))
        return np.asarray(np.vecdot(part.values(np.float64) @ self.B.T, omega.T))


def _chunks(blocks: Iterator[Tile]) -> Iterator[Tile]:
    """Features whose random numbers come from one generator; tags are their numbers."""
    for block in blocks:
        edges = np.flatnonzero(np.diff(block.tags // CHUNK)) + 1
        for a, b in pairwise([0, *edges.tolist(), len(block.raw)]):
            yield block.part(slice(a, b))

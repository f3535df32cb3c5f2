"""Weighted features of a source: the passes that descent over weights takes.

The weights travel in the scaling, as one more factor of every feature, so that a sum over weighted
features is the ordinary one. Features of weight 0 are not read for it. Where weights of 0 stay 0,
the others are kept apart once they are few (`settle`): whether and how follows from their number
alone, so that a resumed run sums in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from dhsic._typing import Float, Index, Mask
from dhsic.kernels.bandwidth import MEDIAN_SAMPLES
from dhsic.kernels.statistic import Statistic, zero_upper
from dhsic.linalg.quadratic import Quadratic
from dhsic.lowrank.landmarks import CHUNK, random_directions
from dhsic.passes.dependence import Reporter
from dhsic.passes.reader import Reader, grouped
from dhsic.passes.tasks import (
    Columns,
    Wanted,
    measure_blocks,
    raw_columns,
    standardised,
    statistic_of,
)
from dhsic.runtime.base import AbstractRuntime, Job, Task
from dhsic.sources.base import AbstractSource
from dhsic.sources.scaling import Scaling, standardise


class WeightedSource:
    """`dhsic.weighting.centred.WeightedData` over the features of a source that vary.

    Parameters
    ----------
    source, runtime
        Where features are read, and where tasks run.
    n_samples : int
        m, of `rows` if there are any.
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
        n_samples: int,
        *,
        rows: Index | None = None,
        standardize: bool = True,
        seed: int = 0,
        memory: int | None = None,
    ) -> None:
        wanted = Wanted(rows=rows, n_samples=n_samples, standardize=standardize, statistic=False)
        self._all = Reader(source, runtime, wanted, memory=memory)
        self._few: Reader | None = None
        self._scaling: Scaling | None = None
        self._seed = seed
        self.features: Index = np.empty(0, dtype=np.int64)
        self.bytes_read = 0
        self.reporter: Reporter | None = None

    @property
    def n_samples(self) -> int:
        """Number of samples m."""
        return self._all.wanted.n_samples

    def measure(self) -> Scaling:
        """Pass over all features: how they are scaled."""
        self._all, jobs, n_bytes = self._all.first_pass()
        self.bytes_read += n_bytes
        self._scaling = Scaling.join([part for part, _ in self._all.map(measure_blocks, jobs)])
        self._all = self._all.checked(self._scaling)
        self.features = np.flatnonzero(~self._scaling.constant)
        return self._scaling

    def sample_statistic(self) -> Statistic:
        """``sum_j x_j x_j'`` of every so-many-th sample, as many as a median is taken over."""
        known = self._all.wanted.rows
        rows = np.arange(self.n_samples) if known is None else known
        rows = rows[:: -(-self.n_samples // MEDIAN_SAMPLES)]
        wanted = replace(self._all.wanted, rows=rows, n_samples=len(rows))
        return self._sum(replace(self._all, wanted=wanted), np.ones(self.features.size))

    def settle(self, w: Float) -> None:
        """Keep features of weight above 0 apart once they are few; then only they are read."""
        features = self.features[w != 0]
        if features.size:
            # The scratch of all features, if there is any, stays for the end of the run.
            current = self._few or replace(self._all, folder=None)
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
            state = Quadratic.of(A, 1.0, np.float64), A.sum(axis=1)
            out[which] = self._joined(reader, spreads_of, jobs, state)
        return out

    def projections(self, w: Float, n_directions: int) -> Float:
        """``sum_j w_j omega_kj x_j``, (n_directions, m)."""
        features = self.features[w != 0]
        jobs = grouped(numbered(self._jobs(self._reader, w), features))
        self.bytes_read += self._reader.bytes_of(jobs)
        total = np.zeros((n_directions, self.n_samples))
        state = self._seed, n_directions
        for part in self._reader.map(projections_of, jobs, engine_state=state):
            total += part
        return total

    def pulls(self, B: Float) -> Float:
        """``sum_k omega_kj <B_k, x_j>``, (n,)."""
        jobs = numbered(self._all.jobs(self.features, self._scaling), self.features)
        return self._joined(self._all, pulls_of, jobs, (self._seed, B))

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
        return reader.jobs(features, self._weighted(w)) if features.size else []

    def _weighted(self, w: Float) -> Scaling:
        """Scaling to weighted features."""
        assert self._scaling is not None, "measure comes first"
        scale = self._scaling.scale.copy()
        scale[self.features] *= w
        return replace(self._scaling, scale=scale)

    def _sum(self, reader: Reader, w: Float) -> Statistic:
        jobs = grouped(self._jobs(reader, w))
        self.bytes_read += reader.bytes_of(jobs)
        total = zero_upper(reader.wanted.n_samples)
        for part in reader.map(statistic_of, jobs):
            total += part
        return Statistic(total)

    def _joined(self, reader: Reader, task: Task, jobs: Sequence[Job], state: Any) -> Float:
        """Numbers of the features of all jobs."""
        self.bytes_read += reader.bytes_of(jobs)
        parts = []
        for part in reader.joined(task, jobs, engine_state=state):
            parts.append(part)
            if self.reporter is not None:
                self.reporter.scored(len(part))
        return np.concatenate(parts)


@dataclass(frozen=True, slots=True)
class Numbered(Columns):
    """Columns of one block that know their numbers in the whole source, (c,)."""

    features: Index = field(default_factory=lambda: np.empty(0, dtype=np.int64))


def numbered(jobs: Sequence[Job], features: Index) -> list[Job]:
    """The same jobs, the columns of which are `features`, in order, with their numbers."""
    out, at = [], 0
    for job in jobs:
        payload = []
        for columns in job.payload:
            part = features[at : at + columns.local.size]
            payload.append(Numbered(columns.local, columns.scaling, part))
            at += part.size
        out.append(Job(job.blocks, tuple(payload)))
    return out


def spreads_of(source: AbstractSource, job: Job, wanted: Wanted) -> Float:
    """Of the columns of the job, (c,); the state is A, ready for quadratic forms, and ``A 1``."""
    forms, row_sums = wanted.engine_state
    parts = [X * X @ row_sums - forms.forms(X) for X in standardised(source, job, wanted)]
    return 2 * np.concatenate(parts)


def projections_of(source: AbstractSource, job: Job, wanted: Wanted) -> Float:
    """Of the weighted columns of the job, (n_directions, m); the state is a seed and how many."""
    seed, n = wanted.engine_state
    total = np.zeros((n, wanted.n_samples))
    for features, X in _chunks(source, job, wanted):
        total += random_directions(seed, features, n) @ X
    return total


def pulls_of(source: AbstractSource, job: Job, wanted: Wanted) -> Float:
    """Of the columns of the job, (c,); the state is a seed and B."""
    seed, B = wanted.engine_state
    parts = [
        np.vecdot(X @ B.T, random_directions(seed, features, len(B)).T)
        for features, X in _chunks(source, job, wanted)
    ]
    return np.concatenate(parts)


def _chunks(source: AbstractSource, job: Job, wanted: Wanted) -> Iterator[tuple[Index, Float]]:
    """Features whose random numbers come from one generator, and their columns (c, m)."""
    for block, columns in zip(job.blocks, job.payload, strict=True):
        raw = raw_columns(source, block, columns, wanted)
        edges = np.flatnonzero(np.diff(columns.features // CHUNK)) + 1
        for a, b in pairwise([0, *edges.tolist(), len(raw)]):
            part = columns.scaling.take(slice(a, b))
            X = standardise(raw[a:b], source.missing_code, part, np.float64)
            yield columns.features[a:b], X

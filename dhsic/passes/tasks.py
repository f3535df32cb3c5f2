"""What runs on a worker: read a few blocks, return something small.

Module-level functions of (source, job, state), so that they travel by name. The payload of a job
says, for each of its blocks, which columns are wanted and what is known of them.

Scores of whole groups of features, by definition: what runs on a worker.

Without a group g the statistic is ``G - G_g``; G_g, the statistic of its features alone, is summed
as they are read. Then the kernel is taken of what is left, tile by tile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.accelerator import Accelerator, accelerator, wanted_device
from dhsic.engines.base import AbstractEngine, Facts
from dhsic.engines.direct import TILE_ENTRIES, DirectState
from dhsic.kernels.statistic import AbstractSums, InnerProducts, Statistic, zero_upper
from dhsic.passes.packing import Span
from dhsic.runtime.base import Job
from dhsic.sources.base import AbstractSource, Block
from dhsic.sources.scaling import Scaling, measure, standardise

#: Features of a tile: standardised values, product and left functions stay in the cache.
TILE = 384


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns of one block, by position in it, with their scaling (None before it is known)."""

    local: Index
    scaling: Any = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """What every task of a pass needs besides its job: how to turn raw values into data.

    `sums` says what the statistic sums over features, `statistic` whether the first pass does,
    `device` what features are scored on (None: the cores).
    """

    rows: Index | None
    n_samples: int
    standardize: bool = True
    statistic: bool = True
    sums: AbstractSums = field(default_factory=InnerProducts)
    dtype: Any = np.float64
    engine: AbstractEngine | None = None
    engine_state: Any = None
    landmarks: Index | None = None
    device: str | None = field(default_factory=wanted_device)


def raw_columns(source: AbstractSource, block: Block, columns: Columns, wanted: Wanted) -> Array:
    """Stored values of the columns, (c, m)."""
    return source.read_columns(block, columns.local, wanted.rows)


def gather(source: AbstractSource, job: Job, wanted: Wanted) -> Array:
    """Stored values of the columns of all blocks of the job, (c, m)."""
    parts = [
        raw_columns(source, block, columns, wanted)
        for block, columns in zip(job.blocks, job.payload, strict=True)
    ]
    return np.concatenate(parts) if len(parts) > 1 else parts[0]


def span_of(source: AbstractSource, job: Job, wanted: Wanted) -> Span:
    """Least and greatest of the stored values of the job."""
    spans = [
        (int(values.min()), int(values.max()))
        for block, columns in zip(job.blocks, job.payload, strict=True)
        if (values := raw_columns(source, block, columns, wanted)).size
    ]
    low, high = zip(*spans, strict=True)
    return min(low), max(high)


def measure_blocks(
    source: AbstractSource, job: Job, wanted: Wanted
) -> tuple[Scaling, Float | None]:
    """Scaling of the blocks and the upper triangle of their statistic."""
    G = zero_upper(wanted.n_samples) if wanted.statistic else None
    parts = []
    for block, columns in zip(job.blocks, job.payload, strict=True):
        raw = raw_columns(source, block, columns, wanted)
        for a in range(0, len(raw), TILE):
            scaling, Z = measure(
                raw[a : a + TILE],
                source.missing_code,
                standardize=wanted.standardize,
            )
            parts.append(scaling)
            if G is not None:
                wanted.sums.add(G, Z)
    return Scaling.join(parts), G


def standardised(source: AbstractSource, job: Job, wanted: Wanted) -> Iterator[Float]:
    """Standardised columns of the job, float64, a tile (c, m) at a time."""
    for block, columns in zip(job.blocks, job.payload, strict=True):
        raw = raw_columns(source, block, columns, wanted)
        for a in range(0, len(raw), 2 * TILE):
            part = columns.scaling.take(slice(a, a + 2 * TILE))
            yield standardise(raw[a : a + 2 * TILE], source.missing_code, part, np.float64)


def standardised_columns(source: AbstractSource, job: Job, wanted: Wanted) -> Float:
    """Standardised columns of the job, (c, m) float64."""
    return np.concatenate(list(standardised(source, job, wanted)))


def statistic_of(source: AbstractSource, job: Job, wanted: Wanted) -> Float:
    """Upper triangle of the statistic of the columns, (m, m)."""
    upper = zero_upper(wanted.n_samples)
    for Z in standardised(source, job, wanted):
        wanted.sums.add(upper, Z)
    return upper


def score_columns(source: AbstractSource, job: Job, wanted: Wanted) -> Float:
    """Gains of the columns of the job, in their order, (c,)."""
    assert wanted.engine is not None, "a scoring pass carries its engine"
    place = Place.of(wanted)
    gains = []
    for block, columns in zip(job.blocks, job.payload, strict=True):
        raw = raw_columns(source, block, columns, wanted)
        height = TILE if place.accelerator is None else len(raw)
        for a in range(0, len(raw), height):
            part = columns.scaling.take(slice(a, a + height))
            X = standardise(raw[a : a + height], source.missing_code, part, wanted.dtype)
            facts = Facts(part.peak, part.fourth, part.n_levels)
            gains.append(wanted.engine.score(place.state, place.array(X), facts))
    return np.concatenate(gains)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a task scores, and the state of its engine there."""

    accelerator: Accelerator | None
    state: Any

    @staticmethod
    def of(wanted: Wanted) -> Place:
        """The device that is wanted; the cores for engines that are NumPy's alone."""
        state = wanted.engine_state
        if wanted.device is None or not hasattr(state, "on"):
            return Place(None, state)
        found = accelerator(wanted.device)
        return Place(found, found.state(state))

    def array(self, X: Array) -> Array:
        """The array there."""
        return X if self.accelerator is None else self.accelerator.array(X)


@dataclass(frozen=True, slots=True)
class GroupedColumns:
    """Columns of a job and the group of each, in the order in which they are read.

    Attributes
    ----------
    columns : tuple of Columns
        Of every block of the job.
    groups : (c,) int64
        Group of each of them.
    """

    columns: tuple[Columns, ...]
    groups: Index


def score_groups(source: AbstractSource, job: Job, wanted: Wanted) -> tuple[Index, Float]:
    """Groups of the job, ascending, and by how much HSIC rises without each, (g,)."""
    return _scored(source, job, wanted, _gain)


def joining_groups(source: AbstractSource, job: Job, wanted: Wanted) -> tuple[Index, Float]:
    """Groups of the job, ascending, and by how much HSIC rises with each, (g,)."""
    return _scored(source, job, wanted, _gain_of_joining)


def _scored(
    source: AbstractSource, job: Job, wanted: Wanted, gain: Callable[[DirectState, Float], float]
) -> tuple[Index, Float]:
    """Groups of the job, ascending, and the gain of each."""
    gains = {
        group: gain(wanted.engine_state, upper)
        for group, upper in _statistics(source, job, job.payload, wanted)
    }
    order = sorted(gains)
    return np.array(order, dtype=np.int64), np.array([gains[group] for group in order])


def _statistics(
    source: AbstractSource, job: Job, grouped: GroupedColumns, wanted: Wanted
) -> Iterator[tuple[int, Float]]:
    """Every group with its statistic, as soon as its last feature has been read."""
    left = dict(zip(*np.unique(grouped.groups, return_counts=True), strict=True))
    open_: dict[int, Float] = {}
    start = 0
    for Z in standardised(source, Job(job.blocks, grouped.columns), wanted):  # (c, m)
        here = grouped.groups[start : start + len(Z)]
        start += len(Z)
        for group in np.unique(here):
            upper = open_.setdefault(int(group), zero_upper(wanted.n_samples))
            of_group = np.ascontiguousarray(Z[here == group])
            wanted.sums.add(upper, of_group)
            left[group] -= len(of_group)
            if not left[group]:
                yield int(group), open_.pop(int(group))


def _gain(state: DirectState, upper: Float) -> float:
    """``<W, K(S without g) - K(S)>``, rows in tiles, the upper triangle of each."""
    part = Statistic(upper)
    G_g, norms_g = part.whole(), part.diagonal
    m = len(norms_g)
    height = max(1, TILE_ENTRIES // m)
    gain = 0.0
    for a in range(0, m, height):
        rows, columns = slice(a, min(a + height, m)), slice(a, m)
        loss = state.kernel.loss_of(  # (rows, columns)
            state.G[rows, columns],
            state.norms[rows],
            state.norms[columns],
            G_g[rows, columns],
            norms_g[rows],
            norms_g[columns],
            state.sigma,
        )
        W = state.W[rows, columns]
        square = rows.stop - rows.start
        gain += 2.0 * float(np.vdot(W, loss)) - float(np.vdot(W[:, :square], loss[:, :square]))
    return gain


def _gain_of_joining(state: DirectState, upper: Float) -> float:
    """``<W, K(S with g) - K(S)>``: what S with g loses without g."""
    part = Statistic(upper)
    G, norms = state.G + part.whole(), state.norms + part.diagonal
    return -_gain(replace(state, G=G, norms=norms), upper)

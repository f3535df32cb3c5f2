"""What runs on a worker: read a few blocks, return something small.

Module-level functions of (source, job, state), so that they travel by name. The payload of a job
says, for each of its blocks, which columns are wanted and what is known of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.accelerator import Accelerator, accelerator, wanted_device
from dhsic.engines.base import AbstractEngine, Facts
from dhsic.kernels.statistic import AbstractSums, InnerProducts, zero_upper
from dhsic.runtime.base import Job
from dhsic.scoring.packing import Span
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

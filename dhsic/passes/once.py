"""One pass over a source for criteria that judge each feature alone, at any width.

A task reads a block, measures it and applies the criterion while the values are at hand: one read
of the data in all. What comes back is a few numbers per feature.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dhsic._typing import Float, Index
from dhsic.criteria.base import AbstractCriterion
from dhsic.passes.dependence import Reporter
from dhsic.passes.reader import Reader
from dhsic.passes.tasks import Wanted, raw_columns
from dhsic.runtime.base import AbstractRuntime, Job
from dhsic.sources.base import AbstractSource
from dhsic.sources.scaling import Scaling, measure

#: Entries of a tile, 4 MiB in float64, and the most features of one.
TILE_ENTRIES, WIDEST = 1 << 19, 512


@dataclass(frozen=True, slots=True)
class WantedOnce(Wanted):
    """What every task of the pass needs besides its job.

    Attributes
    ----------
    criterion : AbstractCriterion or None
        None where only the scaling is wanted.
    prepared : object
        What `criterion` made of the labels.
    """

    criterion: AbstractCriterion | None = None
    prepared: object = None


@dataclass(frozen=True, slots=True)
class Found:
    """What the pass found out of d features.

    Attributes
    ----------
    scaling : Scaling
        Of all features.
    columns : (k, d) float64
        As of `AbstractCriterion.columns`; NaN for features that do not vary.
    bytes_read : int
        Stored bytes, 0 from memory.
    """

    scaling: Scaling
    columns: Float
    bytes_read: int


def read_once(
    source: AbstractSource, runtime: AbstractRuntime, wanted: WantedOnce, reporter: Reporter
) -> Found:
    """Pass over all features; `reporter` hears of them."""
    reader = Reader(source, runtime, wanted)
    jobs = reader.jobs(np.arange(source.n_features, dtype=np.int64))
    scalings, columns = [], []
    for scaling, values in reader.joined(judge, jobs):
        scalings.append(scaling)
        columns.append(values)
        reporter.scored(values.shape[1])
    return Found(Scaling.join(scalings), np.concatenate(columns, axis=1), reader.bytes_of(jobs))


def judge(source: AbstractSource, job: Job, wanted: WantedOnce) -> tuple[Scaling, Float]:
    """Scaling and columns of the features of the job."""
    height = tile_height(wanted.n_samples)
    scalings, columns = [], []
    for block, chosen in zip(job.blocks, job.payload, strict=True):
        raw = raw_columns(source, block, chosen, wanted)
        for a in range(0, len(raw), height):
            scaling, X = measure(
                raw[a : a + height],
                source.missing_code,
                standardize=wanted.standardize,
            )
            scalings.append(scaling)
            columns.append(_judged(wanted, X, scaling))
    return Scaling.join(scalings), np.concatenate(columns, axis=1)


def _judged(wanted: WantedOnce, X: Float, scaling: Scaling) -> Float:
    """Columns of a tile, (k, c); NaN where a feature does not vary, or beyond numbers."""
    if wanted.criterion is None:
        return np.empty((0, len(X)))
    alive: Index = np.flatnonzero(scaling.std > 0)
    if alive.size == len(X):
        return wanted.criterion.columns(wanted.prepared, X, scaling.n_levels)
    some = wanted.criterion.columns(wanted.prepared, X[alive], scaling.n_levels[alive])
    out = np.full((len(some), len(X)), np.nan)
    out[:, alive] = some
    return out


def tile_height(m: int) -> int:
    """Features of a tile."""
    return max(1, min(WIDEST, TILE_ENTRIES // max(1, m)))

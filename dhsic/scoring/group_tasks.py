"""Scores of whole groups of features, by definition: what runs on a worker.

Without a group g the statistic is ``G - G_g``; G_g, the statistic of its features alone, is summed
as they are read. Then the kernel is taken of what is left, tile by tile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from dhsic._typing import Float, Index
from dhsic.engines.direct import TILE_ENTRIES, DirectState
from dhsic.kernels.statistic import Statistic, zero_upper
from dhsic.runtime.base import Job
from dhsic.scoring.tasks import Columns, Wanted, standardised
from dhsic.sources.base import AbstractSource


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

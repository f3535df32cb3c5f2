"""Shares: which jobs of a pass go to which worker process, and how each of them does its own.

A task costs a scheduler about a millisecond and is one message each way of four processes, so a
pass is one task a worker process: a run of neighbouring jobs, done by the threads of the worker.
Where that would take long, `MOST_VALUES` a thread, it is several: less is lost with a worker, and
an adaptive cluster grows by tasks that wait. Nothing of a result depends on the cut, see
`dhsic.runtime.tree`; it is made so that few nodes of that tree are shared between two workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

from dhsic.runtime.base import Job, Jobs
from dhsic.sources import AbstractSource

#: Values that a thread reads in a task, about: five seconds of the slowest passes.
MOST_VALUES = 1 << 32
#: Shares whose nodes one task adds up.
FAN = 4
#: Ends of a share are moved to whole nodes of so many jobs: a part of it at most.
ALIGNED = 8


def cut(n_jobs: int, threads: Sequence[int], n_each: int = 1) -> list[tuple[int, range]]:
    """Shares, in the order of the jobs, and the number of each: those of no job are left out.

    There is one for each worker, of which `threads` are given, then another, up to `n_each`. All
    get about as many jobs for each of their threads.

    >>> cut(7, [2, 2, 4])
    [(0, range(0, 2)), (1, range(2, 4)), (2, range(4, 7))]
    >>> cut(2, [1, 1, 1])
    [(0, range(0, 1)), (2, range(1, 2))]
    """
    weights = list(threads) * n_each
    whole = 1 << max((n_jobs // (ALIGNED * len(weights))).bit_length() - 1, 0)
    parts = n_jobs / whole / sum(weights)
    edges = [min(round(parts * sum_) * whole, n_jobs) for sum_ in accumulate(weights, initial=0)]
    edges[-1] = n_jobs
    return [(i, range(*edge)) for i, edge in enumerate(pairwise(edges)) if edge[1] > edge[0]]


def n_values(source: AbstractSource, jobs: Jobs) -> int:
    """Values of the blocks of jobs."""
    return sum(_n_samples(source, job) * block.width for job in jobs for block in job.blocks)


def _n_samples(source: AbstractSource, job: Job) -> int:
    some = job.samples
    return source.n_samples if some is None else len(range(*some.indices(source.n_samples)))


def n_each(n_values: int, n_threads: int) -> int:
    """Tasks of a worker process in a pass over so many values, on so many threads in all."""
    return max(1, round(n_values / (MOST_VALUES * n_threads)))


def joins(n_shares: int) -> list[int]:
    """Tasks that add up what so many shares leave: of each level, whose tasks wait for the last.

    >>> joins(100), joins(1)
    ([25, 7, 2, 1], [])
    """
    levels = []
    while n_shares > 1:
        n_shares = -(-n_shares // FAN)
        levels.append(n_shares)
    return levels

"""Partition of the jobs of a pass into shares: ranges of neighbouring jobs, one Dask task each.

A task costs a scheduler about a millisecond and several messages between processes, so a pass has
one share per worker process, executed by the threads of the worker. If a share would read more than
`MOST_VALUES` per thread, a worker gets several shares: then less work is lost if a worker dies, and
an adaptive cluster, which grows with the number of waiting tasks, gets more workers.

Results do not depend on the partition (`dhsic.runtime.tree_reduce`). The edges of shares are chosen
so that few nodes of the reduction tree span two workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

from dhsic.runtime.base import Job, Jobs
from dhsic.sources import AbstractSource

#: Approximate number of values that a thread reads in a task: 5 s in the slowest passes.
MOST_VALUES = 1 << 32
#: Number of shares whose partial sums (tree nodes) one task adds.
FAN = 4
#: Edges of a share are rounded to tree nodes of at most 1/ALIGNED of its jobs.
ALIGNED = 8


def partition_jobs(n_jobs: int, threads: Sequence[int], n_each: int = 1) -> list[tuple[int, range]]:
    """Partition the jobs into ranges (shares), at most `n_each` per worker; return (number, range).

    `threads` contains the number of threads of each worker. Share number i belongs to worker ``i %
    len(threads)``, and its size is proportional to the threads of that worker. Empty shares are
    omitted.

    >>> partition_jobs(7, [2, 2, 4])
    [(0, range(0, 2)), (1, range(2, 4)), (2, range(4, 7))]
    >>> partition_jobs(2, [1, 1, 1])
    [(0, range(0, 1)), (2, range(1, 2))]
    """
    weights = list(threads) * n_each
    width = 1 << max((n_jobs // (ALIGNED * len(weights))).bit_length() - 1, 0)
    nodes_per_thread = n_jobs / width / sum(weights)
    edges = [
        min(round(nodes_per_thread * sum_) * width, n_jobs)
        for sum_ in accumulate(weights, initial=0)
    ]
    edges[-1] = n_jobs
    return [(i, range(*edge)) for i, edge in enumerate(pairwise(edges)) if edge[1] > edge[0]]


def n_values(source: AbstractSource, jobs: Jobs) -> int:
    """Return the number of matrix values that jobs read."""
    return sum(_n_samples(source, job) * block.width for job in jobs for block in job.blocks)


def _n_samples(source: AbstractSource, job: Job) -> int:
    samples = job.samples
    return source.n_samples if samples is None else len(range(*samples.indices(source.n_samples)))


def n_each(n_values: int, n_threads: int) -> int:
    """Return the number of tasks per worker in a pass that reads `n_values` values of the data.

    `n_threads` is the total number of threads of all workers.
    """
    return max(1, round(n_values / (MOST_VALUES * n_threads)))


def joins(n_shares: int) -> list[int]:
    """Return the number of additions per level of the tree that sums results of `n_shares` tasks.

    >>> joins(100), joins(1)
    ([25, 7, 2, 1], [])
    """
    levels = []
    while n_shares > 1:
        n_shares = -(-n_shares // FAN)
        levels.append(n_shares)
    return levels

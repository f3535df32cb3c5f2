"""Division of a pass into jobs.

It depends only on data sizes and the source, so all runs use the same jobs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from dhsic._typing import Index
from dhsic.passes import Columns
from dhsic.runtime.base import Job, Jobs
from dhsic.sources import AbstractSource
from dhsic.sources.blocks import Block

#: Maximum stored bytes of a block, which a task reads at once.
BLOCK_BYTES = 8 << 20
#: Minimum number of blocks of a pass: up to `MANY_BLOCKS`, if each has at least `WIDE` features
#: (with fewer, products take up to 1.5 times as long); else up to `SOME_BLOCKS`, if each has at
#: least `NARROW`; else 2. The number is even, like most numbers of threads, or 1 below `FEWEST`
#: features.
MANY_BLOCKS, WIDE = 64, 384
SOME_BLOCKS, NARROW = 4, 96
FEWEST = 16
#: Maximum number of jobs for a statistic, each of which returns a matrix to be added:
#: `FEW_PARTIALS` if each has at least `WORTH_FEW` features; `MANY_PARTIALS` if each has at least
#: `WORTH_MANY`; `MOST_PARTIALS` if each has at least twice `WORTH_MANY`. The summation tree then
#: keeps 8 matrices at a time.
FEW_PARTIALS, WORTH_FEW = 4, 256
MANY_PARTIALS, WORTH_MANY = 32, 2048
MOST_PARTIALS = 256
#: Jobs per thread of a cluster, for passes whose results are concatenated.
JOBS_PER_THREAD = 4
#: Maximum number of tasks that write scratch, and minimum number of stored blocks that each reads.
#: A block at the border of two tasks is read by both.
MOST_WRITERS, BLOCKS_PER_WRITER = 1024, 4


def block_width(m: int, d: int, itemsize: int) -> int:
    """Number of features per block, for d features and m samples.

    A block has at most 8 MiB, and less if there would be too few blocks. `itemsize` is the number
    of bytes per stored value.
    """
    n_blocks = max(min(SOME_BLOCKS, d // NARROW), min(MANY_BLOCKS, d // WIDE))
    n_blocks = max(n_blocks // 2 * 2, 2 if d >= FEWEST else 1)
    by_bytes = max(2 * FEWEST, BLOCK_BYTES // max(1, m * itemsize))
    return min(by_bytes, -(-d // n_blocks))


def block_bytes(source: AbstractSource, m: int) -> int:
    """Size of the widest block of a pass over m samples, in bytes.

    The size includes everything that must be read for the block, for example whole chunks. A chunk
    is decoded as a whole and is in memory twice during decoding. A task needs five times this size.
    """
    itemsize = np.dtype(source.dtype).itemsize
    blocks = source.blocks(block_width(m, source.n_features, itemsize))
    widest = max(source.stored_width(block) for block in blocks)
    return max(int(widest * source.n_samples * itemsize), source.chunk_bytes * 2 // 5)


def positions(some: Index, among: Index) -> Index:
    """Positions of `some` in `among`; both are ascending."""
    if some.size == among.size:
        return np.arange(some.size)
    if min(some.size, among.size) * 8 < among[-1]:
        return np.searchsorted(among, some)
    table = np.empty(among[-1] + 1, dtype=np.int64)
    table[among] = np.arange(among.size)
    return np.asarray(table[some])


def stored_parts(blocks: Sequence[Block], at: Index) -> Iterator[tuple[Block, slice]]:
    """Yield stored blocks of a source that contain positions `at`, with a slice of `at` for each.

    `at` are the ascending positions of features; the slice contains those in the block.
    """
    edges = np.searchsorted(at, [(block.start, block.stop) for block in blocks])
    for block, (a, b) in zip(blocks, edges.tolist(), strict=True):
        if b > a:
            yield block, slice(a, b)


def even_parts(at: Index, width: int) -> Iterator[tuple[Block, slice]]:
    """Divide the positions `at` into even blocks of about `width`, regardless of their storage."""
    for index, a in enumerate(range(0, at.size, width)):
        b = min(a + width, at.size)
        yield Block(index, int(at[a]), int(at[b - 1]) + 1), slice(a, b)


def merged(jobs: Jobs, n: int) -> list[Job]:
    """Merge consecutive jobs into at most n jobs."""
    n = min(n, len(jobs))
    edges = [len(jobs) * i // max(n, 1) for i in range(n + 1)]
    out = []
    for a, b in pairwise(edges):
        batch = jobs[a:b]
        out.append(
            Job(
                tuple(x for j in batch for x in j.blocks),
                tuple(x for j in batch for x in j.payload),
            )
        )
    return out


def grouped(jobs: Jobs, worth_many: int = WORTH_MANY) -> list[Job]:
    """Merge consecutive jobs, for passes with large results that are added up.

    There are at most `FEW_PARTIALS` jobs, or more if each has at least `worth_many` features.
    """
    n_features = sum(columns.local.size for job in jobs for columns in job.payload)
    return merged(jobs, n_partials(n_features, worth_many))


def n_partials(n_features: int, worth_many: int = WORTH_MANY) -> int:
    """Maximum number of jobs for a sum over `n_features` (see `grouped`)."""
    few, many = min(FEW_PARTIALS, n_features // WORTH_FEW), n_features // worth_many
    more = min(MOST_PARTIALS, many // 2)
    return max(max(few, min(MANY_PARTIALS, many), more) // 2 * 2, 1)


def writing_jobs(
    blocks: Sequence[tuple[Block, slice]], at: Index, chunk: int, most: int
) -> list[Job]:
    """Create at most `most` jobs that write features to scratch, in whole chunks of `chunk`.

    `at` are the positions of the features in the source; `blocks` are its stored blocks, each with
    the slice of `at` that it contains. Jobs begin near the start of a stored block, so that few
    blocks are read twice.
    """
    starts = np.array([part.start for _, part in blocks])
    n = max(min(len(blocks), 2), min(len(blocks) // BLOCKS_PER_WRITER, most, MOST_WRITERS))
    begins = starts[len(blocks) * np.arange(n) // n]
    edges = np.unique(np.append(-(-begins // chunk) * chunk, at.size).clip(max=at.size))
    jobs = []
    for a, b in pairwise(edges.tolist()):
        reads = blocks[np.searchsorted(starts, a, "right") - 1 : np.searchsorted(starts, b)]
        spans = [(block, max(a, part.start), min(b, part.stop)) for block, part in reads]
        columns = tuple(
            Columns(at[i:j] - block.start, tags=np.arange(i, j)) for block, i, j in spans
        )
        jobs.append(Job(tuple(block for block, _ in reads), columns))
    return jobs

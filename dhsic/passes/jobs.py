"""How a pass is cut into jobs: by sizes and the source alone, so that every run is cut alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from dhsic._typing import Index
from dhsic.passes import Columns
from dhsic.runtime.base import Job, Jobs
from dhsic.sources import AbstractSource
from dhsic.sources.blocks import Block

#: Stored bytes of a block that a task reads at a time.
BLOCK_BYTES = 8 << 20
#: Blocks of a pass over features in memory: this many where each has 384 features or more, for a
#: product with fewer takes up to half as long again; else 4 where each has 96, or 2; always an even
#: number, for threads come in even numbers too, but of fewer than 16 features in all.
MANY_BLOCKS, WIDE = 64, 384
SOME_BLOCKS, NARROW = 4, 96
FEWEST = 16
#: Jobs of a statistic, each of which gives a matrix that is added: so many where each has this many
#: features. More than `MANY_PARTIALS` have twice as many each; of `MOST_PARTIALS`, a tree keeps 8.
FEW_PARTIALS, WORTH_FEW = 4, 256
MANY_PARTIALS, WORTH_MANY = 32, 2048
MOST_PARTIALS = 256
#: Jobs of a pass for each thread of a cluster, where results are put one after the other.
JOBS_PER_THREAD = 4
#: Tasks that write scratch, at most, and stored blocks that each reads at least: two tasks read the
#: one between.
MOST_WRITERS, BLOCKS_PER_WRITER = 1024, 4


def block_width(m: int, d: int, itemsize: int) -> int:
    """Features of a block: about 8 MiB as stored or less, so that there are enough blocks."""
    n_blocks = max(min(SOME_BLOCKS, d // NARROW), min(MANY_BLOCKS, d // WIDE))
    n_blocks = max(n_blocks // 2 * 2, 2 if d >= FEWEST else 1)
    by_bytes = max(2 * FEWEST, BLOCK_BYTES // max(1, m * itemsize))
    return min(by_bytes, -(-d // n_blocks))


def block_bytes(source: AbstractSource, m: int) -> int:
    """Bytes of the widest block of a pass of m samples, of which a task holds five times.

    All that is read for it counts. A chunk that is larger than the matrix is decoded whole, and
    held twice meanwhile.
    """
    itemsize = np.dtype(source.dtype).itemsize
    blocks = source.blocks(block_width(m, source.n_features, itemsize))
    widest = max(source.stored_width(block) for block in blocks)
    return max(int(widest * source.n_samples * itemsize), source.chunk_bytes * 2 // 5)


def positions(some: Index, among: Index) -> Index:
    """Places of `some` among the features `among`, both ascending; by a table if that is sooner."""
    if some.size == among.size:
        return np.arange(some.size)
    if min(some.size, among.size) * 8 < among[-1]:
        return np.searchsorted(among, some)
    table = np.empty(among[-1] + 1, dtype=np.int64)
    table[among] = np.arange(among.size)
    return np.asarray(table[some])


def stored_parts(blocks: Sequence[Block], at: Index) -> Iterator[tuple[Block, slice]]:
    """Stored blocks and which of the positions `at` (ascending) lie in each."""
    edges = np.searchsorted(at, [(block.start, block.stop) for block in blocks])
    for block, (a, b) in zip(blocks, edges.tolist(), strict=True):
        if b > a:
            yield block, slice(a, b)


def even_parts(at: Index, width: int) -> Iterator[tuple[Block, slice]]:
    """Blocks with even numbers of the positions `at`, wherever those are kept."""
    for index, a in enumerate(range(0, at.size, width)):
        b = min(a + width, at.size)
        yield Block(index, int(at[a]), int(at[b - 1]) + 1), slice(a, b)


def merged(jobs: Jobs, n: int) -> list[Job]:
    """The same jobs in at most n, consecutive ones together."""
    n = min(n, len(jobs))
    edges = [len(jobs) * i // max(n, 1) for i in range(n + 1)]
    out = []
    for a, b in pairwise(edges):
        some = jobs[a:b]
        out.append(
            Job(tuple(x for j in some for x in j.blocks), tuple(x for j in some for x in j.payload))
        )
    return out


def grouped(jobs: Jobs, worth_many: int = WORTH_MANY) -> list[Job]:
    """The same jobs in a few, consecutive ones together, for results that are large.

    More than `FEW_PARTIALS` are made where each has `worth_many` features: results are added.
    """
    n_features = sum(columns.local.size for job in jobs for columns in job.payload)
    return merged(jobs, n_partials(n_features, worth_many))


def n_partials(n_features: int, worth_many: int = WORTH_MANY) -> int:
    """Jobs of a sum over so many features, at most."""
    few, many = min(FEW_PARTIALS, n_features // WORTH_FEW), n_features // worth_many
    more = min(MOST_PARTIALS, many // 2)
    return max(max(few, min(MANY_PARTIALS, many), more) // 2 * 2, 1)


def writing_jobs(
    blocks: Sequence[tuple[Block, slice]], at: Index, chunk: int, most: int
) -> list[Job]:
    """Cut positions `at` of a source into runs of whole chunks of scratch: `most`, or two.

    Runs begin close to where stored blocks do, so that few of those are read twice; `blocks` says
    which of `at` lie in each.
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

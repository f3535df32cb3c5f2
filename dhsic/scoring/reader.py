"""Passes over chosen features of a source: which blocks, in which jobs, by which runtime.

As features leave, blocks thin out. While the survivors fit a fixed budget they are kept, as
stored, in memory (compaction); the cut into jobs depends on sizes alone, so every run over the
same data sums in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from dhsic._typing import Index
from dhsic.runtime.base import AbstractRuntime, Job, Task
from dhsic.scoring.held import HeldSource
from dhsic.scoring.tasks import Columns, Wanted, gather
from dhsic.sources.base import AbstractSource, Block
from dhsic.sources.scaling import Scaling

#: Stored bytes of a block that a task reads at a time.
BLOCK_BYTES = 8 << 20
#: Blocks of a pass over features in memory: this many where each has 128 features or more,
#: else 4 where each has 32; always an even number, for threads come in even numbers too.
MANY_BLOCKS, WIDE = 64, 128
SOME_BLOCKS, NARROW = 4, 32
#: Tasks of a statistic, each of which returns an m x m matrix: so many where each has this many
#: features.
FEW_PARTIALS, WORTH_FEW = 4, 256
MANY_PARTIALS, WORTH_MANY = 32, 2048
#: Stored bytes of survivors that are kept in memory.
COMPACT_BYTES = 160 << 20


def block_width(m: int, d: int, itemsize: int) -> int:
    """Features of a block: about 8 MiB as stored or less, so that there are enough blocks."""
    n_blocks = max(min(SOME_BLOCKS, d // NARROW), min(MANY_BLOCKS, d // WIDE))
    n_blocks = max(n_blocks // 2 * 2, 2 if d >= NARROW // 2 else 1)
    by_bytes = max(NARROW, BLOCK_BYTES // max(1, m * itemsize))
    return min(by_bytes, -(-d // n_blocks))


@dataclass(frozen=True)
class Reader:
    """Reads features (numbered as in the whole source) through a runtime.

    Attributes
    ----------
    source : AbstractSource
        Where they are read from.
    runtime : AbstractRuntime
        Where tasks run.
    wanted : Wanted
        What every task needs to know.
    held : (s,) int64 or None
        Features that the source holds, ascending, when it was compacted; None for all.
    """

    source: AbstractSource
    runtime: AbstractRuntime
    wanted: Wanted
    held: Index | None = None

    @property
    def bytes_per_feature(self) -> int:
        """Stored bytes of one feature."""
        return int(self.wanted.n_samples * np.dtype(self.source.dtype).itemsize)

    def jobs(self, features: Index, scaling: Scaling | None = None) -> list[Job]:
        """Jobs whose results, joined, are in the order of `features` (ascending)."""
        at = features if self.held is None else np.searchsorted(self.held, features)
        width = block_width(
            self.wanted.n_samples, features.size, np.dtype(self.source.dtype).itemsize
        )
        out = []
        for block, part in self._cut(at, width):
            known = None if scaling is None else scaling.take(features[part])
            out.append(Job((block,), (Columns(at[part] - block.start, known),)))
        return out

    def _cut(self, at: Index, width: int) -> Iterator[tuple[Block, slice]]:
        """Blocks to read and which of the positions `at` (ascending) lie in each."""
        if self.held is not None:  # reading costs nothing: any cut will do
            for index, a in enumerate(range(0, at.size, width)):
                b = min(a + width, at.size)
                yield Block(index, int(at[a]), int(at[b - 1]) + 1), slice(a, b)
            return
        for block in self.source.blocks(self._stored_width()):
            a, b = np.searchsorted(at, [block.start, block.stop])
            if b > a:
                yield block, slice(int(a), int(b))

    def _stored_width(self) -> int:
        d = self.source.n_features
        return block_width(self.wanted.n_samples, d, np.dtype(self.source.dtype).itemsize)

    def map(self, task: Task, jobs: Sequence[Job], **state: Any) -> Iterator[Any]:
        """Results of the task over the jobs, in order."""
        return self.runtime.map(task, self.source, jobs, replace(self.wanted, **state))

    def bytes_of(self, jobs: Sequence[Job]) -> int:
        """Stored bytes that the jobs read, 0 from memory."""
        if self.source.in_memory:
            return 0
        return self.bytes_per_feature * sum(b.width for job in jobs for b in job.blocks)

    def compacted(self, features: Index) -> Reader:
        """Reader of `features` alone: from memory where they fit, else as it is."""
        if features.size * self.bytes_per_feature > COMPACT_BYTES or self.runtime.is_remote:
            return self
        m = self.wanted.n_samples
        kept = np.empty((features.size, m), dtype=self.source.dtype)  # (s, m)
        jobs = self.jobs(features)
        starts = np.cumsum([0, *(job.payload[0].local.size for job in jobs)])

        def fill(place: tuple[int, Job]) -> None:
            start, job = place
            part = gather(self.source, job, self.wanted)
            kept[start : start + len(part)] = part

        for _ in self.runtime.each(fill, zip(starts, jobs, strict=False)):
            pass
        source = HeldSource(kept, self.source.missing_code)
        return replace(self, source=source, held=features, wanted=replace(self.wanted, rows=None))


def grouped(jobs: Sequence[Job]) -> list[Job]:
    """The same jobs in a few, consecutive ones together, for results that are m x m."""
    n_features = sum(columns.local.size for job in jobs for columns in job.payload)
    n = max(
        min(FEW_PARTIALS, n_features // WORTH_FEW), min(MANY_PARTIALS, n_features // WORTH_MANY)
    )
    n = max(1, min(n // 2 * 2, len(jobs)))
    edges = [len(jobs) * i // n for i in range(n + 1)]
    out = []
    for a, b in pairwise(edges):
        some = jobs[a:b]
        out.append(
            Job(tuple(x for j in some for x in j.blocks), tuple(x for j in some for x in j.payload))
        )
    return out

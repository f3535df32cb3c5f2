"""Passes over chosen features of a source: which blocks, in which jobs, by which runtime.

As features leave, less and less of a block is needed, and the survivors are compacted: kept in
memory where they fit a fixed budget, else rewritten to scratch, so that all passes together decode
a small multiple of one. Low rank does so once half of what is stored has left; the exact engine
asks for it when an epoch begins (`dhsic.passes.sums`), once seven in eight have. On a cluster they
go to scratch in either case, unless they are few. All features are loaded in the same way before
the first round (`Reader.loaded`) where they fit. Whether, and the cut into jobs, depends on sizes
and the source alone, never on where survivors are kept, so every run over the same data sums in
the same order.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from dhsic._typing import Index
from dhsic.accelerator import wanted_device
from dhsic.passes.execution import (
    JOBS_PER_THREAD,
    AbstractExecution,
    Execution,
    Extremes,
    Location,
    merged,
    where_to_keep,
)
from dhsic.passes.scratch import AbstractScratch, UnwritableError, chunk_width, writing_jobs
from dhsic.passes.survivors import Form, RecutSource, around, fits, forms
from dhsic.passes.task import AbstractPass, AbstractSum, Columns
from dhsic.runtime.base import AbstractRuntime, Job
from dhsic.sources import AbstractSource, Block
from dhsic.sources.scaling import Scaling
from dhsic.sources.views import ChecksummedSource

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
#: Bytes of survivors, as they are kept (packed, if they can be), up to which all features are kept
#: apart from the start: in memory where there is so much.
COMPACT_BYTES = 512 << 20
#: Survivors are kept apart where that is asked for and what is stored is this many times as much.
COMPACTING = 2


def block_width(m: int, d: int, itemsize: int) -> int:
    """Features of a block: about 8 MiB as stored or less, so that there are enough blocks."""
    n_blocks = max(min(SOME_BLOCKS, d // NARROW), min(MANY_BLOCKS, d // WIDE))
    n_blocks = max(n_blocks // 2 * 2, 2 if d >= NARROW // 2 else 1)
    by_bytes = max(NARROW, BLOCK_BYTES // max(1, m * itemsize))
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


def worth_compacting(n_features: int, n_stored: int, n_bytes: int) -> bool:
    """Whether features are to be kept apart, in `n_bytes`, from what they are read from.

    All of them are where they fit in memory, some where they are few; by sizes alone, so that a
    resumed run decides as the one before.
    """
    if n_features == n_stored:
        return n_bytes <= COMPACT_BYTES
    return COMPACTING * n_features <= n_stored


@dataclass(frozen=True)
class Reader:
    """Reads features (numbered as in the whole source) through a runtime.

    Attributes
    ----------
    rows : (m,) int64 or None
        Samples that take part, in this order; None for all.
    held : (s,) int64 or None
        Features that the source holds, ascending, when it was compacted; None for all.
    scratch : AbstractScratch or None
        Where the source lies, if that is scratch.
    memory : int, optional
        Bytes of survivors that are kept in memory here, `COMPACT_BYTES` by default; more go to
        scratch, which changes nothing else. Every worker of a cluster keeps as much of it.
    is_home : bool
        Whether survivors of a cluster have come to this process.
    device : str or None
        What features are scored on, None for the cores.
    execution : AbstractExecution
        How passes are run and survivors kept; that of a plan only counts.
    """

    source: AbstractSource
    runtime: AbstractRuntime
    rows: Index | None = None
    held: Index | None = None
    scratch: AbstractScratch | None = None
    memory: int | None = None
    is_home: bool = False
    device: str | None = field(default_factory=wanted_device)
    execution: AbstractExecution = field(default_factory=Execution)

    @property
    def n_samples(self) -> int:
        """Samples that take part, m."""
        return self.source.n_samples if self.rows is None else len(self.rows)

    @property
    def bytes_per_feature(self) -> int:
        """Stored bytes of one feature."""
        return int(self.n_samples * np.dtype(self.source.dtype).itemsize)

    def jobs(
        self, features: Index, scaling: Scaling | None = None, tags: Index | None = None
    ) -> list[Job]:
        """Jobs whose results, joined, are in the order of `features` (ascending).

        `scaling` is of all features of the source, `tags` (s,) of these.
        """
        at = self._places(features)
        out = []
        for block, part in self._stored(at) if self.held is None else self._even(at):
            known = None if scaling is None else scaling.take(features[part])
            tag = None if tags is None else tags[part]
            out.append(Job((block,), (Columns(at[part] - block.start, known, tag),)))
        return out

    @property
    def room(self) -> int:
        """Bytes of survivors that are kept in memory here."""
        return COMPACT_BYTES if self.memory is None else self.memory

    def _places(self, features: Index) -> Index:
        """Positions of features in the source, (s,)."""
        return features if self.held is None else positions(features, self.held)

    def _stored(self, at: Index) -> Iterator[tuple[Block, slice]]:
        """Stored blocks and which of the positions `at` (ascending) lie in each."""
        for block in self.source.blocks(self._stored_width()):
            a, b = np.searchsorted(at, [block.start, block.stop])
            if b > a:
                yield block, slice(int(a), int(b))

    def _even(self, at: Index) -> Iterator[tuple[Block, slice]]:
        """Blocks with even numbers of the positions `at`, wherever those are kept."""
        width = self._width(at.size)
        for index, a in enumerate(range(0, at.size, width)):
            b = min(a + width, at.size)
            yield Block(index, int(at[a]), int(at[b - 1]) + 1), slice(a, b)

    def _stored_width(self) -> int:
        return self._width(self.source.n_features)

    def _width(self, d: int) -> int:
        return block_width(self.n_samples, d, np.dtype(self.source.dtype).itemsize)

    def map(self, a_pass: AbstractPass, jobs: Sequence[Job]) -> Iterator[Any]:
        """Results of the pass over the jobs, in order."""
        return self.execution.results(self, a_pass, jobs, divisible=False)

    def joined(self, a_pass: AbstractPass, jobs: Sequence[Job]) -> Iterator[Any]:
        """Results of a pass that works block by block, in order: to be put one after the other."""
        return self.execution.results(self, a_pass, jobs, divisible=True)

    def added(self, a_pass: AbstractSum, jobs: Sequence[Job]) -> Any:
        """Results of the pass, added up in the order of jobs."""
        return self.execution.summed(self, a_pass, jobs)

    def close(self) -> None:
        """Remove the scratch that is read from, if there is one, and end threads of its own."""
        if self.scratch is not None:
            self.scratch.close()
        if self.is_home:
            self.runtime.close()

    def bytes_of(self, jobs: Sequence[Job]) -> int:
        """Stored bytes that the jobs read, 0 from memory."""
        if self.source.in_memory:
            return 0
        widths = (self.source.stored_width(block) for job in jobs for block in job.blocks)
        return self.bytes_per_feature * sum(widths)

    def first_pass(self) -> tuple[Reader, list[Job], int]:
        """Reader of all features, loaded where they fit; a few jobs over them; bytes read."""
        everything = np.arange(self.source.n_features, dtype=np.int64)
        n_bytes = self.bytes_of(self.jobs(everything))
        reader = self.loaded()
        jobs = grouped(reader.jobs(everything))
        if reader.held is None:
            n_bytes += reader.bytes_of(jobs)
        return reader, jobs, n_bytes

    def checked(self, scaling: Scaling) -> Reader:
        """Reader that compares what it reads again with the first pass, which gave the scaling.

        What is kept apart since then needs no comparing, nor does what is in memory.
        """
        checksum, rows = scaling.checksum, self.rows
        if isinstance(self.source, RecutSource):
            return replace(self, source=self.source.checked(checksum, rows))
        if self.held is not None:
            return self
        return replace(self, source=ChecksummedSource.over(self.source, checksum, rows))

    def loaded(self) -> Reader:
        """Reader of all features, kept apart before any has left, if they fit `COMPACT_BYTES`."""
        return self.compacted(np.arange(self.source.n_features, dtype=np.int64))

    def compacted(self, features: Index) -> Reader:
        """Reader of `features` alone, from memory or scratch; as it is where nothing is gained.

        This reader's own scratch is removed once the features are elsewhere. A disk that is full
        is told of in a warning.
        """
        if self.held is not None and features.size == self.held.size:
            return self
        d, s = self.source.n_features, features.size
        for form in forms(self.n_samples, self.source.dtype):
            n_bytes = s * form.bytes_per_feature
            if not worth_compacting(s, d, n_bytes):
                continue
            if self.runtime.is_remote and self.source.in_memory:  # it is at hand: cut alike
                return replace(self, held=np.arange(d))
            place = where_to_keep(self, s, n_bytes)
            if place is Location.STORED and self._is_lazy:
                continue
            try:
                kept = self.execution.keep(self, features, form, place)
            except UnwritableError as error:
                warnings.warn(
                    f"Survivors cannot be written to scratch ({error}), so the run goes on with "
                    "what it read so far, which is slower. Make room there, or set TMPDIR to a "
                    "place with more (on a cluster, scratch= of its runtime).",
                    stacklevel=2,
                )
                kept = self.execution.keep(self, features, form, Location.STORED) or self
            if kept is not None:
                return kept
        return self

    @property
    def scratch_place(self) -> Path | None:
        """Where scratch may be written; None where it would gain nothing, or workers differ."""
        return None if self.source.in_memory or self._is_lazy else self.runtime.shared_folder

    @property
    def _is_lazy(self) -> bool:
        """Whether the source is itself computed on the cluster."""
        return self.runtime.is_remote and self.source.pieces(()) is not None

    def moved(
        self,
        source: AbstractSource,
        features: Index,
        scratch: AbstractScratch | None = None,
        **changes: Any,
    ) -> Reader:
        """Reader of features that are kept in `source` now; this one's own scratch is removed."""
        self.close()
        return replace(self, source=source, held=features, rows=None, scratch=scratch, **changes)

    def packs(self, features: Index, form: Form) -> bool:
        """Whether values can be kept in this form, where it matters: it takes a pass."""
        d, s = self.source.n_features, features.size
        if not form.packed or worth_compacting(s, d, s * self.bytes_per_feature):
            return True  # they are kept as they are, if not packed: the same cut
        return fits(around(self.map(Extremes(), self.jobs(features))))

    def recut(self, features: Index) -> Reader:
        """Reader of features where they are, in the jobs in which they would be read elsewhere."""
        at, source = self._places(features), self.source
        if isinstance(source, RecutSource):
            return replace(self, source=source.some(at), held=features)
        return replace(self, source=RecutSource(source, at, self._stored_width()), held=features)

    def writing(self, features: Index, form: Form) -> tuple[list[Job], int]:
        """Jobs that write features to scratch, and the chunk they write it in."""
        at = self._places(features)
        chunk = chunk_width(self._width(at.size), form)
        most = JOBS_PER_THREAD * self.runtime.n_workers
        return writing_jobs(list(self._stored(at)), at, chunk, most), chunk


def positions(some: Index, among: Index) -> Index:
    """Where `some` of the features `among` are, both ascending; by a table where that is sooner."""
    if some.size == among.size:
        return np.arange(some.size)
    if min(some.size, among.size) * 8 < among[-1]:
        return np.searchsorted(among, some)
    table = np.empty(among[-1] + 1, dtype=np.int64)
    table[among] = np.arange(among.size)
    return np.asarray(table[some])


def grouped(jobs: Sequence[Job], worth_many: int = WORTH_MANY) -> list[Job]:
    """The same jobs in a few, consecutive ones together, for results that are large.

    More than `FEW_PARTIALS` are made where each has `worth_many` features: results travel.
    """
    n_features = sum(columns.local.size for job in jobs for columns in job.payload)
    few = min(FEW_PARTIALS, n_features // WORTH_FEW)
    n = max(few, min(MANY_PARTIALS, n_features // worth_many)) // 2 * 2
    return merged(jobs, max(1, n))

"""How what a reader is asked for is done: passes run by its runtime, survivors kept in their place.

A plan puts an execution of its own in the place of this one, which counts and does nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from dhsic._typing import Array, Index
from dhsic.passes.scratch import (
    LocalScratch,
    ScratchSource,
    SharedScratch,
    UnwritableError,
    Write,
)
from dhsic.passes.survivors import Form, HeldSource, Span, around
from dhsic.passes.task import AbstractPass, AbstractSum, Tile, run
from dhsic.runtime.base import Job
from dhsic.runtime.threads import Threads, usable_cores

if TYPE_CHECKING:
    from dhsic.passes.reader import Reader

#: Jobs of a pass for each thread of a cluster, where results are put one after the other.
JOBS_PER_THREAD = 4
#: Bytes of survivors, as they are kept, that a cluster may leave to the process that asks.
HOME_BYTES = 128 << 20
#: Flops of an exact round for each thread here that take no longer than a cluster takes to answer.
HOME_FLOPS = 2e9


class Location(Enum):
    """Where survivors are kept."""

    MEMORY, HOME, SCRATCH, STORED = "memory", "memory of this process", "scratch", "the store"


def where_to_keep(reader: Reader, n_features: int, n_bytes: int) -> Location:
    """Where so many survivors of the reader belong, which take so many bytes."""
    runtime = reader.runtime
    if not runtime.is_remote and n_bytes <= reader.room:
        return Location.MEMORY
    if runtime.is_remote and _belong_home(reader, n_features, n_bytes):
        return Location.HOME
    return Location.STORED if reader.scratch_place is None else Location.SCRATCH


def _belong_home(reader: Reader, n_features: int, n_bytes: int) -> bool:
    """Whether so few features are scored sooner here, or as soon, as by the cluster."""
    if reader.device is not None:  # the workers have it
        return False
    n_here = usable_cores()
    quick = 2.0 * reader.n_samples**2 * n_features <= HOME_FLOPS * n_here
    return n_bytes <= HOME_BYTES and (quick or n_here >= reader.runtime.n_workers)


class AbstractExecution(ABC):
    """How what a reader is asked for is done: in truth, or by a plan, which counts it."""

    @abstractmethod
    def results(
        self, reader: Reader, a_pass: AbstractPass, jobs: Sequence[Job], *, divisible: bool
    ) -> Iterator[Any]:
        """Results of the pass over the jobs, in order.

        Where they are `divisible` they are put one after the other, whatever each of them is over.
        """

    @abstractmethod
    def summed(self, reader: Reader, a_pass: AbstractSum, jobs: Sequence[Job]) -> Any:
        """Results added up, in the order of jobs."""

    @abstractmethod
    def keep(self, reader: Reader, features: Index, form: Form, place: Location) -> Reader | None:
        """Reader of `features` in this form, there; None where they do not pack.

        UnwritableError says that scratch takes no more.
        """


class Execution(AbstractExecution):
    """Through the runtime of the reader; a failure ends its scratch too."""

    def results(
        self, reader: Reader, a_pass: AbstractPass, jobs: Sequence[Job], *, divisible: bool
    ) -> Iterator[Any]:
        runtime = reader.runtime
        if divisible and runtime.is_remote:  # each job takes a cluster milliseconds
            jobs = merged(jobs, JOBS_PER_THREAD * runtime.n_workers)
        way = runtime.joined if divisible else runtime.map
        try:
            yield from way(run, reader.source, jobs, (a_pass, reader.rows))
        except GeneratorExit:
            raise
        except BaseException:
            reader.close()
            raise

    def summed(self, reader: Reader, a_pass: AbstractSum, jobs: Sequence[Job]) -> Any:
        total = a_pass.zero(reader.n_samples)
        for part in self.results(reader, a_pass, jobs, divisible=False):
            a_pass.add(total, part)
        return total

    def keep(self, reader: Reader, features: Index, form: Form, place: Location) -> Reader | None:
        if place is Location.STORED:
            return reader.recut(features) if reader.packs(features, form) else None
        if place is Location.SCRATCH:
            return self._in_scratch(reader, features, form)
        gather = self._at_home if place is Location.HOME else self._in_memory
        kept, found = gather(reader, features, form)
        if found is None:
            return None
        source = HeldSource(kept, found, reader.source.missing_code)
        if place is Location.HOME:
            return reader.moved(source, features, runtime=Threads(), is_home=True)
        return reader.moved(source, features)

    def _in_memory(self, reader: Reader, features: Index, form: Form) -> tuple[Array, Form | None]:
        """What is kept of the features, and in which form, once threads here have read them."""
        kept = np.empty((features.size, form.length), dtype=form.kept_dtype)
        jobs = reader.jobs(features)
        starts = np.cumsum([0, *(job.payload[0].local.size for job in jobs)])

        def fill(place: tuple[int, Job]) -> Span:
            start, job = place
            part, span = form.encode(run(reader.source, job, (Gather(), reader.rows)))
            kept[start : start + len(part)] = part
            return span

        return kept, form.covering(reader.runtime.each(fill, zip(starts, jobs, strict=False)))

    def _at_home(self, reader: Reader, features: Index, form: Form) -> tuple[Array, Form | None]:
        """The same, once a cluster has read them."""
        parts = [form.encode(raw) for raw in reader.joined(Gather(), reader.jobs(features))]
        return np.concatenate([part for part, _ in parts]), form.covering(s for _, s in parts)

    def _in_scratch(self, reader: Reader, features: Index, form: Form) -> Reader | None:
        place, source = reader.scratch_place, reader.source
        assert place is not None, "scratch has a place"
        jobs, chunk = reader.writing(features, form)
        try:
            scratch = SharedScratch(place) if reader.runtime.is_remote else LocalScratch(place)
        except OSError as error:
            raise UnwritableError(str(error)) from error
        try:
            asked = Write(scratch, chunk, form), reader.rows
            found = form.covering(reader.runtime.map(run, source, jobs, asked))
        except BaseException:
            scratch.close()
            raise
        if found is None:
            scratch.close()
            return None
        missing, room = source.missing_code, reader.room
        kept = ScratchSource(scratch, features.size, chunk, found, missing, room)
        return reader.moved(kept, features, scratch=scratch)


@dataclass(frozen=True, slots=True)
class Gather(AbstractPass):
    """Stored values, (c, m)."""

    def over(self, blocks: Iterator[Tile], m: int) -> Array:
        parts = [block.raw for block in blocks]
        return np.concatenate(parts) if len(parts) > 1 else parts[0]


@dataclass(frozen=True, slots=True)
class Extremes(AbstractPass):
    """Least and greatest of the stored values."""

    def over(self, blocks: Iterator[Tile], m: int) -> Span:
        return around((int(b.raw.min()), int(b.raw.max())) for b in blocks if b.raw.size)


def merged(jobs: Sequence[Job], n: int) -> list[Job]:
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

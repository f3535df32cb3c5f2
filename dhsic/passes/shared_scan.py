"""Shared passes: several runs over one reading of the data.

Runs over the same data, for example one per target or bandwidth, request the same blocks at about
the same time. Each run is a thread, independent of the others. Its runtime is a `RunProxy`, which
submits requests to a `ScanCoordinator` and waits. When all active runs wait, passes over the same
blocks are merged into one, which reads each block once (`run_together`); other requests are
executed one by one. The results of a run are bit for bit the same as if it ran alone: it has its
own pass over its own features in the same jobs, and results are added along the same tree.
"""

from __future__ import annotations

import pickle
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextvars import copy_context
from copy import deepcopy
from dataclasses import KW_ONLY, dataclass, field, fields
from functools import partial, reduce
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from dhsic._typing import Index
from dhsic.memory import WorkerMemory
from dhsic.passes import AbstractPass, Columns, Tile, run
from dhsic.runtime.base import AbstractRuntime, Job, Jobs, Task
from dhsic.runtime.tree_reduce import Add
from dhsic.sources import AbstractSource
from dhsic.sources.blocks import Block
from dhsic.sources.scaling import Scaling
from dhsic.sources.views import ChecksummedSource, ScaledSource

T = TypeVar("T")

#: Maximum number of values of a job, for merging passes: they are held until all have used them.
HELD_VALUES = 1 << 25


class CancelledError(Exception):
    """Error that ends a waiting run, because another run of the shared scan has failed."""


@dataclass(eq=False)
class PendingRequest(ABC):
    """Request of one run, for example a pass over the data.

    It also stores the results.
    """

    found: deque[Any] = field(default_factory=deque, kw_only=True)
    error: BaseException | None = field(default=None, kw_only=True)
    is_done: bool = field(default=False, kw_only=True)

    @abstractmethod
    def begin(self, runtime: AbstractRuntime) -> Iterator[Any]:
        """Execute the request on a runtime, and yield its results."""

    def joins(self, other: PendingRequest) -> bool:
        """Whether both requests can be merged into one."""
        del other
        return False


@dataclass(eq=False)
class PendingCall(PendingRequest):
    """Request to call a method of the runtime.

    Its only result is the return value.
    """

    call: Callable[[AbstractRuntime], Any]

    def begin(self, runtime: AbstractRuntime) -> Iterator[Any]:
        yield self.call(runtime)


@dataclass(eq=False)
class PendingPass(PendingRequest):
    """Request for the results of a pass over jobs.

    If `add` is given, the result is their sum.
    """

    task: Task
    source: AbstractSource
    jobs: Jobs
    state: Any
    _: KW_ONLY
    divisible: bool = False
    add: Add | None = None

    def begin(self, runtime: AbstractRuntime) -> Iterator[Any]:
        arguments = self.task, self.source, self.jobs, self.state
        if self.add is not None:
            return iter([runtime.sum_results(*arguments, self.add)])
        return runtime.map_blocks(*arguments) if self.divisible else runtime.map(*arguments)

    def joins(self, other: PendingRequest) -> bool:
        """Whether both requests are passes that can be merged.

        Their jobs must read the same blocks, for the same samples.
        """
        if not (isinstance(other, PendingPass) and self.task is other.task is run):
            return False
        are_sums = [self.add is not None, other.add is not None]
        if self.divisible != other.divisible or len(set(are_sums)) > 1:
            return False
        if len(self.jobs) != len(other.jobs):
            return False
        if not _is_same(self.source, other.source):
            return False
        if not same_samples(self.state[1], other.state[1]):
            return False
        m, pairs = self.source.n_samples, zip(self.jobs, other.jobs, strict=True)
        return all(
            one.blocks == two.blocks and one.samples is two.samples is None and fits(one, m)
            for one, two in pairs
        )


def distinct(asked: Sequence[PendingPass]) -> list[list[PendingPass]]:
    """Group requests with equal passes.

    All requests read the same blocks. In a group they also have the same features.
    """
    groups: list[tuple[bytes | None, list[PendingPass]]] = []
    for one in asked:
        key = pickle.dumps(one.state[0]) if one.state[0].is_common else None
        for known_key, members in groups:
            if key is not None and known_key == key and _is_alike(members[0].jobs, one.jobs):
                members.append(one)
                break
        else:
            groups.append((key, [one]))
    return [group for _, group in groups]


def _is_alike(jobs: Jobs, others: Jobs) -> bool:
    """Whether jobs over the same blocks use the same features, with the same scaling."""
    return all(
        np.array_equal(one.local, two.local)
        and one.tags is two.tags is None
        and one.is_known == two.is_known
        and _are_scaled_alike(one.scaling, two.scaling)
        for job, other in zip(jobs, others, strict=True)
        for one, two in zip(job.payload, other.payload, strict=True)
    )


def _are_scaled_alike(one: Scaling | None, other: Scaling | None) -> bool:
    """Whether features have the same scaling, including weights."""
    if one is None or other is None:
        return one is other
    names = [item.name for item in fields(one)]
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


def together(asked: Sequence[PendingPass]) -> PendingPass:
    """Merge passes that read the same blocks.

    Results of the merged pass are tuples with one entry per pass.
    """
    first = asked[0]
    jobs = [
        Job(same_jobs[0].blocks, tuple(zip(*(job.payload for job in same_jobs), strict=True)))
        for same_jobs in zip(*(one.jobs for one in asked), strict=True)
    ]
    state = tuple(one.state for one in asked)
    adds = [one.add for one in asked if one.add is not None]
    add = partial(add_together, adds) if adds else None
    return PendingPass(run_together, first.source, jobs, state, divisible=first.divisible, add=add)


def fits(job: Job, m: int) -> bool:
    """Whether the values of all blocks of a job fit in memory at once."""
    n_features = sum(int(columns.local.size) for columns in job.payload)
    return n_features * m <= HELD_VALUES


def same_samples(one: Index | None, other: Index | None) -> bool:
    """Whether both runs use the same samples."""
    if one is None or other is None:
        return one is other
    return bool(np.array_equal(one, other))


def _is_same(one: AbstractSource, other: AbstractSource) -> bool:
    """Whether two sources read the same values and scale them alike.

    Every run has its own view of the source, with the scaling and checksums measured in its first
    pass.
    """
    if isinstance(one, ScaledSource) and isinstance(other, ScaledSource):
        if not _are_scaled_alike(one.scaling, other.scaling):
            return False
        one, other = one.base, other.base
    if isinstance(one, ChecksummedSource) and isinstance(other, ChecksummedSource):
        one, other = one.base, other.base
    return one is other


def run_together(
    source: AbstractSource, job: Job, asked: tuple[tuple[AbstractPass, Index | None], ...]
) -> tuple[Any, ...]:
    """Run several passes over the blocks of a job, reading each block once.

    See `dhsic.passes.run`. For every block, the payload of the job has the `Columns` of each pass.
    `asked` are the passes, each with the sample indices of its run.
    """
    rows = asked[0][1]
    m = source.n_samples if rows is None else len(rows)
    blocks = [
        _tiles(source, block, columns, rows)
        for block, columns in zip(job.blocks, job.payload, strict=True)
    ]
    passes, each = [a_pass for a_pass, _ in asked], list(zip(*blocks, strict=True))
    kind = type(passes[0])
    are_alike = all(type(other) is kind for other in passes)
    if are_alike and all(a is b for tiles in each for a, b in zip(each[0], tiles, strict=True)):
        return kind.over_all(passes, each[0], m)
    both = zip(passes, each, strict=True)
    return tuple(a_pass.over(iter(tiles), m) for a_pass, tiles in both)


def _tiles(
    source: AbstractSource, block: Block, columns: Sequence[Columns], rows: Index | None
) -> list[Tile]:
    """Read a block once, and return a tile for each pass, with the features that the pass needs."""
    used = columns[0].local
    are_same = all(np.array_equal(c.local, used) for c in columns)
    if not are_same:
        used = reduce(np.union1d, [c.local for c in columns])
    raw = source.read_columns(block, used, rows)
    is_known = columns[0].is_known
    alike = all(c.scaling is None is c.tags and c.is_known == is_known for c in columns)
    if are_same and alike:
        scaling = columns[0].scaling_in(source, block)
        imputed = source.imputed_features(block, used)
        return [Tile(raw, source.missing_code, scaling, imputed=imputed)] * len(columns)
    return [
        Tile(
            raw if are_same else raw[np.searchsorted(used, c.local)],
            source.missing_code,
            c.scaling_in(source, block),
            c.tags,
            imputed=source.imputed_features(block, c.local),
        )
        for c in columns
    ]


def add_together(adds: Sequence[Add], left: Sequence[Any], right: Sequence[Any]) -> tuple[Any, ...]:
    """Add two results of merged passes, entry by entry.

    `adds` contains one function per pass, which adds two results of this pass.
    """
    return tuple(add(a, b) for add, a, b in zip(adds, left, right, strict=True))


class ScanCoordinator:
    """Coordinator of several runs that collects, merges and executes their requests."""

    def __init__(self, runtime: AbstractRuntime) -> None:
        self.runtime = runtime
        self._changed = threading.Condition()
        self._n_at_work = 0
        self._asked: list[PendingRequest] = []
        self._error: BaseException | None = None
        # Limits the number of runs that compute at the same time to the number of cores.
        self._cores = threading.Semaphore(runtime.n_here)

    def run_all(self, runs: Sequence[Callable[[AbstractRuntime], T]]) -> list[T]:
        """Execute the runs, and return their results in order.

        An error in one run ends all runs.
        """
        results: list[Any] = [None] * len(runs)
        works = [
            partial(copy_context().run, self._work, run, i, results) for i, run in enumerate(runs)
        ]
        threads = [threading.Thread(target=work, name="dhsic-run", daemon=True) for work in works]
        self._n_at_work = len(threads)
        for thread in threads:
            thread.start()
        try:
            while requests := self._pending_requests():
                for group in grouped(requests):
                    self._answer(group)
                self._go_on(requests)
        except BaseException as error:
            self._fail(error)
            raise
        finally:
            for thread in threads:
                thread.join()
        if self._error is not None:
            raise self._error
        return results

    def submit(self, asked: PendingRequest) -> deque[Any]:
        """Submit a request of a run, wait while other runs work, and return its results."""
        self._cores.release()
        try:
            with self._changed:
                self._asked.append(asked)
                self._n_at_work -= 1
                self._changed.notify_all()
                self._changed.wait_for(lambda: asked.is_done or self._error is not None)
        finally:
            self._cores.acquire()
        if asked.error is not None:
            raise asked.error
        if not asked.is_done:
            raise CancelledError
        return asked.found

    def _work(self, run: Callable[[AbstractRuntime], Any], i: int, found: list[Any]) -> None:
        with self._cores:
            try:
                found[i] = run(RunProxy(self))
            except CancelledError:
                pass
            except BaseException as error:  # `run_all` raises it
                self._fail(error)
        with self._changed:
            self._n_at_work -= 1
            self._changed.notify_all()

    def _pending_requests(self) -> list[PendingRequest]:
        """Wait until all runs wait, and return their requests.

        The list is empty if all runs have ended, or if one has failed.
        """
        with self._changed:
            self._changed.wait_for(lambda: not self._n_at_work or self._error is not None)
            requests, self._asked = self._asked, []
            return [] if self._error is not None else requests

    def _answer(self, asked: list[PendingRequest]) -> None:
        """Execute requests that can be merged.

        An error is passed to every run that made one of the requests.
        """
        groups: Sequence[Sequence[PendingRequest]] = [asked]
        if len(asked) > 1:
            groups = distinct([one for one in asked if isinstance(one, PendingPass)])
        firsts = [group[0] for group in groups]
        passes = [one for one in firsts if isinstance(one, PendingPass)]
        what = firsts[0] if len(firsts) == 1 else together(passes)
        try:
            for result in what.begin(self.runtime):
                parts = [result] if len(firsts) == 1 else result
                for group, part in zip(groups, parts, strict=True):
                    group[0].found.append(part)
                    for other in group[1:]:
                        other.found.append(deepcopy(part))
        except Exception as error:  # every run raises it
            for one in asked:
                one.error = error

    def _go_on(self, asked: list[PendingRequest]) -> None:
        with self._changed:
            self._n_at_work += len(asked)
            for one in asked:
                one.is_done = True
            self._changed.notify_all()

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            self._error = self._error or error
            self._changed.notify_all()


def grouped(asked: Sequence[PendingRequest]) -> list[list[PendingRequest]]:
    """Group requests that can be merged."""
    groups: list[list[PendingRequest]] = []
    for one in asked:
        group = next((members for members in groups if one.joins(members[0])), None)
        if group is None:
            groups.append([one])
        else:
            group.append(one)
    return groups


class RunProxy(AbstractRuntime):
    """Runtime of one run, which forwards its requests to the coordinator of all runs."""

    def __init__(self, coordinator: ScanCoordinator) -> None:
        self._coordinator, self._base = coordinator, coordinator.runtime
        self.name, self.n_workers = self._base.name, self._base.n_workers
        self.is_remote = self._base.is_remote

    @property
    def n_here(self) -> int:
        return self._base.n_here

    def tightest(self) -> WorkerMemory | None:
        return self._base.tightest()

    @property
    def shared_folder(self) -> Path | None:
        return self._base.shared_folder

    def results(self, *asked: Any, divisible: bool) -> Generator[Any]:
        results = self._coordinator.submit(PendingPass(*asked, divisible=divisible))
        while results:  # memory of a result is free as soon as the caller has used it
            yield results.popleft()

    def sum_results(
        self, task: Task, source: AbstractSource, jobs: Jobs, state: Any, add: Add
    ) -> Any:
        request = PendingPass(task, source, jobs, state, add=add)
        return self._coordinator.submit(request).popleft()

    def update(self, *asked: Any) -> Any:
        call = PendingCall(lambda runtime: runtime.update(*asked))
        return self._coordinator.submit(call).popleft()

    def query(self, *asked: Any) -> Iterator[Any]:
        call = PendingCall(lambda runtime: list(runtime.query(*asked)))
        return iter(self._coordinator.submit(call).popleft())

    def gather(self, *asked: Any) -> Any:
        call = PendingCall(lambda runtime: runtime.gather(*asked))
        return self._coordinator.submit(call).popleft()

    def each(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        return self._base.each(function, items)

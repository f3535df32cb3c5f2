"""Functions that run on the workers of a cluster; scheduler and workers can import them.

A worker runs batches of the jobs of passes, and steps and queries on values that it stores, see
`dhsic.runtime.base`. The values of neighbouring sites are one Dask future, together with the
partial sums of their parts (nodes of the tree in `dhsic.runtime.tree_reduce`). Only these partial
sums are ever fetched.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from distributed import get_worker

from dhsic.errors import ClusterError
from dhsic.runtime.base import AbstractStep, Ask, Job, Site, Task
from dhsic.runtime.broadcast import Parcel, receive, shelved
from dhsic.runtime.threads import Threads, single_blas_thread
from dhsic.runtime.tree_reduce import Add, Place, Tree
from dhsic.sources import AbstractSource

PARTS = 32  # maximum number of parts into which a share that killed its workers is split


#: Parameters of glibc's allocator, and the free memory in bytes that a process may keep.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, KEPT_BYTES = -1, -3, 64 << 20

#: Values of neighbouring sites, and partial sums (tree nodes) of their parts.
SiteValues = tuple[list[Any], dict[Place, Any]]
#: Attribute of a task's error: address of the worker that raised it.
WHERE = "dhsic_worker"


@cache  # called in every task
def versions() -> dict[str, str]:
    """Return the versions of the packages that determine the last bits of scores."""
    return {"dhsic": version("dhsic"), "numpy": np.__version__}


def other_versions(who: str, theirs: dict[str, str], ours: dict[str, str]) -> str:
    """Return the error text for a worker `who` with other package versions than the client."""
    differ = "; ".join(f"{k} {theirs[k]}, client {ours[k]}" for k in ours if theirs[k] != ours[k])
    return (
        f"{who} has different versions: {differ}. Scores are rounded differently by each version. "
        "Install the same versions on client, scheduler and workers."
    )


def greet(path: str) -> tuple[dict[str, str], str | None]:
    """Return the versions of this worker, and the text of the file `path` (None if unreadable)."""
    try:
        return versions(), Path(path).read_text()
    except OSError:
        return versions(), None


def hold(data: bytes) -> bytes:
    """Return `data`; Dask can repeat this task if its result is lost."""
    return data


@lru_cache(maxsize=1)
def keep_pages() -> None:
    """Let glibc reuse the memory pages of temporary arrays on a worker started by a nanny.

    The nanny sets ``MALLOC_TRIM_THRESHOLD_``. With this setting, glibc maps and unmaps new pages
    for every array above 128 kB, which takes a third of the time of scoring.
    """
    if "MALLOC_TRIM_THRESHOLD_" not in os.environ:
        return
    with contextlib.suppress(OSError, AttributeError, TypeError):  # no glibc
        libc = ctypes.CDLL(None)
        for parameter, size in ((M_MMAP_THRESHOLD, KEPT_BYTES), (M_TRIM_THRESHOLD, KEPT_BYTES)):
            libc.mallopt(parameter, size)


@dataclass(frozen=True, slots=True)
class Share:
    """Neighbouring jobs of a pass that a worker runs as one task."""

    task: Task
    jobs: tuple[Job, ...]
    first: int  # number of the first job
    n_all: int  # number of jobs of the pass
    add: Add | None = None  # adds two results along a `Tree`; None: results are not added
    is_alone: bool = False  # whether jobs run one after the other, to save memory

    @property
    def size(self) -> int:
        """Number of jobs, used as the relative duration of the task."""
        return len(self.jobs)

    def done(self, source: AbstractSource, state: Any, threads: Threads) -> Any:
        """Run the jobs; return their results in order, or their partial sums (tree nodes)."""
        with closing(threads.map(self.task, source, self.jobs, state)) as terms:
            return [*terms] if self.add is None else nodes(self.add, terms, self.first, self.n_all)

    def parts(self, *, divisible: bool) -> list[Share]:
        """Split the jobs of this task into groups that run one after the other, to save memory.

        A group consists of a few jobs. If there is only one job, a group is half of its blocks. If
        nothing can be split, the only group is the task itself.
        """
        alone, jobs = replace(self, is_alone=True), self.jobs
        if len(jobs) > 1:
            height = -(-len(jobs) // PARTS)
            starts = range(0, len(jobs), height)
            return [replace(alone, jobs=jobs[a : a + height], first=self.first + a) for a in starts]
        blocks, payload = jobs[0].blocks, jobs[0].payload
        n = len(blocks)
        if not divisible or n < 2 or not isinstance(payload, tuple) or len(payload) != n:
            return [alone]
        halves = slice(n // 2), slice(n // 2, n)
        return [replace(alone, jobs=(Job(blocks[half], payload[half]),)) for half in halves]


@dataclass(frozen=True, slots=True)
class StepTask:
    """Update of neighbouring stored values, which a worker runs as one task.

    These values are one Dask future.
    """

    step: AbstractStep
    sites: tuple[Site, ...]
    first: int  # number of the first site
    n_all: int  # number of all sites
    is_alone: bool = False

    @property
    def jobs(self) -> tuple[Job, ...]:
        return tuple(job for site in self.sites for job in site.jobs)

    @property
    def size(self) -> int:
        # Each site counts twice, because several threads work on it.
        return len(self.jobs) + 2 * len(self.sites)

    def parts(self, *, divisible: bool) -> list[StepTask]:
        return [replace(self, is_alone=True)]

    def answer(self, values: Sequence[Any], state: Any, threads: Threads) -> dict[Place, Any]:
        """Return partial sums of the terms of the stored values in a sum over all values.

        It can only be used for steps that neither read data nor change values.
        """
        source: Any = None
        return self.done(values, source, state, threads)[1]

    def done(
        self, values: Sequence[Any], source: AbstractSource, state: Any, threads: Threads
    ) -> SiteValues:
        """Apply the update; return the new stored values, and partial sums of their terms.

        The partial sums are nodes of the tree in `dhsic.runtime.tree_reduce`.
        """
        new_values, parts = threads.updated_values(values, self.step, source, self.sites, state)
        return new_values, nodes(self.step.join, parts, self.first, self.n_all)


@dataclass(frozen=True, slots=True)
class Query:
    """Query of neighbouring values stored on a worker; `told` contains one argument per value."""

    ask: Ask
    told: tuple[Any, ...]
    first: int
    is_alone: bool = False
    jobs: tuple[Job, ...] = ()

    @property
    def size(self) -> int:
        return len(self.told)

    def parts(self, *, divisible: bool) -> list[Query]:
        return [replace(self, is_alone=True)]

    def answer(self, values: Sequence[Any], state: Any, threads: Threads) -> list[Any]:
        """Return the answer of the query for each stored value."""
        return list(threads.answers(values, self.ask, self.told, state))


#: Work of one task on a worker.
SharedOut = Share | StepTask | Query


class NotWantedError(Exception):
    """Error that ends a task which was cancelled."""


def nodes(add: Add, results: Iterable[Any], first: int, n_all: int) -> dict[Place, Any]:
    """Add the results of neighbouring jobs along a `Tree`.

    Returns the partial sums that remain. `first` is the number of the first of these jobs, and
    `n_all` the number of all jobs.
    """
    tree = Tree(add, n_all)
    for number, result in enumerate(results, first):
        tree.put(result, (0, number))
    return tree.nodes


#: Thread pool of each worker in this process, and a lock held by the share that uses the pool.
_threads: WeakKeyDictionary[Any, tuple[Threads, threading.Lock]] = WeakKeyDictionary()


@contextlib.contextmanager
def threads_of(worker: Any, share: SharedOut) -> Iterator[Threads]:
    """Yield the threads that run a task on this worker.

    A large task uses all threads of the worker, one task at a time; a task of size 1, or one that
    must save memory, uses a single thread. A cancelled task ends between two results.
    """
    task = worker.state.tasks[worker.get_current_task()]

    def look() -> None:
        if task.state == "cancelled":
            raise NotWantedError

    alone = Threads(1)
    if share.size == 1 or worker.state.nthreads == 1:
        with alone.polling_interrupt(look):
            yield alone
        return
    name = f"dhsic-{worker.name}"
    own_threads = Threads(worker.state.nthreads, name), threading.Lock()
    every, turn = _threads.setdefault(worker, own_threads)
    threads = alone if share.is_alone else every
    with turn, threads.polling_interrupt(look):
        yield threads


@contextlib.contextmanager
def at_work(share: SharedOut, expected: dict[str, str]) -> Iterator[Threads]:
    """Check the versions of packages, and yield the threads that run a task.

    If an error is raised, the address of this worker is attached to it, so that the client can try
    another worker.
    """
    keep_pages()
    worker = get_worker()
    try:
        if versions() != expected:  # this worker joined after the check at the start
            raise ClusterError(  # noqa: TRY301  # the address is attached to this error, too
                other_versions("A worker that joined the run", versions(), expected)
            )
        with single_blas_thread(), threads_of(worker, share) as threads:
            yield threads
    except Exception as error:
        with contextlib.suppress(AttributeError):  # a class with slots
            setattr(error, WHERE, worker.address)
        raise


def run(
    share: Share,
    expected: dict[str, str],
    source: Parcel,
    state: Parcel,
    shelf: tuple[str, str] | None,
    source_bytes: bytes | None,
    state_bytes: bytes | None,
    *pieces: Any,
) -> Any:
    """Run a share: the jobs of one task.

    `pieces` contains the blocks of a source that is itself a Dask graph. A large result is written
    to a file and returned as a parcel (its path), because it would be copied four times if it were
    sent through the scheduler. `shelf` is the folder of this file, and a label for its name. It is
    None if the client cannot read files of workers.
    """
    with at_work(share, expected) as threads:
        opened = receive(source, source_bytes)
        if pieces:
            blocks = tuple(block for job in share.jobs for block in job.blocks)
            opened = opened.with_pieces(blocks, pieces)
        result = share.done(opened, receive(state, state_bytes), threads)
    return shelve_result(shelf, result)


def shelve_result(shelf: tuple[str, str] | None, result: Any) -> Any:
    """Write a large result to a file and return a reference to it; else return the result itself.

    The reference is a `Parcel`. `shelf` is the folder of the file, and a label for its name. If it
    is None, no file is written.
    """
    return result if shelf is None else shelved(result, Path(shelf[0]), shelf[1])


def join(add: Add, n_all: int, shelf: tuple[str, str] | None, *parts: dict[Place, Any]) -> Any:
    """Add partial sums (tree nodes) of neighbouring tasks; return the sums that remain.

    `n_all` is the number of jobs of the pass. `shelf` is as in `run`.
    """
    keep_pages()
    tree = Tree(add, n_all)
    for nodes in parts:
        tree.take(nodes)
    return shelve_result(shelf, tree.nodes)


def renew(
    turns: tuple[StepTask, ...],
    expected: dict[str, str],
    parcels: tuple[tuple[Parcel, Parcel], ...],
    before: SiteValues | None,
    *held: bytes | None,
) -> SiteValues:
    """Apply updates, in order, to the same stored values; each has its own source and state.

    `before` are the values before the last update. If they still exist, `turns` contains only that
    update. If they are lost (None), it contains all updates from the first one on. `held` contains
    the bytes of the sources and states if they were sent as results of tasks.
    """
    values, result = [None] * len(turns[0].sites), None
    if before is not None:
        values = before[0]
    for i, (turn, (source, state)) in enumerate(zip(turns, parcels, strict=True)):
        with at_work(turn, expected) as threads:
            opened, opened_state = receive(source, held[2 * i]), receive(state, held[2 * i + 1])
            result = turn.done(values, opened, opened_state, threads)
            values = result[0]
    assert result is not None, "there is a step"
    return result


def told_of(keys: Sequence[str], shelf: tuple[str, str] | None, dask_worker: Any) -> dict[str, Any]:
    """Return the partial sums that tasks with these keys computed on this worker, by key.

    Keys of results that this worker does not have are omitted. `shelf` is as in `run`.
    """
    results = dask_worker.data
    return {key: shelve_result(shelf, results[key][1]) for key in keys if key in results}


def answer(
    query: Query | StepTask,
    expected: dict[str, str],
    state: Parcel,
    shelf: tuple[str, str] | None,
    kept: SiteValues,
    state_bytes: bytes | None,
) -> Any:
    """Run a query on stored values.

    The values are in `kept`, the result of a task. `shelf` is as in `run`.
    """
    with at_work(query, expected) as threads:
        opened_state = receive(state, state_bytes)
        answers = query.answer(kept[0], opened_state, threads)
    return shelve_result(shelf, answers)

"""What runs on a worker of a cluster. Plain functions, importable by scheduler and workers.

A worker does shares of passes, and of what is done with values that live there, see
`dhsic.runtime.base`: those of neighbouring sites are one result of Dask, with the nodes of their
parts; who asks is told of these alone.
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
from dhsic.runtime.parcels import Parcel, receive, shelved
from dhsic.runtime.threads import Threads, single_blas_thread
from dhsic.runtime.tree import Add, Place, Tree
from dhsic.sources import AbstractSource

PARTS = 32  # of a share that workers die of: it costs four of them to find the job


#: Parameters of glibc's allocator, and what a process may keep for later.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, KEPT_BYTES = -1, -3, 64 << 20

#: Values of neighbouring sites, and nodes of their parts.
SiteValues = tuple[list[Any], dict[Place, Any]]
#: Attribute of an error of a task: address of the worker on which it was raised.
WHERE = "dhsic_worker"


@cache  # of every task
def versions() -> dict[str, str]:
    """Return the versions on which the last bit of a score depends."""
    return {"dhsic": version("dhsic"), "numpy": np.__version__}


def other_versions(who: str, theirs: dict[str, str], ours: dict[str, str]) -> str:
    """Sentence of the error when a worker has not the versions of the client."""
    differ = "; ".join(f"{k} {theirs[k]}, client {ours[k]}" for k in ours if theirs[k] != ours[k])
    return (
        f"{who} has other versions: {differ}. Scores round differently between versions. "
        "Install the same versions on client, scheduler and workers."
    )


def greet(path: str) -> tuple[dict[str, str], str | None]:
    """Say which versions this worker has and what it reads in a file of the client."""
    try:
        return versions(), Path(path).read_text()
    except OSError:
        return versions(), None


def hold(data: bytes) -> bytes:
    """Keep `data` as a result: a task that can be run again."""
    return data


@lru_cache(maxsize=1)
def keep_pages() -> None:
    """Have a worker of a nanny keep pages of temporary arrays for the next ones.

    The nanny sets ``MALLOC_TRIM_THRESHOLD_``, and with it glibc gives every array above 128 kB new
    pages and takes them away again: a third of the time of scoring.
    """
    if "MALLOC_TRIM_THRESHOLD_" not in os.environ:
        return
    with contextlib.suppress(OSError, AttributeError, TypeError):  # no glibc
        libc = ctypes.CDLL(None)
        for parameter, size in ((M_MMAP_THRESHOLD, KEPT_BYTES), (M_TRIM_THRESHOLD, KEPT_BYTES)):
            libc.mallopt(parameter, size)


@dataclass(frozen=True, slots=True)
class Share:
    """Neighbouring jobs of a pass, that a worker does at once."""

    task: Task
    jobs: tuple[Job, ...]
    first: int  # number of the first of them
    n_all: int  # jobs of the pass
    add: Add | None = None  # adds two results, where they are to be, along a `Tree`
    is_alone: bool = False  # whether they are done one after the other, for memory's sake

    @property
    def size(self) -> int:
        """How long it takes, beside others."""
        return len(self.jobs)

    def done(self, source: AbstractSource, state: Any, threads: Threads) -> Any:
        """Results in the order of the jobs, or the nodes that they add up to."""
        with closing(threads.map(self.task, source, self.jobs, state)) as found:
            return [*found] if self.add is None else nodes(self.add, found, self.first, self.n_all)

    def parts(self, *, divisible: bool) -> list[Share]:
        """The share in parts, to be done alone: some jobs each, or half the blocks of one.

        The share itself where that cannot be.
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
class Turn:
    """A step at neighbouring sites, whose values stay together."""

    step: AbstractStep
    sites: tuple[Site, ...]
    first: int  # number of the first of them
    n_all: int  # of all that there are
    is_alone: bool = False

    @property
    def jobs(self) -> tuple[Job, ...]:
        return tuple(job for site in self.sites for job in site.jobs)

    @property
    def size(self) -> int:
        # A site has work for many threads.
        return len(self.jobs) + 2 * len(self.sites)

    def parts(self, *, divisible: bool) -> list[Turn]:
        return [replace(self, is_alone=True)]

    def answered(self, values: Sequence[Any], state: Any, threads: Threads) -> dict[Place, Any]:
        """Nodes of the parts of a step that leaves values as they are, and reads nothing."""
        source: Any = None
        return self.done(values, source, state, threads)[1]

    def done(
        self, values: Sequence[Any], source: AbstractSource, state: Any, threads: Threads
    ) -> SiteValues:
        """Values that follow from those before, and nodes of the parts."""
        made, parts = threads.renewed(values, self.step, source, self.sites, state)
        return made, nodes(self.step.join, parts, self.first, self.n_all)


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked of the values of neighbouring sites, and told of each."""

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

    def answered(self, values: Sequence[Any], state: Any, threads: Threads) -> list[Any]:
        """What each of the values answers."""
        return list(threads.answers(values, self.ask, self.told, state))


#: What is done at once on one worker: a part of a pass, or of what is done with values.
SharedOut = Share | Turn | Query


class NotWantedError(Exception):
    """Nobody waits for the task any more."""


def nodes(add: Add, results: Iterable[Any], first: int, n_all: int) -> dict[Place, Any]:
    """Nodes that neighbouring results add up to, out of so many."""
    tree = Tree(add, n_all)
    for number, result in enumerate(results, first):
        tree.put(result, (0, number))
    return tree.nodes


#: Threads of the workers in this process, and whose turn it is to use them.
_threads: WeakKeyDictionary[Any, tuple[Threads, threading.Lock]] = WeakKeyDictionary()


@contextlib.contextmanager
def threads_of(worker: Any, share: SharedOut) -> Iterator[Threads]:
    """Threads for a share: all of the worker, which does one at a time, or the task's own.

    A task that nobody waits for any more ends between two results.
    """
    task = worker.state.tasks[worker.get_current_task()]

    def look() -> None:
        if task.state == "cancelled":
            raise NotWantedError

    alone = Threads(1)
    if share.size == 1 or worker.state.nthreads == 1:
        with alone.heeding(look):
            yield alone
        return
    name = f"dhsic-{worker.name}"
    made = Threads(worker.state.nthreads, name), threading.Lock()
    every, turn = _threads.setdefault(worker, made)
    threads = alone if share.is_alone else every
    with turn, threads.heeding(look):
        yield threads


@contextlib.contextmanager
def at_work(share: SharedOut, expected: dict[str, str]) -> Iterator[Threads]:
    """Threads to do a share with, where versions are as expected.

    An error tells on which worker it was raised, so that another one can be tried.
    """
    keep_pages()
    worker = get_worker()
    try:
        if versions() != expected:  # this worker joined after the check at the start
            raise ClusterError(  # noqa: TRY301  # it was raised here, too
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
    """Do a share; `pieces` are the blocks of a source that is itself a graph on the cluster.

    A large result is left on the `shelf` (folder, label), if there is one that the client sees, and
    returned as a parcel: through the scheduler it would be copied four times.
    """
    with at_work(share, expected) as threads:
        opened = receive(source, source_bytes)
        if pieces:
            blocks = tuple(block for job in share.jobs for block in job.blocks)
            opened = opened.with_pieces(blocks, pieces)
        result = share.done(opened, receive(state, state_bytes), threads)
    return left(shelf, result)


def left(shelf: tuple[str, str] | None, result: Any) -> Any:
    """A result as it is left: on a shelf, if there is one."""
    return result if shelf is None else shelved(result, Path(shelf[0]), shelf[1])


def join(add: Add, n_all: int, shelf: tuple[str, str] | None, *parts: dict[Place, Any]) -> Any:
    """Add nodes of neighbouring shares, as far as they are neighbours; the shelf is as of `run`."""
    keep_pages()
    tree = Tree(add, n_all)
    for nodes in parts:
        tree.take(nodes)
    return left(shelf, tree.nodes)


def renew(
    turns: tuple[Turn, ...],
    expected: dict[str, str],
    parcels: tuple[tuple[Parcel, Parcel], ...],
    before: SiteValues | None,
    *held: bytes | None,
) -> SiteValues:
    """Steps one after the other at the same sites; each has a source and a state.

    A single one where the values `before` it are given, else all since they were begun.
    """
    values, found = [None] * len(turns[0].sites), None
    if before is not None:
        values = before[0]
    for i, (turn, (source, state)) in enumerate(zip(turns, parcels, strict=True)):
        with at_work(turn, expected) as threads:
            opened, asked = receive(source, held[2 * i]), receive(state, held[2 * i + 1])
            found = turn.done(values, opened, asked, threads)
            values = found[0]
    assert found is not None, "there is a step"
    return found


def told_of(keys: Sequence[str], shelf: tuple[str, str] | None, dask_worker: Any) -> dict[str, Any]:
    """Nodes of the parts of those results that this worker has."""
    kept = dask_worker.data
    return {key: left(shelf, kept[key][1]) for key in keys if key in kept}


def answer(
    query: Query | Turn,
    expected: dict[str, str],
    state: Parcel,
    shelf: tuple[str, str] | None,
    kept: SiteValues,
    state_bytes: bytes | None,
) -> Any:
    """Ask something of what is kept here."""
    with at_work(query, expected) as threads:
        known = receive(state, state_bytes)
        found = query.answered(kept[0], known, threads)
    return left(shelf, found)

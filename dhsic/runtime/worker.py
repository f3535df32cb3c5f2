"""What runs on a worker of a cluster. Plain functions, importable by scheduler and workers."""

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
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import numpy as np
from distributed import get_worker

from dhsic.errors import ClusterError
from dhsic.runtime.base import Job, Task
from dhsic.runtime.parcels import Parcel, receive, shelved
from dhsic.runtime.threads import Threads, single_blas_thread
from dhsic.runtime.tree import Add, Place, Tree
from dhsic.sources import AbstractSource

PARTS = 32  # of a share that workers die of: it costs four of them to find the job


#: Parameters of glibc's allocator, and what a process may keep for later.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, KEPT_BYTES = -1, -3, 64 << 20

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


class SharedOut(Protocol):
    """What is done at once on one worker: a part of a pass.

    Attributes
    ----------
    first, size : int
        Number of what comes first of it, and a measure of how long it takes, beside others.
    jobs : tuple of Job
        What is read for it.
    is_alone : bool
        Whether that is one after the other, for memory's sake.
    """

    @property
    def first(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def jobs(self) -> tuple[Job, ...]: ...
    @property
    def is_alone(self) -> bool: ...
    def parts(self, *, divisible: bool) -> Sequence[SharedOut]:
        """Parts of it, to be done alone: itself where that cannot be."""
        ...


@dataclass(frozen=True, slots=True)
class Share:
    """Neighbouring jobs of a pass, that a worker does at once.

    Attributes
    ----------
    first, n_all : int
        Number of the first of them, and how many jobs the pass has.
    add : callable, optional
        How two results are added where they are to be: along the tree of `dhsic.runtime.tree`.
    is_alone : bool
        Whether they are done one after the other, for memory's sake.
    """

    task: Task
    jobs: tuple[Job, ...]
    first: int
    n_all: int
    add: Add | None = None
    is_alone: bool = False

    @property
    def size(self) -> int:
        """Its jobs."""
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

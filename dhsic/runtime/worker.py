"""What runs on a worker of a cluster. Plain functions, importable by scheduler and workers.

A state reaches every worker as a parcel: pickled once, named once, loaded once per process. It is
one value in pickle protocol 5 with its arrays beside the pickle, 64-byte aligned:

    number of buffers n | n + 1 lengths (pickle first) | pickle | buffer | buffer ...

so that a worker reads a file of it through mmap without a copy, and all workers of a machine
share its pages. It travels in one of three ways: with the task (small), as a file that workers
see, or as the result of a task that can be run again (never by `scatter`, whose data is lost
for good with a worker).
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import pickle
import secrets
import struct
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import cloudpickle  # type: ignore[import-untyped]  # no stubs
import google_crc32c
import numpy as np
from distributed import get_worker

from dhsic.errors import ClusterError
from dhsic.runtime.base import Job, Task
from dhsic.runtime.threads import Threads, single_blas_thread
from dhsic.runtime.tree import Add, Place, Tree
from dhsic.sources import AbstractSource

ALIGNMENT = 64
SMALL = 256 * 1024  # bytes that may go along with every task
PARTS = 32  # of a share that workers die of: it costs four of them to find the job
KEPT = 3  # values a worker process keeps: the source, the state of this round and of the last


class StateUnreachableError(Exception):
    """A worker does not see the file of a parcel, or reads other bytes than were written."""


@dataclass(frozen=True, slots=True)
class Parcel:
    """What a task is told about a value: its name, and its bytes, or its file and its crc32c."""

    name: str
    data: bytes | None = None
    path: str | None = None
    checksum: int = 0
    n_bytes: int = 0


def pack(value: Any) -> list[memoryview]:
    """Cut `value` into the pieces of a parcel; arrays are viewed, not copied."""
    buffers: list[pickle.PickleBuffer] = []
    head = cloudpickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    parts = [memoryview(head), *(buffer.raw() for buffer in buffers)]
    index = struct.pack(f"<{len(parts) + 1}Q", len(buffers), *(part.nbytes for part in parts))
    pieces: list[memoryview] = []
    for part in (memoryview(index), *parts):
        pieces += [part, memoryview(bytes(-part.nbytes % ALIGNMENT))]
    return pieces


def unpack(data: memoryview) -> Any:
    """Rebuild the value of a parcel; its arrays are read-only views of `data`."""
    (n_buffers,) = struct.unpack_from("<Q", data)
    lengths = (8 * (n_buffers + 2), *struct.unpack_from(f"<{n_buffers + 1}Q", data, 8))
    parts, at = [], 0
    for length in lengths:
        parts.append(data[at : at + length])
        at += length + -length % ALIGNMENT
    return pickle.loads(parts[1], buffers=parts[2:])


def checksum(pieces: Iterable[memoryview]) -> int:
    """Crc32c of a parcel."""
    crc = 0
    for piece in pieces:
        if piece.nbytes:  # as an array: it takes no other buffers than those and bytes
            crc = google_crc32c.extend(crc, np.frombuffer(piece, dtype=np.uint8))
    return int(crc)


def write(pieces: Iterable[memoryview], path: Path) -> None:
    """Write a parcel beside `path`, then rename, so that no worker sees half of it."""
    aside = path.with_suffix(f".{os.getpid()}.tmp")
    with aside.open("wb") as file:
        for piece in pieces:
            file.write(piece)
    aside.replace(path)


def shelved(value: Any, folder: Path, label: str = "alone") -> Any:
    """Large values as a file in `folder` with `label` in its name, small ones as they are."""
    pieces = pack(value)
    n_bytes = sum(piece.nbytes for piece in pieces)
    if n_bytes <= SMALL:
        return value
    name = secrets.token_hex(8)
    path = folder / f"result-{label}-{name}.pkl"
    try:
        write(pieces, path)
    except OSError:  # no room: it travels
        path.unlink(missing_ok=True)
        return value
    return Parcel(name, None, str(path), checksum(pieces), n_bytes)


def fetched(result: Any) -> Any:
    """What a task returned; the file it was left in, if it was, goes."""
    if not isinstance(result, Parcel):
        return result
    try:
        return _load(result, None, mmap.ACCESS_COPY)  # it may be written in
    finally:
        Path(str(result.path)).unlink(missing_ok=True)  # its pages stay as long as they are used


class Broadcast:
    """A value on its way to the workers: with the task, as a file, or as a task's result.

    Where workers see no `folder`, `send` turns bytes into a future of them. Up to `small` bytes go
    with the task.
    """

    def __init__(
        self,
        value: Any,
        folder: Path | None,
        send: Callable[[bytes], Any],
        small: int = SMALL,
    ) -> None:
        self._pieces = pack(value)
        self._send = send
        self._future: Any = None
        self._parcel = Parcel(secrets.token_hex(8), checksum=checksum(self._pieces))
        if sum(piece.nbytes for piece in self._pieces) <= small:
            self._parcel = replace(self._parcel, data=b"".join(self._pieces))
        elif folder is not None:
            path = folder / f"state-{self._parcel.name}.pkl"
            with contextlib.suppress(OSError):  # no room, or no folder any more: it is sent
                write(self._pieces, path)
                self._parcel = replace(self._parcel, path=str(path))

    def arguments(self) -> tuple[Parcel, Any]:
        """Return what a task gets: the parcel, and the future of its bytes where it has none."""
        if self._parcel.data is not None or self._parcel.path is not None:
            return self._parcel, None
        if self._future is None or self._future.cancelled():
            self._future = self._send(b"".join(self._pieces))
        return self._parcel, self._future

    def give_up_file(self) -> None:
        """Send bytes from now on: a worker does not see the file."""
        self._parcel = replace(self._parcel, path=None)

    def renew(self) -> None:
        """Send bytes again, where they are sent: the worker that holds them may hang."""
        self._future = None

    def discard(self) -> None:
        """Remove the file, if there is one."""
        if self._parcel.path is not None:
            Path(self._parcel.path).unlink(missing_ok=True)


#: The last values that this process unpacked, so that its tasks share one copy.
_loaded: OrderedDict[str, Any] = OrderedDict()
_loading = threading.Lock()


def receive(parcel: Parcel, held: bytes | None = None) -> Any:
    """Return the value of a parcel on a worker; `held` are its bytes if they came as a result."""
    with _loading:  # tasks of one process wait for the first to load, then share
        if parcel.name not in _loaded:
            _loaded[parcel.name] = _load(parcel, held)
            while len(_loaded) > KEPT:
                _loaded.popitem(last=False)
        _loaded.move_to_end(parcel.name)
        return _loaded[parcel.name]


def _load(parcel: Parcel, held: bytes | None, access: int = mmap.ACCESS_READ) -> Any:
    data = parcel.data if held is None else held
    if data is not None:
        return unpack(memoryview(data))
    try:
        with Path(str(parcel.path)).open("rb") as file:
            pages = memoryview(mmap.mmap(file.fileno(), 0, access=access))
    except (OSError, ValueError) as error:
        raise StateUnreachableError(f"{parcel.path} cannot be read: {error}") from error
    if checksum([pages]) != parcel.checksum:
        raise StateUnreachableError(f"{parcel.path} holds other bytes than were written")
    return unpack(pages)


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

"""The default runtime: a pool of threads in this process.

NumPy's products and the decoders of Zarr release the GIL, so threads are enough, and the source
and the state are shared without a copy.

Inside a map, BLAS uses a single thread, so BLAS threads and task threads do not multiply. This
holds on every runtime and for any number of workers, because a matrix product has different
rounding errors if it is split among threads.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from itertools import count, takewhile
from typing import Any

from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]  # no stubs

from dhsic.errors import InputError
from dhsic.runtime.base import AbstractRuntime, Job, Jobs, Task
from dhsic.runtime.cores import usable_cores
from dhsic.sources import AbstractSource


def _setter(library: Any) -> Callable[[int], object]:
    # From 3.8 on, threadpoolctl lets one Python thread at a time control OpenBLAS and silently
    # ignores calls from others. Tasks then run with any number of BLAS threads, and the last bits
    # of scores change from run to run (seen in workers that share a process with their client).
    setter: Callable[[int], object] = getattr(
        library, "_real_set_num_threads", library.set_num_threads
    )
    return setter


class _Limit:
    """Limit of BLAS to one thread in this process, while at least one caller holds the limit.

    The setting of a BLAS library is global. If every holder restored the old value, the first one
    to leave would lift the limit for the others. So only the last holder restores it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders = 0
        self._modules_seen = -1
        self._libraries: list[Any] = []
        self._found: dict[str, tuple[Callable[[int], object], int]] = {}

    def take(self) -> None:
        with self._lock:
            # Finding the libraries takes 0.2 ms, querying them 1 us. Search again only if modules
            # were imported since, because a module may bring its own OpenBLAS, as scipy does.
            if len(sys.modules) != self._modules_seen:
                blas = ThreadpoolController().select(user_api="blas")
                self._libraries = blas.lib_controllers
                self._modules_seen = len(sys.modules)
            # Every holder checks, because OpenMP libraries have one setting per thread.
            for library in self._libraries:
                if library.num_threads != 1:
                    was = (_setter(library), library.num_threads)
                    self._found.setdefault(library.filepath, was)
                    _setter(library)(1)
            self._holders += 1

    def release(self) -> None:
        with self._lock:
            self._holders -= 1
            if not self._holders:
                for set_threads, n_threads in self._found.values():
                    set_threads(n_threads)
                self._found.clear()


_LIMIT = _Limit()


@contextmanager
def single_blas_thread() -> Iterator[None]:
    """Context in which BLAS is limited to one thread in this process.

    The limit ends when the last holder leaves its context.
    """
    _LIMIT.take()
    try:
        yield
    finally:
        _LIMIT.release()


def _run(task: Task, source: AbstractSource, job: Job, state: Any) -> Any:
    with single_blas_thread():  # again: some libraries have a separate setting in every thread
        return task(source, job, state)


class Threads(AbstractRuntime):
    """Ordered map over a pool of threads.

    Parameters
    ----------
    n_threads : int, optional
        Number of tasks that run at once; by default the cores that this process may use. The
        results do not depend on it.
    prefix : str
        Prefix of the names of threads.

    Examples
    --------
    >>> with Threads(2) as runtime:
    ...     jobs = [Job((), payload=i) for i in range(4)]
    ...     list(runtime.map(lambda source, job, state: job.payload * state, None, jobs, 10))
    [0, 10, 20, 30]
    """

    name = "threads"

    def __init__(self, n_threads: int | None = None, prefix: str = "dhsic") -> None:
        if n_threads is not None and n_threads < 1:
            raise InputError(
                f"n_threads={n_threads} is too few. Pass 1 or more, or leave it out for all "
                f"{usable_cores()} usable cores."
            )
        self.n_workers = n_threads or usable_cores()
        #: Maximum number of jobs that run or whose results are still in memory, including the
        #: result that the caller uses. Memory estimates are based on it.
        self.window = self.n_workers + 2
        self._prefix = prefix
        self._executor: ThreadPoolExecutor | None = None

    def results(
        self, task: Task, source: AbstractSource, jobs: Jobs, state: Any, *, divisible: bool
    ) -> Generator[Any]:
        # When a task fails or the iterator is closed, jobs that have not begun are dropped, and
        # those that run are waited for.
        with single_blas_thread():
            if self.n_workers == 1 or len(jobs) == 1:
                for job in jobs:
                    yield task(source, job, state)
                return
            executor, pending = self._pool(), deque[Future[Any]]()
            try:
                for job in jobs:
                    if len(pending) == self.window - 1:
                        yield pending.popleft().result()
                    pending.append(executor.submit(_run, task, source, job, state))
                while pending:
                    yield pending.popleft().result()
            finally:
                for future in pending:
                    future.cancel()
                wait(pending)

    def each(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """Map a function over items on threads, see `AbstractRuntime.each`.

        The calling thread takes part, which saves switches between threads.
        """
        items = [*items]
        n_helpers = min(self.n_workers, len(items)) - 1
        if n_helpers < 1:
            return map(function, items)
        results: list[Any] = [None] * len(items)
        places = count()  # its `next` is atomic

        def work() -> None:
            with single_blas_thread():
                for i in takewhile(len(items).__gt__, places):
                    results[i] = function(items[i])

        helpers = [self._pool().submit(work) for _ in range(n_helpers)]
        try:
            work()
        finally:
            started = [helper for helper in helpers if not helper.cancel()]
            wait(started)
        for helper in started:
            helper.result()
        return iter(results)

    def _pool(self) -> ThreadPoolExecutor:
        if self._executor is None:  # kept between maps: a round may last only milliseconds
            self._executor = ThreadPoolExecutor(self.n_workers, self._prefix)
        return self._executor

    def close(self) -> None:
        """End the threads; another `map` starts new ones."""
        if self._executor is not None:
            self._executor.shutdown()
            self._executor = None

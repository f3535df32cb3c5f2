"""Connection to a Dask cluster: scheduler, workers, avoided workers, and a scratch folder.

At the start, a task on every worker checks its versions, and whether it can read the scratch folder
of this process. A worker whose task is much slower than the others gets no other work for `AVOIDED`
seconds.
"""

from __future__ import annotations

import itertools
import secrets
import shutil
import tempfile
import time
import weakref
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any

from dask.base import get_annotations
from distributed import CancelledError, Client, Future, Security, span

from dhsic.errors import ClusterError, MemoryBudgetError
from dhsic.memory import PROCESS_BYTES, WorkerMemory, human
from dhsic.runtime.base import AbstractRuntime, Jobs
from dhsic.runtime.calls import sealed
from dhsic.runtime.clients import client_at, connect, forget_messages, of_each_worker
from dhsic.runtime.partition import n_each, n_values, partition_jobs
from dhsic.runtime.task_attempt import silent
from dhsic.runtime.worker import greet, hold, other_versions, versions
from dhsic.sources import AbstractSource

#: Errors raised when a scheduler does not answer.
UNREACHABLE = (OSError, RuntimeError, ValueError)
CONNECT = 15.0  # seconds that a scheduler may take to answer at first
AVOIDED = 60.0  # seconds for which a worker that delayed a task gets no other task


class Cluster(AbstractRuntime):
    """Connection of a runtime to a Dask cluster.

    It stores the workers, the avoided workers, task keys, and a scratch folder. This class is
    abstract; `dhsic.runtime.dask.DaskRuntime` runs tasks on the cluster and documents the
    parameters.
    """

    name = "dask"
    is_remote = True

    def __init__(
        self,
        client: Client | None = None,
        scheduler: str | None = None,
        window: int | None = None,
        scratch: str | PathLike[str] | None = None,
        *,
        timeout: float = 60.0,
        security: Security | None = None,
    ) -> None:
        self.client = connect(client, scheduler, min(timeout, CONNECT), security)
        self._security = security
        self._avoided: dict[str, float] = {}  # time until which each worker is avoided
        self.token = secrets.token_hex(4)
        self.folder = Path(tempfile.mkdtemp(prefix=f"dhsic-{self.token}-", dir=scratch))
        self._finalizer = weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        self._scheduler = scheduler if client is None else None
        self._timeout = timeout
        self._given_window = window
        self._counter = itertools.count()
        with span("dhsic"):  # one span for all runs: a scheduler never deletes a span
            self.span = get_annotations()["span"]
        try:
            self.await_workers()
            self.check_memory()
            self.workers_see_folder = self._greet_workers()
        except BaseException:
            self.close()
            raise

    @property
    def shared_folder(self) -> Path | None:
        """Subfolder of `scratch`; None if workers cannot read it.

        `close` removes the folder.
        """
        return self.folder if self.workers_see_folder else None

    def await_workers(self) -> None:
        """Wait for the scheduler and a first worker; store the number of threads of each worker."""
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                self._await_connection(deadline)
                self.threads = self._await_threads(deadline)
            except (*UNREACHABLE, CancelledError) as error:
                is_over = self.client.status == "closed" and self._scheduler is None
                if is_over or time.monotonic() >= deadline:
                    raise ClusterError(
                        f"The Dask cluster of {self.client!r} has had no worker for "
                        f"{self._timeout:g} s ({type(error).__name__}). Start workers or repair "
                        "the connection, then resume from the checkpoint."
                    ) from error
                time.sleep(0.1)  # the connection has just been lost
            else:
                self.n_workers = max(sum(self.threads.values()), 1)
                forget_messages(self.client)
                return

    def _await_connection(self, deadline: float) -> None:
        """Wait until the client is connected again; replace a client that has closed."""
        while self.client.status in ("connecting", "closing") and time.monotonic() < deadline:
            time.sleep(0.1)
        while self.client.status == "closed" and self._scheduler is not None:
            seconds_left = deadline - time.monotonic()
            try:
                self.client = client_at(
                    self._scheduler, max(min(seconds_left, CONNECT), 0.1), self._security
                )
            except ClusterError:  # the advice in its message applies only to the start of a run
                if seconds_left <= 0:
                    raise TimeoutError(f"no scheduler at {self._scheduler}") from None

    def _await_threads(self, deadline: float) -> dict[str, int]:
        """Wait for a first worker; return the threads of each worker by address."""
        threads: dict[str, int] = self.client.nthreads()
        if not threads:
            # An adaptive cluster starts workers only if a task is waiting.
            call = self.client.submit(*sealed(hold), b"", key=self.unique("call"), pure=False)
            self.client.wait_for_workers(1, max(deadline - time.monotonic(), 0.1))
            threads = self.client.nthreads()
            call.release()
        return threads

    def workers(self) -> Mapping[str, Any]:
        """Return Dask's information about each worker by address; empty if no scheduler answers."""
        with suppress(*UNREACHABLE):  # a later call raises the error
            workers: Mapping[str, Any] = self.client.scheduler_info(n_workers=-1)["workers"]
            return workers
        return {}

    def tightest(self) -> WorkerMemory | None:
        """Return the memory of the worker with the lowest limit per thread; None without limits."""
        limits = [
            WorkerMemory(int(info["memory_limit"]), int(info["nthreads"]), f"worker {address}")
            for address, info in self.workers().items()
            if info["memory_limit"]
        ]
        return min(limits, key=lambda has: (has.limit or 0) / has.n_threads, default=None)

    def check_memory(self) -> None:
        """Raise MemoryBudgetError if workers have too little memory to load dhsic."""
        least = self.tightest()
        if least is not None and least.limit is not None and least.limit < PROCESS_BYTES:
            raise MemoryBudgetError(
                f"The memory limit is {human(least.limit)} ({least.said_by}), but a worker needs "
                f"{human(PROCESS_BYTES)} to load dhsic, before its first task. Give workers more "
                "memory."
            )

    def workers_for(self, failed_on: Collection[str]) -> list[str] | None:
        """Return the workers that may run a job which failed on `failed_on`; None means all."""
        avoided = self.avoided
        if not failed_on and not avoided:
            return None
        candidates = sorted(set(self.workers()) - set(failed_on))
        return [worker for worker in candidates if worker not in avoided] or candidates or None

    def avoid(self, workers: Iterable[str]) -> None:
        """Submit no jobs to these workers for `AVOIDED` seconds."""
        self._avoided |= dict.fromkeys(workers, time.monotonic() + AVOIDED)

    @property
    def avoided(self) -> set[str]:
        """Workers that are avoided at present."""
        now = time.monotonic()
        return {worker for worker, until in self._avoided.items() if until > now}

    def workers_of(self, *futures: Future[Any]) -> set[str]:
        """Return the workers that compute these futures or store their results."""
        workers = self.running({str(future.key) for future in futures})
        with suppress(*UNREACHABLE, CancelledError):
            workers |= {
                w for holders in self.client.who_has(list(futures)).values() for w in holders
            }
        return workers

    @property
    def is_idle(self) -> bool:
        """Whether no worker runs a task of this process; False if the scheduler does not answer."""
        with suppress(*UNREACHABLE, CancelledError):
            running = self.client.processing().values()
            return not any(f"-{self.token}-" in key for tasks in running for key in tasks)
        return False

    def running(self, keys: Collection[str]) -> set[str]:
        """Return the workers that run tasks with these keys; empty if no scheduler answers."""
        with suppress(*UNREACHABLE, CancelledError):
            running = self.client.processing().items()
            return {worker for worker, tasks in running if not set(tasks).isdisjoint(keys)}
        return set()

    def window(self, *, of_jobs: bool = False) -> int:
        """Return the maximum number of unfinished tasks.

        By default it is two per worker, because a task uses all threads of a worker. If each task
        runs a single job (`of_jobs`), it is two per thread.
        """
        return self._given_window or 2 * (self.n_workers if of_jobs else len(self.threads))

    def shares(self, source: AbstractSource, jobs: Jobs) -> list[tuple[str | None, range]]:
        """Partition the jobs of a pass into tasks.

        Returns a list of (worker, range of jobs); None means any worker.
        """
        if source.pieces(()) is not None:  # a lazy source: one job per task
            return [(None, range(i, i + 1)) for i in range(len(jobs))]
        return self.shared_out(len(jobs), n_values(source, jobs))

    def shared_out(self, n: int, n_values: int) -> list[tuple[str | None, range]]:
        """Partition n jobs, or n stored values to update, into tasks; return (worker, range) pairs.

        The tasks read `n_values` values of the data in total.
        """
        avoided = self.avoided
        workers = sorted(set(self.threads) - avoided or self.threads)
        per_worker = -(-(self._given_window or 0) // len(workers))
        each = max(per_worker, n_each(n_values, self.n_workers))
        shares = partition_jobs(n, [self.threads[worker] for worker in workers], each)
        first = len(workers)
        return [(workers[i] if i < first else None, share) for i, share in shares]

    def silent_workers(self) -> set[str]:
        """Return the workers without a recent heartbeat."""
        return silent({address: info["last_seen"] for address, info in self.workers().items()})

    def _greet_workers(self) -> bool:
        """Check the versions on the cluster; return whether all workers can read `folder`."""
        sign = self.folder / "sign.txt"
        sign.write_text(self.token)
        ours, answers = versions(), {}
        greetings = of_each_worker(self.client, self.unique("greet"), greet, str(sign))
        for worker, future in greetings.items():
            try:
                theirs, answers[worker] = future.result(timeout=self._timeout)
            except (CancelledError, TimeoutError):  # lost or busy; every task checks again
                continue
            except Exception as error:
                raise _cannot_run(f"Worker {worker}", error) from error
            if theirs != ours:
                raise ClusterError(other_versions(f"Worker {worker}", theirs, ours))
        for worker in list(answers)[:1]:
            self._greet_scheduler(worker)
        return all(answers.get(worker) == self.token for worker in greetings)

    def _greet_scheduler(self, worker: str) -> None:
        """Check that the scheduler can forward a dhsic task to `worker`."""
        key = self.unique("greet")
        call = self.client.submit(
            *sealed(hold), b"", key=key, pure=False, workers=[worker], priority=10
        )
        try:
            call.result(timeout=self._timeout)
        except (CancelledError, TimeoutError):  # the worker is gone or busy
            return
        except Exception as error:
            raise _cannot_run("The scheduler", error) from error

    def unique(self, name: str) -> str:
        """Return a task key that is not yet used on the cluster."""
        return f"dhsic-{name}-{self.token}-{next(self._counter)}"

    def close(self) -> None:
        self._finalizer()
        if self._scheduler is not None:
            self.client.close()


def _cannot_run(who: str, error: Exception) -> ClusterError:
    return ClusterError(
        f"{who} cannot run dhsic ({type(error).__name__}: {error}). Install dhsic "
        f"{versions()['dhsic']} on scheduler and workers."
    )

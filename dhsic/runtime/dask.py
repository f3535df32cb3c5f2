"""The cluster runtime: Dask futures, one task a worker process and pass.

Workers hold nothing that cannot be had again: a worker that dies costs the share of a pass that it
had, one that comes later takes part from the next pass. What is added is added by workers, so that
this process gets sums alone. How a pass is shared out is in `shares.py`, what happens to one share
in `mapping.py`.
"""

from __future__ import annotations

import itertools
import secrets
import shutil
import tempfile
import time
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from dask.base import get_annotations
from distributed import CancelledError, Client, Future, Security, span

from dhsic.errors import ClusterError, MemoryBudgetError
from dhsic.memory import PROCESS_BYTES, WorkerMemory, human
from dhsic.runtime import sealed
from dhsic.runtime.base import AbstractRuntime, AbstractStep, Ask, Held, Jobs, Make, Sites, Task
from dhsic.runtime.clients import client_at, connect, forget_messages, of_each_worker
from dhsic.runtime.flight import Traffic, silent
from dhsic.runtime.mapping import Map
from dhsic.runtime.parcels import SMALL, Broadcast, Gathered, Parcel
from dhsic.runtime.shares import cut, n_each, n_values
from dhsic.runtime.staying import Adding, Asking, Gathering, Lineage, Spread, Stepping
from dhsic.runtime.threads import Threads
from dhsic.runtime.tree import Add
from dhsic.runtime.worker import greet, hold, other_versions, versions
from dhsic.sources import AbstractSource

TOGETHER = 4 << 20  # bytes that may go along with all tasks of a pass
CLIENT_BYTES = 64 * 2**20  # data of this process that may travel to workers, once
#: What shows that a scheduler does not answer.
UNREACHABLE = (OSError, RuntimeError, ValueError)
CONNECT = 15.0  # seconds that a scheduler may take to answer at first
AVOIDED = 60.0  # seconds for which a worker that held a share up gets no other
REMEMBERED = 1000  # passes whose traffic is known
M = TypeVar("M", bound=Map)
A = TypeVar("A", bound=Asking)


class DaskRuntime(AbstractRuntime):
    """Ordered map over the workers of a Dask cluster that is already there.

    Parameters
    ----------
    client : distributed.Client, optional
        Client to use; it stays open.
    scheduler : str, optional
        Address to connect to when no `client` is given. Without either, the client that is
        active in this process (or, inside a task, that of the worker) is used.
    window : int, optional
        Tasks in flight; twice the worker processes by default, counted anew every few seconds. A
        pass has one task a worker process, and more only where they would take long, or to fill a
        window that is given. An adaptive cluster grows as far as it sees tasks: give the worker
        processes of its largest size to have it grow at once.
    scratch : path, optional
        Folder for states that are too large to go along with every task, and for survivors that
        are rewritten; the folder for temporary files by default. Where workers do not see it,
        states are sent instead, and survivors stay where they are.
    timeout : float, optional
        Seconds to wait for a first worker, and for a scheduler that was lost; at the start a
        scheduler gets at most `CONNECT` seconds of them.
    security : distributed.Security, optional
        Certificates for `scheduler`; those of Dask's configuration by default.

    Raises
    ------
    ClusterError
        No client, no workers, or workers with other versions of dhsic or numpy.
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
        self._avoided: dict[str, float] = {}  # workers, and until when
        self.token = secrets.token_hex(4)
        self.folder = Path(tempfile.mkdtemp(prefix=f"dhsic-{self.token}-", dir=scratch))
        self._finalizer = weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        self._scheduler = scheduler if client is None else None
        self._timeout = timeout
        self._given_window = window
        self._counter = itertools.count()
        with span("dhsic"):  # one for all: a scheduler never forgets a span
            self.span = get_annotations()["span"]
        self._source: tuple[AbstractSource, Broadcast] | None = None
        self._here = Threads()  # for what this process does itself
        #: What the last passes asked of the cluster.
        self.traffic: deque[Traffic] = deque(maxlen=REMEMBERED)
        try:
            self.await_workers()
            self.check_memory()
            self.workers_see_folder = self._greet_workers()
        except BaseException:
            self.close()
            raise

    @property
    def shared_folder(self) -> Path | None:
        """A folder in the one that `scratch` names, if workers see it; `close` removes it."""
        return self.folder if self.workers_see_folder else None

    def await_workers(self) -> None:
        """Count the threads of the cluster, waiting for a connection and a first worker."""
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                self._await_connection(deadline)
                self.threads = self._await_threads(deadline)
            except (*UNREACHABLE, CancelledError) as error:
                is_over = self.client.status == "closed" and self._scheduler is None
                if is_over or time.monotonic() >= deadline:
                    raise ClusterError(
                        f"The Dask cluster of {self.client!r} has had no worker to run on for "
                        f"{self._timeout:g} s ({type(error).__name__}). Start workers or mend the "
                        "connection, then go on from the checkpoint."
                    ) from error
                time.sleep(0.1)  # the connection broke this moment
            else:
                self.n_workers = max(sum(self.threads.values()), 1)
                forget_messages(self.client)
                return

    def _await_connection(self, deadline: float) -> None:
        """Wait until the client has its scheduler back; make a new one if it gave up."""
        while self.client.status in ("connecting", "closing") and time.monotonic() < deadline:
            time.sleep(0.1)
        while self.client.status == "closed" and self._scheduler is not None:
            left = deadline - time.monotonic()
            try:
                self.client = client_at(
                    self._scheduler, max(min(left, CONNECT), 0.1), self._security
                )
            except ClusterError:  # it tells how to start a run, and this one goes on
                if left <= 0:
                    raise TimeoutError(f"no scheduler at {self._scheduler}") from None

    def _await_threads(self, deadline: float) -> dict[str, int]:
        """Threads of each worker, once there is one."""
        threads: dict[str, int] = self.client.nthreads()
        if not threads:
            # An adaptive cluster starts workers for work alone.
            call = self.client.submit(*sealed(hold), b"", key=self.unique("call"), pure=False)
            self.client.wait_for_workers(1, max(deadline - time.monotonic(), 0.1))
            threads = self.client.nthreads()
            call.release()
        return threads

    def workers(self) -> Mapping[str, Any]:
        """What the scheduler knows of each worker; nothing where it does not answer."""
        with suppress(*UNREACHABLE):  # the run will find out
            known: Mapping[str, Any] = self.client.scheduler_info(n_workers=-1)["workers"]
            return known
        return {}

    def tightest(self) -> WorkerMemory | None:
        """As Dask was told; workers that come later are taken to be alike."""
        limits = [
            WorkerMemory(int(known["memory_limit"]), int(known["nthreads"]), f"worker {address}")
            for address, known in self.workers().items()
            if known["memory_limit"]
        ]
        return min(limits, key=lambda has: (has.limit or 0) / has.n_threads, default=None)

    def check_memory(self) -> None:
        """Refuse workers that would die of loading dhsic, again and again."""
        found = self.tightest()
        if found is not None and found.limit is not None and found.limit < PROCESS_BYTES:
            raise MemoryBudgetError(
                f"There are {human(found.limit)} ({found.said_by}), and a worker with dhsic loaded "
                f"takes {human(PROCESS_BYTES)} before its first task. Give workers more memory."
            )

    def workers_for(self, failed_on: Collection[str]) -> list[str] | None:
        """Workers to which a job may go that failed on some; None for all of them."""
        avoided = self.avoided
        if not failed_on and not avoided:
            return None
        left = sorted(set(self.workers()) - set(failed_on))
        return [worker for worker in left if worker not in avoided] or left or None

    def avoid(self, workers: Iterable[str]) -> None:
        """Give no job to these for a while: they held one up."""
        self._avoided |= dict.fromkeys(workers, time.monotonic() + AVOIDED)

    @property
    def avoided(self) -> set[str]:
        """Workers to be avoided now."""
        now = time.monotonic()
        return {worker for worker, until in self._avoided.items() if until > now}

    def workers_of(self, *futures: Future[Any]) -> set[str]:
        """Workers that run these or hold their results, as far as the scheduler answers."""
        found = self.running({str(future.key) for future in futures})
        with suppress(*UNREACHABLE, CancelledError):
            found |= {w for holders in self.client.who_has(list(futures)).values() for w in holders}
        return found

    @property
    def is_idle(self) -> bool:
        """Whether no worker runs a task of this process, as far as the scheduler answers."""
        with suppress(*UNREACHABLE, CancelledError):
            running = self.client.processing().values()
            return not any(f"-{self.token}-" in key for tasks in running for key in tasks)
        return False

    def running(self, keys: Collection[str]) -> set[str]:
        """Workers that run tasks, as far as the scheduler answers."""
        with suppress(*UNREACHABLE, CancelledError):
            running = self.client.processing().items()
            return {worker for worker, tasks in running if not set(tasks).isdisjoint(keys)}
        return set()

    def window(self, *, of_jobs: bool = False) -> int:
        """Tasks in flight: shares, which take all threads of a worker, or jobs, which take one."""
        return self._given_window or 2 * (self.n_workers if of_jobs else len(self.threads))

    def shares(self, source: AbstractSource, jobs: Jobs) -> list[tuple[str | None, range]]:
        """Jobs of each task, and its worker; later ones are for any worker that has time."""
        if source.pieces(()) is not None:  # what a job reads comes with it: one at a time
            return [(None, range(i, i + 1)) for i in range(len(jobs))]
        return self._shared_out(len(jobs), n_values(source, jobs))

    def _shared_out(self, n: int, n_values: int) -> list[tuple[str | None, range]]:
        """Shares of n jobs or sites that read so many values, and their workers."""
        avoided = self.avoided
        workers = sorted(set(self.threads) - avoided or self.threads)
        wanted = -(-(self._given_window or 0) // len(workers))
        each = max(wanted, n_each(n_values, self.n_workers))
        shares = cut(n, [self.threads[worker] for worker in workers], each)
        first = len(workers)
        return [(workers[i] if i < first else None, some) for i, some in shares]

    def silent_workers(self) -> set[str]:
        """Workers of which the scheduler has heard nothing for a while."""
        return silent({who: known["last_seen"] for who, known in self.workers().items()})

    def _greet_workers(self) -> bool:
        """Check every worker's versions, and the scheduler; whether all workers read our folder."""
        sign = self.folder / "sign.txt"
        sign.write_text(self.token)
        ours, seen = versions(), {}
        asked = of_each_worker(self.client, self.unique("greet"), greet, str(sign))
        for worker, future in asked.items():
            try:
                theirs, seen[worker] = future.result(timeout=self._timeout)
            except (CancelledError, TimeoutError):  # it left, or is busy: every task checks again
                continue
            except Exception as error:
                raise _cannot_run(f"Worker {worker}", error) from error
            if theirs != ours:
                raise ClusterError(other_versions(f"Worker {worker}", theirs, ours))
        for worker in list(seen)[:1]:
            self._greet_scheduler(worker)
        return all(seen.get(worker) == self.token for worker in asked)

    def _greet_scheduler(self, worker: str) -> None:
        """Check that the scheduler passes on what it is sent, to a worker that has time."""
        key = self.unique("greet")
        call = self.client.submit(
            *sealed(hold), b"", key=key, pure=False, workers=[worker], priority=10
        )
        try:
            call.result(timeout=self._timeout)
        except (CancelledError, TimeoutError):  # it has left, or got other work
            return
        except Exception as error:
            raise _cannot_run("The scheduler", error) from error

    def results(
        self, task: Task, source: AbstractSource, jobs: Jobs, state: Any, *, divisible: bool
    ) -> Generator[Any]:
        """As of `AbstractRuntime`; jobs of lost workers run again.

        When a task fails or the iterator is closed, jobs that have not begun are dropped; those
        that run are left to end by themselves.
        """
        if not jobs:
            return
        with self._mapping(partial(Map, divisible=divisible), task, source, state) as flying:
            yield from flying.results(jobs)

    def added(self, task: Task, source: AbstractSource, jobs: Jobs, state: Any, add: Add) -> Any:
        with self._mapping(partial(Adding, add=add), task, source, state) as flying:
            return flying.added(jobs)

    def stepped(
        self,
        held: Held | None,
        step: AbstractStep,
        source: AbstractSource,
        sites: Sites,
        state: Any,
    ) -> tuple[Held, Any]:
        """As of `AbstractRuntime`; sites are shared out over the workers, which keep their values.

        The value of a single site is kept in this process: its jobs are shared out.
        """
        begins = held is None and len(sites) > 1 and source.pieces(()) is None
        if not (begins or isinstance(held, Spread)):
            return super().stepped(held, step, source, sites, state)
        self.await_workers()
        if isinstance(held, Spread) and not step.renews:
            with self._asking(Asking, held, step, state) as walk:
                return held, walk.told(step, sites)
        before = held if isinstance(held, Spread) else self._begun(source, sites)
        if any(site.jobs for site in sites) or not before.lineage.links:
            sent = self._send_source(source)
        else:  # nothing is read: what there was will do
            source, sent = before.lineage.links[-1].source, before.lineage.links[-1].sent
        broadcast = self._broadcast(state)
        stepping = Stepping(self, step, source, sent, broadcast, held=before)
        self.traffic.append(stepping.traffic)
        parts = stepping.stepped(step, sites)
        values = [stepping.values[i] for i in range(len(before.shares))]
        return before.then(values), parts

    def _begun(self, source: AbstractSource, sites: Sites) -> Spread:
        """Shares of sites that have no values yet."""
        jobs = [job for site in sites for job in site.jobs]
        n = n_values(source, jobs)
        workers, shares = zip(*self._shared_out(len(sites), n), strict=True)
        return Spread(Lineage(), [*shares], [*workers], n)

    def asked(self, held: Held, ask: Ask, told: Sequence[Any], state: Any) -> Iterator[Any]:
        if not isinstance(held, Spread):
            yield from super().asked(held, ask, told, state)
            return
        with self._asking(Asking, held, ask, state) as walk:
            for answer in walk.asked(ask, told):
                self.heed()
                yield answer

    def gathered(self, held: Held, ask: Ask, told: Sequence[Any], state: Any, make: Make) -> Any:
        """As of `AbstractRuntime`; what is large is made by those who unpack it, not here."""
        if not isinstance(held, Spread):
            return super().gathered(held, ask, told, state, make)
        with self._asking(Gathering, held, ask, state) as walk:
            parts = list(walk.of_shares(ask, told))
        if any(isinstance(part, Parcel) for part in parts):
            return Gathered(make, parts)
        return make([answer for part in parts for answer in part])

    @contextmanager
    def _asking(self, kind: type[A], held: Spread, ask: Any, state: Any) -> Iterator[A]:
        self.await_workers()
        link, broadcast = held.lineage.links[-1], self._broadcast(state)
        walk = kind(self, ask, link.source, link.sent, broadcast, held=held)
        self.traffic.append(walk.traffic)
        yield walk
        held.values = [walk.values.get(i, value) for i, value in enumerate(held.values)]
        broadcast.discard()

    def each(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        return self._here.each(function, items)

    @contextmanager
    def _mapping(
        self, kind: Callable[..., M], task: Task, source: AbstractSource, state: Any
    ) -> Iterator[M]:
        self.await_workers()
        sent, broadcast = self._send_source(source), self._broadcast(state)
        flying = kind(self, task, source, sent, broadcast)
        self.traffic.append(flying.traffic)
        yield flying
        # Not after a failure: tasks that still run may be reading the file. `close` removes it.
        broadcast.discard()

    def _send_source(self, source: AbstractSource) -> Broadcast:
        if source.client_bytes > CLIENT_BYTES:
            raise ClusterError(
                f"The data ({source.client_bytes / 2**20:.0f} MiB) live in this process, and at "
                f"most {CLIENT_BYTES / 2**20:.0f} MiB are sent to workers. Write them to Zarr "
                "where workers can read and pass the path, or use runtime='threads'."
            )
        if self._source is None or self._source[0] is not source:
            self._source = source, self._broadcast(source)
        return self._source[1]

    def _broadcast(self, value: Any) -> Broadcast:
        folder = self.folder if self.workers_see_folder else None
        return Broadcast(value, folder, self._send, min(SMALL, TOGETHER // len(self.threads)))

    def _send(self, data: bytes) -> Any:
        """Make `data` the result of a task, which Dask can run again if it is lost."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
            key = self.unique("state")
            where = self.workers_for(())
            return self.client.submit(*sealed(hold), data, key=key, pure=False, workers=where)

    def unique(self, name: str) -> str:
        """Return a key that nothing else on the cluster has."""
        return f"dhsic-{name}-{self.token}-{next(self._counter)}"

    def close(self) -> None:
        self._finalizer()
        self._here.close()
        self._source = None
        if self._scheduler is not None:
            self.client.close()


def _cannot_run(who: str, error: Exception) -> ClusterError:
    return ClusterError(
        f"{who} cannot run dhsic ({type(error).__name__}: {error}). Install dhsic "
        f"{versions()['dhsic']} on scheduler and workers."
    )

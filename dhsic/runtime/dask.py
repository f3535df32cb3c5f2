"""The cluster runtime: Dask futures, one task per job. The only module that imports distributed.

Workers hold nothing that cannot be had again: a worker that dies costs the jobs it ran, one that
comes later takes part from its next job. No matrix passes through this process.
"""

from __future__ import annotations

import itertools
import secrets
import shutil
import tempfile
import time
import warnings
import weakref
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any

import distributed
from distributed import CancelledError, Client, Future, KilledWorker
from distributed.comm.addressing import resolve_address

from dhsic.errors import ClusterError
from dhsic.runtime.base import AbstractRuntime, Job, Task
from dhsic.runtime.broadcast import Broadcast, StateUnreachableError, fetched
from dhsic.runtime.worker import greet, hold, other_versions, run, versions
from dhsic.sources.base import AbstractSource

CLIENT_BYTES = 64 * 2**20  # data of this process that may travel to workers, once
ATTEMPTS = 5  # of a job whose result was lost, not whose task failed
CONNECT = 15.0  # seconds that a scheduler may take to answer at first
PATIENCE = 10.0  # seconds between looks at the cluster while a result is awaited


def _connect(client: Client | None, scheduler: str | None, timeout: float) -> Client:
    if client is None and scheduler is not None:
        return _client_at(scheduler, min(timeout, CONNECT))
    if client is None:
        try:
            client = distributed.get_client()
        except ValueError as error:
            raise ClusterError(
                "runtime='dask' was asked for, but there is no Dask client in this process. Make "
                "one (distributed.Client(...)), pass client= or scheduler='tcp://...', or use "
                "runtime='threads'."
            ) from error
    if client.asynchronous:
        raise ClusterError(
            "The Dask client is asynchronous, and dhsic waits for results. Make one with "
            "Client(..., asynchronous=False) outside the event loop."
        )
    return client


def _client_at(scheduler: str, timeout: float) -> Client:
    try:
        resolve_address(scheduler)  # a Client of what is no address takes minutes to close
    except (OSError, ValueError) as error:
        raise ClusterError(
            f"scheduler={scheduler!r} cannot be connected to: {error}. Pass the address that the "
            "scheduler prints when it starts, such as tcp://10.0.0.5:8786, or leave it out to run "
            "on threads."
        ) from error
    try:
        return Client(scheduler, set_as_default=False, timeout=timeout)
    except (OSError, ValueError) as error:
        raise ClusterError(
            f"No Dask scheduler answers at {scheduler!r} within {timeout:g} s. Check that it runs, "
            "that address and port are those it prints when it starts, and that no firewall is "
            "between; or leave scheduler= out to run on threads."
        ) from error


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
        Jobs in flight; twice the threads of the cluster by default. An adaptive cluster grows
        only as far as the window lets it see work: give ``2 * threads`` of its largest size.
    scratch : path, optional
        Folder for states that are too large to go along with every task, and for survivors that
        are rewritten; the folder for temporary files by default. Where workers do not see it,
        states are sent instead, and survivors stay where they are.
    timeout : float, optional
        Seconds to wait for a first worker, and for a scheduler that was lost; at the start a
        scheduler gets at most `CONNECT` seconds of them.

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
    ) -> None:
        self.client = _connect(client, scheduler, timeout)
        self.token = secrets.token_hex(4)
        self.folder = Path(tempfile.mkdtemp(prefix=f"dhsic-{self.token}-", dir=scratch))
        self._finalizer = weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        self._owns_client = client is None and scheduler is not None
        self._timeout = timeout
        self._given_window = window
        self._counter = itertools.count()
        self._source: tuple[AbstractSource, Broadcast] | None = None
        try:
            self.await_workers()
            self.workers_see_folder = self._greet_workers()
        except BaseException:
            self.close()
            raise

    @property
    def shared_folder(self) -> Path | None:
        """The folder that was given as `scratch`, if workers see it."""
        return self.folder.parent if self.workers_see_folder else None

    def await_workers(self) -> None:
        """Count the threads of the cluster, waiting for a connection and a first worker."""
        deadline = time.monotonic() + self._timeout
        try:
            while self.client.status == "connecting" and time.monotonic() < deadline:
                time.sleep(0.1)
            self.client.wait_for_workers(1, max(deadline - time.monotonic(), 0.1))
            self.n_workers = sum(self.client.nthreads().values())
        except (OSError, RuntimeError, ValueError, CancelledError) as error:
            raise ClusterError(
                f"The Dask cluster of {self.client!r} has had no worker to run on for "
                f"{self._timeout:g} s ({type(error).__name__}). Start workers or mend the "
                "connection, then go on from the checkpoint."
            ) from error
        self.window = self._given_window or 2 * self.n_workers

    def _greet_workers(self) -> bool:
        """Check every worker's versions; return whether all of them read our folder."""
        sign = self.folder / "sign.txt"
        sign.write_text(self.token)
        futures = {
            worker: self.client.submit(
                greet,
                str(sign),
                workers=[worker],
                key=self.unique("greet"),
                pure=False,
            )
            for worker in self.client.nthreads()
        }
        ours, seen = versions(), []
        for worker, future in futures.items():
            try:
                theirs, read = future.result(timeout=self._timeout)
            except (CancelledError, TimeoutError):  # it left, or is busy: every task checks again
                read = None
            except Exception as error:
                raise ClusterError(
                    f"Scheduler or worker {worker} cannot run dhsic ({type(error).__name__}: "
                    f"{error}). Install dhsic {ours['dhsic']} on scheduler and workers."
                ) from error
            else:
                if theirs != ours:
                    raise ClusterError(other_versions(f"Worker {worker}", theirs, ours))
            seen.append(read == self.token)
        return all(seen)

    def map(
        self, task: Task, source: AbstractSource, jobs: Sequence[Job], state: Any
    ) -> Iterator[Any]:
        """Yield ``task(source, job, state)`` for every job, in the order of `jobs`.

        Jobs of lost workers run again. When a task fails or the iterator is closed, jobs that
        have not begun are dropped; those that run are left to end by themselves.
        """
        if not jobs:
            return
        self.await_workers()
        sent = self._send_source(source)
        broadcast = self._broadcast(state)
        yield from _Map(self, task, source, jobs, sent, broadcast).results()
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
        return Broadcast(value, self.folder if self.workers_see_folder else None, self._send)

    def _send(self, data: bytes) -> Any:
        """Make `data` the result of a task, which Dask can run again if it is lost."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
            return self.client.submit(hold, data, key=self.unique("state"), pure=False)

    def unique(self, name: str) -> str:
        """Return a key that nothing else on the cluster has."""
        return f"dhsic-{name}-{self.token}-{next(self._counter)}"

    def close(self) -> None:
        """Remove the files of this runtime, and close the client if this runtime made it."""
        self._finalizer()
        self._source = None
        if self._owns_client:
            self.client.close()

    def __enter__(self) -> DaskRuntime:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class _Map:
    """One map in flight: which jobs are submitted, and which attempt at them."""

    def __init__(
        self,
        runtime: DaskRuntime,
        task: Task,
        source: AbstractSource,
        jobs: Sequence[Job],
        sent: Broadcast,
        state: Broadcast,
    ) -> None:
        self._runtime = runtime
        self._task = task
        self._source = source
        self._jobs = jobs
        self._sent = sent
        self._state = state
        # Dask learns how long tasks take by the letters at the front of their key.
        name = getattr(task, "__name__", "task").strip("_<>").replace("_", "-")
        self._key = runtime.unique(name)
        self._attempts: Counter[int] = Counter()

    def results(self) -> Iterator[Any]:
        pending: deque[tuple[int, Future[Any]]] = deque()
        try:
            for i in range(len(self._jobs)):
                while len(pending) >= self._runtime.window:
                    yield self._take(*pending.popleft())
                pending.append((i, self._submit(i)))
            while pending:
                yield self._take(*pending.popleft())
        finally:
            for _, future in pending:
                future.release()

    def _submit(self, i: int) -> Future[Any]:
        job = self._jobs[i]
        client = self._runtime.client
        lazy = self._source.pieces(job.blocks)
        pieces = () if lazy is None else client.compute(list(lazy))
        source, source_bytes = self._sent.arguments()
        state, state_bytes = self._state.arguments()
        self._attempts[i] += 1
        return client.submit(
            run,
            self._task,
            job,
            versions(),
            source,
            state,
            source_bytes,
            state_bytes,
            str(self._runtime.folder) if self._runtime.workers_see_folder else None,
            *pieces,
            key=f"{self._key}-{i}" + (f"-{self._attempts[i]}" if self._attempts[i] > 1 else ""),
            pure=False,
        )

    def _take(self, i: int, future: Future[Any]) -> Any:
        """Return the result of job i, submitting it again if it was lost on the way."""
        while True:
            try:
                return fetched(self._await(future))
            except CancelledError as error:  # connection lost, scheduler restarted, data gone
                lost: Exception = error
            except StateUnreachableError as error:
                self._runtime.workers_see_folder = False
                self._sent.give_up_file()
                self._state.give_up_file()
                lost = error
            except KilledWorker as error:
                raise ClusterError(_memory_sentence(self._jobs[i], error)) from error
            if self._attempts[i] == ATTEMPTS:
                raise ClusterError(
                    f"Job {i} of {len(self._jobs)} was lost {ATTEMPTS} times ({lost}). The "
                    "cluster is not stable: look at its logs, then go on from the checkpoint."
                ) from lost
            self._runtime.await_workers()
            future = self._submit(i)

    def _await(self, future: Future[Any]) -> Any:
        while True:
            try:
                return future.result(timeout=PATIENCE)
            except TimeoutError as error:
                if future.status == "error":  # the task's own TimeoutError
                    raise
                if future.status == "finished":  # its worker hangs: do not wait for worker-ttl
                    raise CancelledError("its worker does not answer") from error
            self._runtime.await_workers()


def _memory_sentence(job: Job, error: KilledWorker) -> str:
    ends = (job.blocks[0].start, job.blocks[-1].stop) if job.blocks else None
    what = f"features {ends[0]} to {ends[1]}" if ends else "a job"
    return (
        f"{error.allowed_failures + 1} workers in a row died while they ran {what}; the last "
        f"was {error.last_worker.address}. Most likely they ran out of memory. Give workers more "
        "memory or fewer threads, or pass a smaller memory= so that blocks are narrower."
    )

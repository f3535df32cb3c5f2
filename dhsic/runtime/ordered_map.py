"""Ordered map on a cluster: submit a bounded number of tasks, and yield their results in order.

The jobs of a pass are partitioned into shares (`dhsic.runtime.partition`), one per task. A
`TaskAttempt`, called `flight` in the code, tracks the copies of the task of a share. Failures of a
share, and how they are handled:

- Its worker dies, the scheduler restarts, or its result is lost: the share is submitted again, at
  most `ATTEMPTS` times.
- It takes far longer than other shares: a copy of it runs on another worker (`Cluster.avoid`).
- Its task fails: a `DhsicError` is raised at once. After any other error the task is retried on
  other workers; if it fails there too, the first error is raised.
- It kills several workers in turn, or a worker runs out of memory: the share is split into parts of
  a few jobs each, which run one after the other. A single job that is too large is halved if the
  caller concatenates results (`map_blocks`); after `HALVINGS` halvings an error about memory is
  raised.

Tasks depend only on their arguments, so every copy returns the same bits. Sums and values that
stay on workers are maps too (`dhsic.runtime.worker_state`).

Dask notices a worker that hangs only after minutes (its ``worker-ttl``); until then the worker
looks idle and receives more tasks. Here a worker is *avoided* as soon as one of its shares takes
far longer than other shares of the same map, or the scheduler receives no heartbeat from it. A copy
of the share then runs on another worker, and the first result is used.
"""

from __future__ import annotations

import time
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from dask.base import annotate
from dask.sizeof import sizeof
from distributed import CancelledError, Future, KilledWorker

from dhsic.errors import ClusterError, DhsicError
from dhsic.runtime.base import Jobs, Task
from dhsic.runtime.broadcast import Broadcast, Parcel, StateUnreachableError, fetched
from dhsic.runtime.calls import sealed
from dhsic.runtime.cluster import Cluster
from dhsic.runtime.partition import n_values
from dhsic.runtime.task_attempt import TaskAttempt, Traffic, await_futures, patience
from dhsic.runtime.worker import WHERE, Share, SharedOut, run, versions
from dhsic.sources import AbstractSource

ATTEMPTS = 5  # attempts to get a result that is lost with its worker; failed tasks: see TRIES
TRIES = 3  # workers on which a task may fail before its error is raised
HALVINGS = 2  # how often a job is halved if workers run out of memory
PATIENCE = 10.0  # seconds to fetch a result from its worker
LOOK = 2.0  # seconds between checks of the cluster while waiting for a result
LANDING = 60.0  # seconds to wait for other jobs to finish before a job runs alone
RECOUNT = 2.0  # seconds between counts of the workers while jobs are submitted


class Map:
    """Ordered map of the function `task` over the jobs of one pass.

    `sent` is the broadcast of the source, `state` the broadcast of the state. If the map is
    `divisible`, a job that needs too much memory may be halved. Each half of its blocks then has
    its own result.
    """

    def __init__(
        self,
        runtime: Cluster,
        task: Task,
        source: AbstractSource,
        sent: Broadcast,
        state: Broadcast,
        *,
        divisible: bool = False,
    ) -> None:
        self._runtime, self._task, self._source = runtime, task, source
        self._sent, self._state = sent, state
        self._divisible = divisible
        # Dask estimates the duration of tasks from the prefix of their key.
        self._name = getattr(task, "__name__", type(task).__name__).strip("_<>").replace("_", "-")
        self._key = runtime.unique(self._name)
        self._pending: deque[TaskAttempt] = deque()
        self._took: list[float] = []  # seconds per job in finished shares
        self._at_hand: dict[Any, Any] = {}  # results fetched before they are needed, by key
        self._has_copies = False
        self.traffic = Traffic(is_sum=False, n_jobs=0, n_values=0)

    def results(self, jobs: Jobs) -> Iterator[Any]:
        """Yield the results in the order of the jobs."""
        for _, results in self._landed(self._flights(jobs)):
            yield from results
        self._tidy()

    def _flights(self, jobs: Jobs) -> list[TaskAttempt]:
        """Partition the jobs into tasks, each with its preferred worker."""
        self.traffic.n_jobs, self.traffic.n_values = len(jobs), n_values(self._source, jobs)
        return [
            TaskAttempt(self._share(jobs, share_range), f"{self._key}-{i}", worker)
            for i, (worker, share_range) in enumerate(self._runtime.shares(self._source, jobs))
        ]

    def _landed(self, waiting: list[TaskAttempt]) -> Iterator[tuple[TaskAttempt, Any]]:
        """Submit tasks, a bounded number at a time.

        Yields (task, result) pairs in order.
        """
        runtime, counted = self._runtime, time.monotonic()
        of_jobs = self._source.pieces(()) is not None
        try:
            while waiting or self._pending:
                n_free = max(runtime.window(of_jobs=of_jobs) - len(self._pending), 0)
                self._begin(waiting[:n_free])
                del waiting[:n_free]
                yield from self._take(self._pending.popleft())
                # Count new workers: an adaptive cluster grows with its tasks, so the window grows.
                if waiting and time.monotonic() - counted > RECOUNT:
                    runtime.await_workers()
                    counted = time.monotonic()
        finally:
            for flight in self._pending:
                flight.release()

    def _share(self, jobs: Jobs, some: range) -> SharedOut:
        return Share(self._task, tuple(jobs[some.start : some.stop]), some.start, len(jobs))

    def _begin(self, flights: Sequence[TaskAttempt]) -> None:
        """Submit tasks: tasks with a preferred worker in one graph, others one by one."""
        self._pending.extend(flights)
        placed = [flight for flight in flights if flight.worker is not None]
        if placed:
            self._submit(*placed)
        for flight in flights:
            if flight.worker is None:
                self._submit(flight)

    def _tidy(self) -> None:
        """Remove result files of copies of tasks whose results were not used."""
        for path in self._of_copies():
            path.unlink(missing_ok=True)

    def _of_copies(self) -> Iterator[Path]:
        """Yield the remaining result files of this map, if a task was submitted repeatedly."""
        if self._has_copies:
            yield from self._runtime.folder.glob(f"result-{self._key}-*.pkl")

    def _submit(self, *flights: TaskAttempt) -> None:
        """Submit one copy of each task, all in one graph, which halves the scheduler's time.

        Workers that are avoided, and workers on which the task failed, are excluded. The first copy
        goes to the preferred worker if it is still connected.
        """
        runtime = self._runtime
        if runtime.client.status != "running":
            runtime.await_workers()
        descriptions, places, loose = {}, {}, set()
        for flight in flights:
            key = flight.next_key()
            allowed = runtime.workers_for(flight.failed_on)
            if allowed is None and flight.worker is not None and flight.n_submitted == 1:
                is_there = flight.worker in runtime.threads
                allowed = [flight.worker] if is_there else [*runtime.threads]
                loose.add(key)
            if allowed is not None:
                places[key] = allowed
            flight.tied_to = frozenset(allowed or ())
            descriptions[key] = self._description(flight)
        annotations: dict[str, Any] = {"dhsic": descriptions.get, "span": runtime.span}
        if places:
            annotations |= {"workers": places.get, "allow_other_workers": loose.__contains__}
        futures = self._hand_in(flights, [*descriptions], annotations)
        for flight, future in zip(flights, futures, strict=True):
            self._has_copies |= flight.n_submitted > 1
            flight.since = time.monotonic()
            future.add_done_callback(partial(self._note, flight.since, flight.share.size))
            flight.copies.append(future)
        self.traffic.n_tasks += len(flights)

    def _hand_in(
        self, flights: Sequence[TaskAttempt], keys: list[str], told: dict[str, Any]
    ) -> list[Future[Any]]:
        """Submit one copy of each task, with Dask annotations `told`; return the futures."""
        lazy = self._source.pieces(flights[0].blocks)  # a lazy source has one share per call
        pieces = () if lazy is None else self._runtime.client.compute(list(lazy))
        source, source_bytes = self._sent.arguments()
        state, state_bytes = self._state.arguments()
        seals = [
            sealed(run, flight.share, versions(), source, state, self._shelf_for(flight))
            for flight in flights
        ]
        arguments = [[one] * len(seals) for one in (source_bytes, state_bytes, *pieces)]
        with annotate(**told):
            return self._ask(seals, arguments, keys)

    def _shelf_for(self, flight: TaskAttempt) -> tuple[str, str] | None:
        del flight
        return self._shelf

    def _ask(
        self, seals: list[tuple[Any, bytes]], given: Iterable[Sequence[Any]], keys: list[str]
    ) -> list[Future[Any]]:
        """Submit one task for each sealed call; `given` contains lists of further arguments."""
        calls, data = zip(*seals, strict=True)
        self.traffic.sent += sum(map(len, data))
        with warnings.catch_warnings():  # wide data make large graphs
            warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
            return list(self._runtime.client.map(calls[0], data, *given, key=keys, pure=False))

    @property
    def _shelf(self) -> tuple[str, str] | None:
        runtime = self._runtime
        return (str(runtime.folder), self._key) if runtime.workers_see_folder else None

    def _description(self, flight: TaskAttempt) -> dict[str, Any]:
        """Annotation of a task, shown in Dask's dashboard and cluster dumps."""
        return {
            "task": self._name,
            "features": flight.features,
            "attempt": flight.n_submitted,
            "n_jobs": self.traffic.n_jobs,
        }

    def _note(self, begun: float, size: int, future: Future[Any]) -> None:
        if future.status == "finished":
            self._took.append((time.monotonic() - begun) / size)

    def _take(self, flight: TaskAttempt, halvings: int = 0) -> Iterator[tuple[TaskAttempt, Any]]:
        """Yield the result of a task; after a memory error, run its jobs alone and in small groups.

        A single job that needs too much memory is halved if the map is `divisible`. `halvings` is
        the number of times that it has been halved already.
        """
        try:
            result = self._outcome(flight)
        except DhsicError:
            raise
        except (KilledWorker, MemoryError) as error:
            parts: Sequence[SharedOut] = flight.share.parts(divisible=self._divisible)
            halvings += len(flight.share.jobs) == 1
            if halvings > HALVINGS or (flight.share.is_alone and len(parts) == 1):
                raise ClusterError(memory_sentence(flight, error)) from error
            if running_copies := [copy for other in self._pending for copy in other.copies]:
                await_futures(running_copies, LANDING)
            for number, part in enumerate(parts):
                self._submit(alone := TaskAttempt(part, f"{flight.key}-part{number}"))
                yield from self._take(alone, halvings)
        else:
            yield flight, result

    def _outcome(self, flight: TaskAttempt) -> Any:
        """Return the result of a task; submit it again after losses and failures."""
        while True:
            try:
                result = self._await(flight)
            except CancelledError as error:  # connection lost, scheduler restarted, data gone
                self._lost(flight, error)
            except StateUnreachableError as error:
                self._give_up_files()
                self._lost(flight, error)
            except (DhsicError, KilledWorker, MemoryError):
                raise
            except Exception as error:
                self._failed(flight, error)
            else:
                flight.release()
                return result
            self._submit(flight)

    def _give_up_files(self) -> None:
        self._runtime.workers_see_folder = False
        for broadcast in self._broadcasts():
            broadcast.give_up_file()

    def _broadcasts(self) -> Iterable[Broadcast]:
        return self._sent, self._state

    def _lost(self, flight: TaskAttempt, error: Exception) -> None:
        """Prepare another attempt after a lost result; ClusterError after `ATTEMPTS` losses."""
        flight.release()
        flight.n_lost += 1
        if flight.n_lost == ATTEMPTS:
            raise unstable(f"The result for {flight}", error) from error
        self._runtime.await_workers()

    def _failed(self, flight: TaskAttempt, error: Exception) -> None:
        """Prepare a retry on another worker; raise the first error after `TRIES` workers."""
        flight.release()
        flight.errors.append(error)
        if (where := getattr(error, WHERE, None)) is not None:
            flight.failed_on.add(where)
        if len(flight.errors) == TRIES or set(self._runtime.workers()) <= flight.failed_on:
            raise flight.errors[0]

    def _await(self, flight: TaskAttempt) -> Any:
        """Return the first result of any copy of a task; submit another copy if it is late."""
        while True:
            late = patience(self._took, flight.share.size) * 2 ** (flight.n_submitted - 1)
            due = flight.since + late
            ended = flight.wait(min(LOOK, max(due - time.monotonic(), 0.05)))
            if ended is None:
                self._runtime.await_workers()
                if self._is_stuck(flight):
                    raise CancelledError("its workers are gone")
                if time.monotonic() > due:
                    self._look_after(flight)
                continue
            try:
                return self._brought(flight, ended)
            except CancelledError:
                flight.copies.remove(ended)
                ended.release()
                if not flight.copies:
                    raise

    def _brought(self, flight: TaskAttempt, ended: Future[Any]) -> Any:
        """Return the result of the first copy of a task that finished; `ended` is its future."""
        del flight
        return self._result(ended)

    def _is_stuck(self, flight: TaskAttempt) -> bool:
        """Whether a task waits for workers that have left, although other workers could run it.

        A scheduler without workers never assigns a task that prefers one worker, even loosely, to
        workers that join later (dask/distributed #8320).
        """
        runtime, keys = self._runtime, [str(task.key) for task in flight.tasks]
        is_tied = flight.tied_to and flight.tied_to.isdisjoint(runtime.threads)
        return bool(is_tied) and not runtime.running(keys)

    def _result(self, future: Future[Any]) -> Any:
        try:
            result = self._at_hand.pop(future.key, None)
            result = self._gather(future) if result is None else result
        except OSError as error:  # TimeoutError is one
            if future.status == "error":  # raised by the task itself
                raise
            runtime = self._runtime  # do not wait for worker-ttl
            runtime.avoid(runtime.workers_of(future) | runtime.silent_workers())
            raise CancelledError("its worker does not answer") from error
        return self._opened(result)

    def _opened(self, found: Any) -> Any:
        """Return the result of a task.

        If the worker wrote it to a file (a parcel), the file is read.
        """
        is_parcel = isinstance(found, Parcel) and found.path is not None
        self.traffic.got += found.n_bytes if is_parcel else sizeof(found)
        return fetched(found)

    def _gather(self, future: Future[Any]) -> Any:
        """Fetch a result, together with the results of all other finished tasks."""
        ended = [copy for flight in self._pending for copy in flight.copies]
        ended = [copy for copy in ended if copy.status == "finished"]
        if future.status == "finished" and ended:
            futures = [future, *ended]
            with suppress(Exception):  # on failure, fetch one at a time to find the error
                keys = (copy.key for copy in futures)
                self._at_hand |= zip(keys, self._fetched(futures), strict=True)
                return self._at_hand.pop(future.key)
        if future.status == "finished":
            return self._fetched([future])[0]
        return future.result(timeout=PATIENCE)  # raises the error

    def _fetched(self, futures: Sequence[Future[Any]]) -> list[Any]:
        client = self._runtime.client
        ask = partial(client.gather, futures, asynchronous=True)
        return list(client.sync(ask, callback_timeout=PATIENCE))

    def _look_after(self, flight: TaskAttempt) -> None:
        """Submit a copy of a late task to another worker if its own worker is slow or silent."""
        runtime = self._runtime
        flight.since = time.monotonic()
        silent, its_own = runtime.silent_workers(), runtime.workers_of(*flight.tasks)
        runtime.avoid(silent)
        if self._took:
            runtime.avoid(its_own)
        elif its_own and not its_own <= silent:
            return  # no duration is known yet, and the worker responds
        if set(runtime.workers()) - runtime.avoided:
            for broadcast in self._broadcasts():  # the worker that hangs may hold their bytes
                broadcast.renew()
            self._submit(flight)


def unstable(what: str, error: Exception) -> ClusterError:
    """Return the error for a task that lost its result `ATTEMPTS` times."""
    return ClusterError(
        f"{what} was lost {ATTEMPTS} times ({error}). The cluster is not stable: check its logs, "
        "then resume from the checkpoint."
    )


def memory_sentence(what: object, error: KilledWorker | MemoryError) -> str:
    """Return the error text for work that exceeds the memory of workers."""
    advice = (
        "Give workers more memory or fewer threads, or pass a smaller memory_limit= to get smaller "
        "blocks."
    )
    if isinstance(error, MemoryError):
        where = getattr(error, WHERE, "a worker")
        return f"The memory of {where} is too small for {what} alone ({error}). {advice}"
    return (
        f"{error.allowed_failures + 1} workers in a row died while they ran {what} alone; "
        f"the last was {error.last_worker.address}. Most likely they ran out of memory. {advice}"
    )

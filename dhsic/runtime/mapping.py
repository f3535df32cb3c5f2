"""One map in flight on a cluster: jobs handed in within a window, results taken in their order.

What can happen to a job, and what is done about it:

- its worker dies, the scheduler restarts, its result is lost: it runs again, `ATTEMPTS` times;
- it takes far longer than others did: a copy of it runs on another worker (`DaskRuntime.avoid`);
- its task fails: an error that dhsic raised on purpose is raised at once, any other is tried on
  other workers first, and raised as it was at first if it comes again there;
- workers die of it one after the other, or have no memory for it: it runs alone, in halves if its
  results are to be put one after the other, and after `HALVINGS` the error tells of memory.

Tasks depend on nothing but their arguments, so whichever copy counts brings the same bits.

A worker that hangs is not lost to Dask for minutes (its ``worker-ttl``), and looks idle meanwhile,
so that it is given more. Here it is *avoided* as soon as a job of its takes far longer than others
of the same map did, or as the scheduler hears nothing of it; the job goes to another worker too,
and the first result counts.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any, Literal

import distributed
from dask.base import annotate
from distributed import CancelledError, Future, KilledWorker

from dhsic.errors import ClusterError, DhsicError
from dhsic.runtime import sealed
from dhsic.runtime.base import Job, Task
from dhsic.runtime.worker import WHERE, Broadcast, StateUnreachableError, fetched, run, versions
from dhsic.sources import AbstractSource

if TYPE_CHECKING:
    from dhsic.runtime.dask import DaskRuntime

ATTEMPTS = 5  # of a job whose result was lost, not whose task failed
TRIES = 3  # workers on which a task may fail before its error is raised
HALVINGS = 2  # of a job that workers die of
PATIENCE = 10.0  # seconds between looks at the cluster while a result is awaited
LANDING = 60.0  # seconds that other jobs get to end before one runs alone
RECOUNT = 2.0  # seconds between counts of the workers while jobs are handed in
TIMES_MEDIAN = 4.0  # a job that takes so many times as long as others did is late
KNOWN = 3  # others that must have ended for that
NEVER_BEFORE = 10.0  # seconds before which no job is late: copies of short jobs cost more
SILENT = 5.0  # seconds behind the others after which a worker does not answer
ENDED = ("finished", "error", "cancelled")  # the first that is found counts


def await_futures(
    futures: list[Future[Any]],
    seconds: float,
    until: Literal["ALL_COMPLETED", "FIRST_COMPLETED"] = "ALL_COMPLETED",
) -> None:
    """Wait for futures of one client, at most so many seconds."""
    with futures[0].client.as_current(), suppress(TimeoutError, CancelledError):
        distributed.wait(futures, timeout=seconds, return_when=until)


@dataclass(eq=False, slots=True)
class Flight:
    """A job, the futures of its copies, and what went wrong with it so far."""

    job: Job
    key: str  # of the first copy, and the beginning of those of the others
    #: Those of the submitted ones that may still bring the result.
    copies: list[Future[Any]] = field(default_factory=list)
    n_submitted: int = 0
    since: float = 0.0  # when the last one was submitted, or looked for
    n_lost: int = 0  # times that all copies were lost, which is no fault of the job
    errors: list[Exception] = field(default_factory=list)  # of the task, in that order,
    failed_on: set[str] = field(default_factory=set)  # and on which workers

    def wait(self, seconds: float) -> Future[Any] | None:
        """Return the copy that counts, None where none has ended after so many seconds."""
        ended = self._ended()
        if ended is None and self.copies:
            await_futures(self.copies, seconds, "FIRST_COMPLETED")
            ended = self._ended()
        return ended

    def _ended(self) -> Future[Any] | None:
        found = [copy for copy in self.copies if copy.status in ENDED]
        return min(found, key=lambda copy: ENDED.index(copy.status), default=None)

    def release(self) -> None:
        """No copy is needed any more; those that have not begun will not."""
        while self.copies:
            self.copies.pop().release()

    def __str__(self) -> str:
        blocks = self.job.blocks
        return f"features {blocks[0].start} to {blocks[-1].stop}" if blocks else "a job"


def patience(took: Sequence[float]) -> float:
    """Seconds after which a job is late, or looked after, when others took so long.

    Examples
    --------
    >>> patience([20.0, 30.0, 40.0]), patience([0.1, 0.1, 0.2]), patience([])
    (120.0, 10.0, 10.0)
    """
    known = TIMES_MEDIAN * median(took) if len(took) >= KNOWN else 0.0
    return max(known, NEVER_BEFORE)


def silent(last_seen: Mapping[str, float]) -> set[str]:
    """Workers whose last word came long before that of others, by the scheduler's clock.

    Examples
    --------
    >>> silent({"tcp://a": 100.0, "tcp://b": 112.5, "tcp://c": 112.1})
    {'tcp://a'}
    """
    newest = max(last_seen.values(), default=0.0)
    return {worker for worker, seen in last_seen.items() if seen < newest - SILENT}


class Map:
    """A map in flight: `sent` and `state` are the source and the state as workers get them.

    Where `divisible` the result of a job may come in parts, one for each half of its blocks.
    """

    def __init__(
        self,
        runtime: DaskRuntime,
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
        # Dask learns how long tasks take by the letters at the front of their key.
        self._name = getattr(task, "__name__", "task").strip("_<>").replace("_", "-")
        self._key = runtime.unique(self._name)
        self._pending: deque[Flight] = deque()
        self._took: list[float] = []  # seconds, of jobs that have ended
        self._n_jobs = 0
        self._has_copies = False

    def results(self, jobs: Sequence[Job]) -> Iterator[Any]:
        """Results in the order of the jobs."""
        self._n_jobs = len(jobs)
        counted = time.monotonic()
        try:
            for i, job in enumerate(jobs):
                while len(self._pending) >= self._runtime.window:
                    yield from self._take(self._pending.popleft())
                    # Workers that came widen it: an adaptive cluster grows by what it sees.
                    if time.monotonic() - counted > RECOUNT:
                        self._runtime.await_workers()
                        counted = time.monotonic()
                self._pending.append(self._submit(Flight(job, f"{self._key}-{i}")))
            while self._pending:
                yield from self._take(self._pending.popleft())
        finally:
            for flight in self._pending:
                flight.release()
        if self._has_copies:  # large results of those that were second, which nobody took
            for path in self._runtime.folder.glob(f"result-{self._key}-*.pkl"):
                path.unlink(missing_ok=True)

    def _submit(self, flight: Flight) -> Flight:
        """Hand in a copy of the job, to workers that are not avoided and have not failed at it."""
        runtime = self._runtime
        if runtime.client.status != "running":
            runtime.await_workers()
        lazy = self._source.pieces(flight.job.blocks)
        pieces = () if lazy is None else runtime.client.compute(list(lazy))
        source, source_bytes = self._sent.arguments()
        state, state_bytes = self._state.arguments()
        shelf = (str(runtime.folder), self._key) if runtime.workers_see_folder else None
        flight.n_submitted += 1
        n = flight.n_submitted  # a key that was used keeps its old task on the scheduler
        with annotate(dhsic=self._description(flight), span=runtime.span):
            future = runtime.client.submit(
                *sealed(run, self._task, flight.job, versions(), source, state, shelf),
                source_bytes,
                state_bytes,
                *pieces,
                key=flight.key if n == 1 else f"{flight.key}-{n}",
                pure=False,
                workers=runtime.workers_for(flight.failed_on),
            )
        flight.since = time.monotonic()
        future.add_done_callback(partial(self._note, flight.since))
        flight.copies.append(future)
        self._has_copies |= n > 1
        return flight

    def _description(self, flight: Flight) -> dict[str, Any]:
        """What the dashboard and a dump of the cluster tell of a task."""
        blocks = flight.job.blocks
        return {
            "task": self._name,
            "features": (blocks[0].start, blocks[-1].stop) if blocks else None,
            "attempt": flight.n_submitted,
            "n_jobs": self._n_jobs,
        }

    def _note(self, begun: float, future: Future[Any]) -> None:
        if future.status == "finished":
            self._took.append(time.monotonic() - begun)

    def _take(self, flight: Flight, halvings: int = 0) -> Iterator[Any]:
        """Result of a job; where it was too much, run alone, and in halves that may be joined."""
        try:
            result = self._outcome(flight)
        except DhsicError:
            raise
        except (KilledWorker, MemoryError) as error:
            parts = _halves(flight.job) if self._divisible else (flight.job,)
            if halvings == HALVINGS or (halvings and len(parts) == 1):
                raise ClusterError(_memory_sentence(flight, error)) from error
            if others := [copy for other in self._pending for copy in other.copies]:
                await_futures(others, LANDING)
            for part, letter in zip(parts, "ab", strict=False):
                alone = self._submit(Flight(part, f"{flight.key}-{letter}"))
                yield from self._take(alone, halvings + 1)
        else:
            yield result

    def _outcome(self, flight: Flight) -> Any:
        """Return the result of a job, handing it in again as often as that may help."""
        while True:
            try:
                result = fetched(self._await(flight))
            except CancelledError as error:  # connection lost, scheduler restarted, data gone
                self._lost(flight, error)
            except StateUnreachableError as error:
                self._runtime.workers_see_folder = False
                self._sent.give_up_file()
                self._state.give_up_file()
                self._lost(flight, error)
            except (DhsicError, KilledWorker, MemoryError):
                raise
            except Exception as error:
                self._failed(flight, error)
            else:
                flight.release()
                return result
            self._submit(flight)

    def _lost(self, flight: Flight, error: Exception) -> None:
        """Make ready for another attempt, unless there were enough."""
        flight.release()
        flight.n_lost += 1
        if flight.n_lost == ATTEMPTS:
            raise ClusterError(
                f"The result for {flight} was lost {ATTEMPTS} times ({error}). The "
                "cluster is not stable: look at its logs, then go on from the checkpoint."
            ) from error
        self._runtime.await_workers()

    def _failed(self, flight: Flight, error: Exception) -> None:
        """Make ready for another worker, unless it failed on enough of them: then raise."""
        flight.release()
        flight.errors.append(error)
        if (where := getattr(error, WHERE, None)) is not None:
            flight.failed_on.add(where)
        if len(flight.errors) == TRIES or set(self._runtime.workers()) <= flight.failed_on:
            raise flight.errors[0]

    def _await(self, flight: Flight) -> Any:
        """Return the first result of the copies of a job; a job that is late gets another copy."""
        while True:
            due = flight.since + patience(self._took) * 2 ** (flight.n_submitted - 1)
            ended = flight.wait(min(PATIENCE, max(due - time.monotonic(), 0.05)))
            if ended is None:
                self._runtime.await_workers()
                if time.monotonic() > due:
                    self._look_after(flight)
                continue
            try:
                return self._result(ended)
            except CancelledError:
                flight.copies.remove(ended)
                ended.release()
                if not flight.copies:
                    raise

    def _result(self, future: Future[Any]) -> Any:
        try:
            return future.result(timeout=PATIENCE)
        except OSError as error:  # TimeoutError is one
            if future.status == "error":  # the task's own
                raise
            runtime = self._runtime  # do not wait for worker-ttl
            runtime.avoid(runtime.workers_of(future) | runtime.silent_workers())
            raise CancelledError("its worker does not answer") from error

    def _look_after(self, flight: Flight) -> None:
        """Have a job run on another worker too, if its own is slow or silent, and there is one."""
        runtime = self._runtime
        flight.since = time.monotonic()
        silent, its_own = runtime.silent_workers(), runtime.workers_of(*flight.copies)
        runtime.avoid(silent)
        if len(self._took) >= KNOWN:
            runtime.avoid(its_own)
        elif its_own and not its_own <= silent:
            return  # jobs of this map may well take that long
        if set(runtime.workers()) - runtime.avoided:
            for broadcast in (self._sent, self._state):  # who has its bytes may be who hangs
                broadcast.renew()
            self._submit(flight)


def _halves(job: Job) -> tuple[Job, ...]:
    """The blocks of a job in two jobs; the job itself where that cannot be."""
    n = len(job.blocks)
    if n < 2 or not isinstance(job.payload, tuple) or len(job.payload) != n:
        return (job,)
    return tuple(Job(job.blocks[s], job.payload[s]) for s in (slice(n // 2), slice(n // 2, n)))


def _memory_sentence(flight: Flight, error: KilledWorker | MemoryError) -> str:
    advice = (
        "Give workers more memory or fewer threads, or pass a smaller memory= so that blocks are "
        "narrower."
    )
    if isinstance(error, MemoryError):
        where = getattr(error, WHERE, "a worker")
        return f"Memory of {where} was not enough for {flight} alone ({error}). {advice}"
    return (
        f"{error.allowed_failures + 1} workers in a row died while they ran {flight} alone; "
        f"the last was {error.last_worker.address}. Most likely they ran out of memory. {advice}"
    )

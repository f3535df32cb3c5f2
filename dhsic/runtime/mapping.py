"""One map in flight on a cluster: jobs handed in within a window, results taken in their order.

What can happen to a job, and what is done about it:

- its worker dies, the scheduler restarts, its result is lost: it runs again, `ATTEMPTS` times;
- it takes far longer than others did: a copy of it runs on another worker (`watching.py`);
- its task fails: an error that dhsic raised on purpose is raised at once, any other is tried on
  other workers first, and raised as it was at first if it comes again there;
- workers die of it one after the other, or have no memory for it: it runs alone, in halves if its
  results are to be put one after the other, and after `HALVINGS` the error tells of memory.

Tasks depend on nothing but their arguments, so whichever copy counts brings the same bits.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from dask.base import annotate
from distributed import CancelledError, Future, KilledWorker

from dhsic.errors import ClusterError, DhsicError
from dhsic.runtime.base import Job, Task
from dhsic.runtime.broadcast import Broadcast, StateUnreachableError, fetched
from dhsic.runtime.flight import Flight, await_futures, is_known, patience
from dhsic.runtime.worker import WHERE, run, versions
from dhsic.sources.base import AbstractSource

if TYPE_CHECKING:
    from dhsic.runtime.dask import DaskRuntime

ATTEMPTS = 5  # of a job whose result was lost, not whose task failed
TRIES = 3  # workers on which a task may fail before its error is raised
HALVINGS = 2  # of a job that workers die of
PATIENCE = 10.0  # seconds between looks at the cluster while a result is awaited
LANDING = 60.0  # seconds that other jobs get to end before one runs alone
RECOUNT = 2.0  # seconds between counts of the workers while jobs are handed in


class Map:
    """Jobs, and how each is to be run.

    Parameters
    ----------
    runtime : DaskRuntime
        Whose client, window and watch are used.
    task : callable
        Runs on workers.
    source : AbstractSource
        What it reads.
    sent, state : Broadcast
        The source and the state, as workers get them.
    divisible : bool
        The result of a job may come in parts, one for each half of its blocks.
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
        self._runtime = runtime
        self._task = task
        self._source = source
        self._sent = sent
        self._state = state
        self._divisible = divisible
        # Dask learns how long tasks take by the letters at the front of their key.
        self._name = getattr(task, "__name__", "task").strip("_<>").replace("_", "-")
        self._key = runtime.unique(self._name)
        self._pending: deque[Flight] = deque()
        self._took: list[float] = []  # seconds, of jobs that have ended
        self._counted = time.monotonic()
        self._n_jobs = 0
        self._has_copies = False

    def results(self, jobs: Sequence[Job]) -> Iterator[Any]:
        """Results in the order of the jobs."""
        self._n_jobs = len(jobs)
        try:
            for i, job in enumerate(jobs):
                self._recount()
                while len(self._pending) >= self._runtime.window:
                    yield from self._take(self._pending.popleft())
                    self._recount()
                self._pending.append(self._launch(job, f"{self._key}-{i}"))
            while self._pending:
                yield from self._take(self._pending.popleft())
        finally:
            while self._pending:
                self._pending.popleft().release()
        self._sweep()

    def _recount(self) -> None:
        """Widen the window for workers that came: an adaptive cluster grows by what it sees."""
        if time.monotonic() - self._counted > RECOUNT:
            self._runtime.await_workers()
            self._counted = time.monotonic()

    def _sweep(self) -> None:
        """Remove large results that nobody took, of copies that were second."""
        if not self._has_copies:
            return
        for path in self._runtime.folder.glob(f"result-{self._key}-*.pkl"):
            path.unlink(missing_ok=True)

    def _launch(self, job: Job, key: str) -> Flight:
        flight = Flight(job, key)
        self._submit(flight)
        return flight

    def _submit(self, flight: Flight) -> None:
        """Hand in a copy of the job, to workers that are not avoided and have not failed at it."""
        runtime = self._runtime
        if runtime.client.status != "running":
            runtime.await_workers()
        lazy = self._source.pieces(flight.job.blocks)
        pieces = () if lazy is None else runtime.client.compute(list(lazy))
        source, source_bytes = self._sent.arguments()
        state, state_bytes = self._state.arguments()
        with annotate(dhsic=self._description(flight), span=runtime.span):
            future = runtime.client.submit(
                run,
                self._task,
                flight.job,
                versions(),
                source,
                state,
                source_bytes,
                state_bytes,
                (str(runtime.folder), self._key) if runtime.workers_see_folder else None,
                *pieces,
                key=flight.next_key(),
                pure=False,
                workers=runtime.workers_for(flight.failed_on),
            )
        future.add_done_callback(partial(self._note, time.monotonic()))
        flight.add(future)
        self._has_copies |= flight.submitted > 1

    def _description(self, flight: Flight) -> dict[str, Any]:
        """What the dashboard and a dump of the cluster tell of a task."""
        blocks = flight.job.blocks
        features = (blocks[0].start, blocks[-1].stop) if blocks else None
        return {
            "task": self._name,
            "features": features,
            "attempt": flight.submitted + 1,
            "n_jobs": self._n_jobs,
        }

    def _note(self, begun: float, future: Future[Any]) -> None:
        if future.status == "finished":
            self._took.append(time.monotonic() - begun)

    def _take(self, flight: Flight) -> Iterator[Any]:
        """Result of a job, in parts where workers died of the whole."""
        try:
            result = self._outcome(flight)
        except DhsicError:
            raise
        except (KilledWorker, MemoryError) as error:
            yield from self._apart(flight, error)
        else:
            yield result

    def _apart(
        self, flight: Flight, error: KilledWorker | MemoryError, halvings: int = 0
    ) -> Iterator[Any]:
        """Results of a job that was too much, run alone, and in halves where they may be joined."""
        parts = _halves(flight.job) if self._divisible else (flight.job,)
        if halvings == HALVINGS or (halvings and len(parts) == 1):
            raise ClusterError(_memory_sentence(flight.job, error)) from error
        self._let_others_land()
        for number, part in enumerate(parts):
            alone = self._launch(part, f"{flight.key}-{'ab'[number]}")
            try:
                result = self._outcome(alone)
            except DhsicError:
                raise
            except (KilledWorker, MemoryError) as again:
                yield from self._apart(alone, again, halvings + 1)
            else:
                yield result

    def _let_others_land(self) -> None:
        futures = [copy for flight in self._pending for copy in flight.copies]
        if futures:
            await_futures(futures, LANDING)

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
        flight.lost += 1
        if flight.lost == ATTEMPTS:
            raise ClusterError(
                f"The result for {_what(flight.job)} was lost {ATTEMPTS} times ({error}). The "
                "cluster is not stable: look at its logs, then go on from the checkpoint."
            ) from error
        self._runtime.await_workers()

    def _failed(self, flight: Flight, error: Exception) -> None:
        """Make ready for another worker, unless it failed on enough of them: then raise."""
        flight.release()
        flight.errors.append(error)
        where = getattr(error, WHERE, None)
        if where is not None:
            flight.failed_on.add(where)
        n_others = len(self._runtime.addresses() - flight.failed_on)
        if len(flight.errors) == TRIES or n_others == 0:
            raise flight.errors[0]

    def _await(self, flight: Flight) -> Any:
        """Return the first result of the copies of a job; a job that is late gets another copy."""
        while True:
            due = patience(self._took) * 2 ** (flight.submitted - 1)
            ended = flight.wait(min(PATIENCE, max(due - flight.waited, 0.05)))
            if ended is None:
                self._runtime.await_workers()
                if flight.waited > due:
                    self._look_after(flight)
                continue
            try:
                return self._result(ended)
            except CancelledError:
                flight.drop(ended)
                if not flight.copies:
                    raise

    def _result(self, future: Future[Any]) -> Any:
        try:
            return future.result(timeout=PATIENCE)
        except OSError as error:  # TimeoutError is one
            if future.status == "error":  # the task's own
                raise
            runtime = self._runtime  # do not wait for worker-ttl
            runtime.watch.avoid(runtime.workers_of(future) | runtime.silent_workers())
            raise CancelledError("its worker does not answer") from error

    def _look_after(self, flight: Flight) -> None:
        """Have a job run on another worker too, if its own is slow or silent, and there is one."""
        runtime = self._runtime
        flight.look_again()
        silent, its_own = runtime.silent_workers(), runtime.workers_of(*flight.copies)
        runtime.watch.avoid(silent)
        if is_known(self._took):
            runtime.watch.avoid(its_own)
        elif its_own and not its_own <= silent:
            return  # jobs of this map may well take that long
        if runtime.watch.others(runtime.addresses()):
            for broadcast in (self._sent, self._state):  # who has its bytes may be who hangs
                broadcast.renew()
            self._submit(flight)


def _halves(job: Job) -> tuple[Job, ...]:
    """The blocks of a job in two jobs; the job itself where that cannot be."""
    n = len(job.blocks)
    if n < 2 or not isinstance(job.payload, tuple) or len(job.payload) != n:
        return (job,)
    return tuple(Job(job.blocks[s], job.payload[s]) for s in (slice(n // 2), slice(n // 2, n)))


def _what(job: Job) -> str:
    return f"features {job.blocks[0].start} to {job.blocks[-1].stop}" if job.blocks else "a job"


def _memory_sentence(job: Job, error: KilledWorker | MemoryError) -> str:
    advice = (
        "Give workers more memory or fewer threads, or pass a smaller memory= so that blocks are "
        "narrower."
    )
    if isinstance(error, MemoryError):
        where = getattr(error, WHERE, "a worker")
        return f"Memory of {where} was not enough for {_what(job)} alone ({error}). {advice}"
    return (
        f"{error.allowed_failures + 1} workers in a row died while they ran {_what(job)} alone; "
        f"the last was {error.last_worker.address}. Most likely they ran out of memory. {advice}"
    )

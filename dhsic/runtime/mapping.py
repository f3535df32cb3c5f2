"""One map in flight on a cluster: shares handed in within a window, results taken in their order.

What can happen to a share, and what is done about it:

- its worker dies, the scheduler restarts, its result is lost: it is done again, `ATTEMPTS` times;
- it takes far longer than others did: a copy of it runs on another worker (`Cluster.avoid`);
- its task fails: an error that dhsic raised on purpose is raised at once, any other is tried on
  other workers first, and raised as it was at first if it comes again there;
- workers die of it one after the other, or have no memory for it: its jobs are done a few at a
  time, one after the other; a job that is too much by itself is halved if its results are to be put
  one after the other, and after `HALVINGS` the error tells of memory.

Tasks depend on nothing but their arguments, so whichever copy counts brings the same bits. Sums and
values that stay on workers are maps too (`dhsic.runtime.staying`).

A worker that hangs is not lost to Dask for minutes (its ``worker-ttl``), and looks idle meanwhile,
so that it is given more. Here it is *avoided* as soon as a share of its takes far longer than
others of the same map did, or as the scheduler hears nothing of it; the share goes to another
worker too, and the first result counts.
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
from dhsic.runtime.calls import sealed
from dhsic.runtime.cluster import Cluster
from dhsic.runtime.flight import Flight, Traffic, await_futures, patience
from dhsic.runtime.parcels import Broadcast, Parcel, StateUnreachableError, fetched
from dhsic.runtime.shares import n_values
from dhsic.runtime.worker import WHERE, Share, SharedOut, run, versions
from dhsic.sources import AbstractSource

ATTEMPTS = 5  # of a job whose result was lost, not whose task failed
TRIES = 3  # workers on which a task may fail before its error is raised
HALVINGS = 2  # of a job that workers die of
PATIENCE = 10.0  # seconds in which a result comes from its worker
LOOK = 2.0  # seconds between looks at the cluster while a result is awaited
LANDING = 60.0  # seconds that other jobs get to end before one runs alone
RECOUNT = 2.0  # seconds between counts of the workers while jobs are handed in


class Map:
    """A map in flight: `sent` and `state` are the source and the state as workers get them.

    Where `divisible` the result of a job may come in parts, one for each half of its blocks.
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
        # Dask learns how long tasks take by the letters at the front of their key.
        self._name = getattr(task, "__name__", type(task).__name__).strip("_<>").replace("_", "-")
        self._key = runtime.unique(self._name)
        self._pending: deque[Flight] = deque()
        self._took: list[float] = []  # seconds a job, of shares that have ended
        self._at_hand: dict[Any, Any] = {}  # results that came with others, by their keys
        self._has_copies = False
        self.traffic = Traffic(is_sum=False, n_jobs=0, n_values=0)

    def results(self, jobs: Jobs) -> Iterator[Any]:
        """Results in the order of the jobs."""
        for _, results in self._landed(self._flights(jobs)):
            yield from results
        self._tidy()

    def _flights(self, jobs: Jobs) -> list[Flight]:
        """Shares of the jobs, for their workers."""
        self.traffic.n_jobs, self.traffic.n_values = len(jobs), n_values(self._source, jobs)
        return [
            Flight(self._share(jobs, some), f"{self._key}-{i}", worker)
            for i, (worker, some) in enumerate(self._runtime.shares(self._source, jobs))
        ]

    def _landed(self, waiting: list[Flight]) -> Iterator[tuple[Flight, Any]]:
        """Shares and what they brought, in their order."""
        runtime, counted = self._runtime, time.monotonic()
        of_jobs = self._source.pieces(()) is not None
        try:
            while waiting or self._pending:
                room = max(runtime.window(of_jobs=of_jobs) - len(self._pending), 0)
                self._begin(waiting[:room])
                del waiting[:room]
                yield from self._take(self._pending.popleft())
                # Workers that came widen it: an adaptive cluster grows by what it sees.
                if waiting and time.monotonic() - counted > RECOUNT:
                    runtime.await_workers()
                    counted = time.monotonic()
        finally:
            for flight in self._pending:
                flight.release()

    def _share(self, jobs: Jobs, some: range) -> SharedOut:
        return Share(self._task, tuple(jobs[some.start : some.stop]), some.start, len(jobs))

    def _begin(self, flights: Sequence[Flight]) -> None:
        """Hand in shares: those that are for some worker together, others one by one."""
        self._pending.extend(flights)
        placed = [flight for flight in flights if flight.worker is not None]
        if placed:
            self._submit(*placed)
        for flight in flights:
            if flight.worker is None:
                self._submit(flight)

    def _tidy(self) -> None:
        """Remove large results of copies that were second, which nobody took."""
        for path in self._of_copies():
            path.unlink(missing_ok=True)

    def _of_copies(self) -> Iterator[Path]:
        """Large results that are left, where there are copies."""
        if self._has_copies:
            yield from self._runtime.folder.glob(f"result-{self._key}-*.pkl")

    def _submit(self, *flights: Flight) -> None:
        """Hand in a copy of each share: in one graph, which takes a scheduler half as long as many.

        They go to workers that are not avoided and have not failed at them: a first copy to the
        worker that it is for, where that is still there.
        """
        runtime = self._runtime
        if runtime.client.status != "running":
            runtime.await_workers()
        said, places, loose = {}, {}, set()
        for flight in flights:
            key = flight.next_key()
            where = runtime.workers_for(flight.failed_on)
            if where is None and flight.worker is not None and flight.n_submitted == 1:
                is_there = flight.worker in runtime.threads
                where = [flight.worker] if is_there else [*runtime.threads]
                loose.add(key)
            if where is not None:
                places[key] = where
            flight.tied_to = frozenset(where or ())
            said[key] = self._description(flight)
        told: dict[str, Any] = {"dhsic": said.get, "span": runtime.span}
        if places:
            told |= {"workers": places.get, "allow_other_workers": loose.__contains__}
        futures = self._hand_in(flights, [*said], told)
        for flight, future in zip(flights, futures, strict=True):
            self._has_copies |= flight.n_submitted > 1
            flight.since = time.monotonic()
            future.add_done_callback(partial(self._note, flight.since, flight.share.size))
            flight.copies.append(future)
        self.traffic.n_tasks += len(flights)

    def _hand_in(
        self, flights: Sequence[Flight], keys: list[str], told: dict[str, Any]
    ) -> list[Future[Any]]:
        """A task for each share, of which the cluster is told something."""
        lazy = self._source.pieces(flights[0].blocks)  # then there is but one
        pieces = () if lazy is None else self._runtime.client.compute(list(lazy))
        source, source_bytes = self._sent.arguments()
        state, state_bytes = self._state.arguments()
        seals = [
            sealed(run, flight.share, versions(), source, state, self._shelf_for(flight))
            for flight in flights
        ]
        given = [[one] * len(seals) for one in (source_bytes, state_bytes, *pieces)]
        with annotate(**told):
            return self._ask(seals, given, keys)

    def _shelf_for(self, flight: Flight) -> tuple[str, str] | None:
        del flight
        return self._shelf

    def _ask(
        self, seals: list[tuple[Any, bytes]], given: Iterable[Sequence[Any]], keys: list[str]
    ) -> list[Future[Any]]:
        """Tasks for the cluster: what is sealed for each, and what each is given besides."""
        calls, data = zip(*seals, strict=True)
        self.traffic.sent += sum(map(len, data))
        with warnings.catch_warnings():  # of many features much is to be said
            warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
            return list(self._runtime.client.map(calls[0], data, *given, key=keys, pure=False))

    @property
    def _shelf(self) -> tuple[str, str] | None:
        runtime = self._runtime
        return (str(runtime.folder), self._key) if runtime.workers_see_folder else None

    def _description(self, flight: Flight) -> dict[str, Any]:
        """What the dashboard and a dump of the cluster tell of a task."""
        return {
            "task": self._name,
            "features": flight.features,
            "attempt": flight.n_submitted,
            "n_jobs": self.traffic.n_jobs,
        }

    def _note(self, begun: float, size: int, future: Future[Any]) -> None:
        if future.status == "finished":
            self._took.append((time.monotonic() - begun) / size)

    def _take(self, flight: Flight, halvings: int = 0) -> Iterator[tuple[Flight, Any]]:
        """What a share brought; where it was too much, it is done alone, in parts.

        A job of it that is too much by itself is halved, if its parts may be put side by side.
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
            if others := [copy for other in self._pending for copy in other.copies]:
                await_futures(others, LANDING)
            for number, part in enumerate(parts):
                self._submit(alone := Flight(part, f"{flight.key}-part{number}"))
                yield from self._take(alone, halvings)
        else:
            yield flight, result

    def _outcome(self, flight: Flight) -> Any:
        """What a share brought, handing it in again as often as that may help."""
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

    def _lost(self, flight: Flight, error: Exception) -> None:
        """Make ready for another attempt, unless there were enough."""
        flight.release()
        flight.n_lost += 1
        if flight.n_lost == ATTEMPTS:
            raise unstable(f"The result for {flight}", error) from error
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
        """The first result of the copies of a share, which gets another copy if it is late."""
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

    def _brought(self, flight: Flight, ended: Future[Any]) -> Any:
        """What the copy of a share brought that ended first."""
        del flight
        return self._result(ended)

    def _is_stuck(self, flight: Flight) -> bool:
        """Whether a share waits for workers that will not come back, even if others would do.

        A scheduler that has no worker at all keeps what is tied to one, however loosely, from those
        that come (dask/distributed #8320).
        """
        runtime, keys = self._runtime, [str(task.key) for task in flight.tasks]
        is_tied = flight.tied_to and flight.tied_to.isdisjoint(runtime.threads)
        return bool(is_tied) and not runtime.running(keys)

    def _result(self, future: Future[Any]) -> Any:
        try:
            found = self._at_hand.pop(future.key, None)
            found = self._gathered(future) if found is None else found
        except OSError as error:  # TimeoutError is one
            if future.status == "error":  # the task's own
                raise
            runtime = self._runtime  # do not wait for worker-ttl
            runtime.avoid(runtime.workers_of(future) | runtime.silent_workers())
            raise CancelledError("its worker does not answer") from error
        return self._opened(found)

    def _opened(self, found: Any) -> Any:
        """A result, here, where it may have been left in a file."""
        is_parcel = isinstance(found, Parcel) and found.path is not None
        self.traffic.got += found.n_bytes if is_parcel else sizeof(found)
        return fetched(found)

    def _gathered(self, future: Future[Any]) -> Any:
        """A result, and at one go those of the shares that have ended besides."""
        ended = [copy for flight in self._pending for copy in flight.copies]
        ended = [copy for copy in ended if copy.status == "finished"]
        if future.status == "finished" and ended:
            wanted = [future, *ended]
            with suppress(Exception):  # then one at a time, to see whose it is
                keys = (copy.key for copy in wanted)
                self._at_hand |= zip(keys, self._fetched(wanted), strict=True)
                return self._at_hand.pop(future.key)
        if future.status == "finished":
            return self._fetched([future])[0]
        return future.result(timeout=PATIENCE)  # what went wrong

    def _fetched(self, futures: Sequence[Future[Any]]) -> list[Any]:
        client = self._runtime.client
        ask = partial(client.gather, futures, asynchronous=True)
        return list(client.sync(ask, callback_timeout=PATIENCE))

    def _look_after(self, flight: Flight) -> None:
        """Have a share done by another worker too, if its own is slow or silent."""
        runtime = self._runtime
        flight.since = time.monotonic()
        silent, its_own = runtime.silent_workers(), runtime.workers_of(*flight.tasks)
        runtime.avoid(silent)
        if self._took:
            runtime.avoid(its_own)
        elif its_own and not its_own <= silent:
            return  # shares of this map may well take that long
        if set(runtime.workers()) - runtime.avoided:
            for broadcast in self._broadcasts():  # who has its bytes may be who hangs
                broadcast.renew()
            self._submit(flight)


def unstable(what: str, error: Exception) -> ClusterError:
    """Error where something was lost again and again."""
    return ClusterError(
        f"{what} was lost {ATTEMPTS} times ({error}). The cluster is not stable: look at its logs, "
        "then go on from the checkpoint."
    )


def memory_sentence(what: object, error: KilledWorker | MemoryError) -> str:
    """What is said where workers have too little memory for something."""
    advice = (
        "Give workers more memory or fewer threads, or pass a smaller memory= so that blocks are "
        "narrower."
    )
    if isinstance(error, MemoryError):
        where = getattr(error, WHERE, "a worker")
        return f"Memory of {where} was not enough for {what} alone ({error}). {advice}"
    return (
        f"{error.allowed_failures + 1} workers in a row died while they ran {what} alone; "
        f"the last was {error.last_worker.address}. Most likely they ran out of memory. {advice}"
    )

"""A map whose results are added up on the cluster: the sum alone is fetched.

Results stay on their workers as results of Dask, which come back by lineage where a worker dies;
tasks add them (`join`). Where none of all that runs any more, or none but on a worker that hangs,
what is lost is done again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dask.base import annotate
from distributed import CancelledError, Future, KilledWorker

from dhsic.errors import ClusterError
from dhsic.runtime import sealed
from dhsic.runtime.base import Job
from dhsic.runtime.flight import ENDED, Flight, await_futures
from dhsic.runtime.mapping import ATTEMPTS, LOOK, Map, memory_sentence, unstable
from dhsic.runtime.parcels import StateUnreachableError
from dhsic.runtime.shares import FAN
from dhsic.runtime.tree import Add
from dhsic.runtime.worker import Share, SharedOut, join


class Adding(Map):
    """Results are added by `add`; those of a share are nodes, which stay where they are."""

    def __init__(self, *given: Any, add: Add) -> None:
        super().__init__(*given)
        self._add = add
        self.traffic.is_sum = True

    def added(self, jobs: Sequence[Job]) -> Any:
        """Sum of the results; workers hold its parts, and one of them has the sum for a moment."""
        landed = []
        for found in self._landed(self._flights(jobs)):
            self._runtime.heed()
            landed.append(found)
        for attempt in range(ATTEMPTS):
            try:
                (total,) = self._joined([future for _, future in landed], attempt).values()
            except (CancelledError, StateUnreachableError) as error:
                why: Exception = error
                self._runtime.await_workers()
                if is_unread := isinstance(error, StateUnreachableError):
                    self._give_up_files()
                landed = [two for one in landed for two in self._kept(*one, anew=is_unread)]
            else:
                self._tidy()
                return total
        raise unstable("The sum over all features", why) from why

    def _share(self, jobs: Sequence[Job], some: range) -> SharedOut:
        mine = tuple(jobs[some.start : some.stop])
        return Share(self._task, mine, some.start, len(jobs), self._add)

    def _shelf_for(self, flight: Flight) -> tuple[str, str] | None:
        """None but for a share that has all jobs: its result is not for here."""
        return self._shelf if len(flight.share.jobs) == self.traffic.n_jobs else None

    def _brought(self, flight: Flight, ended: Future[Any]) -> Any:
        """The future, which stays where it is; or the error."""
        if ended.status != "finished":
            return super()._brought(flight, ended)
        flight.copies.remove(ended)
        return ended

    def _joined(self, parts: list[Future[Any]], attempt: int) -> Any:
        """The root that the nodes of shares add up to; CancelledError says that some are lost.

        Neighbours are joined, `FAN` at a time, until there is one.
        """
        runtime, keys, n_tasks = self._runtime, {str(part.key) for part in parts}, len(parts)
        name = f"{self._key}-sum-{attempt}"
        while len(parts) > 1:
            some = [parts[i : i + FAN] for i in range(0, len(parts), FAN)]
            seal = sealed(
                join, self._add, self.traffic.n_jobs, self._shelf if len(some) == 1 else None
            )
            told: dict[str, Any] = {"dhsic": {"task": f"sum of {self._name}"}, "span": runtime.span}
            if (where := runtime.workers_for(())) is not None:
                told["workers"] = where
            with annotate(**told):
                parts = [
                    self._ask([seal], [[one] for one in of], [f"{name}-{n_tasks + i}"])[0]
                    for i, of in enumerate(some)
                ]
            keys |= {str(part.key) for part in parts}
            n_tasks += len(parts)
            self.traffic.n_joins += len(parts)
        (last,) = parts
        while last.status not in ENDED:
            await_futures([last], LOOK)
            runtime.await_workers()
            if last.status not in ENDED:
                runtime.avoid(silent := runtime.silent_workers())
                if not runtime.running(keys) - silent:  # none ever will where a worker was to do it
                    raise CancelledError("no worker adds it up")
        try:
            return self._result(last)
        except (KilledWorker, MemoryError) as error:
            raise ClusterError(memory_sentence("the sum over all features", error)) from error

    def _kept(
        self, flight: Flight, future: Future[Any], *, anew: bool
    ) -> Iterator[tuple[Flight, Any]]:
        """A share and its nodes, done again where these are lost, or with a worker that hangs."""
        runtime = self._runtime
        is_there = future.status == "finished" and runtime.workers_of(future) - runtime.avoided
        if is_there and not anew:
            yield flight, future
        else:
            flight.copies.append(future)
            flight.release()
            self._submit(flight)
            yield from self._take(flight)

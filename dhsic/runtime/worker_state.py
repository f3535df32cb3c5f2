"""Maps whose results stay on the workers of a cluster: terms of sums, and stored values of sites.

The terms of a sum (`SumMap`) are Dask futures, which Dask recomputes from their lineage if a worker
dies. Tasks add them (`join`), and only the sum is fetched. If the adding task no longer runs, or
runs on a worker that hangs, the lost terms are computed again.

The sites (`dhsic.runtime.base`) are partitioned into *shares*, ranges of neighbouring sites. The
stored values of a share are one Dask future on the worker that computed them. A step is one task
per share, which runs on the worker that holds the values. Its parts are fetched by a direct message
to that worker, not by a task. In the first step, each share prefers one worker; later steps follow
the values. Lost values are restored:

- if a worker dies: by Dask, which knows the tasks back to the first step;
- if the scheduler or files are lost, or a worker hangs: by another copy of the task, which repeats
  all steps since the first one (`Lineage`).
"""

from __future__ import annotations

import weakref
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from dask.base import annotate
from distributed import CancelledError, Future, KilledWorker

from dhsic.errors import ClusterError
from dhsic.runtime.base import AbstractStep, Ask, Jobs, Sites, SiteValues
from dhsic.runtime.broadcast import Broadcast, Parcel, StateUnreachableError
from dhsic.runtime.calls import sealed
from dhsic.runtime.clients import of_holders
from dhsic.runtime.ordered_map import ATTEMPTS, LOOK, PATIENCE, Map, memory_sentence, unstable
from dhsic.runtime.partition import FAN
from dhsic.runtime.task_attempt import ENDED, TaskAttempt, await_futures
from dhsic.runtime.tree_reduce import Add, Tree
from dhsic.runtime.worker import (
    Query,
    Share,
    SharedOut,
    StepTask,
    answer,
    join,
    renew,
    told_of,
    versions,
)
from dhsic.sources import AbstractSource


class SumMap(Map):
    """Map that adds its results with the function `add`; the results stay on the workers."""

    def __init__(self, *given: Any, add: Add) -> None:
        super().__init__(*given)
        self._add = add
        self.traffic.is_sum = True

    def sum_results(self, jobs: Jobs) -> Any:
        """Return the sum of the results of all jobs.

        Workers add the results, and only the sum is fetched.
        """
        finished = []
        for landing in self._landed(self._flights(jobs)):
            self._runtime.poll_interrupt()
            finished.append(landing)
        for attempt in range(ATTEMPTS):
            try:
                (total,) = self._reduce_nodes([future for _, future in finished], attempt).values()
            except (CancelledError, StateUnreachableError) as error:
                why: Exception = error
                self._runtime.await_workers()
                if is_unread := isinstance(error, StateUnreachableError):
                    self._give_up_files()
                finished = [
                    two for one in finished for two in self._recover_nodes(*one, anew=is_unread)
                ]
            else:
                self._tidy()
                return total
        raise unstable("The sum over all features", why) from why

    def _share(self, jobs: Jobs, some: range) -> SharedOut:
        mine = tuple(jobs[some.start : some.stop])
        return Share(self._task, mine, some.start, len(jobs), self._add)

    def _shelf_for(self, flight: TaskAttempt) -> tuple[str, str] | None:
        """Return the folder and label for the file of a large total; None for partial sums."""
        return self._shelf if len(flight.share.jobs) == self.traffic.n_jobs else None

    def _brought(self, flight: TaskAttempt, ended: Future[Any]) -> Any:
        """Return the finished future itself, without fetching its value.

        The value stays on its worker. If the task failed, its error is raised.
        """
        if ended.status != "finished":
            return super()._brought(flight, ended)
        flight.copies.remove(ended)
        return ended

    def _reduce_nodes(self, parts: list[Future[Any]], attempt: int) -> Any:
        """Add the partial sums (tree nodes) of all tasks, `FAN` at a time; return the total.

        Raises CancelledError if partial sums have been lost.
        """
        runtime, keys, n_tasks = self._runtime, {str(part.key) for part in parts}, len(parts)
        name = f"{self._key}-sum-{attempt}"
        while len(parts) > 1:
            groups = [parts[i : i + FAN] for i in range(0, len(parts), FAN)]
            seal = sealed(
                join, self._add, self.traffic.n_jobs, self._shelf if len(groups) == 1 else None
            )
            tags: dict[str, Any] = {"dhsic": {"task": f"sum of {self._name}"}, "span": runtime.span}
            if (where := runtime.workers_for(())) is not None:
                tags["workers"] = where
            with annotate(**tags):
                parts = [
                    self._ask([seal], [[one] for one in of], [f"{name}-{n_tasks + i}"])[0]
                    for i, of in enumerate(groups)
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
                if not runtime.running(keys) - silent:  # the sum waits for a lost worker
                    raise CancelledError("no worker adds it up")
        try:
            return self._result(last)
        except (KilledWorker, MemoryError) as error:
            raise ClusterError(memory_sentence("the sum over all features", error)) from error

    def _recover_nodes(
        self, flight: TaskAttempt, future: Future[Any], *, anew: bool
    ) -> Iterator[tuple[TaskAttempt, Any]]:
        """Yield a task and the future of the partial sums (tree nodes) that it computed.

        The sums are recomputed if they are lost, or if `anew`.
        """
        runtime = self._runtime
        is_there = future.status == "finished" and runtime.workers_of(future) - runtime.avoided
        if is_there and not anew:
            yield flight, future
        else:
            flight.copies.append(future)
            flight.release()
            self._submit(flight)
            yield from self._take(flight)


@dataclass(frozen=True, slots=True)
class Link:
    """Record of one update of the values stored on workers.

    It contains the owners of the values (sites), and the broadcasts of its source (`sent`) and
    state. The source itself is kept too, because its scratch files are needed if the update is
    repeated.
    """

    step: AbstractStep
    sites: Sites
    sent: Broadcast
    state: Broadcast
    source: AbstractSource

    def turn(self, some: range) -> StepTask:
        """Return the update restricted to the stored values with numbers in the range `some`."""
        sites = tuple(self.sites[some.start : some.stop])
        return StepTask(self.step, sites, some.start, len(self.sites))


class Lineage:
    """All updates that led to the present values on the workers, to recompute values that are lost.

    The files of the states of these updates are deleted together with this object.
    """

    def __init__(self) -> None:
        self.links: list[Link] = []
        weakref.finalize(self, _discard, self.links)


def _discard(links: list[Link]) -> None:
    for link in links:
        with suppress(OSError):
            link.state.discard()


class PartitionedState(SiteValues):
    """Stored values that are partitioned over workers, one Dask future for neighbouring values.

    There is one value per site, for example per slice of the samples.
    """

    def __init__(
        self,
        lineage: Lineage,  # steps that computed the values
        shares: list[range],  # sites of each share
        tied: list[str | None],  # preferred worker of each share
        n_values: int,  # matrix values read in the first step
        values: Sequence[Future[Any]] = (),
    ) -> None:
        super().__init__(values)
        self.lineage, self.shares, self.tied, self.n_values = lineage, shares, tied, n_values

    def then(self, values: Sequence[Future[Any]]) -> PartitionedState:
        """Return the state after the next update, which has new `values` and the same partition."""
        return PartitionedState(self.lineage, self.shares, self.tied, self.n_values, values)

    def __len__(self) -> int:
        return self.shares[-1].stop


class AbstractPartitionedMap(Map):
    """Map over values that stay on workers; each task handles a range of neighbouring values.

    There is one value per site, for example per slice of the samples.
    """

    def __init__(self, *given: Any, held: PartitionedState) -> None:
        super().__init__(*given)
        self._held = held
        self._number = {share.start: i for i, share in enumerate(held.shares)}
        #: Future of the values of each share that this map has handled, by number.
        self.values: dict[int, Future[Any]] = {}
        self.traffic.n_jobs, self.traffic.n_values = len(held), held.n_values

    def _begin(self, flights: Sequence[TaskAttempt]) -> None:
        self._pending.extend(flights)
        for is_placed in (True, False):  # two graphs, because None is not the name of a worker
            group = [flight for flight in flights if (flight.worker is not None) == is_placed]
            if group:
                self._submit(*group)

    def _total(self, step: AbstractStep, flights: list[TaskAttempt], n_sites: int) -> Any:
        tree = Tree(step.join, n_sites)
        for _, nodes in self._landed(flights):
            self._runtime.poll_interrupt()
            tree.take(nodes)
        return tree.total

    def _end(self) -> None:
        """Release the stored values.

        If an error in Dask keeps this object alive, the values are freed nevertheless.
        """
        self._tidy()
        del self._held

    def _of(self, flight: TaskAttempt) -> int:
        return self._number[flight.share.first]

    def _at_hand_for(self, flight: TaskAttempt) -> Future[Any] | None:
        """Return the Dask future of the stored values that a task updates or queries.

        The result is None if the values are lost, if only avoided workers have them, or if a copy
        of the task was submitted before.
        """
        if not self._held.values or flight.n_submitted > 1:
            return None
        runtime = self._runtime
        future: Future[Any] = self._held.values[self._of(flight)]
        is_known = future.client is runtime.client and future.status in ("finished", "pending")
        if not is_known:
            return None
        if (avoided := runtime.avoided) and runtime.workers_of(future) <= avoided:
            return None
        return future

    def _walk(
        self, flights: Sequence[TaskAttempt], links: Sequence[Link], keys: list[str], told: Any
    ) -> list[Future[Any]]:
        """Submit tasks that run the updates `links` in order; `told` holds Dask annotations.

        A single update changes the values stored on workers. Several recompute the values from the
        first update on.
        """
        first = [self._at_hand_for(flight) if len(links) == 1 else None for flight in flights]
        sent = [(link.sent.arguments(), link.state.arguments()) for link in links]
        parcels = tuple((source, state) for (source, _), (state, _) in sent)
        payloads = [data for (_, a), (_, b) in sent for data in (a, b)]
        seals = []
        for flight in flights:
            sites, alone = self._held.shares[self._of(flight)], flight.share.is_alone
            turns = tuple(replace(link.turn(sites), is_alone=alone) for link in links)
            seals.append(sealed(renew, turns, versions(), parcels))
        with annotate(**told):
            return self._ask(seals, [first, *([data] * len(seals) for data in payloads)], keys)

    def _brought(self, flight: TaskAttempt, ended: Future[Any]) -> Any:
        result = super()._brought(flight, ended)
        self._stays(flight, ended)
        return result

    @abstractmethod
    def _stays(self, flight: TaskAttempt, ended: Future[Any]) -> None:
        """Record the future of a task's stored values, so that Dask does not release them."""

    def _is_stuck(self, flight: TaskAttempt) -> bool:
        """Whether a task waits for a lost worker, or for values that no task computes."""
        tied, runtime = self._held.tied[self._of(flight)], self._runtime
        if not flight.tied_to and tied is not None and tied not in runtime.threads:
            waits = any(future.status == "pending" for future in self._held.values)
            return waits and runtime.is_idle
        return super()._is_stuck(flight)

    def _broadcasts(self) -> Iterable[Broadcast]:
        yield from super()._broadcasts()
        for link in self._held.lineage.links:
            yield from (link.sent, link.state)


class UpdateMap(AbstractPartitionedMap):
    """Map that updates all values stored on workers."""

    def update(self, step: AbstractStep, sites: Sites) -> Any:
        """Update all stored values by `step`; return the sum of its terms, one per stored value."""
        prior = self._held
        self._link = Link(step, sites, self._sent, self._state, self._source)
        flights = [
            TaskAttempt(
                self._link.turn(share), f"{self._key}-{i}", tied if not prior.values else None
            )
            for i, (share, tied) in enumerate(zip(prior.shares, prior.tied, strict=True))
        ]
        total = self._total(step, flights, len(sites))
        prior.lineage.links.append(self._link)
        self._end()
        return total

    def _hand_in(
        self, flights: Sequence[TaskAttempt], keys: list[str], told: dict[str, Any]
    ) -> list[Future[Any]]:
        links, out = [self._link], dict[str, Future[Any]]()
        steps = [*self._held.lineage.links, self._link]
        ready = [f for f in flights if self._at_hand_for(f) is not None or len(steps) == 1]
        for group, path in ((ready, links), ([f for f in flights if f not in ready], steps)):
            if not group:
                continue
            group_keys = [keys[flights.index(flight)] for flight in group]
            out |= zip(group_keys, self._walk(group, path, group_keys, told), strict=True)
        return [out[key] for key in keys]

    def _stays(self, flight: TaskAttempt, ended: Future[Any]) -> None:
        flight.copies.remove(ended)
        self.values[self._of(flight)] = ended

    def _fetched(self, futures: Sequence[Future[Any]]) -> list[Any]:
        """Fetch partial sums (tree nodes) of the terms of an update from the workers."""
        nodes = of_holders(self._runtime.client, futures, PATIENCE, told_of, self._shelf)
        return [nodes[str(future.key)] for future in futures]


class QueryMap(AbstractPartitionedMap):
    """Map that applies a function to stored values without changing them."""

    def answers(self, ask: Ask, told: Sequence[Any]) -> Iterator[Any]:
        """Yield ``ask(value, argument, state)`` for each value stored on workers, in order."""
        for answers in self.of_shares(ask, told):
            yield from answers

    def of_shares(self, ask: Ask, told: Sequence[Any]) -> Iterator[Any]:
        """Yield the answers of each task, in order: a list for a range of neighbouring values."""
        flights = [
            TaskAttempt(
                Query(ask, tuple(told[share.start : share.stop]), share.start), f"{self._key}-{i}"
            )
            for i, share in enumerate(self._held.shares)
        ]
        for _, answers in self._landed(flights):
            yield answers
        self._end()

    def sum_parts(self, step: AbstractStep, sites: Sites) -> Any:
        """Return the sum of one term per stored value, for a step that changes no stored value."""
        flights = [
            TaskAttempt(
                StepTask(step, tuple(sites[share.start : share.stop]), share.start, len(sites)), key
            )
            for key, share in ((f"{self._key}-{i}", s) for i, s in enumerate(self._held.shares))
        ]
        total = self._total(step, flights, len(sites))
        self._end()
        return total

    def _stays(self, flight: TaskAttempt, ended: Future[Any]) -> None:
        if (values := flight.before.pop(str(ended.key), None)) is not None:
            self.values[self._of(flight)] = values

    def _hand_in(
        self, flights: Sequence[TaskAttempt], keys: list[str], told: dict[str, Any]
    ) -> list[Future[Any]]:
        links, values = self._held.lineage.links, list[Future[Any]]()
        tags = {"span": self._runtime.span}
        for flight, key in zip(flights, keys, strict=True):
            future = self._at_hand_for(flight)
            if future is None:
                (future,) = self._walk([flight], links, [f"{key}-again"], tags)
                flight.before[key] = future
                self.traffic.n_tasks += 1
            values.append(future)
        state, data = self._state.arguments()
        seals = [sealed(answer, flight.share, versions(), state, self._shelf) for flight in flights]
        with annotate(**told):
            return self._ask(seals, [values, [data] * len(seals)], keys)


class GatherMap(QueryMap):
    """Query with large answers, which remain in files that workers wrote."""

    def __init__(self, *given: Any, held: PartitionedState) -> None:
        super().__init__(*given, held=held)
        self._left: set[str] = set()

    def _opened(self, found: Any) -> Any:
        if not isinstance(found, Parcel):
            return super()._opened(found)
        self._left.add(str(found.path))
        return found

    def _tidy(self) -> None:
        """Remove result files of task copies with unused answers."""
        for path in self._of_copies():
            if str(path) not in self._left:
                path.unlink(missing_ok=True)

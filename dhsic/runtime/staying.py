"""Maps whose results stay on the workers of a cluster: those to be added, and values.

Results to be added (`Adding`) are results of Dask, which come back by lineage where a worker dies;
tasks add them (`join`), and the sum alone is fetched. Where none of all that runs any more, or none
but on a worker that hangs, what is lost is done again.

The values of neighbouring sites (`dhsic.runtime.base`), a *share*, are one result of Dask on the
worker that made them. A step is one task for each share, which goes where its values are; workers
are asked for its parts past the scheduler's tasks, by a message such as fetches a result. Nothing
is tied to a worker but the first step, and loosely. What is lost comes back:

- with a worker, by Dask: it knows how results came from those before, back to the first step;
- with the scheduler, with files, or where a worker hangs, by another copy of the task, which goes
  through all steps since the first one (`Lineage`) by itself.
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
from dhsic.runtime.base import AbstractStep, Ask, Held, Jobs, Sites
from dhsic.runtime.calls import sealed
from dhsic.runtime.clients import of_holders
from dhsic.runtime.flight import ENDED, Flight, await_futures
from dhsic.runtime.mapping import ATTEMPTS, LOOK, PATIENCE, Map, memory_sentence, unstable
from dhsic.runtime.parcels import Broadcast, Parcel, StateUnreachableError
from dhsic.runtime.shares import FAN
from dhsic.runtime.tree import Add, Tree
from dhsic.runtime.worker import (
    Query,
    Share,
    SharedOut,
    Turn,
    answer,
    join,
    renew,
    told_of,
    versions,
)
from dhsic.sources import AbstractSource


class Adding(Map):
    """Results are added by `add`; those of a share are nodes, which stay where they are."""

    def __init__(self, *given: Any, add: Add) -> None:
        super().__init__(*given)
        self._add = add
        self.traffic.is_sum = True

    def added(self, jobs: Jobs) -> Any:
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

    def _share(self, jobs: Jobs, some: range) -> SharedOut:
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


@dataclass(frozen=True, slots=True)
class Link:
    """A step that was done: at which sites, and source and state as workers get them.

    The source is here too: its scratch is needed as long as the step may be done again.
    """

    step: AbstractStep
    sites: Sites
    sent: Broadcast
    state: Broadcast
    source: AbstractSource

    def turn(self, some: range) -> Turn:
        """The step at some sites."""
        sites = tuple(self.sites[some.start : some.stop])
        return Turn(self.step, sites, some.start, len(self.sites))


class Lineage:
    """Steps since values were begun: states of them go with it."""

    def __init__(self) -> None:
        self.links: list[Link] = []
        weakref.finalize(self, _discard, self.links)


def _discard(links: list[Link]) -> None:
    for link in links:
        with suppress(OSError):
            link.state.discard()


class Spread(Held):
    """Values on workers, results of Dask."""

    def __init__(
        self,
        lineage: Lineage,  # how they came about
        shares: list[range],  # sites of each
        tied: list[str | None],  # the worker that each was begun for
        n_values: int,  # read for all of them in the first step
        values: Sequence[Future[Any]] = (),
    ) -> None:
        super().__init__(values)
        self.lineage, self.shares, self.tied, self.n_values = lineage, shares, tied, n_values

    def then(self, values: Sequence[Future[Any]]) -> Spread:
        """Values of the next step, in the same places."""
        return Spread(self.lineage, self.shares, self.tied, self.n_values, values)

    def __len__(self) -> int:
        return self.shares[-1].stop


class AbstractHeldMap(Map):
    """A map over the shares of values that live on workers."""

    def __init__(self, *given: Any, held: Spread) -> None:
        super().__init__(*given)
        self._held = held
        self._number = {share.start: i for i, share in enumerate(held.shares)}
        #: Values of each share, as far as this map has seen to them.
        self.values: dict[int, Future[Any]] = {}
        self.traffic.n_jobs, self.traffic.n_values = len(held), held.n_values

    def _begin(self, flights: Sequence[Flight]) -> None:
        self._pending.extend(flights)
        for is_placed in (True, False):  # a graph each: a scheduler takes None for no place
            some = [flight for flight in flights if (flight.worker is not None) == is_placed]
            if some:
                self._submit(*some)

    def _total(self, step: AbstractStep, flights: list[Flight], n_sites: int) -> Any:
        tree = Tree(step.join, n_sites)
        for _, nodes in self._landed(flights):
            self._runtime.heed()
            tree.take(nodes)
        return tree.total

    def _end(self) -> None:
        """Refer to the values no more: errors of Dask refer to this until garbage is collected."""
        self._tidy()
        del self._held

    def _of(self, flight: Flight) -> int:
        return self._number[flight.share.first]

    def _at_hand_for(self, flight: Flight) -> Future[Any] | None:
        """Values of a share that the first copy of its task may take, unless they are lost."""
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
        self, flights: Sequence[Flight], links: Sequence[Link], keys: list[str], told: Any
    ) -> list[Future[Any]]:
        """Tasks that go through some steps, from the values at hand where there is but one."""
        first = [self._at_hand_for(flight) if len(links) == 1 else None for flight in flights]
        sent = [(link.sent.arguments(), link.state.arguments()) for link in links]
        parcels = tuple((source, state) for (source, _), (state, _) in sent)
        held = [data for (_, a), (_, b) in sent for data in (a, b)]
        seals = []
        for flight in flights:
            some, alone = self._held.shares[self._of(flight)], flight.share.is_alone
            turns = tuple(replace(link.turn(some), is_alone=alone) for link in links)
            seals.append(sealed(renew, turns, versions(), parcels))
        with annotate(**told):
            return self._ask(seals, [first, *([data] * len(seals) for data in held)], keys)

    def _brought(self, flight: Flight, ended: Future[Any]) -> Any:
        result = super()._brought(flight, ended)
        self._stays(flight, ended)
        return result

    @abstractmethod
    def _stays(self, flight: Flight, ended: Future[Any]) -> None:
        """Write down values that a share was found to have, which are not to be released."""

    def _is_stuck(self, flight: Flight) -> bool:
        """Also where values that it waits for are those that are stuck."""
        tied, runtime = self._held.tied[self._of(flight)], self._runtime
        if not flight.tied_to and tied is not None and tied not in runtime.threads:
            waits = any(future.status == "pending" for future in self._held.values)
            return waits and runtime.is_idle
        return super()._is_stuck(flight)

    def _broadcasts(self) -> Iterable[Broadcast]:
        yield from super()._broadcasts()
        for link in self._held.lineage.links:
            yield from (link.sent, link.state)


class Stepping(AbstractHeldMap):
    """A step: values of all shares anew."""

    def stepped(self, step: AbstractStep, sites: Sites) -> Any:
        """Sum of the parts."""
        held = self._held
        self._link = Link(step, sites, self._sent, self._state, self._source)
        flights = [
            Flight(self._link.turn(some), f"{self._key}-{i}", tied if not held.values else None)
            for i, (some, tied) in enumerate(zip(held.shares, held.tied, strict=True))
        ]
        total = self._total(step, flights, len(sites))
        held.lineage.links.append(self._link)
        self._end()
        return total

    def _hand_in(
        self, flights: Sequence[Flight], keys: list[str], told: dict[str, Any]
    ) -> list[Future[Any]]:
        links, out = [self._link], dict[str, Future[Any]]()
        whole = [*self._held.lineage.links, self._link]
        ready = [f for f in flights if self._at_hand_for(f) is not None or len(whole) == 1]
        for some, through in ((ready, links), ([f for f in flights if f not in ready], whole)):
            if not some:
                continue
            mine = [keys[flights.index(flight)] for flight in some]
            out |= zip(mine, self._walk(some, through, mine, told), strict=True)
        return [out[key] for key in keys]

    def _stays(self, flight: Flight, ended: Future[Any]) -> None:
        flight.copies.remove(ended)
        self.values[self._of(flight)] = ended

    def _fetched(self, futures: Sequence[Future[Any]]) -> list[Any]:
        """Nodes of the parts alone; workers that do not tell of them have lost the values."""
        told = of_holders(self._runtime.client, futures, PATIENCE, told_of, self._shelf)
        return [told[str(future.key)] for future in futures]


class Asking(AbstractHeldMap):
    """A question: values stay as they are."""

    def asked(self, ask: Ask, told: Sequence[Any]) -> Iterator[Any]:
        """Answers in the order of the sites."""
        for answers in self.of_shares(ask, told):
            yield from answers

    def of_shares(self, ask: Ask, told: Sequence[Any]) -> Iterator[Any]:
        """Answers of the sites of each share."""
        flights = [
            Flight(Query(ask, tuple(told[some.start : some.stop]), some.start), f"{self._key}-{i}")
            for i, some in enumerate(self._held.shares)
        ]
        for _, answers in self._landed(flights):
            yield answers
        self._end()

    def told(self, step: AbstractStep, sites: Sites) -> Any:
        """Sum of the parts of a step that leaves values as they are."""
        flights = [
            Flight(Turn(step, tuple(sites[some.start : some.stop]), some.start, len(sites)), key)
            for key, some in ((f"{self._key}-{i}", s) for i, s in enumerate(self._held.shares))
        ]
        total = self._total(step, flights, len(sites))
        self._end()
        return total

    def _stays(self, flight: Flight, ended: Future[Any]) -> None:
        if (made := flight.before.pop(str(ended.key), None)) is not None:
            self.values[self._of(flight)] = made

    def _hand_in(
        self, flights: Sequence[Flight], keys: list[str], told: dict[str, Any]
    ) -> list[Future[Any]]:
        links, kept = self._held.lineage.links, list[Future[Any]]()
        plain = {"span": self._runtime.span}
        for flight, key in zip(flights, keys, strict=True):
            have = self._at_hand_for(flight)
            if have is None:
                (have,) = self._walk([flight], links, [f"{key}-again"], plain)
                flight.before[key] = have
                self.traffic.n_tasks += 1
            kept.append(have)
        state, data = self._state.arguments()
        seals = [sealed(answer, flight.share, versions(), state, self._shelf) for flight in flights]
        with annotate(**told):
            return self._ask(seals, [kept, [data] * len(seals)], keys)


class Gathering(Asking):
    """A question whose large answers stay in the files in which workers leave them."""

    def __init__(self, *given: Any, held: Spread) -> None:
        super().__init__(*given, held=held)
        self._left: set[str] = set()

    def _opened(self, found: Any) -> Any:
        if not isinstance(found, Parcel):
            return super()._opened(found)
        self._left.add(str(found.path))
        return found

    def _tidy(self) -> None:
        """Remove what copies left that were second."""
        for path in self._of_copies():
            if str(path) not in self._left:
                path.unlink(missing_ok=True)

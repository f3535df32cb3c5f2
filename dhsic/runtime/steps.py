"""What workers do with values that live on them: see `dhsic.runtime.held`. Plain functions.

The values of neighbouring sites are one result of Dask, with the nodes of their parts; who asks
is told of these alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from dhsic.runtime.base import Job
from dhsic.runtime.held import AbstractStep, Ask, Site
from dhsic.runtime.parcels import Parcel, receive
from dhsic.runtime.threads import Threads
from dhsic.runtime.tree import Place
from dhsic.runtime.worker import at_work, left, nodes
from dhsic.sources import AbstractSource

#: Values of neighbouring sites, and nodes of their parts.
Values = tuple[list[Any], dict[Place, Any]]


@dataclass(frozen=True, slots=True)
class Turn:
    """A step at neighbouring sites: number of the first of them, and of all that there are."""

    step: AbstractStep
    sites: tuple[Site, ...]
    first: int
    n_all: int
    is_alone: bool = False

    @property
    def jobs(self) -> tuple[Job, ...]:
        """Jobs of all sites."""
        return tuple(job for site in self.sites for job in site.jobs)

    @property
    def size(self) -> int:
        """As of a share; a site has work for many threads."""
        return len(self.jobs) + 2 * len(self.sites)

    def parts(self, *, divisible: bool) -> list[Turn]:
        """As of a share: its values stay together."""
        del divisible
        return [replace(self, is_alone=True)]

    def answered(self, values: Sequence[Any], state: Any, threads: Threads) -> dict[Place, Any]:
        """Nodes of the parts of a step that leaves values as they are, and reads nothing."""
        source: Any = None
        return self.done(values, source, state, threads)[1]

    def done(
        self, values: Sequence[Any], source: AbstractSource, state: Any, threads: Threads
    ) -> Values:
        """Values that follow from those before, and nodes of the parts."""
        made, parts = threads.renewed(values, self.step, source, self.sites, state)
        return made, nodes(self.step.join, parts, self.first, self.n_all)


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked of the values of neighbouring sites, and told of each."""

    ask: Ask
    told: tuple[Any, ...]
    first: int
    is_alone: bool = False
    jobs: tuple[Job, ...] = ()

    @property
    def size(self) -> int:
        """As of a share."""
        return len(self.told)

    def parts(self, *, divisible: bool) -> list[Query]:
        """As of a share."""
        del divisible
        return [replace(self, is_alone=True)]

    def answered(self, values: Sequence[Any], state: Any, threads: Threads) -> list[Any]:
        """What each of the values answers."""
        return list(threads.answers(values, self.ask, self.told, state))


def renew(
    turns: tuple[Turn, ...],
    expected: dict[str, str],
    parcels: tuple[tuple[Parcel, Parcel], ...],
    before: Values | None,
    *held: bytes | None,
) -> Values:
    """Steps one after the other at the same sites; each has a source and a state.

    A single one where the values `before` it are given, else all since they were begun.
    """
    values, found = [None] * len(turns[0].sites), None
    if before is not None:
        values = before[0]
    for i, (turn, (source, state)) in enumerate(zip(turns, parcels, strict=True)):
        with at_work(turn, expected) as threads:
            opened, asked = receive(source, held[2 * i]), receive(state, held[2 * i + 1])
            found = turn.done(values, opened, asked, threads)
            values = found[0]
    assert found is not None, "there is a step"
    return found


def told_of(keys: Sequence[str], shelf: tuple[str, str] | None, dask_worker: Any) -> dict[str, Any]:
    """Nodes of the parts of those results that this worker has."""
    kept = dask_worker.data
    return {key: left(shelf, kept[key][1]) for key in keys if key in kept}


def answer(
    query: Query | Turn,
    expected: dict[str, str],
    state: Parcel,
    shelf: tuple[str, str] | None,
    kept: Values,
    state_bytes: bytes | None,
) -> Any:
    """Ask something of what is kept here."""
    with at_work(query, expected) as threads:
        known = receive(state, state_bytes)
        found = query.answered(kept[0], known, threads)
    return left(shelf, found)

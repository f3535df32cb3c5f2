"""A runtime: an ordered map over jobs, with a state that every job sees.

A job is a few blocks of features and a payload; a task turns (source, job, state) into a small
result. Runtimes differ in where tasks run, never in what they compute or in the order of the
results, so every sum over them is the same bit for bit.

Results may stay where they were made, and something be done with them there. A *site* has one such
value: a slice of samples its part of a statistic, a block of features what was taken of them. In a
step the results of the jobs of a site are added along the tree over its jobs
(`dhsic.runtime.tree`), and with the old value they make a new one, which stays, and a *part*, which
is small. Parts are added along the tree over the sites, and their sum alone goes anywhere. Both
trees follow from the sites, so no bit depends on who has which of them, or on how often a step is
done again.
"""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self, final

from dhsic.linalg.quadratic import Each
from dhsic.memory import WorkerMemory
from dhsic.runtime.cores import usable_cores
from dhsic.runtime.tree import Add, total
from dhsic.sources import AbstractSource
from dhsic.sources.blocks import Block


@dataclass(frozen=True, slots=True)
class Job:
    """Blocks that one task reads, and what else it needs to know (plain data, small).

    With `samples` it reads these alone of the samples that take part: chunks of others stay where
    they are.
    """

    blocks: tuple[Block, ...]
    payload: Any = None
    samples: slice | None = None


#: What a task is run over, in order.
Jobs = Sequence[Job]
Task = Callable[[AbstractSource, Job, Any], Any]


@dataclass(frozen=True, slots=True)
class Site:
    """Where a value lives: the jobs of a step there, and what else the step is told of it."""

    jobs: tuple[Job, ...] = ()
    told: Any = None


#: All sites of a step, in order.
Sites = Sequence[Site]


class AbstractStep(ABC):
    """What is done at every site. Frozen, picklable."""

    #: Whether values change; else parts alone are wanted, and nothing is read.
    renews: bool = True

    @abstractmethod
    def of(self, source: AbstractSource, job: Job, state: Any) -> Any:
        """Result of a job."""

    def add(self, left: Any, right: Any) -> Any:
        """Sum of the results of two jobs of a site; the left one may be overwritten."""
        left += right
        return left

    @abstractmethod
    def finish(self, value: Any, total: Any, told: Any, state: Any, each: Each) -> tuple[Any, Any]:
        """New value of a site, and its part of what all of them give.

        The old value, None at first, may not be written in; `total` is None where there is no job.
        What `each` is given threads may share out.
        """

    @abstractmethod
    def join(self, left: Any, right: Any) -> Any:
        """Sum of the parts of two sites; the left one may be overwritten."""


#: What is asked of a value: function of it, of what is told of its site, and of a state.
Ask = Callable[[Any, Any, Any], Any]
#: What makes one thing of the answers of all sites.
Make = Callable[[Sequence[Any]], Any]


class Held:
    """Values of all sites, as the runtime that made them keeps them: here in this process."""

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = values

    def __len__(self) -> int:
        return len(self.values)


class AbstractRuntime(ABC):
    """Runs tasks over jobs; `results` is the whole contract.

    Who wants to be asked between two results, to end a run for instance, is heard by every runtime
    (`heeding`): nothing is put around one that would have to pass all of it on.
    """

    name: str
    n_workers: int
    #: Tasks run in other processes: what this one holds in memory is not at hand there.
    is_remote: bool = False
    #: Threads of every worker process, by its address; none where tasks run in this one.
    threads: Mapping[str, int] = MappingProxyType({})
    _look: Callable[[], object] | None = None

    @property
    def n_here(self) -> int:
        """Tasks that run in this process at once, for the memory estimate.

        Of a cluster those of the last rounds, when survivors are few enough to come here.
        """
        return usable_cores() if self.is_remote else self.n_workers

    def tightest(self) -> WorkerMemory | None:
        """The worker with the least memory for each of its threads; None where no limit is."""
        return None

    @property
    def shared_folder(self) -> Path | None:
        """Where files lie that this process and all workers read; None where there is no place."""
        return Path(tempfile.gettempdir())

    @abstractmethod
    def results(
        self, task: Task, source: AbstractSource, jobs: Jobs, state: Any, *, divisible: bool
    ) -> Generator[Any]:
        """Yield ``task(source, job, state)`` for every job, in the order of `jobs`.

        Work in flight is bounded. `task` is a module-level function, `state` is broadcast once.
        BLAS runs one thread per task. The first error of a task is raised as it was. Where
        `divisible`, the result of a job may come in parts, see `joined`.
        """

    @final
    def map(self, task: Task, source: AbstractSource, jobs: Jobs, state: Any) -> Generator[Any]:
        """Results as of `results`, one for each job."""
        return self._heeded(self.results(task, source, jobs, state, divisible=False))

    @final
    def joined(self, task: Task, source: AbstractSource, jobs: Jobs, state: Any) -> Iterator[Any]:
        """As `map`, for results that are put one after the other, block after block.

        A runtime may yield the result of a job in parts, one for some of its blocks each, where
        the whole was too much for a worker; the payload of a job is a tuple with an item a block.
        """
        return self._heeded(self.results(task, source, jobs, state, divisible=True))

    def added(self, task: Task, source: AbstractSource, jobs: Jobs, state: Any, add: Add) -> Any:
        """Results of the jobs, of which there are some, added along the tree of `Tree`.

        So the bits are the same on all runtimes. `add` is a function of a module or of what can be
        pickled.
        """
        with closing(self.map(task, source, jobs, state)) as results:
            return total(add, results, len(jobs))

    def stepped(
        self,
        held: Held | None,
        step: AbstractStep,
        source: AbstractSource,
        sites: Sites,
        state: Any,
    ) -> tuple[Held, Any]:
        """Values of all sites anew, see the top, and the sum of their parts.

        `held` are those of the step before, of as many sites, and are used up; None begins anew.
        """
        values = [None] * len(sites) if held is None else held.values
        made, parts = self.renewed(values, step, source, sites, state)
        return Held(made), total(step.join, parts, len(parts))

    def asked(self, held: Held, ask: Ask, told: Sequence[Any], state: Any) -> Iterator[Any]:
        """What is asked of each value, in their order: ``ask(value, what is told of it, state)``.

        No value is written in. `ask` is a function of a module, or of what can be pickled.
        """
        return self.answers(held.values, ask, told, state)

    def gathered(self, held: Held, ask: Ask, told: Sequence[Any], state: Any, make: Make) -> Any:
        """What `make` makes of all that is asked, for jobs to come: a part of their state.

        It may come about where that is unpacked. `make` is as `ask`.
        """
        return make([*self.asked(held, ask, told, state)])

    @final
    def renewed(
        self,
        values: Sequence[Any],
        step: AbstractStep,
        source: AbstractSource,
        sites: Sites,
        state: Any,
    ) -> tuple[list[Any], list[Any]]:
        """New values of some sites, from those at hand, and their parts."""
        totals = self._totals(step, source, sites, state)

        def finish(value: Any, i: int, state: Any) -> Any:
            mine, totals[i] = totals[i], None
            return step.finish(value, mine, sites[i].told, state, self.each)

        made = list(self.answers(values, finish, range(len(sites)), state))
        return [value for value, _ in made], [part for _, part in made]

    def _totals(
        self, step: AbstractStep, source: AbstractSource, sites: Sites, state: Any
    ) -> list[Any]:
        """Sum of the results of each site; a single one is added up as of `added`."""
        if len(sites) == 1 and sites[0].jobs:
            return [self.added(step.of, source, sites[0].jobs, state, step.add)]
        jobs = [job for site in sites for job in site.jobs]
        with closing(self.map(step.of, source, jobs, state)) as results:
            return [total(step.add, results, len(site.jobs)) for site in sites]

    @final
    def answers(
        self, values: Sequence[Any], ask: Ask, told: Sequence[Any], state: Any
    ) -> Iterator[Any]:
        """What is asked of values at hand, in their order."""

        def answer(two: tuple[Any, Any]) -> Any:
            return ask(*two, state)

        return self.each(answer, zip(values, told, strict=True))

    def _heeded(self, results: Generator[Any]) -> Generator[Any]:
        with closing(results):
            for result in results:
                self.heed()
                yield result

    @final
    def heed(self) -> None:
        """Ask who is to be asked between two results."""
        if self._look is not None:
            self._look()

    @final
    @contextmanager
    def heeding(self, look: Callable[[], object]) -> Iterator[None]:
        """Have `look` called between two results meanwhile; what it raises ends the map."""
        before, self._look = self._look, look
        try:
            yield
        finally:
            self._look = before

    def each(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """Results of the function over the items, in order: what is at hand, worked on here."""
        return map(function, items)

    def close(self) -> None:  # noqa: B027  # nothing to let go of is the common case
        """Let go of threads and connections that the runtime made for itself."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

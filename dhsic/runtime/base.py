"""Interface of runtimes: an ordered map over jobs, with a state that every job reads.

A job is a few blocks of features to read, with the arguments of the task (its payload); a task
turns (source, job, state) into a small result. Runtimes run tasks in different places, but compute
the same results in the same order. Every sum over results is therefore the same bit for bit.

Results may also stay on the worker that computed them. A *site* is the owner of one such stored
value. For example, the site of a slice of samples stores the contribution of this slice to a
statistic, and the site of a block of features stores the values read from this block.

A *step* updates the stored values of all sites. For each site, it adds the results of the jobs of
the site along a binary tree over these jobs (`dhsic.runtime.tree_reduce`). From this total and the
old value it computes the new value, which stays on the worker, and a small *part* of a sum over all
sites. The parts are added along the tree over the sites, and only their sum leaves the workers.
Both trees depend on the sites alone, so the result is the same bit for bit wherever the sites are,
and however often a step is repeated.
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
from dhsic.runtime.tree_reduce import Add, total
from dhsic.sources import AbstractSource
from dhsic.sources.blocks import Block


@dataclass(frozen=True, slots=True)
class Job:
    """Unit of work of a task: the blocks of features to read, and further arguments (`payload`).

    The payload consists of small, plain data. If `samples` is set, the task reads only this slice
    of the samples of the run, so chunks of other samples are never loaded.
    """

    blocks: tuple[Block, ...]
    payload: Any = None
    samples: slice | None = None


#: Jobs of a pass, in order.
Jobs = Sequence[Job]
Task = Callable[[AbstractSource, Job, Any], Any]


@dataclass(frozen=True, slots=True)
class Site:
    """Owner of one stored value: a slice of the samples, or a block of features.

    It consists of the jobs that read the features for this value, and an argument for the functions
    that update it.
    """

    jobs: tuple[Job, ...] = ()
    told: Any = None


#: All sites of a step, in order.
Sites = Sequence[Site]


class AbstractStep(ABC):
    """Update of the values that workers store, one per site (a slice of samples or of features).

    The docstring of the module describes it. Subclasses are immutable and can be pickled.
    """

    #: Whether values change; if not, the step reads no data and only computes parts.
    renews: bool = True

    @abstractmethod
    def of(self, source: AbstractSource, job: Job, state: Any) -> Any:
        """Compute the result of a job."""

    def add(self, left: Any, right: Any) -> Any:
        """Add the results of two jobs for the same stored value; `left` may be overwritten."""
        left += right
        return left

    @abstractmethod
    def finish(self, value: Any, total: Any, told: Any, state: Any, each: Each) -> tuple[Any, Any]:
        """Compute the new stored value of one site, and its term of the sum over all sites.

        A site is the owner of one stored value, for example a slice of the samples. `value` is the
        old value (None in the first step) and must not be modified; `total` is the sum of the job
        results, None without jobs; `told` is the argument for this site. `each` maps a function
        over items on threads.
        """

    @abstractmethod
    def join(self, left: Any, right: Any) -> Any:
        """Add the terms that two sites (owners of stored values) contribute to the sum over all.

        `left` may be overwritten.
        """


#: Query of one value: a function (value, argument for its site, state).
Ask = Callable[[Any, Any, Any], Any]
#: Function that combines the answers of all sites, a sequence, into one object.
Make = Callable[[Sequence[Any]], Any]


class SiteValues:
    """Stored values, one per site (for example per slice of the samples), in this process.

    Subclasses store the values on the workers of a cluster.
    """

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = values

    def __len__(self) -> int:
        return len(self.values)


class AbstractRuntime(ABC):
    """Runtime, which runs tasks over jobs; subclasses only have to implement `results`.

    A caller can install a function that is called between two results (`polling_interrupt`), for
    example to end a run. Every runtime supports this itself, so callers do not need a wrapper
    around the runtime.
    """

    name: str
    n_workers: int
    #: Whether tasks run in other processes, which cannot see objects in memory here.
    is_remote: bool = False
    #: Threads of every worker process, by address; empty if tasks run in this process.
    threads: Mapping[str, int] = MappingProxyType({})
    _look: Callable[[], object] | None = None

    @property
    def n_here(self) -> int:
        """Number of tasks that run at the same time in this process, for the memory estimate.

        On a cluster, this process runs only the last rounds, in which few features remain.
        """
        return usable_cores() if self.is_remote else self.n_workers

    def tightest(self) -> WorkerMemory | None:
        """Memory of the worker with the least memory per thread, in bytes.

        The result is None if there is no limit.
        """
        return None

    @property
    def shared_folder(self) -> Path | None:
        """Folder that this process and all workers can read; None if there is none."""
        return Path(tempfile.gettempdir())

    @abstractmethod
    def results(
        self, task: Task, source: AbstractSource, jobs: Jobs, state: Any, *, divisible: bool
    ) -> Generator[Any]:
        """Yield ``task(source, job, state)`` for every job, in the order of `jobs`.

        The number of unfinished jobs is bounded. `task` is a module-level function. `state` is
        broadcast once. BLAS runs one thread per task. The first error of a task is raised
        unchanged. If `divisible`, the result of a job may come in parts, see `map_blocks`.
        """

    @final
    def map(self, task: Task, source: AbstractSource, jobs: Jobs, state: Any) -> Generator[Any]:
        """Yield one result for each job, in order.

        See `results`.
        """
        return self._polled(self.results(task, source, jobs, state, divisible=False))

    @final
    def map_blocks(
        self, task: Task, source: AbstractSource, jobs: Jobs, state: Any
    ) -> Iterator[Any]:
        """Yield results like `map`, for results that the caller concatenates block by block.

        If a job needs more memory than a worker has, the runtime may split its blocks of features
        and yield one result for each group of blocks; the payload of a job is a tuple with one item
        per block.
        """
        return self._polled(self.results(task, source, jobs, state, divisible=True))

    def sum_results(
        self, task: Task, source: AbstractSource, jobs: Jobs, state: Any, add: Add
    ) -> Any:
        """Sum the results of at least one job along a `Tree`.

        The sum is therefore the same bit for bit on all runtimes. `add` must be picklable.
        """
        with closing(self.map(task, source, jobs, state)) as results:
            return total(add, results, len(jobs))

    def update(
        self,
        held: SiteValues | None,
        step: AbstractStep,
        source: AbstractSource,
        sites: Sites,
        state: Any,
    ) -> tuple[SiteValues, Any]:
        """Update the stored value of every site by a step; return the new values and a sum.

        A site is the owner of one stored value, for example a slice of the samples. The step
        computes, for every site, the new value and one term of the returned sum. `held` contains
        the values that the previous step returned for the same sites, and must not be used
        afterwards. It is None in the first step. See the docstring of this module.
        """
        values = [None] * len(sites) if held is None else held.values
        new_values, parts = self.updated_values(values, step, source, sites, state)
        return SiteValues(new_values), total(step.join, parts, len(parts))

    def query(self, held: SiteValues, ask: Ask, told: Sequence[Any], state: Any) -> Iterator[Any]:
        """Yield ``ask(value, told[i], state)`` for the i-th stored value, in order.

        There is one value per site, for example per slice of the samples. `ask` must not modify the
        value, and must be picklable.
        """
        return self.answers(held.values, ask, told, state)

    def gather(
        self, held: SiteValues, ask: Ask, told: Sequence[Any], state: Any, make: Make
    ) -> Any:
        """Pass the answers of `query` to `make`, and return the object that it builds.

        The object is meant for the state of later jobs. A runtime may call `make` only on the
        workers that unpickle this state, so `make` must be picklable.
        """
        return make([*self.query(held, ask, told, state)])

    @final
    def updated_values(
        self,
        values: Sequence[Any],
        step: AbstractStep,
        source: AbstractSource,
        sites: Sites,
        state: Any,
    ) -> tuple[list[Any], list[Any]]:
        """Update `values` stored in this process; return the new values, and terms of a sum.

        There is one value and one term per site (for example a slice of the samples), see `update`.
        """
        totals = self._totals(step, source, sites, state)

        def finish(value: Any, i: int, state: Any) -> Any:
            mine, totals[i] = totals[i], None
            return step.finish(value, mine, sites[i].told, state, self.each)

        results = list(self.answers(values, finish, range(len(sites)), state))
        return [value for value, _ in results], [part for _, part in results]

    def _totals(
        self, step: AbstractStep, source: AbstractSource, sites: Sites, state: Any
    ) -> list[Any]:
        """Return, for each site (owner of a stored value), the sum of the results of its jobs.

        For a single site, it uses `sum_results`.
        """
        if len(sites) == 1 and sites[0].jobs:
            return [self.sum_results(step.of, source, sites[0].jobs, state, step.add)]
        jobs = [job for site in sites for job in site.jobs]
        with closing(self.map(step.of, source, jobs, state)) as results:
            return [total(step.add, results, len(site.jobs)) for site in sites]

    @final
    def answers(
        self, values: Sequence[Any], ask: Ask, told: Sequence[Any], state: Any
    ) -> Iterator[Any]:
        """Yield ``ask(value, told[i], state)`` for the i-th of the stored `values`, in order.

        The values are in this process, one per site (owner), for example per slice of the samples.
        """

        def answer(two: tuple[Any, Any]) -> Any:
            return ask(*two, state)

        return self.each(answer, zip(values, told, strict=True))

    def _polled(self, results: Generator[Any]) -> Generator[Any]:
        with closing(results):
            for result in results:
                self.poll_interrupt()
                yield result

    @final
    def poll_interrupt(self) -> None:
        """Call the function that `polling_interrupt` installed, if there is one."""
        if self._look is not None:
            self._look()

    @final
    @contextmanager
    def polling_interrupt(self, look: Callable[[], object]) -> Iterator[None]:
        """Context in which `look` is called between two results; an error in it ends the map."""
        before, self._look = self._look, look
        try:
            yield
        finally:
            self._look = before

    def each(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """Map a function over local items in this process; results are in order."""
        return map(function, items)

    def close(self) -> None:  # noqa: B027  # most runtimes have nothing to close
        """Close the threads and connections that the runtime created."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

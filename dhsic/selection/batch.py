"""Several runs over one reading of the data: many targets, many settings, halves of the samples.

The runs share all work that does not depend on the run: the data are opened, inspected and loaded
once, and runs that need the same blocks at the same time share one pass
(`dhsic.passes.shared_scan`). Each run gives the same result, bit for bit, as if it ran alone. The
number of runs that execute at the same time is limited by memory.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from typing import Any

from dhsic.errors import prefix_errors
from dhsic.memory import MemoryEstimate
from dhsic.passes.shared_scan import ScanCoordinator, same_samples
from dhsic.results.schema import Outcome
from dhsic.runtime.base import AbstractRuntime
from dhsic.selection import conductor
from dhsic.selection.progress import Progress
from dhsic.selection.run import SelectionRun, cache_budget
from dhsic.selection.stages import after, parts_of, stages_of
from dhsic.sources.views import ChecksummedSource


@dataclass(frozen=True)
class EstimatedRun:
    """Run with its memory estimate and the size of its feature cache.

    The size is in bytes (None: unlimited).
    """

    run: SelectionRun
    needed: MemoryEstimate
    budget: int | None

    @classmethod
    def of(cls, run: SelectionRun) -> EstimatedRun:
        """Estimate the memory of a run before any data are read; reject a run that cannot fit."""
        return cls(run, *conductor.promised(run, run.runtime.tightest()))

    def outcome(self, runtime: AbstractRuntime) -> Outcome:
        """Execute the run on a runtime and return its outcome."""
        with prefix_errors(self.run.name):
            run = replace(self.run, runtime=runtime)
            return conductor.outcome_of(run, self.needed, self.budget)


def outcomes_of(runs: Sequence[SelectionRun]) -> list[Outcome]:
    """Execute runs over one source on one runtime, with their stages; return one outcome per run.

    Additional runs for stages (`Stage.parts`) are executed too. Selectors, labels and samples may
    differ between runs. The `announce` callback of the first run receives the memory estimate of
    all runs together.
    """
    stages = [stage for run in runs for stage in stages_of(run.selector)]
    if len(runs) > 1 and not all(stage.shares_reading for stage in stages):
        return [outcomes_of([run])[0] for run in runs]
    if len(runs) == 1 and not any(stage.has_parts for stage in stages):
        (run,) = runs
        return [after(run, conductor.execute(run), [[] for _ in stages])]
    promises = list(_with_value_kinds([EstimatedRun.of(run) for run in runs]))
    parts_each = [parts_of(one.run) for one in promises]
    parts = [EstimatedRun.of(part) for by_stage in parts_each for part in chain(*by_stage)]
    beside = promises[0].needed.survivors
    n, needed = at_once(promises, 0)
    n_together, needed_by_parts = at_once(parts, beside) if parts else (0, needed)
    shared = len(runs) > 1 or n_together > 0
    if parts and not n_together:  # parts run one by one, reading from the store
        n_together, needed_by_parts = 1, needed
    needed = max(needed, needed_by_parts, key=lambda n: n.total)
    if runs[0].announce is not None:
        runs[0].announce(promises[0].run, needed)
    with ExitStack() as stack:
        opened = list(_loaded(promises, stack)) if shared else promises
        progress = stack.enter_context(closing(JointProgress(runs)))
        outcomes = _together(progress.attach(opened), n)
        again = [_again(one.run, outcome) for one, outcome in zip(opened, outcomes, strict=True)]
        loaded = (part for run in again for part in chain(*parts_of(run)))
        parts = [replace(one, run=part) for one, part in zip(parts, loaded, strict=True)]
        of_parts = iter(_together(parts, n_together))
        return [
            after(
                run,
                replace(outcome, promise=needed),
                [list(islice(of_parts, len(own))) for own in by_stage],
            )
            for run, outcome, by_stage in zip(runs, outcomes, parts_each, strict=True)
        ]


def _with_value_kinds(asked: Sequence[EstimatedRun]) -> Iterator[EstimatedRun]:
    """Inspect feature values, once for all runs on the same samples; yield the inspected runs."""
    inspected: list[SelectionRun] = []
    for one in asked:
        like = next((run for run in inspected if same_samples(run.rows, one.run.rows)), None)
        if like is None:
            inspected.append(like := one.run.with_value_kind(load=cache_budget(one.budget)))
        run = replace(
            one.run, source=like.source, values=like.values, given=like.given, loaded=like.loaded
        )
        run = replace(run, table=like.table)
        yield replace(one, run=run)


def _loaded(asked: Sequence[EstimatedRun], stack: ExitStack) -> Iterator[EstimatedRun]:
    """Load features, once for all runs on the same samples; yield runs that read loaded features.

    `stack` closes the readers.
    """
    loaded: list[SelectionRun] = []
    for one in asked:
        like = next((run for run in loaded if same_samples(run.rows, one.run.rows)), None)
        if like is None and one.run.selector.keeps_features:
            data = stack.enter_context(closing(one.run.reader(one.budget)))
            data.load_for_all()
            loaded.append(like := replace(one.run, common=data))
        common = None if like is None else like.common
        yield replace(one, run=replace(one.run, loaded=None, common=common))


def _again(run: SelectionRun, outcome: Outcome) -> SelectionRun:
    """Return a finished run with a source that checks on every read that data are unchanged."""
    checksums = outcome.scaling.checksum
    return replace(run, source=ChecksummedSource.over(run.source, checksums, run.rows))


def at_once(asked: Sequence[EstimatedRun], beside: int) -> tuple[int, MemoryEstimate]:
    """Compute how many runs fit in memory together; return the number and their memory estimate.

    `beside` is the memory that other data need at the same time, in bytes. If it is 0, the number
    of runs is at least 1, because a single run was already accepted.
    """
    most = max((one.needed for one in asked), key=lambda needed: needed.total)
    n, limit = len(asked), asked[0].run.selector.memory_limit
    while n > (1 if not beside else 0) and most.of_runs(n, beside).total > most.allowed(limit):
        n -= 1
    return n, most.of_runs(max(n, 1), beside)


def _together(asked: Sequence[EstimatedRun], n: int) -> list[Outcome]:
    """Execute runs, n of them at a time, and return their outcomes."""
    outcomes = []
    for start in range(0, len(asked), max(1, n)):
        batch = asked[start : start + n]
        runtime = batch[0].run.runtime
        if len(batch) == 1:
            outcomes.append(batch[0].outcome(runtime))
        else:
            outcomes += ScanCoordinator(runtime).run_all([one.outcome for one in batch])
    return outcomes


class JointProgress:
    """One progress bar for several runs.

    See `Progress`. Each run reports its rounds to it.
    """

    def __init__(self, runs: Sequence[SelectionRun]) -> None:
        progress = runs[0].selector.progress
        self._hook = progress if callable(progress) else None
        self._bar = Progress(False if self._hook else progress)  # a hook replaces the bar
        self._done = [0] * len(runs)
        self._begun = False
        self._lock = threading.Lock()

    def attach(self, asked: Sequence[EstimatedRun]) -> Sequence[EstimatedRun]:
        """Return the runs; if there are several, they report their progress to this object."""
        if len(asked) == 1:
            return asked
        reporting = [one.run.asking(progress=self._of(i)) for i, one in enumerate(asked)]
        return [replace(one, run=run) for one, run in zip(asked, reporting, strict=True)]

    def _of(self, number: int) -> Callable[[Mapping[str, Any]], None]:
        return partial(self._hear, number)

    def _hear(self, number: int, told: Mapping[str, Any]) -> None:
        with self._lock:
            if self._hook is not None:
                self._hook({**told, "run": number})
            if not self._begun:
                self._bar.expect(len(self._done) * told["features_total"])
                self._begun = True
            self._bar.scored(told["features_done"] - self._done[number])
            self._done[number] = told["features_done"]

    def close(self) -> None:
        """Remove the progress bar."""
        self._bar.close()

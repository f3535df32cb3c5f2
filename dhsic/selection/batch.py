"""Several runs over one reading of the data: many targets, many settings, halves of the samples.

What runs share is whatever does not depend on the run: data that are opened, looked at and loaded
once, and passes over the same blocks that they ask for at the same time
(`dhsic.passes.meeting`). Each finds what it finds alone, bit for bit. As many go on at once as the
memory allows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any

from dhsic.memory import MemoryEstimate
from dhsic.passes.meeting import Meeting, same_samples
from dhsic.results.schema import Outcome
from dhsic.runtime.base import AbstractRuntime
from dhsic.selection import conductor
from dhsic.selection.progress import Progress
from dhsic.selection.run import SelectionRun, named, room
from dhsic.selection.stability import check_halves, halved, with_stability
from dhsic.sources.views import ChecksummedSource


@dataclass(frozen=True)
class Promised:
    """A run, its peak-memory estimate, and bytes of it for features, see `conductor.promised`."""

    run: SelectionRun
    needed: MemoryEstimate
    budget: int | None

    @classmethod
    def of(cls, run: SelectionRun) -> Promised:
        """Refuse what can be refused before the data are read."""
        return cls(run, *conductor.promised(run, run.runtime.tightest()))

    def outcome(self, runtime: AbstractRuntime) -> Outcome:
        """Outcome of the run on a runtime."""
        with named(self.run.name):
            run = replace(self.run, runtime=runtime)
            return conductor.outcome_of(run, self.needed, self.budget)


def outcomes_of(runs: Sequence[SelectionRun]) -> list[Outcome]:
    """Outcomes of runs over one source, on one runtime, with the stability that they ask for.

    Selectors, labels and samples may differ. The first run announces the memory of all.
    """
    if len(runs) > 1 and any(run.selector.control is not None for run in runs):
        return [outcomes_of([run])[0] for run in runs]  # each has shadows of its own
    for run in runs:
        check_halves(run)
    if len(runs) == 1 and not runs[0].selector.stability:
        return [conductor.execute(runs[0])]
    asked = list(_looked([Promised.of(run) for run in runs]))
    halves = [Promised.of(half) for one in asked for half in halved(one.run)]
    beside = asked[0].needed.survivors
    n, needed = at_once(asked, 0)
    n_halves, needed_by_halves = at_once(halves, beside) if halves else (0, needed)
    shared = len(runs) > 1 or n_halves > 0
    if halves and not n_halves:  # they read what they need of the store, one after the other
        n_halves, needed_by_halves = 1, needed
    needed = max(needed, needed_by_halves, key=lambda n: n.total)
    if runs[0].announce is not None:
        runs[0].announce(asked[0].run, needed)
    with ExitStack() as stack:
        opened = list(_loaded(asked, stack)) if shared else asked
        progress = stack.enter_context(closing(JointProgress(runs)))
        found = _together(progress.heard(opened), n)
        again = [_again(one.run, outcome) for one, outcome in zip(opened, found, strict=True)]
        parts = (half for run in again for half in halved(run))
        halves = [replace(one, run=half) for one, half in zip(halves, parts, strict=True)]
        of_halves = iter(_together(halves, n_halves))
        return [
            with_stability(
                run,
                replace(outcome, promise=needed),
                list(islice(of_halves, int(run.selector.stability))),
            )
            for run, outcome in zip(runs, found, strict=True)
        ]


def _looked(asked: Sequence[Promised]) -> Iterator[Promised]:
    """The runs once they know what the values are: looked at once for the same samples."""
    known: list[SelectionRun] = []
    for one in asked:
        like = next((run for run in known if same_samples(run.rows, one.run.rows)), None)
        if like is None:
            known.append(like := one.run.looked(load=room(one.budget)))
        run = replace(
            one.run, source=like.source, values=like.values, given=like.given, loaded=like.loaded
        )
        yield replace(one, run=run)


def _loaded(asked: Sequence[Promised], stack: ExitStack) -> Iterator[Promised]:
    """The runs with data that are loaded, once for the same samples, where methods load them."""
    known: list[SelectionRun] = []
    for one in asked:
        like = next((run for run in known if same_samples(run.rows, one.run.rows)), None)
        if like is None and one.run.selector.keeps_features:
            data = stack.enter_context(closing(one.run.reader(one.budget)))
            data.load_for_all()
            known.append(like := replace(one.run, common=data))
        common = None if like is None else like.common
        yield replace(one, run=replace(one.run, loaded=None, common=common))


def _again(run: SelectionRun, outcome: Outcome) -> SelectionRun:
    """A run that was done: what it reads again is compared with what it read before."""
    checksums = outcome.scaling.checksum
    return replace(run, source=ChecksummedSource.over(run.source, checksums, run.rows))


def at_once(asked: Sequence[Promised], beside: int) -> tuple[int, MemoryEstimate]:
    """How many runs fit the memory together, and what they need, `beside` bytes included.

    Without anything beside them one does in any case: it was promised.
    """
    most = max((one.needed for one in asked), key=lambda needed: needed.total)
    n, limit = len(asked), asked[0].run.selector.memory
    while n > (1 if not beside else 0) and most.of_runs(n, beside).total > most.allowed(limit):
        n -= 1
    return n, most.of_runs(max(n, 1), beside)


def _together(asked: Sequence[Promised], n: int) -> list[Outcome]:
    """Outcomes of runs, n of which go on at once."""
    found = []
    for start in range(0, len(asked), max(1, n)):
        some = asked[start : start + n]
        runtime = some[0].run.runtime
        if len(some) == 1:
            found.append(some[0].outcome(runtime))
        else:
            found += Meeting(runtime).hold([one.outcome for one in some])
    return found


class JointProgress:
    """Progress of several runs as that of one, see `Progress`; each of them tells its rounds."""

    def __init__(self, runs: Sequence[SelectionRun]) -> None:
        asked = runs[0].selector.progress
        self._hook = asked if callable(asked) else None
        self._bar = Progress(False if self._hook else asked)  # as of selectors
        self._done = [0] * len(runs)
        self._begun = False
        self._lock = threading.Lock()

    def heard(self, asked: Sequence[Promised]) -> Sequence[Promised]:
        """The runs, which are heard from now on where they are several."""
        if len(asked) == 1:
            return asked
        heard = [one.run.asking(progress=self._of(i)) for i, one in enumerate(asked)]
        return [replace(one, run=run) for one, run in zip(asked, heard, strict=True)]

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
        """Take the bar away."""
        self._bar.close()

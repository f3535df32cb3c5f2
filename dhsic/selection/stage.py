"""Interface of a stage: a step around the ranking of a run, such as hold-out or clumping.

Stages are nested: steps before the ranking are executed from the outermost stage to the innermost,
and steps after it in reverse order.

1. `Stage.check` may reject a run, and `Stage.cost` returns its memory and work, before data are
   read.
2. `Stage.before` changes the run, for example its samples or features.
3. `Stage.parts` adds runs on parts of the samples, which share the reading of the data.
4. `Stage.ranked` changes the ranking while features can still be read.
5. `Stage.after` changes the outcome, with the outcomes of the parts.
6. `Stage.sentences` describes the findings of the stage, for the command line and reports.

`dhsic.selection.stages` has the table of all stages and their nesting.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import xarray as xr

from dhsic.memory import MemoryEstimate
from dhsic.results.schema import Order, Outcome
from dhsic.selection.run import LaterReader, Method, SelectionRun
from dhsic.sources.scaling import Scaling
from dhsic.validation import Constraint


class StageCost(NamedTuple):
    """Memory and work of a stage, in addition to the rounds."""

    #: Peak memory of the stage's tasks, in bytes; the rounds have finished by then.
    task_bytes: int = 0
    #: Whether the stage is skipped if there is not enough memory.
    is_optional: bool = False
    #: Note for plans about work that their times do not include; "" if there is none.
    note: str = ""


@dataclass(frozen=True)
class RankedRun:
    """Ranking of a run while its features can still be read.

    `features` is the reader for further reads, `promise` the memory estimate of the run, and
    `pairs` the table of scanned pairs, if there is one.
    """

    order: Order
    scaling: Scaling
    features: LaterReader
    promise: MemoryEstimate
    pairs: xr.Dataset | None = None


class Stage:
    """Step around the ranking of a run.

    By default, every method of a stage does nothing. There are two kinds of stages. A stage of the
    first kind is requested by `parameters` of the selector, and reads them from ``run.selector``. A
    stage of the second kind is a dataclass with its own parameters. Users pass an instance in
    ``stages=[...]``, or its name if every parameter has a default.
    """

    #: Name in the table of stages, in ``stages=`` and ``--stages``.
    name: ClassVar[str]
    #: Validators of the selector's parameters that belong to the stage, by name.
    constraints: ClassVar[Mapping[str, Constraint]] = {}
    #: Parameters of the selector that request the stage. A result records those that are plain
    #: values and differ from their defaults.
    parameters: ClassVar[tuple[str, ...]] = ()
    #: Values of parameters that turn the stage off in runs on parts of the samples (halves, folds).
    off: ClassVar[Mapping[str, Any]] = {}
    #: Whether a stage of ``stages=`` is also part of the runs of other stages (halves, folds): its
    #: `ranked` is called there, not its `before` or `after`.
    in_parts: ClassVar[bool] = False
    #: Whether several runs with the stage can share one reading of the data.
    shares_reading: ClassVar[bool] = True

    @classmethod
    def of(cls, selector: Method) -> Self | None:
        """Stage that a selector requests by its parameters; None if no such parameter is set."""
        values = [getattr(selector, name) for name in cls.parameters]
        is_unset = [value is None or (isinstance(value, int) and not value) for value in values]
        return None if all(is_unset) else cls()

    @classmethod
    def check_parameters(cls, selector: Method) -> None:
        """Reject parameters of the stage that contradict each other or other parameters."""

    def check(self, run: SelectionRun) -> None:
        """Reject a run that the stage does not support, before its data are read."""

    def cost(self, run: SelectionRun) -> StageCost:
        """Memory and work of the stage."""
        return StageCost()

    def before(self, run: SelectionRun) -> SelectionRun:
        """Return the run to execute: `run`, or a copy with other samples or features."""
        return run

    def parts(self, run: SelectionRun) -> Iterator[SelectionRun]:
        """Yield further runs; their outcomes are passed to `after`.

        These are runs on a part of the samples (`SelectionRun.part`), or on all samples with other
        labels (``replace(run.part(np.arange(run.n_samples), place), y=...)``). No `before` or
        `after` of a stage is applied to them: features that an outer stage added, such as shadows,
        are still there, so outcomes may list positions at or above the number of features of the
        data. The generator is called twice per run, once to estimate memory and once to execute the
        parts, and must yield the same runs both times.
        """
        yield from ()

    @property
    def has_parts(self) -> bool:
        """Whether the stage adds runs on parts of the samples."""
        return type(self).parts is not Stage.parts

    def rereads(self, run: SelectionRun, promise: MemoryEstimate) -> bool:
        """Whether `ranked` reads all features several times, so they should be loaded."""
        return False

    def ranked(self, run: SelectionRun, ranking: RankedRun) -> RankedRun:
        """Return the ranking after this stage; features can still be read."""
        return ranking

    def after(self, run: SelectionRun, outcome: Outcome, parts: Sequence[Outcome]) -> Outcome:
        """Return the outcome after this stage.

        `parts` are the outcomes of the runs of `Stage.parts`. The features selected so far are
        ``outcome.worst_first[::-1][: outcome.n_selected(run.n_wanted)]``; an outer stage may change
        their number, as shadows do.
        """
        return outcome

    @classmethod
    def sentences(cls, result: xr.Dataset) -> Iterator[str]:  # noqa: ARG003  # subclasses read it
        """Yield sentences on the findings of the stage; yield none if the run did not use it."""
        yield from ()

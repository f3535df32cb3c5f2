"""Interface of a stage: a step around the ranking of a run, such as hold-out or clumping.

A run with stages goes through them from the outermost to the innermost, is ranked, and comes back:

1. `Stage.check` rejects a run, and `Stage.cost` states memory and work, before data are read;
2. `Stage.before` changes the run: other samples, more features;
3. `Stage.parts` adds runs on parts of the samples, over the same reading of the data;
4. `Stage.ranked` changes the ranking while features can still be read;
5. `Stage.after` changes the outcome, with the outcomes of the parts;
6. `Stage.sentences` says what the stage found, for the command line and reports.

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
    """Memory and work of a stage, beside the rounds."""

    #: Peak memory of tasks in bytes, instead of that of the rounds.
    task_bytes: int = 0
    #: Whether the stage is skipped if memory is short.
    is_optional: bool = False
    #: Note for plans on work that their times leave out; "" for none.
    note: str = ""


@dataclass(frozen=True)
class RankedRun:
    """Ranking of a run while its features can be read: order, scaling, pairs of features."""

    order: Order
    scaling: Scaling
    features: LaterReader
    promise: MemoryEstimate
    pairs: xr.Dataset | None = None


class Stage:
    """A step around the ranking of a run. Every hook does nothing by default.

    A stage is either asked for by `parameters` of the selector, and reads them from
    ``run.selector``; or it is a dataclass with parameters of its own that users pass by
    ``stages=[...]``, or by its name if every parameter has a default.
    """

    #: Name in the table of stages, in ``stages=`` and ``--stages``.
    name: ClassVar[str]
    #: Validators of the selector's parameters that belong to the stage, by name.
    constraints: ClassVar[Mapping[str, Constraint]] = {}
    #: Parameters of the selector that ask for the stage. A result records those that are set to
    #: plain values and not to their defaults.
    parameters: ClassVar[tuple[str, ...]] = ()
    #: Parameters, with values, that leave the stage out of runs on parts of the samples (halves,
    #: folds). A stage of ``stages=`` is left out unless `in_parts`.
    off: ClassVar[Mapping[str, Any]] = {}
    in_parts: ClassVar[bool] = False
    #: Whether several runs with the stage can share one reading of the data.
    shares_reading: ClassVar[bool] = True

    @classmethod
    def of(cls, selector: Method) -> Self | None:
        """Stage that a selector's parameters ask for; None if none of `parameters` is set."""
        values = [getattr(selector, name) for name in cls.parameters]
        is_unset = [value is None or (isinstance(value, int) and not value) for value in values]
        return None if all(is_unset) else cls()

    @classmethod
    def check_parameters(cls, selector: Method) -> None:
        """Reject combinations of the stage's parameters, and others that contradict them."""

    def check(self, run: SelectionRun) -> None:
        """Reject a run before its data are read."""

    def cost(self, run: SelectionRun) -> StageCost:
        """Memory and work of the stage."""
        return StageCost()

    def before(self, run: SelectionRun) -> SelectionRun:
        """Return the run to execute: the run itself, or one on other samples or features."""
        return run

    def parts(self, run: SelectionRun) -> Iterator[SelectionRun]:
        """Yield runs on parts of the samples, `SelectionRun.part`, for `after`."""
        yield from ()

    @property
    def has_parts(self) -> bool:
        """Whether the stage adds runs on parts of the samples."""
        return type(self).parts is not Stage.parts

    def rereads(self, run: SelectionRun, promise: MemoryEstimate) -> bool:
        """Whether `ranked` reads all features several times, so that loading them pays."""
        return False

    def ranked(self, run: SelectionRun, ranking: RankedRun) -> RankedRun:
        """Return the ranking, changed, while features can still be read."""
        return ranking

    def after(self, run: SelectionRun, outcome: Outcome, parts: Sequence[Outcome]) -> Outcome:
        """Return the outcome, changed; `parts` are the outcomes of the runs of `Stage.parts`."""
        return outcome

    @classmethod
    def sentences(cls, result: xr.Dataset) -> Iterator[str]:  # noqa: ARG003  # subclasses read it
        """Yield what the stage found, in sentences, for results of runs with or without it."""
        yield from ()

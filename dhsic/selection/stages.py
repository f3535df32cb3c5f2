"""Table of stages, and the stages of a selector.

The table is ordered from the outermost stage to the innermost. Samples are held out before shadow
features are added; halves are drawn from the remaining samples; pairs are scanned after clumping.
Survival curves need no parameter. They are stored for every run on times to an event.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dhsic.errors import InputError
from dhsic.results.schema import Outcome
from dhsic.selection.clumping import Clumping
from dhsic.selection.holdout import HoldOut
from dhsic.selection.interactions import Interactions
from dhsic.selection.run import Method, SelectionRun
from dhsic.selection.shadows import Shadows
from dhsic.selection.stability import Stability
from dhsic.selection.stage import Stage
from dhsic.selection.survival_curves import SurvivalCurves

#: Stages by name, the outermost first.
STAGES: dict[str, type[Stage]] = {
    stage.name: stage
    for stage in (HoldOut, SurvivalCurves, Shadows, Stability, Interactions, Clumping)
}


def stages_of(selector: Method) -> tuple[Stage, ...]:
    """Stages that a selector requests, outermost first; stages not in the table come last."""
    passed = {stage.name: stage for stage in passed_stages(selector.stages)}
    by_parameters = {name: stage.of(selector) for name, stage in STAGES.items()}
    unlisted = [stage for name, stage in passed.items() if name not in STAGES]
    listed = (passed.get(name) or stage for name, stage in by_parameters.items())
    return (*(stage for stage in listed if stage is not None), *unlisted)


def passed_stages(stages: str | Iterable[str | Stage]) -> tuple[Stage, ...]:
    """Resolve a ``stages=`` parameter: stages, or names of the table.

    Raises
    ------
    InputError
        An entry is neither a stage nor the name of one.
    """
    entries = [stages] if isinstance(stages, str) else [*stages]
    return tuple(_resolved(entry) for entry in entries)


def _resolved(entry: Any) -> Stage:
    if isinstance(entry, Stage):
        return entry
    if isinstance(entry, str) and entry in STAGES:
        if parameters := STAGES[entry].parameters:
            raise InputError(
                f"stages={entry!r}: this stage is set by parameters of the method; pass "
                f"{' or '.join(f'{name}=' for name in parameters)}."
            )
        try:
            return STAGES[entry]()
        except TypeError as error:
            raise InputError(
                f"stages={entry!r}: this stage has parameters without defaults; pass it as "
                f"{STAGES[entry].__name__}(...)."
            ) from error
    names = [name for name, stage in STAGES.items() if not stage.parameters]
    of_parameters = [f"{stage.parameters[0]}=" for stage in STAGES.values() if stage.parameters]
    named = f", or names of added stages ({', '.join(names)})" if names else ""
    raise InputError(
        f"stages= contains {entry!r}; pass objects of dhsic.selection.stage.Stage{named}. "
        f"The stages of dhsic itself are set by parameters: {', '.join(of_parameters)}."
    )


def left_out_of_parts(selector: Method) -> dict[str, Any]:
    """Parameters that turn off stages in runs on parts of the samples, see `Stage.off`."""
    off = {name: value for stage in STAGES.values() for name, value in stage.off.items()}
    kept = tuple(stage for stage in passed_stages(selector.stages) if stage.in_parts)
    return {**off, "stages": kept}


def parts_of(run: SelectionRun) -> list[list[SelectionRun]]:
    """Additional runs of each stage on parts of the samples, outermost stage first."""
    out = left_out_of_parts(run.selector)
    return [[part.asking(**out) for part in stage.parts(run)] for stage in stages_of(run.selector)]


def before(run: SelectionRun) -> SelectionRun:
    """Apply `Stage.before` of each stage to a run, from the outermost stage to the innermost."""
    for stage in stages_of(run.selector):
        run = stage.before(run)
    return run


def after(run: SelectionRun, outcome: Outcome, parts: list[list[Outcome]]) -> Outcome:
    """Apply `Stage.after` of each stage to an outcome, from the innermost stage to the outermost.

    `parts` has one list per stage, outermost first. It contains the outcomes of the runs that the
    stage added on parts of the samples.
    """
    for stage, own in reversed([*zip(stages_of(run.selector), parts, strict=True)]):
        outcome = stage.after(run, outcome, own)
    return outcome

"""Hold-out: features are selected on some samples and tested on the others.

A p-value is too small if it is computed on the same samples that were used to select the feature.
Even among null features, a selection picks the ones that look associated by chance. Held-out
samples are not used in the selection. On them, every selected feature is tested on its own
(`dhsic.criteria.independence`), and p-values are adjusted for the number of selected features
(Benjamini and Hochberg, 1995).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dhsic._typing import Array, Index
from dhsic.criteria.independence import Independence, adjusted_p_values
from dhsic.errors import InputError
from dhsic.kernels.labels import SELF
from dhsic.memory import task_bytes
from dhsic.passes.jobs import block_bytes
from dhsic.passes.single_pass import Judge, read_once
from dhsic.results.schema import Outcome
from dhsic.runtime.threads import single_blas_thread
from dhsic.selection.progress import Progress
from dhsic.selection.run import SelectionRun
from dhsic.selection.stability import strata
from dhsic.selection.stage import Stage, StageCost
from dhsic.sources.views import SubsetSource
from dhsic.validation import is_number, seed_of

OF_HELD = "of the feature alone and the labels, on the held-out samples; NaN if not selected"
MEANINGS = {
    "p": f"p-value of HSIC {OF_HELD}",
    "q": "false discovery rate among the selected features with this p-value or a smaller one",
}


def check_holdout(name: str, value: Any) -> None:
    """Reject values that are neither a fraction of the samples nor a boolean mask."""
    if value is None or (is_number(value) and 0 < float(value) < 1):
        return
    mask = np.asarray(value)
    if mask.ndim != 1 or mask.dtype.kind != "b":
        got = repr(value) if mask.ndim == 0 else f"an array of {mask.dtype} {mask.shape}"
        raise InputError(
            f"{name} is {got}; pass the fraction of the samples to hold out, such as 0.3, or a "
            "boolean mask with one value per sample."
        )


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Held-out samples, and the test of features on them."""

    rows: Index
    judge: Judge


class HoldOut(Stage):
    """Select features on some of the samples, and test the selected features on the others."""

    name = "holdout"
    constraints: ClassVar = {"holdout": check_holdout}
    parameters = ("holdout",)
    off: ClassVar = {"holdout": None}

    def before(self, run: SelectionRun) -> SelectionRun:
        """Return the run without the held-out samples.

        The `stage_state` of the run contains the test on the held-out samples.
        """
        selector = run.selector
        if selector.label_kernel == SELF:
            raise InputError(
                "holdout= tests features against labels, but label_kernel='self' has no labels. "
                "Leave one of them out."
            )
        run.check_sizes()
        mask = _mask(run)
        selecting, testing = (run.of_samples(np.flatnonzero(subset)) for subset in (~mask, mask))
        criterion = Independence(label_kernel=selector.label_kernel)
        assert testing.y is not None, "there are labels"
        try:
            labels = criterion.read(testing.y, testing.covariates)
            prepared = criterion.prepare(labels, testing.covariates)
        except InputError as error:
            raise InputError(
                f"holdout= holds out {testing.n_samples} of {run.n_samples} samples, which cannot "
                f"be tested: {error}"
            ) from error
        assert testing.rows is not None, "they are some"
        judge = Judge(standardize=True, criterion=criterion, prepared=prepared)
        return selecting.with_state(self.name, HeldOut(testing.rows, judge))

    def cost(self, run: SelectionRun) -> StageCost:
        held_out: HeldOut | None = run.stage_state.get(self.name)
        if held_out is None:
            return StageCost()
        m = len(held_out.rows)
        block, tile = block_bytes(run.source, m), held_out.judge.cost(m).tile
        return StageCost(task_bytes(run.runtime.n_here, block, tile)["tasks"])

    def after(self, run: SelectionRun, outcome: Outcome, parts: Sequence[Outcome]) -> Outcome:
        """Add columns ``p`` and ``q`` of the selected features.

        A feature that is constant on the held-out samples has p-value 1.
        """
        held_out: HeldOut = run.stage_state[self.name]
        order, values = outcome.order, np.full((2, outcome.source.n_features), np.nan)
        chosen = np.sort(outcome.worst_first[::-1][: outcome.n_selected(run.n_wanted)])
        if chosen.size:
            source = SubsetSource(outcome.source, chosen)
            progress = Progress(progress=False)
            with single_blas_thread():
                scores = read_once(
                    source, run.runtime, held_out.judge, progress, rows=held_out.rows
                )
            p = 10.0 ** -np.nan_to_num(scores.columns[0], nan=0.0)
            values[:, chosen] = p, adjusted_p_values(p)
        columns = {name: (of, MEANINGS[name]) for name, of in zip("pq", values, strict=True)}
        order = order.at(slice(None), {"n_held_out": len(held_out.rows)}, **columns)
        return replace(outcome, order=order)


def _mask(run: SelectionRun) -> Array:
    """Mask (m,) of the held-out samples.

    If `holdout` is a fraction, this fraction of each class is held out.
    """
    holdout, m = run.selector.holdout, run.n_samples
    if is_number(holdout):
        rng, mask = np.random.default_rng(seed_of(run.selector.random_state)), np.zeros(m, bool)
        for stratum in strata(run.y, m):
            mask[rng.permutation(stratum)[: round(float(holdout) * stratum.size)]] = True
    else:
        mask = np.asarray(holdout)
        if run.rows is not None and mask.size == run.source.n_samples:
            mask = mask[run.rows]
    if mask.size != m or mask.all() or not mask.any():
        raise InputError(
            f"holdout= holds out {int(mask.sum())} of {mask.size} samples, and the data have {m}. "
            "Pass a fraction that leaves samples in both parts, or a mask with one value per "
            "sample."
        )
    return mask

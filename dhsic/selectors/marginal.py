"""The test of every feature alone, made beside a selection: marginal p-values.

One pass over all features before any has left (`dhsic.criteria.independence`, HSIC of ranks at
several widths). The p-values say whether the labels depend on a feature in any shape, and nothing
about the other features: they are marginal. They do not depend on the selection, so they are valid
for all features, selected or not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dhsic._typing import Array, Float
from dhsic.criteria.independence import Independence
from dhsic.criteria.multiscale import Multiscale
from dhsic.errors import InputError
from dhsic.passes.jobs import merged
from dhsic.passes.once import MANY_JOBS, Judge
from dhsic.passes.reader import AbstractReader

if TYPE_CHECKING:
    from dhsic.selectors.run import SelectionRun

ALONE = "of the feature alone and the labels, whatever the other features are"
MEANINGS = {
    "p": f"marginal p-value: probability of an HSIC as large under independence, {ALONE}",
    "q": "marginal q-value: expected part of the features of this p-value or less that do not "
    "depend on the labels",
    "width": f"width at which the dependence is strongest, {ALONE}, as a part of the range of "
    "ranks: 1 is a straight line",
    "shape": f"shape of the dependence {ALONE}: linear, monotone or turning",
}
#: Why labels of many classes are not tested.
MANY_CLASSES = "The labels have more than 64 classes, which the test at several widths does not take."


@dataclass(frozen=True)
class MarginalTest:
    """Test of every feature alone.

    Attributes
    ----------
    state : Multiscale
        Labels as the test takes them.
    p, q, width : (d,) float64
        p-value, q-value and width of the strongest dependence; NaN where a feature is constant.
    shape : (d,) object
        Shape of the dependence, "" where a feature is constant.
    """

    state: Multiscale
    p: Float
    q: Float
    width: Float
    shape: Array

    def columns(self) -> dict[str, tuple[Array, str]]:
        """Columns for the result, by name."""
        return {f"{name}_marginal": (getattr(self, name), MEANINGS[name]) for name in MEANINGS}


def marginal_judge(run: SelectionRun) -> Judge:
    """Pass that tests each feature alone, without the labels, for plans and memory estimates."""
    return Judge(True, Independence(label_kernel=run.selector.label_kernel))


def marginal_test(run: SelectionRun, data: AbstractReader) -> MarginalTest | str:
    """Test every feature that varies; or the reason why the labels cannot be tested.

    Parameters
    ----------
    run : SelectionRun
        Its labels and covariates.
    data : AbstractReader
        Reads all features; how they are scaled is known.
    """
    criterion = Independence(label_kernel=run.selector.label_kernel)
    assert run.y is not None, "there are labels"
    try:
        labels = criterion.read(run.y, run.covariates)
        state = criterion.prepare(labels, run.covariates)
    except InputError as error:
        return str(error)
    if not isinstance(state, Multiscale):
        return MANY_CLASSES
    beside = data.apart()  # no round has read it
    jobs = beside.jobs(np.arange(data.source.n_features, dtype=np.int64), scaled=False)
    jobs = merged(jobs, max(MANY_JOBS, -(-len(jobs) // 2)))
    judge = Judge(run.standardizes, criterion, state)
    columns = np.concatenate([found for _, found in beside.joined(judge, jobs)], axis=1)
    alive, d = data.alive, data.source.n_features
    others = criterion.finish(state, columns[:, alive]).others
    p, q, width = (np.full(d, np.nan) for _ in range(3))
    shape = np.full(d, "", dtype=object)
    for name, values in {"p": p, "q": q, "width": width, "shape": shape}.items():
        values[alive] = others[name][0]
    return MarginalTest(state, p, q, width, shape)

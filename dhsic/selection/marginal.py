"""Marginal test of every feature, in addition to a selection.

One pass over all features, before any is eliminated, tests each of them for independence of the
labels (`dhsic.criteria.independence`: HSIC of ranks at several widths). The test detects
dependences of any form, and ignores the other features. The p-values do not depend on the
selection, so they are valid for selected and unselected features.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.criteria.base import AbstractCriterion
from dhsic.criteria.blocks import BlockIndependence, BlockState
from dhsic.criteria.independence import Independence
from dhsic.criteria.multiscale import Multiscale
from dhsic.errors import InputError
from dhsic.passes.jobs import merged
from dhsic.passes.reader import AbstractReader
from dhsic.passes.single_pass import MANY_JOBS, Judge, by_ploidy, read_once
from dhsic.runtime.base import Job
from dhsic.selection.missing_calls import warn_of_missing
from dhsic.selection.progress import Progress
from dhsic.selection.run import SelectionRun
from dhsic.sources.scaling import Scaling

ALONE = "of the feature alone and the labels, whatever the other features are"
MEANINGS = {
    "p": f"marginal p-value: probability of an HSIC as large under independence, {ALONE}",
    "q": "q-value: false discovery rate among the features with this p-value or a smaller one, "
    "each tested alone",
    "width": f"kernel width at which the dependence is strongest, {ALONE}, as a fraction of the "
    "range of ranks; the widest is 1",
    "shape": f"shape of the dependence {ALONE}: linear, monotone or turning",
}
#: Float64 values per feature held by the test and its result, for the memory estimate.
VECTORS = 12
#: Maximum number of samples at which a selection also tests features; and message for more samples.
MOST_TESTED = 100_000
MANY_SAMPLES = (
    f"Features are not tested, because there are more than {MOST_TESTED:,} samples. To test them, "
    "use dhsic test."
)
#: Message if samples have weights.
WITH_WEIGHTS = (
    "Samples have weights, so features are ranked by HSIC only. To test features with these "
    "weights, use dhsic test."
)
#: Message if the labels have too many classes for the test.
MANY_CLASSES = (
    "The labels have more than 64 classes, which the test at several widths does not support."
)


@dataclass(frozen=True)
class MarginalTest:
    """Result of the marginal test of every feature.

    Attributes
    ----------
    state : Multiscale or BlockState
        Label state of the test.
    p, q, width : (d,) float64
        p-value, q-value, and width at which the dependence is strongest; NaN for constant features.
    shape : (d,) object
        Shape of the dependence; "" for constant features.
    """

    state: Multiscale | BlockState
    p: Float
    q: Float
    width: Float
    shape: Array

    def columns(self) -> dict[str, tuple[Array, str]]:
        """Columns of the result by name, each with its values (d,) and a description."""
        return {f"{name}_marginal": (getattr(self, name), MEANINGS[name]) for name in MEANINGS}


def marginal_criterion(run: SelectionRun) -> AbstractCriterion:
    """Criterion that tests each feature for independence of the labels."""
    if run.blocks is not None:
        return BlockIndependence(run.blocks, run.selector.label_kernel)
    return Independence(label_kernel=run.selector.label_kernel)


def marginal_judge(run: SelectionRun) -> Judge:
    """Pass that tests features, without prepared labels, for plans and memory estimates."""
    return Judge(standardize=True, criterion=marginal_criterion(run))


def marginal_bytes(run: SelectionRun) -> int:
    """Memory of the label state and of the result columns of the marginal test, in bytes."""
    of_labels = marginal_criterion(run).label_bytes(run.n_samples)
    return of_labels + 8 * VECTORS * run.source.n_features


def jobs_over(data: AbstractReader, features: Index) -> list[Job]:
    """Jobs of the pass that tests the features at positions `features` (n,)."""
    jobs = data.jobs(features, scaled=False)
    return merged(jobs, max(MANY_JOBS, -(-len(jobs) // 2)))


def every_job(data: AbstractReader) -> list[Job]:
    """Jobs of the pass that tests all features."""
    return jobs_over(data, np.arange(data.source.n_features, dtype=np.int64))


def marginal_test(run: SelectionRun, data: AbstractReader) -> MarginalTest | str:
    """Test every feature that varies; return a message instead if the labels cannot be tested.

    Parameters
    ----------
    run : SelectionRun
        Run with labels and covariates.
    data : AbstractReader
        Reader of all features that knows how they are scaled.
    """
    criterion = marginal_criterion(run)
    assert run.y is not None, "there are labels"
    try:
        labels = criterion.read(run.y, run.covariates)
        state = criterion.prepare(labels, run.covariates)
    except InputError as error:
        return str(error)
    if not isinstance(state, Multiscale | BlockState):
        return MANY_CLASSES
    judge = Judge(run.standardizes, criterion, state)
    if run.table is not None:
        return _of_table(run, judge)
    beside = data.copy_unread()  # separate from the readers of rounds
    every = np.arange(data.source.n_features, dtype=np.int64)
    parts = by_ploidy(data.source, every, judge)
    blocks = [
        values
        for features, each in parts
        for _, values in beside.map_blocks(each, jobs_over(beside, features))
    ]
    order = np.argsort(np.concatenate([features for features, _ in parts]))
    columns = np.concatenate(blocks, axis=1)[:, order]
    return _finished(run, judge, columns, data.scaling)


def _of_table(run: SelectionRun, judge: Judge) -> MarginalTest:
    """Test every column of a table with categories.

    Each indicator of a category gets the result of its column.
    """
    assert run.table is not None, "there are categories"
    assert run.groups is not None, "the groups are the columns of the table"
    judge = replace(judge, standardize=True)  # as `test_features`, to the last bit
    scan = read_once(run.table, run.runtime, judge, Progress(progress=False), rows=run.rows)
    test = _finished(replace(run, source=run.table), judge, scan.columns, scan.scaling)
    codes = run.groups.codes
    each = test.p[codes], test.q[codes], test.width[codes], test.shape[codes]
    return MarginalTest(test.state, *each)


def _finished(run: SelectionRun, judge: Judge, columns: Float, scaling: Scaling) -> MarginalTest:
    """Build the test result of all d features from the columns of the pass, (k, d)."""
    criterion, state = judge.criterion, judge.prepared
    assert criterion is not None, "features are tested"
    assert isinstance(state, Multiscale | BlockState), "the labels can be tested"
    alive, d = np.flatnonzero(~scaling.constant), scaling.constant.size
    n_missing = scaling.n_missing[alive]
    warn_of_missing(run, columns[-1, alive], alive, n_missing, getattr(state, "missingness", None))
    columns_of = criterion.finish(state, columns[:, alive]).others
    p, q, width = (np.full(d, np.nan) for _ in range(3))
    shape = np.full(d, "", dtype=object)
    for name, values in {"p": p, "q": q, "width": width, "shape": shape}.items():
        values[alive] = columns_of[name][0]
    return MarginalTest(state, p, q, width, shape)

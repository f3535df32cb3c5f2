"""Marginal test of every feature alone, made beside a selection.

One pass over all features before any is eliminated (`dhsic.criteria.independence`, HSIC of ranks at
several widths). The p-values say whether the labels depend on a feature in any shape, regardless of
the other features. They do not depend on the selection, so they are valid for selected and
unselected features alike.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.criteria.independence import Independence
from dhsic.criteria.missingness import LEVEL, missing_by_label
from dhsic.criteria.multiscale import Multiscale
from dhsic.errors import InputError, warn
from dhsic.joins.places import described
from dhsic.passes.jobs import merged
from dhsic.passes.reader import AbstractReader
from dhsic.passes.single_pass import MANY_JOBS, Judge, by_ploidy
from dhsic.runtime.base import Job
from dhsic.selection.run import SelectionRun
from dhsic.sources import AbstractSource
from dhsic.sources.columns import NAME

ALONE = "of the feature alone and the labels, whatever the other features are"
MEANINGS = {
    "p": f"marginal p-value: probability of an HSIC as large under independence, {ALONE}",
    "q": "q-value: part of the features of this p-value or less, each tested alone, that do not "
    "depend on the labels",
    "width": f"width at which the dependence is strongest, {ALONE}, as a part of the range of "
    "ranks: 1 is a straight line",
    "shape": f"shape of the dependence {ALONE}: linear, monotone or turning",
}
#: Float64 values per feature held by the test and its result, for the memory estimate.
VECTORS = 12
#: Largest number of samples at which features are tested beside a selection; and the reason.
MOST_TESTED = 100_000
MANY_SAMPLES = f"There are more than {MOST_TESTED:,} samples; dhsic test tests features of as many."
#: Feature names listed in the warning about missing values.
MOST_NAMED = 5
#: Reason why labels of many classes are not tested.
MANY_CLASSES = (
    "The labels have more than 64 classes, which the test at several widths does not take."
)


@dataclass(frozen=True)
class MarginalTest:
    """Result of the marginal test of every feature.

    Attributes
    ----------
    state : Multiscale
        Label state of the test.
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
        """Result columns, by name."""
        return {f"{name}_marginal": (getattr(self, name), MEANINGS[name]) for name in MEANINGS}


def marginal_criterion(run: SelectionRun) -> Independence:
    """Independence test that is applied to each feature."""
    return Independence(label_kernel=run.selector.label_kernel)


def marginal_judge(run: SelectionRun) -> Judge:
    """Pass of the test without labels, for plans and memory estimates."""
    return Judge(standardize=True, criterion=marginal_criterion(run))


def marginal_bytes(run: SelectionRun) -> int:
    """Memory of the labels and of the result columns, in bytes."""
    of_labels = marginal_criterion(run).label_bytes(run.n_samples)
    return of_labels + 8 * VECTORS * run.source.n_features


def jobs_over(data: AbstractReader, features: Index) -> list[Job]:
    """Jobs of the pass over features (n,)."""
    jobs = data.jobs(features, scaled=False)
    return merged(jobs, max(MANY_JOBS, -(-len(jobs) // 2)))


def every_job(data: AbstractReader) -> list[Job]:
    """Jobs of the pass over all features."""
    return jobs_over(data, np.arange(data.source.n_features, dtype=np.int64))


def marginal_test(run: SelectionRun, data: AbstractReader) -> MarginalTest | str:
    """Test every feature that varies; returns a reason instead if the labels cannot be tested.

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
    if not isinstance(state, Multiscale):
        return MANY_CLASSES
    beside = data.copy_unread()  # separate from the readers of rounds
    judge = Judge(run.standardizes, criterion, state)
    every = np.arange(data.source.n_features, dtype=np.int64)
    parts = by_ploidy(data.source, every, judge)
    blocks = [
        values
        for features, each in parts
        for _, values in beside.map_blocks(each, jobs_over(beside, features))
    ]
    order = np.argsort(np.concatenate([features for features, _ in parts]))
    columns = np.concatenate(blocks, axis=1)[:, order]
    alive, d = data.alive, data.source.n_features
    warn_of_missing(run.source, columns[-1, alive], alive)
    columns_of = criterion.finish(state, columns[:, alive]).others
    p, q, width = (np.full(d, np.nan) for _ in range(3))
    shape = np.full(d, "", dtype=object)
    for name, values in {"p": p, "q": q, "width": width, "shape": shape}.items():
        values[alive] = columns_of[name][0]
    return MarginalTest(state, p, q, width, shape)


def warn_of_missing(source: AbstractSource, log10_p: Float, alive: Index) -> int:
    """Warn of features whose missing values depend on the labels; return their number.

    Parameters
    ----------
    source : AbstractSource
        Source of the feature names.
    log10_p : (n,)
        ``-log10 p`` of the test of missing values (`dhsic.criteria.missingness`).
    alive : (n,)
        Positions of the features that vary.
    """
    features = missing_by_label(log10_p, alive)
    n = features.size
    if not n:
        return 0
    first, variable = features[:MOST_NAMED].tolist(), described(source).get(NAME)
    if variable is not None:
        names = [str(variable.read(slice(j, j + 1))[0]) for j in first]
    elif (every := source.feature_names()) is not None:
        names = [str(every[j]) for j in first]
    else:
        names = [f"feature {j}" for j in first]
    more = ", ..." if n > MOST_NAMED else ""
    what = "1 feature" if n == 1 else f"{n:,} features"
    warn(
        f"Missing values depend on the labels in {what} ({', '.join(names)}{more}; Bonferroni "
        f"level {LEVEL:g}). Samples without a value are left out of the test of a feature, so this "
        "makes no association; but samples measured in different ways give values that differ, "
        f"too. Exclude {'it' if n == 1 else 'them'} (exclude=), or allow fewer missing values "
        "(max_missing=).",
    )
    return int(n)

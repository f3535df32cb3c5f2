"""Missing values of a set of features that are tested together.

A missing value is replaced by the mean of the feature. If cases have more missing values than
controls, this creates a spurious dependence. So missing values are tested first: those of each
feature, and whether a sample lacks any value. If they depend on the labels, the set is tested only
on the samples that have all values.
"""

from __future__ import annotations

import numpy as np

from dhsic._typing import Array, Float, Mask
from dhsic.criteria.missingness import MissingnessTest, missing_by_label
from dhsic.criteria.null import log_tail, moments_permuted
from dhsic.errors import warn
from dhsic.linalg.symmetric import LowRankSymmetric, Symmetric
from dhsic.sources.ids import abbreviate

#: Number of feature names in the warning.
MOST_NAMED = 5


def complete_samples(C: Symmetric, absent: Array, names: Array, fewest: int) -> Mask | None:
    """Mask (m,) of samples that have all values, if missing values depend on the labels; else None.

    In the first case a warning is given. The mask is all False if fewer than `fewest` samples have
    all values.

    Parameters
    ----------
    C : Symmetric
        Label matrix (m, m), centred.
    absent : (m, n) bool
        Missing values of the features.
    names : (n,)
        Names or positions of the features.
    """
    lacking = absent.any(axis=1)
    if not lacking.any():
        return None
    masks = np.column_stack([absent, lacking]).astype(np.float64)
    log10_p = _log10_p(C, masks)
    by_label = missing_by_label(log10_p, np.arange(len(log10_p)))
    if not by_label.size:
        return None
    called = [names[j] for j in by_label.tolist() if j < len(names)]
    where = "samples with any missing value in the set"
    if called:
        where = f"{len(called):,} of the {len(names):,} features ({abbreviate(called, MOST_NAMED)})"
    complete: Mask = np.logical_not(lacking)
    n = int(complete.sum())
    if n < fewest:
        told = (
            f"Only {n:,} samples have all values, so the set is not tested. Pass fewer features, "
            "or use the p-values of the single features."
        )
        complete = np.zeros_like(lacking)
    else:
        told = f"The set is therefore tested on the {n:,} samples that have all values."
    warn(
        f"Missing values depend on the labels: {where}. If they were replaced by the mean of their "
        f"feature, this would look like dependence of the set. {told}",
    )
    return complete


def _log10_p(C: Symmetric, masks: Float) -> Float:
    """``-log10 p`` of the dependence of each mask (m, k) on the labels, (k,).

    A dense label matrix, such as that of many classes, may have equal eigenvalues and so no leading
    directions. Then the test is HSIC of the mask, with the moments of all permutations.
    """
    if isinstance(C, LowRankSymmetric):
        test = MissingnessTest(np.asarray(C.F * np.sqrt(np.abs(C.weights))))
        return test.log10_p(masks.T @ test.F, masks.sum(axis=0))
    centred = masks - masks.mean(axis=0)
    log10_p, samples = np.zeros(masks.shape[1]), np.arange(len(masks))[None]
    for j in np.flatnonzero(centred.any(axis=0)).tolist():
        A = LowRankSymmetric.of(centred[:, [j]], np.ones(1))
        null = moments_permuted(C, A)
        z = np.atleast_1d((C.inner(samples, [A])[0] - null.mean) / null.variance**0.5)
        log10_p[j] = -float(log_tail(z, np.atleast_1d(null.skewness))[0]) / np.log(10.0)
    return log10_p

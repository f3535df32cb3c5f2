"""Missing values of a set of features that are tested together.

A missing value is replaced by the mean of the feature. If cases have more missing values than
controls, this creates a spurious dependence. So another test comes first: whether the labels depend
on the missing values of any feature, or on whether a sample has any missing value. If they do, the
set is tested only on the samples without missing values.
"""

from __future__ import annotations

import numpy as np

from dhsic._typing import Array, Float, Mask
from dhsic.criteria.missingness import MissingnessTest, missing_by_label
from dhsic.criteria.null import log_tail, moments_permuted
from dhsic.errors import warn
from dhsic.linalg.symmetric import LowRankSymmetric, Symmetric
from dhsic.sources.ids import abbreviate

#: Maximum number of feature names in the warning.
MOST_NAMED = 5


def complete_samples(C: Symmetric, absent: Array, names: Array, fewest: int) -> Mask | None:
    """If missing values depend on the labels, warn and select the complete samples.

    Return the mask (m,) of the samples without missing values, or None if missing values do not
    depend on the labels. The mask is all False if fewer than `fewest` samples are complete.

    Parameters
    ----------
    C : Symmetric
        Label matrix (m, m), centred.
    absent : (m, n) bool
        Mask of the missing values of the features.
    names : (n,)
        Names or positions of the features.
    """
    is_incomplete = absent.any(axis=1)
    if not is_incomplete.any():
        return None
    masks = np.column_stack([absent, is_incomplete]).astype(np.float64)
    log10_p = _log10_p(C, masks)
    by_label = missing_by_label(log10_p, np.arange(len(log10_p)))
    if not by_label.size:
        return None
    shown = [names[j] for j in by_label.tolist() if j < len(names)]
    where = "samples with any missing value in the set"
    if shown:
        where = f"{len(shown):,} of the {len(names):,} features ({abbreviate(shown, MOST_NAMED)})"
    complete: Mask = np.logical_not(is_incomplete)
    n = int(complete.sum())
    if n < fewest:
        consequence = (
            f"Only {n:,} samples have all values, so the set is not tested. Pass fewer features, "
            "or use the p-values of the single features."
        )
        complete = np.zeros_like(is_incomplete)
    else:
        consequence = f"The set is therefore tested on the {n:,} samples that have all values."
    warn(
        f"Missing values depend on the labels: {where}. If they were replaced by the mean of their "
        f"feature, this would look like dependence of the set. {consequence}",
    )
    return complete


def _log10_p(C: Symmetric, masks: Float) -> Float:
    """Test whether each of k masks (m, k) depends on the labels; return ``-log10 p``, (k,).

    If the label matrix is dense, for example for many classes, its eigenvalues may be equal. Then
    it has no leading directions to test, and the test statistic is the HSIC of mask and labels. The
    null distribution is approximated from the moments of all permutations.
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

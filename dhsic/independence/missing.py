"""Missing values of a set of features that is tested together.

Where a value is missing the set gets the mean of the feature. If values of cases are missing more
often than those of controls, that looks like dependence. So missing values are tested first, those
of each feature and samples that lack any value; if they depend on the labels, the set is tested on
the samples that have all values.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh

from dhsic._typing import Array, Float, Mask
from dhsic.criteria.missingness import MOST_DIRECTIONS, MissingnessTest, missing_by_label
from dhsic.errors import warn
from dhsic.linalg.symmetric import DenseSymmetric, LowRankSymmetric, Symmetric
from dhsic.sources.ids import abbreviate

#: Number of feature names in the warning.
MOST_NAMED = 5


def complete_samples(C: Symmetric, absent: Array, names: Array, fewest: int) -> Mask | None:
    """Samples that have all values, (m,), if missing values depend on the labels; else None.

    A warning says so. No sample takes part if fewer than `fewest` have all values.

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
    test = MissingnessTest(label_directions(C))
    masks = np.column_stack([absent, lacking]).astype(np.float64)
    log10_p = test.log10_p(masks.T @ test.F, masks.sum(axis=0))
    by_label = missing_by_label(log10_p, np.arange(len(log10_p)))
    if not by_label.size:
        return None
    called = [names[j] for j in by_label.tolist() if j < len(names)]
    where = "samples that lack any value of the set"
    if called:
        where = f"{len(called):,} of the {len(names):,} features ({abbreviate(called, MOST_NAMED)})"
    complete: Mask = np.logical_not(lacking)
    n = int(complete.sum())
    if n < fewest:
        told = (
            f"Only {n:,} samples have all values, so the set is not tested. Pass fewer features, "
            "or take the p-values of the single features."
        )
        complete = np.zeros_like(lacking)
    else:
        told = f"So the set is tested on the {n:,} samples that have all values."
    warn(
        f"Missing values depend on the labels: {where}. Replaced by the mean of their feature they "
        f"would look like dependence of the set. {told}",
    )
    return complete


def label_directions(C: Symmetric) -> Float:
    """Directions F (m, r) of the label matrix, the largest ones if it is dense."""
    if isinstance(C, LowRankSymmetric):
        return np.asarray(C.F * np.sqrt(np.abs(C.weights)))
    assert isinstance(C, DenseSymmetric), "there are two representations"
    m = C.n_samples
    k = min(MOST_DIRECTIONS, m - 1)
    values, vectors = eigsh(LinearOperator((m, m), matvec=C.times), k=k, v0=np.ones(m))
    return np.asarray((vectors * np.sqrt(np.abs(values)))[:, ::-1])

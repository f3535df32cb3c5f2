"""Estimator of feature weights."""

from dhsic.methods import weighting
from dhsic.selectors.base import Estimator


class FeatureWeighting(Estimator, weighting.FeatureWeighting):
    r"""Feature weights that maximise HSIC at a price for each feature (JMLR appendix A).

        ``maximise  HSIC(w) - penalty sum_j (1 - exp(-steepness w_j)),   w >= 0``

    (eq. 32 and 33) by the convex-concave procedure (ICML appendix 5): the price (`penalty`)
    controls the number of nonzero weights. The papers found the ranking inferior to backward
    elimination; use this method for sparse weights.

    Parameters
    ----------
    n_features_to_select : int, float or None
        Number of largest weights that count as selected; it does not change the weights.
    penalty : float
        Lambda, the price of a feature. HSIC is ``<W, K>`` with ``sum |W_ij| = 1``, so it is between
        -1 and 1 in any units of the labels.
    steepness : float
        Alpha of the concave norm; 5 in the papers.
    statistic : {"biased", "unbiased"}
        JMLR eq. 4, as in the papers, or eq. 5.
    start : {"uniform", "random"}
        All weights 1, or random weights from `random_state` as in the papers.
    bandwidth : "median", "dimension" or float
        Sigma on the unweighted features.
    label_kernel : str
        As in `BAHSIC`.
    max_iterations, tol
        Maximum number of outer steps; and relative change of the weights at which they stop.
    random_state : int
        Seed of a random start.
    standardize, missing, checkpoint, progress, runtime, n_jobs, memory_limit, stability
        As in `BAHSIC`.

    Attributes
    ----------
    scores_ : (d,) float
        Weight of each feature.
    ranking_, support_, result_
        As in `BAHSIC`.

    Examples
    --------
    >>> import numpy as np, dhsic
    >>> X = np.random.default_rng(0).standard_normal((100, 12))
    >>> dhsic.FeatureWeighting(1).fit(X, X[:, 4] > 0).get_support(indices=True).tolist()
    [4]
    """

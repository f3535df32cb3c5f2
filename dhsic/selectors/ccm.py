"""Estimator of conditional covariance minimisation."""

from dhsic.methods import ccm
from dhsic.selectors.base import Estimator


class CCM(Estimator, ccm.CCM):
    r"""Conditional covariance minimisation (Chen, Stern, Wainwright, Jordan; NIPS 2017).

    Finds weights w from 0 to 1 of all features jointly, such that the unexplained part of the
    labels in kernel ridge regression on the weighted features is as small as possible,

        ``minimise  tr Y' (G_w + n epsilon I)^{-1} Y,   0 <= w <= 1,   1'w <= n_features_to_select``

    (eq. 17) by projected gradients. G_w (n, n) is the centred kernel matrix of the weighted
    features for n samples, and Y are the centred labels. Features are ranked by weight. Among about
    ten features, CCM finds interactions with fewer samples than HSIC needs. A step costs ``n^2 d +
    n^3`` operations, and the result is a local minimum: among tens of irrelevant features or more,
    CCM usually misses interactions, so run `BAHSIC` first. It finds main effects among thousands of
    features.

    Parameters
    ----------
    n_features_to_select : int, float or None
        Number of features to select, and the budget of the weights.
    epsilon : float
        Regularisation; the paper uses 0.001 for classes and 0.1 for real labels.
    bandwidth : "median", "dimension" or float
        Sigma of ``exp(-sigma ||x - x'||^2)`` on the unweighted features. ``"median"`` is the rule
        of CCM 6.1: 1 over the median squared distance, because in ``exp(-||x - x'||^2 / (2 s^2))``
        of the paper, s is the median distance over ``sqrt(2)``. This is twice the sigma of
        ``"median"`` in `BAHSIC`.
    label_kernel : str
        ``"auto"``: classes by the delta kernel (eq. 9), real values by the linear one (eq. 8).
    constraint : {"hard", "soft"}
        The budget as a constraint (eq. 17), or with the price `lambda_1` (eq. 18).
    inverse : {"exact", "none"}
        The objective itself, or its relaxation by eq. 19 with weight `lambda_2`.
    approximation : None or "random_features"
        The full kernel matrix, or `n_random_features` Fourier features (eq. 20), whose cost is
        linear in the samples.
    n_random_features : int
        Number of random features, D of eq. 20.
    lambda_1, lambda_2 : float
        Price of eq. 18 and weight of eq. 19.
    max_iterations, tol
        Maximum number of steps; and norm of the projected gradient at which descent stops, relative
        to its first value.
    random_state : int
        Seed of the random features.
    standardize, missing, checkpoint, progress, runtime, n_jobs, memory_limit, stability
        As in `BAHSIC`.

    Attributes
    ----------
    scores_ : (d,) float
        Weight of each feature; features of equal weight are ranked by the derivative of the
        objective, which `result_` has as ``potential``.
    ranking_, support_, result_
        As in `BAHSIC`.

    Examples
    --------
    >>> import numpy as np, dhsic
    >>> X = np.random.default_rng(0).standard_normal((150, 8))
    >>> y = (X[:, 2] * X[:, 5] > 0).astype(int)   # neither feature has an effect alone
    >>> dhsic.CCM(2).fit(X, y).get_support(indices=True).tolist()
    [2, 5]
    """

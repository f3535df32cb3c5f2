"""Estimator that ranks by a criterion of one feature at a time."""

from dhsic.methods import onepass
from dhsic.selectors.base import Estimator


class OnePass(Estimator, onepass.OnePass):
    r"""Ranking by a criterion of one feature at a time: the relatives of HSIC (JMLR section 6).

    The data are read only once, for any number of features. Features that act only together are not
    found. Use this method for a first look, as a comparison, or if one of its criteria is the
    standard of a field.

    Parameters
    ----------
    n_features_to_select : int, float or None
        As in `BAHSIC`.
    criterion : str
        ``"pearson"`` (eq. 21), ``"centroid"``, ``"t"`` (eq. 24), ``"snr"``, ``"moderated-t"`` and
        ``"b"`` (Smyth 2004; eq. 25), ``"shrunken-centroid"`` (eq. 28), ``"mmd"`` (eq. 26),
        ``"kta"`` (6.4), ``"qmi"`` (eq. 30), ``"ridge"`` (eq. 29), and ``"hsic"``, the p-value of
        HSIC under independence (eq. 4 and 5); see `dhsic.criteria`.
    standardize : "auto" or bool
        Scale features to unit standard deviation; ``"auto"`` does so, except for the moderated t
        and B statistics, because their prior compares the variances of features.
    bandwidth : "auto", "multiscale", "dimension", "median" or float
        Width of the kernel on one feature (mmd, kta, qmi, hsic). ``"multiscale"``, for hsic only,
        combines ranks at six widths into one p-value. Otherwise sigma: 1/2 (``"dimension"``), the
        median rule for each feature, or a number. ``"auto"`` is ``"multiscale"`` for hsic and
        ``"dimension"`` for the others.
    label_kernel : str
        Label kernel of kta and hsic, as in `BAHSIC`.
    statistic : {"unbiased", "biased"}
        Estimator of hsic, as in `BAHSIC`.
    penalty : float
        Lambda of ridge.
    centroid_weight : float
        Lambda of centroid, the weight of the positive class.
    proportion : float
        Fraction of the features that are assumed to differ (b).
    loco : bool
        Leave one chromosome out (hsic only): each chromosome is tested against residual labels,
        from ridge regression on all other chromosomes, as in REGENIE. The variance of the statistic
        takes relatedness into account for each feature (`docs/relatedness.md`). This needs (m, m)
        matrices.
    missing, stability, checkpoint, progress, random_state, runtime, n_jobs, memory_limit
        As in `BAHSIC`.

    Attributes
    ----------
    scores_ : (d,) float
        The criterion: larger is more relevant. Signed criteria are in `result_` as ``statistic``.
    ranking_, support_, result_
        As in `BAHSIC`.

    Examples
    --------
    >>> import numpy as np, dhsic
    >>> X = np.random.default_rng(0).standard_normal((100, 20))
    >>> dhsic.OnePass(1, criterion="t").fit(X, X[:, 4] > 0).get_support(indices=True).tolist()
    [4]
    """

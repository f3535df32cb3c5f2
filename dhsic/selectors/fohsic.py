"""Estimator of forward selection."""

from dhsic.methods import fohsic
from dhsic.selectors.base import Estimator


class FOHSIC(Estimator, fohsic.FOHSIC):
    r"""Forward selection with HSIC (Song et al. 2012, JMLR 13, Algorithm 2).

    Selection starts without features. Each round adds the features that lead to the largest
    dependence between the chosen features and the labels. FOHSIC is cheaper than `BAHSIC` if few of
    many features are selected, but does not find features that act only together (XOR), because
    each of them has no effect alone. Use it if features have effects of their own and redundant
    features should be left out.

    Parameters
    ----------
    n_features_to_select : int, float or None
        Number of features to select: a count, a fraction of all, or half of them (None). The round
        that reaches this number ranks all remaining features by the same scores.
    step : int or float
        Features added per round: a count, or a fraction of those not chosen yet (the paper's
        gamma).
    strategy : {"forward", "floating"}
        Algorithm 2; or, after every addition, chosen features are removed one per round while the
        remaining set has a larger HSIC than any earlier set of that size (sequential floating
        selection, Pudil, Novovicova, Kittler 1994).
    kernel, label_kernel, statistic, standardize, missing, dtype
        As in `BAHSIC`.
    stability, checkpoint, progress, runtime, n_jobs, memory_limit
        As in `BAHSIC`.
    bandwidth : "dimension", "median", float or sequence of floats
        As in `BAHSIC`, for the chosen features and one more: ``1/(2(|S|+1))``. Before any feature
        is chosen, the median is computed for a normally distributed feature, and a grid is searched
        for the largest HSIC of a single feature.
    solver : {"auto", "exact", "lowrank", "direct"}
        How candidates are scored: by an expansion, with exact results; in linear time, with a
        low-rank K of the chosen features (gaussian kernel); or by the definition. ``"auto"`` is
        exact up to 6,000 samples and low rank above; ``round_cut_error`` in the result estimates
        the probability that each choice differs from the exact one.
    random_state : int
        Seed of the low-rank landmarks.

    Attributes
    ----------
    scores_ : (d,) float
        Increase of HSIC with the feature, in the round in which it was added; NaN if constant.
    ranking_, support_, stability_, result_
        As in `BAHSIC`.

    Examples
    --------
    >>> import numpy as np, dhsic
    >>> X = np.random.default_rng(0).standard_normal((200, 30))
    >>> y = X[:, 3] ** 2 + X[:, 7]
    >>> dhsic.FOHSIC(2).fit(X, y).get_support(indices=True).tolist()
    [3, 7]
    """

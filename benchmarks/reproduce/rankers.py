"""Rankings of all features by the methods that the figures compare; 1 is the best.

Each entry of `RANKERS` takes X (m, d) float64, y (m,), classes as whole numbers or real values as
floats, and how many features are wanted, which CCM and mRMR ask for. Features of equal score are
ranked by their place in X: whoever knows which ones matter shuffles them first. What is missing is
NaN, and no number stands for it.
"""

from functools import partial

import numpy as np
from scipy.special import xlogy

import dhsic
from dhsic.results.schema import ranking
from dhsic.runtime.threads import Threads

#: Seed of what draws: jitter before nearest neighbours.
SEED = 0
#: As usual for ReliefF.
N_NEIGHBOURS = 10
#: A feature has three levels for mRMR: within so many deviations of the mean, below, and above.
WITHIN = 0.5
#: Lambda_2 of CCM eq. 19, the largest in the paper: above 1 / (2 n eps) down to n = 10 samples and
#: eps = 0.001. Below it, weights that explain less of the labels may count as better.
LAMBDA_2 = 100.0
#: Of dhsic's own.
ALONE = {"progress": False, "runtime": Threads(1)}
#: The papers scale all features.
PAPER = {**ALONE, "standardize": True}


def bahsic(X, y, _, step=1, **options):
    model = dhsic.BAHSIC(1, step=step, **ALONE, **options)
    return model.fit(X, y, missing_code=None).ranking_


def default(X, y, n, **options):
    """The default of `dhsic.select`, asked for n features, among which pairs are placed."""
    model = dhsic.BAHSIC(min(n, X.shape[1]), **ALONE, **options)
    return model.fit(X, y, missing_code=None).ranking_


def bahsic_first(X, y, _, **options):
    """By the first round alone, in which all features leave."""
    return bahsic(X, y, _, step=X.shape[1], **options)


def fohsic(X, y, _, wanted=None, **options):
    """All features wanted, or so many: the round that reaches their number ranks what is left."""
    n = wanted or X.shape[1]
    model = dhsic.FOHSIC(n, **PAPER, **options)
    return model.fit(X, y, missing_code=None).ranking_


def linear(X, y, _, **options):
    model = dhsic.LinearHSIC(1, **ALONE, **options)
    return model.fit(X, y, missing_code=None).ranking_


def criterion(X, y, _, **options):
    """By one feature at a time: `criterion` is one of `dhsic.criteria`."""
    model = dhsic.OnePass(1, **ALONE, **options)
    return model.fit(X, y, missing_code=None).ranking_


def svm_rfe(X, y, _, **options):
    model = dhsic.SVMRFE(1, **PAPER, **options)
    return model.fit(X, y, missing_code=None).ranking_


def ccm(X, y, n, **variant):
    """Epsilon of CCM 6: 0.001 for classes, 0.1 for real values."""
    model = dhsic.CCM(
        n,
        epsilon=0.1 if is_real(y) else 0.001,
        max_iterations=1000,
        **PAPER,
        **variant,
    )
    return model.fit(X, y, missing_code=None).ranking_


def pearson(X, y, _):
    """By the magnitude of the correlation with y; the number of a class is its value."""
    x = X - X.mean(axis=0)
    return ranks(np.abs((y - y.mean()) @ x) / np.linalg.norm(x, axis=0))


def mutual_information(X, y, _):
    """Of each feature alone with y, from nearest neighbours."""
    from sklearn.feature_selection import mutual_info_classif, mutual_info_regression

    estimate = mutual_info_regression if is_real(y) else mutual_info_classif
    return ranks(estimate(X, y, random_state=SEED))


def relief(X, y, _):
    from skrebate import ReliefF

    return ranks(ReliefF(n_neighbors=N_NEIGHBOURS).fit(X.copy(), y).feature_importances_)


def mrmr(X, y, n):
    """The n features that are most relevant and least redundant, then the others.

    Peng, Long, Ding (2005): one after the other, the largest ``I(x_j; y)`` less the mean of
    ``I(x_j; x_s)`` over the s chosen so far; features of three levels (Ding and Peng, 2005).
    """
    x, near = X - X.mean(axis=0), WITHIN * X.std(axis=0)
    levels = np.stack([x < -near, np.abs(x) <= near, x > near]).astype(float)
    classes = (y == np.unique(y)[:, None]).astype(float)
    relevance, redundancy = information(levels, classes), np.zeros(X.shape[1])
    score, chosen = relevance, []
    for _ in range(n):
        chosen.append(int(np.argmax(score)))
        redundancy += information(levels, levels[:, :, chosen[-1]])
        score = relevance - redundancy / len(chosen)
        score[chosen] = -np.inf
    # Above all others, if there are any.
    score[chosen] = np.arange(n, 0, -1) + np.max(score, initial=0, where=np.isfinite(score))
    return ranks(score)


def information(levels, values):
    """Mutual information, nats, of features (levels, m, d) and a variable (values, m); (d,)."""
    p = np.einsum("amd,bm->adb", levels, values, optimize=True) / values.shape[1]
    independent = p.sum(axis=2, keepdims=True) * p.sum(axis=0, keepdims=True)
    # 0 log 0 = 0: a level that no sample has tells nothing.
    return (xlogy(p, p) - xlogy(p, independent)).sum(axis=(0, 2))


def ranks(scores):
    """1 for the largest."""
    return ranking(np.argsort(-scores, kind="stable")[::-1])


def is_real(y):
    return y.dtype.kind == "f"


#: Name in figures and tables: function. Variants of CCM are those of its section 5.2.
RANKERS = {
    "BAHSIC": partial(bahsic, rerank=False),
    "BAHSIC, first iteration": partial(bahsic_first, rerank=False),
    "FOHSIC": fohsic,
    "Pearson": pearson,
    "mutual information": mutual_information,
    "ReliefF": relief,
    "mRMR": mrmr,
    "CCM": ccm,
    "CCM, soft budget": partial(ccm, constraint="soft"),
    "CCM, no inverse": partial(ccm, inverse="none", lambda_2=LAMBDA_2),
    "CCM, random features": partial(ccm, approximation="random_features"),
}

"""Selectors that a user would pick instead: the best features first, n of them or fewer.

Each takes X (m, d), standardised and without missing values, y (m,), whole numbers for classes
and floats for real values, and n. Parameters are the defaults of the library where nothing is said.
"""

import contenders
import numpy as np

from . import rankers
from .rankers import is_real

#: Seed of what draws.
SEED = 0
#: Trees of the importances.
N_TREES = 500
#: Part of the features that leaves in a round of RFE.
STEP = 0.1
#: Penalties of L1, from that which takes nothing.
N_PENALTIES, WEAKEST = 30, 1e-3


def f_scores(X, y):
    """F statistic of each feature; (d,)."""
    from sklearn.feature_selection import f_classif, f_regression

    return (f_regression if is_real(y) else f_classif)(X, y)[0]


def f_test(X, y, n):
    return best(f_scores(X, y), n)


def clumped_f_test(X, y, n, r2):
    """The best of those that correlate with none before them by more than r2; then the others."""
    order, x = best(f_scores(X, y), X.shape[1]), X / np.linalg.norm(X, axis=0)
    chosen, passed = [], []
    for j in order:
        if len(chosen) == n:
            break
        linked = chosen and ((x[:, chosen].T @ x[:, j]) ** 2).max() > r2
        (passed if linked else chosen).append(int(j))
    return np.array((chosen + passed)[:n])


def information(X, y, n):
    return np.argsort(rankers.mutual_information(X, y, n))[:n]


def correlation(X, y, n):
    return np.argsort(rankers.pearson(X, y, n))[:n]


def mrmr(X, y, n):
    return np.array(contenders.mrmr(X, y, n, n_jobs=1))


def mrmr_of_levels(X, y, n):
    """By mutual information between features of three levels, as in the papers."""
    return np.argsort(rankers.mrmr(X, y, n))[:n]


def hsic_lasso(X, y, n):
    return np.array(contenders.hsic_lasso(X, y, n, n_jobs=1))


def rfe(X, y, n):
    """SVM-RFE: a tenth of those left leaves in a round, so that the best n are nested."""
    from sklearn.svm import LinearSVC, LinearSVR

    left, gone = np.arange(X.shape[1]), []
    while left.size > 1:
        model = LinearSVR() if is_real(y) else LinearSVC()
        weights = model.set_params(random_state=SEED).fit(X[:, left], y).coef_
        worst = np.argsort((np.atleast_2d(weights) ** 2).sum(axis=0), kind="stable")
        worst = worst[: max(1, int(STEP * left.size))]
        gone.extend(left[worst])
        left = np.delete(left, worst)
    return np.array([*left, *gone[::-1]])[:n]


def l1(X, y, n):
    """By the penalty at which a feature enters: lasso, or a linear SVM with an L1 penalty."""
    from sklearn.linear_model import lasso_path
    from sklearn.svm import LinearSVC, l1_min_c

    if is_real(y):
        coefficients = np.abs(lasso_path(X, y - y.mean())[1])
    else:
        costs = l1_min_c(X, y) * np.geomspace(1.01, 1 / WEAKEST, N_PENALTIES)
        path = []
        for C in costs:
            model = LinearSVC(penalty="l1", dual=False, C=C, random_state=SEED).fit(X, y)
            path.append(np.abs(model.coef_).max(axis=0))
            if np.count_nonzero(path[-1]) >= n:
                break
        coefficients = np.array(path).T
    entered = coefficients > 0
    first = np.where(entered.any(axis=1), entered.argmax(axis=1), entered.shape[1])
    order = np.lexsort((-coefficients.max(axis=1), first))
    return order[first[order] < entered.shape[1]][:n]


def trees(X, y, n):
    from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

    kind = ExtraTreesRegressor if is_real(y) else ExtraTreesClassifier
    return best(kind(N_TREES, random_state=SEED).fit(X, y).feature_importances_, n)


def boruta(X, y, n):
    """Confirmed before tentative before rejected ones, each by their mean importance."""
    from boruta import BorutaPy
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    forest = (RandomForestRegressor if is_real(y) else RandomForestClassifier)(max_depth=5)
    model = BorutaPy(forest, n_estimators="auto", random_state=SEED).fit(X, y)
    importance = np.nanmean(model.importance_history_[1:], axis=0)
    return np.lexsort((-importance, model.ranking_))[:n]


def relieff(X, y, n):
    return np.argsort(rankers.relief(X, y, n))[:n]


def multisurf(X, y, n):
    return contenders.multisurf(X, y, n, n_jobs=1)


def fastcan(X, y, n):
    """By the sum of squared canonical correlations of the set with the labels."""
    from fastcan import FastCan

    Y = y[:, None] if is_real(y) else (y[:, None] == np.unique(y)[:-1]).astype(float)
    return FastCan(n, verbose=0).fit(X, Y).indices_


def best(scores, n):
    """Indices of the largest, those without a score last."""
    return np.argsort(-np.nan_to_num(scores, nan=-np.inf), kind="stable")[:n]

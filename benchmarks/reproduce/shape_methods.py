"""Methods compared on data with shapes: each gives the best n features, the best first.

Those of others are taken with the defaults of their package; features are scaled before them.
"""

import numpy as np

from . import rankers, rivals
from .rankers import is_real

#: Trees of the random forest.
N_TREES = 500
SEED = 0


def dhsic_default(X, y, n):
    """The plain default of `dhsic.select`."""
    return np.argsort(rankers.default(X, y, n), kind="stable")[:n]


def dhsic_test(X, y, n):
    """Features by the p-value of `dhsic test`."""
    return np.argsort(rankers.criterion(X, y, n, criterion="hsic"), kind="stable")[:n]


def random_forest(X, y, n):
    """Features by their mean decrease in impurity."""
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    kind = RandomForestRegressor if is_real(y) else RandomForestClassifier
    options = {"max_features": 1 / 3} if is_real(y) else {}
    forest = kind(N_TREES, random_state=SEED, n_jobs=1, **options)
    return rivals.best(forest.fit(X, y).feature_importances_, n)


def lassonet(X, y, n):
    """Features by the penalty at which LassoNet (Lemhadri et al. 2021) drops them."""
    from lassonet import LassoNetClassifier, LassoNetRegressor

    X = (X - X.mean(axis=0)) / X.std(axis=0)
    model = (LassoNetRegressor if is_real(y) else LassoNetClassifier)(verbose=0, random_state=SEED)
    model.path(X.astype(np.float32), y)
    return rivals.best(np.asarray(model.feature_importances_), n)


#: Methods by name.
RANKING = {
    "dhsic, default": dhsic_default,
    "dhsic test": dhsic_test,
    "F test": rivals.f_test,
    "mutual information": rivals.information,
    "random forest": random_forest,
    "mRMR": rivals.mrmr_of_levels,
    "LassoNet": lassonet,
}
#: Packages whose versions a result depends on.
PACKAGES = {
    "dhsic, default": ("dhsic",),
    "dhsic test": ("dhsic",),
    "LassoNet": ("lassonet",),
    "quadsv, Matern": ("quadsv",),
    "quadsv, CAR": ("quadsv",),
}

"""What a selection is worth: scores of a predictor that sees the selected features alone.

A judge gets the samples of a fold, the features in their order and the numbers of features that
are asked for; it standardises by the training samples.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import pdist

from .cache import version_of
from .methods import standardised

#: JMLR 9.2.
COSTS, WIDTHS = (0.1, 1, 10, 100, 1000), (1, 10, 100, 1000)
TUNING_FOLDS = 5
#: Penalties of ridge regression over the number of features.
PENALTIES = np.geomspace(1e-3, 1e4, 29)
SEED = 0


@dataclass(frozen=True)
class Judge:
    """A predictor and what is told of it.

    Attributes
    ----------
    score : callable
        (x, y, x_test, y_test), standardised, to a number.
    percent : bool
        Whether the number is a part, shown in percent.
    error : bool
        Whether less is better.
    width : callable or None
        Of all features of the training samples, standardised: the gamma that `score` is given.
    """

    name: str
    score: Callable
    percent: bool = True
    error: bool = False
    width: Callable | None = None

    @property
    def identity(self):
        return self.name

    @property
    def versions(self):
        return {"scikit-learn": version_of("scikit-learn")}

    def scores(self, data, train, test, order, counts):
        """Of the first so many features, a float a number of features."""
        y, y_test = data.y[train], data.y[test]
        given = {"gamma": self.width(standardised(data.X[train])[0])} if self.width else {}
        found = []
        for k in counts:
            X = data.X[:, order[:k]]
            x, x_test = standardised(X[train], X[test])
            found.append(float(self.score(x, y, x_test, y_test, **given)))
        return found


def median_gamma(x, factor):
    """Of ``exp(-gamma D)``: `factor` over the median squared distance."""
    median = np.median(pdist(x, "sqeuclidean"))
    return factor / median if median > 0 else 1.0


def linear_svm(x, y, x_test, y_test):
    from sklearn.svm import SVC

    return SVC(C=1.0, kernel="linear").fit(x, y).score(x_test, y_test)


def gaussian_svm(x, y, x_test, y_test):
    """C = 1, sigma the median distance over sqrt(2) (CCM 6.1)."""
    from sklearn.svm import SVC

    return SVC(C=1.0, gamma=median_gamma(x, 1.0)).fit(x, y).score(x_test, y_test)


def error_of_jmlr(x, y, x_test, y_test, gamma):
    """C = 100 (JMLR 7.2.3); of real values 1 - r2."""
    from sklearn.svm import SVC, SVR

    kind = SVR if y.dtype.kind == "f" else SVC
    return 1 - kind(C=100.0, gamma=gamma).fit(x, y).score(x_test, y_test)


def gamma_of_jmlr(x):
    """Sigma is "the median distance between points in the sample": of all features.

    With that of the five selected, errors of six methods on five sets are 2.7 points above the
    paper's in the mean, with that of all features 0.5.
    """
    return median_gamma(x, 0.5)


def error_when_tuned(x, y, x_test, y_test):
    """C and sigma by folds of the training samples (JMLR 9.2); one class against the rest."""
    from sklearn.model_selection import GridSearchCV, StratifiedKFold
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.svm import SVC

    grid = {"C": list(COSTS), "gamma": [1 / (2 * s**2) for s in WIDTHS]}
    folds = StratifiedKFold(TUNING_FOLDS, shuffle=True, random_state=SEED)
    model = SVC()
    if len(np.unique(y)) > 2:
        model = OneVsRestClassifier(model)
        grid = {f"estimator__{name}": values for name, values in grid.items()}
    return 1 - GridSearchCV(model, grid, cv=folds).fit(x, y).score(x_test, y_test)


def ridge_correlation(x, y, x_test, y_test):
    """Of the test values and their predictions, the penalty by leaving one out."""
    from sklearn.linear_model import RidgeCV

    model = RidgeCV(PENALTIES * x.shape[1]).fit(x, y)
    return correlation(model.predict(x_test), y_test)


def lasso_correlation(x, y, x_test, y_test):
    from sklearn.linear_model import LassoCV

    return correlation(LassoCV(cv=5).fit(x, y).predict(x_test), y_test)


def correlation(a, b):
    """0 where one does not vary."""
    a, b = a - a.mean(), b - b.mean()
    norm = np.linalg.norm(a) * np.linalg.norm(b)
    return a @ b / norm if norm > 0 else 0.0


def mean_correlation(x, _y, _x_test, _y_test):
    """Mean magnitude of the correlation between two of the features, on the training samples."""
    r = np.abs(x.T @ x / len(x))
    d = len(r)
    return (r.sum() - np.trace(r)) / (d * (d - 1)) if d > 1 else 0.0


LINEAR = Judge("linear SVM", linear_svm)
GAUSSIAN = Judge("Gaussian SVM", gaussian_svm)
JMLR = Judge("Gaussian SVM, C 100, width of all", error_of_jmlr, error=True, width=gamma_of_jmlr)
TUNED = Judge("Gaussian SVM, tuned", error_when_tuned, error=True)
RIDGE = Judge("ridge regression", ridge_correlation, percent=False)
LASSO = Judge("lasso", lasso_correlation, percent=False)
REDUNDANCY = Judge("redundancy", mean_correlation, percent=False, error=True)

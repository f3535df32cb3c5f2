"""Feature selectors that pip installs, called on the same data for the same number of features.

Each entry of `CONTENDERS` returns the indices of the k features it takes. Parameters are the
defaults of the library, except for the number of features and of workers.
"""

import importlib
from contextlib import contextmanager

import numpy as np

from dhsic.runtime.cores import usable_cores

N_JOBS = usable_cores()


def bahsic(X, y, k, kernel="gaussian", solver="auto"):
    import dhsic

    model = dhsic.BAHSIC(k, kernel=kernel, solver=solver, progress=False, runtime="threads")
    return np.flatnonzero(model.fit(X, y).support_)


def hsic_lasso(X, y, k, n_jobs=N_JOBS):
    from pyHSICLasso import HSICLasso

    # It looks for the error of singular matrices where NumPy had it before 2.0.
    np.linalg.linalg = np.linalg
    model = HSICLasso()
    model.input(np.asarray(X, dtype=np.float64), y)
    # Real labels as floats, classes as whole numbers.
    (model.regression if y.dtype.kind == "f" else model.classification)(k, n_jobs=n_jobs)
    return model.get_index()


def mutual_information(X, y, k):
    from sklearn.feature_selection import mutual_info_classif

    return np.argsort(-mutual_info_classif(X, y, random_state=0, n_jobs=N_JOBS))[:k]


def rfe(X, y, k):
    from sklearn.feature_selection import RFE
    from sklearn.svm import LinearSVC

    model = RFE(LinearSVC(random_state=0), n_features_to_select=k, step=0.1)
    return np.flatnonzero(model.fit(X, y).support_)


def mrmr(X, y, k, n_jobs=N_JOBS):
    import pandas as pd
    from mrmr import mrmr_classif, mrmr_regression

    select = mrmr_regression if y.dtype.kind == "f" else mrmr_classif
    return select(pd.DataFrame(X), pd.Series(y), K=k, n_jobs=n_jobs, show_progress=False)


def multisurf(X, y, k, n_jobs=N_JOBS):
    from skrebate import MultiSURF

    model = MultiSURF(n_features_to_select=k, n_jobs=n_jobs).fit(np.asarray(X, np.float64), y)
    return np.argsort(-model.feature_importances_)[:k]


#: Name, modules imported before the clock starts, function.
CONTENDERS = {
    "pyHSICLasso": (("pyHSICLasso",), hsic_lasso),
    "scikit-learn mutual information": (("sklearn.feature_selection",), mutual_information),
    "scikit-learn RFE, LinearSVC": (("sklearn.feature_selection", "sklearn.svm"), rfe),
    "mRMR (mrmr-selection)": (("pandas", "mrmr"), mrmr),
    "MultiSURF (skrebate)": (("skrebate",), multisurf),
}
PACKAGES = ("dhsic", "pyHSICLasso", "scikit-learn", "mrmr-selection", "skrebate", "numpy")


def entries(solvers):
    """(name, arguments of `job`) of all contenders, dhsic once a kernel and value of solver."""
    ours = [
        (f"dhsic {kernel}, {solver}", {"kernel": kernel, "solver": solver})
        for solver in solvers
        for kernel in ("gaussian", "polynomial")
    ]
    return ours + [(name, {"contender": name}) for name in CONTENDERS]


@contextmanager
def job(folder, label, k, contender=None, **parameters):
    """Selection of k features by one contender from the data in `folder`."""
    modules, function = CONTENDERS[contender] if contender else (("dhsic",), bahsic)
    for module in modules:
        importlib.import_module(module)
    X, y = np.load(f"{folder}/X.npy"), np.load(f"{folder}/{label}.npy")

    def work():
        return [int(j) for j in function(X, y, k, **parameters)]

    yield work

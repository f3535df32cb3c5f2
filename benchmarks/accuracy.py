"""Accuracy of a kernel SVM on the first features of a ranking (Chen et al. 2017, 6.2 and Figure 2).

Features are ranked once, on all samples, and the folds of the cross-validation come after, as in
the paper: the samples that a fold tests have had their say in the ranking, so that accuracies are
higher than those of new samples. `honest` ranks inside every fold, on its training samples.
"""

import time
from functools import partial

import joblib
import numpy as np
from measuring import say
from rankers import bahsic, ccm, mrmr, mutual_information
from scipy.spatial.distance import pdist
from sklearn.model_selection import RepeatedStratifiedKFold
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from tables import table

#: A tenth leaves in each round of BAHSIC (JMLR 7.2).
METHODS = {
    "CCM": ccm,
    "BAHSIC": partial(bahsic, step=0.1),
    "mutual information": mutual_information,
    "mRMR": mrmr,
}
#: Features that CCM and mRMR are asked for, and the most that are selected, of more than so many.
N_WANTED = 100
#: Between numbers of features selected.
STEP = 5
N_FOLDS = 5
#: The folds are drawn so many times; a sample of ALLAML is 1.4% of its accuracy.
N_REPEATS = 3
#: Numbers of features in the table, and in a quick run.
SHOWN = (1, 2, 5, 10, 20, 50, 100)
#: What to say under a figure, by whether it is honest.
CAPTIONS = {
    False: "Features ranked on all samples, before the folds, as in the paper: optimistic.",
    True: "Features ranked inside every fold, on its training samples alone.",
}


def measure(files, repeats, n_jobs, *, honest, quick):
    """Records of data, method, number of features and accuracy, the part that is right."""
    return [
        {
            "data": path.stem,
            "samples": len(y),
            "features": X.shape[1],
            "classes": len(np.unique(y)),
            "method": method,
            "selected": k,
            "accuracy": float(part),
            "honest": honest,
        }
        for path in files
        for X, y in [load(path)]
        for counts in [counts_of(X.shape[1], quick)]
        for method in METHODS
        for k, part in zip(
            counts, cross_validated(X, y, method, counts, repeats, n_jobs, honest), strict=True
        )
    ]


def wanted(d):
    """Features that CCM and mRMR are asked for: 100, or a fifth of up to 100."""
    return N_WANTED if d > N_WANTED else -(-d // 5)


def counts_of(d, quick):
    """Numbers of features selected: 5, 10, .. 100, or all from 1 on; few of them if `quick`."""
    counts = range(STEP, N_WANTED + 1, STEP) if d > N_WANTED else range(1, d + 1)
    return [k for k in counts if k in SHOWN] if quick else counts


def load(path):
    """X (m, d) float64 and classes (m,) of a file."""
    with np.load(path, allow_pickle=False) as data:
        return data["X"].astype(np.float64), data["y"].astype(np.int64)


def cross_validated(X, y, method, counts, repeats, n_jobs, honest):
    """Mean accuracy on the first so many features, over folds and repeats; (counts,)."""
    start = time.perf_counter()
    ranking = None if honest else METHODS[method](X, y, wanted(X.shape[1]))
    if not honest:
        say(f"{method}: {X.shape[1]:,} features ranked in {time.perf_counter() - start:.1f} s")
    folds = RepeatedStratifiedKFold(n_splits=N_FOLDS, n_repeats=repeats, random_state=0)
    found = joblib.Parallel(n_jobs)(
        joblib.delayed(of_fold)(X, y, train, test, method, ranking, counts)
        for train, test in folds.split(X, y)
    )
    return np.mean(found, axis=0)


def of_fold(X, y, train, test, method, ranking, counts):
    """Accuracy on the test samples of a fold, for every number of features."""
    if ranking is None:
        ranking = METHODS[method](X[train], y[train], wanted(X.shape[1]))
    best_first = np.argsort(ranking)
    return [accuracy(X[:, best_first[:k]], y, train, test) for k in counts]


def accuracy(X, y, train, test):
    """Of an SVM with C = 1 and a Gaussian kernel, sigma of CCM 6.1 over the features given.

    Sigma is the median distance over sqrt(2), which makes ``exp(-D / (2 sigma^2))`` that of the
    median squared distance for scale.
    """
    scaling = StandardScaler().fit(X[train])
    x = scaling.transform(X[train])
    gamma = 1 / np.median(pdist(x, "sqeuclidean"))
    return SVC(C=1.0, gamma=gamma).fit(x, y[train]).score(scaling.transform(X[test]), y[test])


def curve(records, data, method):
    """Numbers of features and accuracies in percent."""
    chosen = [r for r in records if r["data"] == data and r["method"] == method]
    return [r["selected"] for r in chosen], [100 * r["accuracy"] for r in chosen]


def named(records):
    """Name of every data set, and its size in words."""
    return {
        r["data"]: f"{r['data']}: {r['samples']} x {r['features']:,}, {r['classes']} classes"
        for r in records
    }


def printed(records):
    """A table for each data set: a row a method, a column a number of features; percent."""
    parts = []
    for data, title in named(records).items():
        counts, _ = curve(records, data, "CCM")
        shown = [i for i, k in enumerate(counts) if k in SHOWN]
        rows = []
        for method in METHODS:
            values = curve(records, data, method)[1]
            rows.append([method, *(f"{values[i]:.1f}" for i in shown), f"{np.mean(values):.1f}"])
        parts.append(f"{title}\n\n{table(('features', *(counts[i] for i in shown), 'mean'), rows)}")
    return "\n\n".join(parts)

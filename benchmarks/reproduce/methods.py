"""Every method that is compared, by name: what ranks, its parameters, and whose versions count."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from dhsic import kernels

from . import rankers, rivals
from .cache import version_of
from .rankers import ranks
from .sets import varies

DEFAULT = "BAHSIC, default"
#: dhsic's own take the data as they are in the file; the step is that of JMLR 7.2.
STEP = {"step": 0.1}
#: Algorithm 1 as the paper has it, on features of unit deviation.
ALONE = {**STEP, "rerank": False, "standardize": True}


@dataclass(frozen=True)
class Method:
    """A way to order features.

    Attributes
    ----------
    call : callable
        (X, y, n, **parameters) to at most n features, the best first; of a `raw` method to the
        ranking of all.
    parameters : dict
        Of JSON, so that results can be filed by them.
    packages : tuple of str
        Whose versions a result is of.
    raw : bool
        Takes the data as they are; else standardised, without gaps, and only what varies.
    classes : int or None
        How many it can tell apart, where that is limited.
    """

    call: Callable
    parameters: dict = field(default_factory=dict)
    packages: tuple[str, ...] = ("scikit-learn",)
    raw: bool = False
    classes: int | None = None

    @property
    def identity(self):
        """What a result is filed by, beside the data."""
        return {"code": inspect.getsource(self.call), "parameters": self.parameters}

    @property
    def versions(self):
        return {name: version_of(name) for name in (*self.packages, "numpy")}

    def takes(self, data):
        return self.classes is None or (data.n_classes <= self.classes and not data.is_real)

    def order(self, X, y, n):
        """At most n features, the best first."""
        if self.raw:
            return np.argsort(self.call(X, y, n, **self.parameters), kind="stable")[:n]
        kept = np.flatnonzero(varies(X))
        x = standardised(X[:, kept])[0]
        return kept[self.call(x, y, min(n, kept.size), **self.parameters)]


def standardised(train, *others):
    """Arrays (m, d) to mean 0 and deviation 1 of the first; what is missing is 0."""
    x = np.asarray(train, dtype=np.float64)
    mean, deviation = np.nanmean(x, axis=0), np.nanstd(x, axis=0)
    deviation[deviation == 0] = 1
    return [np.nan_to_num((np.asarray(a, float) - mean) / deviation) for a in (train, *others)]


def ridge(X, y, n, penalty, **options):
    return rankers.bahsic(X, y, n, kernel=kernels.Ridge(penalty=penalty), **options)


def kernel_named(X, y, n, kernel, **options):
    return rankers.bahsic(X, y, n, kernel=kernel, **options)


def in_two_stages(X, y, n, survivors, penalty, step):
    """Algorithm 1 down to `survivors`, which the ridge kernel ranks, a tenth leaving at a time."""
    ranking = rankers.bahsic(X, y, n, step=step, rerank=False)
    stay = np.flatnonzero(ranking <= survivors)
    ranking[stay] = ridge(X[:, stay], y, n, penalty, step=step)
    return ranking


def of_both(X, y, n, penalty, step):
    """The geometric mean of the ranks by Algorithm 1 and by the ridge kernel."""
    first = rankers.bahsic(X, y, n, step=step, rerank=False)
    second = ridge(X, y, n, penalty, step=step)
    return ranks(-first.astype(float) * second)


def forward(X, y, n, **options):
    return rankers.fohsic(X, y, n, wanted=n, **options)


def ccm(X, y, n):
    """Asked for n features, or for a fifth where that were all, as in CCM 6.2."""
    d = X.shape[1]
    return rankers.ccm(X, y, n if n < d else -(-d // 5))


def less_redundancy(X, y, n, candidates):
    """The most HSIC with the labels less the mean HSIC with those chosen, both normalised.

    Each feature has a Gaussian kernel of width 1; of wide data, the `candidates` that depend most.
    """
    first = rankers.bahsic_first(X, y, n, rerank=False)
    left = np.argsort(first, kind="stable")[:candidates]
    x, m = standardised(X[:, left])[0], len(y)
    centred = np.empty((left.size, m, m), dtype=np.float32)
    for kept, column in zip(centred, x.T, strict=True):
        kept[...] = double_centred(np.exp(-((column[:, None] - column) ** 2) / 2))
    F = centred.reshape(left.size, -1)
    target = labels_kernel(y).ravel().astype(np.float32)
    relevance, redundancy = F @ target, np.zeros(left.size)
    chosen, score = [], relevance
    for _ in range(min(n, left.size)):
        chosen.append(int(np.argmax(score)))
        redundancy += F @ F[chosen[-1]]
        score = relevance - redundancy / len(chosen)
        score[chosen] = -np.inf
    ranking = np.full(X.shape[1], X.shape[1])
    ranking[left[chosen]] = np.arange(1, len(chosen) + 1)
    return ranking


def double_centred(K):
    """Rows and columns of mean 0, the whole of norm 1."""
    K = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()
    return K / np.linalg.norm(K)


def labels_kernel(y):
    """Classes by delta over their sizes, real values by a Gaussian of unit width; (m, m)."""
    if rankers.is_real(y):
        z = (y - y.mean()) / y.std()
        return double_centred(np.exp(-((z[:, None] - z) ** 2) / 2))
    return double_centred((y[:, None] == y) / np.bincount(y)[y])


def everything(X, _y, _n):
    """All features, for predictors that select for themselves."""
    return np.arange(X.shape[1]) + 1


def ours(call, classes=None, **parameters):
    return Method(call, parameters, ("dhsic",), raw=True, classes=classes)


def theirs(call, package, **parameters):
    return Method(call, parameters, (package, "scikit-learn"))


def alone(criterion, classes=None):
    return ours(rankers.criterion, classes, criterion=criterion)


METHODS = {
    DEFAULT: ours(rankers.default, **STEP),
    "BAHSIC": ours(rankers.bahsic, **ALONE),
    "BAHSIC, median width": ours(rankers.bahsic, **ALONE, bandwidth="median"),
    "BAHSIC, step 0.5": ours(rankers.bahsic, step=0.5, rerank=False),
    "BAHSIC, as dosages": ours(rankers.bahsic, **{**ALONE, "standardize": False}),
    "BAHSIC, polynomial": ours(kernel_named, **ALONE, kernel="polynomial"),
    "BAHSIC, Laplace L1": ours(kernel_named, **ALONE, kernel="laplace-l1"),
    "Laplace L1, then ridge": ours(kernel_named, **STEP, rerank="auto", kernel="laplace-l1"),
    "BAHSIC, inverse distance": ours(kernel_named, **ALONE, kernel="inverse-distance"),
    **{
        f"ridge {penalty}": ours(ridge, **STEP, penalty=float(penalty))
        for penalty in (1, 3, 10, 30, 100)
    },
    **{
        f"ridge {penalty}, standardised": ours(
            ridge, **STEP, penalty=float(penalty), standardize=True
        )
        for penalty in (1, 100)
    },
    **{
        f"BAHSIC to {n}, then ridge 10": ours(in_two_stages, **STEP, survivors=n, penalty=10.0)
        for n in (200, 500)
    },
    "ranks of BAHSIC and ridge 10": ours(of_both, **STEP, penalty=10.0),
    "HSIC less redundancy": ours(less_redundancy, candidates=500),
    "HSIC of one feature": ours(rankers.bahsic_first, rerank=False),
    "linear HSIC": ours(rankers.linear),
    "FOHSIC": ours(forward),
    "CCM": ours(ccm),
    "SVM-RFE (dhsic)": ours(rankers.svm_rfe, 2),
    "Pearson": theirs(rivals.correlation, "scikit-learn"),
    "signal to noise": alone("snr", 2),
    "shrunken centroid": alone("shrunken-centroid", 2),
    "t": alone("t", 2),
    "moderated t": alone("moderated-t", 2),
    "B": alone("b", 2),
    "F test": theirs(rivals.f_test, "scikit-learn"),
    "F test, clumped": theirs(rivals.clumped_f_test, "scikit-learn", r2=0.2),
    "mutual information": theirs(rivals.information, "scikit-learn"),
    "mRMR": theirs(rivals.mrmr, "mrmr-selection"),
    "mRMR, three levels": theirs(rivals.mrmr_of_levels, "scikit-learn"),
    "RFE": theirs(rivals.rfe, "scikit-learn"),
    "L1": theirs(rivals.l1, "scikit-learn"),
    "trees": theirs(rivals.trees, "scikit-learn"),
    "Boruta": theirs(rivals.boruta, "Boruta"),
    "ReliefF": theirs(rivals.relieff, "skrebate"),
    "MultiSURF": theirs(rivals.multisurf, "skrebate"),
    "HSIC Lasso": theirs(rivals.hsic_lasso, "pyHSICLasso"),
    "fastcan": theirs(rivals.fastcan, "fastcan"),
    "lasso on all": Method(everything, {}, (), raw=True),
    "ridge on all": Method(everything, {}, (), raw=True),
}

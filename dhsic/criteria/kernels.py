"""Criteria with a Gaussian kernel on each feature: MMD, kernel target alignment, QMI.

They see dependence of any shape that a feature has alone, where those of `dhsic.criteria.means`
see means. The kernel is ``exp(-sigma (x - x')^2)``; `bandwidth` says sigma: ``"dimension"`` is 1/2,
right for standardised features, ``"median"`` follows the median distance of each feature: the
policies of JMLR 4.1 with ``|S| = 1``.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.criteria.base import AbstractCriterion, LabelReading
from dhsic.criteria.sums import kernel_sums
from dhsic.criteria.targets import TWO_CLASSES, single_target
from dhsic.errors import InputError
from dhsic.kernels.bandwidth import (
    MEDIAN_SAMPLES,
    AbstractBandwidth,
    Dimension,
    Fixed,
    Median,
    resolve_bandwidth,
)
from dhsic.kernels.label_kernels import ClassTarget, LabelMatrix, RealTargets
from dhsic.kernels.labels import label_matrix
from dhsic.linalg.covariates import residuals
from dhsic.linalg.symmetric import LowRankSymmetric

#: What labels come down to, and what sums are divided by.
ScaledLabels = tuple[LowRankSymmetric, float]


def _as_they_are(labels: LabelMatrix) -> ScaledLabels:
    return labels.factor(), 1.0


def _of_norm_one(labels: LabelMatrix) -> ScaledLabels:
    """L, to be divided by its norm."""
    L = labels.factor()
    G = (L.F.T @ L.F) * L.weights  # |L|^2 = tr (F'F w)^2
    return L, float(np.sqrt(np.vdot(G, G.T)))


def _window(y: Array, criterion: AbstractCriterion) -> LabelMatrix:
    """Classes or numbers: nu but for its constant factor."""
    column = single_target(y, criterion.name)
    labels = label_matrix(column, "auto")
    target = labels.parts[0]
    if isinstance(target, ClassTarget):
        codes, n = target.codes, int(target.codes.max()) + 1
        return LabelMatrix((ClassTarget(codes, None, np.ones(n), "delta"),), len(codes), 1)
    assert isinstance(target, RealTargets), "numbers are real targets"
    assert target.sigma is not None, "the kernel on them is Gaussian"
    spread = target.values.std()
    window = RealTargets(target.values / spread, target.sigma * float(spread) ** 2 / 2)
    return LabelMatrix((window,), labels.n_samples, 1)


def _centred_window(labels: LabelMatrix) -> ScaledLabels:
    """``H nu H``, to be divided by m^2."""
    L = labels.factor()
    target, height = labels.parts[0], 1.0
    if isinstance(target, RealTargets) and target.sigma is not None:
        height = float(np.sqrt(target.sigma / np.pi))  # it is half that of the window
    return LowRankSymmetric.of(residuals(L.F, None), L.weights * height), L.n_samples**2.0


@dataclass(frozen=True)
class AbstractKernelCriterion(AbstractCriterion):
    """A criterion of the Gaussian kernel on a feature."""

    has_bandwidth: ClassVar[bool] = True
    bandwidth: Any = "dimension"

    def __post_init__(self) -> None:
        resolve_width(self.bandwidth)

    @abstractmethod
    def of_width(self, sigma: Float, state: ScaledLabels, X: Float, n_levels: Array) -> Float:
        """Scores by the kernels of these widths (c,); others as of `columns`."""

    def columns(self, state: ScaledLabels, X: Float, n_levels: Array) -> Float:
        sigma = widths_of(X, resolve_width(self.bandwidth))
        return self.of_width(sigma, state, X, n_levels)[None]


@dataclass(frozen=True)
class MMD(AbstractKernelCriterion):
    r"""Squared maximum mean discrepancy of the feature between two classes (JMLR eq. 26).

    ``|mean_+ phi(x) - mean_- phi(x)|^2``, biased: ``tr K L`` with the labels of eq. 17, for which
    ``H L H = L``, hence ``(m - 1)^2 HSIC_0``.

    When to use it: two classes between which a feature may differ in spread or in shape, not only
    in its mean.

    Parameters
    ----------
    bandwidth : "dimension", "median" or float
        Sigma.
    """

    name: ClassVar[str] = "mmd"
    labels: ClassVar[LabelReading] = LabelReading(TWO_CLASSES.read, _as_they_are)
    meaning: ClassVar[str] = "squared maximum mean discrepancy between the classes"

    def of_width(self, sigma: Float, state: ScaledLabels, X: Float, n_levels: Array) -> Float:
        L, _ = state
        return kernel_sums(X, n_levels, sigma, L.F, L.weights).inner


@dataclass(frozen=True)
class TargetAlignment(AbstractKernelCriterion):
    r"""Kernel target alignment ``tr K L / (|K| |L|)`` (JMLR 6.4; Cristianini et al. 2003).

    The cosine between the kernel matrices of feature and labels, neither centred. Labels of any
    kind; ``label_kernel="binary"``, ``y y'``, is that of Cristianini et al.

    When to use it: to compare with work that does. Without centring it favours kernels that are
    large everywhere where class sizes differ; `QMI` and `MMD` do not.

    Parameters
    ----------
    bandwidth : "dimension", "median" or float
        Sigma.
    label_kernel : str
        See `dhsic.kernels.labels.label_matrix`.
    """

    name: ClassVar[str] = "kta"
    labels: ClassVar[LabelReading] = LabelReading(
        lambda y, criterion: label_matrix(y, criterion.label_kernel), _of_norm_one
    )
    meaning: ClassVar[str] = "kernel target alignment"
    label_kernel: str = "auto"

    def of_width(self, sigma: Float, state: ScaledLabels, X: Float, n_levels: Array) -> Float:
        L, norm = state
        sums = kernel_sums(X, n_levels, sigma, L.F, L.weights, squares=True)
        return sums.inner / np.sqrt(sums.squares) / norm


@dataclass(frozen=True)
class QMI(AbstractKernelCriterion):
    r"""Quadratic mutual information by Parzen windows (JMLR eq. 30; Torkkola 2003).

    ``integral (p(x, y) - p(x) p(y))^2``, estimated with Gaussian windows ``sqrt(sigma / pi)
    exp(-sigma u^2)``. The inner product of two is a Gaussian of twice the variance, ``kappa =
    sqrt(sigma / (2 pi)) exp(-(sigma / 2) (x - x')^2)``, and the integral ``tr kappa H nu H / m^2 =
    ((m - 1) / m)^2 HSIC_0`` (the paper's bracket lacks ``1/m`` and ``1/m^2`` in its second and
    third term). Labels that are classes have ``nu = 1`` within a class and 0 between; numbers,
    standardised, a window whose sigma is that of the median distance.

    When to use it: any dependence between a feature and labels of any kind, as an amount of
    information: it grows where densities are high.

    Parameters
    ----------
    bandwidth : "dimension", "median" or float
        Sigma of the window on the feature.
    """

    name: ClassVar[str] = "qmi"
    labels: ClassVar[LabelReading] = LabelReading(_window, _centred_window)
    meaning: ClassVar[str] = "quadratic mutual information with the labels"

    def of_width(self, sigma: Float, state: ScaledLabels, X: Float, n_levels: Array) -> Float:
        L, square = state
        sums = kernel_sums(X, n_levels, sigma / 2, L.F, L.weights)
        return np.sqrt(sigma / (2 * np.pi)) * sums.inner / square


#: Features of up to so many values have their pairs counted.
FEW_VALUES = 64


def resolve_width(bandwidth: object) -> AbstractBandwidth:
    """Policy for the width of the kernel on one feature.

    Raises
    ------
    InputError
        A grid, or what `resolve_bandwidth` refuses.
    """
    policy = resolve_bandwidth(bandwidth)
    if not isinstance(policy, Dimension | Fixed | Median):
        raise InputError(
            f"bandwidth={bandwidth!r} is a choice among widths, and scores of features under "
            "different widths do not compare; pass 'dimension', 'median' or one positive number."
        )
    return policy


def widths_of(X: Float, policy: AbstractBandwidth) -> Float:
    """Sigma of every feature (c, m) that varies, (c,), by what `resolve_width` returned."""
    if isinstance(policy, Fixed):
        return np.full(len(X), policy.sigma)
    if isinstance(policy, Dimension):
        return np.full(len(X), 0.5)
    stride = -(-X.shape[1] // MEDIAN_SAMPLES)
    return np.array([0.5 / median_square(x[::stride]) for x in X])


def median_square(x: Float) -> float:
    """Median squared distance of pairs i < j of x, (m,); of the positive ones where most are 0.

    On a line pairs need not be written out: those within t of a value lie next to it in order, and
    those of few values are counted.
    """
    s = np.sort(x)
    places = np.flatnonzero(np.concatenate([[True], s[1:] != s[:-1]]))
    if places.size <= FEW_VALUES:
        return _median_of_levels(s[places], np.diff(np.append(places, len(s))))
    n, equal = len(s) * (len(s) - 1) // 2, _n_within(s, 0.0)
    middle = _median(s, 0, n)
    return middle if middle > 0 else _median(s, equal, n)


def _median_of_levels(values: Float, counts: Index) -> float:
    """The same from values and how often each occurs, (q,)."""
    if len(values) == 1:
        return 1.0  # the samples that were taken are all alike
    D = np.square(np.subtract.outer(values, values)).ravel()
    order = np.argsort(D, kind="stable")
    pairs = (np.outer(counts, counts) - np.diag(counts)).ravel()  # each pair i, i' twice
    up_to = np.cumsum(pairs[order]) // 2
    equal, n = int(np.dot(counts, counts - 1)) // 2, int(up_to[-1])

    def median(first: int) -> float:
        middle = [first + (n - first - 1) // 2, first + (n - first) // 2]
        return float(D[order[np.searchsorted(up_to, middle, side="right")]].mean())

    return median(0) or median(equal)


def _median(s: Float, first: int, end: int) -> float:
    """Median of the squared distances from place `first` to before `end`, in ascending order."""
    low, high = first + (end - first - 1) // 2, first + (end - first) // 2
    below = _distance(s, low)
    above = below if low == high else _distance(s, high)
    return (below**2 + above**2) / 2


def _distance(s: Float, k: int) -> float:
    """Distance of sorted values at place k from 0, in ascending order, by bisection."""
    low, high = 0.0, float(s[-1] - s[0])
    if _n_within(s, low) > k:
        return 0.0
    while low < (middle := (low + high) / 2) < high:
        n = _n_within(s, middle)
        low, high = (low, middle) if n > k else (middle, high)
        if n == k + 1:
            break
    to = _ends(s, high)
    return float((s[to] - s).max())


def _n_within(s: Float, t: float) -> int:
    """Pairs of sorted values at most t apart."""
    return int((_ends(s, t) - np.arange(len(s))).sum())


def _ends(s: Float, t: float) -> Index:
    """For each of the sorted values, the place of the last one that is at most t above it."""
    return np.searchsorted(s, s + t, side="right") - 1

"""Criteria with a Gaussian kernel on each feature: MMD, kernel target alignment, QMI.

They detect dependence of any shape on single features. The criteria in `dhsic.criteria.linear`
detect differences of means only. The kernel is ``exp(-sigma (x - x')^2)``. `bandwidth` sets sigma:
``"dimension"`` is 1/2, which suits standardised features; ``"median"`` is computed from the median
distance of each feature. These are the policies of JMLR 4.1 with ``|S| = 1``. Samples with a
missing value are excluded for this feature (`dhsic.criteria.present`).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dhsic._typing import Array, Float
from dhsic.criteria.base import (
    TWO_CLASSES,
    AbstractCriterion,
    CriterionScores,
    LabelReading,
    single_target,
)
from dhsic.criteria.features import ENTRIES, Features, resolve_width
from dhsic.criteria.missingness import MissingnessTest
from dhsic.criteria.present import PresentWeights
from dhsic.criteria.sums import MOST_NODES, ROWS, kernel_sums
from dhsic.kernels.bandwidth import MEDIAN_SAMPLES
from dhsic.kernels.censored import log_rank_scores
from dhsic.kernels.label_parts import ClassTarget, MixedTarget, RealTargets, mean_direction
from dhsic.kernels.labels import LabelMatrix, label_matrix
from dhsic.kernels.risk_sets import is_censored
from dhsic.linalg.covariates import residuals
from dhsic.linalg.symmetric import LowRankSymmetric

#: For the memory estimate: number of directions of a low-rank label matrix, and of copies of it.
DIRECTIONS, COPIES = 40, 4
#: Number of float64 values per pair of labels that computing the median distance takes.
PAIRS = 3


@dataclass(frozen=True, eq=False)
class ScaledLabels:
    """State of a criterion: low-rank label matrix L, divisor of kernel sums, sample weights."""

    L: LowRankSymmetric
    divisor: float
    present: PresentWeights
    missingness: MissingnessTest

    @staticmethod
    def of(L: LowRankSymmetric, divisor: float) -> ScaledLabels:
        """Create the state from the low-rank label matrix L.

        Kernel sums are divided by `divisor`.
        """
        weights = PresentWeights.of(L.F)
        centred = (L.F - weights.mean) * np.sqrt(np.abs(L.weights))
        return ScaledLabels(L, divisor, weights, MissingnessTest(centred))

    def log10_p_missing(self, features: Features, place: slice) -> Float:
        """Compute ``-log10 p`` of the test of whether missing values depend on the labels, (c,)."""
        if features.missing_sums is None:
            return np.zeros(len(features.X))
        sums, n = features.missing_sums
        centred = sums[:, place] - np.outer(n, self.present.mean)
        scale = np.sqrt(np.abs(self.L.weights))
        return self.missingness.log10_p(centred * scale, np.asarray(n, dtype=np.float64))


def _of_two(labels: LabelMatrix) -> ScaledLabels:
    """Prepare the labels of `MMD`: their low-rank kernel matrix, with divisor 1."""
    return ScaledLabels.of(labels.factor(), 1.0)


def _of_norm_one(labels: LabelMatrix) -> ScaledLabels:
    """Prepare the labels of `TargetAlignment`: their low-rank kernel matrix and its norm.

    The norm is the divisor of kernel sums.
    """
    L = labels.factor()
    G = (L.F.T @ L.F) * L.weights  # |L|^2 = tr (F'F w)^2
    return ScaledLabels.of(L, float(np.sqrt(np.vdot(G, G.T))))


def _window(y: Array, criterion: AbstractCriterion) -> LabelMatrix:
    """Read classes or numbers as labels with the label kernel nu of `QMI`.

    The kernel is nu up to a constant factor. Censored times become log-rank scores.
    """
    column = single_target(y, criterion)
    if is_censored(column):
        column = log_rank_scores(column)[:, 0]
    labels = label_matrix(column, "auto")
    (target,), m = labels.parts, labels.n_samples
    if isinstance(target, ClassTarget):
        return LabelMatrix((_delta(target),), m, 1)
    if isinstance(target, MixedTarget):
        of_both = _delta(target.classes), _on_numbers(target.numbers), mean_direction(m)
        return LabelMatrix((MixedTarget.of(*of_both),), m, 1)
    assert isinstance(target, RealTargets), "numbers are real targets"
    return LabelMatrix((_on_numbers(target),), m, 1)


def _delta(classes: ClassTarget) -> ClassTarget:
    """Kernel nu for classes: 1 for a pair in the same class, and 0 for other pairs."""
    return ClassTarget.of(classes.codes, "delta")


def _on_numbers(target: RealTargets) -> RealTargets:
    """Kernel nu for numbers: a Gaussian window on the standardised numbers."""
    assert target.sigma is not None, "the kernel on them is Gaussian"
    std = target.values.std()
    return RealTargets(target.values / std, target.sigma * float(std) ** 2 / 2, name=target.name)


def _centred_window(labels: LabelMatrix) -> ScaledLabels:
    """Prepare the labels of `QMI`: their centred low-rank kernel matrix ``H nu H``.

    The divisor of kernel sums is m^2, for m samples.
    """
    L = labels.factor()
    target, height = labels.parts[0], 1.0
    if isinstance(target, RealTargets) and target.sigma is not None:
        height = float(np.sqrt(target.sigma / np.pi))  # the window has twice this sigma
    centred = LowRankSymmetric.of(residuals(L.F, None), L.weights * height)
    return ScaledLabels.of(centred, L.n_samples**2.0)


@dataclass(frozen=True)
class AbstractKernelCriterion(AbstractCriterion):
    """Criterion with a Gaussian kernel on each feature."""

    has_bandwidth = True
    is_timed = False
    bandwidth: Any = "dimension"

    def __post_init__(self) -> None:
        resolve_width(self.bandwidth)

    @abstractmethod
    def of_width(
        self, sigma: Float, state: ScaledLabels, features: Features, place: slice
    ) -> Float:
        """Compute scores (c,) for kernel widths `sigma` (c,).

        The other parameters are as in `columns`.
        """

    @property
    def leaves_missing_out(self) -> bool:
        return True

    def directions(self, state: ScaledLabels) -> Float:
        return state.L.F

    def columns(self, state: ScaledLabels, features: Features, place: slice) -> Float:
        """Compute scores, and the test of whether missing values depend on the labels.

        The result is (2, c); the second row is ``-log10 p`` of the test.
        """
        sigma = features.widths(resolve_width(self.bandwidth))
        scores = self.of_width(sigma, state, features, place)
        return np.stack([scores, state.log10_p_missing(features, place)])

    def finish(self, state: ScaledLabels, columns: Float) -> CriterionScores:
        return CriterionScores(columns[0])

    def tile_bytes(self, c: int, m: int) -> int:
        return 8 * 4 * (MOST_NODES * ROWS + ENTRIES)

    def label_bytes(self, m: int) -> int:
        return 8 * (COPIES * DIRECTIONS * m + PAIRS * min(m, MEDIAN_SAMPLES) ** 2)


@dataclass(frozen=True)
class MMD(AbstractKernelCriterion):
    r"""Squared maximum mean discrepancy of the feature between two classes (JMLR eq. 26).

    The score is the biased estimate ``|mean_+ phi(x) - mean_- phi(x)|^2``. It equals ``tr K L``
    with the labels of eq. 17, for which ``H L H = L``, so it is ``(m - 1)^2 HSIC_0``.

    When to use it: for two classes between which features may differ in variance or shape, not only
    in their means.

    Parameters
    ----------
    bandwidth : "dimension", "median" or float
        Sigma of the Gaussian kernel on the feature.
    """

    name = "mmd"
    labels = replace(TWO_CLASSES, prepare=_of_two)
    meaning = "squared maximum mean discrepancy between the classes"

    def of_width(
        self, sigma: Float, state: ScaledLabels, features: Features, place: slice
    ) -> Float:
        return kernel_sums(features, sigma, place, state.L.weights, state.present)[0]


@dataclass(frozen=True)
class TargetAlignment(AbstractKernelCriterion):
    r"""Kernel target alignment ``tr K L / (|K| |L|)`` (JMLR 6.4; Cristianini et al. 2003).

    The score is the cosine between the kernel matrices of feature and labels, which are not
    centred. Labels may be of any kind; Cristianini et al. use ``label_kernel="binary"``, ``y y'``.

    When to use it: to compare with published results. Because nothing is centred, it favours
    kernels that are large everywhere if class sizes differ; `QMI` and `MMD` do not.

    Parameters
    ----------
    bandwidth : "dimension", "median" or float
        Sigma of the Gaussian kernel on the feature.
    label_kernel : str
        See `dhsic.kernels.labels.label_matrix`.
    """

    name = "kta"
    labels = LabelReading(
        lambda y, criterion: label_matrix(y, criterion.label_kernel), _of_norm_one
    )
    meaning = "kernel target alignment"
    label_kernel: str = "auto"

    def of_width(
        self, sigma: Float, state: ScaledLabels, features: Features, place: slice
    ) -> Float:
        w, present = state.L.weights, state.present
        inner, squares = kernel_sums(features, sigma, place, w, present, squares=True)
        return inner / np.sqrt(squares) / state.divisor


@dataclass(frozen=True)
class QMI(AbstractKernelCriterion):
    r"""Quadratic mutual information by Parzen windows (JMLR eq. 30; Torkkola 2003).

    The score is ``integral (p(x, y) - p(x) p(y))^2``, estimated with Gaussian windows ``sqrt(sigma
    / pi) exp(-sigma u^2)``. The inner product of two windows is a Gaussian with twice the variance,
    ``kappa = sqrt(sigma / (2 pi)) exp(-(sigma / 2) (x - x')^2)``, and the integral is ``tr kappa H
    nu H / m^2 = ((m - 1) / m)^2 HSIC_0`` (the second and third term in the paper lack ``1/m`` and
    ``1/m^2``). For classes, ``nu`` is 1 within a class and 0 between classes. For numbers, which
    are standardised, it is a window whose width is the median distance. For whole numbers that may
    be classes or numbers, it is the sum of both, scaled to the same norm.

    When to use it: for dependence of any shape, and labels of any kind, measured as an amount of
    information; the score is larger if densities are high.

    Parameters
    ----------
    bandwidth : "dimension", "median" or float
        Sigma of the window on the feature.
    """

    name = "qmi"
    labels = LabelReading(_window, _centred_window)
    meaning = "quadratic mutual information with the labels"

    def of_width(
        self, sigma: Float, state: ScaledLabels, features: Features, place: slice
    ) -> Float:
        inner, _ = kernel_sums(features, sigma / 2, place, state.L.weights, state.present)
        return np.sqrt(sigma / (2 * np.pi)) * inner / state.divisor

"""Criteria with a Gaussian kernel on each feature: MMD, kernel target alignment, QMI.

They see dependence of any shape that a feature has alone, where those of `dhsic.criteria.means`
see means. The kernel is ``exp(-sigma (x - x')^2)``; `bandwidth` says sigma: ``"dimension"`` is 1/2,
right for standardised features, ``"median"`` follows the median distance of each feature.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dhsic._typing import Array, Float
from dhsic.criteria.base import AbstractCriterion, Scores, as_they_are
from dhsic.criteria.sums import kernel_sums
from dhsic.criteria.targets import single_target, two_classes
from dhsic.criteria.width import resolve_width, widths_of
from dhsic.kernels.label_factors import factor_of
from dhsic.kernels.labels import ClassTarget, LabelParts, RealTargets, label_parts


@dataclass(frozen=True, slots=True)
class Factor:
    """``B diag(w) B'``: what labels come down to; `scale` is what sums are divided by."""

    B: Float
    w: Float
    scale: float = 1.0


@dataclass(frozen=True)
class MMD(AbstractCriterion):
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
    meaning: ClassVar[str] = "squared maximum mean discrepancy between the classes"
    has_bandwidth: ClassVar[bool] = True
    bandwidth: Any = "dimension"

    def __post_init__(self) -> None:
        resolve_width(self.bandwidth)

    def read(self, y: Array) -> LabelParts:
        """Two classes."""
        return two_classes(y, self.name)

    def prepare(self, labels: LabelParts) -> Factor:
        """Labels of eq. 17."""
        return _factor(labels)

    def columns(self, state: Factor, X: Float, n_levels: Array) -> Float:
        """``tr K L``."""
        sigma = widths_of(X, resolve_width(self.bandwidth))
        return kernel_sums(X, n_levels, sigma, state.B, state.w).inner[None]

    def finish(self, state: Factor, columns: Float) -> Scores:
        """They are done."""
        return as_they_are(columns)


@dataclass(frozen=True)
class Alignment(AbstractCriterion):
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
    meaning: ClassVar[str] = "kernel target alignment"
    has_bandwidth: ClassVar[bool] = True
    bandwidth: Any = "dimension"
    label_kernel: str = "auto"

    def __post_init__(self) -> None:
        resolve_width(self.bandwidth)

    def read(self, y: Array) -> LabelParts:
        """Any labels."""
        return label_parts(y, self.label_kernel)

    def prepare(self, labels: LabelParts) -> Factor:
        """L, divided by its norm."""
        factor = _factor(labels)
        G = (factor.B.T @ factor.B) * factor.w  # |L|^2 = tr (B'B w)^2
        return Factor(factor.B, factor.w, float(np.sqrt(np.vdot(G, G.T))))

    def columns(self, state: Factor, X: Float, n_levels: Array) -> Float:
        """The cosine."""
        sigma = widths_of(X, resolve_width(self.bandwidth))
        sums = kernel_sums(X, n_levels, sigma, state.B, state.w, squares=True)
        return (sums.inner / np.sqrt(sums.squares) / state.scale)[None]

    def finish(self, state: Factor, columns: Float) -> Scores:
        """They are done."""
        return as_they_are(columns)


@dataclass(frozen=True)
class QMI(AbstractCriterion):
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
    meaning: ClassVar[str] = "quadratic mutual information with the labels"
    has_bandwidth: ClassVar[bool] = True
    bandwidth: Any = "dimension"

    def __post_init__(self) -> None:
        resolve_width(self.bandwidth)

    def read(self, y: Array) -> LabelParts:
        """Classes or numbers: nu but for its constant factor."""
        column = single_target(y, self.name)
        labels = label_parts(column, "auto")
        target = labels.parts[0]
        if isinstance(target, ClassTarget):
            codes, n = target.codes, int(target.codes.max()) + 1
            return LabelParts((ClassTarget(codes, None, np.ones(n), "delta"),), len(codes), 1)
        assert isinstance(target, RealTargets), "numbers are real targets"
        assert target.sigma is not None, "the kernel on them is Gaussian"
        spread = target.values.std()
        window = RealTargets(target.values / spread, target.sigma * float(spread) ** 2 / 2)
        return LabelParts((window,), labels.n_samples, 1)

    def prepare(self, labels: LabelParts) -> Factor:
        """``H nu H``, to be divided by m^2."""
        factor = _factor(labels)
        target, height = labels.parts[0], 1.0
        if isinstance(target, RealTargets) and target.sigma is not None:
            height = float(np.sqrt(target.sigma / np.pi))  # it is half that of the window
        return Factor(factor.B - factor.B.mean(axis=0), factor.w * height, len(factor.B) ** 2.0)

    def columns(self, state: Factor, X: Float, n_levels: Array) -> Float:
        """The integral."""
        sigma = widths_of(X, resolve_width(self.bandwidth))
        sums = kernel_sums(X, n_levels, sigma / 2, state.B, state.w)
        return (np.sqrt(sigma / (2 * np.pi)) * sums.inner / state.scale)[None]

    def finish(self, state: Factor, columns: Float) -> Scores:
        """They are done."""
        return as_they_are(columns)


def _factor(labels: LabelParts) -> Factor:
    factor = factor_of(labels)
    return Factor(factor.B, factor.weights)

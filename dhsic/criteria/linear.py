"""Criteria with a linear kernel on a feature: correlation, ridge regression, class means.

Centroid, t, signal to noise and shrunken centroid compare class means. Each is HSIC_0 with the
linear kernel, but with a different scaling of features and a different map of labels (JMLR 6.2 and
6.5). The positive class is the class with the last name in sorted order. Counts, means and
variances of features within classes are products with class indicators.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dhsic._typing import Float
from dhsic.criteria.base import (
    CLASSES,
    NUMBERS,
    TWO_CLASSES,
    TWO_OF_TWO,
    UNIT_NUMBERS,
    AbstractCriterion,
    Classes,
    check_part,
)
from dhsic.criteria.features import Features
from dhsic.errors import InputError
from dhsic.validation import is_number

#: If a difference of two sums of squares is below this fraction of them, it has lost digits.
CANCELLED = 1e-3


def ratio(difference: Float, spread: Float) -> Float:
    """Return ``difference / spread``.

    The ratio is infinite if only the spread is 0, and 0 if both are 0.
    """
    infinite = np.copysign(np.where(difference == 0, 0.0, np.inf), difference)
    return np.divide(difference, spread, out=infinite, where=spread > 0)


@dataclass(frozen=True)
class AbstractOfNumbers(AbstractCriterion):
    """Criterion that needs only the product of features with one vector, the labels."""

    def directions(self, state: Float) -> Float:
        return state[:, None]


@dataclass(frozen=True)
class AbstractOfClasses(AbstractCriterion):
    """Criterion that needs only the means and variances of features within classes."""

    def directions(self, state: Classes) -> Float:
        return state.indicators


@dataclass(frozen=True)
class Pearson(AbstractOfNumbers):
    """Pearson's correlation R with the labels (JMLR eq. 21); the score is ``R^2``.

    Labels are numbers, or two classes, which count as -1 and 1. For standardised features and
    labels and linear kernels ``tr K H L H = m^2 sum_j R_j^2`` (eq. 22, 23; the paper omits m^2).

    When to use it: for linear dependence. The ranking is the same as by the p-values of a
    regression on each feature alone.
    """

    name = "pearson"
    labels = UNIT_NUMBERS
    meaning = "squared Pearson correlation with the labels"
    signed = "Pearson correlation with the labels"

    def columns(self, state: Float, features: Features, place: slice) -> Float:
        R = np.clip(ratio(features.along[:, place][:, 0], np.sqrt(features.sizes)), -1.0, 1.0)
        return np.stack([R * R, R])


@dataclass(frozen=True)
class RidgeRegression(AbstractOfNumbers):
    """Fraction of y'y that ridge regression on the feature alone explains (JMLR eq. 29).

    If x and y have mean 0 and ``w = x'y / (x'x + penalty)``, then ``J* = |y - x w|^2 + penalty w^2
    = y'y - (x'y)^2 / (x'x + penalty)``. The score is ``1 - J* / y'y``; the statistic is w. In the
    notation of the paper, where V is the feature, the score is ``tr Kbar L / y'y`` with ``Kbar = V
    (V'V + penalty I)^-1 V'`` and ``L = y y'`` (V' is missing in the paper's w). Labels are numbers,
    or two classes, which count as -1 and 1.

    When to use it: if features have the same unit, and features that hardly vary (rare variants)
    should need a larger effect to rank high. Pass ``standardize=False``. For standardised features
    ``x'x`` is m, so the ranking is the same as by `Pearson`.

    Parameters
    ----------
    penalty : float
        Ridge penalty lambda, at least 0, in units of ``x'x``.
    """

    name = "ridge"
    labels = NUMBERS
    meaning = "fraction of y'y that ridge regression on the feature explains"
    signed = "coefficient of ridge regression on the feature"
    penalty: float = 1.0

    def __post_init__(self) -> None:
        if not (is_number(self.penalty) and self.penalty >= 0):
            raise InputError(
                f"penalty={self.penalty!r}; pass the ridge penalty, a finite number of at "
                "least 0, such as 1.0."
            )

    def columns(self, state: Float, features: Features, place: slice) -> Float:
        inner, size = features.along[:, place][:, 0], features.sizes + self.penalty
        w = np.divide(inner, size, out=np.zeros_like(inner), where=size > 0)
        return np.stack([inner * w / (state @ state), w])


@dataclass(frozen=True, slots=True)
class ClassMoments:
    """Means and variances of c features within n classes."""

    sizes: Float  # (n,), number of samples m_y of each class
    mean: Float  # (n, c)
    variance: Float  # (n, c), sample variances, with divisor m_y - 1; 0 for a single sample

    @property
    def difference(self) -> Float:
        """Difference of the class means, positive minus negative, (c,)."""
        return np.asarray(self.mean[1] - self.mean[0])

    @property
    def pooled(self) -> Float:
        """Pooled variance within classes, with divisor m minus the number of classes, (c,)."""
        degrees = self.sizes - 1
        return np.asarray(degrees @ self.variance / degrees.sum())


def class_means(features: Features, classes: Classes, place: slice) -> Float:
    """Means of c features within n classes, (n, c)."""
    return np.asarray(features.along[:, place].T / classes.sizes[:, None])


def class_moments(features: Features, classes: Classes, place: slice) -> ClassMoments:
    """Means and variances of c features within n classes.

    Variances are computed from sums of squares. If these sums nearly cancel, variances are computed
    from deviations in a second pass over the tile. A variance that is no larger than the rounding
    errors of the mean is set to 0.
    """
    X = features.X
    mean = class_means(features, classes, place)
    squares = features.squares_along[:, place].T
    sums = squares - classes.sizes[:, None] * np.square(mean)
    cancel = np.flatnonzero((sums < CANCELLED * squares).any(axis=0))
    if cancel.size:
        deviations = X[cancel] - mean[:, cancel].T[:, classes.codes]
        deviations *= deviations
        sums[:, cancel] = (deviations @ classes.indicators).T
    variance = sums / np.maximum(classes.sizes - 1, 1)[:, None]
    rounding = X.shape[1] * np.finfo(np.float64).eps * features.largest
    variance[variance <= rounding**2] = 0.0
    return ClassMoments(classes.sizes, mean, variance)


@dataclass(frozen=True)
class Centroid(AbstractOfClasses):
    r"""Weighted difference of class means, ``v = w x+ - (1 - w) x-`` (JMLR 6.2); score ``|v|``.

    It needs two classes. With ``w = 1/2`` it is half the difference of means, and ``4 sum_j v_j^2 =
    tr K H L H = (m - 1)^2 HSIC_0`` with the linear kernel and eq. 17 (the paper's last line omits
    the 4). Another weight scales classes differently. The score then depends on the origin of a
    feature, which is its mean.

    When to use it: if the difference of means matters in units of the features, or of their overall
    standard deviation. It is the cheapest and least variable criterion of this family for classes
    with few samples.

    Parameters
    ----------
    centroid_weight : float
        Weight w, between 0 and 1.
    """

    name = "centroid"
    labels = TWO_CLASSES
    meaning = "magnitude of the weighted difference of class means"
    signed = "weighted difference of class means, the last class minus the first"
    centroid_weight: float = 0.5

    def __post_init__(self) -> None:
        check_part("centroid_weight", self.centroid_weight, "the weight of the positive class")

    def columns(self, state: Classes, features: Features, place: slice) -> Float:
        negative, positive = class_means(features, state, place)
        v = self.centroid_weight * positive - (1 - self.centroid_weight) * negative
        return np.stack([np.abs(v), v])


@dataclass(frozen=True)
class Welch(AbstractOfClasses):
    """Welch's t-statistic, with one variance per class (JMLR eq. 24); the score is ``|t|``.

    ``t = (x+ - x-) / sqrt(s+^2 / m+ + s-^2 / m-)``, with sample variances. It needs two classes of
    at least two samples each.

    When to use it: for a shift between two classes whose variances may differ, with enough samples
    to estimate them (about ten per class). With fewer, use `ModeratedT`.
    """

    name = "t"
    labels = TWO_OF_TWO
    meaning = "magnitude of the t-statistic with separate variances of the classes"
    signed = "t-statistic, the last class minus the first"

    def columns(self, state: Classes, features: Features, place: slice) -> Float:
        moments = class_moments(features, state, place)
        error = np.sqrt((moments.variance / moments.sizes[:, None]).sum(axis=0))
        t = ratio(moments.difference, error)
        return np.stack([np.abs(t), t])


@dataclass(frozen=True)
class SignalToNoise(AbstractOfClasses):
    """Signal to noise, ``(x+ - x-) / (s+ + s-)`` (JMLR 6.2, Golub et al. 1999).

    The score is its absolute value. s are sample standard deviations. It needs two classes of at
    least two samples each.

    When to use it: like `Welch`, if the score should not depend on the sizes of the classes.
    """

    name = "snr"
    labels = TWO_OF_TWO
    meaning = "magnitude of the signal to noise ratio"
    signed = "signal to noise ratio, the last class minus the first"

    def columns(self, state: Classes, features: Features, place: slice) -> Float:
        moments = class_moments(features, state, place)
        r = ratio(moments.difference, np.sqrt(moments.variance).sum(axis=0))
        return np.stack([np.abs(r), r])


@dataclass(frozen=True)
class ShrunkenCentroid(AbstractOfClasses):
    """Squared distances of class centroids from the centroid of all (JMLR eq. 27, 28).

    The score is ``sum_y (x_y - x)^2``, where x_y is the mean within class y and x the mean of all
    samples. It equals ``tr K H L H`` for the linear kernel and ``psi(y) = e_y / m_y``. It needs two
    classes or more. The classifier of Tibshirani et al. (2002) also divides by standard deviations
    within classes and drops small distances; the ranking of JMLR 6.5, implemented here, does not.

    When to use it: for many classes, if means differ in some of them. All classes have the same
    weight, whatever their sizes.
    """

    name = "shrunken-centroid"
    labels = CLASSES
    meaning = "squared distances of class means from the overall mean"

    def columns(self, state: Classes, features: Features, place: slice) -> Float:
        means = class_means(features, state, place)
        return np.asarray(np.square(means).sum(axis=0, keepdims=True))

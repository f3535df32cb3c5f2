"""Count, mean and variance of features within classes, by products with class indicators."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dhsic._typing import Float
from dhsic.relatives.targets import Classes


@dataclass(frozen=True, slots=True)
class Moments:
    """Moments of c features within n classes.

    Attributes
    ----------
    sizes : (n,) float64
        Samples of each class, m_y.
    mean, variance : (n, c) float64
        The variance is that of a sample, divided by ``m_y - 1``; 0 for a single sample.
    """

    sizes: Float
    mean: Float
    variance: Float

    @property
    def difference(self) -> Float:
        """Mean of the positive class less that of the negative one, (c,)."""
        return np.asarray(self.mean[1] - self.mean[0])

    @property
    def pooled(self) -> Float:
        """Variance within classes, divided by m less the number of classes, (c,)."""
        degrees = self.sizes - 1
        return np.asarray(degrees @ self.variance / degrees.sum())


def class_means(X: Float, classes: Classes) -> Float:
    """Means of features (c, m) within n classes, (n, c)."""
    return np.asarray((X @ classes.indicators).T / classes.sizes[:, None])


def class_moments(X: Float, classes: Classes) -> Moments:
    """Moments of features (c, m), the variance in a second pass over the block.

    A block holds its features in full, so deviations are from the means themselves and nothing
    cancels. A spread that rounding of the mean alone would leave is none.
    """
    mean = class_means(X, classes)
    deviations = X - mean.T[:, classes.codes]
    rounding = X.shape[1] * np.finfo(np.float64).eps * np.abs(X).max(axis=1, initial=0.0)
    deviations *= deviations
    sums = (deviations @ classes.indicators).T
    variance = sums / np.maximum(classes.sizes - 1, 1)[:, None]
    variance[variance <= rounding**2] = 0.0
    return Moments(classes.sizes, mean, variance)


def ratio(difference: Float, spread: Float) -> Float:
    """``difference / spread``: infinite where only the spread is 0, and 0 where both are."""
    infinite = np.copysign(np.where(difference == 0, 0.0, np.inf), difference)
    return np.divide(difference, spread, out=infinite, where=spread > 0)

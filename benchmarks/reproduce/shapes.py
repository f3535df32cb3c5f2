"""Data with features that act on the labels in known shapes.

`Shape` is one relevant feature among noise, `Figure` one of the four sets of Passemiers et al.
(Scientific Reports 2024, doi 10.1038/s41598-024-82583-5), whose relevant features come first before
all are shuffled.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

#: Points by which mean and deviation of an effect are found, quantiles of the normal law.
N_QUANTILES = 100_001


@dataclass(frozen=True)
class Drawn:
    """Features X (m, d), labels y (m,), and positions of the relevant features."""

    X: np.ndarray
    y: np.ndarray
    relevant: np.ndarray


@dataclass(frozen=True)
class Shape:
    """Effect of one standard normal feature on the labels.

    Attributes
    ----------
    effect : callable
        Values of the feature to the mean of the label; of a `spread`, to its deviation.
    spread : bool
        Whether the deviation depends on the feature instead of the mean.
    """

    effect: Callable
    spread: bool = False

    def scaled(self, x):
        """Effect of mean 0 and deviation 1 over the law of the feature."""
        from scipy.special import ndtri

        of_law = self.effect(ndtri((np.arange(N_QUANTILES) + 0.5) / N_QUANTILES))
        return (self.effect(x) - of_law.mean()) / of_law.std()

    def labels(self, rng, x, r2):
        """Real labels, of whose variance the effect explains `r2`; a spread has no `r2`."""
        noise = rng.standard_normal(x.shape)
        if self.spread:
            return self.effect(x) * noise
        return np.sqrt(r2) * self.scaled(x) + np.sqrt(1 - r2) * noise

    def draw(self, rng, m, d, r2, n_classes=0):
        """One relevant feature of d; two classes are labels above the median, or not."""
        X = rng.standard_normal((m, d))
        j = int(rng.integers(d))
        y = self.labels(rng, X[:, j], r2)
        y = (y > np.median(y)).astype(np.int64) if n_classes else y
        return Drawn(X, y, np.array([j]))


SHAPES = {
    "linear": Shape(lambda x: x),
    "parabola": Shape(np.square),
    "absolute value": Shape(np.abs),
    "sin 2x": Shape(lambda x: np.sin(2 * x)),
    "sin 4x": Shape(lambda x: np.sin(4 * x)),
    "bump, exp(-8 x^2)": Shape(lambda x: np.exp(-8 * x**2)),
    "cos 6x": Shape(lambda x: np.cos(6 * x)),
    "two-sided step, |x| > 1.2": Shape(lambda x: (np.abs(x) > 1.2).astype(float)),
    "step, x > 1": Shape(lambda x: (x > 1).astype(float)),
    "spread, exp(.8 x) times noise": Shape(lambda x: np.exp(0.8 * x), spread=True),
}


@dataclass(frozen=True)
class Figure:
    """A set of Passemiers et al.: two classes by a rule on the first uniform features.

    Attributes
    ----------
    n_relevant : int
        Features that the rule sees.
    rule : callable
        (X, rng) to classes, (m,) bool.
    """

    n_relevant: int
    rule: Callable

    def draw(self, rng, m, d):
        X = rng.random((m, d))
        y = self.rule(X, rng).astype(np.int64)
        order = rng.permutation(d)
        relevant = np.flatnonzero(order < self.n_relevant)
        return Drawn(X[:, order], y, relevant)


def ring(X, half_width):
    """Points near the circle of radius .35 about the middle of the first two features."""
    distance = np.hypot(X[:, 0] - 0.5, X[:, 1] - 0.5)
    return np.abs(distance - 0.35) <= half_width


def product_of(X, i, j):
    return (X[:, i] - 0.5) * (0.5 - X[:, j])


def _sum_of_two(X, rng):
    return X[:, 4] + X[:, 5] + 0.2 * rng.standard_normal(len(X)) >= 1.4074


FIGURES = {
    "RING": Figure(2, lambda X, _: ring(X, 0.1151)),
    "XOR": Figure(2, lambda X, _: product_of(X, 0, 1) >= 0),
    "RING+XOR": Figure(4, lambda X, _: ring(X, 0.0704) | (product_of(X, 2, 3) >= 0.0337)),
    "RING+XOR+SUM": Figure(
        6,
        lambda X, rng: ring(X, 0.0479) | (product_of(X, 2, 3) >= 0.0598) | _sum_of_two(X, rng),
    ),
}


def share_found(order, relevant):
    """Share of the k relevant features among the first k of an order."""
    k = len(relevant)
    return float(np.isin(order[:k], relevant).sum() / k)


def best_rank(order, relevant):
    """Rank of the first relevant feature in an order; one more than its length if absent."""
    hits = np.flatnonzero(np.isin(order, relevant))
    return int(hits[0]) + 1 if hits.size else len(order) + 1

"""Policies for the kernel width: line 3 of Algorithms 1 and 2, ``sigma <- Xi`` (JMLR 4.1).

A policy is an immutable object. It is called with the statistics of a round, and returns sigma.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dhsic._typing import Float
from dhsic.errors import InputError
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.gaussian import squared_distances
from dhsic.kernels.ridge import AbstractMatrixFunction
from dhsic.kernels.statistic import InnerProducts, Statistic

#: Maximum number of samples for the median; with more, equally spaced samples are used.
MEDIAN_SAMPLES = 4096
#: Squared distances below this fraction of the largest squared norm count as 0.
EQUAL = 1e-10
#: Share of all weights by which a sum of weights may differ from one half by rounding.
TIE = 1e-12


class BandwidthStats(Protocol):
    """Statistics of the surviving (not yet eliminated) features for bandwidth policies."""

    def pair_distances(self) -> Float:
        """Squared distances of pairs of different samples, (n,).

        They are for all pairs or for some of them.
        """

    def values(self, sigmas: Sequence[float]) -> list[float]:
        """HSIC of the surviving features S and the labels, for every sigma."""


@dataclass(frozen=True)
class DistanceStats:
    """Distances and HSIC for bandwidth policies, from the statistic G of all pairs of samples.

    The weights W may be None if only distances are needed. For kernels that do not sum inner
    products, the statistic contains distances that are not squared, and sigma is their coefficient.
    """

    kernel: AbstractKernel
    W: Float | None
    statistic: Statistic

    def pair_distances(self) -> Float:
        """Squared distances of pairs i < j of at most `MEDIAN_SAMPLES` equally spaced samples."""
        G = self.statistic.to_dense()
        stride = -(-len(G) // MEDIAN_SAMPLES)
        D = np.ascontiguousarray(G[::stride, ::stride])
        pairs = np.triu_indices_from(D, k=1)
        if isinstance(self.kernel.sums, InnerProducts):
            norms = np.diagonal(D)
            largest, D = norms.max(), squared_distances(D, norms, norms)
        else:
            largest = D.max()
        D[EQUAL * largest >= D] = 0.0  # rounding errors of G, or of removed features
        return D[pairs]

    def values(self, sigmas: Sequence[float]) -> list[float]:
        W = self.W
        assert W is not None, "policies that compare HSIC need label weights"
        return [hsic_value(self.kernel, sigma, W, self.statistic) for sigma in sigmas]


class AbstractBandwidth(ABC):
    """Policy that chooses sigma for the surviving features."""

    @abstractmethod
    def __call__(self, known: BandwidthStats, n_features: float) -> float:
        """Return sigma for ``|S| = n_features`` surviving features, from the statistics `known`."""


@dataclass(frozen=True)
class Fixed(AbstractBandwidth):
    """Policy 1: the same sigma in all rounds."""

    sigma: float

    def __call__(self, known: BandwidthStats, n_features: float) -> float:
        return self.sigma


@dataclass(frozen=True)
class Dimension(AbstractBandwidth):
    """Policy 3: sigma is ``1 / (2 |S|)``, the inverse of the mean squared distance.

    Two samples of standardised data have a squared distance of ``2 |S|`` on average.
    """

    def __call__(self, known: BandwidthStats, n_features: float) -> float:
        return 1.0 / (2.0 * n_features)


@dataclass(frozen=True)
class Median(AbstractBandwidth):
    """Sigma is ``1 / (2 median D_ij)``, so the width of the kernel is the median distance.

    The median is over pairs i < j of samples. If most distances are 0, it is over the positive
    distances only.
    """

    def __call__(self, known: BandwidthStats, n_features: float) -> float:
        return sigma_of_median(known.pair_distances())


@dataclass(frozen=True)
class Grid(AbstractBandwidth):
    """Policy 2: the sigma in a grid with the largest HSIC.

    If several have the same HSIC, the smallest sigma is chosen.
    """

    sigmas: tuple[float, ...]

    def __call__(self, known: BandwidthStats, n_features: float) -> float:
        return self.sigmas[int(np.argmax(known.values(self.sigmas)))]


def hsic_value(kernel: AbstractKernel, sigma: float, W: Float, statistic: Statistic) -> float:
    """HSIC, ``<W, K>``, with label weights W (m, m) and the kernel matrix K of `statistic`."""
    if kernel.scored_by == "matrix":
        resolvent = AbstractMatrixFunction.of(kernel).resolvent(statistic.to_dense(), sigma)
        return float(np.vdot(W, resolvent.smoother))
    norms = statistic.diagonal
    total = 0.0
    for rows, columns, inner in statistic.tiles():
        K = kernel.gram(inner, norms[rows], norms[columns], sigma)
        total += (1 if rows == columns else 2) * float(np.vdot(W[rows, columns], K))
    return total


def few_samples(X: Float) -> Float:
    """At most `MEDIAN_SAMPLES` equally spaced samples of X (m, d), for the median distance."""
    return X[:: -(-len(X) // MEDIAN_SAMPLES)]


def sigma_of_median(distances: Float, weights: Float | None = None) -> float:
    """Sigma ``1 / (2 median)`` from squared distances, (n,).

    If most distances are 0, the median is over the positive ones only. With `weights` (n,), it is
    the weighted median.
    """
    middle = _median(distances, weights)
    if middle <= 0:
        is_positive = distances > 0
        if not is_positive.any():
            return 0.5
        middle = _median(distances[is_positive], None if weights is None else weights[is_positive])
    return 1.0 / (2.0 * middle)


def _median(values: Float, weights: Float | None) -> float:
    """Median of values (n,); weighted if there are weights.

    In a tie it is the mean of the two middle values.
    """
    if weights is None:
        return float(np.median(values))
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weights[order])
    middle = below[-1] * np.array([0.5 - TIE, 0.5 + TIE])
    return float(values[order[np.searchsorted(below, middle)]].mean())


def resolve_bandwidth(bandwidth: object) -> AbstractBandwidth:
    """Convert user input to a policy: a name, a positive number, or a grid of numbers."""
    if isinstance(bandwidth, AbstractBandwidth):
        return bandwidth
    if isinstance(bandwidth, str):
        by_name = {"dimension": Dimension(), "median": Median()}
        if bandwidth not in by_name:
            raise InputError(
                f"bandwidth={bandwidth!r} is unknown; pass 'dimension', 'median', a positive "
                "number (sigma) or a list of positive numbers to choose from."
            )
        return by_name[bandwidth]
    if isinstance(bandwidth, (Sequence, np.ndarray)):
        grid = tuple(sorted({_positive(sigma) for sigma in bandwidth}))
        if not grid:
            raise InputError("bandwidth is an empty grid; pass at least one positive sigma.")
        return Grid(grid)
    return Fixed(_positive(bandwidth))


def _positive(sigma: object) -> float:
    try:
        value = float(sigma)  # type: ignore[arg-type]  # other types raise the error below
    except (TypeError, ValueError):
        value = float("nan")
    if isinstance(sigma, (bool, str)) or not (np.isfinite(value) and value > 0):
        raise InputError(
            f"bandwidth contains {sigma!r}, but sigma in exp(-sigma d^2) must be a positive, "
            "finite number."
        )
    return value

"""Policies for the kernel width: line 3 of Algorithms 1 and 2, ``sigma <- Xi`` (JMLR 4.1).

A policy is a value; called with what a round knows, it answers sigma.
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

#: Above this many samples the median is taken over every so-many-th sample.
MEDIAN_SAMPLES = 4096
#: Squared distances below this part of the largest squared norm are none: samples are equal.
EQUAL = 1e-10


class BandwidthStats(Protocol):
    """What a policy may ask about the surviving features."""

    def pair_distances(self) -> Float:
        """Squared distances of pairs of different samples, (n,): all pairs, or a fair part."""

    def values(self, sigmas: Sequence[float]) -> list[float]:
        """HSIC(sigma, S) for every sigma."""


@dataclass(frozen=True)
class DistanceStats:
    """Distances by the statistic of all samples; W may be None where no more is asked.

    Of kernels that sum no inner products the statistic are distances, not squared, and sigma is
    their coefficient.
    """

    kernel: AbstractKernel
    W: Float | None
    statistic: Statistic

    def pair_distances(self) -> Float:
        """Pairs i < j of at most `MEDIAN_SAMPLES` samples, every so-many-th."""
        G = self.statistic.whole()
        stride = -(-len(G) // MEDIAN_SAMPLES)
        D = np.ascontiguousarray(G[::stride, ::stride])
        pairs = np.triu_indices_from(D, k=1)
        if isinstance(self.kernel.sums, InnerProducts):
            norms = np.diagonal(D)
            largest, D = norms.max(), squared_distances(D, norms, norms)
        else:
            largest = D.max()
        D[EQUAL * largest >= D] = 0.0  # rounding of G, or what features that left leave behind
        return D[pairs]

    def values(self, sigmas: Sequence[float]) -> list[float]:
        W = self.W
        assert W is not None, "policies that compare HSIC come with weights"
        return [hsic_value(self.kernel, sigma, W, self.statistic) for sigma in sigmas]


class AbstractBandwidth(ABC):
    """Chooses sigma for the surviving features."""

    @abstractmethod
    def __call__(self, known: BandwidthStats, n_features: float) -> float:
        """Sigma for ``|S| = n_features``."""


@dataclass(frozen=True)
class Fixed(AbstractBandwidth):
    """Policy 1: one sigma throughout."""

    sigma: float

    def __call__(self, known: BandwidthStats, n_features: float) -> float:
        return self.sigma


@dataclass(frozen=True)
class Dimension(AbstractBandwidth):
    """Policy 3: ``1 / (2 |S|)``, the expected squared distance of standardised data being 2d."""

    def __call__(self, known: BandwidthStats, n_features: float) -> float:
        return 1.0 / (2.0 * n_features)


@dataclass(frozen=True)
class Median(AbstractBandwidth):
    """``1 / (2 median D_ij)`` over pairs i < j: the width is the median distance.

    Pairs at distance 0 count only if they are not the majority.
    """

    def __call__(self, known: BandwidthStats, n_features: float) -> float:
        return sigma_of_median(known.pair_distances())


@dataclass(frozen=True)
class Grid(AbstractBandwidth):
    """Policy 2: ``argmax_sigma HSIC(sigma, S)`` over given values; the smallest of equals."""

    sigmas: tuple[float, ...]

    def __call__(self, known: BandwidthStats, n_features: float) -> float:
        return self.sigmas[int(np.argmax(known.values(self.sigmas)))]


def hsic_value(kernel: AbstractKernel, sigma: float, W: Float, statistic: Statistic) -> float:
    """``<W, K>``."""
    if kernel.scored_by == "matrix":
        resolvent = AbstractMatrixFunction.of(kernel).resolvent(statistic.whole(), sigma)
        return float(np.vdot(W, resolvent.smoother))
    norms = statistic.diagonal
    total = 0.0
    for rows, columns, inner in statistic.tiles():
        K = kernel.gram(inner, norms[rows], norms[columns], sigma)
        total += (1 if rows == columns else 2) * float(np.vdot(W[rows, columns], K))
    return total


def few_samples(X: Float) -> Float:
    """The samples of X (m, d) that a median distance takes: every so-many-th."""
    return X[:: -(-len(X) // MEDIAN_SAMPLES)]


def sigma_of_median(distances: Float) -> float:
    """``1 / (2 median)`` of squared distances, (n,); of the positive ones where most are 0."""
    middle = float(np.median(distances))
    if middle <= 0:
        positive = distances[distances > 0]
        middle = float(np.median(positive)) if positive.size else 1.0
    return 1.0 / (2.0 * middle)


def resolve_bandwidth(bandwidth: object) -> AbstractBandwidth:
    """Translate what users write: a name, a positive number or a grid of such numbers."""
    if isinstance(bandwidth, AbstractBandwidth):
        return bandwidth
    if isinstance(bandwidth, str):
        named = {"dimension": Dimension(), "median": Median()}
        if bandwidth not in named:
            raise InputError(
                f"bandwidth={bandwidth!r} is unknown; pass 'dimension', 'median', a positive "
                "number (sigma) or a list of positive numbers to choose from."
            )
        return named[bandwidth]
    if isinstance(bandwidth, (Sequence, np.ndarray)):
        grid = tuple(sorted({_positive(sigma) for sigma in bandwidth}))
        if not grid:
            raise InputError("bandwidth is an empty grid; pass at least one positive sigma.")
        return Grid(grid)
    return Fixed(_positive(bandwidth))


def _positive(sigma: object) -> float:
    try:
        value = float(sigma)  # type: ignore[arg-type]  # whatever has no float is refused below
    except (TypeError, ValueError):
        value = float("nan")
    if isinstance(sigma, (bool, str)) or not (np.isfinite(value) and value > 0):
        raise InputError(
            f"bandwidth holds {sigma!r}, which is no width; sigma in exp(-sigma d^2) must be a "
            "positive, finite number."
        )
    return value

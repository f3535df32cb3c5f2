"""What width policies may ask, for kernels that `KnownStatistic` does not know."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dhsic._typing import Float
from dhsic.kernels.bandwidth import (
    EQUAL,
    Known,
    KnownStatistic,
    every_so_many,
    hsic_value,
    pairs_of,
)
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.ridge import AbstractWhole
from dhsic.kernels.statistic import InnerProducts, Statistic
from dhsic.kernels.table import sums_of


@dataclass(frozen=True)
class KnownDistances:
    """`Known` where the statistic are distances, not squared, and sigma is their coefficient."""

    kernel: AbstractKernel
    W: Float | None
    statistic: Statistic

    def pair_distances(self) -> Float:
        """Pairs i < j of at most `MEDIAN_SAMPLES` samples; those of equal samples are 0."""
        some = every_so_many(self.statistic.whole())
        some[EQUAL * some.max() >= some] = 0.0  # what features that left leave behind
        return pairs_of(some)

    def hsic(self, sigma: float) -> float:
        """``<W, K>``."""
        assert self.W is not None, "policies that compare HSIC come with weights"
        return hsic_value(self.kernel, sigma, self.W, self.statistic)


@dataclass(frozen=True)
class KnownWhole:
    """`Known` of a kernel of the whole matrix."""

    kernel: AbstractWhole
    W: Float | None
    statistic: Statistic

    def pair_distances(self) -> Float:
        """Of the kernel inside."""
        return KnownStatistic(self.kernel.inside, self.W, self.statistic).pair_distances()

    def hsic(self, sigma: float) -> float:
        """``<W, Kbar>``."""
        assert self.W is not None, "policies that compare HSIC come with weights"
        resolvent = self.kernel.resolvent(self.statistic.whole(), sigma)
        return float(np.vdot(self.W, resolvent.smoother))


def known_of(kernel: AbstractKernel, W: Float | None, statistic: Statistic) -> Known:
    """What a policy may ask about these features."""
    if isinstance(kernel, AbstractWhole):
        return KnownWhole(kernel, W, statistic)
    if isinstance(sums_of(kernel), InnerProducts):
        return KnownStatistic(kernel, W, statistic)
    return KnownDistances(kernel, W, statistic)

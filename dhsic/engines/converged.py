"""The dense expansion in float64, taken as far as each feature needs: the last word on order.

Per feature the cheapest of three that is right to `TOLERANCE`: the series to a sufficient
order, the exact expansion over its levels, or the definition.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dhsic._typing import Array, Float, Mask
from dhsic.engines.base import AbstractEngine, Facts, Question
from dhsic.engines.dense import Dense, DenseState
from dhsic.engines.direct import Direct, DirectState
from dhsic.engines.levels import level_gains
from dhsic.kernels.base import AbstractKernel
from dhsic.namespace import taken

#: Neglected part of a gain over its size by chance: ``sigma ||A||_F``, for small features less.
TOLERANCE = 1e-12
#: Longest series: beyond it the definition is cheaper, and powers lose digits.
LONGEST = 32
#: Largest ``4 sigma peak^2``: its exponential multiplies rounding.
STEEPEST = 8.0
#: The same over levels: there it only has to stay a number, times a K that may be none.
STEEPEST_LEVELS = 600.0


@dataclass(frozen=True, slots=True)
class ConvergedState:
    """``W o base`` in float64 and, where a feature needs it, what the definition needs."""

    dense: DenseState
    direct: DirectState | None

    def on(self, xp: Any, device: Any = None) -> ConvergedState:
        """The same state in another namespace, on one of its devices."""
        direct = None if self.direct is None else self.direct.on(xp, device)
        return ConvergedState(self.dense.on(xp, device), direct)


@dataclass(frozen=True)
class Converged(AbstractEngine):
    """Gains to about 1e-12 of their size by chance, in float64.

    Parameters
    ----------
    with_direct : bool
        Prepare for features that only the definition can score.
    """

    with_direct: bool = True

    @staticmethod
    def for_features(question: Question, facts: Facts) -> Converged:
        """Engine for these features, prepared for the definition only if one needs it."""
        ways = _ways(question.kernel, question.sigma, facts, question.n_samples)
        return Converged(with_direct=any(way == "direct" for way, _ in ways))

    def prepare(self, question: Question) -> ConvergedState:
        """Float64 states of the dense and of the direct engine."""
        dense = Dense(question.kernel.exact_order or 1, np.float64).prepare(question)
        return ConvergedState(dense, Direct().prepare(question) if self.with_direct else None)

    def score(self, state: ConvergedState, X: Array, facts: Facts) -> Float:
        """Score each group of features in its own way."""
        gains = np.empty(X.shape[0])
        dense = state.dense
        for way, which in _ways(dense.kernel, dense.sigma, facts, X.shape[1]):
            part, about = taken(X, which), facts.take(which)
            if way == "levels":
                gains[which] = _by_levels(dense, part, about)
            elif way == "direct":
                assert state.direct is not None, "prepared for_features that include these"
                gains[which] = Direct().score(state.direct, part, about)
            else:
                series = replace(dense, order=int(way))
                gains[which] = Dense(int(way), np.float64).score(series, part, about)
        return gains

    def products(self, question: Question, facts: Facts) -> int:
        """Columns of products over the ways chosen."""
        total = 0
        for way, which in _ways(question.kernel, question.sigma, facts, question.n_samples):
            if way == "levels":
                total += int((facts.n_levels[which].astype(np.int64) - 1).sum())
            elif way != "direct":
                total += int(way) * int(which.sum())
        return total


def _by_levels(dense: DenseState, X: Array, facts: Facts) -> Float:
    A, row_sums = dense.A[0], dense.row_sums[0]
    gains = level_gains(X, facts.n_levels, A, row_sums, dense.kernel, dense.sigma)
    return dense.scale * gains


def _ways(
    kernel: AbstractKernel, sigma: float, facts: Facts, m: int
) -> Iterator[tuple[int | str, Mask]]:
    """Split the features by how they are scored: an order, "levels" or "direct"."""
    if kernel.exact_order is not None:
        yield kernel.exact_order, np.ones(len(facts.peak), dtype=bool)
        return
    orders = _sufficient_orders(kernel, sigma, facts, m)
    few = (facts.n_levels > 0) & (facts.n_levels - 1.0 <= np.minimum(orders, LONGEST))
    few &= 4 * sigma * facts.peak**2 <= STEEPEST_LEVELS
    if few.any():
        yield "levels", few
    steep = ~few & (orders > LONGEST)
    if steep.any():
        yield "direct", steep
    rest = ~few & ~steep
    for order in np.unique(orders[rest]):
        yield int(order), rest & (orders == order)


def _sufficient_orders(kernel: AbstractKernel, sigma: float, facts: Facts, m: int) -> Float:
    """Least order whose remainder is within the tolerance, (c,); above `LONGEST` none is."""
    orders = np.full(len(facts.peak), LONGEST + 1.0)
    tolerance = TOLERANCE * sigma * np.minimum(1.0, np.sqrt(facts.fourth))
    open_ = np.flatnonzero(4 * sigma * facts.peak**2 <= STEEPEST)
    for order in range(1, LONGEST + 1):
        if not open_.size:
            break
        remainder = kernel.expansion(order, sigma).remainder
        assert remainder is not None, "a kernel without exact order bounds its remainder"
        good = m * remainder(facts.peak[open_], facts.fourth[open_]) <= tolerance[open_]
        orders[open_[good]] = order
        open_ = open_[~good]
    return orders

r"""The last word on a gain, kernel by kernel: the engine that converges, and the definition.

The dense expansion in float64, taken as far as each feature needs: the last word on order.

Per feature the cheapest of three that is right to `TOLERANCE`: the series to a sufficient
order, the exact expansion over its levels, or the definition.

Radial kernels: the series in float64 where it is right to the last places, else the definition.

It is right for features that are small beside the distances of all samples (`Remainder` says for
which), that is for nearly all of them as long as many features are left. With few features left,
or with samples that are nearly equal, the definition takes over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dhsic._typing import Array, Float, Mask
from dhsic.engines.base import AbstractEngine, FeatureStats, Question
from dhsic.engines.dense import Dense, DenseState, rounding_of
from dhsic.engines.direct import Direct, DirectState, RadialDirect, RadialState
from dhsic.engines.levels import Levelled, level_gains
from dhsic.engines.remainder import Remainder
from dhsic.engines.ridge import Inverse, Solved
from dhsic.kernels.base import AbstractKernel, Expansion
from dhsic.kernels.ridge import AbstractMatrixFunction
from dhsic.namespace import taken

#: Neglected part of a gain over its size by chance: ``sigma ||A||_F``, for small features less.
TOLERANCE = 1e-12
#: Longest series: beyond it the definition is cheaper, and powers lose digits.
LONGEST_CONVERGED = 32
#: Largest ``4 sigma max_abs^2``: its exponential multiplies rounding.
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
    def for_features(question: Question, facts: FeatureStats) -> Converged:
        """Engine for these features, prepared for the definition only if one needs it."""
        ways = _ways(question.kernel, question.sigma, facts, question.n_samples)
        return Converged(with_direct=any(way == "direct" for way, _ in ways))

    def prepare(self, question: Question) -> ConvergedState:
        """Float64 states of the dense and of the direct engine."""
        dense = Dense(question.kernel.exact_order or 1, np.float64).prepare(question)
        return ConvergedState(dense, Direct().prepare(question) if self.with_direct else None)

    def score(self, state: ConvergedState, X: Array, facts: FeatureStats) -> Float:
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

    def products(self, question: Question, facts: FeatureStats) -> int:
        """Columns of products over the ways chosen."""
        total = 0
        for way, which in _ways(question.kernel, question.sigma, facts, question.n_samples):
            if way == "levels":
                total += int((facts.n_levels[which].astype(np.int64) - 1).sum())
            elif way != "direct":
                total += int(way) * int(which.sum())
        return total


def _by_levels(dense: DenseState, X: Array, facts: FeatureStats) -> Float:
    A, row_sums = dense.A[0], dense.row_sums[0]
    gains = level_gains(X, facts.n_levels, A, row_sums, dense.kernel, dense.sigma)
    return dense.scale * gains


def _ways(
    kernel: AbstractKernel, sigma: float, facts: FeatureStats, m: int
) -> Iterator[tuple[int | str, Mask]]:
    """Split the features by how they are scored: an order, "levels" or "direct"."""
    if kernel.exact_order is not None:
        yield kernel.exact_order, np.ones(len(facts.max_abs), dtype=bool)
        return
    orders = _sufficient_orders(kernel, sigma, facts, m)
    few = (facts.n_levels > 0) & (facts.n_levels - 1.0 <= np.minimum(orders, LONGEST_CONVERGED))
    few &= 4 * sigma * facts.max_abs**2 <= STEEPEST_LEVELS
    if few.any():
        yield "levels", few
    steep = ~few & (orders > LONGEST_CONVERGED)
    if steep.any():
        yield "direct", steep
    rest = ~few & ~steep
    for order in np.unique(orders[rest]):
        yield int(order), rest & (orders == order)


def _sufficient_orders(kernel: AbstractKernel, sigma: float, facts: FeatureStats, m: int) -> Float:
    """Least order whose remainder is within the tolerance, (c,); above `LONGEST` none is."""
    orders = np.full(len(facts.max_abs), LONGEST_CONVERGED + 1.0)
    tolerance = TOLERANCE * sigma * np.minimum(1.0, np.sqrt(facts.fourth_moment))
    open_ = np.flatnonzero(4 * sigma * facts.max_abs**2 <= STEEPEST)
    for order in range(1, LONGEST_CONVERGED + 1):
        if not open_.size:
            break
        remainder = kernel.expansion(order, sigma).remainder
        assert remainder is not None, "a kernel without exact order bounds its remainder"
        good = m * remainder(facts.max_abs[open_], facts.fourth_moment[open_]) <= tolerance[open_]
        orders[open_[good]] = order
        open_ = open_[~good]
    return orders


#: Error of the series over the size of gains by chance.
TOLERANCE = 1e-12
#: Longest series: order p takes 2p - 1 forms and a base matrix.
LONGEST_SETTLED = 4
#: With this few features the definition is done before the bases are.
FEW_FEATURES = 64
#: Time of the definition of a feature, in quadratic forms in float32.
DIRECT_COST = 200.0


@dataclass(frozen=True, slots=True)
class SettledState:
    """States of both ways, and what says which one a feature goes.

    Attributes
    ----------
    spread : Remainder
        Of the samples.
    norms : dict of float
        Of the base matrices.
    dense : DenseState or None
        Of the series in float64, if there is one.
    direct : RadialState or None
        Of the definition, if a feature needs it.
    """

    remainder: Remainder
    norms: dict[int, float]
    dense: DenseState | None
    direct: RadialState | None

    def on(self, xp: Any, device: Any = None) -> SettledState:
        """The same state in another namespace, on one of its devices."""
        return SettledState(
            self.remainder,
            self.norms,
            None if self.dense is None else self.dense.on(xp, device),
            None if self.direct is None else self.direct.on(xp, device),
        )


@dataclass(frozen=True)
class Settled(AbstractEngine):
    """Gains of a radial kernel to about 1e-12 of their size by chance.

    Parameters
    ----------
    order : int
        Of the series; 0 for the definition alone.
    with_direct : bool
        Prepare for features that only the definition can score.
    """

    order: int = 0
    with_direct: bool = True

    @staticmethod
    def for_features(question: Question, facts: FeatureStats) -> Settled:
        """Engine for these features, with the shortest series that does for nine in ten."""
        if len(facts.max_abs) <= FEW_FEATURES:
            return Settled()
        for order in range(1, LONGEST_SETTLED + 1):
            good = _good(
                _expansion(question, order), question.remainder, _norms(question, order), facts
            )
            if good.mean() >= 0.9 or (order == LONGEST_SETTLED and good.any()):
                return Settled(order, with_direct=not good.all())
        return Settled()

    def prepare(self, question: Question) -> SettledState:
        """Float64 states of the two ways."""
        dense = Dense(self.order, np.float64).prepare(question) if self.order else None
        direct = RadialDirect().prepare(question) if self.with_direct else None
        return SettledState(question.remainder, _norms(question, self.order), dense, direct)

    def score(self, state: SettledState, X: Array, facts: FeatureStats) -> Float:
        """Score each group of features in its own way."""
        gains = np.empty(X.shape[0])
        good = np.zeros(X.shape[0], dtype=bool)
        if state.dense is not None:
            expansion = state.dense.kernel.expansion(self.order, state.dense.sigma)
            good = _good(expansion, state.remainder, state.norms, facts)
            series = Dense(self.order, np.float64)
            gains[good] = series.score(state.dense, taken(X, good), facts.take(good))
        if not good.all():
            assert state.direct is not None, "prepared for_features that include these"
            gains[~good] = RadialDirect().score(state.direct, taken(X, ~good), facts.take(~good))
        return gains

    def products(self, question: Question, facts: FeatureStats) -> int:
        """Quadratic forms of the series."""
        if not self.order:
            return 0
        return _expansion(question, self.order).n_forms * int(
            self._by_series(question, facts).sum()
        )

    def definitions(self, question: Question, facts: FeatureStats) -> int:
        """Features that are scored by the definition."""
        return int((~self._by_series(question, facts)).sum())

    def _by_series(self, question: Question, facts: FeatureStats) -> Mask:
        if not self.order:
            return np.zeros(len(facts.max_abs), dtype=bool)
        norms = _norms(question, self.order)
        return _good(_expansion(question, self.order), question.remainder, norms, facts)


def _expansion(question: Question, order: int) -> Expansion:
    return question.kernel.expansion(order, question.sigma)


def _norms(question: Question, order: int) -> dict[int, float]:
    return {p: question.norm(p) for p in range(1, order + 1)}


def _good(
    expansion: Expansion, remainder: Remainder, norms: Mapping[int, float], facts: FeatureStats
) -> Mask:
    """Features for which the series is right, (c,)."""
    order = max(norms)
    with np.errstate(all="ignore"):
        error = remainder.neglected(order, facts.max_abs, facts.fourth_moment)
        error += rounding_of(expansion, norms, remainder.n_samples, np.float64, facts)
        size = remainder.sigma * norms[1] * np.sqrt(facts.fourth_moment)
    return np.asarray(error <= TOLERANCE * size)


#: Engines that have the last word on a gain.
FINAL = (Converged, Direct, Settled, Levelled, Inverse, Solved)
#: Time of a quadratic form in float64 over one in float32.
DOUBLE_COST = 2.0


def last_engine(question: Question, facts: FeatureStats) -> AbstractEngine:
    """Engine that settles these features for good, in the cheapest way there is."""
    kernel = question.kernel
    if kernel.scored_by == "taylor":
        return Settled.for_features(question, facts)
    if kernel.scored_by == "levels":
        return Levelled.for_features(question, facts)
    if kernel.scored_by == "matrix":
        return Inverse() if AbstractMatrixFunction.of(kernel).updates else Solved()
    if kernel.scored_by == "definition":
        return Direct()
    return Converged.for_features(question, facts)


def definition_of(kernel: AbstractKernel) -> AbstractEngine:
    """Engine of the definition."""
    return Solved() if kernel.scored_by == "matrix" else Direct()


def has_series(kernel: AbstractKernel) -> bool:
    """Whether a cheaper engine may go before the last one."""
    return kernel.scored_by in ("series", "taylor")


def cost_of(engine: AbstractEngine, question: Question, facts: FeatureStats) -> float:
    """Time that the last engine takes for these features, in quadratic forms in float32."""
    cost = DOUBLE_COST * engine.products(question, facts)
    if isinstance(engine, Settled):
        cost += DIRECT_COST * engine.definitions(question, facts)
    return cost

r"""Radial kernels: the series in float64 where it is right to the last places, else the definition.

It is right for features that are small beside the distances of all samples (`Spread` says for
which), that is for nearly all of them as long as many features are left. With few features left,
or with samples that are nearly equal, the definition takes over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dhsic._typing import Array, Float, Mask
from dhsic.engines.base import AbstractEngine, Facts, Question
from dhsic.engines.dense import Dense, DenseState, rounding_of
from dhsic.engines.falls import Falls, FallsState
from dhsic.engines.spread import Spread
from dhsic.kernels.base import Expansion
from dhsic.namespace import taken

#: Error of the series over the size of gains by chance.
TOLERANCE = 1e-12
#: Longest series: order p takes 2p - 1 forms and a base matrix.
LONGEST = 4
#: With this few features the definition is done before the bases are.
FEW_FEATURES = 64
#: Time of the definition of a feature, in quadratic forms in float32.
DIRECT_COST = 200.0


@dataclass(frozen=True, slots=True)
class SettledState:
    """States of both ways, and what says which one a feature goes.

    Attributes
    ----------
    spread : Spread
        Of the samples.
    norms : dict of float
        Of the base matrices.
    dense : DenseState or None
        Of the series in float64, if there is one.
    direct : FallsState or None
        Of the definition, if a feature needs it.
    """

    spread: Spread
    norms: dict[int, float]
    dense: DenseState | None
    direct: FallsState | None

    def on(self, xp: Any, device: Any = None) -> SettledState:
        """The same state in another namespace, on one of its devices."""
        return SettledState(
            self.spread,
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
    def for_features(question: Question, facts: Facts) -> Settled:
        """Engine for these features, with the shortest series that does for nine in ten."""
        if len(facts.peak) <= FEW_FEATURES:
            return Settled()
        for order in range(1, LONGEST + 1):
            good = _good(
                _expansion(question, order), question.spread, _norms(question, order), facts
            )
            if good.mean() >= 0.9 or (order == LONGEST and good.any()):
                return Settled(order, with_direct=not good.all())
        return Settled()

    def prepare(self, question: Question) -> SettledState:
        """Float64 states of the two ways."""
        dense = Dense(self.order, np.float64).prepare(question) if self.order else None
        direct = Falls().prepare(question) if self.with_direct else None
        return SettledState(question.spread, _norms(question, self.order), dense, direct)

    def score(self, state: SettledState, X: Array, facts: Facts) -> Float:
        """Score each group of features in its own way."""
        gains = np.empty(X.shape[0])
        good = np.zeros(X.shape[0], dtype=bool)
        if state.dense is not None:
            expansion = state.dense.kernel.expansion(self.order, state.dense.sigma)
            good = _good(expansion, state.spread, state.norms, facts)
            series = Dense(self.order, np.float64)
            gains[good] = series.score(state.dense, taken(X, good), facts.take(good))
        if not good.all():
            assert state.direct is not None, "prepared for_features that include these"
            gains[~good] = Falls().score(state.direct, taken(X, ~good), facts.take(~good))
        return gains

    def products(self, question: Question, facts: Facts) -> int:
        """Quadratic forms of the series."""
        if not self.order:
            return 0
        return _expansion(question, self.order).n_forms * int(
            self._by_series(question, facts).sum()
        )

    def definitions(self, question: Question, facts: Facts) -> int:
        """Features that are scored by the definition."""
        return int((~self._by_series(question, facts)).sum())

    def _by_series(self, question: Question, facts: Facts) -> Mask:
        if not self.order:
            return np.zeros(len(facts.peak), dtype=bool)
        norms = _norms(question, self.order)
        return _good(_expansion(question, self.order), question.spread, norms, facts)


def _expansion(question: Question, order: int) -> Expansion:
    return question.kernel.expansion(order, question.sigma)


def _norms(question: Question, order: int) -> dict[int, float]:
    return {p: question.norm(p) for p in range(1, order + 1)}


def _good(expansion: Expansion, spread: Spread, norms: Mapping[int, float], facts: Facts) -> Mask:
    """Features for which the series is right, (c,)."""
    order = max(norms)
    with np.errstate(all="ignore"):
        error = spread.neglected(order, facts.peak, facts.fourth)
        error += rounding_of(expansion, norms, spread.n_samples, np.float64, facts)
        size = spread.sigma * norms[1] * np.sqrt(facts.fourth)
    return np.asarray(error <= TOLERANCE * size)

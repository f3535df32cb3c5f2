r"""Kernels without a series: few-valued features by their levels, others pair by pair.

With ``A = W o base`` the gain of a feature is ``<A, F> + constant 1' A 1``, exact for any sigma, F
being a function of its values in two samples (`dhsic.kernels.levelled`). On q levels it is
``sum_kl F_kl 1_k' A 1_l``, which products give (`dhsic.engines.levels`); with many values F is
evaluated for every pair of samples. Where F leaves the numbers, the definition takes over.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dhsic._typing import Array, Float, Mask
from dhsic.engines.base import AbstractEngine, Facts, Question
from dhsic.engines.direct import Direct, DirectState
from dhsic.engines.levels import level_gains
from dhsic.engines.quadratic import Quadratic
from dhsic.kernels.levelled import AbstractLevelled
from dhsic.namespace import cast, host, moved, namespace_of, taken, zeros

#: Largest exponent of F that stays a number, times a K that may be none.
STEEPEST = 600.0


@dataclass(frozen=True, slots=True)
class LevelledState:
    """``W o base``, its row sums and their sum, float64, and what the definition needs."""

    kernel: AbstractLevelled
    sigma: float
    A: Quadratic
    row_sums: Array
    total: float
    direct: DirectState | None

    def on(self, xp: Any, device: Any = None) -> LevelledState:
        """The same state in another namespace, on one of its devices."""
        return replace(
            self,
            sigma=float(self.sigma),
            A=self.A.on(xp, device),
            row_sums=moved(self.row_sums, xp, device),
            direct=None if self.direct is None else self.direct.on(xp, device),
        )


@dataclass(frozen=True)
class Levelled(AbstractEngine):
    """Gains to rounding, in float64.

    Parameters
    ----------
    with_direct : bool
        Prepare for features that only the definition can score.
    """

    with_direct: bool = True

    @staticmethod
    def for_features(question: Question, facts: Facts) -> Levelled:
        """Engine for these features, prepared for the definition only if one needs it."""
        return Levelled(bool(_steep(_levelled(question), question.sigma, facts).any()))

    def prepare(self, question: Question) -> LevelledState:
        """``A = W o base``, in panels."""
        weighted = question.weighted(0)
        return LevelledState(
            _levelled(question),
            question.sigma,
            Quadratic.of(weighted.A, 1.0, np.float64),
            weighted.row_sums,
            float(weighted.row_sums.sum()),
            Direct().prepare(question) if self.with_direct else None,
        )

    def score(self, state: LevelledState, X: Array, facts: Facts) -> Float:
        """Score each group of features in its own way."""
        gains = np.empty(X.shape[0])
        kernel, sigma = state.kernel, state.sigma
        steep = _steep(kernel, sigma, facts)
        few = (facts.n_levels > 0) & ~steep
        many = ~few & ~steep
        if few.any():
            part, levels = taken(X, few), facts.n_levels[few]
            gains[few] = level_gains(part, levels, state.A, state.row_sums, kernel, sigma)
        if many.any():
            gains[many] = _by_pairs(state, taken(X, many))
        gains += kernel.constant * state.total
        if steep.any():
            assert state.direct is not None, "prepared for_features that include these"
            gains[steep] = Direct().score(state.direct, taken(X, steep), facts.take(steep))
        return gains

    def products(self, question: Question, facts: Facts) -> int:
        """A column for every level but one."""
        few = (facts.n_levels > 0) & ~_steep(_levelled(question), question.sigma, facts)
        return int((facts.n_levels[few].astype(np.int64) - 1).sum())


def _levelled(question: Question) -> AbstractLevelled:
    assert isinstance(question.kernel, AbstractLevelled), "other kernels have a series"
    return question.kernel


def _steep(kernel: AbstractLevelled, sigma: float, facts: Facts) -> Mask:
    """Features that only the definition can score, (c,)."""
    return np.asarray(kernel.exponent(facts.peak, sigma) > STEEPEST)


def _by_pairs(state: LevelledState, X: Array) -> Float:
    """``<A, F>`` for each row of X, every pair of samples once: A comes in panels of a triangle."""
    X = cast(X, np.float64)
    xp = namespace_of(X)
    gains = zeros(X.shape[0], like=X)
    for j in range(X.shape[0]):
        x, a = X[j, :], 0
        for panel in state.A.panels:
            b = a + panel.shape[1]
            apart = x[a:][:, None] - x[a:b][None, :]
            F = state.kernel.factor(apart * apart, state.sigma)
            gains[j] += xp.vecdot(xp.reshape(panel, (-1,)), xp.reshape(F, (-1,)))
            a = b
    return host(gains)

r"""Ridge kernels ``Kbar = I - lambda M^-1``, ``M = K + lambda I`` (JMLR 6.6).

For the linear kernel removing x is an update of rank one, ``M - x x'``, and adding it ``M + x x'``,
so by Sherman and Morrison, with ``B = M^-1 W M^-1``,

    ``<W, Kbar(S \ j) - Kbar(S)> = -lambda (x' B x) / (1 - x' M^-1 x)``,
    ``<W, Kbar(S + j) - Kbar(S)> = lambda (x' B x) / (1 + x' M^-1 x)``:

two quadratic forms a feature, exact (`Inverse`). By the definition, and for other kernels inside,
an (m, m) system is solved for every candidate (`Solved`). Where features join lambda is that of one
feature more than S, as sigma is of other kernels: S may be empty.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dhsic._typing import Array, Float
from dhsic.engines.base import AbstractEngine, FeatureStats, Question
from dhsic.kernels.ridge import AbstractMatrixFunction, inverse_of
from dhsic.linalg.quadratic import Quadratic
from dhsic.namespace import Movable, cast, host


@dataclass(frozen=True, slots=True)
class InverseState(Movable):
    """``M^-1`` and ``B = M^-1 W M^-1``, float64, with lambda."""

    inverse: Quadratic
    B: Quadratic
    penalty: float


@dataclass(frozen=True)
class Inverse(AbstractEngine):
    """Gains of ridge over the linear kernel, to rounding, in float64.

    Parameters
    ----------
    joining : float or None
        None for features that leave; for those that join, the mean square of the values of a
        feature, which is what one adds to the diagonal of K.
    """

    joining: float | None = None

    @property
    def name(self) -> str:
        return "inverse" if self.joining is None else "exact"

    def prepare(self, question: Question) -> InverseState:
        """Invert M once: on the range of K, or where features join, everywhere."""
        if self.joining is None:
            inverse, penalty = question.resolvent.inverse, question.resolvent.penalty
        else:
            G = question.statistic.whole()
            relative = AbstractMatrixFunction.of(question.kernel).penalty
            penalty = relative * (float(np.diagonal(G).mean()) + self.joining)
            inverse = inverse_of(G, penalty)
        B = inverse @ question.W @ inverse
        even = (B + B.T) / 2  # rounding is not symmetric
        return InverseState(
            Quadratic.of(inverse, 1.0, np.float64), Quadratic.of(even, 1.0, np.float64), penalty
        )

    def score(self, state: InverseState, X: Array, facts: FeatureStats) -> Float:
        X = cast(X, np.float64)
        sign = -1.0 if self.joining is None else 1.0
        return host(sign * state.penalty * state.B.forms(X) / (1.0 + sign * state.inverse.forms(X)))

    def products(self, question: Question, facts: FeatureStats) -> int:
        return 2 * len(facts.max_abs)


@dataclass(frozen=True, slots=True)
class SolvedState:
    """What the definition needs: W, G, K inside and ``M^-1``, (m, m) float64, and lambda."""

    kernel: AbstractMatrixFunction
    sigma: float
    W: Float
    G: Float
    K: Float
    inverse: Float
    penalty: float


@dataclass(frozen=True)
class Solved(AbstractEngine):
    r"""Gains of any ridge kernel by the definition: ``m^3`` a feature, NumPy's alone.

    With ``E = K(S \ j) - K(S)`` the gain is ``lambda <W, M(S \ j)^-1 E M^-1>``, of which nothing
    cancels.
    """

    def prepare(self, question: Question) -> SolvedState:
        kernel = AbstractMatrixFunction.of(question.kernel)
        G = question.statistic.whole()
        norms = np.diagonal(G)
        K = kernel.inside.gram(G, norms, norms, question.sigma)
        penalty = question.resolvent.penalty
        inverse = inverse_of(K, penalty)
        return SolvedState(kernel, question.sigma, question.W, G, K, inverse, penalty)

    def score(self, state: SolvedState, X: Array, facts: FeatureStats) -> Float:
        return np.array([self._gain(state, x) for x in np.asarray(host(X), dtype=np.float64)])

    def _gain(self, state: SolvedState, x: Float) -> float:
        norms = np.diagonal(state.G)
        E = state.kernel.inside.decrement(state.G, norms, norms, x, x, state.sigma)
        without = inverse_of(state.K + E, state.penalty)
        return state.penalty * float(np.vdot(state.W, without @ E @ state.inverse))

r"""Engines without expansion: direct evaluation of HSIC, and exact updates for ridge kernels.

Direct evaluation, by the definition of HSIC, recomputes the kernel matrix without each feature in
turn: ``m^2`` exponentials per feature. It is always accurate, so it is the reference for all other
engines. It is used if an expansion would be long. It is cheap when few features remain.

The gain of a feature under a radial kernel is ``sum W (kappa(z - t) - kappa(z))``, ``t = sigma (x_i
- x_i')^2``. So `RadialDirect` computes the scaled distances z once per round. It keeps z and W as
panels of one triangle: half of the pairs, in pieces that fit the cache.

Ridge kernels are ``Kbar = I - lambda M^-1``, ``M = K + lambda I`` (JMLR 6.6). For the linear kernel
removing x is a rank-one update, ``M - x x'``, and adding it ``M + x x'``, so by Sherman and
Morrison, with ``B = M^-1 W M^-1``,

    ``<W, Kbar(S \ j) - Kbar(S)> = -lambda (x' B x) / (1 - x' M^-1 x)``,
    ``<W, Kbar(S + j) - Kbar(S)> = lambda (x' B x) / (1 + x' M^-1 x)``:

two exact quadratic forms per feature (`Inverse`). For the definition, and for other inner kernels,
an (m, m) system is solved for every candidate (`Solved`). For joining features lambda, like sigma
of other kernels, is computed for S plus one feature, because S may be empty.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dhsic._typing import Array, Float
from dhsic.engines import AbstractEngine, one_by_one
from dhsic.engines.scoring_problem import FeatureStats, ScoringProblem
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.radial import AbstractRadial
from dhsic.kernels.ridge import AbstractMatrixFunction, inverse_of
from dhsic.linalg.quadratic import Quadratic
from dhsic.namespace import Movable, at_a_time, cast, host, namespace_of, slices, zeros

#: Entries of a tile: temporaries of one feature stay in the cache, and need no memory estimate.
DEFINITION_ENTRIES = 1 << 18
#: Number of rows of a panel processed at a time.
ROWS = 256


@dataclass(frozen=True, slots=True)
class DirectState(Movable):
    """State of `Direct`: label weights W, inner products G of samples, and the diagonal of G."""

    kernel: AbstractKernel
    sigma: float
    W: Float  # (m, m), like G
    G: Float
    norms: Float


@dataclass(frozen=True)
class Direct(AbstractEngine):
    """Engine that evaluates HSIC directly, with and without each feature, in float64.

    Features are removed from S, or added to it if `joining`.
    """

    joining: bool = False

    @property
    def name(self) -> str:
        return "exact" if self.joining else "direct"

    def prepare(self, question: ScoringProblem) -> DirectState:
        G, norms = question.statistic.to_dense(), question.statistic.diagonal
        return DirectState(question.kernel, question.sigma, question.W, G, norms)

    def score(self, state: DirectState, X: Array, facts: FeatureStats) -> Float:
        return one_by_one(X, partial(self._gain, state))

    def _gain(self, state: DirectState, x: Float) -> Float:
        """Gain of the feature x (m,), as a 0-dimensional array."""
        # The change of a pair depends on its two values of x, so the pairs are processed in tiles
        # of rows: some samples against all others.
        difference = state.kernel.increment if self.joining else state.kernel.decrement
        xp = namespace_of(x)
        m = x.shape[0]
        gain = zeros((), like=x)
        for part in slices(m, max(1, at_a_time(x, DEFINITION_ENTRIES) // m)):
            change = difference(  # (rows, m)
                state.G[part, :], state.norms[part], state.norms, x[part], x, state.sigma
            )
            gain += xp.vecdot(xp.reshape(state.W[part, :], (-1,)), xp.reshape(change, (-1,)))
        return gain


@dataclass(frozen=True, slots=True)
class RadialState(Movable):
    """State of `RadialDirect`: panels of W and of the scaled squared distances ``z = sigma D``.

    D are the squared distances. The state also contains ``sigma

    x_i

    ^2``, which scales rounding errors. Entries above the diagonal of a panel of z have weight 0.
    """

    kernel: AbstractRadial
    sigma: float
    W: Quadratic
    z: tuple[Array, ...]
    norms: Array


@dataclass(frozen=True)
class RadialDirect(AbstractEngine):
    """Engine that evaluates HSIC with a radial kernel directly, in float64."""

    def prepare(self, question: ScoringProblem) -> RadialState:
        kernel, sigma = AbstractRadial.of(question.kernel), float(question.sigma)
        norms = question.statistic.diagonal
        z = np.empty_like(question.W)
        for rows, columns, inner in question.statistic.tiles():
            tile = kernel.scaled(inner, norms[rows], norms[columns], sigma)
            z[rows, columns], z[columns, rows] = tile, tile.T
        W = Quadratic.of(question.W, 1.0, np.float64)
        panels = tuple(np.ascontiguousarray(z[a:, a:b]) for a, b, _ in W.columns())
        return RadialState(kernel, sigma, W, panels, sigma * norms)

    def score(self, state: RadialState, X: Array, facts: FeatureStats) -> Float:
        return one_by_one(X, partial(self._gain, state))

    def _gain(self, state: RadialState, x: Float) -> Float:
        xp = namespace_of(x)
        gain = zeros((), like=x)
        u, norms = x * state.sigma**0.5, state.norms
        for (a, b, W), z in zip(state.W.columns(), state.z, strict=True):
            across = slice(a, b)
            for part in slices(W.shape[0], ROWS):
                down = slice(a + part.start, a + part.stop)
                t = u[down][:, None] - u[across][None, :]
                t *= t
                change = state.kernel.change_of(z[part, :], t, norms[down], norms[across])
                gain += xp.vecdot(xp.reshape(W[part, :], (-1,)), xp.reshape(change, (-1,)))
        return 2.0 * gain


@dataclass(frozen=True, slots=True)
class InverseState(Movable):
    """State of `Inverse`: ``M^-1`` and ``B = M^-1 W M^-1``, float64, and lambda.

    ``M = K + lambda I`` for the kernel matrix K; W are label weights.
    """

    inverse: Quadratic
    B: Quadratic
    penalty: float


@dataclass(frozen=True)
class Inverse(AbstractEngine):
    """Engine for the ridge kernel of the linear kernel, exact to rounding, in float64.

    For features that are added, `joining` is the mean square of a feature's values, by which one
    feature increases the mean diagonal of K. It is None for features that are removed.
    """

    joining: float | None = None

    @property
    def name(self) -> str:
        return "inverse" if self.joining is None else "exact"

    def prepare(self, question: ScoringProblem) -> InverseState:
        """Invert ``M = K + lambda I`` on the range of K, or everywhere if features are added.

        K is the kernel matrix, and lambda the ridge parameter.
        """
        if self.joining is None:
            inverse, penalty = question.resolvent.inverse, question.resolvent.penalty
        else:
            G = question.statistic.to_dense()
            relative = AbstractMatrixFunction.of(question.kernel).penalty
            penalty = relative * (float(np.diagonal(G).mean()) + self.joining)
            inverse = inverse_of(G, penalty)
        B = inverse @ question.W @ inverse
        even = (B + B.T) / 2  # rounding errors are not symmetric
        return InverseState(
            Quadratic.of(inverse, 1.0, np.float64), Quadratic.of(even, 1.0, np.float64), penalty
        )

    def score(self, state: InverseState, X: Array, facts: FeatureStats) -> Float:
        X = cast(X, np.float64)
        sign = -1.0 if self.joining is None else 1.0
        return host(sign * state.penalty * state.B.forms(X) / (1.0 + sign * state.inverse.forms(X)))

    def products(self, question: ScoringProblem, facts: FeatureStats) -> int:
        return 2 * len(facts.max_abs)


@dataclass(frozen=True)
class Solved(AbstractEngine):
    r"""Engine for any ridge kernel, by the definition: ``m^3`` operations per feature, NumPy only.

    The gain of feature j, the change of HSIC without it, is ``lambda <W, M(S \ j)^-1 E M^-1>`` with
    ``E = K(S \ j) - K(S)``, without cancellation. W are label weights, K is the matrix of the inner
    kernel on the features S, and ``M = K + lambda I``.
    """

    def prepare(self, question: ScoringProblem) -> tuple[Any, ...]:
        kernel = AbstractMatrixFunction.of(question.kernel)
        G = question.statistic.to_dense()
        norms = np.diagonal(G)
        K = kernel.inside.gram(G, norms, norms, question.sigma)
        penalty = question.resolvent.penalty
        return kernel.inside, question.sigma, question.W, G, K, inverse_of(K, penalty), penalty

    def score(self, state: tuple[Any, ...], X: Array, facts: FeatureStats) -> Float:
        inside, sigma, W, G, K, inverse, penalty = state
        norms, gains = np.diagonal(G), []
        for x in np.asarray(host(X), dtype=np.float64):
            E = inside.decrement(G, norms, norms, x, x, sigma)
            without = inverse_of(K + E, penalty)
            gains.append(penalty * float(np.vdot(W, without @ E @ inverse)))
        return np.array(gains)

"""The definition: recompute the kernel matrix without each feature in turn.

``m^2`` exponentials a feature. Always right, so it is the oracle of every other engine and the
fallback where an expansion would be long; cheap exactly when few features are left.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dhsic._typing import Array, Float
from dhsic.engines.base import AbstractEngine, Facts, Question
from dhsic.kernels.base import AbstractKernel

#: Rows of a tile: the temporaries of one feature stay in the cache and off the memory promise.
TILE_ENTRIES = 1 << 18


@dataclass(frozen=True, slots=True)
class DirectState:
    """What the definition needs: kernel, sigma, W and G, (m, m) float64, and its diagonal."""

    kernel: AbstractKernel
    sigma: float
    W: Float
    G: Float
    norms: Float


@dataclass(frozen=True)
class Direct(AbstractEngine):
    """Gains by the definition, in float64."""

    def prepare(self, question: Question) -> DirectState:
        """W with G in full."""
        statistic = question.statistic
        return DirectState(
            question.kernel, question.sigma, question.W, statistic.whole(), statistic.diagonal
        )

    def score(self, state: DirectState, X: Array, facts: Facts) -> Float:
        r"""``<W, K(S \ j) - K(S)>`` for each row of X."""
        del facts
        return np.array([self._gain(state, x.astype(np.float64)) for x in X], dtype=np.float64)

    def error(self, question: Question, facts: Facts, gains: Float) -> Float:
        """None but rounding."""
        del question, facts
        return np.zeros_like(gains)

    def products(self, question: Question, facts: Facts) -> int:
        """No matrix product at all."""
        del question, facts
        return 0

    def _gain(self, state: DirectState, x: Float) -> float:
        # The change of a pair depends on its two values of x, so rows go in tiles: the samples
        # of a tile against all others.
        m = len(x)
        rows = max(1, TILE_ENTRIES // m)
        total = 0.0
        for a in range(0, m, rows):
            part = slice(a, min(a + rows, m))
            loss = state.kernel.loss(  # (rows, m)
                state.G[part], state.norms[part], state.norms, x[part], x, state.sigma
            )
            total += float(np.vdot(state.W[part], loss))
        return total

"""The definition: recompute the kernel matrix without each feature in turn.

``m^2`` exponentials a feature. Always right, so it is the oracle of every other engine and the
fallback where an expansion would be long; cheap exactly when few features are left.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dhsic._typing import Array, Float
from dhsic.engines.base import AbstractEngine, Facts, Question
from dhsic.kernels.base import AbstractKernel
from dhsic.namespace import at_a_time, cast, host, moved, namespace_of, slices, zeros

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

    def on(self, xp: Any, device: Any = None) -> DirectState:
        """The same state in another namespace, on one of its devices."""
        W, G, norms = (moved(a, xp, device) for a in (self.W, self.G, self.norms))
        return replace(self, sigma=float(self.sigma), W=W, G=G, norms=norms)


@dataclass(frozen=True)
class Direct(AbstractEngine):
    """Gains by the definition, in float64.

    Parameters
    ----------
    adding : bool
        Of features that join S, instead of those that leave it.
    """

    adding: bool = False

    def prepare(self, question: Question) -> DirectState:
        """W with G in full."""
        statistic = question.statistic
        return DirectState(
            question.kernel, question.sigma, question.W, statistic.whole(), statistic.diagonal
        )

    def score(self, state: DirectState, X: Array, facts: Facts) -> Float:
        r"""``<W, K(S \ j) - K(S)>`` for each row of X."""
        del facts
        gains = zeros(X.shape[0], like=X)
        for j in range(X.shape[0]):
            gains[j] = self._gain(state, cast(X[j, :], np.float64))
        return host(gains)

    def products(self, question: Question, facts: Facts) -> int:
        """No matrix product at all."""
        del question, facts
        return 0

    def _gain(self, state: DirectState, x: Float) -> Float:
        """Gain of the feature x (m,), an array without axes."""
        # The change of a pair depends on its two values of x, so rows go in tiles: the samples
        # of a tile against all others.
        difference = state.kernel.gain if self.adding else state.kernel.loss
        xp = namespace_of(x)
        m = x.shape[0]
        rows = max(1, at_a_time(x, TILE_ENTRIES) // m)
        gain = zeros((), like=x)
        for part in slices(m, rows):
            change = difference(  # (rows, m)
                state.G[part, :], state.norms[part], state.norms, x[part], x, state.sigma
            )
            gain += xp.vecdot(xp.reshape(state.W[part, :], (-1,)), xp.reshape(change, (-1,)))
        return gain

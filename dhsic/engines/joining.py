r"""Gains of features that join under a ridge kernel (JMLR 6.6): line 4 of Algorithm 2.

Adding x is an update of rank one, ``M + x x'``, so as for removal (`dhsic.engines.inverse`)

    ``<W, Kbar(S + j) - Kbar(S)> = lambda (x' B x) / (1 + x' M^-1 x)``,    ``B = M^-1 W M^-1``.

Lambda is that of one feature more than S, as sigma is of other kernels: S may be empty.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dhsic._typing import Array, Float
from dhsic.engines.base import AbstractEngine, Facts, Question
from dhsic.engines.inverse import InverseState
from dhsic.kernels.ridge import AbstractWhole, inverse_of
from dhsic.namespace import cast, host


@dataclass(frozen=True)
class Joining(AbstractEngine):
    """Gains of ridge over the linear kernel, to rounding, in float64.

    Parameters
    ----------
    mean_square : float
        Of the values of a feature, on average: what one adds to the diagonal of K.
    """

    mean_square: float

    def prepare(self, question: Question) -> InverseState:
        """Invert M once."""
        kernel = question.kernel
        assert isinstance(kernel, AbstractWhole), "other kernels have no penalty"
        G = question.statistic.whole()
        penalty = kernel.penalty * (float(np.diagonal(G).mean()) + self.mean_square)
        return InverseState.of(inverse_of(G, penalty), question.W, penalty)

    def score(self, state: InverseState, X: Array, facts: Facts) -> Float:
        """Two quadratic forms a feature."""
        del facts
        X = cast(X, np.float64)
        return host(state.penalty * state.B.forms(X) / (1.0 + state.inverse.forms(X)))

    def products(self, question: Question, facts: Facts) -> int:
        """Two columns a feature."""
        del question
        return 2 * len(facts.peak)

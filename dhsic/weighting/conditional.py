r"""The trace of the conditional covariance operator as a function of weights (CCM eq. 13 to 20).

    ``Q(w) = tr Y' (G_w + n eps I)^-1 Y``                                   eq. 14, 17

is what kernel ridge regression on the weighted features leaves of Y, up to a factor; Y (m, k) is
centred: the values themselves (eq. 8), or a column for each class (eq. 9). With
``Z = (G_w + n eps I)^-1 Y`` its derivative is ``dQ = -<Z, dG_w Z>``.

Without the inverse (eq. 19), a matrix alpha in the place of Z is minimised over too:

    ``<alpha, Y> + lambda_2 ||(G_w + n eps I) alpha - Y||^2``.

For a given w the best alpha is ``M^-1 Y - M^-2 Y / (2 lambda_2)`` with ``M = G_w + n eps I``: two
runs of conjugate gradients find it from products with G_w, which take no pass over the features, so
that w alone descends (variable projection; Golub and Pereyra, 1973). At that alpha the objective is
``Q(w) - tr Y' M^-2 Y / (4 lambda_2)``, which falls where more of Y is explained if
``lambda_2 > 1 / (2 n eps)``, and may rise if it is not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from dhsic._typing import Float
from dhsic.errors import InputError
from dhsic.weighting.centred import AbstractCentred, Centring, WeightedData
from dhsic.weighting.descent import (
    AbstractWeighting,
    DescentState,
    Evaluation,
    ProjectedGradient,
    Region,
)

#: Relative residual of conjugate gradients.
SOLVED = 1e-10
#: How far a weight may move in a step. Without a limit descent soon ends in a corner, which CCM 5.1
#: means to avoid: on the first data of CCM 6.1 with 30 features, m = 100, at 414 instead of 376.
REACH = 0.5


@dataclass(frozen=True)
class AbstractConditional(ABC):
    """Q in one of its forms, from solutions of systems with G_w.

    Attributes
    ----------
    centring : callable
        From weights to G_w.
    Y : (m, k) float64
        Centred.
    ridge : float
        ``n eps``.
    price, budget : float
        Lambda_1 and b of ``+ lambda_1 (1'w - b)`` (CCM eq. 18), the budget as a price: b, the
        features wanted, moves the value and nothing else. Without a price the budget is hard.
    """

    centring: Centring
    Y: Float
    ridge: float
    price: float = field(default=0.0, kw_only=True)
    budget: float = field(default=0.0, kw_only=True)

    @abstractmethod
    def solved(self, G: AbstractCentred) -> tuple[float, Float, Float]:
        """The value, and the left and right of its derivative ``<left, dG_w right>``, (m, k)."""

    def at(self, w: Float) -> Evaluation:
        """Value and gradient."""
        G = self.centring(w)
        value, left, right = self.solved(G)
        value += self.price * (float(w.sum()) - self.budget)
        return Evaluation(value, lambda: G.gradient(left, right) + self.price)

    def slopes(self, w: Float) -> Float:
        """Derivatives that tell features of weight 0 apart too, `AbstractCentred.slopes`; (n,).

        Without the price, which is the same for all.
        """
        G = self.centring(w)
        _, left, right = self.solved(G)
        return G.slopes(left, right)


@dataclass(frozen=True)
class WithInverse(AbstractConditional):
    """Q itself, eq. 14 and 17; with Fourier features eq. 20.

    Eq. 20 as printed is scaled by ``n eps`` and lacks the constant ``tr Y'Y``. Here neither is
    so, which moves no minimum: lambda_1 of eq. 18 means the same with every approximation.
    """

    def solved(self, G: AbstractCentred) -> tuple[float, Float, Float]:
        """``<Y, Z>``, with the derivative ``-<Z, dG_w Z>``."""
        Z = G.solve(self.Y, self.ridge)
        return float(np.vdot(self.Y, Z)), -Z, Z


@dataclass(frozen=True)
class WithoutInverse(AbstractConditional):
    """Eq. 19 at the alpha that is best for w.

    Attributes
    ----------
    strictness : float
        Lambda_2.
    """

    strictness: float

    def solved(self, G: AbstractCentred) -> tuple[float, Float, Float]:
        """The derivative is that at a fixed alpha, ``2 lambda_2 <R, dG_w alpha>``."""
        alpha, R = self._best(G)
        value = float(np.vdot(alpha, self.Y) + self.strictness * np.vdot(R, R))
        return value, 2 * self.strictness * R, alpha

    def _best(self, G: AbstractCentred) -> tuple[Float, Float]:
        """Alpha, and ``R = M alpha - Y = -M^-1 Y / (2 lambda_2)``."""
        Z = self._solved(G, self.Y)
        R = Z / (-2 * self.strictness)
        return Z + self._solved(G, R), R

    def _solved(self, G: AbstractCentred, Y: Float) -> Float:
        """``M^-1 Y`` by conjugate gradients."""
        m = len(Y)

        def product(z: Float) -> Float:
            Z = z.reshape(m, 1)
            return (G.times(Z) + self.ridge * Z).ravel()

        M = LinearOperator((m, m), matvec=product, dtype=np.float64)
        found = [cg(M, y, rtol=SOLVED) for y in Y.T]
        if any(failed for _, failed in found):
            raise InputError(
                f"Conjugate gradients do not converge with epsilon={self.ridge / m:.3g}; pass a "
                "larger epsilon, or inverse='exact'."
            )
        return np.column_stack([z for z, _ in found])


@dataclass(frozen=True)
class Minimisation(AbstractWeighting):
    """Spectral projected gradient on an objective, which may be over less data in the end.

    Attributes
    ----------
    data : WeightedData
        What the objective is over.
    objective : AbstractConditional
        What is minimised.
    region : Region
        Where.
    is_sparse : bool
        Weights of 0 stay 0, where K is a function of their squares: such features need be read no
        more.
    """

    state: ClassVar = DescentState

    data: WeightedData
    objective: AbstractConditional
    region: Region
    is_sparse: bool

    def begin(self, w: Float) -> DescentState:
        return self._descent.begin(w)

    def steps(self, state: DescentState, tolerance: float) -> Iterator[DescentState]:
        self._compact(state.w)
        for after in self._descent.steps(state, tolerance):
            yield after
            self._compact(after.w)

    def potential(self, w: Float) -> Float:
        """By how much the objective falls."""
        self._compact(w)
        return -self.objective.slopes(w)

    @property
    def _descent(self) -> ProjectedGradient:
        return ProjectedGradient(self.objective.at, self.region, REACH)

    def _compact(self, w: Float) -> None:
        if self.is_sparse:
            self.data.compact(w)

r"""A round of forward selection in linear time: ``A = W o K(S)`` of low rank.

K of the features chosen so far is factored from its rows at landmarks (`dhsic.lowrank.cholesky`),
W is a product of thin matrices, so A is one off its diagonal (`dhsic.engines.lowrank`): a quadratic
form costs 2 m R instead of m^2. The engine that scores is `dhsic.engines.adding`, the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.engines.lowrank import LowRankForms, LowRankWeighted
from dhsic.kernels.base import AbstractKernel
from dhsic.lowrank.base import Factor, Landmarks
from dhsic.lowrank.cholesky import Cholesky
from dhsic.lowrank.rows import BaseRows
from dhsic.lowrank.weights import FactoredWeights
from dhsic.namespace import cast, namespace_of, zeros

#: Part of the trace of K that its factor may miss, unless the landmarks are too few for that.
MISSING = 1e-7
#: Part of A that its compression may lose, and most directions that are left of it.
LOST, MOST = 1e-6, 512
#: Directions of W times those of K, at most: A is compressed from as many.
PRODUCTS = 1536


@dataclass(frozen=True, slots=True)
class ThinForm:
    """``Y' diag(theta) Y + diag(correction)``, ready for quadratic forms."""

    thin: LowRankForms

    def on(self, xp: Any, device: Any = None) -> ThinForm:
        """The same in another namespace."""
        return ThinForm(self.thin.on(xp, device))

    def forms(self, X: Array) -> Float:
        """``x' A x`` of every row of X (c, m), float64 (c,)."""
        xp = namespace_of(X)
        along = cast(X @ self.thin.Y.T, np.float64)  # (c, R)
        own = cast(xp.square(X) @ self.thin.correction, np.float64)
        total: Float = xp.square(along) @ self.thin.theta + own
        return total

    def pairs(self, X: Array) -> Float:
        """``x_k' A x_l`` of the rows of X (n, c, m) with each other, float64 (n, n, c)."""
        n, c, m = X.shape
        xp = namespace_of(X)
        flat = xp.reshape(X, (n * c, m))
        along = xp.reshape(cast(flat @ self.thin.Y.T, np.float64), (n, c, -1))
        out = zeros((n, n, c), like=X)
        for k in range(n):
            for l in range(k, n):  # noqa: E741  # the level, as in N_kl
                between = xp.vecdot(along[k, ...] * self.thin.theta, along[l, ...])
                own = (X[k, ...] * X[l, ...]) @ self.thin.correction
                out[k, l, :] = between + cast(own, np.float64)
                out[l, k, :] = out[k, l, :]
        return out


@dataclass(frozen=True, eq=False)
class ThinWeighted:
    """``A = W o base`` of low rank, as the engine asks for it."""

    A: LowRankWeighted

    @property
    def row_sums(self) -> Float:
        """``A 1``, (m,)."""
        return self.A.row_sums

    @property
    def norm(self) -> float:
        """``||A||_F``."""
        return self.A.norm

    def form(self, scale: float, dtype: Any) -> ThinForm:
        """``A / scale`` for quadratic forms, in the dtype."""
        return ThinForm(LowRankForms.of(self.A, scale, dtype))


@dataclass(frozen=True)
class ThinQuestion:
    """Everything a round fixes, in O(b m).

    Attributes
    ----------
    landmarks : Landmarks
        Statistic of the features chosen, against landmarks that make the factor.
    check : Landmarks
        The same against rows that the factor does not see.
    """

    kernel: AbstractKernel
    sigma: float
    W: FactoredWeights
    landmarks: Landmarks
    check: Landmarks
    _weighted: dict[int, ThinWeighted] = field(default_factory=dict, repr=False)

    @property
    def n_samples(self) -> int:
        """Number of samples m."""
        return self.W.n_samples

    @cached_property
    def factor(self) -> Factor:
        """K of low rank."""
        return self._factor(0)

    @cached_property
    def hsic(self) -> float:
        """``<W, K>``."""
        diagonal = BaseRows(self.kernel, self.sigma, self.landmarks).diagonal()
        return self.W.inner(self.factor.F, self.factor.weights, diagonal)

    def weighted(self, base: int) -> ThinWeighted:
        """``W o base``, computed once."""
        if base not in self._weighted:
            factor = self.factor if base == 0 else self._factor(base)
            diagonal = BaseRows(self.kernel, self.sigma, self.landmarks, base).diagonal()
            A = LowRankWeighted.of(self.W, factor, diagonal, rank=MOST, tolerance=LOST)
            self._weighted[base] = ThinWeighted(A)
        return self._weighted[base]

    def _factor(self, base: int) -> Factor:
        rank = max(1, PRODUCTS // max(1, self.W.U.shape[1]))
        return Cholesky(rank=rank, tolerance=MISSING).factor(
            self.kernel, self.sigma, self.landmarks, base=base
        )

    def row_errors(self, X: Float) -> Float:
        """Errors of the gains of features X (c, m) on the check rows, (n, c), as of `certify`."""
        rows = self._check_rows
        every = np.arange(rows.size)
        W = self.W.rows(rows)
        missed = BaseRows(self.kernel, self.sigma, self.check).part(every, slice(None))
        missed -= (self.factor.F[rows] * self.factor.weights) @ self.factor.F.T  # K - F F'
        missed *= W
        missed[every, rows] = 0.0
        t = np.empty((rows.size, len(X)))
        for j, x in enumerate(X):
            delta = x[rows][:, None] - x[None, :]
            delta *= delta
            change = self.kernel.factor(delta, -self.sigma)
            assert change is not None, "callers ask only kernels that are products over features"
            t[:, j] = np.vecdot(missed, change)
        return t

    @property
    def _check_rows(self) -> Index:
        assert self.check.rows is not None, "rows to check on are samples"
        return self.check.rows


def added_to(landmarks: Landmarks, Z: Float) -> Landmarks:
    """The statistic with features Z (c, m) joined."""
    assert landmarks.rows is not None, "landmarks are samples"
    inner = landmarks.inner + Z[:, landmarks.rows].T @ Z
    return replace(landmarks, inner=inner, norms=landmarks.norms + np.vecdot(Z.T, Z.T))

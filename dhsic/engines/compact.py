r"""A round in linear time: thin matrices score every feature, as far as the series needs to go.

Three ways to the gain of a feature, all of them from the same ``A ~ Y' diag(theta) Y`` off the
diagonal:

- the series, to the order at which what it neglects is small against the spread of the gains;
- sums over the levels of a feature, where its values are codes: exact for any sigma;
- the definition on a sample of rows, for the few features that no series is short enough for.

A round of forward selection in linear time: ``A = W o K(S)`` of low rank.

K of the features chosen so far is factored from its rows at landmarks (`dhsic.lowrank.cholesky`),
W is a product of thin matrices, so A is one off its diagonal (`dhsic.engines.lowrank`): a quadratic
form costs 2 m R instead of m^2. The engine that scores is `dhsic.engines.increment`, the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.engines.base import FeatureStats
from dhsic.engines.lowrank import LowRank, LowRankState
from dhsic.kernels.base import AbstractKernel
from dhsic.linalg.symmetric import LowRankSymmetric
from dhsic.lowrank.base import BaseRows, Landmarks
from dhsic.lowrank.cholesky import Cholesky
from dhsic.namespace import Movable, host, taken

#: Part of the spread of gains by chance that the series may neglect.
NEGLECTED = 0.02
#: Longest series.
LONGEST = 24


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows of K and W, for the definition on them.

    Attributes
    ----------
    which : (n,) int64
        Which samples.
    inner : (n, m) float64
        Their inner products with all samples.
    W : (n, m) float64
        Their weights.
    norms : (m,) float64
        Squared norms of all samples.
    """

    which: Index
    inner: Float
    W: Float
    norms: Float

    @staticmethod
    def of(W: LowRankSymmetric, landmarks: Landmarks) -> Rows:
        """Rows of the landmarks."""
        assert landmarks.rows is not None, "rows are samples"
        rows = W.rows(landmarks.rows)
        return Rows(landmarks.rows, landmarks.inner, rows, landmarks.norms)

    def gains(self, kernel: AbstractKernel, sigma: float, X: Array) -> Float:
        """``(m / n) sum_i in rows sum_i' W_ii' decrement_ii'``, unbiased; X is (c, m)."""
        X = X.astype(np.float64)
        own = self.norms[self.which]
        factor = X.shape[1] / len(self.which)
        with np.errstate(over="ignore", invalid="ignore"):
            return np.array(
                [
                    factor
                    * np.vdot(
                        self.W,
                        kernel.decrement(self.inner, own, self.norms, x[self.which], x, sigma),
                    )
                    for x in X
                ]
            )


@dataclass(frozen=True, slots=True)
class ThinState(Movable):
    """State of a round: few directions; rows, NumPy's alone, where the definition is needed."""

    forms: LowRankState
    rows: Rows | None = None


@dataclass(frozen=True)
class Thin:
    """Gains in O(m R) a feature."""

    dtype: Any = "float32"

    def score(self, state: ThinState, X: Array, facts: FeatureStats) -> Float:
        """Gains of c features, float64 (c,); X is (c, m), a feature a row, standardised."""
        forms = state.forms
        kernel, sigma = forms.kernel, forms.sigma
        orders = orders_for(kernel, sigma, facts, X.shape[1])
        gains = np.empty(X.shape[0])
        for order in np.unique(orders):
            which = orders == order
            some = X if which.all() else taken(X, which)
            if order > LONGEST and state.rows is not None:
                gains[which] = state.rows.gains(kernel, sigma, host(some))
            else:
                engine = LowRank(int(min(order, LONGEST)), self.dtype)
                to_order = replace(forms, order=engine.order)
                gains[which] = engine.score(to_order, some, facts.take(which))
        return gains


def orders_for(
    kernel: AbstractKernel, sigma: float, facts: FeatureStats, m: int, neglected: float = NEGLECTED
) -> Index:
    """Order of the series for each feature, (c,); above `LONGEST` none will do.

    What is neglected stays below that part of ``2 sqrt(2) sigma ||A||_F``, the standard
    deviation of the gain of a feature that is independent of A.
    """
    if kernel.exact_order is not None:
        return np.full(len(facts.max_abs), kernel.exact_order)
    orders = np.full(len(facts.max_abs), LONGEST + 1)
    allowed = neglected * 2 * np.sqrt(2) * sigma * np.minimum(1.0, np.sqrt(facts.fourth_moment))
    open_ = np.arange(len(orders))
    for order in range(1, LONGEST + 1):
        remainder = kernel.expansion(order, sigma).remainder
        assert remainder is not None, "a kernel without exact order bounds its remainder"
        # Neglected parts of pairs add up with random signs: the root of their number.
        missed = np.sqrt(m) * remainder(facts.max_abs[open_], facts.fourth_moment[open_])
        good = missed <= allowed[open_]
        orders[open_[good]] = order
        open_ = open_[~good]
        if not open_.size:
            break
    return orders


def gains_from_sums(
    U: Float, counts: Float, values: Float, theta: Float, kernel: AbstractKernel, sigma: float
) -> Float:
    r"""Gains of features with few levels, from sums over them.

    With ``T_lk = K(S \ j) / K(S) - 1`` between levels l and k, 0 within a level, the gain is
    ``sum_lk T_lk 1_l' A 1_k``: exact in the feature, and the diagonal of A takes no part.

    Parameters
    ----------
    U : (q, c, R) float64
        ``1_l' Y'`` for every level.
    counts : (q, c) float64
        Samples of each level.
    values : (q, c) float64
        Value of each level.
    theta : (R,) float64
        Weights of the rows of Y.
    kernel, sigma
        A kernel with a `factor`.

    Returns
    -------
    (c,) float64
        Gains.
    """
    gains = np.zeros(U.shape[1])
    for low in range(len(U)):
        for high in range(low + 1, len(U)):
            both = np.flatnonzero((counts[low] > 0) & (counts[high] > 0))
            if both.size:
                apart = np.square(values[low, both] - values[high, both])
                T = kernel.factor(apart, sigma)
                gains[both] += 2 * T * ((U[low, both] * U[high, both]) @ theta)
    return gains


#: Part of the trace of K that its factor may miss, unless the landmarks are too few for that.
MISSING = 1e-7
#: Part of A that its compression may lose, and most directions that are left of it.
LOST, MOST = 1e-6, 512
#: Directions of W times those of K, at most: A is compressed from as many.
PRODUCTS = 1536


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
    W: LowRankSymmetric
    landmarks: Landmarks
    check: Landmarks
    _weighted: dict[int, LowRankSymmetric] = field(default_factory=dict, repr=False)

    @property
    def n_samples(self) -> int:
        """Number of samples m."""
        return self.W.n_samples

    @cached_property
    def factor(self) -> LowRankSymmetric:
        """K of low rank."""
        return self._factor(0)

    @cached_property
    def hsic(self) -> float:
        """``<W, K>``."""
        return float(self.W.hadamard_sums(self.factor).sum())

    def weighted(self, base: int) -> LowRankSymmetric:
        """``W o base``, computed once."""
        if base not in self._weighted:
            factor = self.factor if base == 0 else self._factor(base)
            self._weighted[base] = self.W.hadamard(factor, rank=MOST, tolerance=LOST)
        return self._weighted[base]

    def _factor(self, base: int) -> LowRankSymmetric:
        rank = max(1, PRODUCTS // max(1, self.W.rank))
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
            t[:, j] = np.vecdot(missed, change)
        return t

    @property
    def _check_rows(self) -> Index:
        assert self.check.rows is not None, "rows to check on are samples"
        return self.check.rows

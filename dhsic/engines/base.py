"""An engine prepares a state from a round's question and scores blocks of features with it.

The question of a round (line 4 of Algorithm 1) is, for every surviving feature j,

    ``HSIC(sigma, S without j) - HSIC(sigma, S) = <W, K(S without j) - K(S)>``;

the difference, never the value: the values agree to 1/|S| and would drown it in rounding. It is
called the *gain* of removing j; the features with the largest gain leave.

States are prepared with NumPy, m x m work once a round, and score on any namespace of the array
API standard whose arrays can be written: `state.on(xp, device)` is the same state there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.engines.remainder import Remainder
from dhsic.kernels.bandwidth import hsic_value
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.radial import AbstractRadial
from dhsic.kernels.ridge import AbstractMatrixFunction, Resolvent
from dhsic.kernels.statistic import Statistic
from dhsic.linalg.quadratic import Quadratic
from dhsic.namespace import cast, host, zeros


@dataclass(frozen=True, slots=True)
class FeatureStats:
    """What is known of c features besides their values, each (c,).

    Attributes
    ----------
    max_abs, fourth_moment : float64
        ``max_i |x_i|`` and ``mean_i x_i^4`` of the standardised feature.
    n_levels : uint8
        Number of distinct values, 0 where there are many.
    """

    max_abs: Float
    fourth_moment: Float
    n_levels: Array

    def take(self, which: Index | Array) -> FeatureStats:
        """Of some of the features."""
        return FeatureStats(self.max_abs[which], self.fourth_moment[which], self.n_levels[which])


@dataclass(frozen=True, slots=True)
class Weighted:
    """``A = W o base`` and what is asked of it.

    Attributes
    ----------
    A : (m, m) float64
        Symmetric.
    row_sums : (m,) float64
        ``A 1``.
    norm : float
        ``||A||_F``.
    """

    A: Float
    row_sums: Float
    norm: float

    def form(self, scale: float, dtype: Any) -> Quadratic:
        """``A / scale`` for quadratic forms, in the dtype."""
        return Quadratic.of(self.A, scale, dtype)


@dataclass(frozen=True)
class Question:
    """Everything a round fixes: kernel, sigma, W (m, m) and the statistic.

    `each` maps a function over tiles, in order; several at a time where it can.
    """

    kernel: AbstractKernel
    sigma: float
    W: Float
    statistic: Statistic
    each: Callable[..., Iterable[Any]] = map
    _weighted: dict[int, Weighted] = field(default_factory=dict, repr=False)

    @property
    def n_samples(self) -> int:
        """Number of samples m."""
        return len(self.W)

    @cached_property
    def hsic(self) -> float:
        """``<W, K>``."""
        if self.kernel.scored_by == "matrix":
            return float(np.vdot(self.W, self.resolvent.smoother))
        if self.kernel.has_bandwidth and self.kernel.scored_by != "taylor":
            return float(self.weighted(0).row_sums.sum())  # their only base is K itself
        return hsic_value(self.kernel, self.sigma, self.W, self.statistic)

    @cached_property
    def remainder(self) -> Remainder:
        """How samples are spread, which bounds what the series of a radial kernel leaves out."""
        kernel = AbstractRadial.of(self.kernel)
        return Remainder.of(kernel, self.sigma, self.W, self.statistic, self.each)

    @cached_property
    def resolvent(self) -> Resolvent:
        """``(K + lambda I)^-1`` of a kernel of the whole matrix."""
        return AbstractMatrixFunction.of(self.kernel).resolvent(self.statistic.whole(), self.sigma)

    def neglected(self, order: int, facts: FeatureStats) -> Float:
        """Bound on what the expansion up to `order` leaves out of the gains, (c,)."""
        if self.kernel.scored_by == "taylor":
            return self.remainder.neglected(order, facts.max_abs, facts.fourth_moment)
        expansion = self.kernel.expansion(order, self.sigma)
        if expansion.remainder is None:
            return np.zeros_like(facts.max_abs)
        remainder = expansion.remainder(facts.max_abs, facts.fourth_moment)
        return self.n_samples * self.norm(expansion.terms[0].base) * remainder

    def norm(self, base: int) -> float:
        """``||W o base||_F``, or a close upper bound where that spares the product."""
        if self.kernel.scored_by == "taylor":
            return self.remainder.norm(base)
        return self.weighted(base).norm

    def weighted(self, base: int) -> Weighted:
        """``W o base``, computed once, tile by tile over one triangle."""
        if base not in self._weighted:
            self._weighted[base] = self._weigh(base)
        return self._weighted[base]

    def _weigh(self, base: int) -> Weighted:
        A = np.empty_like(self.W)
        row_sums = np.zeros(self.n_samples)
        squares = 0.0
        norms = self.statistic.diagonal
        ones = np.ones(self.n_samples)

        def weigh(place: tuple[slice, slice, Float]) -> tuple[slice, slice, Float, Float, float]:
            rows, columns, inner = place
            tile = self.kernel.base(base, inner, norms[rows], norms[columns], self.sigma)
            tile *= self.W[rows, columns]
            A[rows, columns] = tile
            if rows != columns:
                A[columns, rows] = tile.T
            across, down = tile @ ones[columns], ones[rows] @ tile
            return rows, columns, across, down, float(np.vdot(tile, tile))

        for rows, columns, across, down, square in self.each(weigh, self.statistic.tiles()):
            row_sums[rows] += across
            squares += square
            if rows != columns:
                row_sums[columns] += down
                squares += square
        return Weighted(A, row_sums, float(np.sqrt(squares)))


class AbstractEngine(ABC):
    """Turns a question into scores of features; a value, cheap to make."""

    #: Whether it has the last word on a gain.
    is_final: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """What records of rounds call it."""
        return type(self).__name__.lower()

    @abstractmethod
    def prepare(self, question: Question) -> Any:
        """State for a round: what is broadcast to the workers."""

    @abstractmethod
    def score(self, state: Any, X: Array, facts: FeatureStats) -> Float:
        """Gains of c features, float64 (c,); X is (c, m), a feature a row, standardised.

        X is of the namespace and on the device of the state; facts and gains are NumPy's.
        """

    def error(self, question: Question, facts: FeatureStats, gains: Float) -> Float:
        """Bound on the error of `score` for each feature, given (a guess of) the gains, (c,).

        Zeros for engines that leave nothing out: the tolerance for ties covers their rounding.
        """
        return np.zeros_like(gains)

    def products(self, question: Question, facts: FeatureStats) -> int:
        """Columns of products ``A X^p`` that the formulas take for these features, all told."""
        return 0


def one_by_one(X: Array, gain: Callable[[Float], Float]) -> Float:
    """Gains of the features X (c, m), each by itself in float64; `gain` takes x (m,)."""
    gains = zeros(X.shape[0], like=X)
    for j in range(X.shape[0]):
        gains[j] = gain(cast(X[j, :], np.float64))
    return host(gains)

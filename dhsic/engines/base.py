"""An engine prepares a state from a round's question and scores blocks of features with it.

The question of a round (line 4 of Algorithm 1) is, for every surviving feature j,

    ``HSIC(sigma, S without j) - HSIC(sigma, S) = <W, K(S without j) - K(S)>``;

the difference, never the value: the values agree to 1/|S| and would drown it in rounding. It is
called the *gain* of removing j; the features with the largest gain leave. Algorithm 2 asks the
same of features that join.

States are prepared with NumPy, m x m work once a round, and score on any namespace of the array
API standard whose arrays can be written: `state.on(xp, device)` is the same state there. A round
is asked from all samples (`Question`) or in linear time (`LowRankQuestion`), where W and K are of
low rank; either way what engines need is ``A = W o base`` for base matrices of the kernel.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, final

import numpy as np

from dhsic._typing import Array, Float, Index, Mask
from dhsic.engines.remainder import Remainder
from dhsic.kernels.bandwidth import hsic_value
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.radial import AbstractRadial
from dhsic.kernels.ridge import AbstractMatrixFunction, Resolvent
from dhsic.kernels.statistic import Statistic
from dhsic.linalg.symmetric import DenseSymmetric, LowRankSymmetric
from dhsic.namespace import Movable, cast, host, taken, zeros


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
    _weighted: dict[int, DenseSymmetric] = field(default_factory=dict, init=False, repr=False)

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
        taylor = self.kernel.scored_by == "taylor"
        return self.remainder.norm(base) if taylor else self.weighted(base).norm

    def weighted(self, base: int) -> DenseSymmetric:
        """``W o base``, computed once, tile by tile over one triangle."""
        if base not in self._weighted:
            self._weighted[base] = self._weigh(base)
        return self._weighted[base]

    def _weigh(self, base: int) -> DenseSymmetric:
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
        return DenseSymmetric(A, row_sums, float(np.sqrt(squares)))


@dataclass(frozen=True)
class LowRankQuestion:
    """Everything a round fixes where W and K are of low rank: ``A = W o base`` is too.

    Attributes
    ----------
    factor : callable
        Base matrix of a number, of low rank and with its true diagonal.
    rank : int, optional
        Most directions of A.
    tolerance : float
        Part of A that its compression may lose; the default is what float32 rounds away.
    """

    kernel: AbstractKernel
    sigma: float
    W: LowRankSymmetric
    factor: Callable[[int], LowRankSymmetric]
    rank: int | None = None
    tolerance: float = 1e-8
    _weighted: dict[int, LowRankSymmetric] = field(default_factory=dict, init=False, repr=False)

    @property
    def n_samples(self) -> int:
        """Number of samples m."""
        return self.W.n_samples

    @cached_property
    def hsic(self) -> float:
        """``<W, K>``."""
        return float(self.W.hadamard_sums(self.factor(0)).sum())

    def norm(self, base: int) -> float:
        """``||W o base||_F``."""
        return self.weighted(base).norm

    def weighted(self, base: int) -> LowRankSymmetric:
        """``W o base``, computed once."""
        if base not in self._weighted:
            factor = self.factor(base)
            self._weighted[base] = self.W.hadamard(factor, rank=self.rank, tolerance=self.tolerance)
        return self._weighted[base]


#: A round as engines are asked of it.
AnyQuestion = Question | LowRankQuestion


@dataclass(frozen=True, slots=True)
class RoundState(Movable):
    """State of a round: ``A / scale`` for the bases that an engine needs, ``A = W o base``.

    Attributes
    ----------
    A : dict of Quadratic or LowRankQuadratic
        By base, in the working dtype.
    row_sums : dict of (m,) float64
        Of A / scale.
    norms : dict of float
        ``||A||_F``, or close upper bounds.
    scale : float
        Keeps float32 far from its smallest numbers.
    definition
        What the definition needs, where some feature needs that.
    remainder : Remainder or None
        What the series of a radial kernel leaves out, where features are told apart by it.
    """

    kernel: AbstractKernel
    sigma: float
    n_samples: int
    A: Mapping[int, Any]
    row_sums: Mapping[int, Array]
    norms: Mapping[int, float]
    scale: float
    definition: Any = None
    remainder: Remainder | None = None

    def norm(self, base: int) -> float:
        """``||A||_F``, as the question has it."""
        return self.norms[base]

    @staticmethod
    def of(
        question: AnyQuestion,
        bases: Iterable[int],
        dtype: Any,
        *,
        scaled: bool = True,
        definition: Any = None,
        remainder: Remainder | None = None,
    ) -> RoundState:
        """Of these bases, cast to the working dtype; `scaled` by the size of the largest."""
        weighted = {base: question.weighted(base) for base in sorted(set(bases))}
        scale = 1.0
        if scaled and weighted:
            scale = max(A.norm for A in weighted.values()) / question.n_samples or 1.0
        return RoundState(
            question.kernel,
            question.sigma,
            question.n_samples,
            {base: A.form(scale, dtype) for base, A in weighted.items()},
            {base: A.row_sums / scale for base, A in weighted.items()},
            {base: question.norm(base) for base in weighted},
            scale,
            definition,
            remainder,
        )


class AbstractEngine(ABC):
    """Turns a question into scores of features; a value, cheap to make."""

    @property
    def name(self) -> str:
        """What records of rounds call it."""
        return type(self).__name__.lower()

    @property
    def is_final(self) -> bool:
        """Whether it has the last word on a gain."""
        return True

    @abstractmethod
    def prepare(self, question: Any) -> Any:
        """State for a round: what is broadcast to the workers."""

    @abstractmethod
    def score(self, state: Any, X: Array, facts: FeatureStats) -> Float:
        """Gains of c features, float64 (c,); X is (c, m), a feature a row, standardised.

        X is of the namespace and on the device of the state; facts and gains are NumPy's. An
        engine that measures the error of each gain gives that besides, (c, 2).
        """

    def error(self, question: Any, facts: FeatureStats, gains: Float) -> Float:
        """Bound on the error of `score` for each feature, given (a guess of) the gains, (c,).

        Zeros for engines that leave nothing out: the tolerance for ties covers their rounding.
        """
        return np.zeros_like(gains)

    def products(self, question: Any, facts: FeatureStats) -> int:
        """Columns of products ``A X^p`` that the formulas take for these features, all told."""
        return 0


class AbstractSplitEngine(AbstractEngine):
    """Scores each feature in a way of its own: they are split by it, and the parts put together."""

    @abstractmethod
    def ways(self, known: Any, facts: FeatureStats) -> Iterator[tuple[Any, Mask]]:
        """Ways and the features that go them, (c,) each; every feature goes one.

        `known` is the question or its state; the way of the definition is called "direct".
        """

    @abstractmethod
    def one_way(self, way: Any, state: RoundState, X: Array, facts: FeatureStats) -> Float:
        """Gains, as of `score`, of features that all go one way."""

    @abstractmethod
    def columns(self, way: Any, known: Any, facts: FeatureStats) -> int:
        """Columns of products that features take which all go one way."""

    @final
    def score(self, state: RoundState, X: Array, facts: FeatureStats) -> Float:
        gains = np.empty(0)
        for way, which in self.ways(state, facts):
            some = X if which.all() else taken(X, which)
            part = self.one_way(way, state, some, facts.take(which))
            gains = gains if gains.size else np.empty((X.shape[0], *part.shape[1:]))
            gains[which] = part
        return gains

    @final
    def products(self, question: Any, facts: FeatureStats) -> int:
        ways = self.ways(question, facts)
        return sum(self.columns(way, question, facts.take(which)) for way, which in ways)

    @final
    def definitions(self, question: Any, facts: FeatureStats) -> int:
        """Features that are scored by the definition."""
        ways = self.ways(question, facts)
        return sum(int(which.sum()) for way, which in ways if way == "direct")


def one_by_one(X: Array, gain: Callable[[Float], Float]) -> Float:
    """Gains of the features X (c, m), each by itself in float64; `gain` takes x (m,)."""
    gains = zeros(X.shape[0], like=X)
    for j in range(X.shape[0]):
        gains[j] = gain(cast(X[j, :], np.float64))
    return host(gains)

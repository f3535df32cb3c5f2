r"""The scoring problem of a round, and the matrices prepared for it.

It is line 4 of Algorithm 1: for every surviving feature j compute

    ``HSIC(sigma, S without j) - HSIC(sigma, S) = <W, K(S without j) - K(S)>``.

Only the difference is computed: the two values differ by about 1/|S|, so their difference would be
lost in rounding. The difference is called the *gain* of removing j; the features with the largest
gains are removed. Algorithm 2 computes the gain of features that are added. The scoring problem of
a round uses all pairs of samples (`ScoringProblem`). If W and K are of low rank, it takes linear
time (`LowRankScoringProblem`). In both cases engines need ``A = W o base`` for base matrices of the
kernel.

The remainder of a radial kernel's series is bounded with the distances between samples
(`Remainder`). The part ``R_P(z, t) = kappa(z - t) - sum_{p <= P} c_p(z) t^p`` of a completely
monotone profile is a power series in t, from ``t^(P+1)`` on, with positive coefficients that
decrease in z. Here ``t = sigma (x_i - x_i')^2`` is at most ``tau = min(c, z)``, ``c = 4 sigma
max_abs^2``, so ``R_P(z, t) <= t R_P(z, tau) / tau``, and by Cauchy and Schwarz the remainder of a
gain is

    ``sum |W| R_P <= ||W o R_P(z, tau) / tau||_F (sum t^2)^(1/2)``,

where ``sum t^2 <= 8 sigma^2 m^2 mean(x^4)`` for centred features. The norm is computed from the
sums of ``W_ij^2`` over narrow ranges of z, for any c; it takes one pass over the pairs of samples.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.kernels.bandwidth import hsic_value
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.radial import AbstractRadial
from dhsic.kernels.ridge import AbstractMatrixFunction, Resolvent
from dhsic.kernels.statistic import STRIP, WIDTH, Statistic
from dhsic.linalg.quadratic import NARROW, Each, LowRankQuadratic, Quadratic, Triangle, WorkBuffer
from dhsic.linalg.symmetric import LowRankSymmetric
from dhsic.namespace import Movable, slices

#: Number of ranges of z per factor of two; and number of ranges below 1, and above 1.
PER_OCTAVE, REACH = 16, 200 * 16
#: Number of values of c per factor of two: c is rounded up to them, so that features share bounds.
STEPS = 4
#: Rounding error of a difference of profiles, which are 1 at 0.
ROUNDING = 1e-14


@dataclass(frozen=True, slots=True, eq=False)
class Remainder:
    """Bound on the remainder of a radial kernel's series, from the distances between samples.

    `squares` contains sums of ``W_ij^2`` over pairs of samples, one sum for each of several ranges
    of the scaled squared distance ``z_ij``. Pairs with z = 0 are omitted, because their remainder
    is 0.
    """

    kernel: AbstractRadial
    sigma: float
    n_samples: int
    low: Float  # (n,), lower ends of the non-empty ranges
    high: Float
    squares: Float  # (n,)

    @staticmethod
    def of(
        kernel: AbstractRadial, sigma: float, W: Float, statistic: Statistic, each: Each
    ) -> Remainder:
        """Sum ``W_ij^2`` over ranges of distances, tile by tile, and create the bound.

        `statistic` contains the inner products of samples; `each` maps a function over tiles.
        """
        norms = statistic.diagonal

        def count(place: tuple[slice, slice, Float]) -> Float:
            rows, columns, inner = place
            z = kernel.scaled(inner, norms[rows], norms[columns], sigma).ravel()
            squares = np.square(W[rows, columns]).ravel() * (1 if rows == columns else 2)
            differ = z > 0
            at = np.floor(PER_OCTAVE * np.log2(z[differ])).clip(-REACH, REACH) + REACH
            counted = np.bincount(at.astype(np.int64), squares[differ], 2 * REACH + 1)
            return np.asarray(counted, dtype=np.float64)

        total = np.zeros(2 * REACH + 1)
        for part in each(count, statistic.tiles()):
            total += part
        non_empty = np.flatnonzero(total)
        # The factors allow for rounding; the outermost ranges are unbounded:
        low = 2.0 ** ((non_empty - REACH) / PER_OCTAVE) * (1 - 1e-12)
        high = 2.0 ** ((non_empty - REACH + 1) / PER_OCTAVE) * (1 + 1e-12)
        low[non_empty == 0], high[non_empty == 2 * REACH] = 0.0, np.inf
        return Remainder(kernel, float(sigma), statistic.n_samples, low, high, total[non_empty])

    def norm(self, order: int) -> float:
        """Close upper bound on the norm ``||W o c_p||_F``, p = `order`.

        W are label weights, and c_p the coefficients of order p of the kernel's power series, one
        per pair of samples.
        """
        with np.errstate(all="ignore"):
            c = self.kernel.coefficient(order, self.low)
            return float(np.nan_to_num(np.sqrt(self.squares @ c**2), nan=np.inf))

    def neglected(self, order: int, max_abs: Float, fourth_moment: Float) -> Float:
        """Bound on the errors of scores if the kernel's series is truncated after `order`, (c,).

        `max_abs` and `fourth_moment` are statistics of the c features.
        """
        with np.errstate(all="ignore"):
            steps = np.ceil(STEPS * np.log2(4 * self.sigma * max_abs**2))
            values, place = np.unique(steps, return_inverse=True)
            norms = np.array([self._remainder_norm(order, 2.0 ** (v / STEPS)) for v in values])
            size = self.sigma * np.sqrt(8 * fourth_moment) * self.n_samples
            return np.nan_to_num(norms[place] * size, nan=np.inf, posinf=np.inf)

    def _remainder_norm(self, order: int, c: float) -> float:
        """Bound on ``||W o R_P(z, tau) / tau||_F`` (see the module docstring), P = `order`.

        W are label weights, and R_P the remainder of the kernel's series at scaled distances z. The
        bound uses the largest value of R_P in each range of z. R_P decreases in z, so if c is below
        a range, the largest value is at its lower end. If tau = z, the subtracted terms are
        smallest at the upper end.
        """
        kernel, low, high = self.kernel, self.low, self.high
        below = c < low
        tau, at = np.minimum(c, low), np.where(below, low, high)
        largest = kernel.profile(np.zeros_like(high)) - np.nan_to_num(kernel.profile(high))
        total = np.where(below, kernel.change(low, tau), largest)
        terms = [np.nan_to_num(kernel.coefficient(p, at)) * tau**p for p in range(1, order + 1)]
        R = total - np.sum(terms, axis=0) + ROUNDING
        after = kernel.coefficient(order + 1, low - tau) * tau ** (order + 1)  # Lagrange's form
        R = np.maximum(np.where(below, np.fmin(R, after), R), 0.0)
        return float(np.sqrt(self.squares @ (R / tau) ** 2))


@dataclass(frozen=True, slots=True)
class FeatureStats:
    """Statistics of c features, (c,) each, that engines need in addition to the values."""

    max_abs: Float  # max_i |x_i| of the standardised feature
    fourth_moment: Float  # mean_i x_i^4
    n_levels: Array  # uint8, number of distinct values; 0 if there are many

    def take(self, which: Index | Array) -> FeatureStats:
        """Return the statistics of the features `which` only."""
        return FeatureStats(self.max_abs[which], self.fourth_moment[which], self.n_levels[which])


@dataclass(frozen=True)
class ScoringProblem:
    """Scoring problem of a round: kernel, sigma, label weights W (m, m), and the statistic.

    The statistic contains the inner products of samples. `each` maps a function over tiles, in
    order, possibly in parallel. Matrices are stored in `rooms`, one buffer per base matrix (term of
    the kernel's series), which the next round reuses. Matrices computed from a float32 W are
    float32.
    """

    kernel: AbstractKernel
    sigma: float
    W: Float
    statistic: Statistic
    each: Each = map
    rooms: defaultdict[int, WorkBuffer] = field(
        default_factory=lambda: defaultdict(WorkBuffer), repr=False
    )
    _weighted: dict[int, Triangle] = field(default_factory=dict, init=False, repr=False)
    _forms: dict[tuple[int, str], tuple[float, Quadratic]] = field(
        default_factory=dict, init=False, repr=False
    )

    @property
    def n_samples(self) -> int:
        return len(self.W)

    @property
    def is_single(self) -> bool:
        """Whether the label weights times the terms of the kernel's series are in float32."""
        return self.W.dtype == np.float32

    @cached_property
    def hsic(self) -> float:
        """HSIC between the labels and the features of the round, ``<W, K>``.

        W are the label weights, and K is the kernel matrix.
        """
        if self.kernel.scored_by == "matrix":
            return float(np.vdot(self.W, self.resolvent.smoother))
        if self.kernel.has_bandwidth and self.kernel.scored_by != "taylor":
            return float(self.weighted(0).row_sums.sum())  # the only base of these kernels is K
        return hsic_value(self.kernel, self.sigma, self.W, self.statistic)

    @cached_property
    def remainder(self) -> Remainder:
        """Bound on the remainder of a radial kernel's series, from the distances of samples."""
        kernel = AbstractRadial.of(self.kernel)
        return Remainder.of(kernel, self.sigma, self.W, self.statistic, self.each)

    @cached_property
    def resolvent(self) -> Resolvent:
        """Inverse ``(K + lambda I)^-1``, for kernels that are a function of the kernel matrix K."""
        return AbstractMatrixFunction.of(self.kernel).resolvent(
            self.statistic.to_dense(), self.sigma
        )

    def neglected(self, order: int, facts: FeatureStats) -> Float:
        """Bound on the errors of scores if the kernel's series is truncated after `order`, (c,).

        `facts` are statistics of the c features.
        """
        if self.kernel.scored_by == "taylor":
            return self.remainder.neglected(order, facts.max_abs, facts.fourth_moment)
        expansion = self.kernel.expansion(order, self.sigma)
        if expansion.remainder is None:
            return np.zeros_like(facts.max_abs)
        remainder = expansion.remainder(facts.max_abs, facts.fourth_moment)
        return self.n_samples * self.norm(expansion.terms[0].base) * remainder

    def norm(self, base: int) -> float:
        """Norm ``||W o base||_F``, or a close upper bound if this avoids computing the product.

        W are label weights; `base` is the number of a base matrix (term of the kernel's series).
        """
        taylor = self.kernel.scored_by == "taylor"
        return self.remainder.norm(base) if taylor else self.weighted(base).norm

    def weighted(self, base: int) -> Triangle:
        """Matrix ``W o base``, computed once, tile by tile over one triangle.

        W are label weights; `base` is the number of a base matrix (term of the kernel's series).
        """
        if base not in self._weighted:
            self._weighted[base] = self._weigh(base)
        return self._weighted[base]

    def form(self, base: int, scale: float, dtype: Any) -> Quadratic:
        """Matrix ``W o base / scale`` for quadratic forms; the last one of each base is cached.

        W are label weights; `base` is the number of a base matrix (term of the kernel's series).
        """
        key = base, np.dtype(dtype).name
        if key not in self._forms or self._forms[key][0] != scale:
            form = self.weighted(base).form(scale, dtype, self.each, self.rooms[base])
            self._forms[key] = scale, form
        return self._forms[key][1]

    def _weigh(self, base: int) -> Triangle:
        m, dtype = self.n_samples, self.W.dtype
        T, row_sums, squares = self.rooms[base].array("T", (m, m), dtype), np.zeros(m), 0.0
        norms, ones = self.statistic.diagonal.astype(dtype), np.ones(m, dtype)
        once = np.tri(min(STRIP, m), dtype=dtype) - np.eye(min(STRIP, m), dtype=dtype) / 2
        above = once == 0
        # Longest strips first; the last columns of a strip are a square on the diagonal:
        strips = [
            (rows, part) for rows in slices(m, STRIP)[::-1] for part in slices(rows.stop, WIDTH)
        ]

        def weigh(place: tuple[slice, slice]) -> tuple[slice, slice, Float, Float, float]:
            rows, columns = place
            inner, n = self.statistic.upper.T[rows, columns], rows.stop - rows.start
            if is_last := rows.stop == columns.stop:  # entries above the diagonal are undefined
                np.copyto(inner[:, -n:], 0.0, where=above[:n, :n])
            inner = inner.astype(dtype, copy=False)
            tile = self.kernel.base(base, inner, norms[rows], norms[columns], self.sigma)
            tile = np.multiply(tile, self.W[rows, columns], out=T[rows, columns])
            if is_last:
                tile[:, -n:] *= once[:n, :n]
                T[rows, rows.stop : -(-rows.stop // NARROW) * NARROW] = 0.0
            across, down = tile @ ones[columns], ones[rows] @ tile
            return rows, columns, across, down, float(np.vecdot(tile, tile).sum(dtype=np.float64))

        for rows, columns, across, down, square in self.each(weigh, strips):
            row_sums[rows] += across
            row_sums[columns] += down
            squares += square
        squares += float(np.vdot(d := np.diagonal(T), d))  # the diagonal of T is halved
        return Triangle(T, row_sums, float(np.sqrt(2.0 * squares)))


@dataclass(frozen=True)
class LowRankScoringProblem:
    """Scoring problem of a round with label weights W and kernel matrix K of low rank.

    Then ``A = W o base`` has low rank for each base matrix, a term of the kernel's series. The
    function `factor` takes the number of a base matrix, and returns its low-rank form, which has
    the exact diagonal. A has at most `rank` directions. Its compression may lose a fraction
    `tolerance` of A (default: the rounding error of float32).
    """

    kernel: AbstractKernel
    sigma: float
    W: LowRankSymmetric
    factor: Callable[[int], LowRankSymmetric]
    rank: int | None = None
    tolerance: float = 1e-8
    is_single: ClassVar[bool] = False
    _weighted: dict[int, LowRankSymmetric] = field(default_factory=dict, init=False, repr=False)

    @property
    def n_samples(self) -> int:
        return self.W.n_samples

    @cached_property
    def hsic(self) -> float:
        return float(self.W.hadamard_sums(self.factor(0)).sum())

    def norm(self, base: int) -> float:
        return self.weighted(base).norm

    def weighted(self, base: int) -> LowRankSymmetric:
        if base not in self._weighted:
            factor = self.factor(base)
            self._weighted[base] = self.W.hadamard(factor, rank=self.rank, tolerance=self.tolerance)
        return self._weighted[base]

    def form(self, base: int, scale: float, dtype: Any) -> LowRankQuadratic:
        """Matrix ``W o base / scale`` as low-rank quadratic forms.

        W are label weights; `base` is the number of a base matrix (term of the kernel's series).
        """
        return self.weighted(base).form(scale, dtype)

    def suppose(self, base: int, A: LowRankSymmetric) -> None:
        """Set the label weights times base matrix `base` to A, without computing it (for plans).

        Base matrices are the terms of the kernel's series.
        """
        self._weighted[base] = A


#: Scoring problem of a round, for engines.
AnyQuestion = ScoringProblem | LowRankScoringProblem


@dataclass(frozen=True, slots=True)
class RoundState(Movable):
    """State of a round for an engine: the matrices ``A / scale``, ``A = W o base``.

    W are label weights; base matrices are the terms of the kernel's series, and their numbers are
    the keys of mappings. The scale prevents underflow in float32. `definition` is the state for
    direct evaluation of HSIC; it is set if some features need it. `remainder` determines for which
    features the series is accurate enough; it is set if a radial kernel needs it.
    """

    kernel: AbstractKernel
    sigma: float
    n_samples: int
    A: Mapping[int, Any]  # Quadratic or LowRankQuadratic, in the working dtype
    row_sums: Mapping[int, Array]  # (m,) float64, row sums of A / scale
    norms: Mapping[int, float]  # ||A||_F, or close upper bounds
    scale: float
    definition: Any = None
    remainder: Remainder | None = None

    def norm(self, base: int) -> float:
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
        """Create the state for these base matrices (terms of the kernel's series), in a dtype.

        If `scaled`, the scale is the largest norm of ``A = W o base`` (label weights times a base
        matrix) divided by the number of samples. Otherwise, and if the scoring problem is in
        float32, it is 1.
        """
        weighted = {base: question.weighted(base) for base in sorted(set(bases))}
        scale = 1.0
        if scaled and weighted and not question.is_single:
            scale = max(A.norm for A in weighted.values()) / question.n_samples or 1.0
        return RoundState(
            question.kernel,
            float(question.sigma),  # a NumPy number would convert float32 arrays to float64
            question.n_samples,
            {base: question.form(base, scale, dtype) for base in weighted},
            {base: A.row_sums / scale for base, A in weighted.items()},
            {base: question.norm(base) for base in weighted},
            scale,
            definition,
            remainder,
        )

r"""Gains of candidates in forward selection (line 4 of Algorithm 2), a block at a time.

    ``HSIC(sigma, S + j) - HSIC(sigma, S) = <W, K(S + j) - K(S)>``

for every candidate j. With ``A = W o K(S)``, for a kernel that is a product over features, this is
``<A, k(x, y) - 1>``, where x and y are the values of the feature in two samples. With
``h(x) = k(x, 0) - 1`` it is decomposed as

    ``k(x, y) - 1 = h(x) + h(y) + R(x, y)``,    ``R(x, y) = k(x, y) - k(x, 0) - k(0, y) + 1``,

and R is again positive definite. With few selected features the kernel is narrow, and a series in
``x y`` would be long. So R is expanded on the range of the data: its coefficients in products of
Chebyshev polynomials are decomposed,

    ``R(x, y) = sum_q f_q(x) f_q(y)``,    ``f_q(x) = sqrt(mu_q) sum_n Q_nq T_n(x / range)``,

the largest mu first. All terms are squares, so nothing cancels. The remainder of a truncated sum on
the diagonal bounds the remainder everywhere: ``R_r(x, y)^2 <= R_r(x, x) R_r(y, y)``. So

    ``<A, k(x, y) - 1> = 2 h' A 1 + sum_q f_q' A f_q``,

one quadratic form per term. If the feature has few distinct values, pairs of levels are summed
instead; the linear and the polynomial kernel have exact expansions. In all other cases the
definition is used.

A score comes with a bound on its error: the remainder of R for this feature, and rounding errors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from dhsic._typing import Array, Float, Mask
from dhsic.engines import AbstractSplitEngine
from dhsic.engines.dense import by_terms, rounding_of, rounding_of_terms
from dhsic.engines.direct import Direct
from dhsic.engines.levels import level_gains, level_products
from dhsic.engines.scoring_problem import (
    AnyQuestion,
    FeatureStats,
    LowRankScoringProblem,
    RoundState,
)
from dhsic.errors import InputError
from dhsic.kernels.base import AbstractKernel, Expansion
from dhsic.namespace import cast, host, namespace_of, slices, to_namespace, zeros

#: Maximum mean remainder of R in the final engine, at the level of rounding errors.
NOTHING = 1e-14
#: Maximum number of terms; with more, the definition is at least as cheap.
LONGEST_SUM = 128
#: Number of functions of features, (m,) each, that are processed together, so that they stay in the
#: cache.
ROWS = 384
#: Degrees to try; the lowest one that resolves the kernel is used.
DEGREES = (8, 12, 16, 24, 32, 48, 64, 96, 144, 216)
#: Maximum coefficient, relative to the largest, that counts as 0 when the degree is chosen.
RESOLVED = 1e-14
#: Ranges are rounded up to powers of this factor, so that features share expansions.
STEP = 2**0.5
#: Number of points at which the remainder is evaluated.
POINTS = 257


@dataclass(frozen=True, eq=False)
class Separable:
    """Expansion ``R(x, y) = sum_q f_q(x) f_q(y)`` for values in ``[-range, range]``."""

    range: float
    coefficients: Float  # (r, n), ``sqrt(mu_q) Q_nq``, the largest mu first
    left: Float  # (r + 1,), mean of R(x, x) over the range that 0, 1, ... r terms leave out

    def n_terms(self, tolerance: float) -> int:
        """Lowest number of terms for which the mean remainder of R is at most `tolerance`."""
        return int(np.argmax(self.left <= max(tolerance, float(self.left[-1]))))

    def functions(self, X: Array, n_terms: int) -> Array:
        """Evaluate the first r = `n_terms` functions f_q at X (c, m), in its dtype: (r, c, m)."""
        xp = namespace_of(X)
        n = self.coefficients.shape[1]
        t = X * (1.0 / self.range)
        polynomials = [xp.ones_like(t), t]
        for _ in range(2, n):
            polynomials.append(2.0 * t * polynomials[-1] - polynomials[-2])
        stacked = xp.reshape(xp.stack(polynomials[:n]), (n, -1))  # (n, c m)
        Q = self.coefficients[:n_terms].astype(str(X.dtype).split(".")[-1])
        Q = Q if xp is np else to_namespace(Q, xp, X.device)
        f: Array = xp.reshape(Q @ stacked, (n_terms, *X.shape))
        return f


def separable(kernel: AbstractKernel, sigma: float, max_abs: float) -> Separable | None:
    """Expansion of R (see the module docstring) for feature values up to `max_abs`.

    Returns None if too many terms would be needed. The kernel must be a product over features.
    """
    return _separable(kernel, float(sigma), float(STEP ** _steps(max_abs)))


def _steps(max_abs: Any) -> Any:
    """Smallest exponents e with ``STEP^e >= max_abs``.

    There is one for each magnitude in `max_abs`.
    """
    return np.ceil(np.log(np.maximum(max_abs, 1e-300)) / np.log(STEP))


@lru_cache(maxsize=512)
def _separable(kernel: AbstractKernel, sigma: float, wide: float) -> Separable | None:
    for n in DEGREES:
        angles = np.pi * (np.arange(n) + 0.5) / n
        x = wide * np.cos(angles)  # Chebyshev points
        transform = 2.0 / n * np.cos(np.arange(n)[:, None] * angles[None, :])
        transform[0] *= 0.5
        C = transform @ beyond_zero(kernel, x[:, None], x[None, :], sigma) @ transform.T
        C = (C + C.T) / 2  # coefficients of R in T_i(x) T_j(y)
        if np.abs(C[-2:]).max() <= RESOLVED * np.abs(C).max():
            return _decomposed(kernel, sigma, wide, C)
    return None


def _decomposed(kernel: AbstractKernel, sigma: float, wide: float, C: Float) -> Separable:
    mu, Q = np.linalg.eigh(C)
    order = np.argsort(-mu)
    positive = order[mu[order] > np.finfo(float).eps * mu[order[0]]]
    coefficients = np.sqrt(mu[positive])[:, None] * Q[:, positive].T
    x = np.linspace(-wide, wide, POINTS)
    polynomials = np.cos(np.arange(len(C))[:, None] * np.arccos(x / wide))
    parts = np.square(coefficients @ polynomials).mean(axis=1)  # mean of f_q^2
    diagonal_mean = float(beyond_zero(kernel, x, x, sigma).mean())
    remainders = np.maximum(diagonal_mean - np.concatenate([[0.0], np.cumsum(parts)]), 0.0)
    return Separable(wide, coefficients, np.minimum.accumulate(remainders))


def beyond_zero(kernel: AbstractKernel, x: Array, y: Array, sigma: float) -> Array:
    """Compute R(x, y): ``k(x, y) - 1`` minus ``k(x, 0) - 1`` and ``k(0, y) - 1``.

    x and y are arrays that can be broadcast.
    """
    R = _less_one(kernel, x - y, sigma) - _less_one(kernel, x, sigma) - _less_one(kernel, y, sigma)
    return np.asarray(R)


def _less_one(kernel: AbstractKernel, difference: Array, sigma: float) -> Array:
    """Kernel values minus 1, ``k - 1``, for differences of two values of a feature.

    They are computed by the `factor` of the kernel with ``-sigma``; with sigma, it describes the
    removal of a feature.
    """
    return kernel.factor(difference * difference, -sigma)


#: Way to score a feature: by exact terms, by functions f_q, by its levels, or by the definition.
Way = Expansion | Separable | Literal["levels", "direct"]
#: Source of the kernel and its parameters: a round's scoring problem, or its state on a worker.
Known = AnyQuestion | RoundState


@dataclass(frozen=True)
class Increment(AbstractSplitEngine):
    """Engine that scores features to be added; returns gains and error bounds, (c, 2).

    The gain of a feature is the change of HSIC with it.
    """

    #: Maximum mean remainder of R over the range of a feature, times m; 0: as small as rounding.
    share: float = 0.0
    dtype: Any = "float64"
    with_direct: bool = False  # whether to prepare the definition, which some features may need

    @property
    def name(self) -> str:
        return f"float32, leaving {self.share:.3g}" if self.share else "exact"

    @property
    def is_final(self) -> bool:
        return not self.share

    def prepare(self, question: AnyQuestion) -> RoundState:
        exact = question.kernel.addition()
        product = {0} if question.kernel.is_product else set()
        bases = {t.base for t in exact.terms} if exact is not None else product
        definition = self._definition(question) if self.with_direct else None
        return RoundState.of(question, bases, self.dtype, definition=definition)

    def one_way(self, way: Way, state: RoundState, X: Array, facts: FeatureStats) -> Float:
        if isinstance(way, Separable):
            return self._by_functions(state, way, X)
        if way == "direct":
            assert state.definition is not None, "prepared for features that need it"
            gains = Direct(joining=True).score(state.definition, X, facts)
            return np.stack([gains, np.zeros_like(gains)], axis=1)
        if isinstance(way, Expansion):
            gains = by_terms(state, way, X, self.dtype)
        else:
            gains = level_gains(state, X, facts.n_levels, -state.sigma, self.dtype)
        return np.stack([gains, self._rounding(state, way, facts)], axis=1)

    def error(self, question: AnyQuestion, facts: FeatureStats, gains: Float) -> Float:
        """Bound on truncation and rounding errors of `score`, computed before it runs, (c,)."""
        out = np.zeros_like(gains)
        m, tolerance = question.n_samples, self._tolerance(question.n_samples)
        for way, which in self.ways(question, facts):
            out[which] = self._rounding(question, way, facts.take(which))
            if isinstance(way, Separable):
                out[which] += question.norm(0) * m * way.left[way.n_terms(tolerance)]
        return out

    def columns(self, way: Way, known: AnyQuestion, facts: FeatureStats) -> int:
        if isinstance(way, Expansion):
            return len(way.terms) * len(facts.max_abs)
        if isinstance(way, Separable):
            return way.n_terms(self._tolerance(known.n_samples)) * len(facts.max_abs)
        return level_products(facts.n_levels) if way == "levels" else 0

    def ways(self, known: Known, facts: FeatureStats) -> Iterator[tuple[Way, Mask]]:
        kernel, exact = known.kernel, known.kernel.addition()
        if exact is not None or not kernel.is_product:
            yield exact or "direct", np.ones(len(facts.max_abs), dtype=bool)
            return
        tolerance, steps = self._tolerance(known.n_samples), _steps(facts.max_abs)
        for number in np.unique(steps):
            here = steps == number
            basis = separable(kernel, known.sigma, float(STEP**number))
            n = basis.n_terms(tolerance) if basis is not None else LONGEST_SUM + 1
            few = here & (facts.n_levels > 0) & (facts.n_levels - 1.0 <= n)
            many_levels = here & ~few
            if few.any():
                yield "levels", few
            if many_levels.any():
                yield "direct" if basis is None or n > LONGEST_SUM else basis, many_levels

    def _tolerance(self, m: int) -> float:
        """Largest allowed mean remainder of R over the range of a feature, for m samples."""
        return self.share / m if self.share else NOTHING

    def _definition(self, question: AnyQuestion) -> Any:
        if isinstance(question, LowRankScoringProblem):
            raise InputError(
                f"At sigma={question.sigma:.3g} the values of some features are too large for an "
                "expansion, and direct scoring needs m x m matrices. Pass standardize=True, "
                "rank-transform the features, or pass solver='exact' if there is enough memory."
            )
        return Direct(joining=True).prepare(question)

    def _rounding(self, known: Known, way: Way, facts: FeatureStats) -> Float:
        """Bound on the rounding errors of scores, (c,), of features scored in the given way."""
        if isinstance(way, Expansion):
            norms = {t.base: known.norm(t.base) for t in way.terms}
            return rounding_of_terms(way, norms, known.n_samples, self.dtype, facts)
        # Size of k - 1:
        size = np.minimum(4.0, 8 * known.sigma * np.sqrt(facts.fourth_moment))
        return np.asarray(known.norm(0) * rounding_of(known.n_samples, self.dtype) * size)

    def _by_functions(self, state: RoundState, way: Separable, X: Array) -> Float:
        """Gains and error bounds, (c, 2), of features X (c, m), from the functions f_q of `way`."""
        r = way.n_terms(self._tolerance(state.n_samples))
        parts = slices(X.shape[0], max(1, ROWS // max(r, 1)))
        return np.concatenate([self._few(state, way, r, X[part, :]) for part in parts])

    def _few(self, state: RoundState, way: Separable, r: int, X: Array) -> Float:
        xp = namespace_of(X)
        c, m = X.shape
        h = _less_one(state.kernel, cast(X, np.float64), state.sigma)  # (c, m)
        gains = 2.0 * xp.vecdot(h, state.row_sums[0])
        trace = -2.0 * xp.sum(h, axis=1)  # sum_i R(x_i, x_i)
        captured = zeros(c, like=X)
        if r:
            f = xp.reshape(way.functions(cast(X, self.dtype), r), (r * c, m))
            gains = gains + xp.sum(xp.reshape(state.A[0].forms(f), (r, c)), axis=0)
            squares = cast(xp.vecdot(f, f), np.float64)
            captured = xp.sum(xp.reshape(squares, (r, c)), axis=0)
        remainder = np.maximum(host(trace - captured), 0.0)
        rounding = host(trace) / m + 2.0 * host(xp.sqrt(xp.vecdot(h, h) / m))
        bound = state.norm(0) * (remainder + rounding_of(m, self.dtype) * rounding)
        return np.stack([state.scale * host(gains), bound], axis=1)

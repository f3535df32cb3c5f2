r"""Gains of features that join: line 4 of Algorithm 2, a block at a time.

    ``HSIC(sigma, S + j) - HSIC(sigma, S) = <W, K(S + j) - K(S)>``

for every candidate j. With ``A = W o K(S)`` a kernel that is a product over features asks for

    ``<A, k(x, y) - 1> = 2 h' A 1 + sum_q f_q' A f_q``

(`dhsic.engines.separable`), one quadratic form a term, or for the pairs of its levels where the
feature has few values; the linear and the polynomial kernel have exact expansions. Where neither
is to be had, the definition scores.

A score comes with a bound on its error: what the terms left out hold of R, feature by feature, and
rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dhsic._typing import Array, Float, Mask
from dhsic.engines.base import AbstractEngine, FeatureStats, Question
from dhsic.engines.compact import ThinQuestion
from dhsic.engines.dense import DEVIATIONS, PARTIAL_SUM
from dhsic.engines.direct import Direct, DirectState
from dhsic.engines.levels import level_gains
from dhsic.engines.separable import STEP, Separable, against_zero, separable
from dhsic.errors import InputError
from dhsic.kernels.base import AbstractKernel, Expansion
from dhsic.linalg.quadratic import AnyQuadratic
from dhsic.namespace import Movable, cast, host, namespace_of, slices, taken, zeros

#: Part of R that the last engine leaves out: rounding.
NOTHING = 1e-14
#: Longest sums of products; beyond them the definition is no dearer.
LONGEST = 128
#: Products of a feature and a function that are in the cache together.
ROWS = 384


#: What the engine asks of a round is answered from matrices or from few directions.
IncrementQuestion = Question | ThinQuestion


@dataclass(frozen=True, slots=True)
class IncrementState(Movable):
    """State of a round: ``A / scale`` per base in the working dtype, row sums in float64.

    Attributes
    ----------
    A : dict of AnyQuadratic
        Weighted base matrices, divided by `scale`.
    row_sums : dict of (m,) float64
        Their row sums, likewise.
    norms : dict of float
        Their Frobenius norms, likewise.
    direct : DirectState or None
        What the definition needs, where some feature needs that.
    """

    kernel: AbstractKernel
    sigma: float
    A: dict[int, AnyQuadratic]
    row_sums: dict[int, Array]
    norms: dict[int, float]
    scale: float
    direct: DirectState | None


@dataclass(frozen=True)
class Increment(AbstractEngine):
    """Gains of joining features, (c, 2): gain and a bound on its error.

    Parameters
    ----------
    tolerance : float
        Part of R that may be left out, on average over the range of a feature.
    dtype : float32 or float64
        Of the products.
    with_direct : bool
        Prepare for features that only the definition can score.
    """

    tolerance: float = NOTHING
    dtype: Any = "float64"
    with_direct: bool = False

    def prepare(self, question: IncrementQuestion) -> IncrementState:
        """``A = W o base`` for every base that is asked for."""
        kernel = question.kernel
        exact = kernel.addition()
        bases = sorted({t.base for t in exact.terms}) if exact is not None else [0]
        weighted = {base: question.weighted(base) for base in bases}
        scale = max(w.norm for w in weighted.values()) / question.n_samples or 1.0
        return IncrementState(
            kernel,
            question.sigma,
            {base: w.form(scale, self.dtype) for base, w in weighted.items()},
            {base: w.row_sums / scale for base, w in weighted.items()},
            {base: w.norm / scale for base, w in weighted.items()},
            scale,
            self._definition(question) if self.with_direct else None,
        )

    def score(self, state: IncrementState, X: Array, facts: FeatureStats) -> Float:
        """Gains and bounds of c features, (c, 2)."""
        out = np.zeros((X.shape[0], 2))
        for way, which in ways(state.kernel, state.sigma, facts, self.tolerance):
            part, about = taken(X, which), facts.take(which)
            if way == "direct":
                assert state.direct is not None, "prepared for features that need it"
                out[which, 0] = Direct(joining=True).score(state.direct, part, about)
            elif isinstance(way, Expansion):
                out[which] = state.scale * self._by_terms(state, way, part, about)
            elif isinstance(way, Separable):
                out[which] = state.scale * self._by_functions(state, way, part)
            else:
                out[which] = state.scale * self._by_levels(state, part, about)
        return out

    def _definition(self, question: IncrementQuestion) -> DirectState:
        if not isinstance(question, Question):
            raise InputError(
                f"At sigma={question.sigma:.3g} some features reach too far for an expansion, and "
                "by definition they are scored from m x m matrices only. Pass standardize=True, "
                "rank-transform them, or approx='exact' where the memory is there."
            )
        return Direct(joining=True).prepare(question)

    def error(self, question: IncrementQuestion, facts: FeatureStats, gains: Float) -> Float:
        """Bounds on what `score` will leave out and round, before it runs, (c,)."""
        unit = self._rounding(question.n_samples)
        out = np.zeros_like(gains)
        for way, which in ways(question.kernel, question.sigma, facts, self.tolerance):
            about = facts.take(which)
            if isinstance(way, Expansion):
                norms = {t.base: question.weighted(t.base).norm for t in way.terms}
                out[which] = _rounding_of(way, about, norms, unit)
                continue
            rest = 0.0
            if isinstance(way, Separable):
                rest = question.n_samples * way.left[way.n_terms(self.tolerance)]
            size = _size(question.sigma, about)
            out[which] = question.weighted(0).norm * (rest + unit * size)
        return out

    def products(self, question: IncrementQuestion, facts: FeatureStats) -> int:
        total = 0
        for way, which in ways(question.kernel, question.sigma, facts, self.tolerance):
            if isinstance(way, Expansion):
                total += int(which.sum()) * len(way.terms)
            elif isinstance(way, Separable):
                total += int(which.sum()) * way.n_terms(self.tolerance)
            elif way == "levels":
                total += int((facts.n_levels[which].astype(np.int64) - 1).sum())
        return total

    def _rounding(self, m: int) -> float:
        """Rounding of a sum of m products, over the product of the norms."""
        unit = float(np.finfo(self.dtype).eps) / 2
        return DEVIATIONS * unit * float(np.sqrt(min(m, PARTIAL_SUM)))

    def _by_terms(
        self, state: IncrementState, exact: Expansion, X: Array, facts: FeatureStats
    ) -> Float:
        """By the terms of an exact expansion."""
        X = cast(X, self.dtype)
        gains = zeros(X.shape[0], like=X)
        for term, f in zip(exact.terms, exact.functions(X), strict=True):
            gains += term.coefficient * state.A[term.base].forms(f)
        unit = self._rounding(X.shape[1])
        return np.stack([host(gains), _rounding_of(exact, facts, state.norms, unit)], axis=1)

    def _by_levels(self, state: IncrementState, X: Array, facts: FeatureStats) -> Float:
        """By the pairs of levels, exact."""
        A, sums, sigma = state.A[0], state.row_sums[0], -state.sigma
        gains = level_gains(X, facts.n_levels, A, sums, state.kernel, sigma, self.dtype)
        rounding = self._rounding(X.shape[1]) * state.norms[0] * _size(state.sigma, facts)
        return np.stack([gains, rounding], axis=1)

    def _by_functions(self, state: IncrementState, way: Separable, X: Array) -> Float:
        """By functions of one value, as many as the tolerance asks for."""
        r = way.n_terms(self.tolerance)
        parts = [
            self._few(state, way, r, X[part, :])
            for part in slices(X.shape[0], max(1, ROWS // max(r, 1)))
        ]
        return np.concatenate(parts)

    def _few(self, state: IncrementState, way: Separable, r: int, X: Array) -> Float:
        xp = namespace_of(X)
        c, m = X.shape
        h = against_zero(state.kernel, cast(X, np.float64), state.sigma)  # (c, m)
        gains = 2.0 * xp.vecdot(h, state.row_sums[0])
        whole = -2.0 * xp.sum(h, axis=1)  # sum_i R(x_i, x_i)
        kept = zeros(c, like=X)
        if r:
            f = xp.reshape(way.functions(cast(X, self.dtype), r), (r * c, m))
            gains = gains + xp.sum(xp.reshape(state.A[0].forms(f), (r, c)), axis=0)
            squares = cast(xp.vecdot(f, f), np.float64)
            kept = xp.sum(xp.reshape(squares, (r, c)), axis=0)
        left = np.maximum(host(whole - kept), 0.0)
        rounding = self._rounding(m) * (host(whole) / m + 2.0 * host(xp.sqrt(xp.vecdot(h, h) / m)))
        return np.stack([host(gains), state.norms[0] * (left + rounding)], axis=1)


def ways(
    kernel: AbstractKernel, sigma: float, facts: FeatureStats, tolerance: float
) -> Iterator[tuple[Expansion | Separable | str, Mask]]:
    """Split features by how they are scored: terms, functions, "levels" or "direct"."""
    everyone, exact = np.ones(len(facts.max_abs), dtype=bool), kernel.addition()
    if exact is not None or not kernel.is_product:
        yield exact or "direct", everyone
        return
    ranges = np.ceil(np.log(np.maximum(facts.max_abs, 1e-300)) / np.log(STEP))
    for range_ in np.unique(ranges):
        here = ranges == range_
        basis = separable(kernel, sigma, float(STEP**range_))
        n = basis.n_terms(tolerance) if basis is not None else LONGEST + 1
        few = here & (facts.n_levels > 0) & (facts.n_levels - 1.0 <= n)
        if few.any():
            yield "levels", few
        rest = here & ~few
        if not rest.any():
            continue
        if basis is None or n > LONGEST:
            yield "direct", rest
        else:
            yield basis, rest


def _size(sigma: float, facts: FeatureStats) -> Float:
    """How large ``k - 1`` is to rounding, (c,)."""
    return np.asarray(np.minimum(4.0, 8 * sigma * np.sqrt(facts.fourth_moment)))


def _rounding_of(
    exact: Expansion, facts: FeatureStats, norms: dict[int, float], unit: float
) -> Float:
    """Rounding of an exact expansion, (c,)."""
    sizes = exact.magnitudes(facts.max_abs, facts.fourth_moment)
    parts = [unit * norms[t.base] * size for t, size in zip(exact.terms, sizes, strict=True)]
    return np.asarray(np.sum(parts, axis=0))

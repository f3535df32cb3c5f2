r"""Series engine, which scores a block of features by a product with an m x m matrix.

With ``A = W o base`` the gain of a feature x is ``sum_terms coefficient f(x)' A f(x)``. Products
are computed in the engine's dtype (float32 for speed), sums over samples in float64.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.engines import AbstractEngine
from dhsic.engines.scoring_problem import FeatureStats, RoundState, ScoringProblem
from dhsic.kernels.base import AbstractKernel, Expansion
from dhsic.linalg.quadratic import AnyQuadratic
from dhsic.namespace import cast, host, namespace_of, slices, zeros

#: Number of terms of a partial sum: BLAS starts a new one after this number, so the rounding error
#: of a longer product grows only with the square root of this number.
PARTIAL_SUM = 512
#: Number of samples summed in the working dtype, in which BLAS keeps 32 or more partial sums.
LONGEST_SUM = 8192
#: Minimum number of rows per product, for speed: if features are few, their terms are stacked.
TOGETHER = 384
#: Standard deviations of the accumulated rounding error that the bound covers.
DEVIATIONS = 8.0


@dataclass(frozen=True)
class Dense(AbstractEngine):
    """Engine that sums the kernel's power series up to `order`, with matrix products in `dtype`."""

    order: int
    dtype: Any = "float32"

    @property
    def name(self) -> str:
        return f"order {self.order} {np.dtype(self.dtype)}"

    @property
    def is_final(self) -> bool:
        return False

    def prepare(self, question: ScoringProblem) -> RoundState:
        bases = {t.base for t in question.kernel.expansion(self.order, question.sigma).terms}
        return RoundState.of(question, bases, self.dtype, scaled=np.dtype(self.dtype) != np.float64)

    def score(self, state: RoundState, X: Array, facts: FeatureStats) -> Float:
        return by_terms(state, state.kernel.expansion(self.order, state.sigma), X, self.dtype)

    def error(self, question: ScoringProblem, facts: FeatureStats, gains: Float) -> Float:
        """Bound on the errors of gains, (c,): omitted terms, and 8 deviations of rounding errors.

        The gain of a feature is the change of HSIC without it. If the matrix ``A = W o base``
        (label weights times a term of the kernel's series) has few distinct values, their rounding
        errors do not average out; the error from them is proportional to the gain.
        """
        expansion = question.kernel.expansion(self.order, question.sigma)
        norms = {term.base: question.norm(term.base) for term in expansion.terms}
        unit = float(np.finfo(self.dtype).eps) / 2
        error = DEVIATIONS * unit * np.abs(gains)
        with np.errstate(over="ignore", invalid="ignore"):
            error += rounding_of_terms(expansion, norms, question.n_samples, self.dtype, facts)
            error += question.neglected(self.order, facts)
        return np.nan_to_num(error, nan=np.inf, posinf=np.inf)

    def products(self, question: ScoringProblem, facts: FeatureStats) -> int:
        """Number of columns that are multiplied by an (m, m) matrix to score the features.

        There is one column per feature and order; for radial kernels, one per quadratic form.
        """
        kernel = question.kernel
        if kernel.scored_by == "taylor":
            return len(facts.max_abs) * kernel.expansion(self.order, question.sigma).n_forms
        return len(facts.max_abs) * (kernel.exact_order or self.order)


def by_terms(state: RoundState, expansion: Expansion, X: Array, dtype: Any) -> Float:
    """Compute the gains of features X (c, m) from the terms of a series expansion, (c,) float64.

    The gain of a feature is the change of HSIC without it.
    """
    X = cast(X, dtype)  # (c, m)
    c = X.shape[0]
    gains, together = zeros(c, like=X), max(1, TOGETHER // max(1, c))
    waiting: dict[int, list[tuple[float, Array]]] = {}  # by base
    with np.errstate(over="ignore", invalid="ignore"):  # gains that overflow get an infinite error
        for term, function in zip(expansion.terms, expansion.functions(X), strict=True):
            f = cast(function, dtype)
            if term.linear:
                gains += term.coefficient * _inner(f, cast(state.row_sums[term.base], dtype))
                continue
            stack = waiting.setdefault(term.base, [])
            values = f if together == 1 else namespace_of(f).asarray(f, copy=True)
            stack.append((term.coefficient, values))
            if len(stack) == together:
                gains += _summed(state.A[term.base], waiting.pop(term.base))
        for base, stack in waiting.items():
            gains += _summed(state.A[base], stack)
    return host(gains * state.scale)


def _summed(A: AnyQuadratic, some: list[tuple[float, Array]]) -> Array:
    """Sum quadratic forms ``coefficient f' A f`` by one matrix product, (c,) float64.

    A (m, m) are label weights times a term of the kernel's series expansion. `some` are pairs of a
    coefficient and functions f of the features, (c, m).
    """
    coefficients, functions = zip(*some, strict=True)
    xp = namespace_of(functions[0])
    stacked = xp.concat(functions) if len(some) > 1 else functions[0]
    forms = xp.reshape(A.forms(stacked), (len(some), -1))
    total: Array = sum(coefficient * forms[k, :] for k, coefficient in enumerate(coefficients))
    return total


def rounding_of(m: int, dtype: Any) -> float:
    """Bound on the rounding error (8 deviations) of an inner product of vectors of length m.

    It is relative to the product of the norms.
    """
    unit = float(np.finfo(dtype).eps) / 2
    return DEVIATIONS * unit * float(np.sqrt(min(m, PARTIAL_SUM)))


def rounding_of_terms(
    expansion: Expansion, norms: Mapping[int, float], m: int, dtype: Any, facts: FeatureStats
) -> Float:
    """Bound on the accumulated rounding error of the terms of a series, (c,).

    `norms` are the norms ``||A||_F`` of the matrices ``A = W o base``, by the number of the base
    matrix (term of the kernel's series); W are the label weights.
    """
    error, unit = np.zeros_like(facts.max_abs), rounding_of(m, dtype)
    sizes = expansion.magnitudes(facts.max_abs, facts.fourth_moment)
    for term, size in zip(expansion.terms, sizes, strict=True):
        error += unit * norms[term.base] * size
    return error


def sufficient_orders(
    kernel: AbstractKernel,
    sigma: float,
    facts: FeatureStats,
    n_pairs: float,
    tolerance: float,
    longest: int,
    among: Index | None = None,
    until: Index | None = None,
) -> Index:
    """Lowest order of the series that is accurate enough for each feature, (c,).

    It is above `longest` if no order is accurate enough. The remainder times `n_pairs` must be at
    most `tolerance` times the typical gain of the feature by chance, divided by ``||A||_F``, where
    A are the label weights times the kernel matrix. Only features at the positions `among` are
    searched (None: all). `until` (c,) is the highest order to try for each feature; if it is not
    accurate enough, the result is above `longest` too.
    """
    orders = np.full(len(facts.max_abs), longest + 1)
    allowed = tolerance * sigma * np.minimum(1.0, np.sqrt(facts.fourth_moment))
    open_ = np.arange(len(orders)) if among is None else among
    for order in range(1, longest + 1):
        if not open_.size:
            break
        remainder = kernel.expansion(order, sigma).remainder
        assert remainder is not None, "a kernel without an exact order has a bound on its remainder"
        missed = n_pairs * remainder(facts.max_abs[open_], facts.fourth_moment[open_])
        good = missed <= allowed[open_]
        orders[open_[good]] = order
        open_ = open_[~good] if until is None else open_[~good & (until[open_] > order)]
    return orders


def _inner(X: Array, vector: Array) -> Float:
    """Inner product of each row of X with a vector, (c,) float64.

    Sums over at most `LONGEST_SUM` samples are in the dtype of X.
    """
    xp = namespace_of(X)
    out = zeros(X.shape[0], like=X)
    for part in slices(X.shape[1], LONGEST_SUM):
        out += xp.vecdot(X[:, part], vector[part])
    return out

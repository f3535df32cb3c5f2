r"""The expansion with an m x m matrix: quadratic forms score a whole block.

With ``A = W o base`` the gain of feature j is ``sum_terms coefficient f(x)' A f(x)``. The products
run in the engine's dtype (float32 for speed), what is summed over samples is summed in float64.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dhsic._typing import Array, Float
from dhsic.engines.base import AbstractEngine, FeatureStats, Question
from dhsic.kernels.base import AbstractKernel, Expansion
from dhsic.linalg.quadratic import Quadratic
from dhsic.namespace import Movable, cast, host, namespace_of, slices, zeros

#: Rounding of an m-term product, in units of its last place times the root of this many terms:
#: BLAS kernels sum at most so many in a row before they start a new partial sum.
PARTIAL_SUM = 512
#: Samples that an inner product sums in the working dtype; BLAS keeps 32 partial sums or more.
LONGEST_SUM = 8192
#: Standard deviations of the accumulated rounding that the error bound covers.
DEVIATIONS = 8.0


@dataclass(frozen=True, slots=True)
class DenseState(Movable):
    """State of a round: per base, ``A / scale`` in the working dtype and ``A 1 / scale``.

    Attributes
    ----------
    A : dict of Quadratic
        Weighted base matrices, divided by `scale`.
    row_sums : dict of (m,) arrays
        Their row sums.
    scale : float
        Keeps float32 far from its smallest numbers.
    """

    kernel: AbstractKernel
    sigma: float
    order: int
    A: dict[int, Quadratic]
    row_sums: dict[int, Array]
    scale: float

    @staticmethod
    def of(question: Question, bases: Iterable[int], dtype: Any, order: int = 0) -> DenseState:
        """``A = W o base`` for every base, cast to the working dtype."""
        weighted = {base: question.weighted(base) for base in sorted(set(bases))}
        scale = 1.0
        if np.dtype(dtype) != np.float64:
            scale = max(w.norm for w in weighted.values()) / question.n_samples or 1.0
        A = {base: Quadratic.of(w.A, scale, dtype) for base, w in weighted.items()}
        row_sums = {base: (w.row_sums / scale).astype(dtype) for base, w in weighted.items()}
        return DenseState(question.kernel, question.sigma, order, A, row_sums, scale)


@dataclass(frozen=True)
class Dense(AbstractEngine):
    """Gains by the kernel's expansion up to `order`, products in `dtype`."""

    is_final: ClassVar[bool] = False

    order: int
    dtype: Any = "float32"

    @property
    def name(self) -> str:
        return f"order {self.order} {np.dtype(self.dtype)}"

    def expansion(self, question: Question) -> Expansion:
        """Expansion that this engine evaluates."""
        return question.kernel.expansion(self.order, question.sigma)

    def prepare(self, question: Question) -> DenseState:
        bases = [t.base for t in self.expansion(question).terms]
        return DenseState.of(question, bases, self.dtype, self.order)

    def score(self, state: DenseState, X: Array, facts: FeatureStats) -> Float:
        expansion = state.kernel.expansion(state.order, state.sigma)
        X = cast(X, self.dtype)  # (c, m)
        gains = zeros(X.shape[0], like=X)
        with np.errstate(over="ignore", invalid="ignore"):  # outliers: their error is infinite
            for term, f in zip(expansion.terms, expansion.functions(X), strict=True):
                if term.linear:
                    gains += term.coefficient * _inner(f, state.row_sums[term.base])
                else:
                    gains += term.coefficient * state.A[term.base].forms(f)
        return host(gains * state.scale)

    def error(self, question: Question, facts: FeatureStats, gains: Float) -> Float:
        """Neglected terms (a bound) plus accumulated rounding (8 standard deviations).

        Where A has few distinct values its own rounding is no accident but a multiple of it;
        that part is relative to the gain.
        """
        expansion = self.expansion(question)
        norms = {term.base: question.norm(term.base) for term in expansion.terms}
        unit = float(np.finfo(self.dtype).eps) / 2
        error = DEVIATIONS * unit * np.abs(gains)
        with np.errstate(over="ignore", invalid="ignore"):
            error += rounding_of(expansion, norms, question.n_samples, self.dtype, facts)
            error += question.neglected(self.order, facts)
        return np.nan_to_num(error, nan=np.inf, posinf=np.inf)

    def products(self, question: Question, facts: FeatureStats) -> int:
        """One column per feature and order; of radial kernels, whose bases differ, per form."""
        kernel = question.kernel
        if kernel.scored_by == "taylor":
            return len(facts.max_abs) * self.expansion(question).n_forms
        return len(facts.max_abs) * (kernel.exact_order or self.order)


def rounding_of(
    expansion: Expansion, norms: Mapping[int, float], m: int, dtype: Any, facts: FeatureStats
) -> Float:
    """Rounding that accumulates over the terms, 8 standard deviations, (c,).

    Parameters
    ----------
    norms : mapping
        ``||A||_F`` of every base.
    m : int
        Samples.
    dtype : float32 or float64
        Of the products.
    """
    unit = float(np.finfo(dtype).eps) / 2
    one_sum = DEVIATIONS * unit * np.sqrt(min(m, PARTIAL_SUM))
    error = np.zeros_like(facts.max_abs)
    sizes = expansion.magnitudes(facts.max_abs, facts.fourth_moment)
    for term, size in zip(expansion.terms, sizes, strict=True):
        error += one_sum * norms[term.base] * size
    return error


def _inner(X: Array, vector: Array) -> Float:
    """Inner product of every row with the vector, (c,) float64; short sums in the dtype."""
    xp = namespace_of(X)
    out = zeros(X.shape[0], like=X)
    for part in slices(X.shape[1], LONGEST_SUM):
        out += xp.vecdot(X[:, part], vector[part])
    return out

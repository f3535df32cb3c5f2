r"""The expansion with an m x m matrix: one product ``A X^p`` scores a whole block.

With ``A = W o base`` the gain of feature j is ``sum_terms left(x)' (A x^p)``. The products run
in the engine's dtype (float32 for speed), what is summed over samples is summed in float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dhsic._typing import Array, Float
from dhsic.engines.base import AbstractEngine, Facts, Question
from dhsic.kernels.base import AbstractKernel, Expansion

#: Rounding of an m-term product, in units of its last place times the root of this many terms:
#: BLAS kernels sum at most so many in a row before they start a new partial sum.
PARTIAL_SUM = 512
#: Rows of a product: right functions of all terms of a tile, one above the other.
STACKED_ROWS = 1024
#: Bytes of a left function at a time: little enough for the cache, enough that threads, which
#: take turns between operations, seldom wait for each other.
CACHE_BYTES = 1 << 19
#: Standard deviations of the accumulated rounding that the error bound covers.
DEVIATIONS = 8.0


@dataclass(frozen=True, slots=True)
class DenseState:
    """State of a round: per base, ``A / scale`` in the working dtype and ``A 1 / scale``.

    Attributes
    ----------
    A : dict of (m, m) arrays
        Weighted base matrices, divided by `scale`.
    row_sums : dict of (m,) arrays
        Their row sums.
    scale : float
        Keeps float32 far from its smallest numbers.
    """

    kernel: AbstractKernel
    sigma: float
    order: int
    A: dict[int, Array]
    row_sums: dict[int, Array]
    scale: float


@dataclass(frozen=True)
class Dense(AbstractEngine):
    """Gains by the kernel's expansion up to `order`, products in `dtype`."""

    order: int
    dtype: Any = "float32"

    def expansion(self, question: Question) -> Expansion:
        """Expansion that this engine evaluates."""
        return question.kernel.expansion(self.order, question.sigma)

    def prepare(self, question: Question) -> DenseState:
        """``A = W o base`` for every base of the expansion, cast to the working dtype."""
        terms = self.expansion(question).terms
        bases = sorted({t.base for t in terms})
        weighted = {base: question.weighted(base) for base in bases}
        if np.dtype(self.dtype) == np.float64:
            scale = 1.0
        else:
            scale = max(w.norm for w in weighted.values()) / question.n_samples or 1.0
        A = {base: _scaled(w.A, scale, self.dtype) for base, w in weighted.items()}
        row_sums = {base: _scaled(w.row_sums, scale, self.dtype) for base, w in weighted.items()}
        return DenseState(question.kernel, question.sigma, self.order, A, row_sums, scale)

    def score(self, state: DenseState, X: Array, facts: Facts) -> Float:
        """Sum over the terms of left(x)' A right(x)."""
        del facts
        expansion = state.kernel.expansion(state.order, state.sigma)
        X = X.astype(self.dtype, copy=False)  # (c, m)
        rows = max(1, STACKED_ROWS // max(1, expansion.n_products))
        with np.errstate(over="ignore", invalid="ignore"):  # outliers: their error is infinite
            parts = [
                self._score_tile(state, expansion, X[a : a + rows]) for a in range(0, len(X), rows)
            ]
        return np.concatenate(parts) * state.scale

    def _score_tile(self, state: DenseState, expansion: Expansion, X: Array) -> Float:
        products = _products(expansion, expansion.rights(X), state.A)
        rows = max(1, CACHE_BYTES // X[0].nbytes)
        gains = np.empty(len(X))
        for a in range(0, len(X), rows):
            part = slice(a, a + rows)
            total: Array | None = None
            for term, left, product in zip(
                expansion.terms, expansion.lefts(X[part]), products, strict=True
            ):
                other = state.row_sums[term.base] if product is None else product[part]
                summand = np.multiply(left, other, out=left)
                total = summand if total is None else np.add(total, summand, out=total)
            assert total is not None, "an expansion has at least one term"
            gains[part] = total.sum(axis=1, dtype=np.float64)
        return gains

    def error(self, question: Question, facts: Facts, gains: Float) -> Float:
        """Neglected terms (a bound) plus accumulated rounding (8 standard deviations).

        Where A has few distinct values its own rounding is no accident but a multiple of it;
        that part is relative to the gain.
        """
        expansion = self.expansion(question)
        m = question.n_samples
        unit = float(np.finfo(self.dtype).eps) / 2
        one_sum = DEVIATIONS * unit * np.sqrt(min(m, PARTIAL_SUM))
        error = DEVIATIONS * unit * np.abs(gains)
        with np.errstate(over="ignore", invalid="ignore"):
            sizes = expansion.magnitudes(facts.peak, facts.fourth)
            for term, size in zip(expansion.terms, sizes, strict=True):
                error += one_sum * question.weighted(term.base).norm * size
            if expansion.remainder is not None:
                neglected = expansion.remainder(facts.peak, facts.fourth)
                error += m * question.weighted(expansion.terms[0].base).norm * neglected
        return np.nan_to_num(error, nan=np.inf, posinf=np.inf)

    def products(self, question: Question, facts: Facts) -> int:
        """One column per feature and product of the expansion."""
        return len(facts.peak) * self.expansion(question).n_products


def _scaled(values: Float, scale: float, dtype: Any) -> Array:
    """``values / scale`` in one pass; the values themselves where there is nothing to do."""
    if scale == 1.0 and values.dtype == dtype:
        return values
    out = np.empty(values.shape, dtype=dtype)
    return np.multiply(values, 1 / scale, out=out, casting="same_kind")


def _products(
    expansion: Expansion, rights: list[Array | None], A: dict[int, Array]
) -> list[Array | None]:
    """``right A`` for every term, (c, m); terms on one base share one product (A = A')."""
    out: list[Array | None] = [None] * len(rights)
    for base in dict.fromkeys(t.base for t in expansion.terms):
        at = [
            i
            for i, (term, right) in enumerate(zip(expansion.terms, rights, strict=True))
            if term.base == base and right is not None
        ]
        stacked = [right for i in at if (right := rights[i]) is not None]
        product = (np.concatenate(stacked) if len(stacked) > 1 else stacked[0]) @ A[base]
        for i, part in zip(at, np.split(product, len(at)), strict=True):
            out[i] = part
    return out

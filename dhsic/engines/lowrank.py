r"""The expansion with matrices of low rank: a block costs one product of 2 m R c flops a term.

Every base matrix has a factor ``F diag(w) F'`` (`dhsic.lowrank`), so ``A = W o base`` is one of few
directions too (`dhsic.linalg.symmetric`), which take quadratic forms (`dhsic.linalg.quadratic`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dhsic._typing import Array, Float
from dhsic.engines.base import FeatureStats
from dhsic.errors import InputError
from dhsic.kernels.base import AbstractKernel, Expansion
from dhsic.linalg.quadratic import LowRankQuadratic
from dhsic.linalg.symmetric import LowRankSymmetric
from dhsic.lowrank.base import check_rank, check_tolerance
from dhsic.namespace import Movable, at_a_time, cast, host, namespace_of, slices, zeros

#: Samples that are summed in the working dtype; sums over more are summed in float64.
TILE_SAMPLES = 4096
#: Entries of a block that are scored at a time: what is derived from them stays in the cache.
TILE_ENTRIES = 1 << 17


@dataclass(frozen=True, slots=True)
class LowRankState(Movable):
    """State of a round: per base of the expansion few directions and two vectors.

    Attributes
    ----------
    A : dict of LowRankQuadratic
        Weighted base matrices, divided by `scale`.
    missing : float
        The most that compression lost of one of them, relative to it.
    scale : float
        Keeps float32 far from its smallest numbers.
    """

    kernel: AbstractKernel
    sigma: float
    order: int
    A: dict[int, LowRankQuadratic]
    missing: float
    scale: float

    @property
    def rank(self) -> int:
        """Most directions of a base matrix."""
        return int(max(forms.theta.shape[0] for forms in self.A.values()))


@dataclass(frozen=True)
class LowRank:
    """Gains by the kernel's expansion up to `order` in O(m R) a feature, products in `dtype`.

    Parameters
    ----------
    order : int
        Order of the expansion.
    dtype : dtype
        Of the products.
    rank : int, optional
        Most directions of a weighted base matrix.
    tolerance : float
        Part of it that compression may lose; the default is what float32 rounds away.

    Raises
    ------
    InputError
        A rank or a tolerance out of its range.
    """

    order: int
    dtype: Any = "float32"
    rank: int | None = None
    tolerance: float = 1e-8

    def __post_init__(self) -> None:
        check_rank(self.rank, "LowRank")
        check_tolerance(self.tolerance, "LowRank")

    def prepare(
        self,
        W: LowRankSymmetric,
        factors: Mapping[int, LowRankSymmetric],
        kernel: AbstractKernel,
        sigma: float,
    ) -> LowRankState:
        """``A = W o base`` for every base of the expansion.

        Parameters
        ----------
        W : LowRankSymmetric
            Weights.
        factors : mapping of int to LowRankSymmetric
            Every base of ``kernel.expansion(order, sigma)``, with its true diagonal.
        kernel, sigma
            Kernel and its parameter.

        Raises
        ------
        InputError
            A base without factor, or other samples than those of W.
        """
        needed = sorted({term.base for term in kernel.expansion(self.order, sigma).terms})
        absent = [base for base in needed if base not in factors]
        if absent:
            raise InputError(
                f"The {kernel.name} kernel expands over base matrices {needed} and factors has "
                f"none for {absent}; pass factorizer.factor(..., base=base) for each."
            )
        weighted = {
            base: W.hadamard(factors[base], rank=self.rank, tolerance=self.tolerance)
            for base in needed
        }
        scale = max(A.norm for A in weighted.values()) / W.n_samples or 1.0
        return LowRankState(
            kernel,
            sigma,
            self.order,
            {base: A.form(scale, self.dtype) for base, A in weighted.items()},
            max(A.error for A in weighted.values()),
            scale,
        )

    def score(self, state: LowRankState, X: Array, facts: FeatureStats) -> Float:
        """Gains of c features, float64 (c,); X is (c, m), a feature a row, standardised.

        X is of the namespace and on the device of the state; facts and gains are NumPy's.
        """
        del facts
        expansion = state.kernel.expansion(state.order, state.sigma)
        c, m = X.shape
        gains = zeros(c, like=X)
        width = max(1, at_a_time(X, TILE_ENTRIES) // min(m, TILE_SAMPLES))
        with np.errstate(over="ignore", invalid="ignore"):  # outliers: no number, no rank
            for tile in slices(c, width):
                gains[tile] = self._sum(state, expansion, X[tile, :])
        return host(gains * state.scale)

    def _sum(self, state: LowRankState, expansion: Expansion, X: Array) -> Float:
        """Sum over the terms, for as many features as the cache holds of a tile of samples.

        A tile is read once: all functions of it are taken, and used up, while it is there.
        """
        xp = namespace_of(X)
        c, m = X.shape
        gains = zeros(c, like=X)
        along = {  # y_k' f per quadratic term, (c, R)
            t: zeros((c, state.A[term.base].theta.shape[0]), like=X)
            for t, term in enumerate(expansion.terms)
            if not term.linear
        }
        for samples in slices(m, TILE_SAMPLES):
            x = cast(X[:, samples], self.dtype)
            functions = expansion.functions(x)
            for t, (term, f) in enumerate(zip(expansion.terms, functions, strict=True)):
                forms = state.A[term.base]
                if term.linear:
                    gains += term.coefficient * (f @ forms.row_sums[samples])
                else:
                    along[t] += f @ forms.Y[:, samples].T
                    gains += term.coefficient * (xp.square(f) @ forms.correction[samples])
        for t, projections in along.items():
            term = expansion.terms[t]
            gains += term.coefficient * (xp.square(projections) @ state.A[term.base].theta)
        return gains

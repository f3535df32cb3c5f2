r"""The expansion with thin matrices: a block costs one product of 2 m R c flops a term.

With ``W = U M U'`` and a base matrix ``F diag(w) F'``, both off the diagonal, ``A = W o base`` is,
off the diagonal, ``Z Theta Z'``: row i of Z is the Kronecker product of rows i of U and F, and
``Theta = M kron diag(w)``. Its n = q r columns say much the same, so they are compressed: with
``Z = Q R`` and ``R Theta R' = V T V'`` the few large T are kept, and

    ``Q V = Z (Theta R' V T^{-1})``

needs neither Q nor an inverse of R, which may be singular. So Z is walked through twice in strips
of samples, once for R and once for the result, and nothing larger than that is ever in memory.

What the product says of the diagonal is taken away and the true diagonal put in its place:
``f' A f = sum_k theta_k (y_k' f)^2 + sum_i (a_i - own_i) f_i^2``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dhsic._typing import Array, Float
from dhsic.engines.base import FeatureStats
from dhsic.errors import InputError
from dhsic.hsic import FactoredWeights
from dhsic.kernels.base import AbstractKernel, Expansion
from dhsic.lowrank.base import Factor, Landmarks, check_rank, check_tolerance
from dhsic.lowrank.landmarks import BaseRows
from dhsic.namespace import at_a_time, cast, host, moved, namespace_of, slices, zeros

#: Entries of Z that are in memory at a time, 16 MiB; but never fewer rows than `LEAST_ROWS` n,
#: or the triangle R would be decomposed again more often than samples are.
STRIP_ENTRIES = 1 << 21
LEAST_ROWS = 2
#: Samples that are summed in the working dtype; sums over more are summed in float64.
TILE_SAMPLES = 4096
#: Entries of a block that are scored at a time: what is derived from them stays in the cache.
TILE_ENTRIES = 1 << 17
#: Eigenvalues below this part of the largest, times their number, are rounding.
ROUNDING = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class LowRankWeighted:
    """``A = W o base``: ``Y' diag(theta) Y`` off the diagonal, and the true diagonal.

    Attributes
    ----------
    Y : (R, m) float64
        Orthogonal rows of mean square 1.
    theta : (R,) float64
        Their weights, the largest by size first.
    diagonal : (m,) float64
        True diagonal of A; 0 for the unbiased estimator.
    missing : float
        What compression lost, relative to ``||Z Theta Z'||_F``.
    """

    Y: Float
    theta: Float
    diagonal: Float
    missing: float

    @staticmethod
    def of(
        weights: FactoredWeights,
        factor: Factor,
        diagonal_of_base: Float,
        *,
        rank: int | None = None,
        tolerance: float = 0.0,
    ) -> LowRankWeighted:
        """Product of W and a base matrix, O(m (q r)^2).

        Parameters
        ----------
        weights : FactoredWeights
            W, of rank q.
        factor : Factor
            The base matrix, of rank r.
        diagonal_of_base : (m,) float64
            Its true diagonal.
        rank : int, optional
            Most directions R.
        tolerance : float
            As few directions are kept as lose at most this part of ``||Z Theta Z'||_F``.

        Raises
        ------
        InputError
            W and the factor have different samples.
        """
        m = weights.n_samples
        if len(factor.F) != m or len(diagonal_of_base) != m:
            raise InputError(
                f"W has {m} samples, the factor {len(factor.F)} and the diagonal "
                f"{len(diagonal_of_base)}; pass all three of the same samples."
            )
        Theta = np.kron(weights.M, np.diag(factor.weights))  # (n, n)
        R = _triangle(weights.U, factor.F)
        T, V, missing = _compress(R @ Theta @ R.T, rank, tolerance)
        mix = (Theta @ (R.T @ V)) * (np.sqrt(m) / T)  # (n, R)
        Y = np.empty((len(T), m))
        for samples, Z in _strips(weights.U, factor.F):
            np.matmul(mix.T, Z.T, out=Y[:, samples])
        return LowRankWeighted(Y, T / m, weights.diagonal * diagonal_of_base, missing)

    @property
    def rank(self) -> int:
        """Number of directions R."""
        return len(self.theta)

    @cached_property
    def own(self) -> Float:
        """Diagonal that the product has, (m,)."""
        return own_diagonal(self.Y, self.theta)

    @cached_property
    def row_sums(self) -> Float:
        """``A 1``, (m,)."""
        across = (self.theta * self.Y.sum(axis=1)) @ self.Y
        return np.asarray(across - self.own + self.diagonal)

    @cached_property
    def norm(self) -> float:
        """``||A||_F``."""
        off = float(self.theta @ self.theta) * self.Y.shape[1] ** 2 - float(self.own @ self.own)
        return float(np.sqrt(max(off, 0.0) + float(self.diagonal @ self.diagonal)))


def own_diagonal(Y: Array, theta: Float) -> Float:
    """``sum_k theta_k Y_ki^2``, (m,) float64, for Y (R, m) of any precision."""
    own = np.zeros(Y.shape[1])
    for y, weight in zip(Y, theta, strict=True):
        own += weight * np.square(y, dtype=np.float64)
    return own


def _strips(U: Float, F: Float) -> Iterator[tuple[slice, Float]]:
    """Samples and their rows of Z, (s, q r)."""
    m, n = len(U), U.shape[1] * F.shape[1]
    rows = max(STRIP_ENTRIES // max(n, 1), LEAST_ROWS * n)
    for a in range(0, m, rows):
        samples = slice(a, min(a + rows, m))
        Z = U[samples, :, None] * F[samples, None, :]
        yield samples, Z.reshape(len(Z), n)


def _triangle(U: Float, F: Float) -> Float:
    """R of ``Z = Q R``, (at most n, n); a strip of Z after the other."""
    n = U.shape[1] * F.shape[1]
    R = np.zeros((0, n))
    if n:
        for _, Z in _strips(U, F):
            R = np.asarray(np.linalg.qr(np.concatenate([R, Z]), mode="r"))
    return R


def _compress(core: Float, rank: int | None, tolerance: float) -> tuple[Float, Float, float]:
    """Leading eigenvalues (R,) and -vectors (n, R) by size, and the part of the norm that is lost.

    R is the least at which the rest has at most `tolerance` of the norm, or `rank`.
    """
    values, V = np.linalg.eigh((core + core.T) / 2)
    order = np.argsort(-np.abs(values), kind="stable")
    values, V = values[order], V[:, order]
    # squares of what is lost if the first 0, 1, ... are kept
    lost = np.append(np.cumsum(np.square(values)[::-1])[::-1], 0.0)
    total = lost[0]
    kept = int(np.argmax(lost <= tolerance**2 * total))
    sizes = np.abs(values)
    kept = min(kept, int((sizes > ROUNDING * len(values) * sizes.max(initial=0.0)).sum()))
    if rank is not None:
        kept = min(kept, rank)
    missing = float(np.sqrt(lost[kept] / total)) if total > 0 else 0.0
    return values[:kept], V[:, :kept], missing


@dataclass(frozen=True, slots=True)
class LowRankForms:
    """What a base matrix needs in order to be scored with, divided by the state's `scale`.

    Attributes
    ----------
    Y : (R, m) array
        Directions in the working dtype, C-ordered, entries of about 1.
    theta : (R,) float64
        Their weights.
    correction : (m,) array
        True diagonal of A less the one that Y, as rounded, has.
    row_sums : (m,) array
        ``A 1``.
    """

    Y: Array
    theta: Float
    correction: Array
    row_sums: Array

    @staticmethod
    def of(A: LowRankWeighted, scale: float, dtype: Any) -> LowRankForms:
        """``A / scale``, cast to the dtype."""
        Y = np.ascontiguousarray(A.Y, dtype=dtype)
        theta = A.theta / scale
        correction = A.diagonal / scale - own_diagonal(Y, theta)
        return LowRankForms(Y, theta, correction.astype(dtype), (A.row_sums / scale).astype(dtype))

    def on(self, xp: Any, device: Any = None) -> LowRankForms:
        """The same forms in another namespace."""
        arrays = (self.Y, self.theta, self.correction, self.row_sums)
        return LowRankForms(*(moved(a, xp, device) for a in arrays))


@dataclass(frozen=True, slots=True)
class LowRankState:
    """State of a round: per base of the expansion a thin matrix and two vectors.

    Attributes
    ----------
    A : dict of LowRankForms
        Weighted base matrices, divided by `scale`.
    norms : dict of float
        Their ``||A||_F / scale``.
    missing : float
        The most that compression lost of one of them, relative to it.
    scale : float
        Keeps float32 far from its smallest numbers.
    """

    kernel: AbstractKernel
    sigma: float
    order: int
    A: dict[int, LowRankForms]
    norms: dict[int, float]
    missing: float
    scale: float

    @property
    def rank(self) -> int:
        """Most directions of a base matrix."""
        return int(max(forms.theta.shape[0] for forms in self.A.values()))

    def on(self, xp: Any, device: Any = None) -> LowRankState:
        """The same state in another namespace, on one of its devices."""
        A = {base: forms.on(xp, device) for base, forms in self.A.items()}
        return replace(self, sigma=float(self.sigma), A=A)


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
        weights: FactoredWeights,
        factors: Mapping[int, Factor],
        landmarks: Landmarks,
        kernel: AbstractKernel,
        sigma: float,
    ) -> LowRankState:
        """``A = W o base`` for every base of the expansion.

        Parameters
        ----------
        weights : FactoredWeights
            W.
        factors : mapping of int to Factor
            For every base of ``kernel.expansion(order, sigma)`` its factor.
        landmarks : Landmarks
            The statistic that the factors were made from; its norms give the true diagonals.
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
            base: LowRankWeighted.of(
                weights,
                factors[base],
                BaseRows(kernel, sigma, landmarks, base).diagonal(),
                rank=self.rank,
                tolerance=self.tolerance,
            )
            for base in needed
        }
        scale = max(A.norm for A in weighted.values()) / weights.n_samples or 1.0
        return LowRankState(
            kernel,
            sigma,
            self.order,
            {base: LowRankForms.of(A, scale, self.dtype) for base, A in weighted.items()},
            {base: A.norm / scale for base, A in weighted.items()},
            max(A.missing for A in weighted.values()),
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

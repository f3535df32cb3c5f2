r"""A factorizer turns inner products with b landmarks into ``K ~ F diag(weights) F'``.

The statistic is additive over features, so one pass over the data gives the inner products of all
m samples with b *landmarks*; no m x m matrix is ever formed. What is factored is a base matrix of
the kernel's expansion, K itself for kernels with a bandwidth. Only what is off the diagonal
counts: HSIC takes the diagonal from elsewhere.

**How wrong is it?** The error of a factor is estimated from pairs of samples. Pairs with a
landmark that the factor was fitted to are known, so what the factor makes of them is measured.
Pairs of two other samples are known only where one of them is *held out*: a landmark that the fit
did not use or, where all were used, a landmark as the fit to the others would see it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dhsic._typing import Array, Float, Index, Mask
from dhsic.errors import InputError
from dhsic.kernels.base import AbstractKernel

#: Bytes of the base matrix that are in memory at a time.
STRIP_BYTES = 1 << 24
#: Fewer samples than this at a time are not worth a call.
LEAST_STRIP = 64
#: Side of the tiles on whose diagonals the diagonal is computed.
DIAGONAL_TILE = 64
#: Held-out rows: more estimate the error no better, fewer do so badly.
MOST_HELD, LEAST_HELD = 64, 16


@dataclass(frozen=True, slots=True)
class Landmarks:
    """The additive statistic against b landmarks.

    Attributes
    ----------
    inner : (b, m) float64
        Inner products of landmark and sample, a sum over features.
    norms : (m,) float64
        Squared norms of the samples.
    rows : (b,) int64 or None
        Which samples the landmarks are; None where they are random directions of feature space.

    Raises
    ------
    InputError
        Shapes that do not fit, no landmark, another dtype than float64, or rows that are no
        samples or occur twice.
    """

    inner: Float
    norms: Float
    rows: Index | None

    def __post_init__(self) -> None:
        if self.inner.ndim != 2 or self.inner.shape[0] == 0 or self.inner.shape[1] == 0:
            raise InputError(
                f"The inner products have shape {self.inner.shape}; pass (b, m), one row a "
                "landmark and one column a sample, at least one of each."
            )
        if self.inner.dtype != np.float64 or self.norms.dtype != np.float64:
            raise InputError(
                f"The statistic is {self.inner.dtype} and its norms are {self.norms.dtype}; "
                "accumulate both in float64."
            )
        b, m = self.inner.shape
        if self.norms.shape != (m,):
            raise InputError(
                f"norms have shape {self.norms.shape} and there are {m} samples; pass ({m},)."
            )
        if self.rows is not None:
            _check_rows(self.rows, b, m)

    @property
    def n_landmarks(self) -> int:
        """Number of landmarks b."""
        return int(self.inner.shape[0])

    @property
    def n_samples(self) -> int:
        """Number of samples m."""
        return int(self.inner.shape[1])


def _check_rows(rows: Index, b: int, m: int) -> None:
    if rows.shape != (b,) or rows.dtype.kind not in "iu":
        raise InputError(
            f"rows have shape {rows.shape} and dtype {rows.dtype}; pass ({b},) integers, the "
            "sample that each landmark is."
        )
    if rows.min() < 0 or rows.max() >= m or len(np.unique(rows)) < b:
        raise InputError(
            f"Landmarks are {b} different samples of 0 to {m - 1}; rows hold {rows.min()} to "
            f"{rows.max()}, {len(np.unique(rows))} of them different."
        )


@dataclass(frozen=True, slots=True)
class Factor:
    """``K ~ F diag(weights) F'`` off the diagonal.

    Attributes
    ----------
    F : (m, r) float64
        A row a sample; r may be 0 where there is nothing to find.
    weights : (r,) float64
        1, or -1 for negative directions of the spectral factorizer.
    error : float
        Its own estimate of ``||K - F diag(weights) F'||_F / ||K||_F``, off the diagonal; infinite
        where it cannot tell.
    """

    F: Float
    weights: Float
    error: float

    @property
    def rank(self) -> int:
        """Number of directions r."""
        return int(self.F.shape[1])


class AbstractFactorizer(ABC):
    """Factors a base matrix of a kernel; a value with its parameters."""

    name: ClassVar[str]

    @abstractmethod
    def factor(
        self,
        kernel: AbstractKernel,
        sigma: float,
        landmarks: Landmarks,
        *,
        base: int = 0,
        seed: int = 0,
    ) -> Factor:
        """Factor of base matrix `base`; the same bits for the same input and seed.

        Raises
        ------
        InputError
            A kernel or landmarks that the factorizer is not meant for.
        """


@dataclass(frozen=True, slots=True)
class BaseRows:
    """Rows of a base matrix at landmarks that are samples, computed where they are needed."""

    kernel: AbstractKernel
    sigma: float
    landmarks: Landmarks
    key: int = 0

    @property
    def rows(self) -> Index:
        """Which samples the landmarks are, (b,).

        Raises
        ------
        InputError
            They are random directions.
        """
        if self.landmarks.rows is None:
            raise InputError(
                f"These {self.landmarks.n_landmarks} landmarks are random directions of feature "
                "space, which serve random features only. Pass samples as landmarks, or "
                "RandomFeatures()."
            )
        return self.landmarks.rows

    def part(self, which: Index, columns: slice | Index) -> Float:
        """Base matrix between landmarks `which`, (s,), and samples `columns`: (s, t), new."""
        rows = self.rows[which]
        inner, norms = self.landmarks.inner, self.landmarks.norms
        some = inner[:, columns][which] if isinstance(columns, slice) else inner[which][:, columns]
        return self.kernel.base(self.key, some, norms[rows], norms[columns], self.sigma)

    def strips(self, which: Index) -> Iterator[tuple[slice, Float]]:
        """Columns and ``(s, t)`` parts of the rows of landmarks `which`, left to right."""
        m = self.landmarks.n_samples
        width = max(LEAST_STRIP, STRIP_BYTES // (8 * max(1, len(which))))
        for a in range(0, m, width):
            columns = slice(a, min(a + width, m))
            yield columns, self.part(which, columns)

    def among(self, which: Index) -> Float:
        """Base matrix among landmarks `which`, (s, s), symmetric to the last bit."""
        K = self.part(which, self.rows[which])
        return np.asarray((K + K.T) / 2)

    def diagonal(self, samples: Index | None = None) -> Float:
        """Base matrix of samples with themselves, all (m,) or some (s,)."""
        norms = self.landmarks.norms if samples is None else self.landmarks.norms[samples]
        diagonal = np.empty_like(norms)
        for a in range(0, len(norms), DIAGONAL_TILE):
            n = norms[a : a + DIAGONAL_TILE]
            tile = np.repeat(n[:, None], len(n), axis=1)
            diagonal[a : a + DIAGONAL_TILE] = np.diagonal(
                self.kernel.base(self.key, tile, n, n, self.sigma)
            )
        return diagonal


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Landmarks as a factor sees samples that it was not fitted to.

    Attributes
    ----------
    which : (s,) int64
        Their positions among the landmarks.
    embedding : (s, r) float64
        Their rows of F.
    sizes : (s,) float64
        How large their residuals are expected to be, up to a common factor.
    """

    which: Index
    embedding: Float
    sizes: Float


def held_positions(unused: Index, used: Index, seed: int) -> tuple[Index, bool]:
    """Landmarks to hold out, at most `MOST_HELD`; whether they are unused ones.

    With fewer than `LEAST_HELD` unused ones, used ones are taken: their factorizer leaves them
    out one at a time.
    """
    are_unused = len(unused) >= LEAST_HELD
    pool = unused if are_unused else used
    order = np.random.default_rng([seed, len(pool)]).permutation(len(pool))
    return np.sort(pool[order[:MOST_HELD]]), are_unused


def estimated_error(
    rows: BaseRows, F: Float, weights: Float, used: Index, held: HeldOut, sizes: Float
) -> float:
    """Relative error off the diagonal, from all pairs that are known.

    With d_i the expected size of sample i's residuals, the squared residuals of two samples that
    were not used sum to ``rho`` times the sum of ``d_i d_j``, and rho is measured on the held-out
    rows. For a factor of a positive definite K take ``d_i = K_ii - f_i' f_i``, the diagonal of
    the residual: by Cauchy and Schwarz rho is then at most 1, and it is right also where the used
    landmarks were the ones hardest to predict.

    Parameters
    ----------
    rows : BaseRows
        The base matrix.
    F, weights : (m, r), (r,) float64
        Its factor.
    used : (n,) int64
        Positions of the landmarks that the fit used.
    held : HeldOut
        Landmarks held out.
    sizes : (m,) float64
        Expected size of the residuals of every sample.

    Returns
    -------
    float
        At least 0.
    """
    outside = np.ones(len(F), dtype=np.bool_)
    outside[rows.rows[used]] = False
    residual, total = _used_squares(rows, F, weights, used, outside)
    if outside.sum() < 2:
        return relative(residual, total)
    if len(held.which) == 0:
        return float("inf")
    held_residual, held_total, expected = _held_squares(rows, F, weights, held, sizes, outside)
    d = sizes[outside]
    all_expected = float(d.sum() ** 2 - d @ d)
    n_pairs = _pairs(rows, held, outside)
    n_outside = float(outside.sum())
    total += held_total * n_outside * (n_outside - 1) / max(n_pairs, 1.0)
    if expected > 0:
        residual += held_residual * all_expected / expected
    return relative(residual, total)


def _used_squares(
    rows: BaseRows, F: Float, weights: Float, used: Index, outside: Mask
) -> tuple[float, float]:
    """Squared residuals and squares of all pairs with a used landmark, off the diagonal."""
    residual = total = 0.0
    if len(used) == 0:
        return residual, total
    embedding = F[rows.rows[used]] * weights
    for columns, K in rows.strips(used):
        _clear_diagonal(K, rows.rows[used], columns)
        twice = 1.0 + outside[columns]  # such a pair occurs in both orders
        total += float(np.einsum("ij,ij,j->", K, K, twice))
        R = np.subtract(K, embedding @ F[columns].T, out=K)
        _clear_diagonal(R, rows.rows[used], columns)
        residual += float(np.einsum("ij,ij,j->", R, R, twice))
    return residual, total


def _held_squares(
    rows: BaseRows, F: Float, weights: Float, held: HeldOut, sizes: Float, outside: Mask
) -> tuple[float, float, float]:
    """Squared residuals, squares and expected squares of held-out rows against samples outside."""
    residual = total = expected = 0.0
    embedding = held.embedding * weights
    for columns, K in rows.strips(held.which):
        _clear_diagonal(K, rows.rows[held.which], columns)
        total += float(np.einsum("ij,ij,j->", K, K, outside[columns]))
        R = np.subtract(K, embedding @ F[columns].T, out=K)
        _clear_diagonal(R, rows.rows[held.which], columns)
        residual += float(np.einsum("ij,ij,j->", R, R, outside[columns]))
        allowed = np.outer(held.sizes, sizes[columns] * outside[columns])
        _clear_diagonal(allowed, rows.rows[held.which], columns)
        expected += float(allowed.sum())
    return residual, total, expected


def _pairs(rows: BaseRows, held: HeldOut, outside: Mask) -> float:
    """Pairs of a held-out row and a sample outside that are two samples."""
    own = outside[rows.rows[held.which]]
    return float(len(own) * outside.sum() - own.sum())


def _clear_diagonal(K: Float, rows: Index, columns: slice) -> None:
    """Set to 0 the entries of a strip whose row and column are the same sample."""
    here = np.flatnonzero((rows >= columns.start) & (rows < columns.stop))
    K[here, rows[here] - columns.start] = 0.0


def measured_error(
    kernel: AbstractKernel, sigma: float, check: Landmarks, factor: Factor, base: int = 0
) -> float:
    """``||K - F diag(weights) F'||_F / ||K||_F`` off the diagonal, on the rows of `check`.

    An honest estimate where `check` holds samples that were no landmarks of the factor; the
    error itself where it holds all samples.

    Raises
    ------
    InputError
        `check` holds random directions or other samples than the factor.
    """
    rows = BaseRows(kernel, sigma, check, base)
    if check.n_samples != len(factor.F):
        raise InputError(
            f"The factor has {len(factor.F)} samples and the check {check.n_samples}; pass the "
            "statistic of the same samples."
        )
    every = np.arange(check.n_landmarks)
    nowhere = np.zeros(check.n_samples, dtype=np.bool_)
    return relative(*_used_squares(rows, factor.F, factor.weights, every, nowhere))


def relative(residual: float, total: float) -> float:
    """Root of residual over total; of nothing, 0 is all right and anything else infinitely wrong.

    >>> relative(1.0, 4.0), relative(0.0, 0.0), relative(1.0, 0.0)
    (0.5, 0.0, inf)
    """
    if residual <= 0:
        return 0.0
    return float(np.sqrt(residual / total)) if total > 0 else float("inf")


def signs(V: Array) -> Array:
    """Sign per column that makes its largest entry positive, (r,); V is (n, r)."""
    if V.shape[0] == 0:
        return np.ones(V.shape[1])
    largest = V[np.argmax(np.abs(V), axis=0), np.arange(V.shape[1])]
    return np.where(largest < 0, -1.0, 1.0)


def check_rank(rank: object, factorizer: str) -> None:
    """Refuse a rank that is no whole number from 1; None passes.

    Raises
    ------
    InputError
        It is none.
    """
    if rank is not None and not is_count(rank):
        raise InputError(f"{factorizer} rank={rank!r}; pass a whole number >= 1.")


def check_tolerance(tolerance: object, factorizer: str) -> None:
    """Refuse a tolerance outside [0, 1).

    Raises
    ------
    InputError
        It is outside, or no number.
    """
    is_number = isinstance(tolerance, (int, float, np.number)) and not isinstance(tolerance, bool)
    if not (is_number and 0 <= float(tolerance) < 1):  # type: ignore[arg-type]
        raise InputError(f"{factorizer} tolerance={tolerance!r}; pass a number from 0 to below 1.")


def is_count(value: object) -> bool:
    """Whether a value is a whole number from 1."""
    is_whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    return is_whole and bool(value >= 1)  # type: ignore[operator]

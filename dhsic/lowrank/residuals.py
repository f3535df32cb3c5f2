"""How wrong a factor is, estimated from pairs of samples.

Pairs with a landmark that the factor was fitted to are known, so what the factor makes of them is
measured. Pairs of two other samples are known only where one of them is *held out*: a landmark
that the fit did not use or, where all were used, a landmark as the fit to the others would see it.

How many directions of a factor are structure: those that predict rows it was not made from.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dhsic._typing import Float, Index, Mask
from dhsic.errors import InputError
from dhsic.kernels.base import AbstractKernel
from dhsic.linalg.symmetric import LowRankSymmetric
from dhsic.lowrank.base import BaseRows, Landmarks

#: Held-out rows: more estimate the error no better, fewer do so badly.
MOST_HELD, LEAST_HELD = 64, 16


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
    kernel: AbstractKernel,
    sigma: float,
    check: Landmarks,
    factor: LowRankSymmetric,
    base: int | None = 0,
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


#: Residual on those rows, relative to the least, that fewer directions may have.
AS_GOOD = 1.01
#: Samples that are looked at at a time: what is left of them stays in the cache.
STRIP = 1024


def predictive(factor: LowRankSymmetric, rows: BaseRows) -> LowRankSymmetric:
    """Its leading directions, as many as predict rows that it was not made from."""
    left = sum(_residuals(factor, rows, a) for a in range(0, rows.landmarks.n_samples, STRIP))
    kept = int(np.argmax(left <= AS_GOOD * np.min(left)))
    return replace(factor, F=factor.F[:, :kept], weights=factor.weights[:kept])


def _residuals(factor: LowRankSymmetric, rows: BaseRows, start: int) -> Float:
    """Squares of what 0, 1, ... directions leave of some samples' part of the rows, (r + 1,)."""
    samples = slice(start, start + STRIP)
    R = rows.part(np.arange(rows.landmarks.n_landmarks), samples)
    f = np.ascontiguousarray(factor.F[samples].T)  # (r, s)
    at = factor.F[rows.rows].T  # (r, n)
    own = np.flatnonzero((rows.rows >= start) & (rows.rows < start + R.shape[1]))
    itself = own, rows.rows[own] - start  # a row and its own sample: the diagonal is not predicted
    R[itself] = 0.0
    left, product = [float(np.vdot(R, R))], np.empty_like(R)
    for k, weight in enumerate(factor.weights):
        np.multiply((weight * at[k])[:, None], f[k], out=product)
        product[itself] = 0.0
        R -= product
        left.append(float(np.vdot(R, R)))
    return np.array(left)

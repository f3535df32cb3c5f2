"""How wrong a factor is, from pairs of samples.

Pairs with a landmark that the factor was fitted to are known, so what the factor makes of them is
measured. Pairs of two other samples are known only where one of them is *held out*: a landmark
that the fit did not use or, where all were used, a landmark as the fit to the others would see it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dhsic._typing import Float, Index
from dhsic.errors import InputError
from dhsic.kernels.base import AbstractKernel
from dhsic.linalg.symmetric import LowRankSymmetric
from dhsic.lowrank.base import BaseRows, Landmarks

#: Held-out rows: more estimate the error no better, fewer do so badly.
MOST_HELD, LEAST_HELD = 64, 16


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Landmarks as a factor sees samples that it was not fitted to.

    `which` (s,) are their positions among the landmarks, `embedding` (s, r) their rows of F, and
    `sizes` (s,) how large their residuals are expected to be, up to a common factor.
    """

    which: Index
    embedding: Float
    sizes: Float

    @staticmethod
    def of(
        rows: BaseRows,
        F: Float,
        used: Index,
        sizes: Float,
        seed: int,
        left_out: Callable[[Index], Float],
    ) -> HeldOut:
        """At most `MOST_HELD` landmarks that the fit did not use, or used ones where those are few.

        F (m, r) is the factor of a positive definite K, `used` (n,) are the positions of the
        landmarks that it was fitted to, in any order, and `sizes` (m,) is the diagonal of what it
        misses. `left_out` gives rows of F of used landmarks, named by their places in `used`, each
        as a fit to the others would have it.
        """
        unused = np.setdiff1d(np.arange(rows.landmarks.n_landmarks), used)
        are_unused = len(unused) >= LEAST_HELD
        pool = unused if are_unused else used
        order = np.random.default_rng([seed, len(pool)]).permutation(len(pool))
        which = np.sort(pool[order[:MOST_HELD]])
        samples = rows.rows[which]
        if are_unused or not len(which):
            return HeldOut(which, F[samples], sizes[samples])
        by_number = np.argsort(used)
        embedding = left_out(by_number[np.searchsorted(used, which, sorter=by_number)])
        left = rows.diagonal(samples) - np.einsum("ij,ij->i", embedding, embedding)
        return HeldOut(which, embedding, np.maximum(left, 0.0))


def estimated_error(
    rows: BaseRows, F: Float, weights: Float, used: Index, held: HeldOut, sizes: Float
) -> float:
    """Relative error off the diagonal, from all pairs that are known; at least 0.

    With d_i the expected size of sample i's residuals, the squared residuals of two samples that
    were not used sum to ``rho`` times the sum of ``d_i d_j``, and rho is measured on the held-out
    rows. For a factor of a positive definite K take ``d_i = K_ii - f_i' f_i``, the diagonal of
    the residual: by Cauchy and Schwarz rho is then at most 1, and it is right also where the used
    landmarks were the ones hardest to predict.

    F (m, r) with its `weights` is the factor, `used` (n,) are the positions of the landmarks that
    the fit used, and `sizes` (m,) are the expected d_i.
    """
    outside = np.ones(len(F))
    outside[rows.rows[used]] = 0.0
    # A pair of a used landmark and a sample outside occurs in both orders:
    residual, total = _squares(rows, used, F[rows.rows[used]] * weights, F, 1.0 + outside)
    n_outside = outside.sum()
    if n_outside < 2:
        return relative(residual, total)
    if not len(held.which):
        return float("inf")
    found, whole = _squares(rows, held.which, held.embedding * weights, F, outside)
    d, at = sizes * outside, rows.rows[held.which]
    n_pairs = len(at) * n_outside - outside[at].sum()  # of two samples
    expected = float(held.sizes.sum() * d.sum() - held.sizes @ d[at])
    total += whole * n_outside * (n_outside - 1) / max(n_pairs, 1.0)
    if expected > 0:
        residual += found * float(d.sum() ** 2 - d @ d) / expected
    return relative(residual, float(total))


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
    if check.n_samples != len(factor.F):
        raise InputError(
            f"The factor has {len(factor.F)} samples and the check {check.n_samples}; pass the "
            "statistic of the same samples."
        )
    rows, every = BaseRows(kernel, sigma, check, base), np.arange(check.n_landmarks)
    embedding = factor.F[rows.rows] * factor.weights
    return relative(*_squares(rows, every, embedding, factor.F, np.ones(check.n_samples)))


def _squares(
    rows: BaseRows, which: Index, embedding: Float, F: Float, counted: Float
) -> tuple[float, float]:
    """Squared residuals and squares of rows `which`, off the diagonal; samples are `counted`."""
    residual = total = 0.0
    for columns, K in rows.strips(which):
        K[diagonal := rows.itself(which, columns)] = 0.0
        total += float(np.einsum("ij,ij,j->", K, K, counted[columns]))
        R = np.subtract(K, embedding @ F[columns].T, out=K)
        R[diagonal] = 0.0
        residual += float(np.einsum("ij,ij,j->", R, R, counted[columns]))
    return residual, total


def relative(residual: float, total: float) -> float:
    """Root of residual over total; of nothing, 0 is all right and anything else infinitely wrong.

    >>> relative(1.0, 4.0), relative(0.0, 0.0), relative(1.0, 0.0)
    (0.5, 0.0, inf)
    """
    if residual <= 0:
        return 0.0
    return float(np.sqrt(residual / total)) if total > 0 else float("inf")

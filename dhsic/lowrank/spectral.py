r"""Leading directions of K without its diagonal, by subspace iteration.

Wide data has a kernel of a few structured directions on a flat floor that sits on the diagonal,
which off the diagonal does not count. So the diagonal is free: it is filled with what the factor
itself makes of it. Starting from 0, each iteration finds better directions for the diagonal at
hand and then the best diagonal for those directions; neither step makes the error off the
diagonal worse.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dhsic._typing import Float, Index
from dhsic.errors import InputError
from dhsic.lowrank.base import AbstractFactorizer, BaseRows, check_rank, signs
from dhsic.lowrank.residuals import MOST_HELD, HeldOut, estimated_error
from dhsic.validation import is_count

#: Directions that are iterated besides those asked for: they make the iteration converge fast.
SURPLUS = 8
#: Iteration ends where eigenvalues change by less than this part of the largest.
CONVERGED = 1e-10
#: One landmark in so many is set aside to estimate the error.
ONE_IN = 10
#: Landmarks that a direction takes where it is to be extended: with fewer the directions fit the
#: landmarks and nobody else.
PER_DIRECTION = 4
#: A direction has values of about ``|lambda| / sqrt(n)`` at n landmarks; where those outside are
#: more than so many times as large, it is noise that the extension would blow up.
MOST_GROWTH = 2.0
#: Eigenvalues below this part of the largest are rounding.
ROUNDING = 1e-13


@dataclass(frozen=True)
class Spectral(AbstractFactorizer):
    """Directions of the largest eigenvalues, by size, of K without its diagonal.

    Where the landmarks are all samples the error is measured. Otherwise one landmark in ten (at
    most 64) is set aside for it, the directions are those of the other landmarks, at most one for
    every four of them, and are extended to all samples by Nystrom's formula; a direction that
    grows outside the landmarks is noise and left out. Two or three landmarks are too few to find
    anything: the factor is empty and its error 1.

    Parameters
    ----------
    rank : int
        Most directions.
    n_iterations : int
        Most iterations.

    Raises
    ------
    InputError
        A parameter out of its range.
    """

    name: ClassVar[str] = "spectral"
    rank: int
    n_iterations: int = 30

    def __post_init__(self) -> None:
        if self.rank is None:
            raise InputError("Spectral rank=None; pass a whole number >= 1, for instance 5.")
        check_rank(self.rank, "Spectral")
        if not is_count(self.n_iterations):
            raise InputError(
                f"Spectral n_iterations={self.n_iterations!r}; pass a whole number >= 1."
            )

    def _directions(self, rows: BaseRows, seed: int) -> tuple[Float, Float, float]:
        """``F = K_mb V |lambda|^{-1/2}``; weights are the signs of lambda."""
        rng = np.random.default_rng(seed)
        used, held = _set_aside(rows, rng)
        K = rows.among(used)
        np.fill_diagonal(K, 0.0)
        all_used = len(used) == rows.landmarks.n_samples
        rank = self.rank if all_used else min(self.rank, max(1, len(used) // PER_DIRECTION))
        values, V = leading(K, rank, self.n_iterations, rng)
        F, weights = _extend(rows, used, values, V)
        ones = np.ones(len(F))
        out = HeldOut(held, F[rows.rows[held]], np.ones(len(held)))
        return F, weights, estimated_error(rows, F, weights, used, out, ones)


def leading(
    K: Float, rank: int, n_iterations: int, rng: np.random.Generator
) -> tuple[Float, Float]:
    """Eigenvalues (r,), the largest by size first, and eigenvectors (n, r).

    K is (n, n), symmetric, with a diagonal of zeros; the matrix meant is K with the diagonal that
    the result has.
    """
    n = len(K)
    r = min(rank, n)
    V, _ = np.linalg.qr(rng.standard_normal((n, min(n, rank + SURPLUS))))
    h = np.zeros(n)  # the diagonal
    values = np.zeros(r)
    for _ in range(n_iterations):
        V, _ = np.linalg.qr(K @ V + h[:, None] * V)
        core = V.T @ (K @ V + h[:, None] * V)
        every, rotation = np.linalg.eigh((core + core.T) / 2)
        order = np.argsort(-np.abs(every), kind="stable")
        before, values = values, every[order[:r]]
        V = V @ rotation[:, order]
        h = (V[:, :r] ** 2) @ values
        change = np.abs(values - before).max(initial=0.0)
        if change <= CONVERGED * np.abs(values).max(initial=0.0):
            break
    V = V[:, :r]
    return values, V * signs(V)


def _set_aside(rows: BaseRows, rng: np.random.Generator) -> tuple[Index, Index]:
    """Landmarks to use and to set aside; none of the latter where all samples are landmarks."""
    b, m = rows.landmarks.inner.shape
    n = 0 if b == m else min(MOST_HELD, -(-b // ONE_IN))
    order = rng.permutation(b)
    return np.sort(order[n:]), np.sort(order[:n])


def _extend(rows: BaseRows, used: Index, values: Float, V: Float) -> tuple[Float, Float]:
    """F (m, r) and its weights; rows of used landmarks are ``V |lambda|^{1/2}``."""
    m, n = rows.landmarks.n_samples, len(used)
    at = rows.rows[used]
    size = np.abs(values)
    kept = size > ROUNDING * size.max(initial=0.0)
    Y = np.zeros((m, len(values)))  # K_mb V, 0 at the landmarks
    if n < m:
        for columns, K in rows.strips(used):
            np.matmul(K.T, V, out=Y[columns])
        Y[at] = 0.0
        outside = np.sqrt(np.einsum("ij,ij->j", Y, Y) / (m - n))
        kept &= outside * np.sqrt(n) < MOST_GROWTH * size
    weights, roots = np.sign(values[kept]), np.sqrt(size[kept])
    F = np.ascontiguousarray(Y[:, kept])
    F *= weights / roots
    F[at] = V[:, kept] * roots
    return F, weights

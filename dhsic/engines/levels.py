r"""Few-valued features (genotypes, one-hot, counts): an exact expansion without a series.

A feature with q levels splits the samples by indicators ``1_0, ..., 1_(q-1)`` that sum to one.
If the kernel is a product over features, removing feature j multiplies ``K_ii'`` by
``1 + F_kl``, k and l the levels of the two samples, so the gain is

    ``sum_kl F_kl N_kl``  with  ``N_kl = 1_k' A 1_l``  and  ``A = W o K``.

Level 0 follows from the others, ``A 1_0 = A 1 - sum_l A 1_l``: q - 1 products, exact for any
sigma.
"""

from __future__ import annotations

import numpy as np

from dhsic._typing import Array, Float
from dhsic.kernels.base import AbstractKernel


def level_gains(
    X: Array, n_levels: Array, A: Float, row_sums: Float, kernel: AbstractKernel, sigma: float
) -> Float:
    """Gains of c few-valued features.

    Parameters
    ----------
    X : (c, m) array
        Features as rows.
    n_levels : (c,) int array
        Number of distinct values of each, at least 2.
    A, row_sums : (m, m) and (m,) float64
        ``W o K`` and its row sums.
    kernel, sigma
        A kernel with a `factor`.

    Returns
    -------
    (c,) float64
        Gains.
    """
    gains = np.empty(len(X))
    for q in np.unique(n_levels):
        which = n_levels == q
        gains[which] = _gains(X[which], int(q), A, row_sums, kernel, sigma)
    return gains


def _gains(
    X: Array, q: int, A: Float, row_sums: Float, kernel: AbstractKernel, sigma: float
) -> Float:
    """Gains of features with q levels each."""
    levels, others = _indicators(X, q)  # (q, c), (q - 1, c, m)
    products = (others.reshape(-1, len(row_sums)) @ A).reshape(others.shape)
    N = np.einsum("kci,lci->klc", others, products)  # levels from 1 on
    N_0 = np.einsum("lci,i->lc", others, row_sums) - N.sum(axis=0)  # (q - 1, c)
    F = kernel.factor(np.square(levels[:, None] - levels[None, :]), sigma)  # (q, q, c)
    assert F is not None, "callers ask only kernels that are products over features"
    return np.asarray(2 * (F[0, 1:] * N_0).sum(axis=0) + (F[1:, 1:] * N).sum(axis=(0, 1)))


def _indicators(X: Array, q: int) -> tuple[Float, Float]:
    """Levels in the order in which they occur, and where each feature has those but the first."""
    c, m = X.shape
    levels, indicators = np.empty((q, c)), np.empty((q - 1, c, m))
    open_ = np.ones((c, m), dtype=bool)
    everyone = np.arange(c)
    for level in range(q):
        levels[level] = X[everyone, np.argmax(open_, axis=1)]
        here = levels[level][:, None] == X
        open_ &= ~here
        if level:
            indicators[level - 1] = here
    return levels, indicators

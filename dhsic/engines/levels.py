r"""Few-valued features (genotypes, one-hot, counts): an exact expansion without a series.

A feature with q levels splits the samples by indicators ``1_0, ..., 1_(q-1)`` that sum to one.
If the kernel is a product over features, removing feature j multiplies ``K_ii'`` by
``1 + F_kl``, k and l the levels of the two samples, so the gain is

    ``sum_kl F_kl 1_k' A 1_l
    = sum_i ( F_{k(i) 0} (A1)_i + sum_{l>0} (F_{k(i) l} - F_{k(i) 0}) (A 1_l)_i )``

with ``A = W o K``: q - 1 products, exact for any sigma.
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
    c, m = X.shape
    starts = np.concatenate([[0], np.cumsum(n_levels.astype(np.int64) - 1)])
    indicators = np.empty((int(starts[-1]), m))
    lefts = np.empty_like(indicators)
    gains = np.empty(c)
    for j in range(c):
        levels, code = np.unique(X[j], return_inverse=True)
        F = kernel.factor(np.subtract.outer(levels, levels) ** 2, sigma)
        assert F is not None, "callers ask only kernels that are products over features"
        gains[j] = F[code, 0] @ row_sums
        for level in range(1, len(levels)):
            row = starts[j] + level - 1
            indicators[row] = code == level
            lefts[row] = (F[:, level] - F[:, 0])[code]
    lefts *= indicators @ A
    return gains + np.add.reduceat(lefts.sum(axis=1), starts[:-1])

"""Kernel matrices of data that are in memory: dense, or of low rank where that is all of it."""

from __future__ import annotations

import numpy as np

from dhsic._typing import Float
from dhsic.kernels.bandwidth import MEDIAN_SAMPLES
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.labels import COMPLETE
from dhsic.linalg import pivoted_cholesky
from dhsic.linalg.symmetric import DenseSymmetric, LowRankSymmetric

#: Directions of a data kernel that are tried for.
DIRECTIONS = 256


def few_samples(X: Float) -> Float:
    """The samples of X (m, d) that a median distance takes: every so-many-th."""
    return X[:: -(-len(X) // MEDIAN_SAMPLES)]


def dense_kernel(kernel: AbstractKernel, X: Float, sigma: float) -> DenseSymmetric:
    """K written out."""
    inner = X @ X.T
    norms = np.diagonal(inner).copy()
    return DenseSymmetric(kernel.gram(inner, norms, norms, sigma))


def low_rank_kernel(kernel: AbstractKernel, X: Float, sigma: float) -> LowRankSymmetric | None:
    """K where up to 256 directions, and m / 4, make it complete but for rounding; else None.

    Every sample may be a pivot, so that nothing is missed.
    """
    norms = np.einsum("ij,ij->i", X, X)

    def row(p: int) -> Float:
        return kernel.gram((X @ X[p])[:, None], norms, norms[p : p + 1], sigma)[:, 0]

    diagonal = kernel.diagonal(None, norms, sigma)
    most = min(DIRECTIONS, len(X) // 4)
    G, _, missing = pivoted_cholesky(row, diagonal, rank=most, tolerance=COMPLETE)
    if missing.sum() > COMPLETE * diagonal.sum():
        return None
    return LowRankSymmetric(np.ascontiguousarray(G.T), np.ones(len(G)), diagonal)

"""Data and labels as a test of independence takes them: of low rank where that can be.

Data are K, and the estimator's A; labels are L, and ``C = R L R``.
"""

from __future__ import annotations

import numpy as np

from dhsic._typing import Float
from dhsic.errors import InputError
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.label_kernels import LabelMatrix
from dhsic.linalg.pivoted_cholesky import pivoted_cholesky
from dhsic.linalg.symmetric import DenseSymmetric, LowRankSymmetric, Symmetric

#: Part of its trace that a matrix of low rank may leave out: rounding.
COMPLETE = 1e-13
#: Directions of a data kernel that are tried for.
MOST = 256
#: Directions of labels up to which products with them are faster than to look up permuted entries.
MOST_LABELS = 64
#: Part of the labels that is nothing.
NOTHING = 1e-12


def dense_kernel(kernel: AbstractKernel, X: Float, sigma: float) -> DenseSymmetric:
    """K written out."""
    inner = X @ X.T
    norms = np.diagonal(inner).copy()
    return DenseSymmetric(kernel.gram(inner, norms, norms, sigma))


def low_rank_kernel(kernel: AbstractKernel, X: Float, sigma: float) -> LowRankSymmetric | None:
    """K where up to 256 directions, and m / 4, make it complete but for rounding; else None.

    Every sample may be a pivot, so that nothing is missed, and rows of K are made from X when they
    are asked for.
    """
    norms = np.einsum("ij,ij->i", X, X)

    def row(p: int) -> Float:
        return kernel.gram((X @ X[p])[:, None], norms, norms[p : p + 1], sigma)[:, 0]

    diagonal = kernel.diagonal(None, norms, sigma)
    most = min(MOST, len(X) // 4)
    G, _, missing = pivoted_cholesky(row, diagonal, rank=most, tolerance=COMPLETE)
    if missing.sum() > COMPLETE * diagonal.sum():
        return None
    return LowRankSymmetric(np.ascontiguousarray(G.T), np.ones(len(G)), diagonal)


def estimated(K: Symmetric, estimator: str) -> Symmetric:
    """A, with which ``HSIC = <R L R, A>``: K with the diagonal that makes the estimator.

    Parameters
    ----------
    K : Symmetric
        Data kernel matrix.
    estimator : {"unbiased", "biased"}
        JMLR eq. 5 or eq. 4.
    """
    m = K.n_samples
    if estimator == "biased":
        scale = 1.0 / (m - 1) ** 2
        return K.changed(scale, scale * K.diagonal)
    sums = K.row_sums - K.diagonal  # Kt 1
    scale = 1.0 / (m * (m - 3))
    g = 2.0 * sums / (m - 2) - sums.sum() / ((m - 1) * (m - 2))
    return K.changed(scale, scale * g)


def low_rank_labels(labels: LabelMatrix) -> LowRankSymmetric | None:
    """L where it has up to 64 directions, as classes and real values have; else None."""
    return labels.low_rank(tolerance=COMPLETE, max_rank=MOST_LABELS)


def dense_labels(labels: LabelMatrix) -> DenseSymmetric:
    """L written out."""
    return DenseSymmetric(labels.L)


def residual(L: Symmetric, Q: Float) -> Symmetric:
    """``C = R L R``; Q is that of `dhsic.linalg.covariates.covariate_basis`.

    Raises
    ------
    InputError
        Nothing is left of the labels.
    """
    C = L.projected(Q)
    if np.abs(C.diagonal).max() <= NOTHING * np.abs(L.diagonal).max():
        raise InputError(
            "Nothing is left of the labels once their mean and the covariates are taken out; "
            "pass labels that vary, or fewer covariates."
        )
    return C

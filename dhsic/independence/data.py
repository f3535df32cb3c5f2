"""Data as a test of independence takes them: K, thin where that can be, and the estimator's A.

Labels as a test of independence takes them: ``C = R L R``, thin where that can be.
"""

from __future__ import annotations

import numpy as np

from dhsic._typing import Array, Float
from dhsic.errors import InputError
from dhsic.independence.forms import AbstractForm, Full, Thin
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.label_factors import factor_of
from dhsic.kernels.labels import ClassTarget, LabelPart, LabelParts, RealTargets
from dhsic.linalg.covariates import covariate_basis

#: Part of its trace that a thin kernel matrix may leave out: rounding.
COMPLETE = 1e-13
#: Directions of a data kernel that are tried for.
MOST = 256
#: Side of the tiles on whose diagonals the diagonal of a kernel is computed.
DIAGONAL_TILE = 64


def full_kernel(kernel: AbstractKernel, X: Float, sigma: float) -> Full:
    """K written out."""
    inner = X @ X.T
    norms = np.diagonal(inner).copy()
    return Full(kernel.gram(inner, norms, norms, sigma))


def thin_kernel(kernel: AbstractKernel, X: Float, sigma: float) -> Thin | None:
    """K where up to 256 directions, and m / 4, make it complete but for rounding; else None.

    Incomplete Cholesky decomposition as in JMLR 2.6.2, but every sample may be a pivot, so that
    nothing is missed, and rows of K are made from X when they are asked for.
    """
    m = len(X)
    norms = np.einsum("ij,ij->i", X, X)
    diagonal = _diagonal(kernel, norms, sigma)
    G = np.empty((min(MOST, m // 4), m))  # rows are directions
    missing = diagonal.copy()
    for rank in range(len(G) + 1):
        if missing.sum() <= COMPLETE * diagonal.sum():
            F = np.ascontiguousarray(G[:rank].T)
            return Thin(F, np.ones(rank), diagonal - np.square(F).sum(axis=1))
        if rank == len(G):
            break
        p = int(np.argmax(missing))
        column = kernel.gram((X @ X[p])[:, None], norms, norms[p : p + 1], sigma)[:, 0]
        column -= G[:rank, p] @ G[:rank]
        G[rank] = column / np.sqrt(missing[p])
        missing -= np.square(G[rank])
        np.maximum(missing, 0.0, out=missing)
        missing[p] = 0.0
    return None


def _diagonal(kernel: AbstractKernel, norms: Float, sigma: float) -> Float:
    diagonal = np.empty_like(norms)
    for a in range(0, len(norms), DIAGONAL_TILE):
        n = norms[a : a + DIAGONAL_TILE]
        tile = np.repeat(n[:, None], len(n), axis=1)
        diagonal[a : a + DIAGONAL_TILE] = np.diagonal(kernel.gram(tile, n, n, sigma))
    return diagonal


def estimated(K: AbstractForm, estimator: str) -> AbstractForm:
    """A, with which ``HSIC = <R L R, A>``: K with the diagonal that makes the estimator.

    Parameters
    ----------
    K : AbstractForm
        Data kernel matrix.
    estimator : {"unbiased", "biased"}
        JMLR eq. 5 or eq. 4.
    """
    diagonal = K.diagonal
    m = len(diagonal)
    if estimator == "biased":
        scale = 1.0 / (m - 1) ** 2
        return K.changed(scale, scale * diagonal)
    sums = K.sums() - diagonal  # Kt 1
    scale = 1.0 / (m * (m - 3))
    g = 2.0 * sums / (m - 2) - sums.sum() / ((m - 1) * (m - 2))
    return K.changed(scale, scale * g)


#: Part of its trace that a thin label matrix may leave out: rounding.
COMPLETE = 1e-13
#: Directions up to which products with them are faster than to look up permuted entries.
MOST_LABELS = 64
#: Part of the labels that is nothing.
NOTHING = 1e-12


def basis_of(covariates: Array | None, m: int) -> Float:
    """Orthonormal basis Q of ``[1, covariates]``, (m, q); errors as of `covariate_basis`."""
    return np.full((m, 1), m**-0.5) if covariates is None else covariate_basis(covariates, m)


def thin_labels(labels: LabelParts) -> Thin | None:
    """L where it has up to 64 directions, as classes and real values have; else None.

    A given L is not searched for directions: that takes longer than the test.
    """
    if not all(_may_be_thin(part) for part in labels.parts):
        return None
    L = factor_of(labels, tolerance=COMPLETE, max_rank=MOST_LABELS)
    if L.error > COMPLETE or L.B.shape[1] > MOST_LABELS:
        return None
    return Thin(L.B, L.weights, np.zeros(labels.n_samples))


def _may_be_thin(part: LabelPart) -> bool:
    few = isinstance(part, ClassTarget) and len(part.weights) <= MOST_LABELS
    return few or isinstance(part, RealTargets)


def full_labels(labels: LabelParts) -> Full:
    """L written out."""
    everyone = slice(0, labels.n_samples)
    return Full(np.asarray(labels.tile(everyone, everyone)))


def residual(L: AbstractForm, Q: Float) -> AbstractForm:
    """``C = R L R``; Q is that of `basis_of`.

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

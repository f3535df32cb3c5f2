"""Samples with weights: their effective number, weighted ranks, and projections."""

from __future__ import annotations

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.linalg.covariates import covariate_basis


def effective_size(weights: Float) -> float:
    """Effective number of samples of weights (m,), ``(sum w)^2 / sum w^2`` (Kish, 1965).

    >>> effective_size(np.array([1.0, 1.0, 2.0, 2.0]))
    3.6
    """
    return float(weights.sum() ** 2 / np.square(weights).sum())


def weighted_ranks(x: Array, p: Float, tie: float = 0.0) -> tuple[Float, Index]:
    """Weighted mid-ranks of x (m,), in (0, 1), and the first sample of each level, ascending.

    The rank of a sample is the weight of all smaller values and half the weight of equal ones; the
    weights p (m,) sum to 1. Neighbours that differ by at most `tie` are equal.

    >>> weighted_ranks(np.array([7.0, 1.0, 7.0]), np.array([0.25, 0.5, 0.25]))
    (array([0.75, 0.25, 0.75]), array([1, 0]))
    """
    order = np.argsort(x, kind="stable")
    starts = np.flatnonzero(np.append(True, np.diff(x[order]) > tie))
    sums = np.add.reduceat(p[order], starts)
    u = np.empty(x.size)
    u[order] = np.repeat(np.cumsum(sums) - sums / 2, np.diff(np.append(starts, x.size)))
    return u, order[starts]


def weighted_basis(covariates: Array | None, p: Float) -> Float:
    """Orthonormal basis (m, q + 1) of ``sqrt(p) [1, C]``, for weights p (m,) and covariates C.

    Raises InputError for covariates that `covariate_basis` rejects.
    """
    root = np.sqrt(p)[:, None]
    if covariates is None:
        return root
    C = covariate_basis(covariates, len(p))  # without dependent columns
    Q, _ = np.linalg.qr(root * C)
    return np.asarray(Q)

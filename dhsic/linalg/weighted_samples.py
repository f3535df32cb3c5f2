"""Functions for weighted samples: effective number, weighted ranks, and a basis of covariates."""

from __future__ import annotations

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.linalg.covariates import covariate_basis


def effective_size(weights: Float) -> float:
    """Compute the effective number of samples, ``(sum w)^2 / sum w^2``, for weights w (m,).

    See Kish (1965).

    >>> effective_size(np.array([1.0, 1.0, 2.0, 2.0]))
    3.6
    """
    return float(weights.sum() ** 2 / np.square(weights).sum())


def weighted_ranks(x: Array, p: Float, tie: float = 0.0) -> tuple[Float, Index]:
    """Compute weighted mid-ranks of x (m,), between 0 and 1.

    The rank of a sample is the total weight of smaller values plus half the total weight of equal
    values. The weights p (m,) sum to 1. Sorted neighbours that differ by at most `tie` count as
    equal. Also returns the first sample of each distinct value, by ascending value.

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
    """Compute an orthonormal basis (m, q + 1) of ``sqrt(p) [1, C]``.

    p (m,) are weights, and C (m, q) are covariates. Raises InputError for the same reasons as
    `covariate_basis`.
    """
    root = np.sqrt(p)[:, None]
    if covariates is None:
        return root
    C = covariate_basis(covariates, len(p))  # without dependent columns
    Q, _ = np.linalg.qr(root * C)
    return np.asarray(Q)

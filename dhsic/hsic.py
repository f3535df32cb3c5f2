r"""HSIC is linear in the data kernel: ``HSIC(K, L) = sum_ij W_ij K_ij = <W, K>``.

An estimator *is* a map from the label matrix L to the weights W, computed once per run:

- biased (JMLR eq. 4): ``W = H L H / (m - 1)^2`` with ``H = I - 1 1' / m``;
- unbiased (JMLR eq. 5): with Lt = L without its diagonal, ``v = Lt 1`` and ``s = 1' v``,
  ``W_ij = (Lt_ij + s / ((m-1)(m-2)) - (v_i + v_j) / (m-2)) / (m (m-3))`` off the diagonal, 0 on it;
- covariates C: L is replaced by ``R L R``, R the projection onto the complement of ``[1, C]``;
  what C explains linearly is gone from W, whatever the data kernel.
"""

from __future__ import annotations

import numpy as np

from dhsic._typing import Array, Float
from dhsic.alignment import check_order, names_of
from dhsic.errors import InputError
from dhsic.given import as_array, as_numbers
from dhsic.kernels.bandwidth import hsic_value, resolve_bandwidth
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.choosing import check_reach, resolve_kernel
from dhsic.kernels.labels import label_matrix
from dhsic.kernels.statistic import Statistic

ESTIMATORS = ("unbiased", "biased")


def weights(L: Float, estimator: str = "unbiased", covariates: Array | None = None) -> Float:
    """W such that ``HSIC = <W, K>``.

    Parameters
    ----------
    L : (m, m) array
        Label kernel matrix, symmetric.
    estimator : {"unbiased", "biased"}
        JMLR eq. 5 or eq. 4.
    covariates : (m, q) array, optional
        Linear effects to project out of L.

    Returns
    -------
    W : (m, m) float64
        Symmetric; zero diagonal for the unbiased estimator.

    Raises
    ------
    InputError
        Unknown estimator, fewer than 4 samples (unbiased) or 2 (biased), bad covariates.
    """
    check_estimator(estimator, len(L))
    if covariates is not None:
        L = _project_out(L, covariates)
    return _biased(L) if estimator == "biased" else _unbiased(L)


def check_estimator(estimator: str, m: int) -> None:
    """Refuse an unknown estimator, or one that m samples are too few for."""
    if estimator not in ESTIMATORS:
        raise InputError(f"estimator={estimator!r} is unknown; pass 'unbiased' or 'biased'.")
    least = 4 if estimator == "unbiased" else 2
    if m < least:
        raise InputError(
            f"The {estimator} estimator needs at least {least} samples and got n_samples={m}; "
            "collect more" + (", or pass estimator='biased'." if m >= 2 else ".")
        )


def _biased(L: Float) -> Float:
    """JMLR eq. 4: ``H L H / (m - 1)^2``."""
    m = len(L)
    means = L.mean(axis=0)
    W = L - means[:, None] - means[None, :]
    W += means.mean()
    W /= (m - 1) ** 2
    return np.asarray(W)


def _unbiased(L: Float) -> Float:
    """JMLR eq. 5 solved for the factor of ``K_ij``."""
    m = len(L)
    v = L.sum(axis=0) - np.diagonal(L)  # Lt 1
    s = v.sum()  # 1' Lt 1
    W = L - (v[:, None] + v[None, :]) / (m - 2)
    W += s / ((m - 1) * (m - 2))
    W /= m * (m - 3)
    np.fill_diagonal(W, 0.0)
    return np.asarray(W)


def _project_out(L: Float, covariates: Array) -> Float:
    """``R L R`` with ``R = I - Q Q'``, Q an orthonormal basis of ``[1, C]``."""
    C = as_numbers(covariates, "covariates")
    C = C[:, None] if C.ndim == 1 else C
    m = len(L)
    if C.ndim != 2 or len(C) != m:
        raise InputError(
            f"covariates have shape {np.shape(covariates)} and there are {m} samples; pass one "
            "row a sample."
        )
    spread = C.std(axis=0)
    C = (C - C.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    Q, singular, _ = np.linalg.svd(np.column_stack([np.ones(m), C]), full_matrices=False)
    Q = Q[:, singular > 1e-10 * singular[0]]
    if Q.shape[1] >= m - 1:
        raise InputError(
            f"{Q.shape[1] - 1} independent covariates leave nothing of {m} samples; pass fewer."
        )
    R = L - Q @ (Q.T @ L)
    R -= (R @ Q) @ Q.T
    return np.asarray((R + R.T) / 2)


def hsic(
    X: Array,
    Y: Array,
    *,
    kernel: str | AbstractKernel = "gaussian",
    label_kernel: str = "auto",
    bandwidth: object = "median",
    estimator: str = "unbiased",
    covariates: Array | None = None,
) -> float:
    """Hilbert-Schmidt independence criterion between X and Y (JMLR eq. 4 and 5).

    Parameters
    ----------
    X : (m, d) or (m,) array
        Data, used as they are (standardise them first if their scales differ).
    Y : (m,) or (m, t) array
        Labels; (m, m) for ``label_kernel="precomputed"``.
    kernel : {"gaussian", "polynomial", "linear"} or kernel object
        Kernel on the data.
    label_kernel : str
        Kernel on the labels, see `dhsic.kernels.labels.label_matrix`.
    bandwidth : "median", "dimension", float or sequence of floats
        Width of the data kernel; see `dhsic.kernels.bandwidth`.
    estimator : {"unbiased", "biased"}
        JMLR eq. 5 or eq. 4.
    covariates : (m, q) array, optional
        Linear effects to project out.

    Returns
    -------
    float
        The estimate. The unbiased one may be negative.

    Examples
    --------
    >>> import numpy as np, dhsic
    >>> x = np.linspace(-1, 1, 50)
    >>> dhsic.hsic(x, x**2) > 10 * abs(dhsic.hsic(x, np.tile([0, 1], 25)))
    True
    """
    check_order(names_of(X), Y, "Y")
    check_order(names_of(X), covariates, "covariates")
    X = as_numbers(X, "X")
    X = X[:, None] if X.ndim == 1 else X
    labels = label_matrix(as_array(Y, "Y"), label_kernel)
    if X.ndim != 2 or len(X) != len(labels.L) or X.shape[1] == 0:
        raise InputError(
            f"X has shape {X.shape} and Y {len(labels.L)} samples; pass one row a sample in both, "
            "and one feature or more."
        )
    W = weights(labels.L, estimator, covariates)
    chosen = resolve_kernel(kernel)
    X = X - X.mean(axis=0) if chosen.has_bandwidth else X  # distances keep their digits
    statistic = Statistic.of(X @ X.T)
    check_reach(chosen, float(statistic.diagonal.max()))
    sigma = 1.0
    if chosen.has_bandwidth:
        sigma = resolve_bandwidth(bandwidth)(chosen, W, statistic, X.shape[1])
    return hsic_value(chosen, sigma, W, statistic)

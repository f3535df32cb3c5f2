r"""HSIC is linear in the data kernel: ``HSIC(K, L) = sum_ij W_ij K_ij = <W, K>``.

An estimator *is* a map from the label matrix L to the weights W, computed once per run:

- biased (JMLR eq. 4): ``W = H L H / (m - 1)^2`` with ``H = I - 1 1' / m``;
- unbiased (JMLR eq. 5): with Lt = L without its diagonal, ``v = Lt 1`` and ``s = 1' v``,
  ``W_ij = (Lt_ij + s / ((m-1)(m-2)) - (v_i + v_j) / (m-2)) / (m (m-3))`` off the diagonal, 0 on it;
- covariates C: L is replaced by ``R L R``, R the projection onto the complement of ``[1, C]``;
  what C explains linearly of the label features is gone from W, whatever the data kernel. Real
  labels are replaced by what a linear regression on C leaves of them before L is made of them
  (`dhsic.kernels.labels`): a kernel of y itself would keep C in it nonlinearly.
"""

from __future__ import annotations

import numpy as np

from dhsic._typing import Array, Float
from dhsic.covariates import covariate_basis
from dhsic.errors import InputError

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
    Q = covariate_basis(covariates, len(L))
    R = L - Q @ (Q.T @ L)
    R -= (R @ Q) @ Q.T
    return np.asarray((R + R.T) / 2)


def variance_of_hsic(row_sums: Float, smoothed: Float) -> float:
    r"""Estimated variance of HSIC_1 from W and K (JMLR Theorem 5).

    The paper's ``(m-1)_3^-1 sum_(j,q,r) h(i, j, q, r)``, the part of HSIC_1 that is due to sample
    i, does not change when a term ``a 1' + 1 a'`` is added to L, hence ``m (m-3) W`` may stand for
    L. Rows of W sum to 0, and of its vector **h** there remains

        ``h_i = m / (2 (m-1)) ((m-2) ((W o K) 1)_i + HSIC_1 - (W Kt 1)_i)``

    with Kt = K without its diagonal: the mean of h is HSIC_1 and the variance
    ``16 / m (mean_i h_i^2 - HSIC_1^2)``.

    The **h** printed above section 2.6 is twice the sum that the text says it is; R, which divides
    by 4, is right.

    Parameters
    ----------
    row_sums : (m,) float64
        ``(W o K) 1`` for the weights of the unbiased estimator.
    smoothed : (m,) float64
        ``W Kt 1``.

    Returns
    -------
    float
        Not below 0.
    """
    m = len(row_sums)
    h = (m - 2) * row_sums + row_sums.sum() - smoothed
    h *= m / (2.0 * (m - 1))
    return float(16.0 / m * h.var())

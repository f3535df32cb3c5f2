r"""HSIC as a linear function of the data kernel: ``HSIC(K, L) = sum_ij W_ij K_ij``.

An estimator is a map from the label matrix L to the weights W, computed once per run:

- biased (JMLR eq. 4): ``W = H L H / (m - 1)^2`` with ``H = I - 1 1' / m``;
- unbiased (JMLR eq. 5): with Lt = L without its diagonal, ``v = Lt 1`` and ``s = 1' v``,
  ``W_ij = (Lt_ij + s / ((m-1)(m-2)) - (v_i + v_j) / (m-2)) / (m (m-3))`` off the diagonal, 0 on it;
- covariates C: L is replaced by ``R L R``, R the projection onto the complement of ``[1, C]``. This
  removes linear effects of C on the label features from W, for any data kernel. Real labels are
  replaced by their residuals after linear regression on C before L is computed
  (`dhsic.kernels.labels`): a kernel of y itself would retain nonlinear functions of C.

If L is of low rank, so is W: ``W = U M U'`` off the diagonal. With ``R L R = B diag(w) B'``,

- biased: ``W = R L R / (m - 1)^2``, so ``U = B``;
- unbiased: ``U = [B, 1, v]``. Adding ``a 1' + 1 a'`` to L does not change W off the diagonal, since
  W is L minus row sums and diagonal; so R L R may replace L. Its rows sum to 0, and without their
  diagonal to ``v = -diag(R L R)``, which is small: nothing cancels.

HSIC and its variance then cost O(m q r) with a K of rank r (JMLR 2.6.2, 2.6.3).
The paper adds ``1' D_K 1`` in the sum of K without its diagonal; it has to be subtracted.
"""

from __future__ import annotations

import numpy as np

from dhsic._typing import Array, Float
from dhsic.errors import InputError
from dhsic.linalg.covariates import covariate_basis, nothing_left, residuals
from dhsic.linalg.symmetric import DenseSymmetric, LowRankSymmetric, Symmetric

ESTIMATORS = ("unbiased", "biased")


def weights(L: Float, estimator: str = "unbiased", covariates: Array | None = None) -> Float:
    """W such that ``HSIC = <W, K>``, (m, m) float64, symmetric.

    Parameters
    ----------
    L : (m, m) array
        Label kernel matrix, symmetric.
    estimator : {"unbiased", "biased"}
        JMLR eq. 5, with zero diagonal, or eq. 4; they need at least 4 or 2 samples.
    covariates : (m, q) array, optional
        Covariates whose linear effects are projected out of L.
    """
    check_estimator(estimator, len(L))
    if covariates is not None:
        L = DenseSymmetric(L).projected(covariate_basis(covariates, len(L))).matrix
    m = len(L)
    if estimator == "biased":
        means = L.mean(axis=0)
        W = L - means[:, None] - means[None, :]
        W += means.mean()
        W /= (m - 1) ** 2
        return np.asarray(W)
    v = L.sum(axis=0) - np.diagonal(L)  # Lt 1
    W = L - (v[:, None] + v[None, :]) / (m - 2)
    W += v.sum() / ((m - 1) * (m - 2))
    W /= m * (m - 3)
    np.fill_diagonal(W, 0.0)
    return np.asarray(W)


def checked_weights(L: Float, estimator: str, covariates: Array | None) -> Float:
    """`weights`, with an error if labels do not vary after covariates are projected out."""
    W = weights(L, estimator, covariates)
    _check_left(float(np.abs(W).max()), float(np.abs(L).max()), len(L), estimator, covariates)
    return W


def check_estimator(estimator: str, m: int) -> None:
    """Raise an error for an unknown estimator, or one that needs more than m samples."""
    if estimator not in ESTIMATORS:
        raise InputError(f"estimator={estimator!r} is unknown; pass 'unbiased' or 'biased'.")
    least = 4 if estimator == "unbiased" else 2
    if m < least:
        raise InputError(
            f"The {estimator} estimator needs at least {least} samples and got n_samples={m}; "
            "collect more" + (", or pass estimator='biased'." if m >= 2 else ".")
        )


def estimated(K: Symmetric, estimator: str) -> Symmetric:
    """Matrix A with ``HSIC = <R L R, A>``: K with the diagonal of the estimator."""
    m = K.n_samples
    if estimator == "biased":
        scale = 1.0 / (m - 1) ** 2
        return K.changed(scale, scale * K.diagonal)
    sums = K.row_sums - K.diagonal  # Kt 1
    scale = 1.0 / (m * (m - 3))
    g = 2.0 * sums / (m - 2) - sums.sum() / ((m - 1) * (m - 2))
    return K.changed(scale, scale * g)


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

    `row_sums` (m,) are ``(W o K) 1`` for the weights of the unbiased estimator, `smoothed` (m,) is
    ``W Kt 1``.
    """
    m = len(row_sums)
    h = (m - 2) * row_sums + row_sums.sum() - smoothed
    h *= m / (2.0 * (m - 1))
    return float(16.0 / m * h.var())


def factored_weights(
    L: LowRankSymmetric, estimator: str = "unbiased", covariates: Array | None = None
) -> LowRankSymmetric:
    """Low-rank W from low-rank L; agrees with `weights`.

    Its rank is at most g + 2 (unbiased) or g (biased), if L has g directions.
    """
    m = L.n_samples
    check_estimator(estimator, m)
    B = residuals(L.F, covariates)
    diagonal = (B * B) @ L.weights
    if estimator == "biased":
        scale = (m - 1) ** 2
        return LowRankSymmetric(B, L.weights / scale, diagonal / scale)
    g = len(L.weights)
    M = np.zeros((g + 2, g + 2))  # matrix of eq. 5 between columns of [B, 1, v]
    M[:g, :g] = np.diag(L.weights)
    M[g, g] = -float(diagonal.sum()) / ((m - 1) * (m - 2))
    M[g, g + 1] = M[g + 1, g] = -1.0 / (m - 2)
    U = np.column_stack([B, np.ones(m), -diagonal])
    return LowRankSymmetric(U, M / (m * (m - 3)), np.zeros(m))


def checked_factored_weights(
    L: LowRankSymmetric, estimator: str, covariates: Array | None
) -> LowRankSymmetric:
    """`factored_weights`, with the errors of `checked_weights`."""
    W = factored_weights(L, estimator, covariates)
    largest = float((np.square(L.F) @ np.abs(L.weights)).max())
    _check_left(W.norm / L.n_samples, largest, L.n_samples, estimator, covariates)
    return W


def _check_left(
    largest_weight: float, largest_label: float, m: int, estimator: str, covariates: Array | None
) -> None:
    if largest_weight * m * m > 1e-9 * largest_label:
        return
    if covariates is None and estimator == "biased":
        raise InputError(
            "Nothing is left of the label matrix once its mean is taken out: rows of a given L "
            "that are all alike. Pass labels that vary, or a centred L."
        )
    if covariates is None:
        raise InputError(
            "Nothing is left of the labels once their mean is taken out: of a class of one sample "
            "the unbiased estimate makes nothing. Pass labels that more samples share, or "
            "estimator='biased'."
        )
    raise nothing_left()

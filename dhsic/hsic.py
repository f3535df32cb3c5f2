r"""HSIC as a linear function of the data kernel: ``HSIC(K, L) = sum_ij W_ij K_ij``.

An estimator maps the label matrix L to the weights W, which are computed once per run:

- biased (JMLR eq. 4): ``W = H L H / (m - 1)^2`` with ``H = I - 1 1' / m``;
- unbiased (JMLR eq. 5): with Lt = L without its diagonal, ``v = Lt 1`` and ``s = 1' v``,
  ``W_ij = (Lt_ij + s / ((m-1)(m-2)) - (v_i + v_j) / (m-2)) / (m (m-3))`` off the diagonal, 0 on it;
- covariates C: L is replaced by ``R L R``, where R projects onto the complement of ``[1, C]``. This
  removes linear effects of C on the label features from W, for any data kernel. Real labels are
  replaced by their residuals after linear regression on C before L is computed
  (`dhsic.kernels.labels`): a kernel of y itself would contain nonlinear functions of C;
- samples with weights, p = weights / their sum: ``W = P R L R' P`` with ``P = diag(p)``, where R
  takes residuals of a weighted regression on ``[1, C]``, without C ``R = I - 1 p'``. This is HSIC
  of the weighted distribution (a V-statistic, like eq. 4). Its rows sum to 0, too, so a method that
  needs only W is the same with weights.

If L is of low rank, so is W: ``W = U M U'`` off the diagonal. With ``R L R = B diag(w) B'``,

- biased: ``W = R L R / (m - 1)^2``, so ``U = B``;
- unbiased: ``U = [B, 1, v]``. Adding ``a 1' + 1 a'`` to L does not change W off the diagonal, since
  W is L minus row sums and diagonal; so R L R may replace L. Its rows sum to 0, and without the
  diagonal to ``v = -diag(R L R)``, which is small, so there is no cancellation.

HSIC and its variance then take O(m q r) operations if W has rank q and K rank r (JMLR 2.6.2,
2.6.3). The paper adds ``1' D_K 1`` in the sum of K without its diagonal; it must be subtracted.
"""

from __future__ import annotations

import numpy as np

from dhsic._typing import Array, Float
from dhsic.errors import InputError
from dhsic.linalg.covariates import covariate_basis, nothing_left, residuals
from dhsic.linalg.symmetric import DenseSymmetric, LowRankSymmetric, Symmetric
from dhsic.linalg.weighted_samples import weighted_basis

ESTIMATORS = ("unbiased", "biased")


def weights(L: Float, statistic: str = "unbiased", covariates: Array | None = None) -> Float:
    """Weights W of an estimator, with ``HSIC = <W, K>``: (m, m) float64, symmetric.

    Parameters
    ----------
    L : (m, m) array
        Label kernel matrix, symmetric.
    statistic : {"unbiased", "biased"}
        "unbiased" is JMLR eq. 5, with zero diagonal, and needs at least 4 samples; "biased" is
        eq. 4, and needs at least 2.
    covariates : (m, q) array, optional
        Covariates whose linear effects are projected out of L.
    """
    check_statistic(statistic, len(L))
    if covariates is not None:
        L = DenseSymmetric(L).projected(covariate_basis(covariates, len(L))).matrix
    m = len(L)
    if statistic == "biased":
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


def weights_of_distribution(L: Float, p: Float, covariates: Array | None = None) -> Float:
    """Weights W (m, m) of HSIC of a distribution on the samples, with probabilities p (m,).

    The probabilities are positive and sum to 1. For the other parameters, see `weights`.
    """
    root = np.sqrt(p)[:, None]
    projected = DenseSymmetric(root * L * root.T).projected(weighted_basis(covariates, p))
    return np.asarray(root * projected.matrix * root.T)


def checked_weights(
    L: Float, statistic: str, covariates: Array | None, p: Float | None = None
) -> Float:
    """Return `weights` or, if p (m,) is passed, `weights_of_distribution` (without `statistic`).

    Raise an error if labels do not vary after covariates have been projected out.
    """
    if p is None:
        W = weights(L, statistic, covariates)
    else:
        W, statistic = weights_of_distribution(L, p, covariates), "biased"
    _check_left(float(np.abs(W).max()), float(np.abs(L).max()), len(L), statistic, covariates)
    return W


def check_statistic(statistic: str, m: int) -> None:
    """Raise an error for an unknown estimator, or one that needs more than m samples."""
    if statistic not in ESTIMATORS:
        raise InputError(f"statistic={statistic!r} is unknown; pass 'unbiased' or 'biased'.")
    least = 4 if statistic == "unbiased" else 2
    if m < least:
        raise InputError(
            f"The {statistic} estimator needs at least {least} samples, but n_samples={m}; "
            "collect more" + (", or pass statistic='biased'." if m >= 2 else ".")
        )


def estimated(K: Symmetric, statistic: str) -> Symmetric:
    """Return the matrix A with ``HSIC = <R L R, A>``: K, scaled, with another diagonal.

    L is the label matrix, R projects out the mean and covariates, and the diagonal depends on the
    estimator.
    """
    m = K.n_samples
    scale = statistic_scale(m, statistic)
    if statistic == "biased":
        return K.changed(scale, scale * K.diagonal)
    sums = K.row_sums - K.diagonal  # Kt 1
    g = 2.0 * sums / (m - 2) - sums.sum() / ((m - 1) * (m - 2))
    return K.changed(scale, scale * g)


def statistic_scale(m: int, statistic: str) -> float:
    """Return the factor of the off-diagonal entries of K in the HSIC of m samples."""
    return 1.0 / (m - 1) ** 2 if statistic == "biased" else 1.0 / (m * (m - 3))


def variance_of_hsic(row_sums: Float, smoothed: Float) -> float:
    r"""Estimate the variance of HSIC_1 from W and K (JMLR Theorem 5).

    The paper's ``(m-1)_3^-1 sum_(j,q,r) h(i, j, q, r)``, the contribution of sample i to HSIC_1,
    does not change if a term ``a 1' + 1 a'`` is added to L, so L may be replaced by ``m (m-3) W``.
    Because the rows of W sum to 0, the vector **h** becomes

        ``h_i = m / (2 (m-1)) ((m-2) ((W o K) 1)_i + HSIC_1 - (W Kt 1)_i)``

    with Kt = K without its diagonal: the mean of h is HSIC_1 and the variance
    ``16 / m (mean_i h_i^2 - HSIC_1^2)``.

    The **h** printed above section 2.6 is twice the sum described in the text; R, which divides by
    4, is correct.

    `row_sums` (m,) are ``(W o K) 1`` for the weights of the unbiased estimator, `smoothed` (m,) is
    ``W Kt 1``.
    """
    m = len(row_sums)
    h = (m - 2) * row_sums + row_sums.sum() - smoothed
    h *= m / (2.0 * (m - 1))
    return float(16.0 / m * h.var())


def factored_weights(
    L: LowRankSymmetric, statistic: str = "unbiased", covariates: Array | None = None
) -> LowRankSymmetric:
    """Compute W in low rank from a low-rank L; the result agrees with `weights`.

    Its rank is at most g + 2 (unbiased) or g (biased), if L has g directions.
    """
    m = L.n_samples
    check_statistic(statistic, m)
    B = residuals(L.F, covariates)
    diagonal = (B * B) @ L.weights
    if statistic == "biased":
        scale = (m - 1) ** 2
        return LowRankSymmetric(B, L.weights / scale, diagonal / scale)
    g = len(L.weights)
    M = np.zeros((g + 2, g + 2))  # matrix of eq. 5 between columns of [B, 1, v]
    M[:g, :g] = np.diag(L.weights)
    M[g, g] = -float(diagonal.sum()) / ((m - 1) * (m - 2))
    M[g, g + 1] = M[g + 1, g] = -1.0 / (m - 2)
    U = np.column_stack([B, np.ones(m), -diagonal])
    return LowRankSymmetric(U, M / (m * (m - 3)), np.zeros(m))


def factored_weights_of_distribution(
    L: LowRankSymmetric, p: Float, covariates: Array | None = None
) -> LowRankSymmetric:
    """Compute `weights_of_distribution` in low rank, from a low-rank L; W has the rank of L."""
    root, Q = np.sqrt(p)[:, None], weighted_basis(covariates, p)
    B = root * L.F
    for _ in range(2):  # the second projection corrects rounding errors
        B = B - Q @ (Q.T @ B)
    return LowRankSymmetric.of(root * B, L.weights)


def checked_factored_weights(
    L: LowRankSymmetric, statistic: str, covariates: Array | None, p: Float | None = None
) -> LowRankSymmetric:
    """Compute the W of `checked_weights` in low rank; raises the same errors."""
    if p is None:
        W = factored_weights(L, statistic, covariates)
    else:
        W, statistic = factored_weights_of_distribution(L, p, covariates), "biased"
    largest = float((np.square(L.F) @ np.abs(L.weights)).max())
    _check_left(W.norm / L.n_samples, largest, L.n_samples, statistic, covariates)
    return W


def _check_left(
    largest_weight: float, largest_label: float, m: int, statistic: str, covariates: Array | None
) -> None:
    if largest_weight * m * m > 1e-9 * largest_label:
        return
    if covariates is None and statistic == "biased":
        raise InputError(
            "The label matrix is 0 after centring, because all rows of L are equal. Pass labels "
            "that vary, or a centred L."
        )
    if covariates is None:
        raise InputError(
            "The labels do not vary after centring: they are constant, or vary only by a class of "
            "one sample, which the unbiased estimator cannot use. Pass labels shared by several "
            "samples, or statistic='biased'."
        )
    raise nothing_left()

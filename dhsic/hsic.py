r"""HSIC is linear in the data kernel: ``HSIC(K, L) = sum_ij W_ij K_ij = <W, K>``.

An estimator *is* a map from the label matrix L to the weights W, computed once per run:

- biased (JMLR eq. 4): ``W = H L H / (m - 1)^2`` with ``H = I - 1 1' / m``;
- unbiased (JMLR eq. 5): with Lt = L without its diagonal, ``v = Lt 1`` and ``s = 1' v``,
  ``W_ij = (Lt_ij + s / ((m-1)(m-2)) - (v_i + v_j) / (m-2)) / (m (m-3))`` off the diagonal, 0 on it;
- covariates C: L is replaced by ``R L R``, R the projection onto the complement of ``[1, C]``;
  what C explains linearly of the label features is gone from W, whatever the data kernel. Real
  labels are replaced by what a linear regression on C leaves of them before L is made of them
  (`dhsic.kernels.labels`): a kernel of y itself would keep C in it nonlinearly.

The weights W of HSIC as a product of thin matrices, ``W = U M U'`` off the diagonal.

With ``C = R L R = B diag(w) B'``, R the projection onto the complement of ``[1, covariates]``,

- biased (JMLR eq. 4): ``W = C / (m - 1)^2``, so ``U = B``;
- unbiased (JMLR eq. 5): ``U = [B, 1, v]``. A term ``a 1' + 1 a'`` added to L leaves W as it is off
  the diagonal, since W is L with row sums and diagonal taken out; so C may stand for L. Its rows
  sum to 0, and without their diagonal to ``v = -diag(C)``, which is small: nothing cancels.

All that HSIC and its variance ask of W then costs O(m q r) with a K of rank r (JMLR 2.6.2, 2.6.3).
The paper adds ``1' D_K 1`` in the sum of K without its diagonal; it has to be taken away.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.errors import InputError
from dhsic.kernels.label_factors import LabelFactor
from dhsic.linalg.covariates import covariate_basis

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


@dataclass(frozen=True, eq=False)
class FactoredWeights:
    """``W_ij = u_i' M u_j`` for i != j, and ``W_ii`` as given.

    Attributes
    ----------
    U : (m, q) float64
        A row a sample.
    M : (q, q) float64
        Symmetric.
    diagonal : (m,) float64
        Diagonal of W; 0 for the unbiased estimator.
    """

    U: Float
    M: Float
    diagonal: Float

    @property
    def n_samples(self) -> int:
        """Number of samples m."""
        return len(self.U)

    @cached_property
    def own(self) -> Float:
        """``u_i' M u_i``, which the product has where W has its diagonal, (m,)."""
        return _rowwise(self.U @ self.M, self.U)

    def rows(self, which: Index) -> Float:
        """Rows of W with its true diagonal, (n, m).

        Parameters
        ----------
        which : (n,) integers
            Samples whose rows are asked for.
        """
        W = (self.U[which] @ self.M) @ self.U.T
        W[np.arange(len(which)), which] = self.diagonal[which]
        return np.asarray(W)

    @cached_property
    def norm(self) -> float:
        """``||W||_F``."""
        MS = self.M @ (self.U.T @ self.U)
        square = float(np.vdot(MS.T, MS) - self.own @ self.own + self.diagonal @ self.diagonal)
        return float(np.sqrt(max(square, 0.0)))

    def inner(self, F: Float, weights: Float, diagonal_of_K: Float) -> float:
        """``<W, K>`` for ``K = F diag(weights) F'`` off the diagonal: JMLR Lemma 6 and 7.

        Parameters
        ----------
        F : (m, r) float64
            Factor of the data kernel.
        weights : (r,) float64
            Its weights.
        diagonal_of_K : (m,) float64
            The true diagonal, which the factor need not have.
        """
        return float(self.row_sums(F, weights, diagonal_of_K).sum())

    def row_sums(self, F: Float, weights: Float, diagonal_of_K: Float) -> Float:
        """``(W o K) 1``, (m,); parameters as of `inner`. The decomposition of JMLR 2.6.3."""
        weighted = F * weights
        across = self.M @ (self.U.T @ weighted)  # (q, r)
        sums = _rowwise(self.U @ across, F)
        return sums - self.own * _rowwise(weighted, F) + self.diagonal * diagonal_of_K

    def times(self, x: Float) -> Float:
        """``W x``, (m,)."""
        return self.U @ (self.M @ (self.U.T @ x)) + (self.diagonal - self.own) * x


def factored_weights(
    labels: LabelFactor, estimator: str = "unbiased", covariates: Array | None = None
) -> FactoredWeights:
    """W from a factor of L, as `dhsic.hsic.weights` from L itself.

    Parameters
    ----------
    labels : LabelFactor
        Factor of L, (m, g).
    estimator : {"unbiased", "biased"}
        JMLR eq. 5 or eq. 4.
    covariates : (m, q) array, optional
        Linear effects to project out of L.

    Returns
    -------
    FactoredWeights
        Of rank g + 2 (unbiased) or g (biased), or less.

    Raises
    ------
    InputError
        As of `dhsic.hsic.weights`.
    """
    m = len(labels.B)
    check_estimator(estimator, m)
    B = _without_covariates(labels.B, covariates)
    diagonal = (B * B) @ labels.weights
    if estimator == "biased":
        scale = (m - 1) ** 2
        return FactoredWeights(B, np.diag(labels.weights / scale), diagonal / scale)
    return FactoredWeights(
        np.column_stack([B, np.ones(m), -diagonal]),
        _unbiased_core(labels.weights, -float(diagonal.sum()), m),
        np.zeros(m),
    )


def _unbiased_core(weights: Float, s: float, m: int) -> Float:
    """M of eq. 5 between ``[B, 1, v]``."""
    g = len(weights)
    M = np.zeros((g + 2, g + 2))
    M[:g, :g] = np.diag(weights)
    M[g, g] = s / ((m - 1) * (m - 2))
    M[g, g + 1] = M[g + 1, g] = -1.0 / (m - 2)
    return M / (m * (m - 3))


def _without_covariates(B: Float, covariates: Array | None) -> Float:
    """``R B``; without covariates R takes out the mean."""
    if covariates is None:
        return np.asarray(B - B.mean(axis=0))
    Q = covariate_basis(covariates, len(B))
    B = B - Q @ (Q.T @ B)
    return np.asarray(B - Q @ (Q.T @ B))  # once more, for the digits of what is left


def _rowwise(A: Float, B: Float) -> Float:
    """``a_i' b_i`` for every row, (m,)."""
    return np.asarray(np.einsum("ij,ij->i", A, B))

r"""The weights W of HSIC as a product of thin matrices, ``W = U M U'`` off the diagonal.

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
from dhsic.covariates import covariate_basis
from dhsic.hsic import check_estimator
from dhsic.kernels.label_factors import LabelFactor


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
    B = _project_out(labels.B, covariates)
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


def _project_out(B: Float, covariates: Array | None) -> Float:
    """``R B``; without covariates R takes out the mean."""
    if covariates is None:
        return np.asarray(B - B.mean(axis=0))
    Q = covariate_basis(covariates, len(B))
    B = B - Q @ (Q.T @ B)
    return np.asarray(B - Q @ (Q.T @ B))  # once more, for the digits of what is left


def _rowwise(A: Float, B: Float) -> Float:
    """``a_i' b_i`` for every row, (m,)."""
    return np.asarray(np.einsum("ij,ij->i", A, B))

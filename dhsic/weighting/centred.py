r"""The centred kernel matrix of weighted features, ``G_w = H K_w H`` (CCM 4), and its derivative.

K_w is ``exp(-sigma ||w o x - w o x'||^2)``. Objectives need products with G_w, solutions of linear
systems, and derivatives ``d <L, G_w R> / dw`` with narrow matrices L and R. There are two
representations of G_w:

- the full matrix: with ``A = K o H (L R' + R L') H / 2``, by the chain rule
  ``d/dw_j = -2 sigma w_j sum_ii' A_ii' (x_ij - x_i'j)^2``: one quadratic form per feature;
- D random Fourier features (CCM eq. 20): ``G_w = V V'``, ``V = H U`` and
  ``U_ik = sqrt(2 / D) cos(p_k + sqrt(2 sigma) sum_j w_j omega_kj x_ij)``: linear in m.

There are two kinds of passes over the data. A pass that sums over weighted features ``w_j x_j``
returns an array over the samples. A pass for derivatives uses such an array and returns one number
per feature. Features with weight 0 are not read for sums.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from dhsic._typing import Float, Mask
from dhsic.errors import InputError
from dhsic.kernels.gaussian import Gaussian
from dhsic.kernels.statistic import Statistic


class WeightedData(Protocol):
    """Interface of data with m samples and n features; x_j (m,) is feature j, scaled."""

    def compact(self, w: Float) -> None:
        """Drop features of weight 0, which later requests do not use (except `spreads` of all)."""

    def statistic(self, w: Float) -> Statistic:
        """Statistic of the features with weights w (n,), ``sum_j w_j^2 x_j x_j'``."""

    def spreads(self, A: Float, which: Mask) -> Float:
        """Sums ``sum_ii' A_ii' (x_ij - x_i'j)^2`` for each feature j, (n,).

        A is (m, m) and symmetric. The sum is 0 for features outside the mask `which`.
        """

    def projections(self, w: Float, n_directions: int) -> Float:
        """Projections ``sum_j w_j omega_kj x_j`` on random directions omega, (n_directions, m)."""

    def pulls(self, B: Float) -> Float:
        """Sums ``sum_k omega_kj <B_k, x_j>`` for every feature j, (n,); B is (n_directions, m).

        omega_k are the random directions of `projections`.
        """


def centred(Z: Float) -> Float:
    """Subtract the means of the columns of Z (m, k): ``H Z``."""
    return np.asarray(Z - Z.mean(axis=0))


class AbstractCentred(ABC):
    """Centred kernel matrix G_w for given weights w."""

    @abstractmethod
    def times(self, Z: Float) -> Float:
        """Multiply the centred kernel matrix G_w (m, m) by Z (m, k): ``G_w Z``, (m, k)."""

    @abstractmethod
    def solve(self, Y: Float, ridge: float) -> Float:
        """Solve a system with the centred kernel matrix G_w: ``(G_w + ridge I)^-1 Y``, (m, k)."""

    @abstractmethod
    def gradient(self, left: Float, right: Float) -> Float:
        """Gradient ``d sum_k <left_k, G_w right_k> / dw``, (n,); `left` and `right` are (m, k)."""

    @abstractmethod
    def slopes(self, left: Float, right: Float) -> Float:
        """Derivatives of the function in `gradient`, (n,), which also rank features of weight 0.

        If K_w depends on squared weights, these are derivatives with respect to squared weights,
        because the derivative with respect to a weight of 0 would be 0. Otherwise, they are
        derivatives with respect to weights.
        """


#: Function from weights to a representation of G_w.
Centring = Callable[[Float], AbstractCentred]


def gram_of(statistic: Statistic, sigma: float) -> Float:
    """Gaussian kernel matrix K (m, m), with both triangles, from inner products of the samples."""
    K = np.empty_like(statistic.upper, order="C")
    norms = statistic.diagonal
    for rows, columns, inner in statistic.tiles():
        part = Gaussian().gram(inner, norms[rows], norms[columns], sigma)
        K[rows, columns] = part
        K[columns, rows] = part.T
    return K


@dataclass(frozen=True)
class FullCentred(AbstractCentred):
    """Centred kernel matrix of weighted features, G_w, as a full matrix: O(m^2) memory."""

    data: WeightedData
    w: Float
    sigma: float
    K: Float

    @staticmethod
    def over(data: WeightedData, sigma: float) -> Centring:
        """Return a function that computes G_w from weights w."""
        return lambda w: FullCentred(data, w, sigma, gram_of(data.statistic(w), sigma))

    def times(self, Z: Float) -> Float:
        return centred(self.K @ centred(Z))

    def solve(self, Y: Float, ridge: float) -> Float:
        """Solve by Cholesky decomposition, in m^3 / 3 operations."""
        means = self.K.mean(axis=0)
        G = self.K - means
        G -= (means - means.mean())[:, None]
        G[np.diag_indices_from(G)] += ridge
        return np.asarray(cho_solve(_decomposed(G), Y, check_finite=False))

    def gradient(self, left: Float, right: Float) -> Float:
        """Compute ``2 w_j`` times the slopes; features of weight 0 are not read."""
        return 2 * self.w * self._slopes(left, right, self.w)

    def slopes(self, left: Float, right: Float) -> Float:
        """Compute ``-sigma sum_ii' A_ii' (x_ij - x_i'j)^2``: derivatives for squared weights."""
        return self._slopes(left, right, np.ones_like(self.w))

    def _slopes(self, left: Float, right: Float, used: Float) -> Float:
        A = centred(left) @ centred(right).T
        A += A.T.copy()
        A *= self.K
        A *= -0.5 * self.sigma
        return self.data.spreads(A, used != 0)


@dataclass(frozen=True)
class FourierCentred(AbstractCentred):
    """Centred kernel matrix G_w of weighted features, by D random Fourier features.

    It needs O(m D) memory (CCM 5.2; Rahimi and Recht, 2007).
    """

    data: WeightedData
    sigma: float
    angles: Float  # (m, D), ``p_k + sqrt(2 sigma) sum_j w_j omega_kj x_ij``

    @staticmethod
    def over(data: WeightedData, sigma: float, n_directions: int, seed: int) -> Centring:
        """Return a function that computes G_w from weights w; the seed determines the phases p."""
        phases = np.random.default_rng(seed).uniform(0.0, 2 * np.pi, size=n_directions)

        def at(w: Float) -> FourierCentred:
            angles = np.multiply(data.projections(w, n_directions).T, np.sqrt(2 * sigma), order="C")
            angles += phases
            return FourierCentred(data, sigma, angles)

        return at

    @cached_property
    def V(self) -> Float:
        """Centred random Fourier features, (m, D); ``V V'`` is the centred kernel matrix."""
        return centred(np.cos(self.angles) * np.sqrt(2 / self.angles.shape[1]))

    def times(self, Z: Float) -> Float:
        return np.asarray(self.V @ (self.V.T @ Z))

    def solve(self, Y: Float, ridge: float) -> Float:
        V = self.V
        C = V.T @ V
        C[np.diag_indices_from(C)] += ridge
        explained = V @ cho_solve(_decomposed(C), V.T @ Y, check_finite=False)
        return np.asarray((Y - explained) / ridge)

    def gradient(self, left: Float, right: Float) -> Float:
        """Compute the gradient of ``<left, V V' right>`` with respect to the feature weights, (n,).

        V (m, D) are the centred random Fourier features, so ``V V'`` is the centred kernel matrix;
        `left` and `right` are (m, k). All features are read.
        """
        dV = left @ (right.T @ self.V)
        dV += right @ (left.T @ self.V)
        B = np.sin(self.angles)
        B *= centred(dV)
        B *= -np.sqrt(4 * self.sigma / self.angles.shape[1])  # sqrt(2 / D) sqrt(2 sigma)
        return self.data.pulls(np.ascontiguousarray(B.T))

    def slopes(self, left: Float, right: Float) -> Float:
        """Return the gradient, because G_w is not a function of squared weights."""
        return self.gradient(left, right)


def _decomposed(M: Float) -> tuple[Float, bool]:
    """Cholesky decomposition of the positive definite matrix M, which is overwritten."""
    try:
        factor: tuple[Float, bool] = cho_factor(M, overwrite_a=True, check_finite=False)
    except np.linalg.LinAlgError as error:
        raise InputError(
            "The regularised kernel matrix is singular to working precision; pass a larger epsilon."
        ) from error
    return factor

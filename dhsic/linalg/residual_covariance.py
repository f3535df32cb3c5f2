r"""Covariance of the residuals of related samples, and the variance that it gives to features.

Under a mixed model labels have covariance V up to a factor, with V = K + lambda I, K the
relationship of the samples, and mean and covariates (orthonormal basis Q) projected out. With
``P = V^-1`` on the complement of Q, residuals of predicting each sample by all others are ``e = D P
y`` (`dhsic.relatedness`), D the inverse of the diagonal of P. A feature x that does not depend on
the labels has, with ``R = I - Q Q'``, the product ``x'R e`` of variance proportional to

    ``x'S x``,  ``S = R D P D R``,

and to ``x'R x tr S / (m - q)`` if the residuals were exchangeable. The quotient is the *variance
ratio* of the feature: below 1 for features that follow relatedness, because predicted parts, which
vary along it, are no longer in the residuals. Its mean over variants is the gamma of GRAMMAR-Gamma
(Svishcheva et al., 2012); here each feature has its own, because among close relatives it varies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dhsic._typing import Array, Float, Mask

#: Number of features per product with S: products of equal shape have the same bits for a feature
#: at any position.
HEIGHT = 240
#: Fraction of the variance of a feature not explained by covariates, below which it has no ratio.
EXPLAINED = 1e-6


@dataclass(frozen=True, eq=False)
class ResidualCovariance:
    """Covariance of the residuals of one target.

    Attributes
    ----------
    matrix : (m, m) float32
        ``D P D``.
    scale : (m,)
        Diagonal of D.
    Q : (m, q)
        Orthonormal basis of the mean and the covariates.
    mean : float
        ``tr S / (m - q)``.
    """

    matrix: Array
    scale: Float
    Q: Float
    mean: float

    @staticmethod
    def of(P: Float, Q: Float) -> ResidualCovariance:
        """Create it from ``P`` (m, m), which is overwritten."""
        scale = 1.0 / np.diagonal(P)
        P *= scale
        P *= scale[:, None]
        trace = float(np.trace(P) - np.vdot(Q, P @ Q))
        return ResidualCovariance(P.astype(np.float32), scale, Q, trace / (len(Q) - Q.shape[1]))

    def forms(self, X: Float) -> tuple[Float, Float, Float]:
        """``x'R x``, ``x'S x`` and ``x'R D P R x`` of features X (c, m): (c,) each."""
        sizes, squares, slopes = (np.empty(len(X)) for _ in range(3))
        for rows, strip in _strips(X):
            n = rows.stop - rows.start
            Z = strip - (strip @ self.Q) @ self.Q.T
            along = (Z.astype(np.float32) @ self.matrix)[:n].astype(np.float64)
            Z = Z[:n]
            sizes[rows], squares[rows] = np.vecdot(Z, Z), np.vecdot(along, Z)
            slopes[rows] = np.vecdot(along, Z / self.scale)
        return sizes, squares, slopes

    def ratios(self, X: Float) -> Float:
        """Variance ratios of features X (c, m); 1 for those that covariates explain."""
        sizes, squares, _ = self.forms(X)
        is_left = sizes > EXPLAINED * np.vecdot(X, X)
        expected = np.where(is_left, sizes * self.mean, 1.0)
        return np.asarray(np.where(is_left, squares, expected) / expected)


def variance_ratios(
    covariances: Sequence[ResidualCovariance], X: Float, missing: Mask | None, has_three: Mask
) -> Float:
    """Variance ratios of the values and of dominance for each target, (c, 2, t).

    Parameters
    ----------
    X : (c, m)
        Centred features; missing values are 0.
    missing : (c, m) bool, optional
        Mask of missing values.
    has_three : (c,) bool
        Features of three values, which have dominance: the part of their square that is orthogonal
        to them. The ratio of others is 1.
    """
    ratios = np.ones((len(X), 2, len(covariances)))
    which = np.flatnonzero(has_three)
    curved = _dominance(X[which], None if missing is None else missing[which])
    for t, covariance in enumerate(covariances):
        ratios[:, 0, t] = covariance.ratios(X)
        ratios[which, 1, t] = covariance.ratios(curved)
    return ratios


def _dominance(X: Float, missing: Mask | None) -> Float:
    """Squares of X (c, m) over the samples present, orthogonal to 1 and X."""
    present = np.ones(X.shape) if missing is None else (~missing).astype(np.float64)
    squares = X * X
    mean = squares.sum(axis=1) / present.sum(axis=1)
    squares = (squares - mean[:, None]) * present
    slope = np.vecdot(squares, X) / np.vecdot(X, X)
    return np.asarray(squares - slope[:, None] * X)


def _strips(X: Float) -> Iterator[tuple[slice, Float]]:
    """Copies of X (c, m) in strips of `HEIGHT` rows, of which the last is padded with zeros."""
    for start in range(0, len(X), HEIGHT):
        rows = slice(start, min(start + HEIGHT, len(X)))
        strip = np.zeros((HEIGHT, X.shape[1]))
        strip[: rows.stop - start] = X[rows]
        yield rows, strip

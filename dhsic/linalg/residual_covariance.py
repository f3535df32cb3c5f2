r"""Covariance of the residuals of related samples, and variance ratios of features.

In a mixed model, labels y of m related samples have the covariance ``V = K + lambda I``, up to a
factor. K is the relationship matrix after projection: the mean and the covariates, with orthonormal
basis Q (m, q), are removed. P is the inverse of V on the orthogonal complement of Q, and D is the
inverse of the diagonal of P. If each sample is predicted from all others, the residuals are
``e = D P y`` (`dhsic.relatedness`).

Let ``R = I - Q Q'``, and let x be a feature that is independent of the labels. The product
``x'R e`` of x and the residuals has a variance proportional to

    ``x'S x``,  ``S = R D P D R``.

If residuals were exchangeable, the variance would be proportional to ``x'R x tr S / (m - q)``. The
quotient of the two is the *variance ratio* of the feature. It is below 1 for features that are
similar in related samples: the part of the labels that relatives predict is similar, too, and is
not in the residuals. GRAMMAR-Gamma (Svishcheva et al., 2012) uses the mean ratio over variants.
Here each feature has its own ratio, because ratios differ if samples are closely related.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dhsic._typing import Array, Float, Mask

#: Number of features that are multiplied by S at a time. It is always the same, because results for
#: a feature are then bit-identical at any position.
HEIGHT = 240
#: A feature counts as explained by the covariates if at most this fraction of its variance is left
#: after they are regressed out. Its ratio is 1.
EXPLAINED = 1e-6


class AbstractProductVariance(ABC):
    """Variance of products of features with S label directions, relative to permuted labels."""

    @property
    @abstractmethod
    def n_directions(self) -> int:
        """Number of directions S."""

    @abstractmethod
    def ratios_of(self, X: Float) -> Float:
        """Compute the variance ratios of features X (c, m) for each direction: (c, S)."""


@dataclass(frozen=True, eq=False)
class ResidualCovariance(AbstractProductVariance):
    """Covariance of the residuals of one target; the module docstring defines D, P and S.

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
        """Compute the covariance from P (m, m), which is overwritten, and Q (m, q)."""
        scale = 1.0 / np.diagonal(P)
        P *= scale
        P *= scale[:, None]
        trace = float(np.trace(P) - np.vdot(Q, P @ Q))
        return ResidualCovariance(P.astype(np.float32), scale, Q, trace / (len(Q) - Q.shape[1]))

    @property
    def n_directions(self) -> int:
        return 1

    def ratios_of(self, X: Float) -> Float:
        return self.ratios(X)[:, None]

    def forms(self, X: Float) -> tuple[Float, Float, Float]:
        """Compute ``x'R x``, ``x'S x`` and ``x'R D P R x`` for features X (c, m), each (c,).

        The module docstring defines the matrices.
        """
        sizes, squares, slopes = (np.empty(len(X)) for _ in range(3))
        for rows, strip in strips(X):
            n = rows.stop - rows.start
            Z = strip - (strip @ self.Q) @ self.Q.T
            along = (Z.astype(np.float32) @ self.matrix)[:n].astype(np.float64)
            Z = Z[:n]
            sizes[rows], squares[rows] = np.vecdot(Z, Z), np.vecdot(along, Z)
            slopes[rows] = np.vecdot(along, Z / self.scale)
        return sizes, squares, slopes

    def ratios(self, X: Float) -> Float:
        """Compute the variance ratios (c,) of features X (c, m).

        The ratio is 1 if covariates explain a feature.
        """
        sizes, squares, _ = self.forms(X)
        is_unexplained = sizes > EXPLAINED * np.vecdot(X, X)
        expected = np.where(is_unexplained, sizes * self.mean, 1.0)
        return np.asarray(np.where(is_unexplained, squares, expected) / expected)


def variance_ratios(
    covariances: Sequence[AbstractProductVariance], X: Float, missing: Mask | None
) -> Float:
    """Compute variance ratios of features and of their dominance for t targets, (c, 2, t).

    Dominance is the part of the squared values of a feature that is orthogonal to the values. It
    exists only for features with three distinct values. For other features its ratio is 1.

    Parameters
    ----------
    X : (c, m)
        Centred features; missing values are 0.
    missing : (c, m) bool, optional
        Mask of missing values.
    """
    ratios = np.ones((len(X), 2, sum(each.n_directions for each in covariances)))
    with_dominance = np.flatnonzero(_has_three(X, missing))
    dominance = _dominance(X[with_dominance], None if missing is None else missing[with_dominance])
    for number, values in enumerate((X, dominance)):
        which = slice(None) if number == 0 else with_dominance
        each = [covariance.ratios_of(values) for covariance in covariances]
        ratios[which, number] = np.concatenate(each, axis=1)
    return ratios


def _has_three(X: Float, missing: Mask | None) -> Mask:
    """Mask (c,) of features X (c, m) with exactly three distinct non-missing values."""
    absent = np.zeros(X.shape, dtype=bool) if missing is None else missing
    least = np.where(absent, np.inf, X).min(axis=1, keepdims=True)
    most = np.where(absent, -np.inf, X).max(axis=1, keepdims=True)
    between = ~absent & (least < X) & (most > X)
    middle = np.take_along_axis(X, between.argmax(axis=1)[:, None], axis=1)
    has_three: Mask = between.any(axis=1) & ~(between & (middle != X)).any(axis=1)
    return has_three


def _dominance(X: Float, missing: Mask | None) -> Float:
    """Compute the squares of features X (c, m), made orthogonal to 1 and X, 0 if missing."""
    present = np.ones(X.shape) if missing is None else (~missing).astype(np.float64)
    squares = X * X
    mean = squares.sum(axis=1) / present.sum(axis=1)
    squares = (squares - mean[:, None]) * present
    slope = np.vecdot(squares, X) / np.vecdot(X, X)
    return np.asarray(squares - slope[:, None] * X)


def strips(X: Float) -> Iterator[tuple[slice, Float]]:
    """Yield X (c, m) in copies of `HEIGHT` rows; the last copy is padded with zeros."""
    for start in range(0, len(X), HEIGHT):
        rows = slice(start, min(start + HEIGHT, len(X)))
        strip = np.zeros((HEIGHT, X.shape[1]))
        strip[: rows.stop - start] = X[rows]
        yield rows, strip

r"""Directions of residual labels of relatives, and the variance of their products with features.

Residuals e of a target have the variance ratio gamma along a feature
(`dhsic.linalg.residual_covariance`). A direction b of the labels is a function of the residuals:
with r its correlation with e, the part ``r^2`` of its variance behaves like e, and the rest, which
is not linear in e, nearly as if samples were exchangeable. So the ratio of b is ``1 + r^2 (gamma -
1)``. Products with features are divided by its root; then they have the law of permuted labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dhsic._typing import Float
from dhsic.linalg.covariates import orthonormal_columns
from dhsic.linalg.rank_basis import level_functions
from dhsic.linalg.residual_covariance import ResidualCovariance

#: Fraction of the norm of a column of residuals below which earlier ones contain it.
NOTHING = 1e-6


@dataclass(frozen=True, eq=False)
class LabelCovariance:
    """Covariances of the residuals of each target, and the part that directions have of them.

    Attributes
    ----------
    covariances : tuple of t ResidualCovariance
    parts : (S, t)
        Fraction of the variance of each direction that is linear in the residuals of each target.
    """

    covariances: tuple[ResidualCovariance, ...]
    parts: Float

    @staticmethod
    def of(
        B: Float, residuals: Sequence[Float], covariances: Sequence[ResidualCovariance]
    ) -> LabelCovariance:
        """Create it for directions B (m, S), and residuals (m, n) of each target."""
        Q = covariances[0].Q
        unit = B / np.linalg.norm(B, axis=0)
        alone = [_explained(unit, columns, Q) for columns in residuals]
        together = _explained(unit, np.column_stack(residuals), Q)
        parts = np.column_stack(alone)
        total = np.maximum(parts.sum(axis=1), np.finfo(float).tiny)
        return LabelCovariance(tuple(covariances), parts * (together / total)[:, None])

    def ratios(self, of_targets: Float) -> Float:
        """Variance ratios for directions, (c, R, S), from those of targets, (c, R, t)."""
        return np.asarray(1.0 + (of_targets - 1.0) @ self.parts.T)


def exchangeable(B: Float, x: Float, Q: Float, ratios: Float) -> Float:
    """Directions B (m, r) whose products with x (m,) are divided by the roots of `ratios` (r,)."""
    x = x - Q @ (Q.T @ x)
    along = x @ B / (x @ x)
    return np.asarray(B + np.outer(x, along * (1.0 / np.sqrt(ratios) - 1.0)))


def exchangeable_sums(U: Float, counts: Float, values: Float, ratios: Float) -> Float:
    """`exchangeable` for sums U (c, q, r) of directions over levels: products with two functions.

    The functions are the value and dominance, with `ratios` (c, 2, r).
    """
    functions = level_functions(counts, values, 2)
    n = counts.sum(axis=1)[:, None, None]
    change = (functions @ U) * (1.0 / np.sqrt(ratios) - 1.0) / n
    return np.asarray(U + counts[..., None] * (functions.transpose(0, 2, 1) @ change))


def _explained(unit: Float, columns: Float, Q: Float) -> Float:
    """Fraction of each column of `unit` (m, S) in the span of `columns` (m, n) beyond Q: (S,)."""
    basis, _ = orthonormal_columns(columns, Q, NOTHING)
    return np.asarray(np.square(basis.T @ unit).sum(axis=0))

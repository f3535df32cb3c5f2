r"""Correction of the test statistic for related samples; their labels are residuals.

If samples are related, a test uses the residuals e of the target after prediction from relatives.
The product of e with a feature has another variance than for exchangeable samples. The quotient of
the two variances is the variance ratio gamma of the feature (`dhsic.linalg.residual_covariance`).

The test multiplies features not only by e but by several directions b, which are functions of e.
With r the correlation of b and e, the fraction ``r^2`` of the variance of b is linear in e and has
the ratio gamma. The remaining fraction is not linear in e and behaves nearly as if samples were
exchangeable: its ratio is 1. So the ratio of b is ``1 + r^2 (gamma - 1)``. Products of b with the
feature are divided by the square root of this ratio. They then have the same distribution as with
permuted labels, and the permutation test is valid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dhsic._typing import Float
from dhsic.linalg.covariates import orthonormal_columns
from dhsic.linalg.rank_basis import level_functions
from dhsic.linalg.residual_covariance import AbstractProductVariance, ResidualCovariance

#: A column of residuals counts as a linear combination of earlier columns if at most this fraction
#: of its norm is left after projection on them.
NOTHING = 1e-6


@dataclass(frozen=True, eq=False)
class LabelCovariance:
    """Covariances of the residual labels of related samples.

    They also contain how much of each label direction the residuals explain.

    Attributes
    ----------
    covariances : tuple of AbstractProductVariance
        Covariance of the residuals of each of t targets; or, for censored times, one variance that
        has t directions.
    parts : (S, t)
        Fraction of the variance of each of S directions that is a linear function of the residuals
        of each target.
    """

    covariances: tuple[AbstractProductVariance, ...]
    parts: Float

    @staticmethod
    def of(
        B: Float, residuals: Sequence[Float], covariances: Sequence[ResidualCovariance]
    ) -> LabelCovariance:
        """Compute the fractions for directions B (m, S) and the residuals (m, n) of each target.

        If residuals of several targets are correlated, their fractions are scaled so that they sum
        to the fraction that all residuals explain together.
        """
        Q = covariances[0].Q
        unit = B / np.linalg.norm(B, axis=0)
        alone = [_explained(unit, columns, Q) for columns in residuals]
        together = _explained(unit, np.column_stack(residuals), Q)
        parts = np.column_stack(alone)
        total = np.maximum(parts.sum(axis=1), np.finfo(float).tiny)
        return LabelCovariance(tuple(covariances), parts * (together / total)[:, None])

    @staticmethod
    def of_directions(variance: AbstractProductVariance) -> LabelCovariance:
        """Create the correction from the variance of products with the directions themselves."""
        return LabelCovariance((variance,), np.eye(variance.n_directions))

    def ratios(self, of_targets: Float) -> Float:
        """Compute the variance ratios of directions, (c, R, S).

        `of_targets` (c, R, t) are the variance ratios of the targets' residuals.
        """
        return np.asarray(1.0 + (of_targets - 1.0) @ self.parts.T)


def exchangeable(B: Float, x: Float, Q: Float, ratios: Float) -> Float:
    """Rescale directions B (m, r) along a feature x (m,) so that samples are exchangeable.

    Their products with x are divided by the square roots of `ratios` (r,), the variance ratios of
    the directions. The other parts of the directions do not change. Covariates (basis Q) are first
    regressed out of x.
    """
    x = x - Q @ (Q.T @ x)
    along = x @ B / (x @ x)
    return np.asarray(B + np.outer(x, along * (1.0 / np.sqrt(ratios) - 1.0)))


def exchangeable_sums(U: Float, counts: Float, values: Float, ratios: Float) -> Float:
    """Apply the correction `exchangeable` to features with q levels, using sums over levels.

    There are two functions of a feature: its value, and its dominance (the part of the square that
    is not linear in the value). The products of directions with each function are divided by the
    square roots of the variance ratios.

    Parameters
    ----------
    U : (c, q, r)
        Sums of r directions over the samples in each level of c features.
    counts, values : (c, q)
        Number of samples and value of each level.
    ratios : (c, 2, r)
        Variance ratios for both functions.
    """
    functions = level_functions(counts, values, 2)
    n = counts.sum(axis=1)[:, None, None]
    change = (functions @ U) * (1.0 / np.sqrt(ratios) - 1.0) / n
    return np.asarray(U + counts[..., None] * (functions.transpose(0, 2, 1) @ change))


def _explained(unit: Float, columns: Float, Q: Float) -> Float:
    """Fraction of the variance of each column of `unit` explained by `columns` but not Q, (S,).

    Columns of `unit` (m, S) have norm 1; `columns` is (m, n).
    """
    basis, _ = orthonormal_columns(columns, Q, NOTHING)
    return np.asarray(np.square(basis.T @ unit).sum(axis=0))

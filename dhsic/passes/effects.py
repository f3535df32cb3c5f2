r"""Additive effects: coefficient, standard error and p-value of each feature in a regression.

Real labels: ordinary least squares on ``[1, covariates, x]``. By the theorem of Frisch, Waugh and
Lovell the fit needs only a few inner products. Samples with a missing value are removed by
subtracting their rows of the basis. Two classes: logistic regression by Newton's method, with one
matrix product for the Hessians of all features of a tile. The coefficient is the log odds ratio per
copy of the allele. Both agree with ``plink2 --glm``. Residual labels of related samples
(`dhsic.relatedness`), for real labels or two classes: generalised least squares, as in a mixed
model that leaves one chromosome out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, ndtr, stdtr

from dhsic._typing import Array, Float, Mask
from dhsic.kernels.labels import CLASS_KERNELS, target_kernels
from dhsic.kernels.ordinal import SCORE_KERNELS, Level, rank_scores
from dhsic.kernels.risk_sets import is_censored
from dhsic.linalg.covariates import covariate_basis
from dhsic.linalg.residual_covariance import ResidualCovariance
from dhsic.passes import AbstractByTile, Cost, Tile, tile_height
from dhsic.sources.scaling import missing_mask
from dhsic.validation import is_number

#: Class names that mean controls. If neither class has such a name, the first in sorted order is
#: the control.
CONTROLS = frozenset(("control", "controls", "ctrl", "ctl", "healthy", "unaffected", "no", "false"))
#: Columns of the result: number of samples, coefficient, standard error, p-value, -log10 of it.
COLUMNS = 5
#: p-values below are too small for float64, so that their logarithm is computed directly, from this
#: number of points of Gauss-Laguerre quadrature.
SMALLEST, POINTS = np.finfo(float).tiny, 40
#: Newton's method: maximum number of steps, tolerance and maximum size of the coefficient.
STEPS, TOLERANCE, LARGEST = 25, 1e-9, 30.0
#: Minimum fraction of a feature's variance that covariates leave unexplained; below it no effect is
#: estimated.
EXPLAINED = 1e-9
#: Number of float64 arrays of the size of a tile that a task holds.
TILES = 8


def regression_labels(y: Array, label_kernel: str = "auto") -> tuple[Float, str] | None:
    """Response (m,) of a regression on one target y (m,), and the name of the class coded as 1.

    The name is "" for real labels. Real labels become rank scores if the label kernel uses ranks.
    The result is None for more than two classes, and for censored times.

    Integers that may be class numbers count as real labels, unless `label_kernel` is a kernel on
    classes.
    """
    if is_censored(y):
        return None
    kernel = target_kernels(y[:, None], label_kernel)[0]
    if kernel not in CLASS_KERNELS:
        values = y.astype(np.float64)
        return (rank_scores(values) if kernel in SCORE_KERNELS else values), ""
    names, codes = np.unique(y, return_inverse=True)
    if names.size != 2:
        return None
    case = 0 if str(names[1]).strip().lower() in CONTROLS else 1
    name = names[case]
    is_numeric = is_number(name) and not isinstance(name, Level)
    return (codes == case).astype(np.float64), f"{name:g}" if is_numeric else str(name)


def response_told(y: Array, label_kernel: str) -> str:
    """Description of the response of a regression on real labels y (m,), for messages."""
    is_scored = target_kernels(y[:, None], label_kernel)[0] in SCORE_KERNELS
    return "normal score of the label" if is_scored else "label"


@dataclass(frozen=True, slots=True)
class AdditiveEffects(AbstractByTile):
    """Pass that estimates the additive effects of c features, (c, `COLUMNS`).

    An effect that cannot be estimated is NaN.

    Attributes
    ----------
    y : (m,)
        Labels; coded 0 and 1 for two classes.
    Q : (m, p)
        Basis of ``[1, covariates]``.
    is_logistic : bool
        Whether the labels are two classes.
    """

    y: Float
    Q: Float
    is_logistic: bool

    @classmethod
    def of(cls, y: Float, covariates: Array | None, *, is_logistic: bool) -> AdditiveEffects:
        """Create the pass from labels (m,) and covariates (m, q)."""
        return cls(y, covariate_basis(covariates, len(y)), is_logistic)

    def by_tile(self, m: int) -> tuple[int | None, Callable[[Tile], Array]]:
        return tile_height(2 * m), self.of_tile

    def of_tile(self, tile: Tile) -> Array:
        """Estimate effects of the features of a tile, (c, `COLUMNS`)."""
        X, missing, n = _present(tile)
        fit = self._logistic if self.is_logistic else self._linear
        with np.errstate(invalid="ignore", divide="ignore"):
            beta, error, degrees = fit(X, missing, n)
            return _known(n, beta, error, degrees)

    def _linear(self, X: Float, missing: Mask, n: Array) -> tuple[Float, Float, Float]:
        """Fit by least squares; return slopes, standard errors and degrees of freedom, (c,) each.

        X (c, m) are values, 0 where `missing`; n (c,) is the number of samples with a value.
        """
        y, Q = self.y - self.y.mean(), self.Q
        xx, xy = np.vecdot(X, X), X @ y
        b, c = X @ Q, np.broadcast_to(Q.T @ y, (len(X), Q.shape[1])).copy()
        yy = np.full(len(X), float(y @ y))
        inverse_b, inverse_c = b.copy(), c.copy()
        for j in np.flatnonzero(missing.any(axis=1)).tolist():
            rows = Q[missing[j]]
            lost = y[missing[j]]
            c[j] -= rows.T @ lost
            yy[j] -= float(lost @ lost)
            both = np.column_stack([b[j], c[j]])
            solved = np.linalg.lstsq(np.eye(Q.shape[1]) - rows.T @ rows, both, rcond=1e-10)[0]
            inverse_b[j], inverse_c[j] = solved.T
        size = xx - np.vecdot(b, inverse_b)
        size[size <= EXPLAINED * xx] = np.nan
        beta = (xy - np.vecdot(b, inverse_c)) / size
        degrees = n - Q.shape[1] - 1
        residual_square = yy - np.vecdot(c, inverse_c) - beta * beta * size
        error = np.sqrt(np.maximum(residual_square, 0.0) / degrees / size)
        return beta, error, degrees

    def _logistic(self, X: Float, missing: Mask, _: Array) -> tuple[Float, Float, Float]:
        """Fit logistic models; return slopes, standard errors and degrees of freedom, (c,) each.

        X (c, m) are values, 0 where `missing`. The degrees of freedom are infinite (normal tails).
        """
        y, p, c = self.y, self.Q.shape[1], len(X)
        i, k = np.triu_indices(p)
        products = self.Q[:, i] * self.Q[:, k]
        coefficients = np.zeros((c, p + 1))
        there = (~missing).astype(np.float64)
        H = np.empty((c, p + 1, p + 1))
        is_open = np.ones(c, dtype=bool)
        for _step in range(STEPS):
            at = np.flatnonzero(is_open)
            x, w = X[at], there[at]
            eta = coefficients[at, :p] @ self.Q.T + coefficients[at, p:] * x
            mu = 1.0 / (1.0 + np.exp(-np.clip(eta, -LARGEST, LARGEST)))
            residuals, weights = w * (y - mu), w * mu * (1.0 - mu)
            weighted = weights * x
            hessians = np.empty((at.size, p + 1, p + 1))
            hessians[:, i, k] = hessians[:, k, i] = weights @ products
            hessians[:, :p, p] = hessians[:, p, :p] = weighted @ self.Q
            hessians[:, p, p] = np.vecdot(weighted, x)
            gradient = np.column_stack([residuals @ self.Q, np.vecdot(residuals, x)])
            sound = np.linalg.cond(hessians) < 1 / np.finfo(float).eps
            step = np.zeros_like(gradient)
            if sound.any():
                step[sound] = np.linalg.solve(hessians[sound], gradient[sound][..., None])[..., 0]
            coefficients[at] += step
            H[at] = hessians
            coefficients[at[~sound], p] = np.nan
            is_open[at] = sound & (np.abs(step[:, p]) > TOLERANCE)
            is_open &= np.abs(coefficients[:, p]) < LARGEST
            if not is_open.any():
                break
        beta = np.where(np.abs(coefficients[:, p]) < LARGEST, coefficients[:, p], np.nan)
        error = np.full(c, np.nan)
        fine = np.flatnonzero(np.isfinite(beta) & ~is_open)
        if fine.size:
            error[fine] = np.sqrt(np.linalg.inv(H[fine])[:, p, p])
        return beta, error, np.full(c, np.inf)

    def cost(self, m: int) -> Cost:
        p = self.Q.shape[1]
        products = 8 * m * p * p if self.is_logistic else 0
        return Cost(
            values=m,
            columns=8 * COLUMNS,
            state=8 * m * (p + 1),
            tile=8 * TILES * tile_height(2 * m) * m + products,
        )


@dataclass(frozen=True, slots=True)
class ResidualEffects(AbstractByTile):
    """Pass that estimates effects of features on labels of related samples, (c, `COLUMNS`).

    For a feature x and the residuals e of the labels, with covariance ``sigma^2 S``, the
    coefficient ``beta = x'e / x'R D P R x`` has variance ``sigma^2 x'S x / (x'R D P R x)^2``; the
    matrices are defined in `dhsic.linalg.residual_covariance`. Missing values are replaced by the
    mean of the feature.

    Attributes
    ----------
    residuals : (m,)
        Residuals e of the labels.
    covariance : ResidualCovariance
    """

    residuals: Float
    covariance: ResidualCovariance

    def by_tile(self, m: int) -> tuple[int | None, Callable[[Tile], Array]]:
        return tile_height(2 * m), self.of_tile

    def of_tile(self, tile: Tile) -> Array:
        """Estimate effects of the features of a tile, (c, `COLUMNS`)."""
        X, missing, n = _present(tile)
        Q = self.covariance.Q
        e = self.residuals - Q @ (Q.T @ self.residuals)
        degrees = len(e) - Q.shape[1]
        with np.errstate(invalid="ignore", divide="ignore"):
            X = np.where(missing, 0.0, X - (X.sum(axis=1) / n)[:, None])
            sizes, squares, slopes = self.covariance.forms(X)
            slopes[sizes <= EXPLAINED * np.vecdot(X, X)] = np.nan
            along = X @ e
            share = along**2 / squares / (e @ e / self.covariance.mean)  # of the variance
            variance = (e @ e / self.covariance.mean) * (1 - share) / (degrees - 1)
            beta, error = along / slopes, np.sqrt(variance * squares) / slopes
            return _known(n, beta, error, np.full(len(X), degrees - 1.0))

    def cost(self, m: int) -> Cost:
        return Cost(float32=2.0 * m * m, values=m, state=4 * m * m)


def _present(tile: Tile) -> tuple[Float, Mask, Array]:
    """Return values, the mask of missing values, and counts of present values of a tile.

    Values and mask are (c, m), and missing values are 0. The counts are (c,).
    """
    mask = missing_mask(tile.raw, tile.missing_code)
    missing = np.zeros(tile.raw.shape, dtype=bool) if mask is None else mask
    return np.where(missing, 0.0, tile.raw.astype(np.float64)), missing, (~missing).sum(axis=1)


def _known(n: Array, beta: Float, error: Float, degrees: Float) -> Array:
    """Assemble the result of a pass, (c, `COLUMNS`); NaN where an effect cannot be estimated.

    n are the numbers of samples, `beta` the coefficients, `error` their standard errors, and
    `degrees` the degrees of freedom, (c,) each.
    """
    is_none = ~(np.isfinite(beta) & np.isfinite(error) & (error > 0))
    size = np.where(is_none, np.nan, np.abs(beta / error))
    is_normal = np.isinf(degrees)
    p = 2.0 * np.where(is_normal, ndtr(-size), stdtr(np.where(is_normal, 1, degrees), -size))
    minus_log10_p = -np.log10(np.maximum(p, SMALLEST))
    for i in np.flatnonzero(p < SMALLEST):
        minus_log10_p[i] = minus_log10_tail(float(size[i]), float(degrees[i]))
    return np.column_stack([n, *(np.where(is_none, np.nan, v) for v in (beta, error, p)),
                            minus_log10_p])  # fmt: skip


def minus_log10_tail(size: float, degrees: float) -> float:
    """Compute ``-log10 P(|T| >= size)`` for Student's t, also for extremely small tails.

    With infinite `degrees` the distribution is normal. The tail is the density at `size`,
    multiplied by the integral of the relative density beyond it, which decays nearly exponentially.
    """
    if np.isinf(degrees):
        log_tail = float(log_ndtr(-size))
    else:
        from scipy.stats import t  # imported here because it loads slowly

        points, weights = np.polynomial.laguerre.laggauss(POINTS)
        rate = (degrees + 1) * size / (degrees + size**2)
        begin = t.logpdf(size, degrees)
        decline = t.logpdf(size + points / rate, degrees) - begin + points
        log_tail = float(begin - np.log(rate) + np.log(weights @ np.exp(decline)))
    return float(-(np.log(2) + log_tail) / np.log(10))

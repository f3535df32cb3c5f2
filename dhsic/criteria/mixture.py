r"""Correction of the gamma approximation: under independence HSIC is a mixture of chi-squares.

``HSIC - mean`` is approximately ``sum_ij lambda_i mu_j (z_ij^2 - 1)``, where mu are the eigenvalues
of the centred label matrix, lambda the eigenvalues of the centred kernel matrix of the feature, and
z is standard normal (Gretton et al., 2008). Pearson's distribution of type III with the same three
moments has p-values with relative errors of up to 5% near the median, and 50% at 1e-4. So the
logarithm of the p-value is corrected by a table over z and skewness, for given mu. All lambda are
assumed to be equal, except for a smaller last one; the skewness determines their number.

Tails of a mixture Q are contour integrals of ``K(s) = -1/2 sum log(1 - 2 lambda s)``,

    ``P(Q > x) = 1 / (2 pi i) int exp(K(s) - s x) / s ds``,

along a parabola that crosses the real axis near the saddlepoint and opens to the right, where the
integrand decays. With 80 points the relative error is 1e-10, even for very small tails.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dhsic._typing import Float
from dhsic.criteria.null import log_tail
from dhsic.linalg.symmetric import LowRankSymmetric, Symmetric

#: Numbers of lambda in the table; a fraction is the last, smaller lambda. The skewness decreases
#: with the number.
DIMENSIONS = (1.0, 1.2, 1.4, 1.7, 2.0, 2.5, 3.0, 5.0)
#: Values of standardised z in the table, as ``z / (1 + |z|)``; above z = 9 they grow geometrically.
PLACES = np.append(np.linspace(-0.6, 0.995, 160)[:150], 1.0 - np.geomspace(0.095, 0.0007, 180))
Z = PLACES / (1.0 - np.abs(PLACES))
#: Number of label eigenvalues that are used exactly; the others are replaced by equal ones.
MOST = 8
#: Number of points of the contour, its length in widths of the saddle, and number of positions
#: tried for its crossing of the real axis.
POINTS, REACH, CROSSINGS = 80, 6.0, 64
#: Fraction of the largest eigenvalue below which others count as 0; and maximum side of a matrix
#: that is decomposed.
LEAST, MOST_DECOMPOSED = 1e-7, 4096
#: Log p-values above this are nearly 0, and are not corrected.
ALL = -1e-12


@dataclass(frozen=True, eq=False)
class Correction:
    """Correction of log p-values of Pearson's type III distribution, from a table."""

    skewness: Float  # (k,), ascending
    table: Float  # (k, len(Z))

    @staticmethod
    def of(C: Symmetric) -> Correction | None:
        """Create the table for a label matrix C; None if C is indefinite or too large.

        The table corrects log p-values of Pearson's type III distribution.
        """
        if isinstance(C, LowRankSymmetric):
            mu = np.linalg.eigvals((C.F.T @ C.F) * C.weights).real
        elif C.n_samples <= MOST_DECOMPOSED:
            mu = np.linalg.eigvalsh(C.to_dense())
        else:
            return None
        mu = mu[np.abs(mu) > LEAST * np.abs(mu).max()]
        if (mu < 0).any():
            return None
        mu = _few(mu)
        skewness, rows = [], []
        for nu in sorted(DIMENSIONS, reverse=True):
            n_whole = int(nu)
            weights = np.append(np.ones(n_whole), nu - n_whole)
            terms = np.multiply.outer(weights[weights > 0], mu).ravel()
            terms /= np.sqrt(2.0 * terms @ terms)
            skew = 8.0 * float((terms**3).sum())
            ordinary = log_tail(Z, np.full(Z.size, skew))
            exact = log_mixture_tail(terms, Z + terms.sum())
            computed = (ordinary < ALL) & np.isfinite(exact)
            row = np.interp(
                PLACES, PLACES[computed], (exact - ordinary)[computed]
            )  # constant beyond the last value
            rows.append(np.where(ordinary < ALL, row, 0.0))
            skewness.append(skew)
        return Correction(np.array(skewness), np.array(rows))

    def __call__(self, z: Float, skewness: Float) -> Float:
        """Correction of log p-values at z (c,), for distributions with skewnesses (c,)."""
        row = np.interp(skewness, self.skewness, np.arange(self.skewness.size))
        # Uses quotients, so that the bits do not depend on the position in an array.
        at = np.clip(z / (1.0 + np.abs(z)), PLACES[0], PLACES[-1])
        place = np.interp(at, PLACES, np.arange(PLACES.size))
        return _between(self.table, row, place)


def _between(table: Float, row: Float, place: Float) -> Float:
    """Interpolate a table (a, b) linearly at fractional rows and columns, both (c,)."""
    i = np.minimum(row.astype(np.int64), table.shape[0] - 2)
    j = np.minimum(place.astype(np.int64), table.shape[1] - 2)
    # In this order, the bits are those of scipy.ndimage.map_coordinates, which loads slowly.
    up, left = 1.0 - (row - i), 1.0 - (place - j)
    down, right = 1.0 - up, 1.0 - left
    total = (table[i, j] * up) * left
    total += (table[i, j + 1] * up) * right
    total += (table[i + 1, j] * down) * left
    total += (table[i + 1, j + 1] * down) * right
    return np.asarray(total)


def _few(mu: Float) -> Float:
    """Replace all but the largest eigenvalues by equal ones.

    The sum and the sum of squares stay the same.
    """
    mu = np.sort(mu)[::-1]
    remaining = mu[MOST:]
    if not remaining.size:
        return mu
    n = max(1, round(float(remaining.sum() ** 2 / (remaining @ remaining))))
    return np.append(mu[:MOST], np.full(n, remaining.sum() / n))


@dataclass(frozen=True, eq=False)
class Parabola:
    """Points of c contours in the complex plane, (c, POINTS), from the real axis upwards.

    Real and imaginary parts are separate arrays: NumPy has vector instructions for real functions
    only, and complex logarithms take ten times as long.
    """

    real: Float
    imaginary: Float
    slope: Float  # real part of ds, if its imaginary part is 1
    steps: Float  # imaginary part of ds

    @staticmethod
    def through(crossing: Float, end: float | Float, width: Float) -> Parabola:
        """Parabolas that cross the real axis at `crossing` (c,), below the singularity `end`.

        `width` (c,) is the width of the integrand at the crossing.
        """
        u = REACH * (np.arange(POINTS) + 0.5) / POINTS
        y = width[:, None] * np.sinh(u)
        bend = 0.25 / (end + crossing)[:, None]
        steps = width[:, None] * np.cosh(u) * (REACH / POINTS)
        return Parabola(crossing[:, None] + bend * y**2, y, 2.0 * bend * y, steps)

    def integral(
        self, coefficients: Float, powers: Float, top: Float, x: Float | None = None
    ) -> Float:
        """Integral of ``exp(-s x - top) / s prod_k (1 - 2 c_k s)^-power_k`` / (2 pi i), (c,).

        `coefficients` are (n,) or (c, n), `powers` (n,), `top` and `x` (c,).
        """
        log_modulus, angle = log_and_angle(self.real, self.imaginary)
        if x is not None:
            log_modulus = log_modulus + x[:, None] * self.real
            angle = angle + x[:, None] * self.imaginary
        for coefficient, power in zip(coefficients.T, powers, strict=True):
            c = -2.0 * np.reshape(coefficient, (-1, 1))
            one_log, one_angle = log_and_angle(1.0 + c * self.real, c * self.imaginary)
            log_modulus += power * one_log
            angle += power * one_angle
        size = np.exp(-log_modulus - top[:, None]) * self.steps
        parts = size * (np.cos(angle) - self.slope * np.sin(angle))
        return np.asarray(parts.sum(axis=1) / np.pi)


def log_and_angle(real: Float, imaginary: Float) -> tuple[Float, Float]:
    """Real and imaginary part of the logarithm of complex numbers off the real axis."""
    with np.errstate(divide="ignore"):
        angle = np.arctan(imaginary / real)
    angle += np.where(real < 0, np.copysign(np.pi, imaginary), 0.0)
    return 0.5 * np.log(real**2 + imaginary**2), angle


def log_mixture_tail(terms: Float, x: Float) -> Float:
    """Log tail probability ``log P(sum_k terms_k z_k^2 > x)`` at x (c,), for positive terms (n,).

    It is 0 if x <= 0.
    """
    end = 0.5 / terms.max()
    tried = end * (1 - np.geomspace(1e-5, 1.0, CROSSINGS + 1)[:-1])
    K = -0.5 * np.log1p(-2.0 * np.multiply.outer(tried, terms)).sum(axis=1)
    heights = K[:, None] - np.multiply.outer(tried, np.maximum(x, 0.0)) - np.log(tried)[:, None]
    crossing = tried[heights.argmin(axis=0)]  # (c,)
    ratios = 2.0 * terms / (1.0 - 2.0 * crossing[:, None] * terms)
    width = 1.0 / np.sqrt(0.5 * (ratios**2).sum(axis=1) + crossing**-2)
    each, counts = np.unique(terms, return_counts=True)
    top = heights.min(axis=0)
    path = Parabola.through(crossing, end, width)
    values = path.integral(each, 0.5 * counts.astype(np.float64), top, np.maximum(x, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):  # far tails may round to 0
        log_tail_x = top + np.log(values)
    return np.where(x > 0, np.minimum(log_tail_x, 0.0), 0.0)

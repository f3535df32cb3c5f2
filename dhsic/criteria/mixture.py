r"""HSIC under independence is a mixture of chi-squares: correction of the gamma approximation.

``HSIC - mean`` is approximately ``sum_ij lambda_i mu_j (z_ij^2 - 1)``, with mu the eigenvalues of
the centred label matrix, lambda those of the feature, and z standard normal (Gretton et al., 2008).
Pearson's distribution of type III with the same three moments has p-values that are off by up to 5%
near the median, and by half at 1e-4. So its logarithm is corrected by a table for given mu, over z
and skewness; lambda are assumed to be equal, the last one smaller, with their number given by the
skewness.

Tails of a mixture Q are contour integrals of ``K(s) = -1/2 sum log(1 - 2 lambda s)``,

    ``P(Q > x) = 1 / (2 pi i) int exp(K(s) - s x) / s ds``,

along a parabola that crosses the real axis near the saddlepoint and opens to the right, where the
integrand decays: 80 points give a relative error of 1e-10, however small the tail is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.ndimage import map_coordinates

from dhsic._typing import Float
from dhsic.criteria.null import log_tail
from dhsic.linalg.symmetric import LowRankSymmetric, Symmetric

#: Numbers of lambda, with a fraction for the last one; skewness decreases with them.
DIMENSIONS = (1.0, 1.2, 1.4, 1.7, 2.0, 2.5, 3.0, 5.0)
#: Standardised z in the table, by ``z / (1 + |z|)``; above z = 9 they increase geometrically.
PLACES = np.append(np.linspace(-0.6, 0.995, 160)[:150], 1.0 - np.geomspace(0.095, 0.0007, 180))
Z = PLACES / (1.0 - np.abs(PLACES))
#: Number of label eigenvalues used individually; the others are replaced by equal ones.
MOST = 8
#: Points of the contour, its length in widths of the saddle, and number of candidate crossings.
POINTS, REACH, CROSSINGS = 80, 6.0, 64
#: Relative size of an eigenvalue that counts as 0, and maximum size of a decomposed matrix.
LEAST, MOST_DECOMPOSED = 1e-7, 4096
#: Log p-values above this are practically 0, and not corrected.
ALL = -1e-12


@dataclass(frozen=True, eq=False)
class Correction:
    """Correction of the log tail of Pearson's type III distribution, by table."""

    skewness: Float  # (k,), ascending
    table: Float  # (k, len(Z))

    @staticmethod
    def of(C: Symmetric) -> Correction | None:
        """Correction for a label matrix; None if it is indefinite, or too large to decompose."""
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
            )  # beyond as the last
            rows.append(np.where(ordinary < ALL, row, 0.0))
            skewness.append(skew)
        return Correction(np.array(skewness), np.array(rows))

    def __call__(self, z: Float, skewness: Float) -> Float:
        """Evaluate the correction at z with these skewnesses, (c,)."""
        row = np.interp(skewness, self.skewness, np.arange(self.skewness.size))
        # Interpolated in quotients, so that bits do not depend on the position in an array.
        at = np.clip(z / (1.0 + np.abs(z)), PLACES[0], PLACES[-1])
        place = np.interp(at, PLACES, np.arange(PLACES.size))
        correction = map_coordinates(self.table, [row, place], order=1, mode="nearest")
        return np.asarray(correction)


def _few(mu: Float) -> Float:
    """The largest eigenvalues, and equal ones with the sum and squared sum of the others."""
    mu = np.sort(mu)[::-1]
    remaining = mu[MOST:]
    if not remaining.size:
        return mu
    n = max(1, round(float(remaining.sum() ** 2 / (remaining @ remaining))))
    return np.append(mu[:MOST], np.full(n, remaining.sum() / n))


def log_mixture_tail(terms: Float, x: Float) -> Float:
    """``log P(sum_k terms_k z_k^2 > x)`` for positive terms (n,), at x (c,); 0 where x <= 0."""
    end = 0.5 / terms.max()
    tried = end * (1 - np.geomspace(1e-5, 1.0, CROSSINGS + 1)[:-1])
    K = -0.5 * np.log1p(-2.0 * np.multiply.outer(tried, terms)).sum(axis=1)
    heights = K[:, None] - np.multiply.outer(tried, np.maximum(x, 0.0)) - np.log(tried)[:, None]
    crossing = tried[heights.argmin(axis=0)]  # (c,)
    ratios = 2.0 * terms / (1.0 - 2.0 * crossing[:, None] * terms)
    width = 1.0 / np.sqrt(0.5 * (ratios**2).sum(axis=1) + crossing**-2)
    u = REACH * (np.arange(POINTS) + 0.5) / POINTS
    y = width[:, None] * np.sinh(u)
    bend = 0.25 / (end + crossing)[:, None]
    s = crossing[:, None] + 1j * y + bend * y**2
    slope = width[:, None] * np.cosh(u) * (1j + 2.0 * bend * y)
    exponent = -np.maximum(x, 0.0)[:, None] * s - np.log(s)
    for term, times in zip(*np.unique(terms, return_counts=True), strict=True):
        exponent -= 0.5 * times * np.log(1.0 - 2.0 * term * s)
    top = heights.min(axis=0)
    values = (np.exp(exponent - top[:, None]) * slope).imag.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):  # far tails may be below rounding
        log_tail_x = top + np.log(values * (REACH / POINTS) / np.pi)
    return np.where(x > 0, np.minimum(log_tail_x, 0.0), 0.0)

r"""HSIC under independence is a mixture of chi-squares: what that corrects of a gamma distribution.

``HSIC - mean`` is about ``sum_ij lambda_i mu_j (z_ij^2 - 1)``, mu the eigenvalues of the centred
label matrix, lambda those of the feature's, z standard normal (Gretton et al., 2008). Pearson's
distribution of type III with the same three moments is off by up to five per cent where half of
the features are, and by half at 1e-4. So its logarithm gets a correction, tabulated for given mu by
z and skewness: lambda are taken to be some equal ones and a part of one, as many as have the
skewness.

Tails of a mixture Q are contour integrals of ``K(s) = -1/2 sum log(1 - 2 lambda s)``,

    ``P(Q > x) = 1 / (2 pi i) int exp(K(s) - s x) / s ds``,

along a parabola that crosses the real axis near the saddlepoint and opens to the right, where the
integrand dies out: 1e-10 of the tail in 80 points, however small it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.ndimage import map_coordinates

from dhsic._typing import Float
from dhsic.criteria.null import log_tail
from dhsic.linalg.symmetric import LowRankSymmetric, Symmetric

#: How many lambda, the last in part: what skewness goes by.
DIMENSIONS = (1.0, 1.2, 1.4, 1.7, 2.0, 2.5, 3.0, 5.0)
#: Standard deviations z that are tabulated, by ``z / (1 + |z|)``: from z = 9 on each is a part
#: larger than the one before.
PLACES = np.append(np.linspace(-0.6, 0.995, 160)[:150], 1.0 - np.geomspace(0.095, 0.0007, 180))
Z = PLACES / (1.0 - np.abs(PLACES))
#: Eigenvalues of the labels that count one by one; the others count as equal.
MOST = 8
#: Points of the contour, how far it goes, in widths of the saddle, and crossings that are tried.
POINTS, REACH, CROSSINGS = 80, 6.0, 64
#: Part of the largest eigenvalue that is none, and samples of a matrix that is decomposed.
LEAST, MOST_DECOMPOSED = 1e-7, 4096
#: p-values above this, of which the tail is all there is, are not corrected.
ALL = -1e-12


@dataclass(frozen=True, eq=False)
class Correction:
    """What the logarithm of a tail gets besides that of Pearson's type III."""

    skewness: Float  # (k,), ascending
    table: Float  # (k, len(Z))

    @staticmethod
    def of(C: Symmetric) -> Correction | None:
        """For labels of that matrix; None where it is indefinite, or too large to decompose."""
        if isinstance(C, LowRankSymmetric):
            mu = np.linalg.eigvals((C.F.T @ C.F) * C.weights).real
        elif C.n_samples <= MOST_DECOMPOSED:
            mu = np.linalg.eigvalsh(C.whole())
        else:
            return None
        mu = mu[np.abs(mu) > LEAST * np.abs(mu).max()]
        if (mu < 0).any():
            return None
        mu = _few(mu)
        skewness, rows = [], []
        for nu in sorted(DIMENSIONS, reverse=True):
            whole = int(nu)
            weights = np.append(np.ones(whole), nu - whole)
            terms = np.multiply.outer(weights[weights > 0], mu).ravel()
            terms /= np.sqrt(2.0 * terms @ terms)
            skew = 8.0 * float((terms**3).sum())
            ordinary = log_tail(Z, np.full(Z.size, skew))
            exact = log_mixture_tail(terms, Z + terms.sum())
            known = (ordinary < ALL) & np.isfinite(exact)
            row = np.interp(PLACES, PLACES[known], (exact - ordinary)[known])  # beyond as the last
            rows.append(np.where(ordinary < ALL, row, 0.0))
            skewness.append(skew)
        return Correction(np.array(skewness), np.array(rows))

    def __call__(self, z: Float, skewness: Float) -> Float:
        """The correction at z of these skewnesses, (c,)."""
        row = np.interp(skewness, self.skewness, np.arange(self.skewness.size))
        # Of quotients, whose bits are the same wherever z stands in an array.
        at = np.clip(z / (1.0 + np.abs(z)), PLACES[0], PLACES[-1])
        place = np.interp(at, PLACES, np.arange(PLACES.size))
        found = map_coordinates(self.table, [row, place], order=1, mode="nearest")
        return np.asarray(found)


def _few(mu: Float) -> Float:
    """The largest eigenvalues, and for the others equal ones of the same sum and squares."""
    mu = np.sort(mu)[::-1]
    rest = mu[MOST:]
    if not rest.size:
        return mu
    n = max(1, round(float(rest.sum() ** 2 / (rest @ rest))))
    return np.append(mu[:MOST], np.full(n, rest.sum() / n))


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
    with np.errstate(divide="ignore", invalid="ignore"):  # far out it may be below rounding
        found = top + np.log(values * (REACH / POINTS) / np.pi)
    return np.where(x > 0, np.minimum(found, 0.0), 0.0)

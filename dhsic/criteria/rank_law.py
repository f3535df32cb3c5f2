r"""Laws of HSIC of ranks under independence, at several widths, and of their combination.

HSIC of a feature and labels is ``T = sum_rs lambda_r mu_s Z_rs^2`` with ``Z_rs = phi_r . b_s``,
where phi are the functions of the feature and b the directions of the labels. Under random
permutations of the labels Z is nearly standard normal, so T is nearly a mixture Q of chi-squares
(Gretton et al., 2008). But directions have norm 1, unlike normal vectors. So ``T = Q / V`` is a
better approximation, where V is a mean of ``nu = m - 1`` squares (fewer with covariates), including
the squares in Q. For one function and one direction this is the F distribution. V and T are
independent, so the moments of T are moments of Q divided by moments of V. `WidthLaw` computes the
tail of T for the exact mean, variance and skewness over permutations.

p-values of several widths are combined by ``T = sum_w share_w cot(pi p_w / 2)``, with weights
``share_w`` of sum 1. T is half-Cauchy if all p-values are equal, and nearly half-Cauchy in the tail
for any dependence between them (Liu and Xie, 2020; Liu, Meng and Pillai, 2025). Outside the tail it
is corrected by a table from normal draws (`Calibration`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dhsic._typing import Float
from dhsic.criteria.mixture import ALL, CROSSINGS, PLACES, Correction, Parabola, Z
from dhsic.criteria.null import log_tail
from dhsic.linalg.symmetric import LowRankSymmetric

#: Powers of the eigenvalues of a width that are tabulated: ties reduce the number of functions of a
#: feature, in the limit to one.
POWERS = (1.0, 1.5, 3.0, np.inf)
#: Number of mixture eigenvalues that are used exactly; the others are replaced by equal ones.
MOST_TERMS = 8
#: Up to z = 9, every third entry of the table is computed and others are interpolated: the
#: correction is smooth there.
EVERY = 3
COMPUTED = np.append(np.arange(0, 150, EVERY), np.arange(150, PLACES.size))
#: Fraction of the largest eigenvalue below which others count as 0.
NOTHING = 1e-6
#: Number of normal draws that calibrate the combination, and maximum number of values at a time;
#: and the p-values in the table. Below the first one the correction decreases like the fourth root
#: of p.
DRAWS, NUMBERS = 25_000, 3_000_000
GRID = np.array([0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0])


def _merged(terms: Float) -> Float:
    """Replace all but the largest eigenvalues by equal ones.

    The sum and the sum of squares stay the same.
    """
    terms = np.sort(terms[terms > NOTHING * terms.max()])[::-1]
    remaining = terms[MOST_TERMS:]
    if not remaining.size:
        return np.asarray(terms)
    n = max(1, round(float(remaining.sum() ** 2 / (remaining @ remaining))))
    return np.append(terms[:MOST_TERMS], np.full(n, remaining.sum() / n))


@dataclass(frozen=True, slots=True)
class RatioMoments:
    """Mean, variance and third central moment of the statistic ``T = Q / V``.

    Q is a mixture of chi-squares, and V a mean of squares (see `dhsic.criteria.rank_law`).
    """

    mean: float
    variance: float
    third: float

    @staticmethod
    def of(terms: Float, nu: float) -> RatioMoments:
        """Compute the moments of ``Q / V``.

        Q is a mixture of chi-squares with the weights `terms`, and V a mean of nu squares of normal
        variables, including those in Q.
        """
        one, two, three = (float((terms**power).sum()) for power in (1, 2, 3))
        second = (one**2 + 2.0 * two) / (1.0 + 2.0 / nu)
        third = one**3 + 6.0 * one * two + 8.0 * three
        third /= (1.0 + 2.0 / nu) * (1.0 + 4.0 / nu)
        variance = max(second - one**2, 0.0)
        return RatioMoments(one, variance, third - 3.0 * one * second + 2.0 * one**3)

    @property
    def std(self) -> float:
        return float(np.sqrt(self.variance))

    @property
    def skewness(self) -> float:
        return float(self.third / self.variance**1.5) if self.variance > 0 else 0.0


def log_ratio_tail(terms: Float, nu: float, t: Float) -> Float:
    """Log tail probability ``log P(Q / V > t)`` at t (c,), for positive terms (n,) of Q.

    V has nu degrees of freedom. The probability is ``P(sum_i (terms_i - t / nu) z_i^2 > 0)`` for nu
    normal numbers z. It is computed as an integral along a parabola (see `dhsic.criteria.mixture`).
    The result is 0 for negative t, and minus infinity if t is beyond the support.
    """
    log_p = np.where(t > 0, -np.inf, 0.0)
    inside = np.flatnonzero((t > 0) & (t < nu * terms.max() * (1.0 - 1e-9)))
    if not inside.size:
        return log_p
    level = (t[inside] / nu)[:, None]
    each, counts = np.unique(terms, return_counts=True)
    coefficients = np.concatenate([each - level, -level], axis=1)  # (c, n + 1)
    times = np.append(counts.astype(np.float64), max(nu - terms.size, 0.0))
    end = 0.5 / coefficients.max(axis=1)
    places = 1.0 - np.geomspace(1e-5, 1.0, CROSSINGS + 1)[:-1]
    tried = end[:, None] * places  # (c, k)
    K = -0.5 * (np.log1p(-2.0 * tried[:, :, None] * coefficients[:, None, :]) @ times)
    heights = K - np.log(tried)
    at = heights.argmin(axis=1)
    every = np.arange(inside.size)
    crossing, top = tried[every, at], heights[every, at]
    ratios = 2.0 * coefficients / (1.0 - 2.0 * crossing[:, None] * coefficients)
    width = 1.0 / np.sqrt(0.5 * (ratios**2 @ times) + crossing**-2)
    path = Parabola.through(crossing, end, width)
    values = path.integral(coefficients, 0.5 * times, top)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_p[inside] = np.minimum(top + np.log(values), 0.0)
    return log_p


@lru_cache(1024)
def _correction(weights: tuple[float, ...], mu: tuple[float, ...], nu: int) -> Correction:
    """Correction of log p-values by Pearson's type III distribution.

    The correction is a table by z and skewness. `weights` are the weights of the functions at one
    width, and `mu` the weights of the label directions.
    """
    spectrum = np.array(weights) / max(weights)
    skewness: list[float] = []
    rows: list[Float] = []
    for power in sorted(POWERS, reverse=True):
        powered = np.where(spectrum == 1.0, 1.0, 0.0) if np.isinf(power) else spectrum**power
        terms = _merged(np.multiply.outer(powered[powered > 0], np.array(mu)).ravel())
        # Each direction has its own V, so with many directions the mean V varies less.
        degrees = max(nu, 2 * terms.size)
        moments = RatioMoments.of(terms, degrees)
        if skewness and moments.skewness >= skewness[-1] * (1.0 - 1e-9):
            continue
        z_computed = Z[COMPUTED]
        ordinary = log_tail(z_computed, np.full(z_computed.size, moments.skewness))
        exact = log_ratio_tail(terms, degrees, moments.mean + moments.std * z_computed)
        computed = (ordinary < ALL) & np.isfinite(exact)
        row = np.interp(PLACES, PLACES[COMPUTED][computed], (exact - ordinary)[computed])
        rows.append(np.where(log_tail(Z, np.full(Z.size, moments.skewness)) < ALL, row, 0.0))
        skewness.append(moments.skewness)
    return Correction(np.array(skewness[::-1]), np.array(rows[::-1]))


@dataclass(frozen=True, eq=False)
class WidthLaw:
    """Null distribution of HSIC for one kernel width of features and one label matrix."""

    correction: Correction

    @staticmethod
    def of(weights: Float, C: LowRankSymmetric, nu: int) -> WidthLaw:
        """Create the law for rank functions with weights (R,) and the label matrix C.

        `nu` is the number of samples minus 1 and minus the number of covariates.
        """
        mu = np.linalg.eigvals((C.F.T @ C.F) * C.weights).real
        mu = np.sort(mu[mu > NOTHING * mu.max()])[::-1]
        scaled = tuple((mu / mu.max()).round(9).tolist())
        return WidthLaw(_correction(tuple(weights.tolist()), scaled, nu))

    def log_p(self, z: Float, skewness: Float) -> Float:
        """Log p-values, (c,), of HSIC at z standard deviations above its mean.

        z and `skewness` are (c,).
        """
        log_p = log_tail(z, skewness) + self.correction(z, skewness)
        return np.asarray(np.minimum(log_p, 0.0))

    def tabulated(self, skewness: float) -> TailTable:
        """Table of log p-values as a function of z, for one skewness."""
        return TailTable(self.log_p(FINE, np.full(FINE.size, skewness)))


@dataclass(frozen=True, eq=False)
class DirectLaw:
    """Null distribution of HSIC like `WidthLaw`, but computed without a table.

    It is used for kernels of few features, for which a table is not worthwhile. `terms` are the
    eigenvalues of the mixture, and `nu` its degrees of freedom.
    """

    terms: Float
    nu: int

    @staticmethod
    def of(weights: Float, C: LowRankSymmetric, nu: int) -> DirectLaw:
        """Create the law for functions with weights (R,) and the label matrix C."""
        mu = np.linalg.eigvals((C.F.T @ C.F) * C.weights).real
        terms = _merged(np.multiply.outer(weights, mu[mu > NOTHING * mu.max()]).ravel())
        return DirectLaw(terms / terms.max(), max(nu, 2 * terms.size))

    def log_p(self, z: Float, skewness: Float) -> Float:
        """Log p-values, (c,), as in `WidthLaw.log_p`."""
        moments = RatioMoments.of(self.terms, self.nu)
        ordinary = log_tail(z, np.full(z.size, moments.skewness))
        exact = log_ratio_tail(self.terms, self.nu, moments.mean + moments.std * z)
        is_exact = (ordinary < ALL) & np.isfinite(exact)
        correction = np.where(is_exact, exact - ordinary, 0.0)
        return np.asarray(np.minimum(log_tail(z, skewness) + correction, 0.0))


#: Values of ``z / (1 + |z|)`` at which a law with one skewness is tabulated.
FINE_PLACES = np.append(np.linspace(-0.6, 0.9, 1128), 1.0 - np.geomspace(0.0998, 0.0007, 600))
FINE = FINE_PLACES / (1.0 - np.abs(FINE_PLACES))


@dataclass(frozen=True, eq=False)
class TailTable:
    """Table of log p-values as a function of standardised HSIC, with linear extrapolation."""

    log_p: Float

    def __call__(self, z: Float) -> Float:
        """Log p-values at z, an array of any shape."""
        log_p = np.interp(z, FINE, self.log_p)
        slope = (self.log_p[-1] - self.log_p[-2]) / (FINE[-1] - FINE[-2])
        beyond = np.maximum(z - FINE[-1], 0.0)
        return np.asarray(log_p + slope * beyond)


def combined(log_p: Float, shares: Float) -> Float:
    """Combine k log p-values, (k, c), to one, (c,), by the half-Cauchy method.

    `shares` (k,) are the weights of the p-values, which sum to 1. The combination uses logarithms,
    so tiny p-values do not underflow.
    """
    least = log_p.min(axis=0)
    # For small p, cot(pi p / 2) is 2 / (pi p). Values are relative to the smallest p, so none is
    # too large.
    p = np.exp(log_p)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        exact = 1.0 / np.tan(0.5 * np.pi * p) * np.exp(least)
        near = (2.0 / np.pi) * np.exp(least - log_p)
    relative = np.zeros_like(least)  # T times the smallest p; a product would round by column
    for share, row in zip(shares.tolist(), np.where(log_p < -20.0, near, exact), strict=True):
        relative += share * row
    log_t = np.log(np.maximum(relative, np.finfo(float).tiny)) - least
    log_combined = np.log(2.0 / np.pi) - log_t
    moderate = log_t < 20.0
    log_combined[moderate] = np.log((2.0 / np.pi) * np.arctan(np.exp(-log_t[moderate])))
    return np.asarray(np.minimum(log_combined, 0.0))


def _drawn_squares(R: int, S: int, nu: int, root: Float) -> Iterator[Float]:
    """Draw squares of Z for R functions and directions ``root g``, with S normal numbers g.

    nu are the degrees of freedom. There are `DRAWS` draws in total, yielded in parts of (n, R,
    directions).
    """
    most = max(1, NUMBERS // (R * S))
    rng = np.random.default_rng(0)
    for start in range(0, DRAWS, most):
        n = min(most, DRAWS - start)
        draws = rng.standard_normal((n, R, S), dtype=np.float32)
        norms = np.square(draws).sum(axis=1, keepdims=True)
        if nu > R:
            norms += rng.chisquare(nu - R, (n, 1, S)).astype(np.float32)
        draws /= np.sqrt(norms / max(nu, R))
        yield np.asarray(np.square(draws @ root.T.astype(np.float32)))


@dataclass(frozen=True, eq=False)
class Calibration:
    """Calibration of combined p-values.

    It contains the frequency of p-values under independence, divided by the nominal p-value.
    """

    ratios: Float  # ratios at the p-values `GRID`

    @staticmethod
    def of(
        weights: Float,
        each: Sequence[LowRankSymmetric],
        laws: Sequence[WidthLaw],
        shares: Float,
        nu: int,
    ) -> Calibration:
        """Estimate the calibration from simulated values of Z under independence.

        Z are entries of normal vectors that are scaled to equal norm. The p-value of a single width
        is known to be uniform. The deviation of its draws from uniform is subtracted, for the width
        with the largest weight; this halves the sampling error.

        Parameters
        ----------
        weights : (n, R)
            Weights of the functions at each width.
        each : sequence of K label matrices
            Label matrices with the same directions and different weights.
        laws, shares : n * K of each
            Ordered by label matrix, then by width.
        nu : int
            Number of samples minus 1 and minus the number of covariates.
        """
        if len(laws) == 1:
            return Calibration(np.ones(GRID.size))
        gram = each[0].F.T @ each[0].F
        mu = np.array([C.weights for C in each])
        if np.allclose(gram, np.eye(len(gram)), atol=1e-8):  # the usual case
            parts = weights, mu.round(9), np.asarray(shares)
            return Calibration(_ratios_of_orthonormal(*map(_plain, parts), nu))
        return Calibration(_ratios(weights, mu, gram, laws, shares, nu))

    def log_ratio(self, log_p: Float) -> Float:
        """Logarithms of the factors that calibrate p-values, (c,)."""
        ratio = np.interp(log_p, np.log(GRID), self.ratios)
        fading = np.exp(np.minimum(log_p - np.log(GRID[0]), 0.0) / 4.0)
        return np.asarray(np.log(1.0 + (ratio - 1.0) * fading))


def _plain(values: Float) -> tuple[tuple[float, ...], ...]:
    """Convert the rows of an array to tuples, so that they can be cache keys."""
    return tuple(tuple(row) for row in np.atleast_2d(values).tolist())


@lru_cache(256)
def _ratios_of_orthonormal(
    weights: tuple[tuple[float, ...], ...],
    mu: tuple[tuple[float, ...], ...],
    shares: tuple[tuple[float, ...], ...],
    nu: int,
) -> Float:
    """Compute the ratios of `Calibration` for orthonormal label directions, from weights only."""
    rows, gram = np.array(weights), np.eye(len(mu[0]))
    each = [LowRankSymmetric.of(gram, np.array(row)) for row in mu]
    laws = [WidthLaw.of(row, C, nu) for C in each for row in rows]
    return _ratios(rows, np.array(mu), gram, laws, np.array(shares[0]), nu)


def _ratios(
    weights: Float, mu: Float, gram: Float, laws: Sequence[WidthLaw], shares: Float, nu: int
) -> Float:
    """Compute the ratios of `Calibration` at `GRID`, for directions with inner products `gram`."""
    root = np.eye(len(gram))
    if not np.array_equal(gram, root):
        values, vectors = np.linalg.eigh(gram)
        root = (vectors * np.sqrt(np.maximum(values, 0.0)))[:, values > NOTHING * values.max()]
    drawn = _drawn_squares(weights.shape[1], root.shape[1], nu, root)
    by_part = [[squares @ row.astype(np.float32) for row in mu] for squares in drawn]
    log_ps = []
    for k, row_mu in enumerate(mu):
        per_function = np.concatenate([part[k] for part in by_part])  # (n, R)
        eigenvalues = np.linalg.eigvals(gram * row_mu).real
        one, two, three = (float((eigenvalues**power).sum()) for power in (1, 2, 3))
        for w, row in enumerate(weights):
            of_one = RatioMoments.of(row, nu)
            std = np.sqrt(two * of_one.variance)
            z = (per_function @ row - one * of_one.mean) / std
            law = laws[k * len(weights) + w]
            log_ps.append(law.tabulated(three * of_one.third / std**3)(z))
    largest = np.exp(log_ps[int(np.argmax(shares))])
    both = np.exp(combined(np.array(log_ps), shares))
    ratios = [1.0 + (np.mean(both <= x) - np.mean(largest <= x)) / x for x in GRID[:-1]]
    return np.array([*ratios, 1.0])

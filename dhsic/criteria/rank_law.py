r"""Laws of HSIC of ranks under independence, at several widths, and of their combination.

HSIC of a feature and labels is ``T = sum_rs lambda_r mu_s Z_rs^2`` with ``Z_rs = phi_r . b_s``, phi
the functions of the feature and b the directions of the labels. Under random permutations of the
labels Z is nearly standard normal, so T is nearly a mixture of chi-squares (Gretton et al., 2008).
`WidthLaw` has the tail of that mixture for the exact mean, variance and skewness of permutations.

p-values of several widths are combined by ``T = sum_w share_w cot(pi p_w / 2)``, which is
half-Cauchy where they are all the same and nearly so in the tail whatever their dependence (Liu
and Xie, 2020; Liu, Meng and Pillai, 2025). What is missing in the bulk is tabulated from normal
draws (`Calibration`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dhsic._typing import Float
from dhsic.criteria.mixture import ALL, PLACES, Correction, Z, log_mixture_tail
from dhsic.criteria.null import log_tail
from dhsic.linalg.symmetric import LowRankSymmetric

#: Powers of the spectrum of a width that are tabulated: ties leave fewer functions to a feature,
#: in the end one.
POWERS = (1.0, 1.5, 3.0, np.inf)
#: Eigenvalues of a mixture that count one by one; the rest counts as equal ones.
MOST_TERMS = 8
#: One of so many places of the table is computed: the correction is smooth.
EVERY = 3
#: Part of the largest eigenvalue that is nothing.
NOTHING = 1e-6
#: Normal draws by which the combination is calibrated: how many, numbers of them at most, and
#: p-values where it is tabulated; below the first the correction fades out as its fourth root.
DRAWS, NUMBERS = 25_000, 3_000_000
GRID = np.array([0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0])


def _merged(terms: Float) -> Float:
    """The largest eigenvalues, and equal ones of the same sum and squares for the rest."""
    terms = np.sort(terms[terms > NOTHING * terms.max()])[::-1]
    rest = terms[MOST_TERMS:]
    if not rest.size:
        return np.asarray(terms)
    n = max(1, round(float(rest.sum() ** 2 / (rest @ rest))))
    return np.append(terms[:MOST_TERMS], np.full(n, rest.sum() / n))


@lru_cache(256)
def _correction(weights: tuple[float, ...], mu: tuple[float, ...]) -> Correction:
    """Logarithm of the mixture's tail less that of Pearson's type III, by z and skewness."""
    spectrum = np.array(weights) / max(weights)
    skewness: list[float] = []
    rows: list[Float] = []
    for power in sorted(POWERS):
        powered = np.where(spectrum == 1.0, 1.0, 0.0) if np.isinf(power) else spectrum**power
        terms = np.multiply.outer(powered[powered > 0], np.array(mu)).ravel()
        terms = terms / np.sqrt(2.0 * terms @ terms)
        skew = 8.0 * float((terms**3).sum())
        if skewness and skew <= skewness[-1] * (1 + 1e-9):
            continue
        ordinary = log_tail(Z, np.full(Z.size, skew))
        exact = log_mixture_tail(_merged(terms), Z[::EVERY] + terms.sum())
        known = (ordinary[::EVERY] < ALL) & np.isfinite(exact)
        row = np.where(known, exact - ordinary[::EVERY], 0.0)
        rows.append(np.interp(PLACES, PLACES[::EVERY], row))
        skewness.append(skew)
    return Correction(np.array(skewness), np.array(rows))


@dataclass(frozen=True, eq=False)
class WidthLaw:
    """Tail of HSIC at one width of the features and one of the labels."""

    correction: Correction

    @staticmethod
    def of(weights: Float, C: LowRankSymmetric) -> WidthLaw:
        """For functions of these weights, (R,), and labels of the matrix C."""
        mu = np.linalg.eigvals((C.F.T @ C.F) * C.weights).real
        mu = np.sort(mu[mu > NOTHING * mu.max()])[::-1]
        scaled = (mu / mu.max()).round(9)
        return WidthLaw(_correction(tuple(weights.tolist()), tuple(scaled.tolist())))

    def log_p(self, z: Float, skewness: Float) -> Float:
        """Logarithm of the p-value of HSIC z deviations above its mean, (c,) each."""
        found = log_tail(z, skewness) + self.correction(z, skewness)
        return np.asarray(np.minimum(found, 0.0))

    def tabulated(self, skewness: float) -> TailTable:
        """The same for one skewness."""
        return TailTable(self.log_p(FINE, np.full(FINE.size, skewness)))


#: Deviations at which a law of one skewness is tabulated.
FINE_PLACES = np.linspace(PLACES[0], PLACES[-1], 1200)
FINE = FINE_PLACES / (1.0 - np.abs(FINE_PLACES))


@dataclass(frozen=True, eq=False)
class TailTable:
    """Logarithm of p-values by deviations; beyond the table it goes on as a straight line."""

    log_p: Float

    def __call__(self, z: Float) -> Float:
        """Logarithms of the p-values at z, of any shape."""
        found = np.interp(z, FINE, self.log_p)
        slope = (self.log_p[-1] - self.log_p[-2]) / (FINE[-1] - FINE[-2])
        beyond = np.maximum(z - FINE[-1], 0.0)
        return np.asarray(found + slope * beyond)


def combined(log_p: Float, shares: Float) -> Float:
    """Half-Cauchy combination of p-values, as logarithms (k, c) and (c,); `shares` (k,) sum to 1.

    In logarithms, for p-values below the smallest number.
    """
    least = log_p.min(axis=0)
    # cot(pi p / 2) is 2 / (pi p) for small p; relative to the smallest p no power is too large.
    p = np.exp(log_p)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        exact = 1.0 / np.tan(0.5 * np.pi * p) * np.exp(least)
        near = (2.0 / np.pi) * np.exp(least - log_p)
    relative = shares @ np.where(log_p < -20.0, near, exact)  # T times the smallest p
    log_t = np.log(np.maximum(relative, np.finfo(float).tiny)) - least
    found = np.log(2.0 / np.pi) - log_t
    moderate = log_t < 20.0
    found[moderate] = np.log((2.0 / np.pi) * np.arctan(np.exp(-log_t[moderate])))
    return np.asarray(np.minimum(found, 0.0))


@dataclass(frozen=True, eq=False)
class Calibration:
    """Frequency of combined p-values under independence over the p-values themselves."""

    ratios: Float  # at `GRID`

    @staticmethod
    def of(
        weights: Float, each: Sequence[LowRankSymmetric], laws: Sequence[WidthLaw], shares: Float
    ) -> Calibration:
        """From normal draws of Z.

        The p-value of the first combination is uniform, and its own deviation from that is taken
        off: what is left varies by half as much.

        Parameters
        ----------
        weights : (n, R)
            Of the functions at each width.
        each : sequence of K label matrices
            Of the same directions, with weights of their own.
        laws, shares : n * K of each
            In the order of widths for the first label matrix, then for the next.
        """
        if len(laws) == 1:
            return Calibration(np.ones(GRID.size))
        F = each[0].F
        values, vectors = np.linalg.eigh(F.T @ F)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        root = root[:, values > NOTHING * values.max()]
        R = weights.shape[1]
        n = min(DRAWS, NUMBERS // (R * root.shape[1]))
        draws = np.random.default_rng(0).standard_normal((n * R, root.shape[1]), dtype=np.float32)
        squares = np.square(draws @ root.T.astype(np.float32))
        found = []
        for k, C in enumerate(each):
            per_function = (squares @ C.weights).reshape(n, R)
            mu = np.linalg.eigvals((F.T @ F) * C.weights).real
            for w, row in enumerate(weights):
                size = np.sqrt(2.0 * (row @ row) * (mu @ mu))
                skewness = 8.0 * (row**3).sum() * (mu**3).sum() / size**3
                z = (per_function @ row - row.sum() * mu.sum()) / size
                found.append(laws[k * len(weights) + w].tabulated(skewness)(z))
        first = np.exp(found[0])
        both = np.exp(combined(np.array(found), shares))
        ratios = [1.0 + (np.mean(both <= x) - np.mean(first <= x)) / x for x in GRID[:-1]]
        return Calibration(np.array([*ratios, 1.0]))

    def log_ratio(self, log_p: Float) -> Float:
        """Logarithm of what p-values are to be multiplied by, (c,)."""
        found = np.interp(log_p, np.log(GRID), self.ratios)
        fading = np.exp(np.minimum(log_p - np.log(GRID[0]), 0.0) / 4.0)
        return np.asarray(np.log(1.0 + (found - 1.0) * fading))

"""Methods compared over data sets: mean ranks, the critical difference, paired tests (Demsar 2006).

Scores are tables (sets, methods), larger is better, NaN where a method failed or took too long.
"""

from dataclasses import dataclass

import numpy as np
from scipy import stats

LEVEL = 0.05
#: Scores that agree to so many digits are equal.
DIGITS = 12


@dataclass(frozen=True)
class Ranks:
    """Mean ranks of methods over N sets, 1 the best.

    Attributes
    ----------
    mean : (k,) float
    critical_difference : float
        Nemenyi's: mean ranks that are closer do not differ at the level.
    p : float
        Friedman's, in the form of Iman and Davenport, that all are equal.
    """

    mean: np.ndarray
    critical_difference: float
    p: float


def ranks_of(scores):
    """Mean ranks of a table (sets, methods); NaN ranks last, equal scores share their ranks."""
    worst = np.nan_to_num(np.round(scores, DIGITS), nan=-np.inf)
    ranks = stats.rankdata(-worst, axis=1)
    n, k = ranks.shape
    mean = ranks.mean(axis=0)
    return Ranks(mean, critical_difference(k, n), friedman(mean, n))


def critical_difference(k, n, level=LEVEL):
    """Of the mean ranks of k methods over n sets: ``q sqrt(k (k + 1) / (6 n))``."""
    q = stats.studentized_range.ppf(1 - level, k, np.inf) / np.sqrt(2)
    return float(q * np.sqrt(k * (k + 1) / (6 * n)))


def friedman(mean, n):
    """p that k methods with these mean ranks over n sets are equal; NaN for one set."""
    k = mean.size
    chi2 = 12 * n / (k * (k + 1)) * ((mean**2).sum() - k * (k + 1) ** 2 / 4)
    left = n * (k - 1) - chi2
    if n < 2 or k < 2:
        return np.nan
    # All sets agree on the order: no variance is left.
    f = np.inf if left <= 0 else (n - 1) * chi2 / left
    return float(stats.f.sf(f, k - 1, (k - 1) * (n - 1)))


@dataclass(frozen=True)
class Paired:
    """A method less another over n sets that both have; it is ahead on `won` of them."""

    difference: float
    standard_error: float
    won: int
    n: int
    p: float


def paired(ours, theirs):
    """Mean difference and Wilcoxon's signed rank test."""
    both = ~(np.isnan(ours) | np.isnan(theirs))
    d = np.round(ours[both] - theirs[both], DIGITS)
    if d.size < 2:
        return Paired(np.nan, np.nan, int((d > 0).sum()), d.size, np.nan)
    p = float(stats.wilcoxon(d).pvalue) if np.any(d != 0) else 1.0
    error = float(d.std(ddof=1) / np.sqrt(d.size))
    return Paired(float(d.mean()), error, int((d > 0).sum()), d.size, p)


def holm(p):
    """p of several tests, corrected by Holm's method; NaN stay."""
    p = np.asarray(p, dtype=float)
    corrected, known = p.copy(), np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(p[known])]
    factors = np.arange(order.size, 0, -1)
    corrected[order] = np.minimum(1, np.maximum.accumulate(factors * p[order]))
    return corrected


def stability(orders, k):
    """Of the first k features between folds: mean Jaccard index of all pairs of folds."""
    sets = [set(order[:k]) for order in orders]
    pairs = [(a, b) for i, a in enumerate(sets) for b in sets[:i]]
    return float(np.mean([len(a & b) / len(a | b) for a, b in pairs])) if pairs else np.nan


def overlap(orders, k):
    """Features among the first k of every fold (JMLR 9.2)."""
    return len(set.intersection(*(set(order[:k]) for order in orders)))

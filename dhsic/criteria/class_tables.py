"""Exact small p-values of features with two or three values, for a rare and a frequent class.

Under independence the members of the rarer class are a random sample of all samples. The numbers of
members with each value follow the multivariate hypergeometric distribution, and determine the
statistic. If the class and the feature are skewed, approximations by moments underestimate the
tail. For example, with 60 cases among 2,000 samples and an allele of frequency 0.05, p-values of
1e-4 occur 1.8 times as often as they should. So small p-values are replaced by the probability of
all tables with an approximate p-value of at most the observed value. Larger p-values are computed
from the skewness of the sum over the class. HSIC is the square of this sum, so both tails of the
sum count, and they are different.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import gammainc, gammaln, logsumexp

from dhsic._typing import Float
from dhsic.criteria.null import log_tail
from dhsic.criteria.rare import FEW

#: Maximum approximate p-value for which tables are enumerated.
SMALL = 1e-3
#: Largest square of `_skewness` for which the approximation is accurate.
LEAST_SKEWNESS = 0.004
#: Maximum number of tables that are enumerated.
MOST_TABLES = 20_000
#: Range of a count in tables: standard deviations from its mean, and beyond the observed count.
REACH, BEYOND = 9.0, 3.0
#: Maximum difference of log p-values that are equal up to rounding errors.
TIE = 1e-9


@dataclass(frozen=True, slots=True)
class ClassTable:
    """Numbers of samples with each of q values of a feature, in total and in the rarer class."""

    counts: Float  # (q,), numbers of samples
    members: Float  # (q,), numbers of samples of the rarer class
    rare: float  # value of the label direction in the rarer class
    others: float  # value of the label direction in the other class

    @staticmethod
    def of(counts: Float, sums: Float, two: tuple[float, float]) -> ClassTable:
        """Compute the table from sums of the label direction, which has one value in each class.

        Parameters
        ----------
        counts, sums : (q,)
            Number of samples with each value of the feature, and sum of the direction over them.
        two : pair of float
            Values of the direction in the two classes.
        """
        low, high = two
        n_high = np.rint((sums - low * counts) / (high - low))
        if 2 * n_high.sum() > counts.sum():
            return ClassTable(counts, counts - n_high, low, high)
        return ClassTable(counts, n_high, high, low)

    def is_skewed(self, values: Float) -> bool:
        """Whether the approximate p-value of a feature with `values` (q,) is wrong in its tail."""
        n, k = self.counts.sum(), self.members.sum()
        if n - self.counts.max() <= FEW or not 0 < k < n:
            return False  # these variants are handled by `dhsic.criteria.rare`
        centred = values - self.counts @ values / n
        return bool(_skewness(centred, self.counts, k / n) ** 2 > LEAST_SKEWNESS)

    def tables(self) -> tuple[Float, Float] | None:
        """Enumerate the possible tables of the feature.

        Returns the numbers of members of the rarer class with each value, (t, q), and the log
        probabilities of the tables, (t,). Tables that are far less probable than the observed one
        are excluded. Returns None if there are too many tables.
        """
        n, k = self.counts.sum(), self.members.sum()
        commonest = int(self.counts.argmax())
        ranges = []
        for level in np.delete(np.arange(self.counts.size), commonest):
            part = self.counts[level] / n
            mean, std = k * part, np.sqrt(k * part * (1 - part)) + 1.0
            first = max(0.0, np.floor(mean - REACH * std))
            last = max(mean + REACH * std, self.members[level] + BEYOND * std)
            ranges.append(np.arange(first, min(k, self.counts[level], np.ceil(last)) + 1))
        if np.prod([each.size for each in ranges]) > MOST_TABLES:
            return None
        of_others = np.stack(np.meshgrid(*ranges, indexing="ij"), axis=-1).reshape(-1, len(ranges))
        tables = np.insert(of_others, commonest, k - of_others.sum(axis=1), axis=1)
        tables = tables[
            (tables[:, commonest] >= 0) & (tables[:, commonest] <= self.counts[commonest])
        ]
        log_ways = _log_choose(self.counts, tables).sum(axis=1)
        return tables, log_ways - _log_choose(n, k)

    def sums(self, tables: Float) -> Float:
        """Sums of the label direction over the samples with each value, per table, (t, q)."""
        return np.asarray(self.rare * tables + self.others * (self.counts - tables))


def _log_choose(n: Float, k: Float) -> Float:
    return np.asarray(gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0))


def exact_log_p(table: ClassTable, log_p: float, law: Callable[[Float], Float]) -> float:
    """Compute the exact log p-value of a table.

    It is the probability of all tables with an approximate p-value of at most the observed value.
    `log_p` is the approximate log p-value of the observed table. The function `law` computes
    approximate log p-values of other tables from their sums, (t, q).
    """
    enumerated = table.tables()
    if enumerated is None:
        return log_p
    tables, log_probability = enumerated
    reaches = law(table.sums(tables)) <= log_p + TIE
    if not reaches.any():
        return log_p
    return min(float(logsumexp(log_probability[reaches])), 0.0)


def set_skewed(
    log_p: Float,
    function: Float,
    counts: Float,
    sums: Float,
    totals: Float,
    two: tuple[float, float],
) -> None:
    """Replace the p-values of skewed features, in place, using the skewness of a sum.

    The sum is over samples: a function of the feature, times the label direction. HSIC is
    proportional to its square. Under permutations the sum is approximated by Pearson's distribution
    of type III with the same moments.

    Parameters
    ----------
    log_p : (c,)
        Log p-values by the moments of HSIC.
    function, counts : (c, q)
        Function at the levels of each feature, with mean 0, and number of samples per level.
    sums, totals : (c,)
        Sums of the function times the label direction, and of the direction alone.
    two : pair of float
        Values of the direction in the two classes.
    """
    n, (low, high) = counts.sum(axis=1), two
    part = np.clip(np.rint((totals - low * n) / (high - low)) / n, 0.0, 1.0)
    of_labels = part * (1 - part) * (high - low) ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        skewness = _skewness(function, counts, part)
        is_skewed = (skewness**2 > LEAST_SKEWNESS) & (n - counts.max(axis=1) > FEW)
    at = np.flatnonzero(is_skewed & (of_labels > 0))
    n, of_feature = n[at], (counts * function**2).sum(axis=1)[at]
    z = np.abs(sums[at]) / np.sqrt(of_feature * n * of_labels[at] / (n - 1))
    skewness = np.abs(skewness[at]) * np.sqrt(n * (n - 1)) / (n - 2)
    log_p[at] = np.minimum(np.logaddexp(log_tail(z, skewness), _log_short_tail(z, skewness)), 0.0)


def _skewness(centred: Float, counts: Float, part: Float) -> Float:
    """Skewness of a feature times skewness of a two-class label, divided by ``n^(1/2)``.

    n is the number of samples. The result has the shape of `part`.

    Parameters
    ----------
    centred, counts : (..., q)
        Values of the feature at its levels, with mean 0, and number of samples per level.
    part : (...)
        Fraction of the samples in one class.
    """
    second, third = ((counts * centred**power).sum(axis=-1) for power in (2, 3))
    return np.asarray(third / second**1.5 * (1 - 2 * part) / np.sqrt(part * (1 - part)))


def _log_short_tail(z: Float, skewness: Float) -> Float:
    """Log probability below -z of Pearson's distribution of type III, for skewness > 0."""
    shape = np.square(2.0 / skewness)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(gammainc(shape, np.maximum(shape - z * np.sqrt(shape), 0.0))))

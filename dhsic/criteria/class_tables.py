"""Exact tails of features with two or three values, for two classes of which one is rare.

The members of the rarer class are a random sample of all samples. How many of them have each value
follows the multivariate hypergeometric distribution, and these numbers decide the statistic. If the
class and the feature are skewed, laws by moments are too small in the tail: with 60 cases among
2,000 samples and an allele of frequency 0.05, p-values of 1e-4 occur 1.8 times as often as they
should. So small p-values are replaced by the probability of all tables whose p-value by the law is
at most the one observed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, logsumexp

from dhsic._typing import Float
from dhsic.criteria.rare import FEW

#: p-value by the law up to which tables are enumerated.
SMALL = 1e-3
#: The law is right up to this product of squared skewnesses, of the feature and of the labels, over
#: the number of samples.
LEAST_SKEWNESS = 0.004
#: Number of tables up to which they are enumerated.
MOST_TABLES = 20_000
#: Standard deviations from the mean of a count at which its range ends, and beyond the observed.
REACH, BEYOND = 9.0, 3.0
#: Difference of log p-values that are the same but for rounding.
TIE = 1e-9


@dataclass(frozen=True, slots=True)
class ClassTable:
    """Counts of a feature, (q,), and of them those of the rarer class.

    `rare` and `others` are the values of the direction of labels in both classes.
    """

    counts: Float
    members: Float
    rare: float
    others: float

    @staticmethod
    def of(counts: Float, sums: Float, two: tuple[float, float]) -> ClassTable:
        """Recover the table from sums of the direction over the levels, (q,)."""
        low, high = two
        n_high = np.rint((sums - low * counts) / (high - low))
        if 2 * n_high.sum() > counts.sum():
            return ClassTable(counts, counts - n_high, low, high)
        return ClassTable(counts, n_high, high, low)

    def is_skewed(self, values: Float) -> bool:
        """Whether the law is wrong in the tail, for the values (q,) of the levels."""
        n, k = self.counts.sum(), self.members.sum()
        if n - self.counts.max() <= FEW or not 0 < k < n:
            return False  # such variants have a law of their own
        part = k / n
        centred = values - self.counts @ values / n
        variance, third = (self.counts @ centred**power / n for power in (2, 3))
        of_labels = (1 - 2 * part) ** 2 / (part * (1 - part))
        return bool(third**2 / variance**3 * of_labels / n > LEAST_SKEWNESS)

    def tables(self) -> tuple[Float, Float] | None:
        """Members with each value, (t, q), and log probabilities (t,); None if there are too many.

        Tables that are far more improbable than the one observed are left out.
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
        """Sums of the direction over the levels of tables, (t, q)."""
        return np.asarray(self.rare * tables + self.others * (self.counts - tables))


def _log_choose(n: Float, k: Float) -> Float:
    return np.asarray(gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0))


def exact_log_p(table: ClassTable, log_p: float, law: Callable[[Float], Float]) -> float:
    """Exact log p-value of a table with `log_p` by the law, which takes sums (t, q) of tables."""
    enumerated = table.tables()
    if enumerated is None:
        return log_p
    tables, log_probability = enumerated
    reaches = law(table.sums(tables)) <= log_p + TIE
    if not reaches.any():
        return log_p
    return min(float(logsumexp(log_probability[reaches])), 0.0)

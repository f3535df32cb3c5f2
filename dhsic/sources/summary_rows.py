"""Detection of summary rows, such as totals and means, at the end of a table.

A row of totals or means is not a sample. Its name may be in any language, so it is recognised by
its values: in nearly all informative features they equal a statistic of the rows above, such as the
mean, up to rounding. A feature is informative if a sample would hardly have this value by chance.
`DataFrame.describe` writes eight such rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log
from typing import Any, NoReturn

import numpy as np

from dhsic._typing import Array, Float, Index, Mask
from dhsic.errors import InputError
from dhsic.sources.ids import abbreviate

#: Maximum number of summary rows, and minimum number of other rows.
MOST_ROWS, FEWEST_ROWS = 8, 4
#: Maximum and minimum number of features that are read; and maximum number of values, which limits
#: the number of features between the two.
MOST_FEATURES, SOME_FEATURES, MOST_VALUES = 64, 8, 1 << 20
#: Minimum number of informative features; minimum share of them that equal the statistic; and
#: maximum probability that they do so by chance.
FEWEST_FEATURES, SHARE, CHANCE = 3, 0.9, 1e-6
#: Maximum number of decimals that are distinguished.
DECIMALS = 9
#: Maximum rounding error of a statistic, in standard deviations of the feature, at which the
#: feature is informative; and probability that a value outside the range of all others equals the
#: statistic by chance.
FINE, BEYOND = 0.1, 0.01
#: Minimum share of distinct values for comparing quantiles of a feature. With fewer, a sample may
#: easily equal the minimum, for instance, because many samples do.
DISTINCT = 0.5
#: Interquartile range of a normal distribution, in standard deviations.
OF_QUARTILES = 1.349
#: Quantiles that summary rows may contain, by their names in messages.
QUANTILES = {
    "least value": 0.0,
    "lower quartile": 0.25,
    "median": 0.5,
    "upper quartile": 0.75,
    "largest value": 1.0,
}
SUM, NUMBER = "sum", "number"
#: Names of the rows in which htseq-count and STAR (ReadsPerGene) count reads outside genes.
OUTSIDE_GENES = frozenset(
    {
        *("__no_feature", "__ambiguous", "__too_low_aQual", "__not_aligned"),
        *("__alignment_not_unique", "N_unmapped", "N_multimapping", "N_noFeature", "N_ambiguous"),
    }
)

#: Function that returns the values (m, c) of a table at some rows and columns.
Values = Callable[[tuple[slice, Index]], Array]


@np.errstate(over="ignore", invalid="ignore")  # infinities are refused later
def summary_rows(values: Values, shape: tuple[int, int]) -> list[str]:
    """Detect summary rows at the end of a table; return the name of the statistic in each.

    The list is empty if the last row is not a summary row.

    Parameters
    ----------
    values : callable
        Function that returns the values (m, c) of the table at some rows and columns.
    shape : tuple of int
        Number of rows m, and number of features d.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(6, 4)).round(3)
    >>> summary_rows(X.__getitem__, X.shape)
    []
    >>> summary_rows(np.vstack([X, X.mean(axis=0)]).__getitem__, (7, 4))
    ['mean']
    """
    m, d = shape
    if m <= FEWEST_ROWS or d < FEWEST_FEATURES:
        return []
    n_features = min(MOST_FEATURES, max(SOME_FEATURES, MOST_VALUES // m))
    at = np.unique(np.linspace(0, d - 1, n_features).astype(int))
    part = np.array(values((slice(None), at)), dtype=np.float64)
    part[np.isinf(part)] = np.nan
    for k in range(1, min(MOST_ROWS, m - FEWEST_ROWS) + 1):
        rows_above, names = _Rows(part[:-k]), list[str]()
        for row in part[-k:]:
            names.append(rows_above.statistic_of(row))
            if not names[-1]:
                break
        else:
            return names
    return []


def refuse_summary(
    where: str, names: Sequence[Any] | Array, statistics: list[str], remedy: str
) -> NoReturn:
    """Raise InputError for a table whose last rows are statistics of the other rows.

    Parameters
    ----------
    where : str
        Name of the table, at the beginning of the message.
    names : sequence
        Names of all rows.
    statistics : list of str
        Names of the statistics, one for each summary row.
    remedy : str
        Sentence on how to remove the rows.
    """
    last = abbreviate((repr(str(name)) for name in names[-len(statistics) :]), 3)
    statistic_names = abbreviate(dict.fromkeys(statistics), 3)
    raise InputError(
        f"{where} ends with {last}, which summarises the samples and is not a sample: its values "
        f"are the {statistic_names} of the other rows. {remedy}"
    )


@dataclass(frozen=True, eq=False)
class _Rows:
    """Values of c features in the n rows above the summary rows, and their statistics."""

    X: Float  # (n, c)

    @cached_property
    def ascending(self) -> Float:
        """Values of each feature in ascending order, NaN last, (n, c)."""
        return np.sort(self.X, axis=0)

    @cached_property
    def n(self) -> Float:
        """Number of non-missing values of each feature, (c,)."""
        return np.asarray((~np.isnan(self.X)).sum(axis=0), dtype=np.float64)

    @cached_property
    def statistics(self) -> dict[str, Float]:
        """Statistics of each feature by name: sum, mean, quantiles and so on, (c,) each."""
        n, values = np.maximum(self.n, 1), np.nan_to_num(self.X)
        total = values.sum(axis=0)
        squares = (np.where(np.isnan(self.X), 0, values - total / n) ** 2).sum(axis=0)
        return {  # most programs divide the variance by n - 1, some by n
            SUM: total,
            "mean": total / n,
            "standard deviation": np.sqrt(squares / np.maximum(n - 1, 1)),
            "standard deviation over n": np.sqrt(squares / n),
            NUMBER: self.n,
            **{name: self._quantile(q) for name, q in QUANTILES.items()},
        }

    def _quantile(self, q: float) -> Float:
        """Quantile of each feature, (c,), by linear interpolation, like NumPy and pandas."""
        place = q * np.maximum(self.n - 1, 0)
        low, columns = np.floor(place).astype(int), np.arange(self.n.size)
        below = self.ascending[low, columns]
        above = self.ascending[np.ceil(place).astype(int), columns]
        return np.asarray(below + (place - low) * (above - below))

    @cached_property
    def unit(self) -> float:
        """Unit of the last decimal of the values, such as 0.01 for 1.25."""
        return _unit(self.X)

    @cached_property
    def deviation(self) -> Float:
        """Robust standard deviation of each feature, (c,); 0 for features without values.

        It is the smaller of the usual standard deviation and the estimate from the interquartile
        range.
        """
        quartile_range = self.statistics["upper quartile"] - self.statistics["lower quartile"]
        deviation: Float = np.minimum(
            self.statistics["standard deviation over n"], quartile_range / OF_QUARTILES
        )
        return np.where(np.isnan(deviation), 0.0, deviation)

    @cached_property
    def are_distinct(self) -> Mask:
        """Mask of the features with mostly distinct values, (c,)."""
        return np.asarray((np.diff(self.ascending, axis=0) > 0).sum(axis=0) >= DISTINCT * self.n)

    def statistic_of(self, row: Float) -> str:
        """Return the name of the statistic that a further row (c,) contains; "" for a sample."""
        is_compared = np.isfinite(row) & (self.deviation > 0)
        if is_compared.sum() < FEWEST_FEATURES:
            return ""
        unit = _unit(row[is_compared])
        names = (name for name in self.statistics if self._equals(name, row, is_compared, unit))
        return next(names, "")

    def _equals(self, name: str, row: Float, is_compared: Mask, unit: float) -> bool:
        """Whether a row (c,) equals the statistic `name` in nearly all informative features.

        Values may differ by rounding. `is_compared` (c,) is the mask of the features that vary and
        have a value in the row. `unit` is the unit of the last decimal of the row.
        """
        expected = self.statistics[name]
        root = np.sqrt(np.maximum(self.n, 1))
        rounding = self.unit * {SUM: root, NUMBER: 0 * root}.get(name, 1 / root)
        tolerance = unit / 2 + rounding + 1e-9 * np.abs(expected)
        least, largest = self.statistics["least value"], self.statistics["largest value"]
        is_beyond = (expected < least) | (expected > largest)
        is_informative = is_compared & ((tolerance <= FINE * self.deviation) | is_beyond)
        if name in QUANTILES:
            is_informative &= self.are_distinct
        if name == NUMBER:
            is_informative &= is_beyond
        agrees, n = is_informative & (np.abs(row - expected) <= tolerance), is_informative.sum()
        if n < FEWEST_FEATURES or agrees.sum() < SHARE * n:
            return False
        by_chance = 2 * tolerance[agrees] / self.deviation[agrees]
        chances = np.where(is_beyond[agrees], BEYOND, by_chance)
        return bool(2 * n > is_compared.sum() and np.log(chances).sum() <= log(CHANCE))


def _unit(values: Float) -> float:
    """Return the unit of the last decimal: the largest power of 10, up to 1, that divides all.

    >>> _unit(np.array([1.25, 3.0])), _unit(np.array([150.0, 12]))
    (0.01, 1.0)
    """
    finite = values[np.isfinite(values)]
    rounded = (d for d in range(DECIMALS) if np.allclose(finite.round(d), finite, 1e-12, 1e-12))
    return float(10.0 ** -next(rounded, DECIMALS))

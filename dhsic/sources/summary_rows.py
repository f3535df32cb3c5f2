"""Last rows of a table that sum up the others, in any language: by their numbers.

A row of totals or means is no sample. It is known by its values: in nearly all features that can
tell, they are one statistic of the rows above, but for rounding. `DataFrame.describe` writes eight
such rows.
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

#: Rows that may sum up the others, at most, and the fewest others.
MOST_ROWS, FEWEST_ROWS = 8, 4
#: Features that are compared: at most, at least, and values of them in all.
MOST_FEATURES, SOME_FEATURES, MOST_VALUES = 64, 8, 1 << 20
#: Features that can tell, at least; the share of them that agrees; and the probability that they do
#: by chance, below which it is no chance.
FEWEST_FEATURES, SHARE, CHANCE = 3, 0.9, 1e-6
#: Decimals that are told from each other.
DECIMALS = 9
#: Unit of the last decimal of a row, as a part of the deviation of a feature, up to which a
#: statistic can be told from a value; and the probability that a value beyond all others is one.
FINE, BEYOND = 0.1, 0.01
#: Share of the values of a feature that differ, from which on its least one is not the value of
#: many samples.
DISTINCT = 0.5
#: Deviations of a normal distribution between its quartiles.
OF_QUARTILES = 1.349
#: Quantiles that are statistics of rows, by what sentences call them.
QUANTILES = {
    "least value": 0.0,
    "lower quartile": 0.25,
    "median": 0.5,
    "upper quartile": 0.75,
    "largest value": 1.0,
}
SUM, NUMBER = "sum", "number"

#: Values (m, c) of a table at some rows and columns.
Values = Callable[[tuple[slice, Index]], Array]


@np.errstate(over="ignore", invalid="ignore")  # infinities are refused later
def summary_rows(values: Values, shape: tuple[int, int]) -> list[str]:
    """Statistics of the other rows that the last ones of a table are; empty for ordinary rows.

    Parameters
    ----------
    values : callable
        Values (m, c) of the table at some rows and columns.
    shape : tuple of int
        Samples and features, m and d.

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
    part = np.asarray(values((slice(None), at)), dtype=np.float64)
    for k in range(1, min(MOST_ROWS, m - FEWEST_ROWS) + 1):
        others, names = _Rows(part[:-k]), list[str]()
        for row in part[-k:]:
            names.append(others.statistic_of(row))
            if not names[-1]:
                break
        else:
            return names
    return []


def refuse_summary(
    where: str, names: Sequence[Any] | Array, statistics: list[str], remedy: str
) -> NoReturn:
    """Refuse last rows that are statistics of the others, by the names of all rows."""
    last = abbreviate((repr(str(name)) for name in names[-len(statistics) :]), 3)
    each = abbreviate(dict.fromkeys(statistics), 3)
    raise InputError(
        f"{where} ends with {last}, which summarises the samples and is not a sample: its values "
        f"are the {each} of the values of the others. {remedy}"
    )


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows (n, c) of some features, and what of them can tell a statistic from a value."""

    X: Float

    @cached_property
    def ascending(self) -> Float:
        """Values of each feature in order, NaN last, (n, c)."""
        return np.sort(self.X, axis=0)

    @cached_property
    def n(self) -> Float:
        """Number of values of each feature, (c,)."""
        return np.asarray((~np.isnan(self.X)).sum(axis=0), dtype=np.float64)

    @cached_property
    def statistics(self) -> dict[str, Float]:
        """Statistics of each feature, (c,), by what sentences call them."""
        n, values = np.maximum(self.n, 1), np.nan_to_num(self.X)
        total = values.sum(axis=0)
        squares = (np.where(np.isnan(self.X), 0, values - total / n) ** 2).sum(axis=0)
        return {  # a standard deviation with one in n less is the one that most programs write
            SUM: total,
            "mean": total / n,
            "standard deviation": np.sqrt(squares / np.maximum(n - 1, 1)),
            "standard deviation over n": np.sqrt(squares / n),
            NUMBER: self.n,
            **{name: self._quantile(q) for name, q in QUANTILES.items()},
        }

    def _quantile(self, q: float) -> Float:
        place = q * np.maximum(self.n - 1, 0)
        low, columns = np.floor(place).astype(int), np.arange(self.n.size)
        below = self.ascending[low, columns]
        above = self.ascending[np.ceil(place).astype(int), columns]
        return np.asarray(below + (place - low) * (above - below))

    @cached_property
    def unit(self) -> float:
        """Unit of the last decimal of the values."""
        return _unit(self.X)

    @cached_property
    def deviation(self) -> Float:
        """Deviation of each feature without its tails, (c,); 0 where it has no value."""
        of = self.statistics
        between = (of["upper quartile"] - of["lower quartile"]) / OF_QUARTILES
        least: Float = np.minimum(of["standard deviation over n"], between)
        return np.where(np.isnan(least), 0.0, least)

    @cached_property
    def are_distinct(self) -> Mask:
        """Which features have values that mostly differ, (c,)."""
        return np.asarray((np.diff(self.ascending, axis=0) > 0).sum(axis=0) >= DISTINCT * self.n)

    def statistic_of(self, row: Float) -> str:
        """The statistic that a further row (c,) is; "" for none."""
        is_there = np.isfinite(row) & (self.deviation > 0)
        if is_there.sum() < FEWEST_FEATURES:
            return ""
        unit = _unit(row[is_there])
        names = (name for name in self.statistics if self._is(name, row, is_there, unit))
        return next(names, "")

    def _is(self, name: str, row: Float, is_there: Mask, unit: float) -> bool:
        """Whether a row, whose last decimal has a unit, is a statistic."""
        of, expected = self.statistics, self.statistics[name]
        root = np.sqrt(np.maximum(self.n, 1))
        rounding = self.unit * {SUM: root, NUMBER: 0 * root}.get(name, 1 / root)
        tolerance = unit / 2 + rounding + 1e-9 * np.abs(expected)
        is_beyond = (expected < of["least value"]) | (expected > of["largest value"])
        can_tell = is_there & ((tolerance <= FINE * self.deviation) | is_beyond)
        if name in QUANTILES:
            can_tell &= self.are_distinct
        if name == NUMBER:
            can_tell &= is_beyond
        agrees = can_tell & (np.abs(row - expected) <= tolerance)
        if can_tell.sum() < FEWEST_FEATURES or agrees.sum() < SHARE * can_tell.sum():
            return False
        by_chance = 2 * tolerance[agrees] / self.deviation[agrees]
        chances = np.where(is_beyond[agrees], BEYOND, by_chance)
        return bool(2 * can_tell.sum() > is_there.sum() and np.log(chances).sum() <= log(CHANCE))


def _unit(values: Float) -> float:
    """Unit of the last decimal of numbers.

    >>> _unit(np.array([1.25, 3.0])), _unit(np.array([150.0, 12]))
    (0.01, 1.0)
    """
    finite = values[np.isfinite(values)]
    rounded = (d for d in range(DECIMALS) if np.allclose(finite.round(d), finite, 1e-12, 1e-12))
    return float(10.0 ** -next(rounded, DECIMALS))

"""Detection of columns that number the rows of a table, and are therefore not features.

- In text tables, whole numbers that increase from sample to sample are detected while rows are
  read. Columns that count samples in another order are detected when all rows have been read.
- In frames and Parquet, both kinds of columns are detected after reading.
- For other matrices, `dhsic.selection.suspects` warns if such a feature is at the top of a ranking.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import lgamma, log
from typing import NoReturn

import numpy as np

from dhsic._typing import Array, Index, Mask
from dhsic.errors import InputError
from dhsic.sources.ids import abbreviate

#: A feature numbers the rows if the probability that some feature increases over all rows by chance
#: is below this: for consecutive whole numbers, and for others.
CHANCE_OF_COUNT, CHANCE_OF_RISE = 1e-3, 1e-6
#: Minimum number of samples for the search for columns that count rows in some order; number of
#: rows that are examined first; and maximum range of the numbers relative to the number of rows.
FEWEST_COUNTED, HEAD, MOST_GAPS = 20, 64, 1.25
#: If more than one in this many columns counts rows, the columns are ranks.
PER_COUNT = 20

#: Function that returns the values (n, c) of a table at some rows and columns.
Values = Callable[[tuple[slice, Index | slice]], Array]
#: Features that nearly follow the order of the rows: minimum rank correlation with it, minimum
#: share of steps in one direction, minimum number of values, maximum share of missing values, and
#: maximum mean number of equal values.
ORDERED, IN_ORDER, FEWEST_ORDERED, MOST_UNORDERED, MOST_EQUAL = 0.9, 0.85, 30, 0.1, 12
#: Minimum share of rows with the value of the row above plus one, in columns that count rows.
COUNTED = 0.9


class RisingFeatures:
    """Detector of integer features that increase from sample to sample, like row numbers."""

    def __init__(self) -> None:
        self._at: Index | None = None
        self._first, self._last, self._n = np.empty(0), np.empty(0), 0

    def add_sample(self, values: Array) -> None:
        """Compare the values of the next sample, (d,), with the values of the previous sample."""
        self._n += 1
        if self._at is None:
            self._at = np.flatnonzero(values == np.floor(values))
            self._first = self._last = values[self._at]
        elif self._at.size:
            next_ones = values[self._at]
            rises = (next_ones > self._last) & (next_ones == np.floor(next_ones))
            self._at, self._first = self._at[rises], self._first[rises]
            self._last = next_ones[rises]

    def unlikely(self, n_features: int) -> list[tuple[int, float, float]]:
        """Return the features that are unlikely to increase by chance.

        Each result is the position of the feature, its first and its last value. The probability
        that any of d = `n_features` features increases over all n samples by chance is at most
        d / n!.
        """
        if self._at is None:
            return []
        zipped = zip(self._at.tolist(), self._first.tolist(), self._last.tolist(), strict=True)
        return [one for one in zipped if is_unlikely(self._n, n_features, one[2] - one[1])]


def is_unlikely(n: int, n_features: int, span: float) -> bool:
    """Whether it is unlikely that any of `n_features` features increases over n values by chance.

    `span` is the total increase. If it is n - 1, the whole numbers are consecutive, and a larger
    probability still counts as unlikely.

    >>> is_unlikely(8, 5, 7), is_unlikely(8, 5, 70), is_unlikely(12, 5, 70)
    (True, False, True)
    """
    most = CHANCE_OF_COUNT if span == n - 1 else CHANCE_OF_RISE
    return log(n_features) - lgamma(n + 1) < log(most)


def counting_columns(values: Values, shape: tuple[int, int], most: int | None = None) -> list[int]:
    """Return the positions of columns that number the rows in any order.

    Such a column contains different whole numbers almost without gaps, for example 1 to n in random
    or decreasing order. If there are more than `most` such columns, they are assumed to be ranks,
    which are valid data, and the result is empty.

    Parameters
    ----------
    values : callable
        Function that returns the values of a table (n, d) at given rows and columns.
    shape : tuple of int
        Number of rows n, and number of columns d.
    most : int, optional
        Maximum number of columns that number the rows. By default one column in twenty.

    Examples
    --------
    >>> X = np.column_stack([np.arange(40)[::-1], np.linspace(0, 1, 40)])
    >>> counting_columns(X.__getitem__, X.shape)
    [0]
    """
    n, d = shape
    if n < FEWEST_COUNTED:
        return []
    head = np.sort(values((slice(HEAD), slice(None))), axis=0)
    may_be = _are_rising(head)
    at = np.flatnonzero(may_be)
    columns = np.sort(values((slice(None), at)), axis=0)
    is_count = _are_rising(columns) & (columns[-1] - columns[0] <= MOST_GAPS * n)
    candidates: list[int] = at[is_count].tolist()
    return candidates if len(candidates) <= (most or max(1, d // PER_COUNT)) else []


def rising_columns(
    values: Values, shape: tuple[int, int], most: int | None = None
) -> list[tuple[int, float, float]]:
    """Return the columns of whole numbers that increase from each row to the next.

    Each result is the position of the column, its first and its last value. Such columns may be
    dates. If there are more than `most`, they are assumed to be cumulative sums, which are valid
    data, and the result is empty. The parameters have the same meaning as in `counting_columns`.

    Examples
    --------
    >>> X = np.column_stack([20200101 + 7 * np.arange(40), np.linspace(0, 1, 40)])
    >>> rising_columns(X.__getitem__, X.shape)
    [(0, 20200101.0, 20200374.0)]
    """
    n, d = shape
    if n < 2 or not d:
        return []
    head = values((slice(HEAD), slice(None)))
    at = np.flatnonzero(_are_rising(head))
    columns = values((slice(None), at))
    at, columns = at[rises := _are_rising(columns)], columns[:, rises]
    ends = zip(at.tolist(), columns[0].tolist(), columns[-1].tolist(), strict=True)
    rising = [one for one in ends if is_unlikely(n, d, one[2] - one[1])]
    return rising if len(rising) <= (most or max(1, d // PER_COUNT)) else []


def ordered_columns(X: Array, n_features: int, most: int) -> list[int]:
    """Return the positions of columns of X (n, c) that increase, or decrease, from row to row.

    Values need not be whole numbers. A few may be missing, equal or out of order, for example by
    typing errors: the rank correlation with the row number must be at least `ORDERED`, and the
    fraction of steps in the same direction at least `IN_ORDER`.

    The c columns were chosen from `n_features` features. More than `most` ordered columns are
    assumed to be cumulative sums; the result is then empty.

    >>> X = np.column_stack([np.linspace(90.5, 2, 40), np.linspace(0, 1, 40) ** 2, np.ones(40)])
    >>> ordered_columns(X, 100, 2)
    [0, 1]
    """
    n = len(X)
    if n < 2 or not is_unlikely(n, 2 * n_features, np.inf):
        return []
    rises, falls = (X[1:] > X[:-1]).all(axis=0), (X[1:] < X[:-1]).all(axis=0)
    is_ordered: Mask = np.asarray(rises | falls)
    at = [j for j in range(X.shape[1]) if is_ordered[j] or _is_nearly_ordered(X[:, j])]
    return at if len(at) <= most else []


def restarting_counts(X: Array) -> list[int]:
    """Return the positions of columns of X (n, c) that count rows, and sometimes start again.

    Nearly all values are one more than the value of the row above, such as positions on plates.

    >>> restarting_counts(np.column_stack([np.tile(np.arange(1, 31), 3), np.linspace(0, 1, 90)]))
    [0]
    """
    if len(X) < FEWEST_ORDERED:
        return []
    return np.flatnonzero((np.diff(X, axis=0) == 1).mean(axis=0) >= COUNTED).tolist()


def _is_nearly_ordered(x: Array) -> bool:
    """Whether the values (n,) increase or decrease from row to row, with few exceptions."""
    there = np.flatnonzero(~np.isnan(x))
    distinct, index, counts = np.unique(x[there], return_inverse=True, return_counts=True)
    if there.size < max(FEWEST_ORDERED, (1 - MOST_UNORDERED) * x.size):
        return False
    if distinct.size * MOST_EQUAL < there.size:
        return False
    steps = np.diff(x[there])
    if max((steps >= 0).mean(), (steps <= 0).mean()) < IN_ORDER:
        return False
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[index]
    return bool(abs(np.corrcoef(ranks, there)[0, 1]) >= ORDERED)


def _are_rising(columns: Array) -> Mask:
    """Mask (c,) of the columns (n, c) that contain whole numbers and increase in each row."""
    mask: Mask = (columns[1:] > columns[:-1]).all(axis=0) & (columns == np.floor(columns)).all(
        axis=0
    )
    return mask


def repeated_rows(path: str, names: object, values: Array) -> str:
    """Return a warning about samples that occur more than once in a table; "" if there are none.

    Two rows are the same sample if their `names` (m,) and their values (m, d) are equal. Several
    visits of a patient have the same name but different values, and are not reported.
    """
    if not isinstance(names, np.ndarray):
        return ""
    first: dict[str, int] = {}
    twice = [
        name
        for i, name in enumerate(names.tolist())
        if (at := first.setdefault(name, i)) < i
        and np.array_equal(values[i], values[at], equal_nan=True)
    ]
    if not twice:
        return ""
    return (
        f"{len(twice):,} rows of {path} repeat the name and all values of another row "
        f"({abbreviate(map(repr, twice), 3)}), so these samples are counted twice. Keep only one "
        "row of each."
    )


def refuse_counting(where: str, names: Sequence[str], remedy: str) -> NoReturn:
    """Raise InputError for columns that number the rows; `remedy` is code that excludes them."""
    listed = abbreviate(map(repr, names), 4)
    raise InputError(
        f"{where} has columns of whole numbers that all differ and leave no gaps ({listed}), "
        "like row numbers in some order. As features they may reveal the order of the samples. "
        f"If they number the samples, exclude them: {remedy}. If they were measured, write them "
        "as fractions, for example divided by 10."
    )


def refuse_rising(
    path: str, rising: Sequence[tuple[str, str, float, float]], remedy: str = ""
) -> NoReturn:
    """Raise InputError for features of whole numbers that increase from sample to sample.

    `rising` contains for each feature a description, its name, its first and its last value.
    `remedy` is code that excludes the features, by default an option of `open_source`.
    """
    listed = abbreviate(
        (f"{called}: {first:.0f} to {last:.0f}" for called, _, first, last in rising), 4
    )
    options = remedy or f"not_features={[name for _, name, _, _ in rising[:4]]!r}"
    raise InputError(
        f"{path} has whole numbers that increase from each sample to the next ({listed}), like "
        "row numbers. As features they reveal the order of the samples. If they name or count "
        f"samples, exclude them: {options}. If they were measured, write them as fractions, for "
        "example divided by 10."
    )

"""Columns that number the rows of a table: no features, though they are numbers.

Of text, whole numbers that rise from sample to sample are found while rows are read, those that
count samples in another order once all are there; of frames and Parquet, both once they are there.
Other matrices get a warning if such a feature is at the top of a ranking
(`dhsic.selection.suspects`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import lgamma, log
from typing import NoReturn

import numpy as np

from dhsic._typing import Array, Index, Mask
from dhsic.errors import InputError
from dhsic.sources.ids import abbreviate

#: Probability that some feature rises over all rows by chance, below which it is taken to number
#: them: of whole numbers that follow each other, and of others.
CHANCE_OF_COUNT, CHANCE_OF_RISE = 1e-3, 1e-6
#: Samples from which on columns that count rows in some order are looked for, rows that are looked
#: at first, and the range of the numbers relative to how many there are.
FEWEST_COUNTED, HEAD, MOST_GAPS = 20, 64, 1.25
#: Columns among which one that counts rows is no rank.
PER_COUNT = 20

#: Values (n, c) of a table at some rows and columns.
Values = Callable[[tuple[slice, Index | slice]], Array]


class RisingFeatures:
    """Features that are whole numbers which rise from sample to sample, as numbers of rows do."""

    def __init__(self) -> None:
        self._at: Index | None = None
        self._first, self._last, self._n = np.empty(0), np.empty(0), 0

    def add_sample(self, values: Array) -> None:
        """Look at the features of the next sample, (d,)."""
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
        """Positions of those that chance hardly makes, with the first and the last value of each.

        Of d features none rises over n samples but with a chance of d / n!.
        """
        if self._at is None:
            return []
        zipped = zip(self._at.tolist(), self._first.tolist(), self._last.tolist(), strict=True)
        return [one for one in zipped if is_unlikely(self._n, n_features, one[2] - one[1])]


def is_unlikely(n: int, n_features: int, span: float) -> bool:
    """Whether n values that rise by `span` in all are hardly one of so many features by chance.

    >>> is_unlikely(8, 5, 7), is_unlikely(8, 5, 70), is_unlikely(12, 5, 70)
    (True, False, True)
    """
    most = CHANCE_OF_COUNT if span == n - 1 else CHANCE_OF_RISE
    return log(n_features) - lgamma(n + 1) < log(most)


def counting_columns(values: Values, shape: tuple[int, int], most: int | None = None) -> list[int]:
    """Positions of columns that count rows in some order; none if they are many.

    Whole numbers that all differ and hardly leave a gap count rows: 1 to n shuffled, or falling.
    More than `most` columns, by default one in twenty, are ranks, which data may be.

    Parameters
    ----------
    values : callable
        Values (n, d) of a table at some rows and columns.
    shape : tuple of int
        n and d.
    most : int, optional
        Columns that may count rows, at most.

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
    may_be = (np.diff(head, axis=0) > 0).all(axis=0) & (head == np.floor(head)).all(axis=0)
    at = np.flatnonzero(may_be)
    columns = np.sort(values((slice(None), at)), axis=0)
    is_count = (np.diff(columns, axis=0) > 0).all(axis=0)
    is_count &= (columns == np.floor(columns)).all(axis=0)
    is_count &= columns[-1] - columns[0] <= MOST_GAPS * n
    candidates: list[int] = at[is_count].tolist()
    return candidates if len(candidates) <= (most or max(1, d // PER_COUNT)) else []


def rising_columns(
    values: Values, shape: tuple[int, int], most: int | None = None
) -> list[tuple[int, float, float]]:
    """Positions of columns of whole numbers that rise from each row to the next, as dates do.

    The first and the last value stand beside each. More than `most` columns are sums over time,
    which data may be. Parameters are those of `counting_columns`.

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


def _are_rising(columns: Array) -> Mask:
    """Which columns (n, c) are whole numbers, each greater than the one before, (c,)."""
    mask: Mask = (columns[1:] > columns[:-1]).all(axis=0) & (columns == np.floor(columns)).all(
        axis=0
    )
    return mask


def repeated_rows(path: str, names: object, values: Array) -> str:
    """Sentence on samples that a table holds twice, by `names` (m,) and values (m, d); "" for none.

    Visits of one patient have a name and other values.
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
        f"{len(twice):,} rows of {path} are there twice, with their name and all values "
        f"({abbreviate(map(repr, twice), 3)}), and count twice. Leave out all but one of each."
    )


def refuse_counting(where: str, names: Sequence[str], remedy: str) -> NoReturn:
    """Refuse columns that count rows in some order, by name."""
    listed = abbreviate(map(repr, names), 4)
    raise InputError(
        f"{where} has whole numbers that all differ and leave no gaps ({listed}), as numbers of "
        "rows do, in whatever order. As a feature they may tell the order of the samples. If they "
        f"number samples, leave them out: {remedy}. If they were measured, write them as "
        "fractions, for instance over 10."
    )


def refuse_rising(
    path: str, rising: Sequence[tuple[str, str, float, float]], remedy: str = ""
) -> NoReturn:
    """Refuse features of whole numbers that rise from sample to sample.

    `rising` are their names for sentences and by themselves, their first and last values; `remedy`
    leaves them out, by default an option of opening.
    """
    listed = abbreviate(
        (f"{called}: {first:.0f} to {last:.0f}" for called, _, first, last in rising), 4
    )
    options = remedy or f"not_features={[name for _, name, _, _ in rising[:4]]!r}"
    raise InputError(
        f"{path} has whole numbers that rise from each sample to the next ({listed}), as numbers "
        "of rows do. As a feature they tell the order of the samples. If they name or count "
        f"samples, leave them out: {options}. If they were measured, write them as fractions, for "
        "instance over 10."
    )

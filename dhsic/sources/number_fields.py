"""Fields of text as numbers: missing ones, booleans, and commas that may mean two things."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from math import lgamma, log
from typing import NoReturn

import numpy as np

from dhsic._typing import Array, Index
from dhsic.errors import InputError
from dhsic.sources.ids import BOOLEANS, NA, some
from dhsic.validation import is_numeral

#: Chance that some feature rises over all rows, below which it is no chance: of whole numbers that
#: Samples from which on columns that count rows in some order are looked for, rows that are looked
#: at first, and the range of the numbers, over how many there are.
FEWEST_COUNTED, HEAD, MOST_GAPS = 20, 64, 1.25
#: follow each other, and of others.
CHANCE_OF_COUNT, CHANCE_OF_RISE = 1e-3, 1e-6

_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?")
_SURELY_THOUSANDS = re.compile(r".*,.*[,.].*")


def is_comma_number(text: str) -> bool:
    """Whether a text is a number but for its commas.

    >>> [is_comma_number(text) for text in ("1,5", "1,370,000", "1.5", "a,b")]
    [True, True, False, False]
    """
    return "," in text and is_numeral(text.replace(",", ""))


def meaning_of_commas(texts: Iterable[str]) -> str:
    """Tell whether commas in numbers are "decimal" or separate "thousands"; "" if none tells.

    >>> meaning_of_commas(["1,370", "0,5"]), meaning_of_commas(["1,370", "12,000,000"])
    ('decimal', 'thousands')
    >>> meaning_of_commas(["1,370", "2,415", "950"])
    ''
    """
    meaning = ""
    for text in texts:
        bare = text.strip()
        if not is_comma_number(bare):
            if "." in bare and is_numeral(bare):
                meaning = "thousands"
        elif not _THOUSANDS.fullmatch(bare):
            return "decimal"
        elif _SURELY_THOUSANDS.fullmatch(bare):
            meaning = "thousands"
    return meaning


def comma_advice(path: str, separator: str, example: str, texts: Iterable[str]) -> str:
    """Return what to do about numbers with commas, such as `example`, by all values of a table."""

    def rewritten(by: str) -> str:
        if separator == ",":
            return (
                f"python -c \"import pandas as p; p.read_csv('{path}', keep_default_na=False, "
                f"**{{'dtype': str}}).replace(r'(?<=\\d),(?=\\d)', '{by}', regex=True)"
                ".to_csv('NEW.csv', index=False)\""
            )
        change = "s/([0-9]),([0-9])/\\1.\\2/g" if by else "s/([0-9]),([0-9]{3})/\\1\\2/"
        steps = f"'{change}'" if by else f"-e ':a' -e '{change}' -e 'ta'"
        return f"sed -E {steps} {shlex.quote(path)} > NEW"

    meaning = meaning_of_commas(texts)
    if meaning == "decimal":
        return f"Write decimal points, not commas: {rewritten('.')}"
    if meaning == "thousands":
        return f"These commas separate thousands. Write numbers without them: {rewritten('')}"
    return (
        f"Commas are decimal or separate thousands, and no value tells which: {example} is "
        f"{example.replace(',', '.', 1)} or {example.replace(',', '')}. If they are decimal, "
        f"write points: {rewritten('.')}. If they separate thousands, leave them out: "
        f"{rewritten('')}"
    )


class NumberFields:
    """Numbers of the features of one row after the other.

    Parameters
    ----------
    width : int
        Number of features.
    na : sequence of str
        Text that stands for a missing value besides `NA`; numbers stand for all that are equal.
    refuse : callable
        Raises the error of a field that is no number, by its position, text and line.
    """

    def __init__(
        self,
        width: int,
        na: Sequence[str],
        refuse: Callable[[int, str, int], NoReturn],
    ) -> None:
        self._refuse = refuse
        self._na = frozenset(text.strip() for text in na)
        self._codes = np.array([float(text) for text in self._na if is_numeral(text)])
        self._words: dict[str, str] = {}
        self._booleans: set[str] = set()
        self._has_numbers = np.zeros(width, dtype=bool)
        self._has_booleans = np.zeros(width, dtype=bool)

    def row(self, fields: Sequence[str], line: int) -> Array:
        """Values of a row, (width,), NaN where they are missing."""
        is_boolean = None
        try:
            values = np.array([*map(float, fields)])
        except ValueError:
            try:
                values = np.array([*map(float, map(self._words.get, fields, fields))])
            except ValueError:  # words that are new
                values = np.array([*map(self._number, range(len(fields)), fields, repeat(line))])
            if not self._booleans.isdisjoint(fields):
                is_boolean = np.array([field in self._booleans for field in fields])
        if self._codes.size:
            values[np.isin(values, self._codes)] = np.nan
        self._check_booleans(values, is_boolean, fields, line)
        return values

    def _number(self, i: int, field: str, line: int) -> float:
        """A field as a number; words are kept for the next rows."""
        if is_numeral(field):
            return float(field)
        bare = field.strip()
        lower = bare.lower()
        if lower in NA or bare in self._na:
            self._words[field] = "nan"
            return np.nan
        if lower not in BOOLEANS:
            self._refuse(i, field, line)
        self._booleans.add(field)
        self._words[field] = str(BOOLEANS[lower])
        return BOOLEANS[lower]

    def _check_booleans(
        self, values: Array, is_boolean: Array | None, fields: Sequence[str], line: int
    ) -> None:
        """Refuse columns that hold booleans and numbers."""
        present = ~np.isnan(values)
        if is_boolean is None:
            self._has_numbers |= present
        else:
            self._has_numbers |= present & ~is_boolean
            self._has_booleans |= present & is_boolean
        mixed = np.flatnonzero(self._has_numbers & self._has_booleans)
        if mixed.size:
            self._refuse(int(mixed[0]), fields[mixed[0]], line)


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


def counting_columns(
    values: Callable[[tuple[slice, Index | slice]], Array], shape: tuple[int, int]
) -> list[int]:
    """Positions of columns that count rows in some order; none if they are many.

    Whole numbers that all differ and hardly leave a gap count rows: 1 to n shuffled, or falling.
    More than one column in twenty are ranks, which data may be.

    Parameters
    ----------
    values : callable
        Values (n, d) of a table at some rows and columns.
    shape : tuple of int
        n and d.

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
    found: list[int] = at[is_count].tolist()
    return found if len(found) <= max(1, d // 20) else []


def refuse_counting(where: str, names: Sequence[str], remedy: str) -> NoReturn:
    """Refuse columns that count rows in some order, by name."""
    listed = some(map(repr, names), 4)
    raise InputError(
        f"{where} has whole numbers that all differ and leave no gaps ({listed}), as numbers of "
        "rows do, in whatever order. As a feature they may tell the order of the samples. If they "
        f"number samples, leave them out: {remedy}. If they were measured, write them as "
        "fractions, for instance over 10."
    )


def refuse_rising(path: str, rising: Sequence[tuple[str, str, float, float]]) -> NoReturn:
    """Refuse features of whole numbers that rise from sample to sample.

    `rising` are their names for sentences and by themselves, their first and last values.
    """
    listed = some((f"{called}: {first:.0f} to {last:.0f}" for called, _, first, last in rising), 4)
    options = " ".join(f"not_features=['{name}']" for _, name, _, _ in rising[:4])
    raise InputError(
        f"{path} has whole numbers that rise from each sample to the next ({listed}), as numbers "
        "of rows do. As a feature they tell the order of the samples. If they name or count "
        f"samples, leave them out: {options}. If they were measured, write them as fractions, for "
        "instance over 10."
    )

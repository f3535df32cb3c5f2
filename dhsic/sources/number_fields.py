"""Fields of text as numbers: missing ones, booleans, and commas that may mean two things."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import NoReturn

import numpy as np

from dhsic._typing import Array
from dhsic.sources.ids import BOOLEANS, NA
from dhsic.validation import is_numeral

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

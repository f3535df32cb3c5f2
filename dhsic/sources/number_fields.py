"""Fields of text as numbers: missing ones, booleans, and commas that may mean two things."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import repeat
from typing import NoReturn

import numpy as np

from dhsic._typing import Array
from dhsic.sources.ids import BOOLEANS, NA
from dhsic.validation import is_numeral

#: Numbers whose commas separate thousands, or may; points that do, before a decimal comma or not.
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?")
_SURELY_THOUSANDS = re.compile(r".*,.*[,.].*")
_POINTS = re.compile(r"[+-]?[1-9]\d{0,2}(\.\d{3})+(,\d+)?")
_SURELY_POINTS = re.compile(r".*\..*[.,].*")
#: What commas, and points, are in the numbers of a table.
DECIMAL, THOUSANDS, POINTS, SEVERAL = "decimal", "thousands", "points", "several"
#: Marks of numbers that do not tell: a point before three digits, a comma, no mark.
POINT, COMMA, WHOLE = "point", "comma", "whole"


def is_comma_number(text: str) -> bool:
    """Whether a text is a number but for its commas, or for points that separate thousands.

    >>> [is_comma_number(text) for text in ("1,5", "1,370,000", "1.053,40", "1.370.000")]
    [True, True, True, True]
    >>> [is_comma_number(text) for text in ("1.5", "a,b", "1.2.2020")]
    [False, False, False]
    """
    if _SURELY_POINTS.fullmatch(text) and _POINTS.fullmatch(text):
        return True
    return "," in text and is_numeral(text.replace(",", ""))


def meaning_of_commas(texts: Iterable[str]) -> str:
    """Tell what commas in numbers are: `DECIMAL`, or separators of `THOUSANDS`; "" if none tells.

    It is `POINTS` where points separate thousands and commas are decimal, as in German, and
    `SEVERAL` where values contradict each other.

    >>> meaning_of_commas(["1,370", "0,5"]), meaning_of_commas(["1,370", "12,000,000"])
    ('decimal', 'thousands')
    >>> meaning_of_commas(["1,370", "2,415", "950"]), meaning_of_commas(["1.370", "0,5"])
    ('', 'points')
    >>> meaning_of_commas(["1.370,5", "1,370.5"]), meaning_of_commas(["0,5", "0.25"])
    ('several', 'decimal')
    """
    return _meaning_of({decimal_mark(text) for text in texts})


def _meaning_of(marks: AbstractSet[str]) -> str:
    """Meaning of commas, by the decimal marks of all numbers."""
    if POINTS in marks or ({DECIMAL, POINT} <= marks and "." not in marks):
        return SEVERAL if marks & {THOUSANDS, "."} else POINTS
    if DECIMAL in marks:
        return SEVERAL if THOUSANDS in marks else DECIMAL
    return THOUSANDS if marks & {THOUSANDS, "."} else ""


def decimal_mark(text: str) -> str:
    """Return the decimal mark of a number, `POINT` or `COMMA` if it may separate thousands.

    It is `WHOLE` for digits alone, and "" for other text.
    """
    text = text.strip()
    if not is_comma_number(text):
        if "." not in text or not is_numeral(text):
            return WHOLE if text.lstrip("+-").isdecimal() else ""
        return POINT if _POINTS.fullmatch(text) else "."
    if _POINTS.fullmatch(text):
        return POINTS
    if not _THOUSANDS.fullmatch(text):
        return DECIMAL
    return THOUSANDS if _SURELY_THOUSANDS.fullmatch(text) else COMMA


def has_comma_numbers(marks: AbstractSet[str]) -> bool:
    """Whether a column is to be rewritten, by its decimal marks.

    Where every number has three digits behind a point, and none a comma, nothing tells that points
    separate thousands.
    """
    return bool(marks & {DECIMAL, THOUSANDS, POINTS, COMMA} or {POINT, WHOLE} <= marks)


#: Fields that a command rewrites, by what their commas are, and the expression for them.
_REWRITTEN = {
    DECIMAL: (r"[+-]?\d*,\d+([eE][+-]?\d+)?", "v.replace(',', '.')"),
    THOUSANDS: (r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?", "v.replace(',', '')"),
    POINTS: (
        r"[+-]?\d{1,3}(\.\d{3})+(,\d+)?|[+-]?\d*,\d+",
        "v.replace('.', '').replace(',', '.')",
    ),
}


def rewritten_fields(path: str, separator: str, n_skipped: int, where: str, change: str) -> str:
    """Command that writes a table anew, with an expression of Python for some of its fields v.

    `where` are their rows and columns, as `loc` of pandas has them for a table t without a header;
    `n_skipped` is the number of lines above its first row.
    """
    sep = {"\t": r"'\t'", "": r"r'\s+'"}.get(separator, repr(separator))
    return (
        f'python -c "import re, pandas as p; t = p.read_csv({path!r}, sep={sep}, '
        f"skiprows={n_skipped}, header=None, dtype=str, keep_default_na=False); "
        f"t.loc[{where}] = t.loc[{where}].map(lambda v: {change}); "
        "t.to_csv('NEW.csv', index=False, header=False)\""
    )


def comma_advice(rewritten: Callable[[str], str], example: str, marks: AbstractSet[str]) -> str:
    """Return what to do about numbers with commas, such as `example`, by the marks of all numbers.

    `rewritten` makes a command of an expression for a field v.
    """

    def with_points(meaning: str) -> str:
        number, change = _REWRITTEN[meaning]
        return rewritten(f"{change} if re.fullmatch(r'{number}', v.strip()) else v")

    meaning = _meaning_of(marks)
    if meaning == DECIMAL:
        return f"Write decimal points, not commas: {with_points(DECIMAL)}"
    if meaning == THOUSANDS:
        return (
            f"These commas separate thousands. Write numbers without them: {with_points(meaning)}"
        )
    if meaning == POINTS:
        return (
            "Commas are decimal and points separate thousands. Write decimal points, and nothing "
            f"between thousands: {with_points(POINTS)}"
        )
    if meaning == SEVERAL:
        return (
            "Commas are decimal in some numbers, and separate thousands in others, so that no rule "
            "rewrites all. Write each with a decimal point, and nothing between thousands."
        )
    return (
        f"Commas are decimal or separate thousands, and no value tells which: {example} is "
        f"{example.replace(',', '.', 1)} or {example.replace(',', '')}. If they are decimal, "
        f"write points: {with_points(DECIMAL)}. If they separate thousands, leave them out: "
        f"{with_points(THOUSANDS)}"
    )


class NumberFields:
    """Numbers of the features of one row after the other.

    Parameters
    ----------
    width : int
        Number of features.
    na : sequence of str
        Text that stands for a missing value besides `NA`; numbers stand for all that are equal.
    na_at : mapping
        The same for features of their own, by position.
    refuse : callable
        Raises the error of a field that is no number, by its position, text and line.
    """

    def __init__(
        self,
        width: int,
        na: Sequence[str],
        refuse: Callable[[int, str, int], NoReturn],
        na_at: Mapping[int, Sequence[str]] | None = None,
    ) -> None:
        self._refuse = refuse
        self._na = frozenset(text.strip() for text in na)
        self._codes = _numbers(self._na)
        self._na_at = {i: frozenset(map(str.strip, texts)) for i, texts in (na_at or {}).items()}
        self._codes_at = {i: _numbers(texts) for i, texts in self._na_at.items()}
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
        for i, codes in self._codes_at.items():
            if values[i] in codes:
                values[i] = np.nan
        self._check_booleans(values, is_boolean, fields, line)
        return values

    def _number(self, i: int, field: str, line: int) -> float:
        """A field as a number; words are kept for the next rows."""
        if is_numeral(field):
            return float(field)
        bare = field.strip()
        lower = bare.lower()
        if bare in self._na_at.get(i, ()):
            return np.nan
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


def _numbers(texts: Iterable[str]) -> Array:
    """Numbers among texts."""
    return np.array([float(text) for text in texts if is_numeral(text)])

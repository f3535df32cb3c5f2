"""Conversion of text fields to numbers: missing values, booleans, genotype calls and commas."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import repeat
from typing import NoReturn

import numpy as np

from dhsic._typing import Array
from dhsic.sources.formulas import minus_signs
from dhsic.sources.ids import BOOLEANS, NA
from dhsic.sources.text_features import CALLS
from dhsic.validation import is_numeral

#: Patterns of numbers whose commas may separate thousands, or surely do; then the same for points.
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?")
_SURELY_THOUSANDS = re.compile(r".*,.*[,.].*")
_POINTS = re.compile(r"[+-]?[1-9]\d{0,2}(\.\d{3})+(,\d+)?")
_SURELY_POINTS = re.compile(r".*\..*[.,].*")
#: Meanings of commas and points in the numbers of a table, see `meaning_of_commas`.
DECIMAL, THOUSANDS, POINTS, SEVERAL = "decimal", "thousands", "points", "several"
#: Ambiguous decimal marks: a point before three digits, a comma, and no mark.
POINT, COMMA, WHOLE = "point", "comma", "whole"


def is_comma_number(text: str) -> bool:
    """Whether a text is a number with commas, or with points that separate thousands.

    >>> [is_comma_number(text) for text in ("1,5", "1,370,000", "1.053,40", "1.370.000")]
    [True, True, True, True]
    >>> [is_comma_number(text) for text in ("1.5", "a,b", "1.2.2020")]
    [False, False, False]
    """
    if _SURELY_POINTS.fullmatch(text) and _POINTS.fullmatch(text):
        return True
    return "," in text and is_numeral(text.replace(",", ""))


def meaning_of_commas(texts: Iterable[str]) -> str:
    """Return the meaning of commas in numbers: `DECIMAL`, `THOUSANDS`, or "" if ambiguous.

    The result is `POINTS` if points separate thousands and commas are decimal marks, as in German,
    and `SEVERAL` if numbers contradict each other.

    >>> meaning_of_commas(["1,370", "0,5"]), meaning_of_commas(["1,370", "12,000,000"])
    ('decimal', 'thousands')
    >>> meaning_of_commas(["1,370", "2,415", "950"]), meaning_of_commas(["1.370", "0,5"])
    ('', 'points')
    >>> meaning_of_commas(["1.370,5", "1,370.5"]), meaning_of_commas(["0,5", "0.25"])
    ('several', 'decimal')
    """
    return _meaning_of({decimal_mark(text) for text in texts})


def _meaning_of(marks: AbstractSet[str]) -> str:
    """Return the meaning of commas, given the decimal marks (`decimal_mark`) of all numbers."""
    if POINTS in marks or ({DECIMAL, POINT} <= marks and "." not in marks):
        return SEVERAL if marks & {THOUSANDS, "."} else POINTS
    if DECIMAL in marks:
        return SEVERAL if THOUSANDS in marks else DECIMAL
    return THOUSANDS if marks & {THOUSANDS, "."} else ""


def decimal_mark(text: str) -> str:
    """Classify the decimal mark of a number.

    The result is `POINT` or `COMMA` if the mark may also separate thousands, `WHOLE` if there are
    only digits, and "" for text that is not a number.
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
    """Whether the commas or points of a column must be rewritten before its numbers can be read.

    `marks` are the decimal marks of its numbers. If every number has a point before three digits
    and none has a comma, points are decimal marks and nothing must be rewritten.
    """
    return bool(marks & {DECIMAL, THOUSANDS, POINTS, COMMA} or {POINT, WHOLE} <= marks)


#: Pattern of the fields that a command rewrites, and expression for them, by meaning of commas.
_REWRITTEN = {
    DECIMAL: (r"[+-]?\d*,\d+([eE][+-]?\d+)?", "v.replace(',', '.')"),
    THOUSANDS: (r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?", "v.replace(',', '')"),
    POINTS: (
        r"[+-]?\d{1,3}(\.\d{3})+(,\d+)?|[+-]?\d*,\d+",
        "v.replace('.', '').replace(',', '.')",
    ),
}


def rewritten_fields(path: str, separator: str, n_skipped: int, where: str, change: str) -> str:
    """Return a shell command that writes a copy of a table with changed fields.

    `change` is a Python expression for the new text of a field v. `where` is the index of the
    fields in ``t.loc``, where t is the table in pandas, without a header. `n_skipped` is the number
    of lines above the first row.
    """
    sep = {"\t": r"'\t'", "": r"r'\s+'"}.get(separator, repr(separator))
    return (
        f'python -c "import re, pandas as p; t = p.read_csv({path!r}, sep={sep}, '
        f"skiprows={n_skipped}, header=None, dtype=str, keep_default_na=False); "
        f"{minus_signs(path)}t.loc[{where}] = t.loc[{where}].map(lambda v: {change}); "
        "t.to_csv('NEW.csv', index=False, header=False)\""
    )


def comma_advice(rewritten: Callable[[str], str], example: str, marks: AbstractSet[str]) -> str:
    """Return advice on numbers with commas, given the decimal marks of all numbers.

    `example` is one of the numbers. `rewritten` converts a Python expression for a field v to a
    shell command that rewrites the table.
    """

    def with_points(meaning: str) -> str:
        number, change = _REWRITTEN[meaning]
        return rewritten(f"{change} if re.fullmatch(r'{number}', v.strip()) else v")

    meaning = _meaning_of(marks)
    if meaning == POINTS and meaning not in marks:
        return (
            "Commas are decimal marks here. Points before three digits may be decimal marks, too, "
            "or separate thousands (1.370 is 1.37 or 1370); no value shows which. If they are "
            f"decimal points, replace commas by points: {with_points(DECIMAL)}. If they separate "
            f"thousands, remove them: {with_points(POINTS)}"
        )
    if meaning == DECIMAL:
        return f"Write decimal points, not commas: {with_points(DECIMAL)}"
    if meaning == THOUSANDS and meaning in marks:
        return (
            f"These commas separate thousands. Write numbers without them: {with_points(meaning)}"
        )
    if meaning == POINTS:
        return (
            "Commas are decimal marks and points separate thousands. Write decimal points, and "
            f"no thousands separators: {with_points(POINTS)}"
        )
    if meaning == SEVERAL:
        return (
            "Commas are decimal marks in some numbers and separate thousands in others, so no "
            "single rule can rewrite them. Write each number with a decimal point and no "
            "thousands separators."
        )
    return (
        f"Commas may be decimal marks or separate thousands, and no value shows which: {example} "
        f"is {example.replace(',', '.', 1)} or {example.replace(',', '')}. If they are decimal "
        f"marks, write points: {with_points(DECIMAL)}. If they separate thousands, remove them: "
        f"{with_points(THOUSANDS)}"
    )


class NumberFields:
    """Converter of text fields to numbers, row by row.

    `calls` contains the genotype calls read so far, such as 0/1, which become dosages. `n_coded`
    counts the values that are missing because they equal a number in `na`.

    Parameters
    ----------
    width : int
        Number of features.
    na : sequence of str
        Texts that mean a missing value, in addition to `NA`. A number also matches other spellings
        of the same number.
    na_at : mapping
        Texts that mean a missing value in one feature only, by position of the feature.
    refuse : callable
        Function that raises the error for a field that is not a number. Its arguments are the
        position, the text and the line of the field.
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
        self._apart: set[str] = set()
        self._has_numbers = np.zeros(width, dtype=bool)
        self._has_apart = np.zeros(width, dtype=bool)
        self._are_numbers, self.calls, self.n_coded = False, set[str](), 0

    def row(self, fields: Sequence[str], line: int) -> Array:
        """Convert a row to numbers, (width,); NaN if missing."""
        is_apart = None
        try:
            values = np.array([*map(float, fields)])
        except ValueError:
            try:
                values = np.array([*map(float, map(self._words.get, fields, fields))])
            except ValueError:  # there are new words
                values = np.array([*map(self._number, range(len(fields)), fields, repeat(line))])
            if not self._apart.isdisjoint(fields):
                is_apart = np.array([field in self._apart for field in fields])
        if self._codes.size:
            is_code = np.isin(values, self._codes)
            self.n_coded += int(is_code.sum())
            values[is_code] = np.nan
        for i, codes in self._codes_at.items():
            if values[i] in codes:
                values[i] = np.nan
        self._check_mixed(values, is_apart, fields, line)
        return values

    def _number(self, i: int, field: str, line: int) -> float:
        """Return a field as a number, and cache the numbers of words for the next rows."""
        if is_numeral(field):
            return float(field)
        bare = field.strip()
        lower = bare.lower()
        if bare in self._na_at.get(i, ()):
            return np.nan
        if lower in NA or bare in self._na:
            self._words[field] = "nan"
            return np.nan
        number = CALLS.get(bare, BOOLEANS.get(lower))
        if number is None:
            self._refuse(i, field, line)
        if bare in CALLS:
            self.calls.add(bare)
        if not np.isnan(number):
            self._apart.add(field)
        self._words[field] = str(number)
        return number

    def _check_mixed(
        self, values: Array, is_apart: Array | None, fields: Sequence[str], line: int
    ) -> None:
        """Refuse columns that mix numbers with booleans or with genotype calls."""
        if is_apart is None and self._are_numbers:
            return  # all columns have numbers already, and no other fields
        present = ~np.isnan(values)
        if is_apart is None:
            self._has_numbers |= present
        else:
            self._has_numbers |= present & ~is_apart
            self._has_apart |= present & is_apart
        mixed = np.flatnonzero(self._has_numbers & self._has_apart)
        if mixed.size:
            self._refuse(int(mixed[0]), fields[mixed[0]], line)
        self._are_numbers = bool(self._has_numbers.all())


def _numbers(texts: Iterable[str]) -> Array:
    """Return the numbers among texts, as an array."""
    return np.array([float(text) for text in texts if is_numeral(text)])

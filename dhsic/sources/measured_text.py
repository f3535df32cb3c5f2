"""Measurements that are text: durations, ranges, numbers with units, and numbers in quotes.

If they were used as text, each value would be a class or group of its own, and the order of values
would be lost. This module rejects such columns. Its errors contain an expression that converts the
text to numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

from dhsic._typing import Array
from dhsic.errors import InputError, warn
from dhsic.sources.dates import CLOCK, LETTER, about_dates, date_formats, days_of
from dhsic.sources.ids import abbreviate
from dhsic.sources.marked_numbers import FIRST_OF_PAIR, PAIR, numbers_of
from dhsic.sources.quantities import Quantities, quantities_of
from dhsic.sources.rewriting import WrittenColumn
from dhsic.validation import is_numeral

#: A column with at least this many distinct numbers is a measurement, not names of groups.
MEASURED = 10
#: Hours and minutes, or hours, minutes and seconds, of any number of hours; and days before these.
_CLOCK = re.compile(r"-?\d+:[0-5]\d(:[0-5]\d([.]\d+)?)?")
_DAYS_AND_CLOCK = re.compile(r"-?\d+ days?,? \d+:\d\d:\d\d([.]\d+)?")
#: Two numbers, each with a unit of time (or hours and weeks followed by a bare number, "22h08",
#: "37+2"); a number with a unit, and one to three of these; a period of ISO 8601 with one number;
#: and a range of whole numbers.
_TWO_UNITS = re.compile(r"P?T?(\d+)\s*([A-Za-z]+|\+)\s*,?\s*(\d+)\s*([A-Za-z]*)")
_PART = re.compile(r"(\d+(?:[.]\d+)?)\s*([A-Za-z]+)")
_PARTS = re.compile(rf"{_PART.pattern}(?:\s*(?:,|and)?\s*{_PART.pattern}){{0,2}}")
_PERIOD = re.compile(r"P(T?)\d+([YMWDHS])")
_RANGE = re.compile(r"(\d+)\s?(?:-|\u2013|to)\s?(\d+)")
#: Seconds of units of time by their first letters; m means minutes after hours, months otherwise.
_SECONDS = {
    "y": 31_557_600,
    "mo": 2_629_800,
    "w": 604_800,
    "d": 86_400,
    "h": 3_600,
    "mi": 60,
    "s": 1,
}
_NEXT = {"w": "d", "h": "mi"}
_NUMERIC = "{{p}}.to_numeric({}, errors='coerce')"
_TWO_NUMBERS = "{v}.str.extract(r'([0-9]+)[^0-9]+([0-9]+)').astype(float)"


def refuse_measured(column: WrittenColumn, text: Array, group: str, remedy: str = LETTER) -> None:
    """Raise an error for texts (m,) that are measurements; each would be its own class or group.

    Whole numbers that are written as text and occur repeatedly may be class names. They cause only
    a warning, and no warning if they count from 0 or 1. Missing texts are "". `group` is "class" or
    "group", for the message. `remedy` is the message's advice for texts that are names.

    Raises
    ------
    InputError
        There are at least `MEASURED` different texts, all of them measurements of one kind.
    """
    distinct = sorted({*map(str, text.tolist())} - {""})
    if len(distinct) < MEASURED:
        return
    shown = abbreviate(map(repr, distinct), 3)
    are_whole = all(number.isdecimal() for number in distinct)
    if are_whole and 2 * len(distinct) <= len(text):
        _tell_numerals(column, distinct, group, shown, remedy)
        return
    kind, unit, change = _conversion_of(distinct)
    if change:
        raise InputError(
            f"Values of {column.called} are {kind} ({shown}): {len(distinct)} different values, so "
            f"each would be its own {group}. To use them as {unit}: {column.rewritten(change)}. If "
            f"they are names, {remedy}."
        )


def measurements_of(texts: Iterable[str]) -> Quantities | None:
    """Return the kind, the unit and the conversion of measurements that are written as text.

    The result is None unless all texts are measurements of the same kind.

    >>> measurements_of(["2021-01-05", "2021-02-06"])[:2], measurements_of(["1:30", "25:50"])[:2]
    (('dates', 'numbers of days'), ('times or durations', 'hours'))
    >>> measurements_of(["5 d", "7 h"])[:2], measurements_of(["HLA 1", "HLA 2"])
    (('numbers in different units: d, h', 'numbers of the unit h'), None)
    """
    distinct = sorted({*texts})
    if formats := date_formats(np.array(distinct, dtype=object)):
        kind, unit = ("times of day", "hours") if formats[0] in CLOCK else ("dates", "days")
        change, note = days_of(formats[0]), about_dates(formats)
        return Quantities(kind, f"numbers of {unit}", change, note=note)
    found = quantities_of(distinct) or Quantities(*_conversion_of(distinct))
    return found if found.change else None


def _conversion_of(distinct: list[str]) -> tuple[str, str, str]:
    """Return the kind of measurements, their unit, and a pandas expression that converts them.

    The expression is "" if the texts are not measurements.
    """
    if all(map(is_numeral, distinct)):
        return "numbers as text", "numbers", _NUMERIC.format("{v}")
    if all(map(PAIR.fullmatch, distinct)):
        return "pairs of numbers", "the first of the two numbers", _NUMERIC.format(FIRST_OF_PAIR)
    if conversion := durations_of(distinct) or _ranges_of(distinct):
        return conversion
    change = numbers_of(distinct)
    return "numbers with a unit", "numbers without the unit", change and _NUMERIC.format(change)


def _tell_numerals(
    column: WrittenColumn, distinct: list[str], group: str, shown: str, remedy: str
) -> None:
    """Warn that whole numbers as text are treated as names, unless they count from 0 or 1."""
    numbers = sorted(map(int, distinct))
    if numbers[0] in (0, 1) and numbers[-1] - numbers[0] == len(numbers) - 1:
        return
    warn(
        f"Values of {column.called} are whole numbers as text ({shown}), so each of the "
        f"{len(distinct)} is treated as the name of a {group}. If they are numbers, such as ages: "
        f"{column.rewritten(_NUMERIC.format('{v}'))}. If they are names, {remedy}."
    )


def durations_of(distinct: list[str]) -> tuple[str, str, str] | None:
    """Return the kind of durations, their unit, and a pandas expression that converts them.

    The result is None if the texts are not durations of the same form.

    >>> import pandas as pd
    >>> times = ["25:50", "1:30"]
    >>> eval(durations_of(times)[2].format(p="pd", v="pd.Series(times)")).round(2).tolist()
    [25.83, 1.5]
    >>> ages = ["3y 6m", "4y 0m"]
    >>> eval(durations_of(ages)[2].format(p="pd", v="pd.Series(ages)")).tolist()
    [42.0, 48.0]
    >>> ages = ["14 years 7 months", "20 years", "65 months"]
    >>> eval(durations_of(ages)[2].format(p="pd", v="pd.Series(ages)")).tolist()
    [175.0, 240.0, 65.0]
    >>> durations_of(["HLA 1", "HLA 2"])
    """
    if all(map(_CLOCK.fullmatch, distinct)):
        whole = "{v}.where({v}.str.count(':') == 2, {v} + ':00')"
        change = f"{{p}}.to_timedelta({whole}, errors='coerce') / {{p}}.Timedelta(hours=1)"
        return "times or durations", "hours", change
    if all(map(_DAYS_AND_CLOCK.fullmatch, distinct)):
        change = "{p}.to_timedelta({v}, errors='coerce') / {p}.Timedelta(days=1)"
        return "durations", "days", change
    periods = [match for text in distinct if (match := _PERIOD.fullmatch(text))]
    if len(periods) == len(distinct) and len({match.groups() for match in periods}) == 1:
        change = "{v}.str.extract(r'([0-9]+)', expand=False)"
        return "durations", "numbers", _NUMERIC.format(change)
    return _two_units(distinct) or _several_units(distinct)


def _two_units(distinct: list[str]) -> tuple[str, str, str] | None:
    """Return the result of `durations_of` for texts of the same two units, such as "3y 6m"."""
    pairs = [match for text in distinct if (match := _TWO_UNITS.fullmatch(text))]
    units = {(_unit(match[2]), _unit(match[4], _unit(match[2]))) for match in pairs}
    if len(pairs) < len(distinct) or len(units) != 1:
        return None
    larger, smaller = units.pop()
    if not larger or not smaller or _SECONDS[larger] <= _SECONDS[smaller]:
        return None
    weight = _SECONDS[larger] / _SECONDS[smaller]
    return "durations", "numbers of the smaller unit", f"{_TWO_NUMBERS} @ [{weight:g}, 1]"


def _several_units(distinct: list[str]) -> tuple[str, str, str] | None:
    """Return the result of `durations_of` for texts of one to three units, such as "14 y 7 m".

    The result is None if no text has several units.
    """
    words: dict[str, set[str]] = {}
    parts = [_PART.findall(text) if _PARTS.fullmatch(text) else [] for text in distinct]
    for each in parts:
        larger = ""
        for _, word in each:
            unit = _unit(word, larger)
            is_smaller = unit and (not larger or _SECONDS[unit] < _SECONDS[larger])
            words.setdefault(unit if is_smaller else "", set()).add(word.lower())
            larger = unit or larger
    if not all(parts) or "" in words or max(map(len, parts)) < 2:
        return None
    smallest = min(words, key=_SECONDS.__getitem__)
    terms = [
        f"{{v}}.str.extract('(?i)([0-9.]+) *(?:{'|'.join(sorted(words[unit]))})(?:[^a-z]|$)', "
        f"expand=False).astype(float).fillna(0) * {_SECONDS[unit] / _SECONDS[smallest]:g}"
        for unit in words
    ]
    change = f"({' + '.join(terms)}).where({{v}}.str.contains('[0-9]', na=False))"
    return "durations", "numbers of the smallest unit", change


def _unit(word: str, larger: str = "") -> str:
    """Return the standard name of a unit of time (a key of `_SECONDS`); "" for other words.

    `larger` is the unit before it in the same text. After hours, "m" means minutes, else months.
    """
    word = word.lower()
    if word in ("", "+"):
        return _NEXT.get(larger, "") if larger else "w" * (word == "+")
    if word.startswith("m") and not word.startswith(("mi", "mo")):
        return ("mi" if larger == "h" else "mo") if word in ("m", "mth", "mths") else ""
    return next((key for key in _SECONDS if word.startswith(key)), "")


def _ranges_of(distinct: list[str]) -> tuple[str, str, str] | None:
    """Return the kind, unit and expression of ranges such as "44-48"; None for other texts."""
    ranges = [match for text in distinct if (match := _RANGE.fullmatch(text))]
    if len(ranges) < len(distinct) or any(int(r[1]) >= int(r[2]) for r in ranges):
        return None
    return "ranges", "the middle of each", f"{_TWO_NUMBERS}.mean(axis=1)"

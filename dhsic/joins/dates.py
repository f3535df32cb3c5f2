"""Dates among labels and covariates: as text each is a class of its own, as numbers they mislead.

Time is a number (of days), so dates are refused with what makes one of them. A few dates of several
samples each are batches, and stay groups. `dhsic.joins.written_numbers` has dates that read as
numbers.
"""

from __future__ import annotations

import re

import pandas as pd

from dhsic._typing import Array
from dhsic.errors import InputError
from dhsic.joins.rewriting import WrittenColumn
from dhsic.sources.ids import abbreviate
from dhsic.validation import is_numeral

#: Ways to write a day; then the time of day that may follow; and other ways to write times.
DAYS = (
    *("%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%d.%m.%Y", "%d.%m.%y", "%d/%m/%Y", "%m/%d/%Y"),
    *("%d/%m/%y", "%m/%d/%y", "%d-%m-%Y", "%m-%d-%Y", "%d-%m-%y", "%m-%d-%y", "%d-%b-%Y"),
    *("%d-%b-%y", "%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%d%b%Y"),
)
TIMES = ("", " %H:%M", " %H:%M:%S", "T%H:%M", "T%H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
OTHERS = ("ISO8601", "%b %Y", "%b-%y", "%m/%Y", "%d.%m.", "%H:%M", "%H:%M:%S")
#: A text that may be a date, so that other texts cost nothing.
MAY_BE = re.compile(r".*\d.*[-./: ].*\d.*|\d{1,2}\.\d{1,2}\.|\d?\d?[A-Za-z]{3,9}[- ]?\d{2,4}")
#: What to do about names that are dates.
LETTER = "write a letter in front of each"
#: Different dates from which on a column is no list of batches, whatever their samples.
FEWEST = 4
#: Samples of each date, in the mean, from which on dates are batches: of up to `FEW`, and of more.
FEW, OF_FEW, OF_MORE = 20, 3, 10


def date_formats(text: Array) -> list[str]:
    """Formats that read all texts (m,) but "" as dates; none where these are no dates.

    >>> import numpy as np
    >>> date_formats(np.array(["3/14/19", "12/1/20"])), date_formats(np.array(["20-29", "1/2"]))
    (['%m/%d/%y'], [])
    >>> date_formats(np.array(["3/4/19", "2/1/20"]))
    ['%d/%m/%y', '%m/%d/%y']
    """
    distinct = sorted({*map(str, text.tolist())} - {""})
    if not distinct:
        return []
    if all(map(is_numeral, distinct)) or not all(map(MAY_BE.fullmatch, distinct)):
        return []
    candidates = [*(day + time for time in TIMES for day in DAYS), *OTHERS]
    return [way for way in candidates if reads(way, distinct[:FEW]) and reads(way, distinct)]


def reads(way: str, texts: list[str]) -> bool:
    """Whether a format of dates reads all texts."""
    return bool(pd.to_datetime(texts, format=way, errors="coerce", utc=True).notna().all())


def refuse_dates(column: WrittenColumn, text: Array, group: str, remedy: str = LETTER) -> str:
    """Refuse texts (m,) that are dates, each a class or group; return a sentence on batches, or "".

    `group` is what such a name is, "class" or "group", and `remedy` says that they are names.
    """
    formats = date_formats(text)
    if not formats:
        return ""
    counts = pd.Series(text[text != ""]).value_counts()
    n, shown = len(counts), abbreviate(sorted(counts.index), 3)
    if n < FEWEST or n * (OF_FEW if n <= FEW else OF_MORE) <= counts.sum():
        return f"{column.called}: each of {n} dates ({shown}) is a {group}, such as a batch"
    month_first = [way for way in formats[1:] if way.startswith("%m")]
    which = f" (format={month_first[0]!r} if the month comes first)" if month_first else ""
    raise InputError(
        f"Values of {column.called} are dates ({shown}), {n} of them in {counts.sum():,} samples, "
        f"so that each would be a {group} of its own. Time is a number. For numbers of days, "
        f"{column.rewritten(days_of(formats[0]))}{which}. If they are names, {remedy}."
    )


def days_of(way: str) -> str:
    """Expression of pandas for days, from dates of a format."""
    has_year = way == "ISO8601" or "%y" in way.lower()
    origin = "2000-01-01" if has_year else "1900-01-01"
    return (
        f"({{p}}.to_datetime({{v}}, format={way!r}, errors='coerce', utc=True) - "
        f"{{p}}.Timestamp('{origin}', tz='UTC')) / {{p}}.Timedelta(days=1)"
    )

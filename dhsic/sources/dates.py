"""Dates that are text or Python objects, which would be misread as classes or as numbers.

As text, every date would be its own class. Dates are therefore refused, with a command that
converts them to numbers of days. A few dates with several samples each are treated as batches.
Dates that read as numbers are handled in `dhsic.joins.written_numbers`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import date, time, timedelta

import numpy as np
import pandas as pd

from dhsic._typing import Array
from dhsic.errors import InputError
from dhsic.sources.ids import abbreviate
from dhsic.sources.rewriting import WrittenColumn
from dhsic.validation import is_numeral

#: Formats of a day; of the time of day that may follow it; of a time of day alone; and other
#: formats of dates and times.
DAYS = (
    *("%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%d.%m.%Y", "%d.%m.%y", "%d/%m/%Y", "%m/%d/%Y"),
    *("%d/%m/%y", "%m/%d/%y", "%d-%m-%Y", "%m-%d-%Y", "%d-%m-%y", "%m-%d-%y", "%d-%b-%Y"),
    *("%d-%b-%y", "%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%d%b%Y"),
)
TIMES = ("", " %H:%M", " %H:%M:%S", "T%H:%M", "T%H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
CLOCK = ("%H:%M", "%H:%M:%S")
OTHERS = ("ISO8601", "%b %Y", "%b-%y", "%m/%Y", "%d.%m.", *CLOCK)
#: Pattern of texts that may be dates; other texts are not parsed.
MAY_BE = re.compile(r".*\d.*[-./: ].*\d.*|\d{1,2}\.\d{1,2}\.|\d?\d?[A-Za-z]{3,9}[- ]?\d{2,4}")
#: Advice if the dates are names.
LETTER = "write a letter in front of each"
#: Fewer distinct dates than this are always treated as batches.
FEWEST = 4
#: First day of 1950 and last day of 2100 in the numbers of Excel, days since 1899-12-30.
SERIAL = (18264, 73415)
#: Minimum mean number of samples per date for dates to be batches: `OF_FEW` if there are at most
#: `FEW` different dates, otherwise `OF_MORE`.
FEW, OF_FEW, OF_MORE = 20, 3, 10

#: Pandas expression for the days since 2000 of dates {v}, of any type.
SINCE_2000 = (
    "({p}.to_datetime({v}, utc=True) - {p}.Timestamp('2000-01-01', tz='UTC')) / "
    "{p}.Timedelta(days=1)"
)
#: Kinds of dates and times that are Python objects: name, types, unit, and a pandas expression that
#: converts values {v} to numbers in this unit.
OBJECTS: tuple[tuple[str, tuple[type, ...], str, str], ...] = (
    (
        "times of day",
        (time,),
        "hours",
        "{v}.map(lambda t: t.hour + t.minute / 60 + t.second / 3600, na_action='ignore')",
    ),
    (
        "durations",
        (timedelta, np.timedelta64),
        "days",
        "{p}.to_timedelta({v}) / {p}.Timedelta(days=1)",
    ),
    (
        "periods",
        (pd.Period,),
        "days",
        SINCE_2000.replace("{v}", "{v}.map(lambda t: t.start_time, na_action='ignore')"),
    ),
    ("dates", (date, np.datetime64), "days", SINCE_2000),
)


def date_formats(text: Array) -> list[str]:
    """Return the date formats in which all texts (m,) except "" can be read; [] if there are none.

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
    """Whether all texts can be read in the date format `way`."""
    return bool(pd.to_datetime(texts, format=way, errors="coerce", utc=True).notna().all())


def refuse_dates(column: WrittenColumn, text: Array, group: str, remedy: str = LETTER) -> str:
    """Refuse texts (m,) that are dates, because each date would be a class or group of its own.

    If the dates are few enough to be batches, they are accepted, and the result is a sentence that
    says so. The result is "" if the texts are not dates. `group` is "class" or "group"; `remedy` is
    the advice for dates that are names.
    """
    formats = date_formats(text)
    if not formats:
        return ""
    counts = pd.Series(text[text != ""]).value_counts()
    n, shown = len(counts), abbreviate(sorted(counts.index), 3)
    are_times = formats[0] in CLOCK
    dates, units = ("times of day", "hours") if are_times else ("dates", "days")
    if n < FEWEST or n * (OF_FEW if n <= FEW else OF_MORE) <= counts.sum():
        return (
            f"{column.called} has {n} different {dates} ({shown}), and each is treated as a "
            f"{group}, such as a batch"
        )
    raise InputError(
        f"Values of {column.called} are {dates} ({shown}): {n} different {dates} in "
        f"{counts.sum():,} samples, so each would be its own {group}. Convert them to numbers of "
        f"{units}: {column.rewritten(days_of(formats[0]))}. If they are names, {remedy}. "
        f"{about_dates(formats)}".rstrip()
    )


def has_dates(values: pd.Series) -> bool:
    """Whether the first non-missing value of a series (m,) is a date, time, period or duration."""
    present = values[values.notna()] if values.dtype.kind == "O" else values[:0]
    types = tuple(each for _, types, _, _ in OBJECTS for each in types)
    return bool(len(present)) and isinstance(present.iloc[0], types)


def refuse_date_objects(column: WrittenColumn, values: pd.Series, remedy: str) -> None:
    """Refuse values (m,) that are objects for dates, times of day, periods or durations.

    `remedy` is the advice for values that are names.
    """
    present = values.astype(object)[values.notna()].tolist()
    for kind, types, unit, change in OBJECTS:
        of_kind = [value for value in present if isinstance(value, types)]
        if not of_kind:
            continue
        shown = abbreviate(map(str, sorted({*map(str, of_kind)})), 3)
        others = abbreviate({repr(v): 0 for v in present if not isinstance(v, types)}, 3)
        advice = (
            f"Only {len(of_kind):,} of {len(present):,} values are {kind}; others are {others}. "
            f"Convert all to numbers of {unit}"
            if others
            else f"Convert them to numbers of {unit}: {column.rewritten(change)}"
        )
        raise InputError(
            f"Values of {column.called} are {kind} ({shown}). {advice}. If they are names, such as "
            f"batches, {remedy}."
        )


def about_dates(formats: Sequence[str]) -> str:
    """Return sentences on assumptions of `days_of`: the order of day and month, and the century."""
    month_first = next((way for way in formats[1:] if way.startswith("%m")), "")
    sentences = [
        f"If the month comes first, use format={month_first!r} instead." if month_first else "",
        "Two-digit years are read as 1969 to 2068. Correct earlier years first, such as years of "
        "birth."
        if "%y" in formats[0]
        else "",
    ]
    return " ".join(filter(None, sentences))


def serial_days(texts: Iterable[str], numbers: Iterable[float]) -> str:
    """Return a pandas expression for a column of dates that contains Excel serial numbers.

    The expression gives days since 1899-12-30, with fractions for times of day. It is "" if `texts`
    are not dates of one format, or if any of `numbers` is not a day from 1950 to 2100.

    >>> import pandas as pd
    >>> dates = ["14/03/2019", "43539"]
    >>> eval(serial_days(dates[:1], [43539]).format(p="pd", v="pd.Series(dates)")).tolist()
    [43538.0, 43539.0]
    >>> serial_days(["14/03/2019"], [1.5]), serial_days(["abc"], [43539])
    ('', '')
    """
    formats = date_formats(np.array(list(texts), dtype=object))
    days = np.array(list(numbers), dtype=np.float64)
    are_days = (days >= SERIAL[0]) & (days < SERIAL[1] + 1)
    if not formats or formats[0] in (*CLOCK, *OTHERS) or not (days.size and are_days.all()):
        return ""
    date = f"{{p}}.to_datetime({{v}}, format={formats[0]!r}, errors='coerce')"
    return (
        f"{{p}}.to_numeric({{v}}, errors='coerce').fillna(({date} - {{p}}.Timestamp('1899-12-30'))"
        " / {p}.Timedelta(days=1))"
    )


def days_of(way: str) -> str:
    """Return a pandas expression that converts dates in the format `way` to numbers of days.

    Times of day become hours since midnight.
    """
    has_year = way == "ISO8601" or "%y" in way.lower()
    unit = "hours" if way in CLOCK else "days"
    origin = "2000-01-01" if has_year else "1900-01-01"
    return (
        f"({{p}}.to_datetime({{v}}, format={way!r}, errors='coerce', utc=True) - "
        f"{{p}}.Timestamp('{origin}', tz='UTC')) / {{p}}.Timedelta({unit}=1)"
    )

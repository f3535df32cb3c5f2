"""Labels and covariates that read as numbers and are written as something else.

Points may separate thousands (`dhsic.sources.thousands`), or stand between a day and a month
("05.04"), where the 4th of May comes before the 5th of April; digits may be a date (20190304).
"""

from __future__ import annotations

import re

import numpy as np

from dhsic._typing import Array
from dhsic.errors import InputError
from dhsic.joins.dates import FEWEST, days_of, reads
from dhsic.joins.rewriting import WrittenColumn
from dhsic.sources.ids import abbreviate
from dhsic.sources.thousands import PointedNumbers

#: A day and a month; and a year, a month and a day, and their format.
DAY_MONTH = re.compile(r"(0[1-9]|[12]\d|3[01])\.(0[1-9]|1[0-2])")
COMPACT, COMPACT_FORMAT = re.compile(r"(19|20)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])"), "%Y%m%d"
#: Expressions of pandas for numbers of a column {v}.
WITHOUT_POINTS = "{v}.str.replace('.', '', regex=False)"
WITH_POINTS = "{v}.where(~{v}.str.fullmatch('[+-]?[0-9]+'), {v} + '.0')"
DAY_OF_YEAR = "{p}.to_datetime({v} + '.2000', format='%d.%m.%Y', errors='coerce').dt.day_of_year"


def refuse_written(column: WrittenColumn, text: Array) -> None:
    """Refuse numbers (m,) whose texts, none of which is missing, say something else.

    Raises
    ------
    InputError
        Points may separate thousands, or numbers are dates; with a remedy for each reading.
    """
    distinct = np.unique(text.astype(str)).tolist()
    numbers = PointedNumbers.of(map(str, text.tolist()))
    if numbers.may_separate_thousands:
        raise InputError(
            f"Values of {column.called}: {numbers.sentence} If they do, "
            f"{column.rewritten(WITHOUT_POINTS)}. If they are decimal, "
            f"{column.rewritten(WITH_POINTS)}."
        )
    if len(distinct) < FEWEST:
        return
    shown = abbreviate(distinct, 3)
    if any(t.startswith("0") for t in distinct) and all(map(DAY_MONTH.fullmatch, distinct)):
        raise InputError(
            f"Values of {column.called} are days and months ({shown}), which are no decimal "
            f"numbers. Time is a number. For days of a year, {column.rewritten(DAY_OF_YEAR)}. If "
            "they are decimal numbers, write them without zeros in front."
        )
    if all(map(COMPACT.fullmatch, distinct)) and reads(COMPACT_FORMAT, distinct):
        raise InputError(
            f"Values of {column.called} are dates ({shown}), and a year has no 10,000 days. For "
            f"numbers of days, {column.rewritten(days_of(COMPACT_FORMAT))}. If they are numbers, "
            "write a decimal point in them."
        )

"""Labels and covariates that read as numbers but mean something else.

Points may be thousands separators (`dhsic.sources.thousands`), or separate day and month. As
numbers, "05.04" (5 April) would follow "04.05" (4 May). Eight digits may be a date (20190304).
"""

from __future__ import annotations

import re

import numpy as np

from dhsic._typing import Array
from dhsic.errors import InputError
from dhsic.sources.dates import FEWEST, days_of, reads
from dhsic.sources.ids import abbreviate
from dhsic.sources.rewriting import WrittenColumn
from dhsic.sources.thousands import PointedNumbers

#: Pattern of a day and month; and pattern and format of a year, month and day.
DAY_MONTH = re.compile(r"(0[1-9]|[12]\d|3[01])\.(0[1-9]|1[0-2])")
COMPACT, COMPACT_FORMAT = re.compile(r"(19|20)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])"), "%Y%m%d"
#: Pandas expressions that convert the text {v} of a column for each meaning.
WITHOUT_POINTS = "{v}.str.replace('.', '', regex=False)"
WITH_POINTS = "{v}.where(~{v}.str.fullmatch('[+-]?[0-9]+'), {v} + '.0')"
DAY_OF_YEAR = "{p}.to_datetime({v} + '.2000', format='%d.%m.%Y', errors='coerce').dt.day_of_year"


def refuse_written(column: WrittenColumn, text: Array) -> None:
    """Refuse numbers whose texts probably mean something else; `text` (m,) has no missing values.

    Raises
    ------
    InputError
        Points may be thousands separators, or numbers are dates; the message has advice for each
        meaning.
    """
    distinct = np.unique(text.astype(str)).tolist()
    numbers = PointedNumbers.of(map(str, text.tolist()))
    if numbers.may_separate_thousands:
        raise InputError(
            f"Values of {column.called}: {numbers.sentence} If the points separate thousands, "
            f"{column.rewritten(WITHOUT_POINTS)}. If they are decimal points, "
            f"{column.rewritten(WITH_POINTS)}."
        )
    if len(distinct) < FEWEST:
        return
    shown = abbreviate(distinct, 3)
    if any(t.startswith("0") for t in distinct) and all(map(DAY_MONTH.fullmatch, distinct)):
        raise InputError(
            f"Values of {column.called} are days and months ({shown}), not decimal numbers. "
            f"Convert them to days of the year: {column.rewritten(DAY_OF_YEAR)}. If they are "
            "decimal numbers, write them without zeros in front."
        )
    if all(map(COMPACT.fullmatch, distinct)) and reads(COMPACT_FORMAT, distinct):
        raise InputError(
            f"Values of {column.called} are dates ({shown}). As numbers, they would have 10,000 "
            "days per year. Convert them to numbers of days: "
            f"{column.rewritten(days_of(COMPACT_FORMAT))}. If they are numbers, write a decimal "
            "point in them."
        )

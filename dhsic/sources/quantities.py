"""Quantities written as text in several forms: with accounting signs, multiples, units or flags.

"(12.3)" and "12.3-" are negative in accounting, "1.2M" is 1,200,000, 5'4" has two units, "5 d" is
more than "108 h", "12.3 H" has a laboratory flag, and 44197 is a date in Excel. If they were used
as text, every value would be a class of its own; without the mark, it would be a wrong number. This
module rejects such columns. If the units are known, its errors contain an expression that converts
the text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from dhsic._typing import Array
from dhsic.errors import InputError
from dhsic.sources.dates import serial_days
from dhsic.sources.ids import abbreviate
from dhsic.sources.number_fields import DECIMAL, POINTS, meaning_of_commas
from dhsic.sources.rewriting import WrittenColumn
from dhsic.validation import is_numeral

#: Minimum number of different texts that are quantities; fewer may be class names. And this minimum
#: for numbers with accounting signs beside plain numbers.
FEWEST, FEWEST_SIGNED = 10, 3
#: Minimum number of different texts in a form that class names never have.
FEWEST_CLEAR = 2
SIGNED = (
    "numbers, some in parentheses or with a separate minus sign, as accountants write negative "
    "numbers"
)
_SYMBOL = r"[$\u00a3\u00a5\u20ac]"
_CURRENCY = rf"{_SYMBOL}?\s*"
#: Negative numbers of accounting; and other amounts, which may be beside them.
_NEGATIVE = re.compile(
    rf"[(]\s*{_CURRENCY}\d[\d.,]*\s*[)]|{_CURRENCY}\d[\d.,]*\s*-|-\s*{_SYMBOL}\s*\d[\d.,]*|"
    rf"{_SYMBOL}\s*-\s*\d[\d.,]*"
)
_AMOUNT = re.compile(rf"[+-]?\s*{_CURRENCY}\d[\d.,]*")
#: Numbers of thousands, millions, billions: their letters, and the expression.
_MULTIPLE = re.compile(r"[$]?[+-]?\d+(?:[.]\d+)?\s?([KMBT]?)N?", re.IGNORECASE)
_MULTIPLIED = (
    "{p}.to_numeric({v}.str.extract('([0-9.+-]+)', expand=False), errors='coerce') * "
    "{v}.str.upper().str.extract('([KMBT])', expand=False)"
    ".map(dict(K=1e3, M=1e6, B=1e9, T=1e12)).fillna(1)"
)
#: Quantities in two units of length or mass, how many of the smaller one the larger one has, and
#: the smaller one.
_TWO_UNITS = (
    (
        re.compile(
            r"\d{1,2}\s*(?:['\u2032\u2019]|ft[.]?|feet|foot)\s*"
            r"(?:(?:\d|1[01])(?:[.]\d+)?\s*(?:[\"\u2033\u201d]|''|in[.]?|inch|inches)?)?"
        ),
        12,
        "inches",
    ),
    (re.compile(r"\d+\s*st(?:one)?[.]?\s*(?:\d+(?:[.]\d+)?\s*(?:lbs?[.]?)?)?"), 14, "pounds"),
    (re.compile(r"\d+\s*lbs?[.]?\s*\d+(?:[.]\d+)?\s*oz[.]?"), 16, "ounces"),
)
_BOTH_UNITS = (
    "{{v}}.str.extract('([0-9]+)[^0-9]*([0-9]*[.]?[0-9]*)').replace(['', '.'], 0).astype(float) "
    "@ [{n}, 1]"
)
#: A number with a unit of letters, or of a ratio.
_WITH_UNIT = re.compile(r"[+-]?\d+(?:[.]\d+)?\s*([A-Za-z\u00b5\u03bc\u00b0%]+(?:/[A-Za-z0-9]+)?)")
#: Sizes of units that measure the same. An m is a minute, a month or a metre.
_SIZES = (
    dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0)
    | dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60.0)
    | dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600.0)
    | {"ms": 0.001},
    dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 1.0)
    | dict.fromkeys(("d", "day", "days"), 24.0)
    | dict.fromkeys(("w", "wk", "wks", "week", "weeks"), 168.0)
    | dict.fromkeys(("mo", "mos", "month", "months"), 730.5)
    | dict.fromkeys(("y", "yr", "yrs", "year", "years"), 8766.0)
    | dict.fromkeys(("min", "mins", "minute", "minutes"), 1 / 60)
    | dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1 / 3600),
    {"m": 1.0, "mo": 1.0, "y": 12.0, "yr": 12.0, "yrs": 12.0},
    {"nm": 1e-6, "um": 1e-3, "mm": 1.0, "cm": 10.0, "dm": 100.0, "m": 1e3, "km": 1e6}
    | dict.fromkeys(("in", "inch", "inches"), 25.4)
    | dict.fromkeys(("ft", "foot", "feet"), 304.8),
    {"ng": 1e-9, "ug": 1e-6, "mcg": 1e-6, "mg": 1e-3, "g": 1.0, "kg": 1e3}
    | dict.fromkeys(("lb", "lbs"), 453.59237)
    | {"oz": 28.349523125, "st": 6350.29318},
    {"ul": 1e-6, "ml": 1e-3, "cl": 1e-2, "dl": 0.1, "l": 1.0},
)
_UNITS = frozenset(
    {"c", "f", "%", "bp", "kb", "mb", "gb", "iu", "u", "mol", "mmol", "umol", "nmol"}
)
#: Units that are used beside others for the same quantity, and never for doses of one series.
_OF_OTHER_SYSTEMS = frozenset(("f", "lb", "lbs", "oz", "st", "in", "inch", "inches", "ft", "feet"))
#: A number with a flag of a laboratory. Flags of one kind are: high and low; each mark of a
#: footnote, alone or repeated; and each other word in capital letters.
_FLAGGED = re.compile(
    r"[+-]?\d+(?:[.]\d+)?\s*[\[(]?"
    r"((?P<range>HH?|LL?|HIGH|LOW|ABN|CRIT)|(?P<footnote>[*#!^\u2020\u2021]{1,3})"
    r"|(?<=[\s(\[])(?P<word>[A-Z]{2,4}))[\])]?"
)
#: Pandas expression for the numbers without flags.
_UNFLAGGED = "{p}.to_numeric({v}.str.extract('^([+-]?[0-9.]+)', expand=False), errors='coerce')"


class Quantities(NamedTuple):
    """Description of quantities that are written as text, and their conversion to numbers.

    `kind` describes the texts, and `unit` the numbers after conversion. `change` is a pandas
    expression with the placeholders of `WrittenColumn.rewritten`, or "" if there is none. Fewer
    than `fewest` different texts may be names. `note` states the assumptions of the expression.
    """

    kind: str
    unit: str
    change: str
    fewest: int = FEWEST
    note: str = ""


def refuse_quantities(column: WrittenColumn, text: Array, group: str, remedy: str) -> None:
    """Raise an error for texts (m,) that are quantities in several forms; "" means missing.

    `group` is "class" or "group", for the message. `remedy` is the message's advice for texts that
    are names.

    Raises
    ------
    InputError
        The texts are numbers with accounting signs, multiples, units or flags, or dates that are
        partly Excel serial numbers. There are enough different texts to exclude names.
    """
    distinct = sorted({*map(str, text.tolist())} - {""})
    found = quantities_of(distinct)
    if found is None or len(distinct) < found.fewest:
        return
    shown = abbreviate(map(repr, examples(distinct)), 4)
    how = (
        f"To use them as {found.unit}: {column.rewritten(found.change)}."
        if found.change
        else "Write all of them as numbers of one unit, without units and flags."
    )
    raise InputError(
        f"Values of {column.called} are {found.kind} ({shown}): {len(distinct)} different values, "
        f"so each would be its own {group}. {how} If they are names, {remedy}."
    )


def examples(distinct: list[str]) -> list[str]:
    """Sort texts so that the first ones have different forms."""
    by_form: dict[str, list[str]] = {}
    for text in distinct:
        by_form.setdefault(re.sub(r"[\d.,]+", "0", text), []).append(text)
    firsts = [texts[0] for texts in by_form.values()]
    return [*firsts, *(text for texts in by_form.values() for text in texts[1:])]


def quantities_of(distinct: list[str]) -> Quantities | None:
    r"""Describe texts that are all quantities of the same kind; None for other texts.

    >>> import pandas as pd
    >>> def numbers(texts):
    ...     return eval(quantities_of(texts).change.format(p="pd", v="pd.Series(texts)")).tolist()
    >>> numbers(["(12.3)", "4.5"]), numbers(["12.3-", "4.5"]), numbers(["50K", "1.5M", "7"])
    ([-12.3, 4.5], [-12.3, 4.5], [50000.0, 1500000.0, 7.0])
    >>> numbers(["5'4\"", "6'"]), numbers(["2 d", "5 h"]), quantities_of(["B 1", "B 2"])
    ([64.0, 72.0], [48.0, 5.0], None)
    """
    if any(map(_NEGATIVE.fullmatch, distinct)) and all(
        _NEGATIVE.fullmatch(text) or _AMOUNT.fullmatch(text) for text in distinct
    ):
        return _signed(distinct)
    multiples = [_MULTIPLE.fullmatch(text) for text in distinct]
    if all(multiples) and len({match[1].upper() for match in multiples if match}) > 1:
        kind = "numbers, some of them with K, M or B for thousands, millions or billions"
        return Quantities(kind, "plain numbers", _MULTIPLIED)
    for pattern, n, smaller in _TWO_UNITS:
        if all(map(pattern.fullmatch, distinct)):
            return Quantities("numbers in two units", smaller, _BOTH_UNITS.format(n=n))
    return _dated(distinct) or _flagged(distinct) or _in_units(distinct)


def _dated(distinct: list[str]) -> Quantities | None:
    """Describe dates that are partly Excel serial numbers; None for other texts.

    >>> _dated(["2021-01-05", "44197"]).unit, _dated(["2021-01-05", "2021-01-06"])
    ('numbers of days', None)
    """
    numbers = [float(text) for text in distinct if is_numeral(text)]
    change = serial_days([text for text in distinct if not is_numeral(text)], numbers)
    kind = "dates, some of them as Excel's number of days since 1899-12-30"
    return Quantities(kind, "numbers of days", change, FEWEST_CLEAR) if change else None


def _flagged(distinct: list[str]) -> Quantities | None:
    """Describe numbers that partly have laboratory flags; None for other texts.

    The result is also None if all numbers have the same mark, because it may be a unit. There is no
    conversion if the flags are of several kinds.

    >>> _flagged(["12.3 H", "4.5 L", "7"]).kind, _flagged(["12.3 H", "4.5 H"])
    ('numbers, some of them with flags of a laboratory: H, L', None)
    >>> _flagged(["12.3 H", "4.5*", "7"]).change, _flagged(["12.3 MG", "4.5"])
    ('', None)
    """
    matches = [match for text in distinct if (match := _FLAGGED.fullmatch(text))]
    flags = sorted({match[1] for match in matches})
    n_plain = sum(map(is_numeral, distinct))
    words = {match["word"].lower() for match in matches if match["word"]}
    if n_plain + len(matches) < len(distinct) or not flags or len(flags) + n_plain < 2:
        return None
    if words & _UNITS or any(words & sizes.keys() for sizes in _SIZES):
        return None
    kinds = {
        (match["range"] is None, match["word"], (match["footnote"] or "")[:1]) for match in matches
    }
    kind = f"numbers, some of them with flags of a laboratory: {', '.join(flags)}"
    unit = "numbers without the flags, if these do not change what the numbers mean"
    return Quantities(kind, unit, _UNFLAGGED if len(kinds) == 1 else "")


def _signed(distinct: list[str]) -> Quantities:
    """Describe amounts with negative numbers as in accounting, such as (12.3) and 12.3-."""
    bare = [re.sub("[^0-9.,]", "", text) for text in distinct]
    meaning = meaning_of_commas(bare) if any("," in text for text in bare) else ""
    size = "{v}.str.replace('[^0-9.]', '', regex=True)"
    if meaning in (DECIMAL, POINTS):
        size = "{v}.str.replace('[^0-9,]', '', regex=True).str.replace(',', '.')"
    sign = "(1 - 2 * {v}.str.contains('[(-]'))"
    change = f"{{p}}.to_numeric({size}, errors='coerce') * {sign}"
    fewest = FEWEST_SIGNED if any(map(is_numeral, distinct)) else FEWEST
    return Quantities(SIGNED, "negative numbers", change, fewest)


def _in_units(distinct: list[str]) -> Quantities | None:
    """Describe numbers with different known units, such as 2 d and 5 h; None for other texts."""
    matches = [match for text in distinct if (match := _WITH_UNIT.fullmatch(text))]
    others = [text for text in distinct if _WITH_UNIT.fullmatch(text) is None]
    feet = [text for text in others if any(p.fullmatch(text) for p, *_ in _TWO_UNITS)]
    counts = Counter(match[1].lower() for match in matches)
    are_known = all("/" in u or u in _UNITS or any(u in sizes for sizes in _SIZES) for u in counts)
    if len(feet) < len(others) or len(counts) + bool(feet) < 2 or not counts or not are_known:
        return None
    kind = f"numbers in different units: {', '.join([*counts, *(['two units'] if feet else [])])}"
    sizes = next((sizes for sizes in _SIZES if sizes.keys() >= counts.keys()), {})
    fewest = FEWEST_CLEAR if _of_two_systems(counts) else FEWEST
    if feet or not sizes:
        return Quantities(kind, "", "", fewest)
    smallest = min(counts, key=sizes.__getitem__)
    if len({sizes[unit] for unit in counts}) == 1:  # "5 h" and "5 hours"
        smallest = next(iter(counts))
    ratios = {unit: round(sizes[unit] / sizes[smallest], 9) for unit in counts}
    change = (
        "{p}.to_numeric({v}.str.extract('([0-9.+-]+)', expand=False), errors='coerce') * "
        f"{{v}}.str.lower().str.extract('([a-z]+) *$', expand=False).map({{{ratios!r}}})"
    )
    return Quantities(kind, f"numbers of the unit {smallest}", change, fewest)


def _of_two_systems(units: Iterable[str]) -> bool:
    """Whether the units belong to different systems, such as kg and lb, or mmol/L and mg/dL.

    >>> _of_two_systems(["kg", "lb"]), _of_two_systems(["mmol/l", "mg/dl"])
    (True, True)
    >>> _of_two_systems(["mg", "g"]), _of_two_systems(["lb", "oz"])
    (False, False)
    """
    other = [unit in _OF_OTHER_SYSTEMS for unit in units]
    are_amounts = ["mol/" in unit for unit in units]
    return len({*other}) > 1 or len({*are_amounts}) > 1

"""Numbers as people write them: with a currency or a unit, thousands between apostrophes or blanks.

"$22.76", "83.7 kg", "17'849" and "17 849" are text to a program, and names of classes if nobody
tells. So are "yes" and "no" in columns of features.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from dhsic.sources.ids import NA
from dhsic.sources.number_fields import DECIMAL, POINTS, THOUSANDS, meaning_of_commas
from dhsic.validation import is_numeral

#: A number behind a currency, or before one or a unit without digits.
_MARKED = re.compile(
    r"(?P<before>([$\u00a3\u00a5\u20ac\u20b9\u20bd\u20a9]|CHF|EUR|USD|GBP|JPY|[A-Z]?[A-Z]\$|Fr\.?)?\s?)"
    r"(?P<number>[+-]?\d[\d.,'\u2019\s]*)(?P<after>[^\d.,+\-]{0,12})"
)
#: Thousands between apostrophes or blanks, of which there are several.
_GROUPED = re.compile(r"[+-]?\d{1,3}(['\u2019\s]\d{3})+([.,]\d+)?")
#: All but digits, signs and points, in an expression that a shell leaves as it is.
_MARKS = "[^0-9.,+-]"
#: Expressions of pandas for text {v}, by what commas are.
_NUMBERS = {
    "": f"{{v}}.str.replace(r'{_MARKS}', '', regex=True)",
    DECIMAL: f"{{v}}.str.replace(r'{_MARKS}', '', regex=True).str.replace(',', '.')",
    THOUSANDS: "{v}.str.replace(r'[^0-9.+-]', '', regex=True)",
    POINTS: "{v}.str.replace(r'[^0-9,+-]', '', regex=True).str.replace(',', '.')",
}
#: Words for 1 and for 0 of two classes, in lower case.
_WORDS = (
    *(("yes", "no"), ("y", "n"), ("ja", "nein"), ("j", "n"), ("oui", "non"), ("si", "no")),
    *(("pos", "neg"), ("positive", "negative"), ("present", "absent"), ("mut", "wt")),
    *(("high", "low"), ("on", "off"), ("case", "control"), ("+", "-"), ("t", "f")),
)


def numbers_of(texts: Iterable[str]) -> str:
    """Return an expression of pandas that makes numbers of marked text {v}; "" if none does.

    Some text has a mark, and all have the same currency and unit, or none.

    >>> import pandas as pd
    >>> texts = ["$22.76", "$1,050.00", "$3.5"]
    >>> expression = numbers_of(texts).format(v="pd.Series(texts)")
    >>> eval(expression).tolist()
    ['22.76', '1050.00', '3.5']
    >>> numbers_of(["17'849", "950"]) != "", numbers_of(["a1", "b2"]), numbers_of(["1.5", "2"])
    (True, '', '')
    """
    distinct = {text.strip() for text in texts}
    distinct = {text for text in distinct if text.lower() not in NA}
    parts = [match for text in distinct if (match := _MARKED.fullmatch(text))]
    if not distinct or len(parts) < len(distinct) or all(map(is_numeral, distinct)):
        return ""
    around = {(m["before"].strip(), m["after"].strip()) for m in parts} - {("", "")}
    numbers = [m["number"].strip() for m in parts]
    plain = [re.sub(r"['\u2019\s]", "", number) for number in numbers]
    is_grouped = all(
        _GROUPED.fullmatch(number) or number == bare
        for number, bare in zip(numbers, plain, strict=True)
    )
    has_marks = bool(around) or any(map(_GROUPED.fullmatch, numbers))
    if len(around) > 1 or not is_grouped or not has_marks:
        return ""
    meaning = meaning_of_commas(plain) if any("," in number for number in plain) else ""
    if meaning not in _NUMBERS or (not meaning and any("," in number for number in plain)):
        return ""
    bare = [text.replace(",", "") for text in plain]
    return _NUMBERS[meaning] if all(number.replace(".", "").lstrip("+-") for number in bare) else ""


def words_of(texts: Iterable[str]) -> str:
    """Return an expression of pandas that makes 1 and 0 of two words {v}; "" for other text.

    >>> words_of(["yes", "No", "no"])
    "{v}.str.lower().map({{'yes': 1, 'no': 0, '': ''}})"
    """
    lower = {text.strip().lower() for text in texts} - {*NA}
    pair = next((pair for pair in _WORDS if lower and lower <= {*pair}), None)
    if pair is None:
        return ""
    return f"{{v}}.str.lower().map({{{{{pair[0]!r}: 1, {pair[1]!r}: 0, '': ''}}}})"


def command(path: str, separator: str, n_skipped: int, changes: Mapping[int, str]) -> str:
    """Command that writes a table with a header anew, by expressions for some of its columns.

    They are expressions of pandas {p} on the text of a column {v}.
    """
    sep = {"\t": r"'\t'", "": r"r'\s+'"}.get(separator, repr(separator))
    by_change: dict[str, list[int]] = {}
    for at, change in changes.items():
        by_change.setdefault(change, []).append(at)
    steps = [
        f"t[t.columns[{_places(at)}]] = t[t.columns[{_places(at)}]].apply(lambda v: "
        f"{change.format(p='p', v='v.str.strip()')})"
        for change, at in by_change.items()
    ]
    return (
        f'python -c "import pandas as p; t = p.read_csv({path!r}, sep={sep}, '
        f"skiprows={n_skipped}, dtype=str, keep_default_na=False, skipinitialspace=True); "
        f"{'; '.join(steps)}; t.to_csv('NEW.csv', index=False)\""
    )


def _places(at: Sequence[int]) -> str:
    """Columns as an index, a slice if they follow each other."""
    is_run = len(at) > 1 and at[-1] - at[0] == len(at) - 1
    return f"{at[0]}:{at[-1] + 1}" if is_run else repr([*at])

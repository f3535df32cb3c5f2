"""Numbers as people write them: with a currency or unit, or thousands separated by blanks.

Python reads "$22.76", "83.7 kg", "17'849" and "17 849" as text, so they would become class names.
The same is true of "yes" and "no" in columns of features. This module finds pandas expressions that
convert such text to numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from dhsic.sources.formulas import minus_signs
from dhsic.sources.ids import NA
from dhsic.sources.number_fields import DECIMAL, POINTS, THOUSANDS, meaning_of_commas
from dhsic.validation import is_numeral

#: Pattern of a number after a currency, or before a currency or a unit without digits.
_MARKED = re.compile(
    r"(?P<before>([$\u00a3\u00a5\u20ac\u20b9\u20bd\u20a9]|CHF|EUR|USD|GBP|JPY|[A-Z]?[A-Z]\$|Fr\.?)?\s?)"
    r"(?P<number>[+-]?\d[\d.,'\u2019\s]*)(?P<after>[^\d.,+\-]{0,12})"
)
#: Symbols of currencies; amounts without one are of the same currency.
SYMBOLS = ("$", "\u00a3", "\u00a5", "\u20ac", "\u20b9", "\u20bd", "\u20a9")
#: Pattern of the beginning of a number that is followed by other characters than digits.
_BEGUN = re.compile(r"[+\-\u2212\u2013]?[.]?\d[\d.,]*\s*[^\d\s.,].*")
#: Pattern of numbers with apostrophes or blanks as thousands separators.
_GROUPED = re.compile(r"[+-]?\d{1,3}(['\u2019\s]\d{3})+([.,]\d+)?")
#: Pattern of other characters than digits, signs, commas and points; a shell does not change it.
_MARKS = "[^0-9.,+-]"
#: Pandas expressions that convert text {v}, by the meaning of commas.
_NUMBERS = {
    "": f"{{v}}.str.replace(r'{_MARKS}', '', regex=True)",
    DECIMAL: f"{{v}}.str.replace(r'{_MARKS}', '', regex=True).str.replace(',', '.')",
    THOUSANDS: "{v}.str.replace(r'[^0-9.+-]', '', regex=True)",
    POINTS: "{v}.str.replace(r'[^0-9,+-]', '', regex=True).str.replace(',', '.')",
}
#: Pairs of words for two classes, in lower case: the first means 1, the second 0.
_WORDS = (
    *(("yes", "no"), ("y", "n"), ("ja", "nein"), ("j", "n"), ("oui", "non"), ("si", "no")),
    *(("pos", "neg"), ("positive", "negative"), ("present", "absent"), ("mut", "wt")),
    *(("high", "low"), ("on", "off"), ("case", "control"), ("+", "-"), ("t", "f")),
    *(("female", "male"), ("f", "m")),
)
#: Values beyond a limit of measurement: "<4.5", "> 100", "90+"; and a pandas expression that
#: replaces values below a limit by half the limit, and values above by the limit. Other text {v}
#: stays.
LIMIT = re.compile(r"[<>]=?\s*-?\d+([.]\d*)?|[<>]=?\s*-?[.]\d+|\d+([.]\d*)?\s?[+]")
AT_LIMIT = (
    "{v}.where(~{v}.str.contains('^[<>]|[0-9] ?[+]$'), ({p}.to_numeric({v}.str.strip('<>=+ '), "
    "errors='coerce') / (1 + {v}.str.startswith('<'))).astype(str))"
)
#: Negative numbers in parentheses, "(0.75)", and a pandas expression for them.
IN_PARENTHESES = re.compile(r"\(\s*\d[\d.,]*\s*\)")
WITH_MINUS = "{v}.str.replace(r'^[(] *([0-9.,]+) *[)]$', r'-\\1', regex=True)"
#: Two numbers in one field, such as a blood pressure of 135/86, and the first of them.
PAIR = re.compile(r"\d+([.]\d+)?\s*/\s*\d+([.]\d+)?")
FIRST_OF_PAIR = "{v}.str.split('/').str[0]"
#: Explanation after the command that writes half the limit.
ABOUT_LIMITS = (
    "(this writes half the limit for values below it, and the limit for values above; to write "
    "the limit itself, delete: / (1 + v.str.strip().str.startswith('<')))"
)


def numbers_of(texts: Iterable[str], *, beside_numbers: bool = False) -> str:
    """Return a pandas expression that converts text with units, {v}, to numbers.

    At least one text must have a currency, a unit or thousands separators, and all texts must have
    the same currency or unit. Otherwise the result is "". It is also "" if only some numbers have a
    unit, because the others may have another unit. `beside_numbers` means that the column contains
    numbers without a unit in addition to `texts`.

    >>> import pandas as pd
    >>> texts = ["$22.76", "$1,050.00", "$3.5"]
    >>> expression = numbers_of(texts).format(v="pd.Series(texts)")
    >>> eval(expression).tolist()
    ['22.76', '1050.00', '3.5']
    >>> numbers_of(["17'849", "950"]) != "", numbers_of(["a1", "b2"]), numbers_of(["1.5", "2"])
    (True, '', '')
    >>> numbers_of(["14 mo", "2.3"]), numbers_of(["14 mo"], beside_numbers=True)
    ('', '')
    """
    distinct = {text.strip() for text in texts}
    distinct = {text for text in distinct if text.lower() not in NA}
    parts = [match for text in distinct if (match := _MARKED.fullmatch(text))]
    if not distinct or len(parts) < len(distinct) or all(map(is_numeral, distinct)):
        return ""
    around = {(m["before"].strip(), m["after"].strip()) for m in parts}
    has_unit = any(after and not after.startswith(SYMBOLS) for _, after in around)
    if has_unit and (beside_numbers or any(not after for _, after in around)):
        return ""
    around -= {("", "")}
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


def begin_with_numbers(texts: Iterable[str]) -> bool:
    """Whether all texts begin with a number that is followed by a unit or mark, such as mg or *.

    >>> begin_with_numbers(["6.65*", "0.3 mg"]), begin_with_numbers(["6.65", "a1"])
    (True, False)
    """
    return all(map(_BEGUN.fullmatch, texts))


def words_of(texts: Iterable[str]) -> str:
    """Return a pandas expression that converts words {v}, such as yes and no, to 1 and 0.

    The result is "" if the texts are not a known pair of words.

    >>> words_of(["yes", "No", "no"])
    "{v}.str.lower().map({{'yes': 1, 'no': 0, '': ''}})"
    """
    lower = {text.strip().lower() for text in texts} - {*NA}
    pair = next((pair for pair in _WORDS if lower and lower <= {*pair}), None)
    if pair is None:
        return ""
    return f"{{v}}.str.lower().map({{{{{pair[0]!r}: 1, {pair[1]!r}: 0, '': ''}}}})"


def command(
    path: str,
    separator: str,
    n_skipped: int,
    changes: Mapping[int, str],
    groups: Mapping[int, str] | None = None,
    *,
    axis: int = 0,
) -> str:
    """Return a shell command that writes a copy of a table with changed columns.

    The table has a header. `changes` contains a pandas expression per column position; {p} is
    pandas and {v} the text of the column, or of each row if `axis` is 1. `groups` contains the
    positions of categorical columns, each with an expression that is true where the category {v} is
    missing. The command replaces each of them by dummy variables, one column per category: 1 in
    samples of the category, 0 in other samples, and empty where the category is missing.
    """
    sep = {"\t": r"'\t'", "": r"r'\s+'"}.get(separator, repr(separator))
    by_change: dict[str, list[int]] = {}
    for at, change in changes.items():
        by_change.setdefault(change, []).append(at)
    steps = [
        f"t[t.columns[{_places(at)}]] = t[t.columns[{_places(at)}]].apply(lambda v: "
        f"{change.format(p='p', v='v.str.strip()')}{', axis=1' if axis else ''})"
        for change, at in by_change.items()
    ]
    if groups:
        steps.append(_dummies(groups))
    return (
        f'python -c "import pandas as p; t = p.read_csv({path!r}, sep={sep}, '
        f"skiprows={n_skipped}, dtype=str, keep_default_na=False, skipinitialspace=True); "
        f"{minus_signs(path)}{'; '.join(steps)}; t.to_csv('NEW.csv', index=False)\""
    )


def _dummies(groups: Mapping[int, str]) -> str:
    """Return Python code that replaces categorical columns of a table t by dummy variables.

    `groups` contains their positions, each with an expression for its missing values.
    """
    by_missing: dict[str, list[int]] = {}
    for at, is_missing in sorted(groups.items()):
        by_missing.setdefault(is_missing.format(v="v"), []).append(at)
    columns = ", ".join(
        f"*(dummies(v, {is_missing}) for v in [t[c].str.strip() for c in t.columns[{_places(at)}]])"
        for is_missing, at in by_missing.items()
    )
    return (
        "dummies = lambda v, gone: p.get_dummies(v.mask(gone), prefix=v.name, dtype=int).mask(gone)"
        f"; t = p.concat([t.drop(columns=t.columns[{_places(sorted(groups))}]), {columns}], axis=1)"
    )


def unique_names(path: str, separator: str, n_skipped: int) -> str:
    """Return a shell command that writes a table with unique row names: GENE, GENE.1, ..."""
    sep = {"\t": r"'\t'", "": r"r'\s+'"}.get(separator, repr(separator))
    return (
        f'python -c "import pandas as p; t = p.read_csv({path!r}, sep={sep}, '
        f"skiprows={n_skipped}, header=None, dtype=str, keep_default_na=False, "
        "skipinitialspace=True); c = t[0].str.strip(); n = t.groupby(c).cumcount().astype(str); "
        "t[0] = c.where(n == '0', c.replace('', 'unnamed') + '.' + n); "
        "t.to_csv('NEW.csv', index=False, header=False)\", then pass NEW.csv."
    )


def _places(at: Sequence[int]) -> str:
    """Return column positions as Python code: a slice if they are contiguous, else a list."""
    ordered = sorted(at)
    is_run = len(at) > 1 and ordered[-1] - ordered[0] == len(at) - 1
    return f"{ordered[0]}:{ordered[-1] + 1}" if is_run else repr(ordered)

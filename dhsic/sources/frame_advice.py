"""Advice in Python on text among numbers, in columns of a DataFrame and in labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd

from dhsic.sources.ids import NA
from dhsic.sources.marked_numbers import AT_LIMIT
from dhsic.sources.number_fields import DECIMAL, POINTS, SEVERAL, THOUSANDS, meaning_of_commas
from dhsic.sources.odd_fields import MOST_DESCRIBED, OddFields
from dhsic.sources.thousands import PointedNumbers

#: Pandas expressions that convert the text {v} of numbers with commas, by their meaning.
_COMMAS = {
    DECIMAL: "{v}.str.replace(',', '.')",
    THOUSANDS: "{v}.str.replace(',', '')",
    POINTS: "{v}.str.replace('.', '', regex=False).str.replace(',', '.')",
}
#: Pandas expressions for the days since 1970 of dates {v}, and the seconds of durations.
_DAYS = "({v} - pandas.Timestamp(0, tz={v}.dt.tz)) / pandas.Timedelta(days=1)"
_SECONDS = "{v}.dt.total_seconds()"


def numbers_in_python(columns: Sequence[OddFields], texts: Iterable[str]) -> list[tuple[str, str]]:
    """Return pandas expressions that convert text {v} among numbers, with their meaning.

    Parameters
    ----------
    columns : sequence of OddFields
        Columns that contain text.
    texts : iterable of str
        All values of these columns.

    Returns
    -------
    Pairs of an expression and a sentence on what it does; none if text has no meaning as numbers.
    """
    limit = next((text for column in columns for text in column.limits), "")
    has_commas = any(column.commas for column in columns)
    if limit:
        change = AT_LIMIT.format(p="pandas", v="{v}.str.strip()")
        what = f"{limit!r} means that a value is beyond a limit. Half the limit for values below it"
        return [(change, f"{what}, and the limit for values above:")]
    if not has_commas:
        return []
    meaning = meaning_of_commas(texts)
    if meaning == SEVERAL:
        return []
    if meaning:
        return [(_COMMAS[meaning], "Numbers with decimal points, and no other marks:")]
    return [
        (_COMMAS[DECIMAL], "If commas are decimal marks:"),
        (_COMMAS[THOUSANDS], "If commas separate thousands:"),
    ]


def as_numbers_of(expression: str, values: str) -> str:
    """Return Python code that converts text to numbers by a pandas expression; NaN for other text.

    `values` is an expression for a series of the text.
    """
    return f"pandas.to_numeric({expression.format(v=f'{values}.astype(str)')}, errors='coerce')"


def about_columns(X: pd.DataFrame) -> str:
    """Return a description of the non-numeric columns of a frame, with advice."""
    dated = {name: change for name in X.columns if (change := _of_time(X, name))}
    others = [k for k, name in enumerate(X.columns) if name not in dated]
    columns = [_text_of(X.iloc[:, k]) for k in others]
    few = [c for c in columns if c.are_few or _are_numbers(c)]
    numerals = [c.name for c in columns if c.is_numeral]
    text_columns = [c.name for c in columns if c not in few and not c.is_numeral]
    sentences = ["are not numbers.", *(column.sentence for column in few[:MOST_DESCRIBED])]
    sentences += _about_few(X, few)
    thousands = [name for name in numerals if _pointed(X[name]).may_separate_thousands]
    if thousands:
        sentences.append(
            f"In {thousands[0]!r} {_pointed(X[thousands[0]]).sentence} If the points separate "
            f"thousands, remove them first: X[{thousands!r}] = "
            f"X[{thousands!r}].replace(r'\\.', '', regex=True)."
        )
    if numerals:
        sentences.append(
            f"Convert text that contains numbers: X[{numerals!r}] = X[{numerals!r}].astype(float)."
        )
    for change in dict.fromkeys(dated.values()):
        names = [name for name in dated if dated[name] == change]
        what = "dates to days" if change == _DAYS else "durations to seconds"
        sentences.append(
            f"Convert {what}: X[{names!r}] = X[{names!r}].apply(lambda v: {change.format(v='v')}). "
            f"Or drop them: X = X.drop(columns={names!r})."
        )
    if text_columns:
        sentences.append(
            f"Drop non-numeric columns, X = X.drop(columns={text_columns!r}), or encode "
            f"categories: X = pandas.get_dummies(X, columns={text_columns!r})."
        )
    return " ".join(sentences)


def _about_few(X: pd.DataFrame, few: Sequence[OddFields]) -> list[str]:
    """Return advice on columns of numbers in which some fields are text."""
    if not few:
        return []
    names = [column.name for column in few]
    texts = (str(value).strip() for name in names for value in X[name].to_numpy().ravel())
    statements = [
        f"{sentence} X[{names!r}] = X[{names!r}].apply(lambda v: {as_numbers_of(change, 'v')})."
        for change, sentence in numbers_in_python(few, texts)
    ]
    if statements:
        return [*statements, "pandas.to_numeric alone would make these values missing."]
    coerced = f"X[{names!r}] = X[{names!r}].apply(pandas.to_numeric, errors='coerce')"
    return [f"{coerced} replaces text by NaN (missing)."]


def _are_numbers(column: OddFields) -> bool:
    """Whether all texts of a column are numbers with commas, or values beyond a limit."""
    return 0 < len(column.places) == len({*column.limits, *column.commas})


def _of_time(X: pd.DataFrame, name: object) -> str:
    """Return a pandas expression that converts a column of dates or durations; "" for others."""
    kind = getattr(getattr(X[name], "dtype", None), "kind", "")
    return {"M": _DAYS, "m": _SECONDS}.get(str(kind), "")


def _pointed(column: pd.Series) -> PointedNumbers:
    """Parse the texts of a column, or of columns with the same name, as numbers with points.

    Missing values are skipped. The result shows whether the points may separate thousands.
    """
    texts = [str(value).strip() for value in column.to_numpy().ravel().tolist()]
    return PointedNumbers.of(text for text in texts if text.lower() not in NA)


def _text_of(column: pd.Series) -> OddFields:
    """Collect the texts of a column that are not missing."""
    odd = OddFields(f"column {column.name!r}", column.name)
    for at, value in zip(column.index, column.tolist(), strict=True):
        text = value.strip() if isinstance(value, str) else str(value)
        if not (pd.isna(value) or text.lower() in NA):
            odd.add(text, f"in row {at!r}")
    return odd

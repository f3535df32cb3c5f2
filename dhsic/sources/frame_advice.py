"""Advice in Python code on text among numbers, in columns of a DataFrame and in labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import pandas as pd

from dhsic.sources.ids import NA, abbreviate
from dhsic.sources.marked_numbers import AT_LIMIT
from dhsic.sources.number_fields import DECIMAL, POINTS, SEVERAL, THOUSANDS, meaning_of_commas
from dhsic.sources.odd_fields import MOST_DESCRIBED, MOST_OPTIONS, OddFields, marks_in
from dhsic.sources.text_features import (
    OF_CODES,
    OF_LETTERS,
    about_dosages,
    about_words,
    are_bases,
    of_calls,
)
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
    """Return pandas expressions that convert columns of numbers and text {v} to numbers.

    Parameters
    ----------
    columns : sequence of OddFields
        Columns that contain text.
    texts : iterable of str
        All values of these columns.

    Returns
    -------
    Pairs of an expression and a sentence that introduces it; [] if the text does not mean numbers.
    """
    limit = next((text for column in columns for text in column.limits), "")
    has_commas = any(column.commas for column in columns)
    if limit:
        change = AT_LIMIT.format(p="pandas", v="{v}.str.strip()")
        what = f"{limit!r} means that a value is beyond a limit. To use half the limit for values"
        return [(change, f"{what} below it, and the limit for values above:")]
    quantities = [of for column in columns if (of := column.quantities)]
    if quantities and len(quantities) == len(columns):
        change = quantities[0].change.replace("{p}", "pandas")
        are_alike = all(of.change == quantities[0].change for of in quantities)
        return [(change, f"To write {quantities[0].unit}:")] if are_alike else []
    if not has_commas:
        return []
    meaning = meaning_of_commas(texts)
    if meaning == SEVERAL:
        return []
    if meaning:
        return [(_COMMAS[meaning], "To write numbers with decimal points and no other marks:")]
    return [
        (_COMMAS[DECIMAL], "If commas are decimal marks:"),
        (_COMMAS[THOUSANDS], "If commas separate thousands:"),
    ]


def as_numbers_of(expression: str, values: str) -> str:
    """Return Python code that applies a pandas `expression` and converts the result to numbers.

    Text that is no number becomes NaN. `values` is Python code for the series of text.
    """
    return f"pandas.to_numeric({expression.format(v=f'{values}.astype(str)')}, errors='coerce')"


def about_columns(X: pd.DataFrame) -> str:
    """Return the end of a message on the non-numeric columns of a frame, with advice."""
    dated = {name: change for name in X.columns if (change := _of_time(X, name))}
    others = [k for k, name in enumerate(X.columns) if name not in dated]
    columns = [_text_of(X.iloc[:, k]) for k in others]
    of_kind: dict[str, list[OddFields]] = {kind: [] for kind in (*_ADVICE, "few", "numerals")}
    have_codes = any(column.dosages == OF_CODES for column in columns)
    for column in columns:
        is_code = have_codes and bool(column.places) and are_bases(column.places)
        of_kind["codes" if is_code else _kind(column)].append(column)
    few, numerals = of_kind["few"], [c.name for c in of_kind["numerals"]]
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
        sentences.append(_about_numerals(X, numerals))
    for change in dict.fromkeys(dated.values()):
        names = [name for name in dated if dated[name] == change]
        what = "dates to days" if change == _DAYS else "durations to seconds"
        sentences.append(
            f"Convert {what}: X[{names!r}] = X[{names!r}].apply(lambda v: {change.format(v='v')}). "
            f"Or drop them: X = X.drop(columns={names!r})."
        )
    text_columns = [c.name for kind in _ADVICE for c in of_kind[kind]]
    if text_columns:
        listed = _listed(text_columns, X)
        sentences.append(f"Drop columns that are not features: X = X.drop(columns={listed}).")
    for kind, advice in _ADVICE.items():
        if of_kind[kind]:
            sentences.append(advice(of_kind[kind], _listed([c.name for c in of_kind[kind]], X)))
    return " ".join(sentences)


def _about_numerals(X: pd.DataFrame, names: list[str]) -> str:
    """Return advice on columns of objects or text that contain only numbers and missing values.

    The advice names words for missing values, because ``astype`` does not convert them.
    """
    listed = _listed(names, X)
    gone = [
        f"column {name!r} has {value!r} in row {at!r}"
        for name in names
        for at, value in _cells(X[name])
        if value is pd.NA or (isinstance(value, str) and value.strip().lower() in NA)
    ]
    how, which = "astype(float)", ""
    if gone:
        how = "apply(pandas.to_numeric, errors='coerce')"
        which = f" Missing values become NaN: {abbreviate(gone, MOST_DESCRIBED)}."
    return f"Convert text that contains numbers: X[{listed}] = X[{listed}].{how}.{which}"


def _cells(columns: pd.Series | pd.DataFrame) -> Iterable[tuple[object, object]]:
    """Return pairs of row name and value of a column, or of all columns with the same name."""
    each = [columns] if isinstance(columns, pd.Series) else [v for _, v in columns.items()]
    return ((at, value) for v in each for at, value in zip(v.index, v.tolist(), strict=True))


def _kind(column: OddFields) -> str:
    """Return the kind of a text column, which determines the advice: a key of `_ADVICE`, or other.

    The other kinds are "few" (numbers with some text) and "numerals" (numbers written as text).
    """
    if column.dosages:
        return {OF_LETTERS: "letters", OF_CODES: "codes"}.get(column.dosages, "calls")
    if column.are_few or _are_numbers(column):
        return "few"
    if column.is_numeral:
        return "numerals"
    return "check boxes" if column.is_check_box else "groups"


def _listed(names: list[str], X: pd.DataFrame) -> str:
    """Return Python code for a list of column names, or code that selects all text columns of X."""
    if len(names) == X.shape[1] > MOST_OPTIONS:
        return "X.select_dtypes(exclude=['number', 'bool']).columns"
    return repr(names)


def _about_genotypes(columns: Sequence[OddFields], names: str) -> str:
    """Return advice on columns of genotypes, given Python code for their names."""
    change = next(column.dosages for column in columns if column.dosages)
    texts = [text for column in columns for text in column.places]
    if change not in (OF_LETTERS, OF_CODES):
        change = of_calls({*texts})
    about = " ".join(filter(None, (about_dosages(change), about_words(texts))))
    return (
        f"{about} X[{names}] = X[{names}]"
        f".apply(lambda v: {change.format(v='v.astype(str).str.strip()')})."
    )


def _about_boxes(columns: Sequence[OddFields], names: str) -> str:
    """Return advice on columns that contain one word or nothing, such as check boxes."""
    words, first = sorted({t for c in columns for t in c.places}), (c.name for c in columns)
    return (
        f"If a missing value in {abbreviate(map(repr, first), MOST_DESCRIBED)} means no, write 1 "
        f"and 0: X[{names}] = X[{names}].isin({words!r}).astype(int)."
    )


def _about_groups(columns: Sequence[OddFields], names: str) -> str:
    """Return advice on columns of categories: code that encodes them."""
    gone = f"v.astype(str).str.strip().str.lower().isin({sorted(NA)!r})"
    dummies = "pandas.get_dummies(v.mask(gone), prefix=k, dtype=int).mask(gone)"
    return (
        "Encode categories as columns of 0 and 1, with missing values where the category is "
        f"missing: X = pandas.concat([X.drop(columns={names}), *({dummies} for k, v in "
        f"X[{names}].items() "
        f"for gone in [v.isna() | {gone}])], axis=1). {_about_marks(columns)}".rstrip()
    )


def _about_marks(columns: Sequence[OddFields]) -> str:
    """Return advice on texts without letters or digits, such as ?, in columns of categories."""
    marks = marks_in(columns)
    if not marks:
        return ""
    return (
        f"If {abbreviate(map(repr, marks), MOST_DESCRIBED)} means missing, replace it first: X = "
        f"X.replace({marks!r}, numpy.nan)."
    )


#: Functions that give advice on columns, by their kind.
_ADVICE: Mapping[str, Callable[[Sequence[OddFields], str], str]] = {
    "letters": _about_genotypes,
    "codes": _about_genotypes,
    "calls": _about_genotypes,
    "check boxes": _about_boxes,
    "groups": _about_groups,
}


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
    """Parse the texts of a column, or of all columns with the same name, as numbers with points.

    The result says whether the points may separate thousands. Missing values are skipped.
    """
    texts = [str(value).strip() for value in column.to_numpy().ravel().tolist()]
    return PointedNumbers.of(text for text in texts if text.lower() not in NA)


def _text_of(column: pd.Series) -> OddFields:
    """Collect the texts of a column and their rows, without missing values."""
    odd = OddFields(f"column {column.name!r}", column.name)
    for at, value in zip(column.index, column.tolist(), strict=True):
        text = value.strip() if isinstance(value, str) else str(value)
        is_missing = pd.isna(value) or text.lower() in NA
        odd.n_empty += is_missing
        if not is_missing:
            odd.add(text, f"in row {at!r}")
    return odd

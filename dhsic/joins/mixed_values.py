"""Checks of labels and covariates: numbers mixed with text, such as typing errors, and dates."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

from dhsic._typing import Array
from dhsic.errors import InputError, warn
from dhsic.joins.class_names import (
    MAY_BE_CLASS,
    NO_VALUE,
    refuse_alike,
    refuse_words,
    words_told,
)
from dhsic.joins.frame_rows import id_columns
from dhsic.joins.lookalikes import refuse_lookalikes
from dhsic.joins.spellings import refuse_spellings
from dhsic.joins.text import WRITTEN, stands_for_none
from dhsic.sources.dates import refuse_date_objects, refuse_dates
from dhsic.sources.frame_advice import as_numbers_of, numbers_in_python
from dhsic.sources.ids import abbreviate
from dhsic.sources.measured_text import MEASURED, refuse_measured
from dhsic.sources.odd_fields import OddFields
from dhsic.sources.other_frames import columns_of
from dhsic.sources.quantities import refuse_quantities
from dhsic.sources.rewriting import WrittenColumn
from dhsic.validation import is_numeral

#: Words, in lower case, that mean a missing value among numbers.
NOT_THERE = NO_VALUE | MAY_BE_CLASS
#: Types of values that become classes; other numbers are compared as numbers.
BOOLEAN_OR_TEXT = bool | np.bool_ | str


def text_among_numbers(
    called: str, name: str, values: Array, place: Callable[[int], str]
) -> OddFields:
    """Collect the values of a column (m,) that are not numbers, except missing values.

    `place` describes the position of a row, for messages.
    """
    odd = OddFields(called, name)
    for i, value in enumerate(values.tolist()):
        text = value.strip() if isinstance(value, str) else str(value)
        if not (pd.isna(value) or stands_for_none(text)):
            odd.add(text, place(i))
    return odd


def is_measured(odd: OddFields, values: Array) -> bool:
    """Whether a column of numbers and some text contains measurements rather than group names.

    It does if it has at least `MEASURED` distinct numbers. Fewer numbers may be names of groups,
    unless a text means a missing value.
    """
    if odd.places and _are_written(values):
        return True
    are_limits = 0 < len(odd.places) == len(odd.limits)
    if not (odd.are_few or are_limits):
        return False
    numbers = {float(text) for text in map(str, values.tolist()) if is_numeral(text)}
    return len(numbers) >= MEASURED or any(text.lower() in NOT_THERE for text in odd.places)


def _are_written(values: Array) -> bool:
    """Whether all texts (m,) are numbers, possibly with decimal commas or percent signs."""
    texts = {str(value).strip() for value in values.tolist() if isinstance(value, str)}
    texts = {text for text in texts if text and not stands_for_none(text)}
    return bool(texts) and all(map(WRITTEN.fullmatch, texts))


def refuse_mixed_covariate(name: str, values: Array, place: Callable[[int], str]) -> None:
    """Refuse a covariate of a table if it has numbers and some text.

    `place` describes the position of a row, for messages.
    """
    odd = text_among_numbers(f"covariate {name!r}", name, values, place)
    if not is_measured(odd, values):
        return
    markers = list(dict.fromkeys((*odd.limits, *odd.markers)))
    na = " ".join(f"--na {shlex.quote(f'{name}={text}')}" for text in markers)
    missing = f" If these values are missing, use {na} --drop-missing." if na else ""
    raise InputError(
        f"{odd.sentence} Replace them by numbers, with decimal points.{missing} If all values "
        "are names of groups, begin each with a letter."
    )


def check_mixed(called: str, given: Any) -> None:
    """Refuse labels or covariates, (m,) or (m, q), that mix numbers and text, or are dates.

    `given` is the object passed in Python, and `called` is the name of its parameter. Pandas
    categories are always names. Id columns are not checked.
    """
    frame = given if isinstance(given, pd.DataFrame) else _columns_of(given)
    if frame is None:
        return
    ids = id_columns(frame)
    for k, name in enumerate(frame.columns):
        column = frame.iloc[:, k]
        are_names = isinstance(column.dtype, pd.CategoricalDtype) or name in ids
        if are_names or column.dtype.kind in "biufc":
            continue
        if isinstance(given, pd.DataFrame):
            one = f"{columns_of(given, called)}[{name!r}]"
        else:
            is_flat = np.asarray(given, dtype=object).ndim == 1  # lists may be ragged
            one = called if is_flat else f"{called}[:, {k}]"
        category = f"declare categories: pandas.Series({one}, dtype='category')"
        refuse_date_objects(WrittenColumn(one, "", values=one), column, category)
        _check_types(one, np.asarray(column.to_numpy(), dtype=object))


def _check_types(one: str, values: Array) -> None:
    """Refuse values (m,) that mix numbers and text; `one` is a Python expression for them."""
    has_text = any(isinstance(value, str) for value in values)
    has_numbers = any(not (isinstance(value, str) or pd.isna(value)) for value in values)
    if has_numbers:
        _refuse_types(one, values)
    if not has_text:
        return
    text = np.array(["" if pd.isna(v) else str(v).strip() for v in values], dtype=object)
    text = np.array(["" if stands_for_none(t) else t for t in text], dtype=object)
    category = f"declare categories: pandas.Series({one}, dtype='category')"
    series = f"{one}, dtype=str" if has_numbers else one
    refuse_quantities(WrittenColumn(one, "", values=series), text, "group", category)
    odd = text_among_numbers(one, one, values, lambda i: f"in row {i}")
    if is_measured(odd, values):
        raise InputError(
            f"{odd.sentence} {_as_numbers(odd, one, values)}If all values are names of groups, "
            f"declare them as categories: pandas.Series({one}, dtype='category')."
        )
    check_names(one, values)


def _refuse_types(one: str, values: Array) -> None:
    """Refuse values (m,) in which one number has several types, such as 1.0, "1" and True.

    As text, they would be different classes. Numbers of all types but booleans are equal.
    """
    several = _types_of_numbers(values)
    if not several:
        return
    series = f"pandas.Series({one}, dtype=object)"
    numbers = f"pandas.to_numeric({series}, errors='coerce')"
    texts = {value.strip() for value in values.tolist() if isinstance(value, str)}
    if all(is_numeral(text) or stands_for_none(text) for text in texts):
        remedy = f"Convert all values to numbers: pass {numbers}"
    else:
        text = f"{series}.where({numbers}.isna(), {numbers}.astype(str))"
        remedy = f"Write each number in one way: pass {text}"
    shown = abbreviate((" and ".join(map(repr, group)) for group in several), 3)
    raise InputError(
        f"Some values of {one} are equal numbers of different types ({shown}). They would be "
        f"different classes or groups. {remedy}."
    )


def _types_of_numbers(values: Array) -> list[list[Any]]:
    """Return groups of equal values (m,) that differ as text; [] if all are numbers.

    >>> _types_of_numbers(np.array([1.0, "1", 2, "2", True], dtype=object))
    [[1.0, '1', True]]
    >>> _types_of_numbers(np.array([1.0, 1, 2], dtype=object))
    []
    """
    groups: dict[float, dict[str, Any]] = {}
    for value in values.tolist():
        is_text = isinstance(value, str)
        if (is_text and not is_numeral(value)) or not isinstance(value, Real | BOOLEAN_OR_TEXT):
            continue
        groups.setdefault(float(value), {}).setdefault(str(value).strip(), value)
    several = [[*group.values()] for group in groups.values() if len(group) > 1]
    return [group for group in several if any(isinstance(v, BOOLEAN_OR_TEXT) for v in group)]


def _as_numbers(odd: OddFields, one: str, values: Array) -> str:
    """Return advice on how to convert labels (m,) with text to numbers, and a trailing space.

    `one` is a Python expression for the labels.
    """
    series = f"pandas.Series({one})"
    changes = numbers_in_python([odd], (str(value).strip() for value in values.tolist()))
    if changes:
        return "".join(
            f"{sentence} pass {as_numbers_of(change, series)}. " for change, sentence in changes
        )
    return (
        f"Pass numbers: pandas.to_numeric({one}, errors='coerce') replaces text by NaN; then "
        "remove the samples with NaN, or fill in their values. "
    )


def check_names(called: str, values: Array, *, are_apart: bool = False) -> None:
    """Refuse class or group names (m,) that cannot be names, and warn of doubtful ones.

    Refused are words for a missing value, dates, several spellings of one name, and, unless
    `are_apart`, names that differ only in case. `called` is a Python expression for the values.

    Raises
    ------
    InputError
        A name is invalid. The message lists the names, and advises to pass pandas categories if
        they are correct.
    """
    if not all(isinstance(v, str | int | float) or pd.isna(v) for v in values):
        return
    are_text = all(isinstance(v, str) or pd.isna(v) for v in values)
    text = np.array(["" if pd.isna(v) else str(v).strip() for v in values], dtype=object)
    text = np.array(["" if stands_for_none(t) else t for t in text], dtype=object)
    category = f"declare categories: pandas.Series({called}, dtype='category')"

    def remedy(words: list[str]) -> str:
        are = "it is a real name" if len(words) == 1 else "they are real names"
        one = f"pandas.Series({called}){'' if are_text else '.astype(str)'}"
        return (
            f"Exclude these samples: keep = ~{one}.isin({words!r}).to_numpy() selects the "
            f"others. If {are}, {category}."
        )

    refuse_words(called, text, remedy)
    if sentence := words_told(called, text):
        warn(f"{sentence}.")
    refuse_spellings(
        WrittenColumn(called, "", values=called if are_text else f"{called}, dtype=str"),
        text,
        category,
    )
    if not are_text:
        return
    column = WrittenColumn(called, "", values=called)
    refuse_dates(column, text, "group", category)
    refuse_measured(column, text, "group", category)
    refuse_lookalikes(column, text, category)
    if not are_apart:
        refuse_alike(f"Values of {called}", "names", text[text != ""], f"otherwise {category}.")


def _columns_of(given: Any) -> pd.DataFrame | None:
    """Return the columns of a series, or of an array of objects or text; None for other input."""
    if isinstance(given, pd.Series):
        return given.to_frame()
    if isinstance(given, pd.Index | pd.api.extensions.ExtensionArray):
        return pd.Series(given).to_frame()
    if isinstance(given, np.ndarray | list | tuple):
        values = np.asarray(given, dtype=object if not isinstance(given, np.ndarray) else None)
        if values.dtype.kind in "OUT" and 0 < values.ndim <= 2:
            return pd.DataFrame(values.astype(object))
    return None

"""Covariates as numeric columns: numbers unchanged, text as indicators of its groups."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pandas as pd

from dhsic._typing import Array
from dhsic.errors import InputError, warn
from dhsic.joins.frame_rows import id_columns, values_of
from dhsic.joins.text import is_missing, typed
from dhsic.kernels.labels import MOST_CLASSES, OF_A_CLASS
from dhsic.sources.ids import abbreviate
from dhsic.validation import refuse_dtype

#: Maximum number of distinct whole numbers of a covariate that may be codes for groups. Two groups
#: give the same test as one number.
MOST_CODES = 20
#: Words in names of covariates that are numbers of things, such as plates, and not measured.
THINGS_WITH_CODES = re.compile(
    r"(?<![a-z])(plate|batch|site|cent(er|re)|run|lane|array|chip|cohort|ward|hospital|donor|flowcell"
    r"|library|operator|technician|scanner|clinic|study|country|region|postcode|zip)"
    r"(?=$|[^a-z]|s\b|id|no|nr|num|code)",
    re.IGNORECASE,
)


def covariates_of(given: Any) -> Array:
    """Return covariates as numbers (m, q), without id columns; text becomes indicators."""
    values = values_of(given, "covariates")
    if hasattr(given, "iloc"):
        frame = given.to_frame() if given.ndim == 1 else given.drop(columns=id_columns(given))
    else:
        frame = pd.DataFrame(values) if values.ndim <= 2 else pd.DataFrame()
    columns = [frame.iloc[:, k] for k in range(frame.shape[1])]
    numbers = [(column.name, _column(column)) for column in columns if not _is_group(column)]
    as_groups = "pass frame.astype({{{name!r}: 'category'}})"
    warn_of_codes(numbers, as_groups.format)
    if not any(map(_is_group, columns)):
        return values
    return np.column_stack([design_of(str(column.name), _column(column)) for column in columns])


def _is_group(column: pd.Series) -> bool:
    """Whether a column is categorical or contains text."""
    is_text = isinstance(column.dtype, pd.CategoricalDtype | pd.StringDtype)
    return is_text or (column.dtype.kind == "O" and any(isinstance(v, str) for v in column))


def _column(column: pd.Series) -> Array:
    """Return the values of a column: numbers, or text of its groups, even if these are "0", "1"."""
    if not _is_group(column):
        return np.asarray(column.to_numpy())
    return np.asarray(column.astype(object).where(column.notna(), "").to_numpy(), dtype=str)


def design_of(name: str, values: Array) -> Array:
    """Convert a raw column or coordinates to numeric columns; InputError if values are missing."""
    column = typed(values)
    missing = is_missing(column)
    n = int((missing if missing.ndim == 1 else missing.any(axis=1)).sum())
    if n:
        raise InputError(
            f"Covariate {name!r} is missing for {n} of {len(column)} samples. Remove these "
            "samples from the data and the labels, or fill in the values (CLI: --drop-missing)."
        )
    return design(name, column)


def may_be_codes(values: Array, name: object = "") -> bool:
    """Whether a numeric covariate (m,) has few distinct values that may be codes for groups.

    Codes are whole numbers, or numbers with one decimal, such as 1.1, 1.2 and 2.1 for a site and a
    batch. If the `name` suggests codes, such as "plate" (`THINGS_WITH_CODES`), many distinct whole
    numbers are codes, too.

    >>> may_be_codes(np.repeat([11000, 11001, 11004], 5)), may_be_codes(np.repeat([0, 1], 5))
    (True, False)
    >>> may_be_codes(np.repeat([1.1, 1.2, 2.1], 5)), may_be_codes(np.repeat([1.15, 1.2, 2.1], 5))
    (True, False)
    >>> plates = np.repeat(np.arange(40), 2)
    >>> may_be_codes(plates, "plate_nr"), may_be_codes(plates, "age")
    (True, False)
    """
    if values.ndim != 1 or values.dtype.kind not in "iuf":
        return False
    distinct = np.unique(values)
    n, is_whole = len(distinct), bool((distinct == np.floor(distinct)).all())
    if n <= 2 or not _have_one_decimal(distinct):
        return False
    if is_whole and names_codes(name):
        return n < values.size
    return n <= MOST_CODES and OF_A_CLASS * n <= values.size


def _have_one_decimal(distinct: Array) -> bool:
    """Whether all numbers are finite and have at most one decimal."""
    tenths = distinct * 10.0
    return bool(np.isfinite(tenths).all() and np.isclose(tenths, np.rint(tenths), 0, 1e-6).all())


def _have_two_counts(distinct: Array) -> bool:
    """Whether sorted numbers consist of two counts, such as site and batch: 1.1, 1.2, 2.1, ...

    The decimals of each whole number count up from 0 or from 1. Measurements such as 36.9 and 37.0
    begin at any decimal and contain all decimals.
    """
    parts, decimals = np.divmod(np.rint(distinct * 10.0).astype(np.int64), 10)
    first = decimals[np.searchsorted(parts, parts)]
    counts = decimals - first == np.arange(len(parts)) - np.searchsorted(parts, parts)
    is_first_equal = bool((first == first[0]).all()) and first[0] in (0, 1)
    are_several = 1 <= parts[0] < parts[-1] and bool((decimals > first).any())
    return bool(are_several and is_first_equal and counts.all() and decimals.max() < 9)


def names_codes(name: object) -> bool:
    """Whether a covariate is named after things that are numbered, such as plates.

    >>> [names_codes(name) for name in ("Batch", "plate_nr", "siteID", "opposite", "weight")]
    [True, True, True, False, False]
    """
    return isinstance(name, str) and THINGS_WITH_CODES.search(name) is not None


def taken_as_number(name: object, values: Array, remedy: str) -> str:
    """Return a warning if a numeric covariate (m,) may contain group codes; else ""."""
    if not may_be_codes(values, name):
        return ""
    distinct = np.unique(values)
    whole = "whole " if (distinct == np.floor(distinct)).all() else ""
    return (
        f"covariate {name!r} has {len(distinct)} distinct {whole}numbers from {distinct[0]:.15g} "
        f"to {distinct[-1]:.15g} and is used as a number (with a linear effect); if they are codes "
        f"for groups, {remedy}"
    )


def warn_of_codes(columns: Iterable[tuple[Any, Array]], remedy: Callable[..., str]) -> None:
    """Warn of numeric covariates that are probably codes for groups.

    A covariate (m,) is reported if its name suggests codes, if it has only whole numbers far from
    0, or if it has two counts, such as 1.1, 1.2, 2.1. `remedy` returns the advice for a `name`.
    """
    for name, values in columns:
        if not may_be_codes(values, name):
            continue
        are_codes = names_codes(name) or _have_two_counts(np.unique(values))
        if are_codes or bool((values == np.floor(values)).all() and values.min() > MOST_CODES):
            sentence = taken_as_number(name, values, remedy(name=name))
            warn(f"C{sentence[1:]}.")


def design(name: str, values: Array) -> Array:
    """Return the numeric columns of a covariate: the values, or indicators of all groups but one.

    The first group in sorted order has no indicator. InputError if text has more than
    `MOST_CLASSES` values.
    """
    if values.dtype.kind not in "biufOU":
        refuse_dtype(values.dtype, f"covariate {name!r}")
    if values.dtype.kind not in "OU":
        return values.astype(np.float64)
    groups = np.unique(values.astype(str))
    if len(groups) > MOST_CLASSES:
        raise InputError(
            f"Covariate {name!r} has {len(groups)} groups ({abbreviate(groups, 3)}), which look "
            "like names rather than groups. Choose other columns (CLI: --covariates FILE:a,b)."
        )
    return np.asarray(values[:, None] == groups[1:], dtype=np.float64)

"""Covariates as numeric columns: numbers unchanged, text as indicators of its groups."""

from __future__ import annotations

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


def covariates_of(given: Any) -> Array:
    """Return covariates as numbers (m, q), without id columns; text and categories are groups."""
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
    """Return `design` of a raw column or raw coordinates; InputError if values are missing."""
    column = typed(values)
    missing = is_missing(column)
    n = int((missing if missing.ndim == 1 else missing.any(axis=1)).sum())
    if n:
        raise InputError(
            f"Covariate {name!r} is missing for {n} of {len(column)} samples. Remove these "
            "samples from the data and the labels, or fill in the values (CLI: --drop-missing)."
        )
    return design(name, column)


def may_be_codes(values: Array) -> bool:
    """Whether a covariate (m,) is whole numbers, few and repeated, like codes for groups.

    >>> may_be_codes(np.repeat([11000, 11001, 11004], 5)), may_be_codes(np.repeat([0, 1], 5))
    (True, False)
    """
    if values.ndim != 1 or values.dtype.kind not in "iuf":
        return False
    distinct = np.unique(values)
    n, is_whole = len(distinct), bool((distinct == np.floor(distinct)).all())
    return is_whole and 2 < n <= MOST_CODES and OF_A_CLASS * n <= values.size


def taken_as_number(name: object, values: Array, remedy: str) -> str:
    """Return a sentence if a covariate (m,) may be codes for groups but is a number; else ""."""
    if not may_be_codes(values):
        return ""
    distinct = np.unique(values)
    return (
        f"covariate {name!r} has {len(distinct)} distinct whole numbers from {distinct[0]:.15g} "
        f"to {distinct[-1]:.15g} and is used as a number (a straight line); if they are codes for "
        f"groups, {remedy}"
    )


def warn_of_codes(columns: Iterable[tuple[Any, Array]], remedy: Callable[..., str]) -> None:
    """Warn of covariates (m,), by name, that are probably codes for groups: none is near 0.

    `remedy` returns the advice for a `name`.
    """
    for name, values in columns:
        if may_be_codes(values) and values.min() > MOST_CODES:
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

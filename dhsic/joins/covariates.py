"""Covariates as numeric columns: numbers as they are, and an indicator for each group of text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from dhsic._typing import Array
from dhsic.errors import InputError
from dhsic.joins.table import id_columns, values_of
from dhsic.joins.text import is_missing, typed
from dhsic.kernels.labels import MOST_CLASSES
from dhsic.sources.ids import abbreviate
from dhsic.validation import refuse_dtype


def covariates_of(given: Any) -> Array:
    """Covariates as numbers, (m, q), without columns of ids; text and categories are groups."""
    values = values_of(given, "covariates")
    if hasattr(given, "iloc"):
        frame = given.to_frame() if given.ndim == 1 else given.drop(columns=id_columns(given))
    else:
        frame = pd.DataFrame(values) if values.ndim <= 2 else pd.DataFrame()
    columns = [frame.iloc[:, k] for k in range(frame.shape[1])]
    if not any(map(_is_group, columns)):
        return values
    return np.column_stack([design_of(str(column.name), _column(column)) for column in columns])


def _is_group(column: pd.Series) -> bool:
    """Whether a column is of categories, or holds text."""
    is_text = isinstance(column.dtype, pd.CategoricalDtype | pd.StringDtype)
    return is_text or (column.dtype.kind == "O" and any(isinstance(v, str) for v in column))


def _column(column: pd.Series) -> Array:
    """Numbers, or text of fixed width, which is of groups though they be called "0" and "1"."""
    if not _is_group(column):
        return np.asarray(column.to_numpy())
    return np.asarray(column.astype(object).where(column.notna(), "").to_numpy(), dtype=str)


def design_of(name: str, values: Array) -> Array:
    """Return `design` of a raw column or coordinates; InputError if values are missing."""
    column = typed(values)
    missing = is_missing(column)
    n = int((missing if missing.ndim == 1 else missing.any(axis=1)).sum())
    if n:
        raise InputError(
            f"{n} of {len(column)} samples have no {name!r}, which is a covariate. Leave them out "
            "of the data and the labels, or fill it in (CLI: --drop-missing)."
        )
    return design(name, column)


def design(name: str, values: Array) -> Array:
    """Numeric columns of a covariate: itself, or an indicator per group but the first."""
    if values.dtype.kind not in "biufOU":
        refuse_dtype(values.dtype, f"covariate {name!r}")
    if values.dtype.kind not in "OU":
        return values.astype(np.float64)
    groups = np.unique(values.astype(str))
    if len(groups) > MOST_CLASSES:
        raise InputError(
            f"Covariate {name!r} is text with {len(groups)} different values "
            f"({abbreviate(groups, 3)}), more like names than groups; choose others (CLI: "
            "--covariates FILE:a,b)."
        )
    return np.asarray(values[:, None] == groups[1:], dtype=np.float64)

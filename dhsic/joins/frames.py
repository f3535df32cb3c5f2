"""What names the rows of labels and covariates in Python: an index, a coordinate, columns of ids.

Arrays of NumPy go by position. Where both sides carry names (the index of pandas, the coordinate
of xarray, the sample names of a store) and the names say otherwise, position is wrong, and silently
so; then there is an error. A frame with columns of ids is matched by them, as tables of the command
line are (`dhsic.joins.table`); they are names, never values.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
import pandas as pd

from dhsic._typing import Array
from dhsic.errors import InputError
from dhsic.joins.keys import PARENTS, as_text, is_count, is_id, is_whole, names_rows, plain
from dhsic.joins.table import RowOrder, Table
from dhsic.validation import as_array


def names_of(given: Any) -> Array | None:
    """Names that a pandas or xarray object carries for its rows, or None."""
    if hasattr(given, "iloc"):  # pandas, whose names are its index
        return np.asarray(given.index)
    dims = getattr(given, "dims", ())
    if hasattr(given, "coords") and isinstance(dims, tuple) and dims and dims[0] in given.coords:
        return np.asarray(given.coords[dims[0]].values)
    return None


def id_columns(given: Any) -> list[Hashable]:
    """Columns of a frame that hold ids: by what they are called, or a word of its own in each row.

    A word is no name where there is no other column.
    """
    if not (hasattr(given, "iloc") and hasattr(given, "columns")):
        return []

    def names(i: int, dtype: Any) -> bool:
        is_text = not pd.api.types.is_numeric_dtype(dtype) and dtype.kind not in "mM"
        return len(given.columns) > 1 and is_text and names_rows(as_text(given.iloc[:, i]))

    return [
        name
        for i, (name, dtype) in enumerate(zip(given.columns, given.dtypes, strict=True))
        if (is_id(name) and isinstance(name, str)) or names(i, dtype)
    ]


def values_of(given: Any, what: str) -> Array:
    """Labels or covariates as an array, without columns of ids."""
    ids = id_columns(given)
    if not ids:
        return as_array(given, what)
    if len(ids) == len(given.columns):
        raise InputError(
            f"{what} has no column but {', '.join(map(repr, ids))}, which name samples. Pass "
            f"values too; or {what}.to_numpy() if these are the values."
        )
    return as_array(given.drop(columns=ids), what)


def join(
    names: Array | None,
    given: Any,
    what: str,
    *,
    by_position: bool = False,
    remedy: str | None = None,
) -> RowOrder | None:
    """Match labels or covariates (`what`) to the samples of the data; None leaves them in order.

    Parameters
    ----------
    names : (m,) array or None
        Names of the samples of the data.
    given : object
        What the caller passed: names are taken from it where it has any.
    by_position : bool
        Rows are in the order of the samples, whatever they are called.
    remedy : str, optional
        Expression that puts it in order, for `check_order`.
    """
    ids = [] if by_position else [c for c in id_columns(given) if plain(c) not in PARENTS]
    if not ids:
        check_order(names, given, what, remedy, by_position=by_position)
        return None
    columns = {str(name): np.asarray(given[name]) for name in ids}
    named = None if names is None or is_count(names) else names
    index = given.index
    is_same = names is not None and np.array_equal(as_text(names), as_text(index))
    if index.name is not None or is_same or not is_whole(index):
        columns[str(index.name or "index")] = np.asarray(index)
    m = len(given) if named is None else len(named)
    return Table(what, columns).by_name(named, m)


def in_order(
    X: Any, given: Any, what: str, *, by_position: bool = False, remedy: str | None = None
) -> Array:
    """Labels or covariates as an array, in the order of the samples of X, which is in memory."""
    alignment = join(names_of(X), given, what, remedy=remedy, by_position=by_position)
    values = values_of(given, what)
    return values if alignment is None else alignment.take(values)


def check_order(
    samples: Array | None,
    given: Any,
    what: str,
    remedy: str | None = None,
    *,
    by_position: bool = False,
) -> None:
    """Refuse labels or covariates (`what`) that name other samples than the data, or another order.

    A count 0, 1, 2, ..., which pandas gives where nobody named anything, says nothing; unless the
    other side holds whole numbers some of which are the same, so that both may be of one frame.

    Parameters
    ----------
    samples : (m,) array or None
        Names of the samples of the data.
    given, what, remedy, by_position
        As of `join`.
    """
    theirs = names_of(given)
    if by_position or samples is None or theirs is None or len(samples) != len(theirs):
        return
    ours, named = as_text(samples), as_text(theirs)
    if (ours == named).all():
        return
    shared = len(set(ours) & set(named))
    if _say_nothing(samples, theirs, shared):
        return
    first = next(i for i, pair in enumerate(zip(ours, named, strict=True)) if pair[0] != pair[1])
    problem = f"sample {first} is {ours[first]!r} in X and {named[first]!r} in {what}"
    position = "by_position=True if the rows belong together by position"
    lacking = len(set(ours) - set(named))
    if lacking:
        raise InputError(
            f"Samples of {what} are others than those of X: {lacking} of X's {len(set(ours))} "
            f"names are not among them ({problem}). Take the samples that both have, or pass "
            f"{position}."
        )
    if len(set(ours)) < len(ours):
        raise InputError(
            f"Samples are in another order in {what} than in X ({problem}), and names repeat, so "
            f"they cannot be matched. Make names unique, or pass {position}."
        )
    in_pandas = hasattr(given, "iloc")
    put = ".loc[X.index]" if in_pandas else f".sel({given.dims[0]}=X[{given.dims[0]!r}])"
    raise InputError(
        f"Samples are in another order in {what} than in X: {problem}. Pass "
        f"{remedy or f'{what}{put}'}, or {position}."
    )


def _say_nothing(samples: Array, theirs: Array, shared: int) -> bool:
    """Whether one side is a count, and the other of another kind."""
    counted = is_count(samples), is_count(theirs)
    if not any(counted):
        return False
    numbers = is_whole(samples) and is_whole(theirs)
    return shared == 0 or (not numbers and shared < len(set(samples)))

"""Rows of frames and of xarray objects, matched to the samples of the data by their names.

Frames with id columns are matched by the rules of `dhsic.joins.table`. Otherwise names (the index
of pandas, a coordinate of xarray) are only compared: if they contradict the positions, a match by
position would be silently wrong, so it is an error. NumPy arrays have no names.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, NoReturn

import numpy as np
import pandas as pd

from dhsic._typing import Array
from dhsic.errors import InputError
from dhsic.joins.counted_rows import refuse_other_order, refuse_shuffled_index
from dhsic.joins.keys import as_text, free, is_count, is_whole, names_rows
from dhsic.joins.reordering import reordered
from dhsic.joins.table import BY_POSITION, RowOrder, Table
from dhsic.sources import AbstractSource
from dhsic.sources.dates import has_dates
from dhsic.sources.ids import PARENTS, abbreviate, is_id, plain
from dhsic.sources.likeness import containment, difference, renaming_expression
from dhsic.validation import as_array


def names_of(data: Any) -> Array | None:
    """Return the row names of a pandas or xarray object; None if it has no row names."""
    if hasattr(data, "iloc"):  # a pandas object, whose index contains the names
        return np.asarray(data.index)
    dims = getattr(data, "dims", ())
    if hasattr(data, "coords") and isinstance(dims, tuple) and dims and dims[0] in data.coords:
        return np.asarray(data.coords[dims[0]].values)
    return None


def id_columns(data: Any) -> list[Hashable]:
    """Return the id columns of a frame, recognised by name, or by a different word in every row.

    A column of words is an id column only if the frame has other columns. Other objects have none.
    """
    if not (hasattr(data, "iloc") and hasattr(data, "columns")):
        return []

    def has_words(i: int, dtype: Any) -> bool:
        is_text = not pd.api.types.is_numeric_dtype(dtype) and dtype.kind not in "mM"
        if len(data.columns) < 2 or not is_text or has_dates(data.iloc[:, i]):
            return False
        return names_rows(as_text(data.iloc[:, i]))

    return [
        name
        for i, (name, dtype) in enumerate(zip(data.columns, data.dtypes, strict=True))
        if (is_id(name) and isinstance(name, str)) or has_words(i, dtype)
    ]


def values_of(data: Any, what: str) -> Array:
    """Convert labels or covariates, called `what` in messages, to an array without id columns."""
    ids = id_columns(data)
    if not ids:
        return as_array(data, what)
    if len(ids) == len(data.columns):
        raise InputError(
            f"{what} has only columns with sample names: {', '.join(map(repr, ids))}. Add a column "
            f"of values. If these columns are the values, pass {what}.to_numpy()."
        )
    return as_array(data.drop(columns=ids), what)


def join(
    names: Array | None,
    labels: Any,
    what: str,
    *,
    by_position: bool = False,
    names_code: str | None = None,
    count_rows: bool = False,
) -> RowOrder | None:
    """Match labels or covariates to the samples of the data; None if they are in order already.

    Parameters
    ----------
    names : (m,) array or None
        Sample names of the data.
    labels : array, frame or series
        Labels or covariates, which may have row names.
    what : str
        Name of the labels or covariates in messages.
    by_position : bool
        Whether rows are in the order of the samples, regardless of their names.
    names_code : str, optional
        Python expression from which users obtain `names`, to quote in error messages, for example
        ``X.index``. By default, the index of X, or its coordinate of the same name.
    count_rows : bool
        Whether `names` are only row numbers, because the data have no sample names (see
        `names_to_match`).
    """
    ids = [] if by_position else [c for c in id_columns(labels) if plain(c) not in PARENTS]
    if not ids:
        if names is None and not by_position:
            _check_numbered(labels, what)
        check_order(names, labels, what, names_code, by_position=by_position)
        return None
    columns = {str(name): np.asarray(labels[name]) for name in ids}
    row_names = None if names is None or is_count(names) else names
    index = labels.index
    is_same = names is not None and np.array_equal(as_text(names), as_text(index))
    if index.name is not None or is_same or not is_whole(index):
        columns[str(index.name or "index")] = np.asarray(index)
    m = len(labels) if row_names is None else len(row_names)
    return Table(what, columns).by_name(row_names, m, count_rows=count_rows)


def _check_numbered(labels: Any, what: str) -> None:
    """Refuse pandas labels whose row numbers are in another order, if X has no names."""
    if not hasattr(labels, "iloc"):
        return
    refuse_shuffled_index(what, np.asarray(labels.index))
    if labels.ndim > 1 and labels.shape[1] > 1:
        columns = {str(name): np.asarray(labels.iloc[:, i]) for i, name in enumerate(labels)}
        refuse_other_order(what, columns, (), BY_POSITION)


def names_are_given(names: Array | None) -> bool:
    """Whether sample names exist and are not the default index 0, 1, 2, ... of pandas."""
    return names is not None and not is_count(names)


def names_to_match(
    source: AbstractSource,
    columns: Mapping[str, Array],
    wanted: tuple[str, ...] = (),
    sample_column: str | None = None,
) -> tuple[Array | None, bool]:
    """Choose the sample names of the data by which a table is matched.

    If the data have no sample names, or these only number the rows, another column of the data that
    is not a feature may contain the sample names. It is used if some of its names occur in the
    table: in the column of the same name, or in `sample_column`. If the column of the data has a
    different word in every row, its names may occur in any column of the table.

    Parameters
    ----------
    columns : mapping
        Columns of the table, (rows,) each.
    wanted : tuple of str
        Columns that contain labels or covariates, and therefore no names.
    sample_column : str, optional
        Column of the table that contains the sample names, according to the user.

    Returns
    -------
    names : (m,) array or None
        Sample names; None if the data have none.
    count_rows : bool
        Whether they are only numbers of the rows.
    """
    names = source.sample_names()
    if names is not None and not source.row_numbers and sample_column is None:
        return names, False
    ours = {name: as_text(values) for name, values in source.sample_coords().items()}
    unusable = {name for name, values in ours.items() if not pd.Index(values).is_unique}
    ours = {name: values for name, values in ours.items() if name not in unusable.union(wanted)}
    theirs = {name: {*as_text(columns[name])} for name in free(columns, wanted)}
    said = theirs.get(sample_column or "", set())
    if said and (named := _named_by(said, sample_column, names, ours)) is not None:
        return named, False
    if names is not None and not source.row_numbers:
        return names, False
    for name, values in ours.items():
        n_shared, n = len(theirs.get(name, set()).intersection(values)), len(theirs.get(name, ()))
        if n_shared and (names is not None or 2 * n_shared >= min(n, len(values))):
            return values, False
    for values in filter(names_rows, ours.values()):
        if any(not texts.isdisjoint(values) for texts in theirs.values()):
            return values, False
    return names, names is not None


def _named_by(
    said: set[str], column: str | None, names: Array | None, ours: Mapping[str, Array]
) -> Array | None:
    """Return the first column of the data (`ours`) that shares sample names with a table.

    `said` are the names in the table. The column named `column` is tried first. The result is None
    if no column has any of the names, or if the sample names of the data (`names`) have some.
    """
    if names is not None and not said.isdisjoint(as_text(names)):
        return None
    in_turn = sorted(ours, key=lambda name: name != column)
    shared = (ours[name] for name in in_turn if not said.isdisjoint(ours[name]))
    return next(shared, None)


def in_order(
    X: Any,
    labels: Any,
    what: str,
    values: Array | None = None,
    *,
    by_position: bool = False,
    names_code: str | None = None,
) -> Array:
    """Return labels or covariates as an array, in the order of the samples of X in memory.

    `values` are the values of `labels`, if they are known already. For the other parameters, see
    `join`.
    """
    alignment = join(names_of(X), labels, what, names_code=names_code, by_position=by_position)
    values = values_of(labels, what) if values is None else values
    return values if alignment is None else alignment.take(values)


def check_order(
    samples: Array | None,
    labels: Any,
    what: str,
    names_code: str | None = None,
    *,
    by_position: bool = False,
) -> None:
    """Refuse labels or covariates with other sample names than the data, or in another order.

    The default index 0, 1, 2, ... of pandas is ignored, unless the other object has whole numbers
    as names, too, and both share some: then both may come from one frame. `samples` are the sample
    names of the data. For the other parameters, see `join`.
    """
    theirs = names_of(labels)
    if by_position or samples is None or theirs is None or len(samples) != len(theirs):
        return
    ours, row_names = as_text(samples), as_text(theirs)
    if (ours == row_names).all():
        return
    is_reset = is_count(samples) or is_count(theirs)
    if is_reset:
        shared = len(set(ours) & set(row_names))
        are_numbers = is_whole(samples) and is_whole(theirs)
        if shared == 0 or (not are_numbers and shared < len(set(samples))):
            return
    first = next(
        i for i, pair in enumerate(zip(ours, row_names, strict=True)) if pair[0] != pair[1]
    )
    problem = f"sample {first} is {ours[first]!r} in X and {row_names[first]!r} in {what}"
    position = "by_position=True if the rows already match by position"
    if not set(ours) <= set(row_names):
        if is_reset:
            _refuse_reset(what, samples, theirs)
        raise _of_different_samples(what, labels, ours, problem, position)
    if len(set(ours)) < len(ours):
        raise InputError(
            f"The samples of {what} are in a different order from those of X ({problem}), and "
            "some names repeat, so they cannot be matched. Make sample names unique, or pass "
            f"{position}."
        )
    position += ", for instance because the index of one of them was reset" * is_reset
    default = "X.index" if hasattr(labels, "iloc") else f"X[{labels.dims[0]!r}]"
    code = reordered(what, labels, samples, names_code or default)
    advice = f"Pass {code}, or" if code else "Write the names in the same way in both, or pass"
    raise InputError(
        f"The samples of {what} are in a different order from those of X: {problem}. {advice} "
        f"{position}."
    )


def _of_different_samples(
    what: str, labels: Any, ours: Array, problem: str, position: str
) -> InputError:
    """Create the error that `labels` have no rows for some of the samples of X, named `ours`.

    `problem` is an example, and `position` the advice on how to match by position.
    """
    row_names = as_text(names_of(labels))
    lacking = set(ours) - set(row_names)
    spelling = difference(row_names, lacking)[0] or containment(row_names, lacking)
    position = "" if spelling else f", or pass {position}"
    return InputError(
        f"{what} and X have different samples: {len(lacking)} of the {len(set(ours))} sample names "
        f"of X are not in {what} ({problem}). {_explain_mismatch(spelling, what, labels, ours)}"
        f"Keep only the samples that are in both{position}."
    )


def _refuse_reset(what: str, samples: Array, theirs: Array) -> NoReturn:
    """Refuse two whole-number indices if one only counts rows: equal numbers may be other samples.

    `samples` is the index of X, and `theirs` is the index of the object called `what` in messages.
    """
    is_theirs = is_count(theirs)
    reset, other = (what, "X") if is_theirs else ("X", what)
    others = abbreviate(samples if is_theirs else theirs, 3)
    raise InputError(
        f"The index of {reset} is 0, 1, 2, ..., the default of pandas, and the index of {other} is "
        f"{others}. So equal numbers may be different samples, and {what} cannot be matched to X. "
        f"If the rows of {what} are in the order of X, pass by_position=True. Otherwise, take both "
        "from one table, and do not reset the index."
    )


def _explain_mismatch(spelling: str, what: str, labels: Any, ours: Array) -> str:
    """Return the sentence `spelling`, followed by code that renames the samples of `labels`.

    The sentence comes from `difference` and says how the names are spelled differently. `ours` are
    the sample names of the data.
    """
    names = as_text(names_of(labels))
    change, setup = renaming_expression(names, ours, "X") if spelling else ("", "")
    if not change:
        return f"{spelling} " if spelling else ""
    setup = f"import re; {setup}" if "re." in change else setup
    if hasattr(labels, "iloc"):
        renamed = f"{what}.index = [{change} for s in {what}.index.astype(str)]"
    else:  # an array of xarray
        dim = labels.dims[0]
        changed = f"[{change} for s in {what}[{dim!r}].values.astype(str)]"
        renamed = f"{what} = {what}.assign_coords({{{dim!r}: {changed}}})"
    return f"{spelling} Make the names the same: {setup}{renamed}. Otherwise: "

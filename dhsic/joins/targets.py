"""Labels and covariates that are columns of the data: they are named, and are not features.

One text, or a list of distinct texts, names columns of a frame or table, or variables of a store.
Labels that are passed beside a frame or table must not also be one of its columns, because this
feature would reveal the labels.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from dhsic._typing import Array, Index, Mask
from dhsic.errors import InputError, warn
from dhsic.kernels.labels import MOST_CLASSES
from dhsic.sources import AbstractSource
from dhsic.sources.ids import abbreviate, did_you_mean
from dhsic.sources.opening import is_table
from dhsic.sources.other_frames import code_of

#: Minimum number of samples; with fewer, a feature may reveal all labels by chance.
FEWEST_TOLD = 12
#: Number of samples that are compared first; all are compared if features agree there.
FEW_COMPARED = 32


def names_said(given: Any) -> tuple[str, ...]:
    """Return the column names in `given`: one text, or several distinct ones; otherwise ().

    >>> names_said("status"), names_said(["status", "bmi"]), names_said(["case", "case"])
    (('status',), ('status', 'bmi'), ())
    """
    if isinstance(given, str):
        return (given,)
    are_names = isinstance(given, list | tuple) and all(isinstance(name, str) for name in given)
    return tuple(given) if are_names and len(set(given)) == len(given) else ()


def split_frame(
    X: pd.DataFrame, target: Any, covariates: Any, not_features: Collection[str] = ()
) -> tuple[pd.DataFrame, Any, Any]:
    """Separate the columns of labels, covariates and `not_features` from a frame.

    Returns
    -------
    Features, labels and covariates. A single name gives a Series, a list of names a frame.

    Raises
    ------
    InputError
        No column has this name, or several have it.
    """

    def names_in(given: Any) -> tuple[Any, ...]:
        """Return the names in `given`; a single whole number is the name of a column, too."""
        is_number = isinstance(given, int | np.integer) and not isinstance(given, bool)
        return (given,) if is_number else names_said(given)

    columns = dict.fromkeys((*names_in(target), *names_in(covariates), *not_features))
    check_columns(X, columns)

    def select_columns(given: Any) -> Any:
        names = names_in(given)
        if not names:
            return given
        return X[list(names)] if isinstance(given, list | tuple) else X[given]

    features = X.drop(columns=[*columns]) if columns else X
    return features, select_columns(target), select_columns(covariates)


def check_columns(X: pd.DataFrame, names: Iterable[Any]) -> None:
    """Raise InputError if no column, or more than one column, of a frame has one of `names`."""
    for name in names:
        n = int((X.columns == name).sum())
        if n != 1:
            columns_text = abbreviate(map(repr, X.columns), 20)
            there = f"has {n} columns called {name!r}" if n else f"has no column {name!r}"
            what = "Rename all but one" if n else "Pass one of them, or the values themselves"
            meant = did_you_mean(str(name), [of for of in X.columns if isinstance(of, str)])
            if name not in X.columns and name in map(str, X.columns):
                meant = f" The columns are called by numbers: pass {name} without quotes."
            raise InputError(
                f"The DataFrame {there}; its columns are {columns_text}.{meant} {what}."
                f"{'' if n else _row_hint(X, name)}"
            )


def _row_hint(X: pd.DataFrame, name: str) -> str:
    """Return advice to transpose a frame if a row, not a column, has this name; else ""."""
    in_index = name in X.index
    if not in_index and not (X.shape[1] and (X.iloc[:, 0] == name).any()):
        return ""
    index = "" if in_index else f".set_index({X.columns[0]!r})"
    frame = code_of(X, "X")
    return f" A row is named {name!r}, so the columns seem to be samples: X = {frame}{index}.T."


def stacked(named: Sequence[tuple[str, Array]]) -> Array:
    """Combine named columns side by side; a single column is returned unchanged.

    Text is prefixed with the name of its column, so that classes called "0" and "1" stay classes.
    """
    columns = [
        np.char.add(f"{name}=", values) if values.dtype.kind == "U" and len(named) > 1 else values
        for name, values in named
    ]
    if len(columns) == 1:
        return columns[0]
    if all(values.dtype.kind in "iufb" for values in columns):
        return np.column_stack([values.astype(np.float64) for values in columns])
    return np.column_stack([values.astype(object) for values in columns])


def refuse_held(data: Any, source: AbstractSource, target: Any, what: str) -> None:
    """Refuse labels that are also a column of the data, with the same name or the same values.

    Values are compared in frames only. If the labels have a name, and a column with another name
    has the same values, a warning is given instead.
    """
    names, is_frame = _names_of(target), isinstance(data, pd.DataFrame)
    dim = _dim_of_names(data)
    has_names = is_frame or bool(dim) or is_table(data)
    feature_names = source.feature_names() if has_names else None
    if feature_names is None and is_frame:  # columns are called by numbers
        feature_names = data.columns
    if feature_names is None or target is None:
        return
    columns = "X.drop(columns={!r})" if is_frame else "dhsic.open_source(X, not_features=[{!r}])"
    columns = f"X.drop_sel({dim}={{!r}})" if dim else columns
    shared = set(names).intersection(feature_names.tolist())
    if shared:
        name = min(shared)
        raise InputError(
            f"{name!r} is also a column of X, where it would be a feature that reveals the "
            f"labels. Remove it from X: {columns.format(name)}. If it is a different measurement "
            f"from {what}, give {what} another name."
        )
    same = _column_equal(data, target, set(feature_names)) if is_frame else None
    if same is None:
        return
    leak = (
        f"Column {same!r} of X has the values of {what}, so it would be a feature that reveals the "
        f"labels. Remove it from X: {columns.format(same)}."
    )
    if names:
        warn(leak)
        return
    raise InputError(
        f"{leak} If it is a different measurement from {what}, give {what} a name: "
        f"pandas.Series({what}, index=X.index, name='labels')."
    )


def _dim_of_names(data: Any) -> str:
    """Return the feature dimension of an xarray DataArray if features have names; else ""."""
    if not isinstance(data, xr.DataArray) or data.ndim != 2:
        return ""
    named = (dim for dim in data.dims[::-1] if dim in data.coords)
    return next((str(dim) for dim in named if data.coords[dim].dtype.kind in "OUT"), "")


def _names_of(target: Any) -> list[str]:
    """Return the names of labels: of a series, or of the columns of a frame."""
    if isinstance(target, pd.DataFrame):
        return [name for name in target.columns if isinstance(name, str)]
    name = getattr(target, "name", None)
    return [name] if isinstance(name, str) else []


def _column_equal(X: pd.DataFrame, target: Any, features: Collection[Any]) -> Any:
    """Return the name of a feature with the same values as a label column; None if there is none.

    Labels have shape (m,) or (m, t). A square array is a kernel matrix and is not compared.
    """
    names = X.columns.tolist()
    for y in _columns_of(target, len(X)):
        first = X.iloc[0].to_numpy() == y[0]
        same = (at for at in np.flatnonzero(first) if np.array_equal(X.iloc[:, at].to_numpy(), y))
        name = next((name for at in same if (name := names[at]) in features), None)
        if name is not None:
            return name
    return None


def _columns_of(target: Any, m: int) -> Iterator[Array]:
    """Yield the numeric columns (m,) of labels."""
    if isinstance(target, pd.DataFrame):
        columns = [target.iloc[:, i].to_numpy() for i in range(target.shape[1])]
    else:
        y = np.asarray(target)
        columns = [y] if y.ndim == 1 else [*y.T] if y.ndim == 2 else []
    if m and len(columns) < max(m, 2):
        yield from (y for y in columns if y.shape == (m,) and y.dtype.kind in "biuf")


def tells_all_leaks(data: Any, source: AbstractSource) -> bool:
    """Whether every feature is compared with the labels; this holds for tables in memory."""
    return is_table(data) and source.in_memory and source.feature_names() is not None


def warn_of_leaks(data: Any, source: AbstractSource, y: Array | None, rows: Index | None) -> None:
    """Warn of features of a table in memory that have one value per class, and reveal the labels.

    `rows` are the samples of the source with labels y (None: all).
    """
    if y is None or y.ndim != 1 or len(y) < FEWEST_TOLD or not tells_all_leaks(data, source):
        return
    names = source.feature_names()
    assert names is not None, "a table that is compared names its columns"
    if y.dtype.kind in "iufb" and len(np.unique(y)) > MOST_CLASSES:
        first, codes = np.arange(len(y)), np.arange(len(y))  # all values must be equal
    else:
        _, first, codes = np.unique(y.astype(str), return_index=True, return_inverse=True)
    if len(first) < 2:
        return
    of_classes = len(first) < len(y)
    every = np.arange(len(y))
    few = np.union1d(first, every[:FEW_COMPARED]) if of_classes else every[:FEW_COMPARED]
    leaks: list[str] = []
    for block in source.blocks(source.n_features):
        X = source.read(block, few if rows is None else rows[few])
        if _revealing(X, y, few, first, codes).any():
            same = _revealing(source.read(block, rows), y, every, first, codes)
            leaks += [str(name) for name in names[block.start : block.stop][same]]
    if leaks:
        what = "a different value for each class of" if of_classes else "the same values as"
        warn(
            f"{abbreviate(map(repr, leaks), 3)} {'has' if len(leaks) == 1 else 'have'} {what} the "
            "labels, and so reveals them. If it is not a measurement, exclude it: "
            f"not_features={leaks[:4]!r}."
        )


def _revealing(X: Array, y: Array, at: Index, first: Index, codes: Index) -> Mask:
    """Mask (c,) of the features in X (k, c) that have one value per class in the samples `at`.

    `first` (n,) contains one sample of each class, and `codes` (m,) the class of each sample. If
    every sample is a class of its own, values must equal the labels y (m,).
    """
    if len(first) == len(y):
        return np.asarray((y[at, None] == X).all(axis=0))
    values = X[np.searchsorted(at, first)]
    differ = (np.diff(np.sort(values, axis=0), axis=0) > 0).all(axis=0)
    return np.asarray(differ & (values[codes[at]] == X).all(axis=0))


def refuse_records(y: Array, what: str) -> None:
    """Refuse labels that are records without a boolean field: they are not censored times."""
    names = y.dtype.names
    if names is not None:
        raise InputError(
            f"{what} contains records with the fields {abbreviate(map(repr, names))}. Pass one "
            f"field: {what}[{names[0]!r}]. If they are times to an event, also name the field of "
            "the events: event=."
        )

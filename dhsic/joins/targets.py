"""Targets and covariates that are columns of the data, by their names: they are no features.

A text, or several that differ, names columns of a frame or a table, or variables of a store. Labels
that are handed over beside a frame or a table must not be one of its columns: the feature would
tell the labels.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pandas as pd

from dhsic._typing import Array, Index
from dhsic.errors import InputError, warn
from dhsic.kernels.labels import MOST_CLASSES
from dhsic.sources import AbstractSource
from dhsic.sources.ids import abbreviate, did_you_mean
from dhsic.sources.opening import is_table

#: Samples from which on a feature that tells all labels is hardly one by chance.
FEWEST_TOLD = 12


def names_said(given: Any) -> tuple[str, ...]:
    """Names that labels or covariates are said by: a text, or several that differ; else nothing.

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
    """Take columns that are named as labels or covariates, or as no features, out of a frame.

    Returns
    -------
    The features, labels and covariates; a Series where one text names them, else a frame.

    Raises
    ------
    InputError
        There is no column of that name, or more than one.
    """
    columns = dict.fromkeys((*names_said(target), *names_said(covariates), *not_features))
    for name in columns:
        n = int((X.columns == name).sum())
        if n != 1:
            columns_text = abbreviate(map(repr, X.columns), 20)
            there = f"has {n} columns called {name!r}" if n else f"has no column {name!r}"
            what = "Rename all but one" if n else "Pass one of them, or the values themselves"
            meant = did_you_mean(name, map(str, X.columns))
            raise InputError(
                f"The DataFrame {there}; its columns are {columns_text}.{meant} {what}."
            )

    def select_columns(given: Any) -> Any:
        names = names_said(given)
        if not names:
            return given
        return X[given] if isinstance(given, str) else X[list(names)]

    features = X.drop(columns=[*columns]) if columns else X
    return features, select_columns(target), select_columns(covariates)


def stacked(named: Sequence[tuple[str, Array]]) -> Array:
    """One column as it is, several side by side, where classes called "0" and "1" stay classes."""
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
    """Refuse labels that are a column of the data too, by name or, without a name, by value.

    Labels with a name get a warning if a column of another name has their values. Values are
    compared in frames alone: those of the first sample, then those of columns that agree there.
    """
    names, is_frame = _names_of(target), isinstance(data, pd.DataFrame)
    feature_names = source.feature_names() if is_frame or is_table(data) else None
    if feature_names is None or target is None:
        return
    columns = "X.drop(columns={!r})" if is_frame else "dhsic.open_source(X, not_features=[{!r}])"
    shared = set(names).intersection(feature_names.tolist())
    if shared:
        name = min(shared)
        raise InputError(
            f"{name!r} is a column of X too, where it would be a feature that tells the labels. "
            f"Leave it out: {columns.format(name)}. If it is another measurement than {what}, give "
            f"{what} another name."
        )
    same = _column_equal(data, target, set(feature_names)) if is_frame else None
    if same is None:
        return
    leak = (
        f"Column {same!r} of X has the values of {what}, so it would be a feature that tells "
        f"the labels. Leave it out: {columns.format(same)}."
    )
    if names:
        warn(leak)
        return
    raise InputError(
        f"{leak} If it is another measurement than {what}, give {what} a name: "
        f"pandas.Series({what}, index=X.index, name='labels')."
    )


def _names_of(target: Any) -> list[str]:
    """Names that labels have: of a series, or of the columns of a frame."""
    if isinstance(target, pd.DataFrame):
        return [name for name in target.columns if isinstance(name, str)]
    name = getattr(target, "name", None)
    return [name] if isinstance(name, str) else []


def _column_equal(X: pd.DataFrame, target: Any, features: Collection[Any]) -> Any:
    """Name of a feature with the values of labels (m,), None where there is none."""
    y = np.asarray(target)
    if y.shape != (len(X),) or y.dtype.kind not in "biuf" or not y.size:
        return None
    first = X.iloc[0].to_numpy() == y[0]
    same = (at for at in np.flatnonzero(first) if np.array_equal(X.iloc[:, at].to_numpy(), y))
    return next((name for at in same if (name := X.columns[at]) in features), None)


def tells_all_leaks(data: Any, source: AbstractSource) -> bool:
    """Whether every feature is compared with the labels: of tables, which are in memory."""
    return is_table(data) and source.in_memory and source.feature_names() is not None


def warn_of_leaks(data: Any, source: AbstractSource, y: Array | None, rows: Index | None) -> None:
    """Warn of features of a table in memory that tell the labels (m,): a value for each class.

    `rows` are the samples of the source that have labels.
    """
    if y is None or y.ndim != 1 or len(y) < FEWEST_TOLD or not tells_all_leaks(data, source):
        return
    names = source.feature_names()
    assert names is not None, "a table that is compared names its columns"
    if y.dtype.kind in "iufb" and len(np.unique(y)) > MOST_CLASSES:
        first, codes = np.arange(len(y)), np.arange(len(y))  # equal, value for value
    else:
        _, first, codes = np.unique(y.astype(str), return_index=True, return_inverse=True)
    if len(first) < 2:
        return
    of_classes = len(first) < len(y)
    leaks: list[str] = []
    for block in source.blocks(source.n_features):
        X = source.read(block, rows)
        values = X[first]
        if of_classes:
            differ = (np.diff(np.sort(values, axis=0), axis=0) > 0).all(axis=0)
            same = np.asarray(differ & (values[codes] == X).all(axis=0))
        else:
            same = np.asarray((y[:, None] == X).all(axis=0))
        leaks += [str(name) for name in names[block.start : block.stop][same]]
    if leaks:
        what = "a value of its own for each class" if of_classes else "the values"
        warn(
            f"{abbreviate(map(repr, leaks), 3)} {'has' if len(leaks) == 1 else 'have'} {what} of "
            f"the labels, so it tells them. If it is no measurement: not_features={leaks[:4]!r}."
        )


def refuse_records(y: Array, what: str) -> None:
    """Refuse labels that are records, such as times of survival beside whether they were seen."""
    names = y.dtype.names
    if names is None:
        return
    event_field = next((name for name in names if y.dtype[name].kind == "b"), None)
    if event_field is None:
        raise InputError(
            f"{what} holds records of {abbreviate(map(repr, names))}. Pass one field: "
            f"{what}[{names[0]!r}]."
        )
    raise InputError(
        f"{what} holds records of {abbreviate(map(repr, names))}, as of survival: times, and "
        "whether their end was seen. dhsic has no target for times that are cut off. Pass a number "
        "for each sample: martingale residuals of a Cox model without the features (lifelines has "
        f"them), which rank as real labels; or {what}[{event_field!r}] alone, if all samples were "
        "followed for as long."
    )

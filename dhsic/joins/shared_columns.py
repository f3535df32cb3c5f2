"""Columns that a table of labels or covariates shares with the features of the data.

If neither the table nor the data have sample names, rows are matched by position. A column that
both contain, such as a record number or an age, shows whether this is right: if it has the same
numbers in another order, rows would be matched to wrong samples. If all of its numbers differ, they
identify the samples.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from dhsic._typing import Array, Float
from dhsic.errors import InputError
from dhsic.sources import AbstractSource
from dhsic.sources.ids import abbreviate, plain
from dhsic.sources.other_frames import code_of
from dhsic.sources.views import SubsetSource
from dhsic.validation import is_numeral

#: Minimum number of samples, and of distinct numbers, by which rows are compared; minimum share of
#: the samples that a column of record numbers names.
FEWEST, FEWEST_NAMED = 10, 0.5
#: Number of samples whose values show which features may have the numbers of a column; maximum
#: number of values that are read for this; and maximum number of such features.
LOOKED_AT, MOST_VALUES, MOST_ALIKE = 20, 1 << 24, 3


@dataclass(frozen=True)
class SharedColumn:
    """A column of a table that is also a feature of the data.

    Attributes
    ----------
    name, feature : str
        Name of the column in the table, and of the feature.
    theirs : (rows,) float64
        Numbers in the table, NaN where missing.
    ours : (m,) float64
        Numbers in the data.
    """

    name: str
    feature: str
    theirs: Float
    ours: Float

    @property
    def names_rows(self) -> bool:
        """Whether the numbers are whole and unique, in the table and in the data."""
        return all(
            len(np.unique(values)) == len(values) and bool((values == np.floor(values)).all())
            for values in (self.theirs, self.ours)
        )

    @property
    def is_same(self) -> bool:
        """Whether the table and the data have the same numbers, in any order."""
        return len(self.theirs) == len(self.ours) and np.array_equal(
            np.sort(self.theirs), np.sort(self.ours), equal_nan=True
        )

    @property
    def is_key(self) -> bool:
        """Whether the numbers identify samples: whole, unique, and not shared by chance."""
        if not self.names_rows:
            return False
        n_shared = len(np.intersect1d(self.theirs, self.ours))
        is_dense = np.ptp(self.ours) < 2 * len(self.ours)
        return self.is_same or (not is_dense and n_shared >= FEWEST_NAMED * len(self.ours))

    @property
    def moves(self) -> bool:
        """Whether the numbers of the table are in another order than those of the data."""
        return not np.array_equal(self.theirs, self.ours, equal_nan=True)


def shared_columns(
    source: AbstractSource, columns: Mapping[str, Array], wanted: tuple[str, ...] = ()
) -> list[SharedColumn]:
    """Return columns of a table that are also features; columns that identify samples come first.

    A column and a feature belong together if they have the same name, or if they contain the same
    unique whole numbers and the feature is in memory. Columns in `wanted` are labels or covariates.
    """
    if source.dosages or (names := source.feature_names()) is None or source.n_samples < FEWEST:
        return []
    at = {plain(name): i for i, name in enumerate(names.tolist())}
    shared = list[SharedColumn]()
    for name, values in columns.items():
        theirs = _numbers(values) if name not in wanted else None
        if theirs is None:
            continue
        i = at.get(plain(name), -1)
        likely = [i] if i >= 0 else _likely(source, theirs)
        for k in likely:
            one = SharedColumn(name, str(names[k]), theirs, _values(source, k))
            if one.is_key or (i >= 0 and one.is_same and len(np.unique(theirs)) >= FEWEST):
                shared.append(one)
    return sorted(shared, key=lambda one: not one.is_key)


def _numbers(values: Array) -> Float | None:
    """Convert a column (rows,) to numbers; None if it has other values, or too few rows."""
    column = np.asarray(values)
    if column.ndim != 1 or len(column) < FEWEST or column.dtype.kind not in "iufOUT":
        return None
    if column.dtype.kind in "iuf":
        return column.astype(np.float64)
    texts = [str(value).strip() for value in column.tolist()]
    return np.array(texts, dtype=np.float64) if all(map(is_numeral, texts)) else None


def _likely(source: AbstractSource, theirs: Float) -> list[int]:
    """Return positions of features in memory whose first values are among `theirs`."""
    m, d = source.n_samples, source.n_features
    is_id = len(np.unique(theirs)) == len(theirs) and bool((theirs == np.floor(theirs)).all())
    if not (is_id and source.in_memory and np.ptp(theirs) >= 2 * len(theirs)):
        return []
    if LOOKED_AT * d > MOST_VALUES:
        return []
    rows = np.arange(min(m, LOOKED_AT))
    shares = np.concatenate(
        [np.isin(source.read(block, rows), theirs).mean(axis=0) for block in source.blocks(d)]
    )
    likely: list[int] = np.flatnonzero(shares >= FEWEST_NAMED).tolist()
    return likely[:MOST_ALIKE]


def _values(source: AbstractSource, feature: int) -> Float:
    """Values (m,) of one feature."""
    part = SubsetSource(source, np.array([feature]))
    return part.read(next(iter(part.blocks(1))))[:, 0].astype(np.float64)


def described(one: SharedColumn, what: str, path: str) -> str:
    """Return the beginning of a sentence on a shared column: its names, and the order of its rows.

    `what` is the name of the table, and `path` the name of the data.
    """
    are, n = "all the same", len(np.intersect1d(one.theirs, one.ours))
    if not one.is_same:
        are = f"{n:,} of {len(one.ours):,} the same"
    named = f"Column {one.name!r} of {what}"
    other = "" if one.feature == one.name else f"{one.feature!r} of "
    order = "in another order" if one.moves else "in the same order"
    shown = abbreviate((f"{value:.15g}" for value in one.theirs.tolist()), 3)
    return f"{named} has the numbers of a column of {other}{path} ({are}, {order}: {shown})"


def check_shared_frames(what: str, labels: Any, source: AbstractSource, data: Any) -> None:
    """Refuse a frame of labels or covariates, `labels`, that is not in the order of `data`.

    The frame has no id columns and is about to be matched by position. A column that it shares with
    `source`, which was opened from `data`, shows the order. `what` is its name in messages.
    """
    if not isinstance(labels, pd.DataFrame) or len(labels) != source.n_samples:
        return
    columns = {str(name): np.asarray(labels[name]) for name in labels.columns}
    moved = [one for one in shared_columns(source, columns) if one.moves and one.is_same]
    if not moved:
        return
    one = moved[0]
    frame = code_of(data, "X")
    ours, rest = f"{frame}[{one.feature!r}]", f"{frame}.drop(columns={[one.feature]!r})"
    if not isinstance(data, pd.DataFrame):
        ours = f"dhsic.read_target(X, {one.feature!r})"
        rest = f"dhsic.open_source(X, not_features={[one.feature]!r})"
    remedy = "Put the rows in the order of X"
    if one.is_key:
        remedy = (
            f"Match rows by this column: pass {code_of(labels, what)}.set_index({one.name!r})"
            f".loc[{ours}].reset_index(drop=True) for {what}, {rest} for X, and by_position=True"
        )
    raise InputError(
        f"{described(one, what, 'X')}, so the rows of {what} are in a different order from those "
        f"of X. {remedy}. If the rows already match by position, pass by_position=True."
    )

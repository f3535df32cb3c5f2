"""Labels and covariates as users pass them, in the order of the samples of the data.

They are arrays, frames with names of samples, or names of variables (`dhsic.joins.variables`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from dhsic._typing import Array, Index
from dhsic.errors import InputError, warn
from dhsic.joins.covariates import covariates_of, design_of
from dhsic.joins.filtered import Filtered
from dhsic.joins.filters import AbstractCounting, Filters
from dhsic.joins.mixed_values import check_mixed, check_names
from dhsic.joins.same_samples import warn_of_same_samples
from dhsic.joins.table import id_columns, in_pandas, join, names_of, values_of
from dhsic.joins.targets import (
    names_said,
    refuse_held,
    refuse_records,
    split_frame,
    stacked,
    warn_of_leaks,
)
from dhsic.joins.variables import (
    has_variables,
    read_target,
)
from dhsic.kernels.labels import MOST_CLASSES
from dhsic.sources import AbstractSource
from dhsic.sources.ids import NAMELESS, abbreviate, is_id, plain
from dhsic.sources.opening import (
    is_table,
    open_source,
)
from dhsic.sources.options import MissingChunks


@dataclass(frozen=True)
class Labelled:
    """Data that are open, with a row of labels and covariates for every sample that takes part."""

    source: AbstractSource
    y: Array | None  # (m,) or (m, t); None where the data are their own labels
    covariates: Array | None  # (m, q)
    rows: Index | None = None  # (m,), which samples of the data; None for all
    #: Counts, by the names of `dhsic.results.schema.LEFT_OUT`.
    left_out: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # where it came from and how rows were matched, for people
    filtered: Filtered = field(default_factory=Filtered)  # what was left out before

    @classmethod
    def of(
        cls,
        data: Any,
        target: Any,
        covariates: Any = None,
        *,
        what: str = "y",
        by_position: bool = False,
        filters: Filters | Filtered | None = None,
        counting: AbstractCounting | None = None,
        opened_by: Callable[..., AbstractSource] = open_source,
        not_features: Collection[str] = (),
        compares_samples: bool = True,
        **opening: Any,
    ) -> Labelled:
        """Open data, and match labels and covariates to its samples by name, if both have names.

        Parameters
        ----------
        target : str, list of str, array or None
            Labels, called `what` in messages, or the variables of `data` that hold them; columns of
            a frame or a table that are named are no features.
        by_position : bool
            Whether rows are in the order of the samples, regardless of their names.
        filters : Filters or Filtered, optional
            Samples and features to use. Labels cover all samples, or name those they cover.
        counting : AbstractCounting, optional
            Computes the counts that `filters` need.
        opened_by : callable
            Function that opens the data; `opening` are its options, see `dhsic.open_source`.
        not_features : collection of str
            Other columns of a frame or a table that are no features.
        compares_samples : bool
            Whether some features are read to warn of samples that are there twice.
        """
        data, target, covariates = map(in_pandas, (data, target, covariates))
        given = data
        if isinstance(data, pd.DataFrame):
            data, target, covariates = split_frame(data, target, covariates, not_features)
        else:
            opening |= _columns_apart(data, target, covariates, not_features)
        if "not_features" in opening and is_table(data):  # its labels come with it
            data = opened_by(data, n_samples=None, **opening)
            opened_by = partial(_same, data)
        check_mixed(what, target)
        check_mixed("covariates", covariates)
        fill = opening.get("missing_chunks", "error")
        covariates = _as_covariates(covariates, data, fill)
        labels = None if target is None else as_labels(target, data, fill)
        may_be_some = filters is not None and names_of(target) is not None
        is_matched = not by_position and (may_be_some or bool(id_columns(target)))
        n_labels = None if labels is None or is_matched else len(labels)
        source = hinted(opened_by(data, n_samples=n_labels, **opening))
        refuse_held(given, source, target, what)
        names = source.sample_names()
        if not by_position and names is None and names_of(data) is None:
            _check_each_other(target, covariates, what)
        names = names_of(data) if hasattr(data, "iloc") else names
        filtered = _filtered(filters, data, source, counting, fill)
        source, notes, m = filtered.features_of(source), list[str](), source.n_samples

        def align_rows(given: Any, called: str, values: Array | None = None) -> Array | None:
            if given is None:
                return None
            store = hasattr(given, "iloc") and not hasattr(data, "iloc")
            remedy = f"{called}.loc[dhsic.open_source(X).sample_names()]" if store else None
            values = covariates_of(given) if values is None else values
            is_of_all = len(values) == m and not id_columns(given)
            ours = names if names is None or is_of_all else filtered.samples_of(names)
            order = join(ours, given, called, by_position=by_position, remedy=remedy)
            if order is None:
                if is_of_all or by_position or ours is None or names_of(given) is None:
                    return _remaining_rows(values, called, filtered, m)
                return values  # of the samples that are left, by name
            notes.append(f"{called}: {order.note}")
            return order.take(values)

        y, C = align_rows(target, what, labels), align_rows(covariates, "covariates")
        warn_of_leaks(given, source, y, filtered.samples)
        warn_of_same_samples(source, filtered.samples, names, skip=not compares_samples)
        return cls(source, y, C, filtered.samples, notes=tuple(notes), filtered=filtered)


def _filtered(
    filters: Filters | Filtered | None,
    data: Any,
    source: AbstractSource,
    counting: AbstractCounting | None,
    missing_chunks: MissingChunks,
) -> Filtered:
    """Apply filters to a source that was opened from `data`."""
    if isinstance(filters, Filtered):
        return filters
    if filters is None:
        return Filtered.of(source)
    assert counting is not None, "there are filters"
    return filters.of(data, source, counting, missing_chunks)


def _columns_apart(
    data: Any, target: Any, covariates: Any, not_features: Collection[str]
) -> dict[str, Any]:
    """Return the option `not_features`; in tables it includes label and covariate columns."""
    if not_features and isinstance(data, np.ndarray | list | tuple):
        raise InputError(
            f"not_features={[*not_features]!r} names features, and those of an array have no "
            "names. Leave out columns by their positions: X = numpy.delete(X, [3], axis=1)."
        )
    label_columns = (*names_said(target), *_names_in(covariates, data)) if is_table(data) else ()
    columns = tuple(dict.fromkeys((*label_columns, *not_features)))
    return {"not_features": columns} if columns else {}


def hinted(source: AbstractSource) -> AbstractSource:
    """Return the source unchanged, after warning of its `hint`."""
    if source.hint:
        warn(source.hint)
    return source


def _remaining_rows(values: Array, what: str, filtered: Filtered, m: int) -> Array:
    """Select the rows of the remaining samples from labels or covariates of all m samples."""
    if filtered.samples is not None and len(values) != m:
        raise InputError(
            f"{what} has {len(values)} rows and the data have {m} samples, of which filters leave "
            f"{filtered.samples.size}; pass one row for each sample of the data, or rows with the "
            "names of samples."
        )
    return filtered.samples_of(values)


def _same(source: AbstractSource, *_: Any, **__: Any) -> AbstractSource:
    """Return a source that is already open; options are ignored."""
    return source


def _check_each_other(target: Any, covariates: Any, what: str) -> None:
    """Raise InputError if labels and covariates differ in sample order and data have no names."""
    first, second = names_of(target), names_of(covariates)
    if first is None or second is None or set(map(str, first)) != set(map(str, second)):
        return
    if not (first.astype(str) == second.astype(str)).all():
        raise InputError(
            f"Samples are in another order in covariates than in {what}, and X does not name them. "
            "Put both in the order of X, or pass by_position=True if rows belong together by "
            "position."
        )


def as_labels(y: Any, data: Any, missing_chunks: MissingChunks = "error") -> Array:
    """Labels as an array: what was given, or the variables of `data` that it names.

    Columns of ids are left out of frames. Categories are text, though they be numbers.
    """
    names = names_said(y) if isinstance(y, str) or has_variables(data) else ()
    if names:
        columns = [(name, read_target(data, name, missing_chunks)) for name in names]
        for name, values in columns:
            refuse_ids(name, values)
            _check_names_of(name, values)
        labels = stacked(columns)
    else:
        labels = values_of(_of_categories(y), "y")
        refuse_records(labels, "y")
        refuse_ids(getattr(y, "name", None), labels)
    if labels.ndim == 2 and labels.shape[0] == 1 < labels.shape[1]:
        raise InputError(
            f"y has shape {labels.shape}, one row of {labels.shape[1]}. Pass one row a sample: "
            "y.ravel(), or y.T."
        )
    labels = labels.astype(object) if labels.dtype.kind == "T" else labels
    if labels.dtype.kind == "O" and all(isinstance(value, str) for value in labels.flat):
        labels = labels.astype(str)  # text names classes, though they be called "0" and "1"
    return np.strings.strip(labels) if labels.dtype.kind == "U" else labels


def _of_categories(y: Any) -> Any:
    """Labels of pandas in which categories are text, "" where missing; others as they are."""
    if isinstance(y, pd.Categorical):
        y = pd.Series(y)
    if not isinstance(y, pd.Series | pd.DataFrame):
        return y
    frame = y.to_frame() if y.ndim == 1 else y
    of = [i for i, kind in enumerate(frame.dtypes) if isinstance(kind, pd.CategoricalDtype)]
    if not of:
        return y
    columns = [frame.iloc[:, i].astype(object) for i in range(frame.shape[1])]
    for i in of:
        columns[i] = columns[i].where(columns[i].notna(), "").map(str)
    return columns[0] if y.ndim == 1 else pd.concat(columns, axis=1)


def _names_in(covariates: Any, data: Any) -> tuple[str, ...]:
    """Return the names of the variables of `data` that `covariates` refers to, if any."""
    if not has_variables(data):
        return ()
    names = [covariates] if isinstance(covariates, str) else covariates
    is_named = isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
    return tuple(names) if is_named else ()


def _as_covariates(given: Any, data: Any, missing_chunks: MissingChunks) -> Any:
    """Return covariates; names of variables of `data` become their columns, (m, q)."""
    names = _names_in(given, data)
    columns = [(name, read_target(data, name, missing_chunks)) for name in names]
    for name, values in columns:
        _check_names_of(name, values)
    return np.column_stack([design_of(*column) for column in columns]) if columns else given


def _check_names_of(name: str, values: Array) -> None:
    """Refuse words and dates among the classes or groups (m,) of a variable of the data."""
    if values.ndim == 1 and values.dtype.kind in "OUT":
        check_names(f"dhsic.read_target(X, {name!r})", values, are_apart=True)


def refuse_ids(name: Any, labels: Array) -> None:
    """Raise InputError for labels that are ids: named like ids, and nearly all distinct."""
    is_named = isinstance(name, str) and is_id(name) and plain(name) not in NAMELESS
    if not is_named or labels.ndim != 1:
        return
    n = len(set(labels.tolist()))
    is_measured = n > MOST_CLASSES and labels.dtype.kind in "iuf"  # no classes that samples share
    if 2 * n > len(labels) > 2 or is_measured:
        raise InputError(
            f"The labels are {name!r}, which names the samples: {n:,} of {len(labels):,} values "
            f"differ ({abbreviate(labels.tolist(), 3)}). Pass what was measured of the samples; if "
            "this is it, give it a name that is not one of ids."
        )

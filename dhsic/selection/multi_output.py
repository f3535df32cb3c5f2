"""Several runs in one result: one run per target, per class against the rest, or per setting.

The runs share one reading of the data (`dhsic.selection.batch`), and their result has an extra
dimension: targets, classes or settings. Results of a run (ranks, scores, selected features, the
history of rounds) have that dimension, padded where another run has more rounds. Variables that
depend only on the data have that dimension only if the runs use different samples. Attributes that
differ between runs become variables along the dimension.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr

from dhsic._typing import Array, Mask
from dhsic.errors import InputError, prefix_errors
from dhsic.joins.frame_rows import id_columns
from dhsic.joins.labels import as_labels
from dhsic.joins.targets import names_said
from dhsic.kernels.labels import CLASS_KERNELS, label_matrix, may_be_classes
from dhsic.kernels.risk_sets import is_censored
from dhsic.results.schema import PAIR
from dhsic.results.tables import OF_RUNS
from dhsic.runtime.base import AbstractRuntime
from dhsic.selection.execution import results_of
from dhsic.selection.request import Announce, Request
from dhsic.selection.run import Method
from dhsic.sources.opening import is_table

#: Variables that depend on the data and the samples alone.
OF_DATA = frozenset({"n_missing", "mean", "allele_frequency", "constant"})
#: Dimensions whose length differs between runs. Each has a variable that is finite exactly at the
#: entries that belong to the run, not at those added as padding.
MARKS = {"rounds": "round_seconds", "pairs": f"{PAIR}p_value"}
#: Attributes that the joint result takes from the first run, even if the runs differ.
OF_FIRST = ("created", "promised_bytes")


def result_of_many(
    selectors: Mapping[str, Method],
    data: Any,
    targets: Mapping[str, Any],
    dim: str,
    **options: Any,
) -> xr.Dataset:
    """Run each selector on its target over the same data, and join results along `dim`.

    `selectors` and `targets` have the same keys, the names of the runs. `options` are the options
    of `Request.of`.
    """
    requests: dict[str, Request] = {}
    if is_table(data) or hasattr(data, "columns"):  # targets of other runs are not features
        label_names = dict.fromkeys(
            name for target in targets.values() for name in names_said(target)
        )
        options["not_features"] = (*options.get("not_features", ()), *label_names)
    for number, (name, selector) in enumerate(selectors.items()):
        own, first = numbered(selector, dim, number), next(iter(requests.values()), None)
        if first is not None:  # the data are open and already filtered
            options["filters"] = replace(first.filtered, features=None)
        source = None if first is None else first.source
        with prefix_errors(name):
            options["compares_samples"] = first is None  # once for all runs
            requests[name] = Request.of(own, data, targets[name], source=source, **options)
    return result_of(requests, dim)


def of_classes(request: Request) -> dict[str, Request]:
    """Split a request into one request per class, by class name.

    Each request compares one class with all others.
    """
    each = classes_of(request.y, request.selector.label_kernel)
    return {
        name: replace(request, selector=numbered(request.selector, "classes", number), y=mine)
        for number, (name, mine) in enumerate(each.items())
    }


def result_of(
    requests: Mapping[str, Request],
    dim: str | None,
    runtime: AbstractRuntime | None = None,
    *,
    announce: Announce | None = None,
) -> xr.Dataset:
    """Execute named requests and join their results along `dim`.

    If `dim` is None, there is one request, and its result is returned.
    """
    names = list(requests)
    results = results_of([*requests.values()], runtime, names=names, announce=announce)
    return results[0] if dim is None else join_results(results, names, dim)


def numbered(selector: Method, dim: str, number: int) -> Method:
    """Copy the selector for run `number`.

    Runs after the first get their own checkpoint path.
    """
    place = selector.checkpoint
    if number and place is not None:
        place = f"{place}.{dim}/{number:03d}"
    return copy(selector).set_params(checkpoint=place)


# Targets and classes ----------------------------------------------------------------


def targets_of(target: Any, data: Any) -> dict[str, Any]:
    """Split a target with several columns into targets by name, which can be fitted one by one.

    Parameters
    ----------
    target : mapping, list of str, frame, (m, t) array or str
        Labels by name; names of variables of `data`; a frame or array with one target per column;
        or the name of a variable of `data` with one target per column. Columns of sample ids of a
        frame become part of each target.
    """
    if isinstance(target, Mapping):
        targets = {str(name): labels for name, labels in target.items()}
    elif isinstance(target, (list, tuple)) and all(isinstance(name, str) for name in target):
        targets = {name: name for name in target}
    elif hasattr(target, "iloc"):
        targets = _of_frame(target)
    else:
        targets = _of_columns(target, data)
    if not targets:
        raise InputError("per_target=True needs at least one target; pass one.")
    return targets


def classes_of(y: Array | None, label_kernel: str = "auto") -> dict[str, Mask]:
    """Masks (m,) of the samples of each class, by class name.

    Numbers count as classes if a class kernel is requested, or if they look like classes.
    """
    if y is None or (y.ndim > 1 and y.shape[1] > 1):
        raise InputError("per_class=True needs one target with classes; pass y of shape (m,).")
    column = y.ravel()
    if is_censored(column):
        raise InputError("per_class=True needs classes, but y has times to an event; leave it out.")
    label_matrix(column)  # rejects missing labels
    if label_kernel not in CLASS_KERNELS and not may_be_classes(column):
        raise InputError(
            "per_class=True ranks features for each class, but y contains real values "
            f"({column.min():.4g} to {column.max():.4g}). Leave it out; or, if they are classes, "
            "pass label_kernel='multiclass'."
        )
    keys = column.astype(object).astype(str) if column.dtype.kind in "OSUT" else column
    names, codes = np.unique(keys, return_inverse=True)
    return {str(name): codes == code for code, name in enumerate(names)}


def _of_frame(target: Any) -> dict[str, Any]:
    """Split a frame into its columns, by name; a series is one column."""
    if not hasattr(target, "columns"):
        return {str(target.name or 0): target}
    ids = [name for name in target.columns if name in set(id_columns(target))]
    columns = {str(name): target[[*ids, name]] for name in target.columns if name not in ids}
    if len(columns) < len(target.columns) - len(ids):
        raise InputError("Two targets have the same name; give each column of y its own name.")
    return columns


def _of_columns(target: Any, data: Any) -> dict[str, Any]:
    """Split an array, or a variable of `data`, into its columns, by number or coordinate."""
    if isinstance(target, str):
        if hasattr(data, "columns") or is_table(data):
            return {target: target}
        labels = as_labels(target, data)
        if labels.ndim == 1:
            return {target: target}
        return {f"{target}_{i}": labels[:, i] for i in range(labels.shape[1])}
    if isinstance(target, xr.DataArray) and target.ndim == 2:
        dim = target.dims[1]
        names = target[dim].to_numpy() if dim in target.coords else range(target.sizes[dim])
        return {str(name): target.isel({dim: i}, drop=True) for i, name in enumerate(names)}
    labels = np.asarray(target)
    if labels.ndim == 1:
        return {"0": target}
    if labels.ndim != 2:
        raise InputError(f"y has shape {labels.shape}; pass (m, t), one column per target.")
    return {str(i): labels[:, i] for i in range(labels.shape[1])}


# Joint results ----------------------------------------------------------------------


def join_results(results: Sequence[xr.Dataset], names: Sequence[str], dim: str) -> xr.Dataset:
    """Join named results along a new dimension, one of `OF_RUNS`."""
    first = results[0]
    lengths = {dim: max(int(result.sizes.get(dim, 0)) for result in results) for dim in MARKS}
    data: dict[Hashable, Any] = {}
    for name in dict.fromkeys(name for result in results for name in result.data_vars):
        like = next(result[name] for result in results if name in result)
        values = [_values(result, str(name), like, lengths) for result in results]
        if name in OF_DATA and all(_are_same(values[0], other) for other in values[1:]):
            data[name] = like
        else:
            data[name] = ((dim, *like.dims), np.stack(values), like.attrs)
    attributes = {}
    for key in dict.fromkeys(key for result in results for key in result.attrs):
        run_values = [result.attrs.get(key) for result in results]
        if key in OF_FIRST or all(value == run_values[0] for value in run_values):
            attributes[key] = run_values[0]
        else:
            data[key] = (dim, _column(run_values), _kind_of(run_values))
    coords = {**first.coords, dim: np.array([str(name) for name in names], dtype=object)}
    return xr.Dataset(data, coords=coords, attrs=attributes)


def dimension_of(result: xr.Dataset) -> str | None:
    """Dimension along which a result contains several runs; None for a single run."""
    return next((dim for dim in OF_RUNS if dim in result.dims), None)


def parts(result: xr.Dataset) -> Iterator[tuple[str, xr.Dataset]]:
    """Yield the name and the result of each run of a joint result, as if each had run alone."""
    dim = dimension_of(result)
    if dim is None:
        yield "", result
        return
    for i, name in enumerate(result[dim].to_numpy()):
        part = result.isel({dim: i}).drop_vars(dim)
        scalars = [key for key in part.data_vars if not part[key].dims]
        attributes = {str(key): _attribute(part[key]) for key in scalars}
        has = {key: value for key, value in attributes.items() if value is not None}
        part = part.drop_vars(scalars).assign_attrs(has)
        for own, mark in MARKS.items():
            if own in part.dims:
                is_own = np.isfinite(part[mark].to_numpy())
                part = part.isel({own: is_own}) if is_own.any() else part.drop_dims(own)
        yield str(name), part


def _values(result: xr.Dataset, name: str, like: xr.DataArray, lengths: Mapping[str, int]) -> Array:
    """Values of a variable in one result, padded with "", NaN or 0 to the common `lengths`.

    `like` is the variable of a run that has it.
    """
    empty: Any = {"O": "", "f": np.nan}.get(like.dtype.kind, 0)
    shape = tuple(lengths.get(str(dim), like.sizes[dim]) for dim in like.dims)
    padded = np.full(shape, empty, dtype=like.dtype)
    if name in result:
        values = result[name].to_numpy()
        padded[tuple(slice(n) for n in values.shape)] = values
    return padded


def _are_same(one: Array, other: Array) -> bool:
    return bool(np.array_equal(one, other, equal_nan=one.dtype.kind == "f"))


def _kind_of(values: Sequence[Any]) -> dict[str, str]:
    """Attributes of a variable that contains integers of several runs.

    They mark integers that were converted to floats, because NaN marks missing entries.
    """
    has = [value for value in values if value is not None]
    is_whole = len(has) < len(values) and all(isinstance(value, int) for value in has)
    return {"numbers": "whole"} if is_whole else {}


def _attribute(value: xr.DataArray) -> Any:
    """Convert a scalar variable back to the attribute of one run; None if it is NaN."""
    item = value.to_numpy().item()
    if isinstance(item, float) and np.isnan(item):
        return None
    return int(item) if value.attrs.get("numbers") == "whole" else item


def _column(told: Sequence[Any]) -> Array:
    """Convert the attribute values of all runs to an array of text or numbers."""
    if any(isinstance(value, str) for value in told):
        return np.array([str(value) for value in told], dtype=object)
    return np.array([np.nan if value is None else value for value in told])

"""Several targets, one by one: what users hand over as labels, a column or a class at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from dhsic._typing import Array, Mask
from dhsic.errors import InputError
from dhsic.joins.labels import as_labels
from dhsic.joins.table import id_columns
from dhsic.kernels.labels import CLASS_KERNELS, auto_kernel, label_matrix


def targets_of(target: Any, data: Any) -> dict[str, Any]:
    """Each target by its name, as one alone would be handed over.

    Parameters
    ----------
    target : mapping, list of str, frame, (m, t) array or str
        Labels by name; names of variables of `data`; columns, those of ids with each of them; or
        the variable that holds them.
    """
    if isinstance(target, Mapping):
        found = {str(name): labels for name, labels in target.items()}
    elif isinstance(target, (list, tuple)) and all(isinstance(name, str) for name in target):
        found = {name: name for name in target}
    elif hasattr(target, "iloc"):
        found = _of_frame(target)
    else:
        found = _of_columns(target, data)
    if not found:
        raise InputError("per_target=True ranks each target, and there is none; pass one.")
    return found


def classes_of(y: Array | None) -> dict[str, Mask]:
    """Each class of labels, (m,), by its name: whether a sample is of it, or of the rest."""
    if y is None or (y.ndim > 1 and y.shape[1] > 1):
        raise InputError("per_class=True takes one target of classes; pass y of shape (m,).")
    column = y.ravel()
    label_matrix(column)  # refuses missing labels, which would be of no class
    if auto_kernel(column) not in CLASS_KERNELS:
        raise InputError(
            "per_class=True ranks features for each class against the rest, and y holds real "
            "values. Leave it out, or pass names of classes: y.astype(str)."
        )
    keys = column.astype(object).astype(str) if column.dtype.kind in "OSUT" else column
    names, codes = np.unique(keys, return_inverse=True)
    return {str(name): codes == code for code, name in enumerate(names)}


def _of_frame(target: Any) -> dict[str, Any]:
    """Columns of a frame; a series is one."""
    if not hasattr(target, "columns"):
        return {str(target.name or 0): target}
    ids = [name for name in target.columns if name in set(id_columns(target))]
    found = {str(name): target[[*ids, name]] for name in target.columns if name not in ids}
    if len(found) < len(target.columns) - len(ids):
        raise InputError("Two targets have one name; give each column of y its own.")
    return found


def _of_columns(target: Any, data: Any) -> dict[str, Any]:
    """Columns of an array, by number."""
    if isinstance(target, str):
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
        raise InputError(f"y has shape {labels.shape}; pass (m, t), a column a target.")
    return {str(i): labels[:, i] for i in range(labels.shape[1])}

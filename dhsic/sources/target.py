"""Labels: by name, a variable of the store or dataset that holds the data, or as they are given."""

from __future__ import annotations

import warnings
from os import PathLike, fspath
from typing import Any

import numpy as np
import xarray as xr
import zarr

from dhsic._typing import Array
from dhsic.alignment import check_order, names_of
from dhsic.errors import InputError
from dhsic.given import as_array
from dhsic.sources.base import AbstractSource
from dhsic.sources.chunked import read_array
from dhsic.sources.stores import metadata_of, open_store
from dhsic.sources.watched import MissingChunks

#: What PLINK writes for a phenotype that is missing.
PLINK_MISSING = -9


def read_target(data: Any, name: str, missing_chunks: MissingChunks = "error") -> Array:
    """Values of the one- or two-dimensional variable `name` of `data`.

    Parameters
    ----------
    data : path, URL, group or Dataset
        What holds the variable.
    name : str
        Which one.
    missing_chunks : {"error", "fill"}
        Whether chunks that a store lacks are an error or fill values.

    Raises
    ------
    InputError
        `data` has no variables, or none of that name; the message lists those there are.
    DataError
        The variable is damaged.
    """
    if isinstance(data, xr.Dataset):
        names = [str(v) for v in data.variables if data[v].ndim in (1, 2)]
        if name in names:
            return np.asarray(data[name].to_numpy())
    elif isinstance(data, (str, PathLike, zarr.Group)):
        group = data if isinstance(data, zarr.Group) else open_store(fspath(data))
        if not isinstance(group, zarr.Group):
            raise InputError(
                f"{data} is a single array and holds no variable {name!r}; pass the labels "
                "themselves, one a sample."
            )
        with metadata_of(group.store_path):
            names = [key for key, array in group.arrays() if array.ndim == 1]
        if name in names:
            array: Any = group[name]
            return read_array(array, missing_chunks)
    else:
        raise InputError(
            f"target={name!r} names a variable, and {type(data).__name__} has none; pass the "
            "labels themselves, one a sample."
        )
    raise InputError(
        f"There is no variable {name!r} along the samples; there are "
        f"{', '.join(sorted(names)) or 'none'}. Pass one of them, or the labels themselves."
    )


def as_labels(y: Any, data: Any) -> Array:
    """Labels as an array: what was given, or the variable of `data` that it names.

    Raises
    ------
    InputError
        As of `read_target` and `dhsic.given.as_array`; a row instead of a column.
    """
    labels = read_target(data, y) if isinstance(y, str) else as_array(y, "y")
    if labels.ndim == 2 and labels.shape[0] == 1 < labels.shape[1]:
        raise InputError(
            f"y has shape {labels.shape}, one row of {labels.shape[1]}. Pass one row a sample: "
            "y.ravel(), or y.T."
        )
    if labels.dtype.kind in "if":
        _warn_of_plink(labels)
    return labels


def check_names(source: AbstractSource, X: Any, **given: Any) -> None:
    """Refuse labels and covariates that name the samples of X in another order."""
    for what, values in given.items():
        if names_of(values) is None:
            continue
        listed = names_of(X) if hasattr(X, "iloc") else source.sample_names()
        by_hand = None
        if hasattr(values, "iloc") and not hasattr(X, "iloc"):
            by_hand = f"{what}.loc[dhsic.open_source(X).sample_names()]"
        check_order(listed, values, what, by_hand)


def _warn_of_plink(labels: Array) -> None:
    n = int((labels == PLINK_MISSING).sum())
    if 0 < n < labels.size and (labels[labels != PLINK_MISSING] >= 0).all():
        warnings.warn(
            f"{n} labels are {PLINK_MISSING}, which PLINK writes for missing ones, and all others "
            "are 0 or more; they are taken for values. If they are missing, drop those samples.",
            stacklevel=4,
        )

"""Some features of what is not in memory, left where it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from dhsic._typing import Array, Index
from dhsic.errors import InputError
from dhsic.sources.arrays import check_chunks
from dhsic.sources.domain import check_dtype
from dhsic.sources.labelled import names_along


def take_features(X: Any, chosen: Index, d: int, names: Array | None = None) -> Any:
    """Features of a dask array, DataArray, Dataset or Zarr array, without computing.

    Parameters
    ----------
    d : int
        Features at fit.
    names : (d,) array, optional
        Their names; where X names its own, they must be those.

    Raises
    ------
    InputError
        X has other features, or is nothing that `fit` would have taken.
    """
    if isinstance(X, (xr.DataArray, xr.Dataset)):
        return X.isel({_feature_dim(X, d, names): chosen})
    shape = getattr(X, "shape", None)
    if not isinstance(shape, tuple) or len(shape) != 2 or not hasattr(X, "dtype") or d not in shape:
        given = shape if isinstance(shape, tuple) else type(X).__name__
        raise InputError(
            f"transform takes arrays with {d} features and got {given}; open a store first, for "
            "instance with xarray.open_zarr(path, mask_and_scale=False)."
        )
    check_dtype(X.dtype, "X")
    check_chunks(X)
    axis = 1 if shape[1] == d else 0
    index = (slice(None), chosen) if axis == 1 else (chosen, slice(None))
    return X.oindex[index] if hasattr(X, "oindex") else X[index]


def _feature_dim(X: xr.DataArray | xr.Dataset, d: int, names: Array | None) -> Any:
    """Dimension of the features, which are those of fit as far as names tell."""
    dims = [dim for dim, size in X.sizes.items() if size == d]
    if len(dims) != 1:
        raise InputError(
            f"The data have dimensions {dict(X.sizes)} and the selector was fitted on {d} "
            "features; pass data with exactly one such dimension."
        )
    if isinstance(X, xr.DataArray):
        check_dtype(X.dtype, "X")
    here = None if names is None else names_along(X, dims[0])
    if names is not None and here is not None:
        _check_names(here, names, str(dims[0]))
    return dims[0]


def _check_names(here: Array, names: Array, dim: str) -> None:
    differ = np.flatnonzero(np.asarray(here, dtype=object) != names)
    if len(differ):
        at = int(differ[0])
        raise InputError(
            f"Features of X along {dim!r} are not those of fit, or in another order: number {at} "
            f"is {str(here[at])!r} and was {str(names[at])!r}. Pass them as at fit, for instance "
            "by X.sel(...)."
        )

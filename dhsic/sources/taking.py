"""Some features of what is not in memory, left where it is."""

from __future__ import annotations

from typing import Any

import xarray as xr

from dhsic._typing import Index
from dhsic.errors import InputError


def take_features(X: Any, chosen: Index, d: int) -> Any:
    """Features of a dask array, DataArray, Dataset or Zarr array, without computing."""
    if isinstance(X, (xr.DataArray, xr.Dataset)):
        sizes = [dim for dim, size in X.sizes.items() if size == d]
        if len(sizes) != 1:
            raise InputError(
                f"The data have dimensions {dict(X.sizes)} and the selector was fitted on {d} "
                "features; pass data with exactly one such dimension."
            )
        return X.isel({sizes[0]: chosen})
    shape = getattr(X, "shape", None)
    if shape is None or len(shape) != 2 or d not in shape:
        raise InputError(
            f"transform takes arrays with {d} features and got "
            f"{type(X).__name__ if shape is None else shape}; open a store first, for instance "
            "with xarray.open_zarr(path, mask_and_scale=False)."
        )
    axis = 1 if shape[1] == d else 0
    index = (slice(None), chosen) if axis == 1 else (chosen, slice(None))
    return X.oindex[index] if hasattr(X, "oindex") else X[index]

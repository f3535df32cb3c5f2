"""Labels by name: a variable along the samples in the store or dataset that holds the data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
import zarr

from dhsic._typing import Array
from dhsic.errors import InputError


def read_target(data: Any, name: str) -> Array:
    """Values of the one- or two-dimensional variable `name` of `data`.

    Raises
    ------
    InputError
        `data` has no variables, or none of that name; the message lists those there are.
    """
    if isinstance(data, xr.Dataset):
        names = [str(v) for v in data.variables if data[v].ndim in (1, 2)]
        if name in names:
            return np.asarray(data[name].to_numpy())
    elif isinstance(data, (str, Path, zarr.Group)):
        group = data if isinstance(data, zarr.Group) else zarr.open(str(data), mode="r")
        if not isinstance(group, zarr.Group):
            raise InputError(
                f"{data} is a single array and holds no variable {name!r}; pass the labels "
                "themselves, one a sample."
            )
        names = [key for key, array in group.arrays() if array.ndim == 1]
        if name in names:
            array: Any = group[name]
            return np.asarray(array[:])
    else:
        raise InputError(
            f"target={name!r} names a variable, and {type(data).__name__} has none; pass the "
            "labels themselves, one a sample."
        )
    raise InputError(
        f"There is no variable {name!r} along the samples; there are {', '.join(names)}."
    )

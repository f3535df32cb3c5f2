"""Frames and series of polars and dask, converted to pandas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from dhsic.errors import InputError


def in_pandas(data: Any) -> Any:
    """Convert a frame or series of polars or dask to pandas; return others unchanged.

    Nulls become NaN or None, an Enum of polars an ordered categorical. Frames of dask are computed.

    Raises
    ------
    InputError
        `data` is a LazyFrame of polars.
    """
    package = type(data).__module__.partition(".")[0]
    if package in ("dask", "dask_expr"):
        return data.compute() if hasattr(data, "map_partitions") else data
    if package != "polars":
        return data
    if hasattr(data, "collect"):
        raise InputError("A polars LazyFrame is a query, not data. Pass its .collect().")
    if hasattr(data, "columns"):
        return pd.DataFrame({name: _of_polars(data[name]) for name in data.columns})
    return pd.Series(_of_polars(data), name=data.name or None)


def _of_polars(series: Any) -> Any:
    """Return the values of a polars series; decimal numbers and null columns become floats."""
    kind = str(series.dtype)
    if kind.startswith("Enum"):
        return pd.Categorical(series.to_numpy(), series.dtype.categories.to_list(), ordered=True)
    is_float = kind.startswith("Decimal") or kind == "Null"
    return np.asarray(series.cast(float).to_numpy() if is_float else series.to_numpy())

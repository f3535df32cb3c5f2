"""Conversion of polars, pyarrow, narwhals and dask frames to pandas.

Such frames have no index. Error messages contain code for pandas; for these frames, the code
begins with the conversion to pandas.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd

from dhsic._typing import Array
from dhsic.errors import InputError
from dhsic.validation import in_double, is_long

#: Key of the attributes of a converted frame: the Python code that converts it, for messages.
CONVERSION = "dhsic_conversion"
#: Code that converts an object {x}, by package.
_CODE = {
    "polars": "pandas.DataFrame({x}.to_dict(as_series=False))",
    "pyarrow": "{x}.to_pandas()",
    "narwhals": "{x}.to_pandas()",
    "dask": "{x}.compute()",
}


def in_pandas(data: Any) -> Any:
    """Convert a frame or series of another package to pandas; return other objects unchanged.

    Nulls become NaN or None. A polars Enum becomes an ordered categorical. Dask frames are
    computed. Numbers of more than 64 bits become float64.
    """
    if isinstance(data, pd.DataFrame):
        return data.apply(in_double) if any(map(is_long, set(data.dtypes))) else data
    if isinstance(data, np.ndarray | pd.Series):
        return in_double(data)
    package = type(data).__module__.partition(".")[0].replace("dask_expr", "dask")
    if package not in _CODE:
        return data
    if package == "dask":
        return _marked(data.compute(), package) if hasattr(data, "map_partitions") else data
    if hasattr(data, "collect"):
        raise InputError("A polars LazyFrame is a query, not data. Pass its .collect().")
    if package != "polars":
        return _marked(data.to_pandas(), package) if hasattr(data, "to_pandas") else data
    if hasattr(data, "columns"):
        frame = pd.DataFrame({name: _of_polars(data[name]) for name in data.columns})
        return _marked(frame, package)
    return pd.Series(_of_polars(data), name=data.name or None)


def _marked(data: Any, package: str) -> Any:
    """Convert decimals to floats, and store the package's conversion code in the frame."""
    if isinstance(data, pd.DataFrame):
        for name, kind in data.dtypes.items():
            if getattr(kind, "kind", "") == "O":
                data[name] = _as_floats(data[name])
        data.attrs[CONVERSION] = _CODE[package]
        return data
    return _as_floats(data) if isinstance(data, pd.Series) else data


def _as_floats(series: Any) -> Any:
    """Convert a series of `decimal.Decimal` to floats; return other series unchanged."""
    kind = pd.api.types.infer_dtype(series, skipna=True)
    return series.astype(float) if kind == "decimal" else series


def _of_polars(series: Any) -> Array | pd.Categorical:
    """Return the values of a polars series; decimal numbers and null columns become floats."""
    kind = str(series.dtype)
    if kind.startswith("Enum"):
        return pd.Categorical(series.to_numpy(), series.dtype.categories.to_list(), ordered=True)
    is_float = kind.startswith("Decimal") or kind == "Null"
    return np.asarray(series.cast(float).to_numpy() if is_float else series.to_numpy())


def code_of(data: Any, name: str) -> str:
    """Return Python code for a pandas object, for messages.

    It is the name, or, if the user passed another package's object, code that converts it.
    """
    conversion = getattr(data, "attrs", {}).get(CONVERSION, "{x}")
    return str(conversion).format(x=name)


def columns_of(data: Any, name: str) -> str:
    """Return Python code for a frame with columns that `pandas.Series` can read.

    For polars frames it is `name` itself, otherwise code that converts the frame to pandas.
    """
    code = code_of(data, name)
    return name if code == _CODE["polars"].format(x=name) else code


@contextmanager
def converted_first(data: Any, name: str) -> Iterator[None]:
    """Add the conversion to pandas to error messages that contain pandas code for the frame."""
    try:
        yield
    except InputError as error:
        code = code_of(data, name)
        if code == name or not re.search(rf"\b{name}[.\[]", str(error)):
            raise
        raise InputError(f"{error} This code is for pandas: begin with {name} = {code}.") from error

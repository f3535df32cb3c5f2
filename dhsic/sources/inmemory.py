"""What lies in memory: NumPy and dask arrays, frames of pandas, and what is neither."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dhsic.errors import InputError
from dhsic.given import EXACT, WIDE, refuse_lossy
from dhsic.sources.arrays import ArraySource, DaskSource, Names, check_sizes
from dhsic.sources.base import AbstractSource
from dhsic.sources.domain import check_dtype, check_matrix
from dhsic.sources.labelled import open_xarray
from dhsic.sources.orientation import feature_axis
from dhsic.sources.request import Request

if TYPE_CHECKING:
    import pandas as pd


def open_in_memory(X: Any, request: Request) -> AbstractSource:
    """Open an array, a frame or an object of xarray."""
    if type(X).__module__.partition(".")[0] == "xarray":
        return open_xarray(X, request)
    check_in_memory(X, request.variable)
    if _is_frame(X):
        return _open_frame(X, request)
    if hasattr(X, "dask") and hasattr(X, "chunks"):
        check_sizes(X)
        return DaskSource(_samples_first(X, request), missing_code=request.code_of({}))
    matrix = _samples_first(np.asarray(X), request)
    return ArraySource(matrix, missing_code=request.code_of({}))


def check_in_memory(X: Any, variable: str | None = None) -> None:
    """Refuse what NumPy would make something else of, before it does.

    Raises
    ------
    InputError
        Sparse, masked, no matrix, text, dates, complex numbers; a frame with columns that are
        not numbers or are called alike; not an array at all.
    """
    refuse_lossy(X, "X")
    if not (isinstance(X, np.ndarray | list | tuple) or hasattr(X, "__array__")):
        raise InputError(
            f"X is a {type(X).__module__}.{type(X).__qualname__}. Pass a NumPy or dask array, a "
            "DataFrame, an xarray DataArray or Dataset, a zarr Array or Group, a path or a URL."
        )
    if variable is not None:
        raise InputError(
            f"variable={variable!r} names a part of a Dataset or group, and X is one "
            f"{type(X).__name__}. Leave it out."
        )
    if _is_frame(X):
        _check_frame(X)
        return
    if hasattr(X, "shape"):
        check_matrix(X.shape, "X")
    if hasattr(X, "dtype") and getattr(X.dtype, "kind", "O") != "O":
        check_dtype(X.dtype, "X")


def check_turned(shape: tuple[int, ...], n_labels: int) -> None:
    """Refuse a matrix with other samples than labels; say so where it looks transposed."""
    feature_axis(shape, None, None, n_labels, what="X", convention=1)


def _is_frame(X: Any) -> bool:
    return type(X).__module__.partition(".")[0] == "pandas" and hasattr(X, "columns")


def _check_frame(X: pd.DataFrame) -> None:
    thin = [str(c) for c, t in X.dtypes.items() if type(t).__name__ == "SparseDtype"]
    if thin:
        raise InputError(
            f"Columns {thin[:5]} of the DataFrame ({len(thin)} in all) are sparse; dhsic reads "
            "dense matrices. Pass X.sparse.to_dense()."
        )
    odd = [str(c) for c, t in X.dtypes.items() if not hasattr(t, "kind") or t.kind not in "biuf"]
    if odd:
        raise InputError(
            f"Columns {odd[:5]} of the DataFrame ({len(odd)} in all) are not numbers. Drop them, "
            "or encode them: pandas.get_dummies(X)."
        )
    _check_digits(X)
    if len({isinstance(c, str) for c in X.columns}) > 1:
        raise InputError(
            f"Names of columns of the DataFrame are text and numbers ({list(X.columns[:3])}, ...). "
            "Make them text: X.columns = X.columns.astype(str)."
        )
    if not X.columns.is_unique:
        twice = [str(c) for c in X.columns[X.columns.duplicated()].unique()]
        raise InputError(
            f"Columns {twice[:5]} of the DataFrame ({len(twice)} in all) are there more than once. "
            "Rename them, or keep the first of each: X.loc[:, ~X.columns.duplicated()]."
        )


def _check_digits(X: pd.DataFrame) -> None:
    """Refuse integers that are to become floats, beside other columns, and would lose digits."""
    for kind in set(X.dtypes):
        if kind.kind not in "iu" or kind.itemsize < WIDE:
            continue
        part = X.loc[:, X.dtypes == kind]
        beyond = (part.max() > EXACT) | (part.min() < -EXACT)
        names = [str(name) for name in part.columns[beyond.fillna(value=False).to_numpy(bool)]]
        if names:
            raise InputError(
                f"Columns {names[:5]} of the DataFrame ({len(names)} in all) hold integers beyond "
                "2**53, up to which float64 holds every one; digits would be lost. Drop what is a "
                "name and no number, or subtract an offset."
            )


def _open_frame(X: pd.DataFrame, request: Request) -> AbstractSource:
    request.check_dim(0, X.index.name, "the DataFrame")
    request.check_length(len(X), "The DataFrame")
    names = Names(X.columns.to_numpy(dtype=object), X.index.to_numpy(dtype=object))
    nullable = any(not isinstance(t, np.dtype) for t in X.dtypes)
    matrix = X.to_numpy(dtype=float, na_value=np.nan) if nullable else X.to_numpy()
    return ArraySource(matrix, missing_code=request.code_of({}), names=names)


def _samples_first(X: Any, request: Request) -> Any:
    """Orient an array without names: (samples, features), unless the caller says otherwise."""
    if X.ndim != 2:
        return X  # the source refuses it
    axis = feature_axis(
        X.shape, None, request.sample_dim, request.n_samples, what="X", convention=1
    )
    return X if axis == 1 else X.T

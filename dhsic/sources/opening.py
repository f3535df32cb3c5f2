"""`open_source`: whatever a user holds, as a source."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from zipfile import BadZipFile

import numpy as np
import zarr

from dhsic.errors import DataError, InputError
from dhsic.sources.arrays import ArraySource, DaskSource, Names
from dhsic.sources.base import AbstractSource
from dhsic.sources.dosage import PloidyPolicy
from dhsic.sources.groups import open_array, open_group
from dhsic.sources.labelled import open_xarray
from dhsic.sources.orientation import feature_axis
from dhsic.sources.request import Request
from dhsic.sources.watched import MissingChunks

if TYPE_CHECKING:
    import pandas as pd


def open_source(
    X: Any,
    *,
    variable: str | None = None,
    sample_dim: str | int | None = None,
    n_samples: int | None = None,
    missing_code: int | Literal["auto"] | None = "auto",
    missing_chunks: MissingChunks = "error",
    ploidy_policy: PloidyPolicy = "count",
    storage_options: Mapping[str, Any] | None = None,
) -> AbstractSource:
    """Open data as a source of samples x features.

    Parameters
    ----------
    X : array, dataset, group, path or URL
        NumPy or dask array (samples, features), pandas DataFrame, xarray DataArray or Dataset,
        zarr Array or Group, AbstractSource, or the path or URL of a Zarr array or group (a
        folder, a ``.zip`` file, an object store), VCF Zarr included.
    variable : str, optional
        Which variable of a Dataset or group. By default ``call_genotype``, else
        ``call_dosage``, else the only one with two dimensions.
    sample_dim : str or int, optional
        Dimension, or axis, of the samples. Needed only where neither the names of the dimensions
        nor `n_samples` tell.
    n_samples : int, optional
        Length of y, which X must have as many samples as.
    missing_code : int, None or "auto"
        Integer that means missing. ``"auto"``: -1 in VCF Zarr; what a Zarr or xarray array
        declares (attribute ``missing_value`` or ``_FillValue``, or fill value -1 of int8); else
        none. In floats NaN is missing, always.
    missing_chunks : {"error", "fill"}
        Whether chunks that a Zarr array lacks are an error or fill values.
    ploidy_policy : {"count", "scale", "error"}
        What a genotype of lower ploidy counts: its own alleles, as many as others have, an error.
    storage_options : mapping, optional
        Options of fsspec for a URL.

    Returns
    -------
    AbstractSource

    Raises
    ------
    InputError
        X cannot be read as a matrix of samples x features, or it cannot be told how.

    Examples
    --------
    >>> source = open_source(np.arange(6.0).reshape(2, 3), n_samples=2)
    >>> source.n_samples, source.n_features
    (2, 3)
    """
    request = Request(variable, sample_dim, n_samples, missing_code, missing_chunks, ploidy_policy)
    if isinstance(X, AbstractSource):
        request.check_length(X.n_samples, "X")
        return X
    if isinstance(X, str | PathLike):
        X = _open_store(fspath(X), storage_options)
    if isinstance(X, zarr.Array):
        return open_array(X, request)
    if isinstance(X, zarr.Group):
        return open_group(X, request)
    return _open_in_memory(X, request)


def _open_in_memory(X: Any, request: Request) -> AbstractSource:
    package = type(X).__module__.partition(".")[0]
    if package == "xarray":
        return open_xarray(X, request)
    if package == "pandas" and hasattr(X, "columns"):
        return _open_frame(X, request)
    if hasattr(X, "dask") and hasattr(X, "chunks"):
        return DaskSource(_samples_first(X, request), missing_code=request.code_of({}))
    if package == "scipy" or hasattr(X, "tocsc"):
        raise InputError(
            f"X is a sparse {type(X).__name__} of shape {X.shape}; dhsic reads dense matrices. "
            "Pass X.toarray() if it fits in memory, else write it to Zarr, densely."
        )
    if isinstance(X, np.ma.MaskedArray):
        raise InputError(
            "X is a masked array, and its mask would be lost. Pass X.filled(np.nan), as floats."
        )
    if not isinstance(X, np.ndarray | list | tuple):
        raise InputError(
            f"X is a {type(X).__module__}.{type(X).__qualname__}. Pass a NumPy or dask array, a "
            "DataFrame, an xarray DataArray or Dataset, a zarr Array or Group, a path or a URL."
        )
    matrix = _samples_first(np.asarray(X), request)
    return ArraySource(matrix, missing_code=request.code_of({}))


def _samples_first(X: Any, request: Request) -> Any:
    """Orient an array without names: (samples, features), unless the caller says otherwise."""
    if X.ndim != 2:
        return X  # the source refuses it
    axis = feature_axis(
        X.shape, None, request.sample_dim, request.n_samples, what="X", convention=1
    )
    return X if axis == 1 else X.T


def _open_frame(X: pd.DataFrame, request: Request) -> AbstractSource:
    odd = [str(c) for c, t in X.dtypes.items() if not hasattr(t, "kind") or t.kind not in "biuf"]
    if odd:
        raise InputError(
            f"Columns {odd[:5]} of the DataFrame ({len(odd)} in all) are not numbers. Drop them, "
            "or encode them: pandas.get_dummies(X)."
        )
    request.check_length(len(X), "The DataFrame")
    names = Names(X.columns.to_numpy(dtype=object), X.index.to_numpy(dtype=object))
    nullable = any(not isinstance(t, np.dtype) for t in X.dtypes)
    matrix = X.to_numpy(dtype=float, na_value=np.nan) if nullable else X.to_numpy()
    return ArraySource(matrix, missing_code=request.code_of({}), names=names)


def _open_store(path: str, storage_options: Mapping[str, Any] | None) -> Any:
    is_url = "://" in path
    try:
        if path.endswith(".zip") and not is_url:
            return zarr.open(zarr.storage.ZipStore(Path(path), mode="r"), mode="r")
        options = dict(storage_options) if storage_options and is_url else None
        return zarr.open(path, mode="r", storage_options=options)
    except BadZipFile as error:
        raise DataError(
            f"{path} is not a zip file, or its end is lost ({error}). Copy or write it again."
        ) from error
    except FileNotFoundError as error:  # zarr's own not-found errors are among them
        raise InputError(
            f"There is no Zarr array or group at {path}. Check the path, and the credentials "
            "(storage_options) of a URL."
        ) from error

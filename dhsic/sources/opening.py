"""`open_source`: whatever a user holds, as a source."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
import zarr
from zarr.storage import StorePath

from dhsic._typing import Array, Index
from dhsic.errors import InputError
from dhsic.sources.anndata import AnnDataStore, open_anndata, refuse_mudata
from dhsic.sources.arrays import check_chunks, open_in_memory
from dhsic.sources.base import AbstractSource, check_dtype
from dhsic.sources.chunked import group_at
from dhsic.sources.request import MissingChunks, OpenOptions, PloidyPolicy
from dhsic.sources.stores import metadata_of, open_store
from dhsic.sources.values import RecodedSource
from dhsic.sources.variants import passing
from dhsic.sources.vcz import holds_calls, open_calls
from dhsic.sources.xarray import names_along, open_xarray
from dhsic.sources.zarr import open_matrix

#: What opens files that are no Zarr, by their suffix.
OPENERS: dict[str, Callable[[str, OpenOptions], AbstractSource]] = {}


def open_source(
    X: Any,
    *,
    variable: str | None = None,
    sample_dim: str | int | None = None,
    n_samples: int | None = None,
    missing_code: int | Sequence[int] | str | None = "auto",
    missing_chunks: MissingChunks = "error",
    ploidy_policy: PloidyPolicy = "count",
    pass_only: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> AbstractSource:
    """Open data as a source of samples x features.

    Parameters
    ----------
    X : array, dataset, group, path or URL
        NumPy or dask array (samples, features), pandas DataFrame, xarray DataArray or Dataset,
        zarr Array or Group, AbstractSource, or the path or URL of a Zarr array or group (a
        folder, a ``.zip`` file, an object store), VCF Zarr and AnnData included.
    variable : str, optional
        Which variable of a Dataset or group. By default ``call_genotype``, else
        ``call_dosage``, else the only one with two dimensions; of AnnData ``X``, or another
        matrix such as ``layers/counts``.
    sample_dim : str or int, optional
        Dimension, or axis, of the samples. Needed only where neither the names of the dimensions
        nor `n_samples` tell.
    n_samples : int, optional
        Length of y, which X must have as many samples as.
    missing_code : int, sequence of int, None or "auto"
        Numbers that mean missing. ``"auto"``: -1 in VCF Zarr; what a Zarr or xarray array
        declares (attribute ``missing_value`` or ``_FillValue``, or fill value -1 of int8); and in
        data of 0, 1 and 2 the numbers -1, -9 and -127, any other lone value being refused. What is
        said takes the place of all that; None: every number counts as it is. In floats NaN is
        missing, always.
    missing_chunks : {"error", "fill"}
        Whether chunks that a Zarr array lacks are an error or fill values.
    ploidy_policy : {"count", "scale", "error"}
        What a genotype of lower ploidy counts: its own alleles, as many as others have, an error.
    pass_only : bool
        Leave out variants of VCF Zarr whose FILTER is not PASS, as ``bcftools view -f PASS`` does:
        those with another one, and those with none, ".", to which filters were not applied.
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
    >>> import numpy as np
    >>> source = open_source(np.arange(6.0).reshape(2, 3), n_samples=2)
    >>> source.n_samples, source.n_features
    (2, 3)
    """
    several = _codes_of(missing_code)
    said: Any = None if several else missing_code
    options = OpenOptions(variable, sample_dim, n_samples, said, missing_chunks, ploidy_policy)
    if isinstance(X, AbstractSource):
        options.check_length(X.n_samples, "X")
        if pass_only or sample_dim is not None or variable is not None:
            raise InputError(
                "X is open already: say sample_dim=, variable= and pass_only= where it is opened."
            )
        return X
    opener = OPENERS.get(Path(X).suffix) if isinstance(X, str | PathLike) else None
    if isinstance(X, str | PathLike) and opener is None:
        X = open_store(fspath(X), storage_options)
    source = _opened(X, options) if opener is None else opener(fspath(X), options)
    source.keeps_codes |= not isinstance(missing_code, str)  # said: nothing is guessed
    if source.dtype.kind == "f" and source.missing_code is not None:
        several = (*several, source.missing_code)
    if several:
        source = RecodedSource(source, several)
    if not pass_only:
        return source
    return passing(source, parent(X) if isinstance(X, zarr.Array) else X, missing_chunks)


def _codes_of(missing_code: Any) -> tuple[int, ...]:
    """Codes where there are several, none elsewhere."""
    if missing_code is None or isinstance(missing_code, str | int | np.integer):
        is_known = missing_code in (None, "auto") or not isinstance(missing_code, str | bool)
        codes: tuple[Any, ...] = ()
    else:
        codes = tuple(missing_code) if isinstance(missing_code, Iterable) else ()
        is_known = bool(codes) and all(isinstance(code, int | np.integer) for code in codes)
    if not is_known:
        raise InputError(
            f"missing_code={missing_code!r}; pass 'auto', a whole number, several of them, or None "
            "where every number counts."
        )
    return codes


def _opened(X: Any, options: OpenOptions) -> AbstractSource:
    if isinstance(X, zarr.Array):
        return _open_array(X, options)
    if isinstance(X, zarr.Group):
        return _open_group(X, options)
    if type(X).__module__.partition(".")[0] == "xarray":
        return open_xarray(X, options)
    return open_in_memory(X, options)


def _open_group(group: zarr.Group, options: OpenOptions) -> AbstractSource:
    """Open the matrix of a group: AnnData, VCF Zarr, a dataset of xarray, or one plain array."""
    where = str(group.store_path)
    refuse_mudata(group)
    store = AnnDataStore.of(group)
    if store is not None:
        return open_anndata(store, options)
    with metadata_of(where):
        arrays = {name: array for name, array in group.arrays() if array.dtype.kind in "biufc"}
    variable = options.choose({name: array.shape for name, array in arrays.items()}, where)
    if holds_calls(arrays[variable]):
        return open_calls(group, variable, options)
    return open_matrix(arrays[variable], group, options, look_beside=True)


def _open_array(array: zarr.Array[Any], options: OpenOptions) -> AbstractSource:
    """Open an array, with the names that its group has for it, where it is in one."""
    held = AnnDataStore.around(array)
    if held is not None:
        store, variable = held
        return open_anndata(store, replace(options, variable=variable))
    group = parent(array)
    if group is not None and holds_calls(array):
        return open_calls(group, array.basename, options)
    return open_matrix(array, group, options, look_beside=False)


def parent(array: zarr.Array[Any]) -> zarr.Group | None:
    """Open the group that an array is in; none for an array at the root of its store."""
    if not array.path:
        return None
    try:
        return group_at(StorePath(array.store, array.path.rpartition("/")[0]))
    except FileNotFoundError:
        return None


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

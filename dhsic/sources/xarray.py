"""xarray objects as sources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from dhsic._typing import Array
from dhsic.errors import DataError, InputError
from dhsic.sources.arrays import ArraySource, DaskSource
from dhsic.sources.base import AbstractSource
from dhsic.sources.names import Names, naming_array, text
from dhsic.sources.request import OpenOptions, PloidyPolicy
from dhsic.sources.variants import check_variants, sample_ids, variant_coords, variant_names
from dhsic.sources.vcz import DIPLOID, DOSAGES, MISSING, NO_COPY, check_policy, fold


def open_xarray(X: xr.DataArray | xr.Dataset, options: OpenOptions) -> AbstractSource:
    """Open a DataArray, or the variable of a Dataset that holds the matrix."""
    beside: Mapping[Any, Any]
    if isinstance(X, xr.Dataset):
        numeric = {str(n): v.shape for n, v in X.data_vars.items() if v.dtype.kind in "biufc"}
        array, beside = X[options.choose(numeric, "The Dataset")], X.variables
        names = _names_in(X) if {"variants", "samples"} <= set(array.dims) else None
    elif isinstance(X, xr.DataArray):
        array, beside, names = X, X.coords, None
    else:
        raise InputError(f"X is a {type(X).__name__} of xarray. Pass a DataArray or a Dataset.")
    _refuse_masked_zeros(array)
    if "ploidy" in array.dims:
        named = names or _names_of(array, "variants", "samples", beside)
        source = _open_genotypes(array, named, options)
        source.ploidy = array.sizes["ploidy"]
        return source
    source = _open_matrix(array, names, beside, options)
    if array.name in DOSAGES:
        genotypes = beside.get("call_genotype")
        source.ploidy = DIPLOID if genotypes is None else genotypes.sizes.get("ploidy", DIPLOID)
    return source


def _open_matrix(
    array: xr.DataArray, names: Names | None, beside: Mapping[Any, Any], options: OpenOptions
) -> AbstractSource:
    what = _title(array)
    if array.ndim != 2:
        raise InputError(
            f"{what} has dimensions {array.dims} and shape {array.shape}; a matrix has two, "
            "samples and features. Select one element of the others (.isel), or stack them."
        )
    dims = tuple(str(dim) for dim in array.dims)
    if dims[0] == dims[1]:
        raise InputError(
            f"{what} has dimensions {dims}, two of one name, so neither can be told. Rename them: "
            "xarray.DataArray(X.values, dims=('samples', 'features'))."
        )
    axis = options.feature_axis(array.shape, dims, what)
    features, samples = array.dims[axis], array.dims[1 - axis]
    code = options.code_of(array.encoding | array.attrs)
    if array.name in DOSAGES and options.missing_code == "auto":
        code = MISSING if array.dtype.kind == "i" else None
    source = _source(
        array.transpose(samples, features),
        code,
        names or _names_of(array, features, samples, beside),
    )
    source.dosages = array.name in DOSAGES
    return source


def _open_genotypes(array: xr.DataArray, names: Names, options: OpenOptions) -> AbstractSource:
    check_policy(options.ploidy_policy)
    calls = array.transpose("variants", "samples", "ploidy")
    options.check_length(calls.sizes["samples"], _title(array))
    policy = options.ploidy_policy
    loaded = _lazy_or_loaded(calls)
    source: AbstractSource
    if isinstance(loaded, np.ndarray):
        source = ArraySource(_dosage(loaded, policy).T, missing_code=MISSING, names=names)
    else:
        dosage = loaded.rechunk({2: -1}).map_blocks(
            _dosage, policy, drop_axis=2, dtype=np.int8, meta=np.empty((0, 0), np.int8)
        )
        source = DaskSource(dosage.T, missing_code=MISSING, names=names)
    source.dosages = source.keeps_codes = True
    return source


def _dosage(genotypes: Array, policy: PloidyPolicy) -> Array:
    lowest = int(genotypes.min(initial=0))
    if lowest < (MISSING if policy == "error" else NO_COPY):
        raise DataError(
            f"Genotypes hold allele index {lowest}; -1 is missing and -2 a copy that is not there "
            f"(ploidy_policy={policy!r}). Mend the data, or choose another ploidy_policy."
        )
    return fold(genotypes, policy)


def _source(array: xr.DataArray, code: int | None, names: Names) -> AbstractSource:
    data = _lazy_or_loaded(array)
    if isinstance(data, np.ndarray):
        return ArraySource(data, missing_code=code, names=names)
    return DaskSource(data, missing_code=code, names=names)


def _lazy_or_loaded(array: xr.DataArray) -> Any:
    """Give the dask or NumPy array behind; one that a file backs is read in its own chunks."""
    backed = array.chunks is None and not array._in_memory
    return (array.chunk({}) if backed else array).data


def names_along(X: xr.DataArray | xr.Dataset, features: Any) -> Array | None:
    """Names of the features along a dimension, as `open_xarray` reads them; None without."""
    if isinstance(X, xr.Dataset):
        if {"variants", "samples"} <= set(X.dims):
            return _names_in(X).feature_names()
        beside: Mapping[Any, Any] = X.variables
    else:
        beside = X.coords
    return _labels(X, features, beside, of_features=True)


def _names_in(ds: xr.Dataset) -> Names:
    def get(name: str) -> Array | None:
        return np.asarray(ds[name].values) if name in ds else None

    shapes = {str(name): v.shape for name, v in ds.variables.items()}
    check_variants(get, shapes, ds.sizes["variants"], "the Dataset")
    return Names(variant_names(get), sample_ids(get), variant_coords(get))


def _names_of(array: xr.DataArray, features: Any, samples: Any, beside: Mapping[Any, Any]) -> Names:
    """Names that the dimensions have as coordinates, else in a variable called after them."""
    return Names(
        _labels(array, features, beside, of_features=True),
        _labels(array, samples, beside, of_features=False),
    )


def _labels(
    X: xr.DataArray | xr.Dataset, dim: Any, beside: Mapping[Any, Any], *, of_features: bool
) -> Array | None:
    if dim in X.coords:
        return text(X[dim].values)
    described = {
        str(name): (v.shape, tuple(map(str, v.dims)), v.dtype.kind) for name, v in beside.items()
    }
    name = naming_array(described, X.sizes[dim], str(dim), of_features=of_features)
    return None if name is None else text(np.asarray(beside[name].values))


def _refuse_masked_zeros(array: xr.DataArray) -> None:
    """Refuse integers whose zeros xarray made NaN, taking a fill value 0 for a mask."""
    stored = array.encoding.get("dtype")
    fill = array.encoding.get("_FillValue")
    masked = stored is not None and np.dtype(stored).kind in "iu" and array.dtype.kind == "f"
    if masked and fill is not None and fill == 0:
        raise InputError(
            f"{_title(array)} was stored as {stored} with fill value 0, and xarray made every 0 a "
            "NaN. Open it again with mask_and_scale=False, or pass its path."
        )


def _title(array: xr.DataArray) -> str:
    return f"The DataArray {array.name!r}" if array.name is not None else "The DataArray"

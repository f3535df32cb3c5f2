"""Zarr arrays and groups as sources."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import zarr
from zarr.storage import StorePath

from dhsic.errors import InputError
from dhsic.sources.anndata import AnnDataStore, refuse_mudata
from dhsic.sources.base import AbstractSource
from dhsic.sources.chunked import dimension_names, group_at
from dhsic.sources.labels import DimensionLabels, Labels, VariantLabels, member
from dhsic.sources.orientation import feature_axis
from dhsic.sources.request import Request
from dhsic.sources.stores import metadata_of
from dhsic.sources.vcz import VczSource
from dhsic.sources.zarr import ZarrSource


def open_group(group: zarr.Group, request: Request) -> AbstractSource:
    """Open the matrix of a group: AnnData, VCF Zarr, a dataset of xarray, or one plain array."""
    where = str(group.store_path)
    refuse_mudata(group)
    store = AnnDataStore.of(group)
    if store is not None:
        return _open_anndata(store, request)
    with metadata_of(where):
        arrays = {name: array for name, array in group.arrays() if array.dtype.kind in "biufc"}
    variable = request.choose({name: array.shape for name, array in arrays.items()}, where)
    if _holds_calls(arrays[variable]):
        return _open_calls(group, variable, request)
    return _open_matrix(arrays[variable], group, request)


def open_array(array: zarr.Array[Any], request: Request) -> AbstractSource:
    """Open an array, with the names that its group has for it, where it is in one."""
    held = AnnDataStore.around(array)
    if held is not None:
        store, variable = held
        return _open_anndata(store, replace(request, variable=variable))
    group = parent(array)
    if group is not None and _holds_calls(array):
        return _open_calls(group, array.basename, request)
    return _open_matrix(array, group, request)


def _open_calls(group: zarr.Group, variable: str, request: Request) -> VczSource:
    source = VczSource(
        group,
        variable,
        ploidy_policy=request.ploidy_policy,
        missing_chunks=request.missing_chunks,
    )
    request.check_dim(1, "samples", f"{group.store_path}/{variable}")
    request.check_length(source.n_samples, f"{group.store_path}/{variable}")
    return source


def _open_matrix(array: zarr.Array[Any], group: zarr.Group | None, request: Request) -> ZarrSource:
    what, dims = str(array.store_path), dimension_names(array)
    if array.ndim != 2:
        raise InputError(
            f"{what} has shape {array.shape}; a matrix has two axes, samples and features. Open "
            "the group that it is in, or choose another variable."
        )
    axis = feature_axis(array.shape, dims, request.sample_dim, request.n_samples, what=what)
    return ZarrSource(
        array,
        axis,
        missing_code=request.code_of(array.attrs, array.dtype, array.fill_value),
        missing_chunks=request.missing_chunks,
        labels=_labels(array, group, axis),
    )


def _open_anndata(store: AnnDataStore, request: Request) -> ZarrSource:
    """Open X (n_obs, n_var) or another matrix: samples first by AnnData's format."""
    array, dims = store.matrix(request.variable)
    axis = feature_axis(
        array.shape,
        dims if any(dims) else None,
        request.sample_dim,
        request.n_samples,
        what=str(array.store_path),
    )
    return ZarrSource(
        array,
        axis,
        missing_code=request.code_of(array.attrs),
        missing_chunks=request.missing_chunks,
        labels=store.labels(request.variable, array.shape, dims, axis),
    )


def _holds_calls(array: zarr.Array[Any]) -> bool:
    dims = dimension_names(array)
    named = dims is None or set(dims[:2]) == {"variants", "samples"}
    return array.basename.startswith("call_") and array.ndim >= 2 and named


def parent(array: zarr.Array[Any]) -> zarr.Group | None:
    """Open the group that an array is in; none for an array at the root of its store."""
    if not array.path:
        return None
    try:
        return group_at(StorePath(array.store, array.path.rpartition("/")[0]))
    except FileNotFoundError:
        return None


def _labels(array: zarr.Array[Any], group: zarr.Group | None, axis: int) -> Labels:
    dims = dimension_names(array)
    if group is not None and dims and dims[axis] == "variants" and "variant_position" in group:
        return VariantLabels.of(group, array.shape[axis])
    features, samples = (_coordinate(array, group, k) for k in (axis, 1 - axis))
    return DimensionLabels.of(features, samples)


def _coordinate(
    array: zarr.Array[Any], group: zarr.Group | None, axis: int
) -> zarr.Array[Any] | None:
    """Find the array that names an axis: as xarray does, one with the name of the dimension."""
    dims = dimension_names(array)
    name = dims[axis] if dims else None
    found = member(group, name) if group is not None and name else None
    fits = found is not None and found.shape == (array.shape[axis],)
    return found if fits else None

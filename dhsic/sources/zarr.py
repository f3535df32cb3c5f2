"""A matrix in Zarr.

Zarr arrays and groups as sources.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import zarr
from zarr.storage import StorePath

from dhsic._typing import Array, Index
from dhsic.errors import InputError
from dhsic.sources.anndata import AnnDataStore, refuse_mudata
from dhsic.sources.base import AbstractSource, Block
from dhsic.sources.chunked import ChunkedArray, dimension_names, group_at
from dhsic.sources.domain import check_finite, check_shape
from dhsic.sources.fingerprint import fingerprint
from dhsic.sources.labels import DimensionLabels, Labels, VariantLabels, member
from dhsic.sources.names import naming_array
from dhsic.sources.request import Request, feature_axis
from dhsic.sources.stores import metadata_of
from dhsic.sources.vcz import VczSource
from dhsic.sources.watched import MissingChunks


class ZarrSource(AbstractSource):
    """A 2-D Zarr array: format 2 or 3, sharded or not, a folder, a zip file or an object store.

    Parameters
    ----------
    array : zarr.Array
        The matrix.
    feature_axis : int
        Which of its axes, 0 or 1, holds the features.
    missing_code : int or None
        Integer that stands for a missing value.
    missing_chunks : {"error", "fill"}
        Whether a chunk that is not stored is an error or fill values.
    labels : DimensionLabels, VariantLabels or FrameLabels, optional
        Names, read when they are asked for.
    """

    def __init__(
        self,
        array: zarr.Array[Any],
        feature_axis: int,
        *,
        missing_code: int | None = None,
        missing_chunks: MissingChunks = "error",
        labels: Labels | None = None,
    ) -> None:
        check_shape(array.shape, str(array.store_path))
        self._data = ChunkedArray(array, feature_axis, missing_chunks)
        self._dims = dimension_names(array)
        self.n_samples, self.n_features = self._data.n_samples, self._data.n_features
        self.dtype = self._data.dtype
        self.missing_code = missing_code
        self.client_bytes, self.chunk_bytes = self._data.client_bytes, self._data.chunk_bytes
        self._labels = labels or DimensionLabels()

    def named_by(self, group: zarr.Group) -> ZarrSource:
        """Take the names that an axis lacks from the array of `group` that says it holds them.

        Names of dimensions lead to names at once; a matrix without may still have ``variant_id``
        or ``sample_id`` beside it.
        """
        if not isinstance(self._labels, DimensionLabels):
            return self
        dims = self._dims
        if dims is None and self._has_variants(group):
            self._labels = VariantLabels.of(group, self.n_features)
            return self
        beside = {
            name: (array.shape, dimension_names(array), array.dtype.kind)
            for name, array in group.arrays()
        }
        axis = self._data.feature_axis

        def found(length: int, at: int, *, of_features: bool) -> zarr.Array[Any] | None:
            dim = dims[at] if dims else None
            name = naming_array(beside, length, dim, of_features=of_features)
            return None if name is None else member(group, name)

        near = DimensionLabels.of(
            found(self.n_features, axis, of_features=True),
            found(self.n_samples, 1 - axis, of_features=False),
        )
        own = self._labels
        self._labels = DimensionLabels(own.features or near.features, own.samples or near.samples)
        return self

    def _has_variants(self, group: zarr.Group) -> bool:
        """Whether the arrays of VCF Zarr are there for every feature, and none for others."""
        position, ids = member(group, "variant_position"), member(group, "sample_id")
        fits = position is not None and position.shape == (self.n_features,)
        return fits and (ids is None or ids.shape == (self.n_samples,))

    def blocks(self, width: int) -> tuple[Block, ...]:
        """Group whole chunks (or shards) into blocks of up to `width` features."""
        return self._data.blocks(width)

    def read(self, block: Block, rows: Index | None = None) -> Array:
        """Read a block, (m, c)."""
        values = self._data.read(block, rows)
        check_finite(values, block, rows, self._data.place, self.missing_code)
        return values.T

    def fingerprint(self) -> str:
        names = self._labels.identity()
        return fingerprint(self, self._data.edges, self._data.layout, *names)

    def feature_names(self) -> Array | None:
        return self._labels.feature_names()

    def sample_names(self) -> Array | None:
        return self._labels.sample_names()

    def feature_coords(self) -> Mapping[str, Array]:
        return self._labels.feature_coords()


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

"""A matrix in Zarr."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import zarr

from dhsic._typing import Array, Index
from dhsic.errors import InputError
from dhsic.sources.base import AbstractSource, Block, check_finite, check_shape, fingerprint
from dhsic.sources.chunked import ChunkedArray, dimension_names, member, stored_names
from dhsic.sources.names import Names, naming_array
from dhsic.sources.request import OpenOptions
from dhsic.sources.variants import POSITION, Variants

if TYPE_CHECKING:
    from dhsic.sources.vcz import Calls


class ZarrSource(AbstractSource):
    """A Zarr array: format 2 or 3, sharded or not, a folder, a zip file or an object store.

    Parameters
    ----------
    chunked : ChunkedArray
        The matrix, or calls.
    names : Names
        Of its features and samples.
    missing_code : int or None
        Integer that stands for a missing value.
    calls : Calls, optional
        How calls of variants become numbers, where it holds some.
    """

    chunked: ChunkedArray

    def __init__(
        self,
        chunked: ChunkedArray,
        names: Names,
        *,
        missing_code: int | None = None,
        calls: Calls | None = None,
    ) -> None:
        if calls is None:
            check_shape(chunked.shape, chunked.label)
        self.chunked, self.names, self.calls = chunked, names, calls
        self.n_samples, self.n_features = chunked.n_samples, chunked.n_features
        self.dtype = chunked.dtype if calls is None else calls.dtype
        self.missing_code = missing_code
        self.client_bytes, self.chunk_bytes = chunked.client_bytes, chunked.chunk_bytes

    def blocks(self, width: int) -> tuple[Block, ...]:
        return self.chunked.blocks(width)

    def read(self, block: Block, rows: Index | None = None) -> Array:
        values = self.chunked.read(block, rows)
        if self.calls is not None:
            return self.calls.numbers(values, block, rows).T
        check_finite(values, block, rows, self.chunked.place, self.missing_code)
        return values.T

    def fingerprint(self) -> str:
        layout = self.chunked.layout
        if self.calls is not None:
            layout = layout, self.calls.policy, self.calls.mask is not None
        return fingerprint(self, self.chunked.edges, layout)


def open_matrix(
    array: zarr.Array[Any], group: zarr.Group | None, options: OpenOptions, *, look_beside: bool
) -> ZarrSource:
    """Open an array with two axes, with the names that its group has for it.

    Parameters
    ----------
    look_beside : bool
        Take names that an axis lacks from the array of the group that says it holds them.
    """
    what, dims = str(array.store_path), dimension_names(array)
    if array.ndim != 2:
        raise InputError(
            f"{what} has shape {array.shape}; a matrix has two axes, samples and features. Open "
            "the group that it is in, or choose another variable."
        )
    axis = options.feature_axis(array.shape, dims, what)
    names = Names() if group is None else _names_in(group, array, axis, look_beside=look_beside)
    chunked = ChunkedArray(array, axis, options.missing_chunks)
    code = options.code_of(array.attrs, array.dtype, array.fill_value)
    return ZarrSource(chunked, names, missing_code=code)


def _names_in(group: zarr.Group, array: zarr.Array[Any], axis: int, *, look_beside: bool) -> Names:
    """Names that a group has for the features, along an axis of an array, and for the samples.

    Names of dimensions lead to names at once; a matrix without may still have ``variant_id`` or
    ``sample_id`` beside it.
    """
    dims = dimension_names(array)
    if dims is None:
        is_of_variants = look_beside and _has_variants(group, array, axis)
    else:
        is_of_variants = dims[axis] == "variants" and POSITION in group
    if is_of_variants:
        return Variants.names_of(group, array.shape[axis])
    found = {}
    for at in (axis, 1 - axis):
        found[at] = _coordinate(group, array, at)
        if look_beside and found[at] is None:
            found[at] = _beside(group, array, at, of_features=at == axis)
    return Names(stored_names(found[axis]), stored_names(found[1 - axis]))


def _has_variants(group: zarr.Group, array: zarr.Array[Any], axis: int) -> bool:
    """Whether the arrays of VCF Zarr are there for every feature, and none for others."""
    position, ids = member(group, POSITION), member(group, "sample_id")
    fits = position is not None and position.shape == (array.shape[axis],)
    return fits and (ids is None or ids.shape == (array.shape[1 - axis],))


def _coordinate(group: zarr.Group, array: zarr.Array[Any], axis: int) -> zarr.Array[Any] | None:
    """Find the array that names an axis: as xarray does, one with the name of the dimension."""
    dims = dimension_names(array)
    name = dims[axis] if dims else None
    found = member(group, name) if name else None
    return found if found is not None and found.shape == (array.shape[axis],) else None


def _beside(
    group: zarr.Group, array: zarr.Array[Any], axis: int, *, of_features: bool
) -> zarr.Array[Any] | None:
    """Find the array that says of itself that it names an axis."""
    dims = dimension_names(array)
    beside = {
        name: (other.shape, dimension_names(other), other.dtype.kind)
        for name, other in group.arrays()
    }
    dim = dims[axis] if dims else None
    name = naming_array(beside, array.shape[axis], dim, of_features=of_features)
    return None if name is None else member(group, name)

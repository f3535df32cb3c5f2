"""Matrices in arrays and groups of a Zarr store, with the names of features and samples.

A group may be of xarray, VCF Zarr or AnnData. A group with matrices only in subgroups is refused,
and the message lists the matrices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import zarr
from zarr.storage import StorePath

from dhsic._typing import Array
from dhsic.errors import InputError
from dhsic.sources import AbstractSource, Names
from dhsic.sources.anndata import AnnDataStore, open_anndata
from dhsic.sources.blocks import check_shape
from dhsic.sources.chunked import (
    array_at,
    arrays_of,
    child,
    chunked_of,
    group_at,
    member,
    place_of,
    read_names,
)
from dhsic.sources.columns import NAME, Column
from dhsic.sources.ids import abbreviate
from dhsic.sources.mudata import refuse_mudata
from dhsic.sources.options import OpenOptions, dimension_names, naming_array
from dhsic.sources.packing import xarray_masks_zeros
from dhsic.sources.sexes import ON_X, DosagesOnX, stored_on_x, stored_sex
from dhsic.sources.stores import metadata_of
from dhsic.sources.variants import POSITION, Variants
from dhsic.sources.vcz import holds_calls, open_calls
from dhsic.sources.zarr import ZarrSource

#: Arrays that show whether VCF Zarr arrays describe a matrix without dimension names.
NAMING = (POSITION, "sample_id")
#: Maximum depth of subgroups that are searched for matrices.
GROUP_DEPTH = 4


def open_group(group: zarr.Group, options: OpenOptions) -> AbstractSource:
    """Open the matrix of a group: AnnData, VCF Zarr, an xarray dataset, or one plain array."""
    refuse_mudata(group)
    store = AnnDataStore.of(group)
    if store is not None:
        return open_anndata(store, options)
    name = options.variable or ""
    inner = child(group, name) if "/" in name else None
    if isinstance(inner, zarr.Array):
        return open_array(inner, options)
    arrays = arrays_of(group)
    shapes = {name: a.shape for name, a in arrays.items() if a.dtype.kind in "biufc"}
    if not any(len(shape) > 1 for shape in shapes.values()):
        refuse_groups(group)
    variable = options.choose(shapes, str(group.store_path))
    if holds_calls(arrays[variable]):
        return open_calls(group, variable, options)
    return _open_matrix(arrays[variable], group, arrays, options)


def refuse_groups(group: zarr.Group) -> None:
    """Raise InputError if only subgroups of a group contain matrices; the message lists them."""
    with metadata_of(group.store_path):
        members = dict(group.members(max_depth=GROUP_DEPTH))
    found = {
        name: node.shape
        for name, node in sorted(members.items())
        if isinstance(node, zarr.Array) and node.ndim > 1 and node.dtype.kind in "biufc"
    }
    vectors = Counter(
        name.rpartition("/")[0]
        for name, node in members.items()
        if isinstance(node, zarr.Array) and node.ndim == 1
    )
    if found:
        first = max(found, key=lambda name: vectors[name.rpartition("/")[0]])  # beside labels
        where = str(group.store_path).removeprefix("file://")
        raise InputError(
            f"{where} has no matrix at its top level, but its groups have: "
            f"{abbreviate((f'{name} {shape}' for name, shape in found.items()), 8)}. Pass the "
            f"path of the group with the matrix, {where}/{first.rpartition('/')[0]}, or "
            f"variable={first!r}. Give labels with their group, too (rna/cell_type)."
        )


def open_array(array: zarr.Array[Any], options: OpenOptions) -> AbstractSource:
    """Open an array as a matrix: of AnnData, of VCF Zarr, or with names in arrays beside it."""
    anndata = AnnDataStore.containing(array)
    if anndata is not None:
        store, variable = anndata
        return open_anndata(store, replace(options, variable=variable))
    group = parent(array)
    if group is None:
        return _open_matrix(array, None, {}, options)
    if holds_calls(array):
        return open_calls(group, array.basename, options)
    found = {dim: member(group, dim) for dim in dimension_names(array) or () if dim}
    coordinates = {dim: of for dim, of in found.items() if of is not None}
    return _open_matrix(array, group, coordinates, options)


def _open_matrix(
    array: zarr.Array[Any],
    group: zarr.Group | None,
    beside: Mapping[str, zarr.Array[Any]],
    options: OpenOptions,
) -> ZarrSource:
    """Open an array with two axes.

    `beside` are the other arrays of its group, which may contain names of features and samples.
    """
    what = str(array.store_path)
    if array.ndim != 2:
        raise InputError(
            f"{what} has shape {array.shape}, but a matrix has two axes, samples and features. "
            "Open the group that contains it, or choose another variable."
        )
    axis = options.feature_axis(array.shape, dimension_names(array), what)
    names = Names() if group is None else _names_in(group, array, axis, beside)
    chunked, code = chunked_of(array, axis, options)
    check_shape(chunked.shape, chunked.label)
    source = ZarrSource(chunked, names, missing_code=code)
    if options.missing_code == "auto" and xarray_masks_zeros(array):
        source.hint = (
            f"The fill value of {what} (Zarr format 2) is 0, so xarray reads its zeros as missing "
            "values, and dhsic as 0. If they are missing, pass missing_code=0; if not, pass "
            "missing_code=None."
        )
    if ON_X in beside and group is not None:
        place = place_of(group)
        sex = partial(stored_sex, place)
        source.on_x = DosagesOnX(partial(stored_on_x, place), sex, is_placed=False)
    return source


def _names_in(
    group: zarr.Group, array: zarr.Array[Any], axis: int, beside: Mapping[str, zarr.Array[Any]]
) -> Names:
    """Return the names of the features and samples of a matrix; features are along `axis`.

    The dimension names of the array, if there are any, determine which arrays contain the names.
    Otherwise the names are ``variant_id`` and ``sample_id`` of the same group, if their lengths
    match the matrix.
    """
    dims, lengths = dimension_names(array), {at: (array.shape[at],) for at in (0, 1)}
    if dims is None:
        of_features, of_samples = (getattr(beside.get(name), "shape", None) for name in NAMING)
        fits = of_features == lengths[axis] and of_samples in (None, lengths[1 - axis])
    else:
        fits = dims[axis] == "variants" and POSITION in group
    if fits:
        return Variants.names_of(group, array.shape[axis])

    def along(at: int) -> Callable[..., Array] | None:
        dim = dims[at] if dims else None
        name = naming_array(beside, array.shape[at], dim, of_features=at == axis)
        return None if name is None else partial(_stored_names, place_of(beside[name]))

    of_features = along(axis)
    if of_features is None:
        return Names(None, along(1 - axis))
    column = Column(array.shape[axis], np.dtype(object), of_features)
    return Names(of_features, along(1 - axis), columns={NAME: column})


def _stored_names(place: StorePath, rows: Any = ...) -> Array:
    return read_names(array_at(place), rows)


def parent(array: zarr.Array[Any]) -> zarr.Group | None:
    """Open the group of an array; None for an array at the root of its store."""
    if not array.path:
        return None
    try:
        return group_at(StorePath(array.store, array.path.rpartition("/")[0]))
    except FileNotFoundError:
        return None

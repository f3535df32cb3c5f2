"""Variables of a store or dataset by name: labels along the samples, groups along the features."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from os import PathLike, fspath
from typing import Any

import xarray as xr
import zarr

from dhsic._typing import Array
from dhsic.errors import DhsicError, InputError
from dhsic.joins.keys import did_you_mean
from dhsic.sources.anndata import AnnDataStore, Frame
from dhsic.sources.base import AbstractSource
from dhsic.sources.opening import open_source, open_store, opener_of
from dhsic.sources.options import FEATURE_DIMS, SAMPLE_DIMS, MissingChunks
from dhsic.sources.stores import metadata_of
from dhsic.sources.zarr import dimension_names, read_array
from dhsic.validation import refuse_lossy

#: Arrays along the samples that name them rather than describe them.
IDENTIFIERS = frozenset({"sample_id", "samples", "sample"})
#: Dimensions of what is about something else than the samples.
OTHER_DIMS = FEATURE_DIMS | {"contigs", "filters"}


def read_target(data: Any, name: str, missing_chunks: MissingChunks = "error") -> Array:
    """Values of the one- or two-dimensional variable `name` of `data`.

    Parameters
    ----------
    data : path, URL, group or Dataset
        What holds the variable.
    name : str
        Which one; of AnnData a column of `obs`. Categories are text, "" where missing.
    missing_chunks : {"error", "fill"}
        Whether chunks that a store lacks are an error or fill values.

    Raises
    ------
    InputError
        `data` has no variables, or none of that name; the message lists those that would do.
    DataError
        The variable is damaged.
    """
    return labels_at(data, name, missing_chunks, "the labels themselves, one a sample")


def labels_at(data: Any, name: str, missing_chunks: MissingChunks, otherwise: str) -> Array:
    """As of `read_target`; `otherwise` is what else can be passed, for its sentences."""
    opened = _opened(data)
    store = anndata_of(opened)
    if store is not None:
        return _column(store.obs, name, otherwise, missing_chunks)
    if not isinstance(opened, (zarr.Group, xr.Dataset)):
        refuse_lossy(data, "X")
        what = (
            f"{data} is a single array and holds no variable {name!r}"
            if isinstance(data, (str, PathLike))
            else f"target={name!r} names a variable, and {type(data).__name__} has none"
        )
        raise InputError(f"{what}; pass {otherwise}.")
    most = 2 if isinstance(opened, xr.Dataset) else 1
    found = {key: of for key, of in _variables(opened).items() if 1 <= of.ndim <= most}
    if name in found:
        return _values(found[name], missing_chunks)
    source = None
    with suppress(DhsicError):
        source = open_source(opened)
    usable = along_samples(found, source)
    if not usable:
        raise InputError(
            f"There is no variable {name!r} along the samples, nor any other; pass {otherwise}."
        )
    raise InputError(
        f"There is no variable {name!r} along the samples; there are {', '.join(usable)}."
        f"{did_you_mean(name, usable)} Pass one of them, or {otherwise}."
    )


def read_groups(
    data: Any, name: str, source: AbstractSource, missing_chunks: MissingChunks = "error"
) -> Array:
    """Values of the variable `name` of `data` (of AnnData, the column of `var`), (d,).

    There is one for each feature of `source`, which was opened from `data`.

    Raises
    ------
    InputError
        `data` has no such variable along the features; the message lists those that it has.
    """
    if not isinstance(data, (str, PathLike, zarr.Group, xr.Dataset)):
        raise InputError(
            f"groups={name!r} names a variable, and {type(data).__name__} has none; pass one name "
            "a feature."
        )
    opened = _opened(data)
    store = anndata_of(opened)
    if store is not None:
        return source.of_features(_column(store.var, name, "one name a feature", missing_chunks))
    d = source.n_features + source.n_features_filtered
    found = _variables(opened) if isinstance(opened, (zarr.Group, xr.Dataset)) else {}
    along = sorted(key for key, of in found.items() if of.shape == (d,))
    if name in along:
        return source.of_features(_values(found[name], missing_chunks))
    known = f"there are {', '.join(along)}" if along else "nor any other"
    raise InputError(
        f"There is no variable {name!r} along the {d:,} features; {known}."
        f"{did_you_mean(name, along)} Pass one of them, or one name a feature."
    )


def anndata_of(data: Any) -> AnnDataStore | None:
    """AnnData on Zarr, or None for anything else."""
    opened = _opened(data)
    return AnnDataStore.of(opened) if isinstance(opened, zarr.Group) else None


def _opened(data: Any) -> Any:
    """A store; what is no Zarr stays as it is, a matrix without variables beside it."""
    is_store = isinstance(data, (str, PathLike)) and opener_of(data) is None
    return open_store(fspath(data)) if is_store else data


def _variables(data: zarr.Group | xr.Dataset) -> dict[str, Any]:
    """Arrays of a group, or variables of a Dataset, by name."""
    if isinstance(data, xr.Dataset):
        return {str(name): data[name] for name in data.variables}
    with metadata_of(data.store_path):
        return dict(data.arrays())


def _values(of: zarr.Array[Any] | xr.DataArray, missing_chunks: MissingChunks) -> Array:
    return read_array(of, missing_chunks) if isinstance(of, zarr.Array) else of.to_numpy()


def _column(frame: Frame, name: str, otherwise: str, missing_chunks: MissingChunks) -> Array:
    """A column of a dataframe by its name."""
    if name in frame.columns:
        return frame.column(name, missing_chunks)
    columns = ", ".join(frame.columns) or "none"
    raise InputError(
        f"{frame.place} has no column {name!r}; its columns are {columns}."
        f"{did_you_mean(name, frame.columns)} Pass one of them, or {otherwise}."
    )


def along_samples(found: Mapping[str, Any], source: AbstractSource | None) -> list[str]:
    """Names of the variables that have one value, or row of values, a sample of a source.

    Without one, where it is not known which axis the samples are, names of dimensions must tell.
    """

    def fits(name: str, of: Any) -> bool:
        named = dimension_names(of) if isinstance(of, zarr.Array) else of.dims
        dims = tuple(str(dim).lower() for dim in named or ())
        if name in (*IDENTIFIERS, *dims[:1]) or not OTHER_DIMS.isdisjoint(dims):
            return False
        if source is None:
            return bool(dims) and dims[0] in SAMPLE_DIMS
        return bool(of.shape[0] == source.n_samples and of.shape[1:] != (source.n_features,))

    return sorted(name for name, of in found.items() if fits(name, of))

"""Results on disk: a Zarr store with everything, or a table of features.

Computed columns, a few numbers per feature, are written by the process that has the result. Columns
of the data (names, alleles) may be too large to load, and are read on demand
(`dhsic.sources.columns`). If workers can access the path of the result, they copy these columns;
each task copies a range of `STRETCH` neighbouring features.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from contextlib import closing
from os import PathLike, fspath
from typing import Any

import numpy as np
import xarray as xr
import zarr
from zarr.abc.store import Store
from zarr.storage import MemoryStore

from dhsic._typing import Array
from dhsic.criteria.independence import inflation_of
from dhsic.errors import DataError, InputError
from dhsic.namespace import slices
from dhsic.results import announce_result, tables
from dhsic.results.views import LEVEL, as_result, of_tests
from dhsic.runtime.base import AbstractRuntime, Job
from dhsic.sources import AbstractSource
from dhsic.sources.arrays import ArraySource
from dhsic.sources.chunked import read_array
from dhsic.sources.columns import STRETCH
from dhsic.sources.options import dimension_names
from dhsic.sources.stores import FolderStore, metadata_of
from dhsic.sources.zarr import check_free, create_array, written_aside
from dhsic.storage import store_at
from dhsic.storage.format import META, as_bytes, in_memory
from dhsic.storage.objects import ObjectStore
from dhsic.storage.paths import as_path, check_place, check_url, is_url

#: Attributes by which a worker checks that it writes to the right result.
SIGNS = ("created", "fingerprint")


def save(
    result: Any,
    path: str | PathLike[str],
    *,
    overwrite: bool = False,
    selected_only: bool = False,
) -> None:
    """Write a result as a table of features, or as a Zarr store with everything.

    The suffix of `path` determines the format. ``.tsv``, ``.csv`` (both also with ``.gz``),
    ``.parquet`` and ``.json`` give a table, see `dhsic.results.tables` for its columns.
    ``.snplist`` gives a list of the selected features, one name per line, best first. ``.zarr`` or
    no suffix gives a Zarr store (format 3), which `load` and `xarray.open_zarr` read. A table
    has all features, or with `selected_only` the features selected in at least one run. An
    interrupted write leaves the previous file or store at `path` unchanged.

    Every array of a store has crc32c checksums and a fill value outside its domain. The folder of
    `path` is created if its parent exists. At a URL of an object store, such as
    ``s3://bucket/result.zarr``, an overwritten store is removed first.

    Raises
    ------
    InputError
        `path` exists and `overwrite` is False, its folder does not exist, the suffix is unknown, or
        `selected_only` is used with a store.
    StoreError
        The object store does not answer.
    """
    save_by(None, result, path, overwrite=overwrite, selected_only=selected_only)


def save_by(
    runtime: AbstractRuntime | None,
    result: Any,
    path: str | PathLike[str],
    *,
    overwrite: bool = False,
    selected_only: bool = False,
) -> None:
    """Save a result like `save`; workers of `runtime` copy columns if they can access the path."""
    unwrapped = getattr(result, "result_", result)
    is_table = bool(tables.table_suffix(path))
    is_cut = (
        is_table and isinstance(unwrapped, xr.Dataset) and "rank" in unwrapped
    )  # selected_features
    result = unwrapped if is_cut and not selected_only else as_result(unwrapped)
    check_vacant(path, overwrite=overwrite, selected_only=selected_only)
    if is_table:
        tables.write_table(tables.selected_alone(result) if selected_only else result, path)
        return
    if is_url(path):
        _save_at(result, fspath(path))
        return
    check_place(as_path(path), "The result", InputError)
    with written_aside(as_path(path), overwrite=overwrite) as part:
        _write(result, str(part.absolute()), runtime)


def _save_at(result: xr.Dataset, url: str) -> None:
    """Write a result to a URL; write the root metadata last, so a partial result is invalid."""
    at = ObjectStore(check_url(url, "", InputError))
    files: dict[str, Any] = {}
    _write(result, MemoryStore(files))
    written = as_bytes(files)
    root = written.pop(META)
    at.remove(META)
    at.remove("")
    at.write_all(written)
    at.write(META, root)


def _write(result: xr.Dataset, store: Any, runtime: AbstractRuntime | None = None) -> None:
    group = zarr.open_group(store, mode="w", zarr_format=3, attributes=dict(result.attrs))
    variables = {str(name): variable for name, variable in result.variables.items()}
    write_variables(group, variables, runtime, None if runtime is None else store)
    coordinates = " ".join(map(str, result.coords))
    if coordinates:
        group.attrs["coordinates"] = coordinates
    with warnings.catch_warnings():  # xarray reads consolidated metadata
        warnings.filterwarnings("ignore", "Consolidated metadata", UserWarning)  # for format 3
        zarr.consolidate_metadata(store)


def write_variables(
    group: zarr.Group,
    variables: Mapping[str, xr.Variable],
    runtime: AbstractRuntime | None = None,
    place: str | None = None,
) -> None:
    """Write variables to a Zarr group.

    Workers of `runtime` copy the variables that have not been read from the data yet, if they can
    access the group at the path `place`.
    """
    arrays: dict[str, Any] = {}
    for name, of in variables.items():
        chunks = tuple(min(STRETCH, n) if axis == 0 else n for axis, n in enumerate(of.shape))
        dims, dtype = tuple(map(str, of.dims)), str if of.dtype.kind in "OUT" else of.dtype
        arrays[name] = create_array(
            group, name, shape=of.shape, dtype=dtype, chunks=chunks, dims=dims
        )
        arrays[name].attrs.update(of.attrs)
    by_workers = {}
    if runtime is not None and runtime.is_remote and place is not None:
        by_workers = {name: of for name, of in variables.items() if _is_unread(of)}
    unwritten = _sent(runtime, place, group, by_workers) if runtime and place and by_workers else []
    for name, of in variables.items():
        every: list[Any] = [*slices(of.shape[0], STRETCH)] if of.dims else [...]
        for rows in unwritten if name in by_workers else every:
            arrays[name][rows] = _stored(of[rows].to_numpy())


def _sent(
    runtime: AbstractRuntime, place: str, group: zarr.Group, unread: Mapping[str, xr.Variable]
) -> list[slice]:
    """Let workers copy variables by ranges of features; return the ranges that they left out."""
    (n,) = {of.size for of in unread.values()}
    stretches = slices(n, STRETCH)
    signs = [group.attrs.get(name) for name in SIGNS]
    jobs, nothing = [Job((), rows) for rows in stretches], ArraySource(np.zeros((1, 1)))
    with closing(runtime.map(_write_stretch, nothing, jobs, (place, signs, unread))) as results:
        return [rows for rows, done in zip(stretches, results, strict=True) if not done]


def _write_stretch(source: AbstractSource, job: Job, state: Any) -> bool:
    """Task that copies variables for a range of features; return whether the range was written.

    It is not written if this worker cannot access the result.
    """
    del source
    place, signs, unread = state
    try:
        group: Any = zarr.open_group(place, mode="r+", use_consolidated=False)
        if [group.attrs.get(name) for name in SIGNS] != signs:
            return False
        for name, of in unread.items():
            group[name][job.payload] = _stored(of[job.payload].to_numpy())
    except OSError:  # the caller writes the stretch, or reports the error
        return False
    return True


def _is_unread(variable: xr.Variable) -> bool:
    """Whether a variable has one value per feature, and its values are still to be read."""
    is_lazy = variable.chunks is None and not variable._in_memory
    return is_lazy and variable.dims == ("features",)


def _stored(values: Array) -> Array:
    if values.dtype.kind not in "OUT":
        return values
    text = np.array([str(v) for v in values.flat], dtype=object)
    return text.reshape(values.shape)


def check_vacant(
    path: str | PathLike[str], *, overwrite: bool, selected_only: bool = False
) -> None:
    """Reject unknown formats, and existing paths unless they may be overwritten."""
    is_table, is_there = bool(tables.check_suffix(path)), exists(path)
    if selected_only and not is_table:
        raise InputError(
            f"selected_only=True works for tables, but {path} is a Zarr store, which always has "
            "all features. Leave selected_only= out, or use the suffix .tsv, .csv, .parquet or "
            ".json."
        )
    if not (is_table or is_url(path)):
        check_free(as_path(path), overwrite=overwrite)
        return
    at = store_at(path, "", InputError)
    is_file = not at.is_there() if is_url(path) else as_path(path).is_file() or not is_there
    if is_table and not is_file:
        raise InputError(
            f"{path} is not a file (for example, it is a folder), so it is not overwritten by a "
            "table. Choose another path, or remove it yourself."
        )
    if not (is_table or is_there) and (names := sorted(at.names())):
        raise InputError(
            f"{path} contains other files ({', '.join(names[:3])}) and is not a Zarr store, so it "
            "is not overwritten. Choose another path, or remove it yourself."
        )
    if is_there and not overwrite:
        raise InputError(
            f"{path} exists already. Choose another path, or overwrite it (overwrite=True)."
        )


def exists(path: str | PathLike[str]) -> bool:
    """Whether a path exists; for a URL, whether there is a Zarr store or a table."""
    if is_url(path):
        return store_at(path, "", InputError).has("" if tables.table_suffix(path) else META)
    return as_path(path).exists()


def is_result(path: str | PathLike[str]) -> bool:
    """Whether a folder is the Zarr store of a result, as written by `save`."""
    if is_url(path):
        return False
    try:
        root = json.loads(store_at(path, "", InputError).read(META))
    except (OSError, ValueError):
        return False
    return "dhsic_format" in root.get("attributes", {})


def from_table(path: str | PathLike[str]) -> xr.Dataset:
    """Read a result from a table that `save` wrote, see `dhsic.results.tables.read_table`.

    If exactly the features with small q-values are selected, the result is returned as a result of
    tests, see `dhsic.results.views.of_tests`.
    """
    result = tables.read_table(path)
    if not {"p", "q"} <= set(result) or "selected_by" in result.attrs:
        return result
    p, is_low = result["p"].to_numpy(), result["q"].to_numpy() <= LEVEL
    tested = np.isfinite(p)
    if not tested.any() or not np.array_equal(is_low, result["selected"]):
        return result
    return of_tests(result).assign_attrs(inflation=inflation_of(p[tested]))


def load(path: str | PathLike[str]) -> xr.Dataset:
    """Load a saved result into memory.

    Raises
    ------
    InputError
        There is no result at `path`, or it is a table.
    StoreError
        The object store does not answer.
    """
    announce_result()
    at = store_at(path, "", InputError)
    if not at.is_there():
        suffix = tables.table_suffix(path)
        if suffix and exists(path):
            raise InputError(
                f"{path} is a table; dhsic.load reads results from Zarr stores, as written by "
                f"dhsic.save or --out X.zarr. Read the table with "
                f"{tables.FORMATS[suffix.removesuffix('.gz')][1]}. To get both, write the store "
                f"first, then dhsic.save(dhsic.load('X.zarr'), 'X{suffix}')."
            )
        raise InputError(f"There is no result at {path}; pass a folder written by dhsic.save.")
    if isinstance(at, ObjectStore):
        store: Store = in_memory(at.read_all(at.tree()))
    else:
        store = FolderStore(as_path(path), read_only=True)
    try:
        with metadata_of(path):
            group = zarr.open_group(store, mode="r", use_consolidated=False)
            arrays = dict(group.arrays())
    except OSError as error:
        raise InputError(
            f"{path} is not a result of a selection ({type(error).__name__}); pass a folder "
            "written by dhsic.save."
        ) from error
    if "dhsic_format" not in group.attrs:
        raise InputError(
            f"{path} is a Zarr store, but not a result; pass a folder written by dhsic.save."
        )
    if "rank" not in arrays:  # zarr 3.1.0 skips arrays that it cannot open
        raise DataError(f"{path} is damaged, because its ranks are missing; save the result again.")
    attributes = dict(group.attrs)
    coordinates = str(attributes.pop("coordinates", "")).split()
    variables = {
        name: _variable(arrays[name]) for name in sorted(arrays)
    }  # sorted, because the order of files depends on the file system
    read = xr.Dataset(variables, attrs=attributes)
    return read.set_coords([name for name in coordinates if name in read])


def _variable(array: zarr.Array[Any]) -> xr.Variable:
    values = read_array(array)
    dims = [str(dim) for dim in dimension_names(array) or ()]
    if len(dims) != values.ndim:
        raise InputError(
            f"{array.store_path} has no dimension names, so it is not part of a result; pass a "
            "folder written by dhsic.save."
        )
    values = values.astype(object) if values.dtype.kind == "T" else values
    return xr.Variable(dims, values, dict(array.attrs))

"""Variables stored beside the matrix, one value per sample or feature, read by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from os import PathLike
from typing import Any, NoReturn

import numpy as np
import pandas as pd
import xarray as xr
import zarr

from dhsic._typing import Array
from dhsic.errors import DataError, DhsicError, InputError
from dhsic.joins.coordinates import coordinates_of
from dhsic.joins.text import (
    check_numbers,
    is_missing,
    levels_in_table,
    phenotype,
    stripped,
    typed,
)
from dhsic.joins.written_numbers import refuse_written
from dhsic.sources import AbstractSource
from dhsic.sources.anndata import AbstractAnnData, AnnDataStore
from dhsic.sources.blocks import Block
from dhsic.sources.categories import codes_at
from dhsic.sources.chunked import LEVELS, arrays_of, member, read_variable
from dhsic.sources.file_lists import expanded, is_several
from dhsic.sources.frames import AbstractFrame
from dhsic.sources.h5ad import AnnDataObject, H5Store, is_anndata
from dhsic.sources.hdf5 import is_h5ad
from dhsic.sources.ids import abbreviate, did_you_mean
from dhsic.sources.joined import Part, parts_of
from dhsic.sources.mudata import joint_obs
from dhsic.sources.opening import (
    has_sample_table,
    is_table,
    on_disk,
    open_source,
    open_store,
    opener_of,
)
from dhsic.sources.options import FEATURE_DIMS, SAMPLE_DIMS, MissingChunks, dimension_names
from dhsic.sources.packing import declared, unpacked
from dhsic.sources.plink import samples_table
from dhsic.sources.rewriting import WrittenColumn
from dhsic.sources.sexes import coded_sex
from dhsic.sources.views import whole_of
from dhsic.sources.zarr_matrices import GROUP_DEPTH, refuse_groups
from dhsic.validation import refuse_lossy


def has_variables(data: Any) -> bool:
    """Whether data may contain labels and covariates besides the features."""
    files = (str, PathLike, zarr.Group, xr.Dataset, AbstractSource)
    return isinstance(data, files) or is_anndata(data) or is_several(data)


#: Attributes of a variable that define the meanings of its codes, in the CF conventions.
FLAGS, MEANINGS = "flag_values", "flag_meanings"
#: Arrays along the samples that name them rather than describe them.
IDENTIFIERS = frozenset({"sample_id", "samples", "sample"})
#: Dimensions of variables that do not describe samples.
OTHER_DIMS = FEATURE_DIMS | {"contigs", "filters"}


def has_columns(data: Any) -> bool:
    """Whether data are a table, a frame or a source, where a feature may serve as a variable."""
    return isinstance(data, (pd.DataFrame, AbstractSource)) or is_table(data)


def column_of(data: Any, source: AbstractSource, name: str) -> Array | None:
    """Read the feature `name` of `source` as a column (m,); categories as text, "" if missing.

    The result is None if no feature in memory has this name, or if `data` have variables beside
    their features.
    """
    names = source.feature_names()
    if names is None or not (source.in_memory and has_columns(data)):
        return None
    at = np.flatnonzero(np.asarray(names) == name)
    if at.size != 1:
        return None
    j = int(at[0])
    if j in source.levels:
        return np.array([*source.levels[j], ""], dtype=object)[codes_at(source, j, None)]
    values: Array = source.read_columns(Block(0, j, j + 1), np.zeros(1, np.int64))[0]
    return values


def read_target(data: Any, name: str, missing_chunks: MissingChunks = "error") -> Array:
    """Read the labels `name` of `data`: a variable with one or two dimensions.

    Parameters
    ----------
    data : path, URL, group or Dataset
        Data with the variable.
    name : str
        Name of the variable. AnnData: a column of `obs`, coordinates in obsm ("obsm/spatial", or
        "spatial" if obs has no such column), or a column of a dataframe in obsm
        ("obsm/meta/age"). PLINK: a column of .fam or .psam (``PHENO``, ``SEX``). BGEN: a column of
        the .sample file beside it. Table: one of its columns.
    missing_chunks : {"error", "fill"}
        Whether chunks that are absent from a store raise an error or are read as fill values.

    Returns
    -------
    array
        Values in the order of the samples. Categories are text, "" if missing. A column of a text
        table is numbers with NaN if missing, or text.

    Raises
    ------
    InputError
        `data` has no variables, or no variable of this name; the message lists suitable ones.
    DataError
        The variable is damaged.
    """
    data = expanded(data)
    values = labels_at(data, name, missing_chunks, "the labels themselves, one per sample")
    of_table = isinstance(data, AbstractSource) or is_table(data) or has_sample_table(data)
    if values.dtype.kind != "O" or not of_table:
        return values
    labels = typed(values)
    check_numbers(name, labels, values)
    if labels.dtype.kind == "f":
        path = str(data) if isinstance(data, (str, PathLike)) else ""
        written = WrittenColumn(f"labels {name!r}", name, path)
        refuse_written(written, stripped(values)[~is_missing(labels)])
    return labels


def stored_levels(data: Any, name: str) -> list[str]:
    """Return the levels of an ordered category, lowest first; [] for other variables.

    Ordered categories are columns of `obs` and of Arrow tables, and variables with the attribute
    `LEVELS`.
    """
    if is_several(data):
        frame = joint_obs(each for each in data if isinstance(each, str))
        if frame is not None and name in frame.columns:
            return frame.levels(name)
        return next(filter(None, (stored_levels(each, name) for each in data)), [])
    if isinstance(data, AbstractSource):
        return [*data.names.levels.get(name, ())]
    if is_table(data):
        return levels_in_table(str(data), name)
    opened = _opened(data)
    store = anndata_of(opened)
    if store is not None:
        return store.obs.levels(name) if name in store.obs.columns else []
    variables = _variables(opened) if isinstance(opened, (zarr.Group, xr.Dataset)) else {}
    return [*variables[name].attrs.get(LEVELS, ())] if name in variables else []


def labels_at(data: Any, name: str, missing_chunks: MissingChunks, otherwise: str) -> Array:
    """Read a variable, see `read_target`.

    `otherwise` describes, for messages, what can be passed instead.
    """
    if is_several(data):
        data = open_source(data, intersect_samples=True)
    parts = parts_of(data) if isinstance(data, AbstractSource) else ()
    frame = joint_obs(part.data for part in parts if isinstance(part.data, str))
    if frame is not None and name in frame.columns:
        return _of_joint_obs(frame, name, data, missing_chunks)
    if parts and name not in data.sample_coords():
        return _of_parts(parts, name, missing_chunks, otherwise)
    return _of_one(data, name, missing_chunks, otherwise)


def _of_one(data: Any, name: str, missing_chunks: MissingChunks, otherwise: str) -> Array:
    """Read a variable of data that are a single file or object."""
    of_plink = samples_table(on_disk(data)) if isinstance(data, (str, PathLike)) else None
    if of_plink is not None:
        return phenotype(of_plink, name)
    if is_table(data) or has_sample_table(data):
        data = open_source(data, not_features=(name,) if is_table(data) else ())
    if isinstance(data, AbstractSource):
        return _coordinate(data, name, otherwise)
    opened = _opened(data)
    store = anndata_of(opened)
    if store is not None:
        return _of_cells(data, store, name, otherwise, missing_chunks)
    if not isinstance(opened, (zarr.Group, xr.Dataset)):
        refuse_lossy(data, "X")
        what = (
            f"{data} is a single array and has no variable {name!r}"
            if isinstance(data, (str, PathLike))
            else (
                f"target={name!r} is the name of a variable, but {type(data).__name__} has no "
                "variables"
            )
        )
        raise InputError(f"{what}; pass {otherwise}.")
    most = 2 if isinstance(opened, xr.Dataset) else 1
    variables = {key: of for key, of in _variables(opened).items() if 1 <= of.ndim <= most}
    if name not in variables and isinstance(opened, zarr.Group) and "/" in name:  # in a subgroup
        array = member(opened, name)
        variables |= {} if array is None else {name: array}
    if name not in variables:
        _refuse_absent(opened, name, variables, otherwise)
    return _values(variables[name], missing_chunks)


def _of_joint_obs(
    frame: AbstractFrame, name: str, source: AbstractSource, missing_chunks: MissingChunks
) -> Array:
    """Read a column of MuData's obs, in the order of the samples of a joint source."""
    samples, rows = whole_of(source).sample_names(), pd.Index(frame.names())
    if samples is None or not rows.is_unique or not np.isin(samples, rows).all():
        raise DataError(
            f"{frame.place} does not name each sample of the modalities exactly once, so {name!r} "
            "cannot be matched to the samples. Write the file again with mudata, after "
            "mdata.update()."
        )
    return np.asarray(frame.column(name, missing_chunks)[rows.get_indexer(pd.Index(samples))])


def _of_parts(
    parts: Sequence[Part], name: str, missing_chunks: MissingChunks, otherwise: str
) -> Array:
    """Read a variable along the samples from each file that has it; the values must agree."""
    found: list[tuple[Part, Array]] = []
    first_error: InputError | None = None
    for part in parts:
        try:
            if isinstance(part.data, AbstractSource) or is_table(part.data):
                continue  # their columns are variables of the joint source
            values = part.samples_of(labels_at(part.data, name, missing_chunks, otherwise))
        except InputError as error:
            first_error = first_error or error
            continue
        found.append((part, values))
        if not _are_equal(found[0][1], values):
            raise InputError(
                f"{name!r} has different values in {part.name} and in {found[0][0].name}. Correct "
                f"one of the files, or pass {otherwise}."
            )
    if not found:
        raise first_error or InputError(f"No file has a variable {name!r}; pass {otherwise}.")
    return found[0][1]


def _are_equal(one: Array, other: Array) -> bool:
    """Whether two variables have equal values; missing values are equal."""
    return one.shape == other.shape and pd.DataFrame(one).equals(pd.DataFrame(other))


def _refuse_absent(
    opened: zarr.Group | xr.Dataset, name: str, found: Mapping[str, Any], otherwise: str
) -> NoReturn:
    """Refuse the name of a variable that is not in `found`, and list suitable variables."""
    if isinstance(opened, zarr.Group):
        paths = _paths_in_groups(opened, name)
        try:
            if not found:
                refuse_groups(opened)
        except InputError as error:
            if not paths:
                raise
            raise InputError(f"{error} The labels are then target={paths}.") from error
        if paths:
            raise InputError(
                f"{opened.store_path} has no variable {name!r} at its top level, but in one of its "
                f"groups. Pass the path of the variable: target={paths}."
            )
    source = None
    with suppress(DhsicError):
        source = open_source(opened)
    usable = along_samples(found, source)
    if not usable:
        raise InputError(
            f"There is no variable {name!r} with one value per sample, and no other such variable. "
            f"Pass {otherwise}."
        )
    raise InputError(
        f"There is no variable {name!r} with one value per sample; such variables are "
        f"{', '.join(usable)}.{did_you_mean(name, usable)} Pass one of them, or {otherwise}."
    )


def _paths_in_groups(group: zarr.Group, name: str) -> str:
    """Return the paths in a store that end in a name, for messages; "" if there are none."""
    members = dict(group.members(max_depth=GROUP_DEPTH))
    inner = sorted(path for path in members if path.rpartition("/")[2] == name and "/" in path)
    return ", or ".join(map(repr, inner))


def _coordinate(source: AbstractSource, name: str, otherwise: str) -> Array:
    """Read a column of a file along its samples, (m,), by name."""
    coords = source.sample_coords()
    if name in coords:
        return coords[name]
    there = f" (its variables are {abbreviate(coords)})" if coords else ""
    raise InputError(
        f"The file has no variable {name!r}{there}; pass {otherwise}.{did_you_mean(name, coords)}"
    )


def values_of_features(
    data: Any,
    name: str,
    source: AbstractSource,
    missing_chunks: MissingChunks = "error",
    *,
    what: str = "feature_groups",
    otherwise: str = "one name per feature",
) -> Array:
    """Read the values (d,) of the variable `name` of `data`; for AnnData, of a column of `var`.

    There is one value for each feature of `source`, which was opened from `data`. For messages,
    `what` is the parameter that contains the name, and `otherwise` describes what can be passed
    instead.

    Raises
    ------
    InputError
        `data` has no such variable along the features; the message lists those that it has.
    """
    if parts := parts_of(source) if is_several(data) else ():
        each = [
            values_of_features(
                part.data, name, part.source, missing_chunks, what=what, otherwise=otherwise
            )
            for part in parts
        ]
        return source.of_features(np.concatenate(each))
    if isinstance(data, AbstractSource) or not has_variables(data):
        raise InputError(
            f"{what}={name!r} is the name of a variable, but {type(data).__name__} has no "
            f"variables; pass {otherwise}."
        )
    opened = _opened(data)
    store = anndata_of(opened)
    if store is not None:
        return source.of_features(_column(store.var, name, otherwise, missing_chunks))
    d = source.n_features + source.n_features_filtered
    variables = _variables(opened) if isinstance(opened, (zarr.Group, xr.Dataset)) else {}
    along = sorted(key for key, of in variables.items() if of.shape == (d,))
    if name in along:
        return source.of_features(_values(variables[name], missing_chunks))
    alternatives = (
        f"such variables are {', '.join(along)}" if along else "there are no such variables"
    )
    raise InputError(
        f"There is no variable {name!r} with one value for each of the {d:,} features; "
        f"{alternatives}.{did_you_mean(name, along)} Pass one of them, or {otherwise}."
    )


def anndata_of(data: Any) -> AbstractAnnData | None:
    """Return data as AnnData, from any container; None for other data."""
    opened = _opened(data)
    if isinstance(opened, AbstractAnnData):
        return opened
    return AnnDataStore.of(opened) if isinstance(opened, zarr.Group) else None


def _opened(data: Any) -> Any:
    """Open a Zarr or AnnData store; other data, such as a matrix, are returned unchanged."""
    if is_anndata(data):
        return AnnDataObject(data)
    if not isinstance(data, (str, PathLike)):
        return data
    path = on_disk(data)
    if is_h5ad(path):
        return H5Store(path)
    return open_store(path) if opener_of(path) is None else data


def _variables(data: zarr.Group | xr.Dataset) -> dict[str, Any]:
    if isinstance(data, xr.Dataset):
        return {str(name): data[name] for name in data.variables}
    return arrays_of(data)


def _values(of: zarr.Array[Any] | xr.DataArray, missing_chunks: MissingChunks) -> Array:
    if isinstance(of, zarr.Array):
        values = read_variable(of, missing_chunks)
    else:
        values = unpacked(of.to_numpy(), declared(of))
    return _in_words(values, of.attrs)


def _in_words(values: Array, attributes: Mapping[str, Any]) -> Array:
    """Replace class codes (m,) by the words in the attributes of the CF conventions.

    These attributes are ``flag_values`` and ``flag_meanings``. A missing value becomes "", and a
    code without a meaning becomes its number. Other values, and PLINK's codes of SEX, are returned
    unchanged.
    """
    codes = np.atleast_1d(np.asarray(attributes.get(FLAGS, ())))
    words = str(attributes.get(MEANINGS, "")).split()
    is_coded = codes.dtype.kind in "iuf" and 0 < codes.size == len(words)
    if not is_coded or values.dtype.kind not in "iuf" or coded_sex(values, attributes) is not None:
        return values
    word_of = {
        code: word.replace("_", " ") for code, word in zip(codes.tolist(), words, strict=True)
    }
    return np.array(
        ["" if value != value else word_of.get(value, f"{value:g}") for value in values.tolist()],
        dtype=object,
    )


def _column(
    frame: AbstractFrame,
    name: str,
    otherwise: str,
    missing_chunks: MissingChunks,
    coordinates: tuple[str, ...] = (),
) -> Array:
    if name in frame.columns:
        return frame.column(name, missing_chunks)
    columns = ", ".join(frame.columns) or "none"
    beside = f", and obsm has {', '.join(coordinates)}" if coordinates else ""
    names = (*frame.columns, *coordinates)
    raise InputError(
        f"{frame.place} has no column {name!r}; its columns are {columns}{beside}."
        f"{did_you_mean(name, names)} Pass one of them, or {otherwise}."
    )


def _of_cells(
    data: Any, store: AbstractAnnData, name: str, otherwise: str, missing_chunks: MissingChunks
) -> Array:
    """Read a column of obs, (m,), or a matrix of obsm, (m, t); obs takes precedence.

    A column of a dataframe in obsm is read too: "obsm/meta/age".
    """
    matrix = None if name in store.obs.columns else store.coordinates_named(name)
    if matrix is None:
        folder, _, column = name.rpartition("/")
        inside = store.coordinates_named(folder) if folder else None
        if inside is not None and store.is_frame(inside):
            return _column(store.frame(inside), column, otherwise, missing_chunks)
        return _column(store.obs, name, otherwise, missing_chunks, store.coordinates())
    return coordinates_of(data, matrix, missing_chunks)


def along_samples(found: Mapping[str, Any], source: AbstractSource | None) -> list[str]:
    """Return the names of variables in `found` with one value, or row of values, per sample.

    Without a source, the number of samples is unknown. Then variables are recognised by the name of
    their first dimension.
    """

    def fits(name: str, of: Any) -> bool:
        dims = tuple(str(dim).lower() for dim in dimension_names(of) or ())
        if name in (*IDENTIFIERS, *dims[:1]) or not OTHER_DIMS.isdisjoint(dims):
            return False
        if source is None:
            return bool(dims) and dims[0] in SAMPLE_DIMS
        return bool(of.shape[0] == source.n_samples and of.shape[1:] != (source.n_features,))

    return sorted(name for name, of in found.items() if fits(name, of))

"""Labels, covariates and groups as users hand them over: arrays, frames, or variables by name.

Labels and covariates are put in the order of the samples of data; what is named is looked for in
the store or dataset, labels along the samples and groups along the features.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pandas as pd
import xarray as xr
import zarr

from dhsic._typing import Array, Index
from dhsic.errors import DhsicError, InputError
from dhsic.joins.coordinates import coordinates_of
from dhsic.joins.covariates import covariates_of, design_of
from dhsic.joins.filtered import Filtered
from dhsic.joins.table import id_columns, in_pandas, join, names_of, values_of
from dhsic.joins.targets import names_said, refuse_held, refuse_records, split_frame, stacked
from dhsic.joins.text import check_numbers, phenotype, typed
from dhsic.kernels.labels import MOST_CLASSES
from dhsic.sources import AbstractSource
from dhsic.sources.anndata import AbstractAnnData, AnnDataStore
from dhsic.sources.frames import AbstractFrame
from dhsic.sources.h5ad import AnnDataObject, H5Store, is_anndata
from dhsic.sources.hdf5 import is_h5ad
from dhsic.sources.ids import NAMELESS, did_you_mean, is_id, plain, some
from dhsic.sources.opening import (
    is_table,
    on_disk,
    open_source,
    open_store,
    opener_of,
    refuse_groups,
)
from dhsic.sources.options import FEATURE_DIMS, SAMPLE_DIMS, MissingChunks, dimension_names
from dhsic.sources.packing import declared, read_variable, unpacked
from dhsic.sources.plink import samples_table
from dhsic.sources.zarr import arrays_of
from dhsic.validation import refuse_lossy

if TYPE_CHECKING:
    from dhsic.joins.filters import Counting, Filters


@dataclass(frozen=True)
class Labelled:
    """Data that are open, with a row of labels and covariates for every sample that takes part."""

    source: AbstractSource
    y: Array | None  # (m,) or (m, t); None where the data are their own labels
    covariates: Array | None  # (m, q)
    rows: Index | None = None  # (m,), which samples of the data; None for all
    #: Counts, by the names of `dhsic.results.schema.LEFT_OUT`.
    left_out: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # where it came from and how rows were matched, for people
    filtered: Filtered = field(default_factory=Filtered)  # what was left out before

    @classmethod
    def of(
        cls,
        data: Any,
        target: Any,
        covariates: Any = None,
        *,
        what: str = "y",
        by_position: bool = False,
        filters: Filters | Filtered | None = None,
        counting: Counting | None = None,
        opened_by: Callable[..., AbstractSource] = open_source,
        not_features: Collection[str] = (),
        **opening: Any,
    ) -> Labelled:
        """Open data, and match labels and covariates to its samples where both have names.

        Parameters
        ----------
        target : str, list of str, array or None
            Labels, called `what` in messages, or the variables of `data` that hold them; columns of
            a frame or a table that are named are no features.
        by_position : bool
            Rows are in the order of the samples, whatever they are called.
        filters : Filters or Filtered, optional
            What takes part. Labels are those of all samples, or name those that take part.
        counting : callable, optional
            Counts what `Filters` ask of values.
        opened_by : callable
            What opens the data; `opening` are its options, as of `dhsic.open_source`.
        not_features : collection of str
            Other columns of a frame or a table that are no features.
        """
        data, target, covariates = map(in_pandas, (data, target, covariates))
        given = data
        if isinstance(data, pd.DataFrame):
            data, target, covariates = split_frame(data, target, covariates, not_features)
        else:
            opening |= _columns_apart(data, target, covariates, not_features)
        if "not_features" in opening and is_table(data):  # its labels come with it
            data = opened_by(data, n_samples=None, **opening)
            opened_by = partial(_same, data)
        fill = opening.get("missing_chunks", "error")
        covariates = _as_covariates(covariates, data, fill)
        labels = None if target is None else as_labels(target, data, fill)
        may_be_some = filters is not None and names_of(target) is not None
        is_matched = not by_position and (may_be_some or bool(id_columns(target)))
        n_labels = None if labels is None or is_matched else len(labels)
        source = hinted(opened_by(data, n_samples=n_labels, **opening))
        refuse_held(given, source, target, what)
        names = source.sample_names()
        if not by_position and names is None and names_of(data) is None:
            _check_each_other(target, covariates, what)
        names = names_of(data) if hasattr(data, "iloc") else names
        filtered = _filtered(filters, data, source, counting, fill)
        source, notes, m = filtered.features_of(source), list[str](), source.n_samples

        def joined(given: Any, called: str, values: Array | None = None) -> Array | None:
            if given is None:
                return None
            store = hasattr(given, "iloc") and not hasattr(data, "iloc")
            remedy = f"{called}.loc[dhsic.open_source(X).sample_names()]" if store else None
            values = covariates_of(given) if values is None else values
            is_of_all = len(values) == m and not id_columns(given)
            ours = names if names is None or is_of_all else filtered.samples_of(names)
            order = join(ours, given, called, by_position=by_position, remedy=remedy)
            if order is None:
                if is_of_all or by_position or ours is None or names_of(given) is None:
                    return _left(values, called, filtered, m)
                return values  # of the samples that are left, by name
            notes.append(f"{called}: {order.note}")
            return order.take(values)

        y, C = joined(target, what, labels), joined(covariates, "covariates")
        return cls(source, y, C, filtered.samples, notes=tuple(notes), filtered=filtered)


def _filtered(
    filters: Filters | Filtered | None,
    data: Any,
    source: AbstractSource,
    counting: Counting | None,
    missing_chunks: MissingChunks,
) -> Filtered:
    """What filters leave of a source that was opened from data."""
    if isinstance(filters, Filtered):
        return filters
    if filters is None:
        return Filtered.of(source)
    assert counting is not None, "there are filters"
    return filters.of(data, source, counting, missing_chunks)


def _columns_apart(
    data: Any, target: Any, covariates: Any, not_features: Collection[str]
) -> dict[str, Any]:
    """The option `not_features` of what is no frame: of a table named labels and covariates too."""
    named = (*names_said(target), *_names_in(covariates, data)) if is_table(data) else ()
    said = tuple(dict.fromkeys((*named, *not_features)))
    return {"not_features": said} if said else {}


def hinted(source: AbstractSource) -> AbstractSource:
    """The source, of which is said what users should know before features are selected."""
    if source.hint:
        warnings.warn(source.hint, stacklevel=3)
    return source


def _left(values: Array, what: str, filtered: Filtered, m: int) -> Array:
    """Labels or covariates of the samples that filters left, of those of all m."""
    if filtered.samples is not None and len(values) != m:
        raise InputError(
            f"{what} has {len(values)} rows and the data have {m} samples, of which filters leave "
            f"{filtered.samples.size}; pass one row for each sample of the data, or rows with the "
            "names of samples."
        )
    return filtered.samples_of(values)


def _same(source: AbstractSource, *_: Any, **__: Any) -> AbstractSource:
    """The source that is open already."""
    return source


def _check_each_other(target: Any, covariates: Any, what: str) -> None:
    """Refuse what names samples in several orders, where the data name none."""
    first, second = names_of(target), names_of(covariates)
    if first is None or second is None or set(map(str, first)) != set(map(str, second)):
        return
    if not (first.astype(str) == second.astype(str)).all():
        raise InputError(
            f"Samples are in another order in covariates than in {what}, and X does not name them. "
            "Put both in the order of X, or pass by_position=True if rows belong together by "
            "position."
        )


def as_labels(y: Any, data: Any, missing_chunks: MissingChunks = "error") -> Array:
    """Labels as an array: what was given, or the variables of `data` that it names.

    Columns of ids are left out of frames. Categories are text, though they be numbers.
    """
    names = names_said(y) if isinstance(y, str) or _has_variables(data) else ()
    if names:
        columns = [(name, read_target(data, name, missing_chunks)) for name in names]
        for name, values in columns:
            refuse_ids(name, values)
        labels = stacked(columns)
    else:
        labels = values_of(_of_categories(y), "y")
        refuse_records(labels, "y")
        refuse_ids(getattr(y, "name", None), labels)
    if labels.ndim == 2 and labels.shape[0] == 1 < labels.shape[1]:
        raise InputError(
            f"y has shape {labels.shape}, one row of {labels.shape[1]}. Pass one row a sample: "
            "y.ravel(), or y.T."
        )
    labels = labels.astype(object) if labels.dtype.kind == "T" else labels
    if labels.dtype.kind == "O" and all(isinstance(value, str) for value in labels.flat):
        labels = labels.astype(str)  # text names classes, though they be called "0" and "1"
    return np.strings.strip(labels) if labels.dtype.kind == "U" else labels


def _of_categories(y: Any) -> Any:
    """Labels of pandas in which categories are text, "" where missing; others as they are."""
    if isinstance(y, pd.Categorical):
        y = pd.Series(y)
    if not isinstance(y, pd.Series | pd.DataFrame):
        return y
    frame = y.to_frame() if y.ndim == 1 else y
    of = [i for i, kind in enumerate(frame.dtypes) if isinstance(kind, pd.CategoricalDtype)]
    if not of:
        return y
    columns = [frame.iloc[:, i].astype(object) for i in range(frame.shape[1])]
    for i in of:
        columns[i] = columns[i].where(columns[i].notna(), "").map(str)
    return columns[0] if y.ndim == 1 else pd.concat(columns, axis=1)


def _has_variables(data: Any) -> bool:
    """Whether data may hold labels and covariates besides the features."""
    files = (str, PathLike, zarr.Group, xr.Dataset, AbstractSource)
    return isinstance(data, files) or is_anndata(data)


def _names_in(covariates: Any, data: Any) -> tuple[str, ...]:
    """Names of variables of `data` that covariates are said by, if they are."""
    if not _has_variables(data):
        return ()
    names = [covariates] if isinstance(covariates, str) else covariates
    is_named = isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
    return tuple(names) if is_named else ()


def _as_covariates(given: Any, data: Any, missing_chunks: MissingChunks) -> Any:
    """Covariates, or the columns (m, q) that variables of `data` give where they are named."""
    named = _names_in(given, data)
    columns = [design_of(name, read_target(data, name, missing_chunks)) for name in named]
    return np.column_stack(columns) if columns else given


def refuse_ids(name: Any, labels: Array) -> None:
    """Refuse labels that are called like ids, and nearly all differ: they name the samples."""
    is_named = isinstance(name, str) and is_id(name) and plain(name) not in NAMELESS
    if not is_named or labels.ndim != 1:
        return
    n = len(set(labels.tolist()))
    is_measured = n > MOST_CLASSES and labels.dtype.kind in "iuf"  # no classes that samples share
    if 2 * n > len(labels) > 2 or is_measured:
        raise InputError(
            f"The labels are {name!r}, which names the samples: {n:,} of {len(labels):,} values "
            f"differ ({some(labels.tolist(), 3)}). Pass what was measured of the samples; if this "
            "is it, give it a name that is not one of ids."
        )


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
        Which one; of AnnData a column of `obs`, or coordinates in obsm ("obsm/spatial", or
        "spatial" where obs has no such column); of PLINK of .fam or .psam (``PHENO``, ``SEX``), of
        a table one of its own. Categories are text, "" where missing; what a table of text holds
        are numbers with NaN, or text.
    missing_chunks : {"error", "fill"}
        Whether chunks that a store lacks are an error or fill values.

    Raises
    ------
    InputError
        `data` has no variables, or none of that name; the message lists those that would do.
    DataError
        The variable is damaged.
    """
    values = labels_at(data, name, missing_chunks, "the labels themselves, one a sample")
    of_table = isinstance(data, AbstractSource) or is_table(data)
    if values.dtype.kind != "O" or not of_table:
        return values
    labels = typed(values)
    check_numbers(name, labels, values)
    return labels


def labels_at(data: Any, name: str, missing_chunks: MissingChunks, otherwise: str) -> Array:
    """As of `read_target`; `otherwise` is what else can be passed, for its sentences."""
    of_plink = samples_table(on_disk(data)) if isinstance(data, (str, PathLike)) else None
    if of_plink is not None:
        return phenotype(of_plink, name)
    if is_table(data):
        data = open_source(data, not_features=(name,))
    if isinstance(data, AbstractSource):
        return _coordinate(data, name, otherwise)
    opened = _opened(data)
    store = anndata_of(opened)
    if store is not None:
        return _of_cells(data, store, name, otherwise, missing_chunks)
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
    if name not in found:
        _refuse_absent(opened, name, found, otherwise)
    return _values(found[name], missing_chunks)


def _refuse_absent(
    opened: zarr.Group | xr.Dataset, name: str, found: Mapping[str, Any], otherwise: str
) -> NoReturn:
    """Refuse the name of a variable that is not among those `found`, with those that would do."""
    if isinstance(opened, zarr.Group) and not found:
        refuse_groups(opened)
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


def _coordinate(source: AbstractSource, name: str, otherwise: str) -> Array:
    """What a file has of its samples, by name."""
    known = source.sample_coords()
    if name in known:
        return known[name]
    there = f" (there are {some(known)})" if known else ""
    raise InputError(
        f"The file holds no variable {name!r}{there}; pass {otherwise}.{did_you_mean(name, known)}"
    )


def values_of_features(
    data: Any,
    name: str,
    source: AbstractSource,
    missing_chunks: MissingChunks = "error",
    *,
    what: str = "feature_groups",
    otherwise: str = "one name a feature",
) -> Array:
    """Values of the variable `name` of `data` (of AnnData, the column of `var`), (d,).

    There is one for each feature of `source`, which was opened from `data`. For sentences, `what`
    is the parameter that names it, and `otherwise` what else can be passed.

    Raises
    ------
    InputError
        `data` has no such variable along the features; the message lists those that it has.
    """
    if isinstance(data, AbstractSource) or not _has_variables(data):
        raise InputError(
            f"{what}={name!r} names a variable, and {type(data).__name__} has none; pass "
            f"{otherwise}."
        )
    opened = _opened(data)
    store = anndata_of(opened)
    if store is not None:
        return source.of_features(_column(store.var, name, otherwise, missing_chunks))
    d = source.n_features + source.n_features_filtered
    found = _variables(opened) if isinstance(opened, (zarr.Group, xr.Dataset)) else {}
    along = sorted(key for key, of in found.items() if of.shape == (d,))
    if name in along:
        return source.of_features(_values(found[name], missing_chunks))
    known = f"there are {', '.join(along)}" if along else "nor any other"
    raise InputError(
        f"There is no variable {name!r} along the {d:,} features; {known}."
        f"{did_you_mean(name, along)} Pass one of them, or {otherwise}."
    )


def anndata_of(data: Any) -> AbstractAnnData | None:
    """AnnData, whatever it is in, or None for anything else."""
    opened = _opened(data)
    if isinstance(opened, AbstractAnnData):
        return opened
    return AnnDataStore.of(opened) if isinstance(opened, zarr.Group) else None


def _opened(data: Any) -> Any:
    """A store; what is no Zarr stays as it is, a matrix without variables beside it."""
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
        return read_variable(of, missing_chunks)
    return unpacked(of.to_numpy(), declared(of))


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
    known = (*frame.columns, *coordinates)
    raise InputError(
        f"{frame.place} has no column {name!r}; its columns are {columns}{beside}."
        f"{did_you_mean(name, known)} Pass one of them, or {otherwise}."
    )


def _of_cells(
    data: Any, store: AbstractAnnData, name: str, otherwise: str, missing_chunks: MissingChunks
) -> Array:
    """Column of obs, (m,), or matrix in obsm, (m, t); the column where both have that name."""
    matrix = None if name in store.obs.columns else store.coordinates_named(name)
    if matrix is None:
        return _column(store.obs, name, otherwise, missing_chunks, store.coordinates())
    return coordinates_of(data, matrix, missing_chunks)


def along_samples(found: Mapping[str, Any], source: AbstractSource | None) -> list[str]:
    """Names of the variables that have one value, or row of values, a sample of a source.

    Without one, where it is not known which axis the samples are, names of dimensions must tell.
    """

    def fits(name: str, of: Any) -> bool:
        dims = tuple(str(dim).lower() for dim in dimension_names(of) or ())
        if name in (*IDENTIFIERS, *dims[:1]) or not OTHER_DIMS.isdisjoint(dims):
            return False
        if source is None:
            return bool(dims) and dims[0] in SAMPLE_DIMS
        return bool(of.shape[0] == source.n_samples and of.shape[1:] != (source.n_features,))

    return sorted(name for name, of in found.items() if fits(name, of))

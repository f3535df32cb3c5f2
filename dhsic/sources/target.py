"""Labels: by name, a variable of the store or dataset that holds the data, or as they are given."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from contextlib import suppress
from difflib import get_close_matches
from os import PathLike, fspath
from typing import Any

import numpy as np
import xarray as xr
import zarr

from dhsic._typing import Array
from dhsic.alignment import check_order, names_of
from dhsic.errors import DhsicError, InputError
from dhsic.given import as_array, refuse_lossy
from dhsic.sources.base import AbstractSource
from dhsic.sources.chunked import dimension_names, read_array
from dhsic.sources.opening import open_source
from dhsic.sources.orientation import FEATURE_DIMS, SAMPLE_DIMS
from dhsic.sources.stores import metadata_of, open_store
from dhsic.sources.watched import MissingChunks

#: What PLINK writes for a phenotype that is missing.
PLINK_MISSING = -9
#: Arrays along the samples that name them rather than describe them.
IDENTIFIERS = frozenset({"sample_id", "samples", "sample"})


def read_target(data: Any, name: str, missing_chunks: MissingChunks = "error") -> Array:
    """Values of the one- or two-dimensional variable `name` of `data`.

    Parameters
    ----------
    data : path, URL, group or Dataset
        What holds the variable.
    name : str
        Which one.
    missing_chunks : {"error", "fill"}
        Whether chunks that a store lacks are an error or fill values.

    Raises
    ------
    InputError
        `data` has no variables, or none of that name; the message lists those that would do.
    DataError
        The variable is damaged.
    """
    found: dict[str, Along]
    if isinstance(data, xr.Dataset):
        found = {
            str(v): (data[v].shape, tuple(map(str, data[v].dims)))
            for v in data.variables
            if data[v].ndim in (1, 2)
        }
        if name in found:
            return np.asarray(data[name].to_numpy())
    elif isinstance(data, (str, PathLike, zarr.Group)):
        group = data if isinstance(data, zarr.Group) else open_store(fspath(data))
        if not isinstance(group, zarr.Group):
            raise InputError(
                f"{data} is a single array and holds no variable {name!r}; pass the labels "
                "themselves, one a sample."
            )
        with metadata_of(group.store_path):
            found = {
                key: (array.shape, dimension_names(array))
                for key, array in group.arrays()
                if array.ndim == 1
            }
        if name in found:
            array: Any = group[name]
            return read_array(array, missing_chunks)
    else:
        refuse_lossy(data, "X")
        raise InputError(
            f"target={name!r} names a variable, and {type(data).__name__} has none; pass the "
            "labels themselves, one a sample."
        )
    usable = sorted(_along_samples(data, found))
    if not usable:
        raise InputError(
            f"There is no variable {name!r} along the samples, nor any other; pass the labels "
            "themselves, one a sample."
        )
    raise InputError(
        f"There is no variable {name!r} along the samples; there are {', '.join(usable)}."
        f"{did_you_mean(name, usable)} Pass one of them, or the labels themselves."
    )


def read_groups(data: Any, name: str, d: int) -> Array:
    """Values of the variable `name` of `data`, one for each of d features.

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
    along = sorted(_of_length(data, d))
    if name in along:
        return read_target(data, name)
    known = f"there are {', '.join(along)}" if along else "nor any other"
    raise InputError(
        f"There is no variable {name!r} along the {d:,} features; {known}."
        f"{did_you_mean(name, along)} Pass one of them, or one name a feature."
    )


def _of_length(data: Any, n: int) -> list[str]:
    """Names of the variables of one dimension and n values."""
    if isinstance(data, xr.Dataset):
        return [str(v) for v in data.variables if data[v].shape == (n,)]
    group = data if isinstance(data, zarr.Group) else open_store(fspath(data))
    if not isinstance(group, zarr.Group):
        return []
    with metadata_of(group.store_path):
        return [key for key, array in group.arrays() if array.shape == (n,)]


#: Shape of a variable and the names of its dimensions, where it has any.
Along = tuple[tuple[int, ...], tuple[str | None, ...] | None]


def _along_samples(data: Any, found: Mapping[str, Along]) -> list[str]:
    """Names of the variables that have one value, or row of values, a sample."""
    source = None
    with suppress(DhsicError):  # where it is not known which axis the samples are, names must tell
        source = open_source(data)

    def fits(name: str, shape: tuple[int, ...], dims: tuple[str, ...]) -> bool:
        if name in (*IDENTIFIERS, *dims[:1]) or not FEATURE_DIMS.isdisjoint(dims):
            return False
        if source is None:
            return bool(dims) and dims[0] in SAMPLE_DIMS
        return shape[0] == source.n_samples and shape[1:] != (source.n_features,)

    return [
        name
        for name, (shape, dims) in found.items()
        if fits(name, shape, tuple(str(dim).lower() for dim in dims or ()))
    ]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a question that names what was meant, with a space before it; nothing if unlikely.

    >>> did_you_mean("sampl_trait", ["sample_trait", "sample_sex"])
    " Did you mean 'sample_trait'?"
    """
    listed = list(known)
    likely = get_close_matches(name, listed, n=1) or [other for other in listed if name in other]
    return f" Did you mean {likely[0]!r}?" if len(likely) == 1 else ""


def as_labels(y: Any, data: Any) -> Array:
    """Labels as an array: what was given, or the variable of `data` that it names.

    Raises
    ------
    InputError
        As of `read_target` and `dhsic.given.as_array`; a row instead of a column.
    """
    labels = read_target(data, y) if isinstance(y, str) else as_array(y, "y")
    if labels.ndim == 2 and labels.shape[0] == 1 < labels.shape[1]:
        raise InputError(
            f"y has shape {labels.shape}, one row of {labels.shape[1]}. Pass one row a sample: "
            "y.ravel(), or y.T."
        )
    n_coded = plink_missing(labels)
    if n_coded:
        warnings.warn(
            f"{n_coded} labels are {PLINK_MISSING}, which PLINK writes for missing ones, and all "
            "others are 0 or more; they are taken for values. If they are missing, drop those "
            "samples.",
            stacklevel=3,
        )
    return labels


def check_names(source: AbstractSource, X: Any, **given: Any) -> None:
    """Refuse labels and covariates that name the samples of X in another order."""
    for what, values in given.items():
        if names_of(values) is None:
            continue
        listed = names_of(X) if hasattr(X, "iloc") else source.sample_names()
        by_hand = None
        if hasattr(values, "iloc") and not hasattr(X, "iloc"):
            by_hand = f"{what}.loc[dhsic.open_source(X).sample_names()]"
        check_order(listed, values, what, by_hand)


def plink_missing(labels: Array) -> int:
    """Count labels that look like PLINK's missing ones: -9 where all others are 0 or more."""
    if labels.dtype.kind not in "if":
        return 0
    n = int((labels == PLINK_MISSING).sum())
    looks = 0 < n < labels.size and bool((labels[labels != PLINK_MISSING] >= 0).all())
    return n if looks else 0

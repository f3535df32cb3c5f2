"""Labels: by name, a variable of the store or dataset that holds the data, or as they are given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import pairwise
from os import PathLike, fspath
from typing import Any, overload

import numpy as np
import xarray as xr
import zarr

from dhsic._typing import Array
from dhsic.errors import DhsicError, InputError
from dhsic.joins.frames import id_columns, join, names_of, values_of
from dhsic.joins.keys import NAMELESS, is_id, plain, some
from dhsic.joins.rows import RowOrder
from dhsic.kernels.labels import MOST_CLASSES
from dhsic.sources.anndata import AnnDataStore, Frame
from dhsic.sources.base import AbstractSource
from dhsic.sources.chunked import dimension_names, read_array
from dhsic.sources.names import FEATURE_DIMS, SAMPLE_DIMS
from dhsic.sources.opening import open_source
from dhsic.sources.request import MissingChunks
from dhsic.sources.stores import metadata_of, open_store
from dhsic.validation import as_array, refuse_lossy

#: What PLINK writes for a phenotype that is missing.
PLINK_MISSING = -9
#: Text that stands for a missing value where tables and missing objects were made text.
ABSENT = frozenset(("NA", "NaN", "nan", "None", "<NA>"))
#: Arrays along the samples that name them rather than describe them.
IDENTIFIERS = frozenset({"sample_id", "samples", "sample"})


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
    opened = _opened(data)
    store = anndata_of(opened)
    if store is not None:
        return _column(store.obs, name, "the labels themselves, one a sample", missing_chunks)
    if not isinstance(opened, (zarr.Group, xr.Dataset)):
        refuse_lossy(data, "X")
        what = (
            f"{data} is a single array and holds no variable {name!r}"
            if isinstance(data, (str, PathLike))
            else f"target={name!r} names a variable, and {type(data).__name__} has none"
        )
        raise InputError(f"{what}; pass the labels themselves, one a sample.")
    most = 2 if isinstance(opened, xr.Dataset) else 1
    found = {key: of for key, of in _variables(opened).items() if 1 <= of.ndim <= most}
    if name in found:
        return _values(found[name], missing_chunks)
    usable = sorted(_along_samples(opened, found))
    if not usable:
        raise InputError(
            f"There is no variable {name!r} along the samples, nor any other; pass the labels "
            "themselves, one a sample."
        )
    raise InputError(
        f"There is no variable {name!r} along the samples; there are {', '.join(usable)}."
        f"{did_you_mean(name, usable)} Pass one of them, or the labels themselves."
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
    found = {} if isinstance(opened, zarr.Array) else _variables(opened)
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
    return open_store(fspath(data)) if isinstance(data, (str, PathLike)) else data


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


def _along_samples(data: zarr.Group | xr.Dataset, found: Mapping[str, Any]) -> list[str]:
    """Names of the variables that have one value, or row of values, a sample."""
    source = None
    with suppress(DhsicError):  # where it is not known which axis the samples are, names must tell
        source = open_source(data)

    def fits(name: str, of: Any) -> bool:
        named = dimension_names(of) if isinstance(of, zarr.Array) else of.dims
        dims = tuple(str(dim).lower() for dim in named or ())
        if name in (*IDENTIFIERS, *dims[:1]) or not FEATURE_DIMS.isdisjoint(dims):
            return False
        if source is None:
            return bool(dims) and dims[0] in SAMPLE_DIMS
        return bool(of.shape[0] == source.n_samples and of.shape[1:] != (source.n_features,))

    return [name for name, of in found.items() if fits(name, of)]


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

    Columns of ids are left out of frames; `Joined` has the rows in the order of the samples.

    Raises
    ------
    InputError
        As of `read_target` and `dhsic.joins.frames.values_of`; a row instead of a column.
    """
    labels = read_target(data, y) if isinstance(y, str) else values_of(y, "y")
    refuse_ids(y if isinstance(y, str) else getattr(y, "name", None), labels)
    if labels.ndim == 2 and labels.shape[0] == 1 < labels.shape[1]:
        raise InputError(
            f"y has shape {labels.shape}, one row of {labels.shape[1]}. Pass one row a sample: "
            "y.ravel(), or y.T."
        )
    if labels.dtype.kind == "O" and all(isinstance(value, str) for value in labels.flat):
        return labels.astype(str)  # text names classes, though they be called "0" and "1"
    return labels


def refuse_ids(name: Any, labels: Array) -> None:
    """Refuse labels that are called like ids, and nearly all differ: they name the samples.

    Raises
    ------
    InputError
        They do; classes that samples share, such as of families, pass.
    """
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


def as_covariates(covariates: Any) -> Array | None:
    """Covariates as an array without columns of ids, or None."""
    return None if covariates is None else values_of(covariates, "covariates")


def count_labels(y: Any, labels: Array | None, *, by_position: bool = False) -> int | None:
    """Count the samples that labels are of; None where rows are yet to be matched by name."""
    is_open = not by_position and bool(id_columns(y))
    return None if labels is None or is_open else len(labels)


@dataclass(frozen=True)
class Joined:
    """How rows of labels and covariates were matched to the samples of the data.

    Attributes
    ----------
    alignments : mapping of str to RowOrder or None
        By what was given; None where rows are in the order of the samples.
    """

    alignments: Mapping[str, RowOrder | None]

    @classmethod
    def of(cls, source: AbstractSource, X: Any, *, by_position: bool, **given: Any) -> Joined:
        """Match labels and covariates to the samples of X by name, where both have names.

        Raises
        ------
        InputError
            As of `dhsic.joins.frames.join`.
        """
        if not by_position and names_of(X) is None and source.sample_names() is None:
            _check_each_other(given)
        return cls(
            {
                what: _joined(source, X, values, what, by_position=by_position)
                for what, values in given.items()
            }
        )

    @overload
    def take(self, what: str, values: Array) -> Array: ...

    @overload
    def take(self, what: str, values: Array | None) -> Array | None: ...

    def take(self, what: str, values: Array | None) -> Array | None:
        """Rows of what was given, in the order of the samples."""
        alignment = self.alignments[what]
        return values if alignment is None or values is None else alignment.take(values)

    @property
    def attributes(self) -> dict[str, str]:
        """How rows were matched, for the attributes of a result; nothing where none were."""
        told = [f"{what}: {a.note}" for what, a in self.alignments.items() if a is not None]
        return {"labels": "; ".join(told)} if told else {}


def _check_each_other(given: Mapping[str, Any]) -> None:
    """Refuse what names samples in several orders, where the data name none."""
    named = [(what, names_of(values)) for what, values in given.items()]
    known = [(what, names) for what, names in named if names is not None]
    for (_, first), (what, names) in pairwise(known):
        both = set(map(str, first)) == set(map(str, names))
        if both and not (first.astype(str) == names.astype(str)).all():
            raise InputError(
                f"Samples are in another order in {what} than in {known[0][0]}, and X does not "
                "name them. Put both in the order of X, or pass by_position=True if rows belong "
                "together by position."
            )


def _joined(
    source: AbstractSource, X: Any, given: Any, what: str, *, by_position: bool
) -> RowOrder | None:
    if names_of(given) is None:
        return None
    names = names_of(X) if hasattr(X, "iloc") else source.sample_names()
    remedy = None
    if hasattr(given, "iloc") and not hasattr(X, "iloc"):
        remedy = f"{what}.loc[dhsic.open_source(X).sample_names()]"
    return join(names, given, what, by_position=by_position, remedy=remedy)


def check_coded(X: Any, **given: Any) -> None:
    """Refuse labels and covariates of the samples of X some of which look like codes for missing.

    Raises
    ------
    InputError
        -9 is among values of which no other is below 0, or text such as "NA" among text; the
        message says how to leave out the samples, and how to keep them.
    """
    for what, values in given.items():
        if values is None:
            continue
        columns = as_array(values, what)
        if columns.ndim > 1 and columns.shape[1] >= len(columns):
            continue  # a kernel matrix, or what is refused elsewhere
        n = sum(plink_missing(c) for c in (columns.T if columns.ndim == 2 else [columns]))
        if n:
            raise InputError(
                f"{n} of {columns.size} values of {what} are {PLINK_MISSING}, which "
                "PLINK writes for missing ones, and no other is near it. "
                f"{_without(X, what, columns, PLINK_MISSING)} If {PLINK_MISSING} is a value, "
                f"{_as_values(what, columns)}."
            )
        texts = [v for v in columns.ravel().tolist() if isinstance(v, str)]
        for word in sorted(ABSENT.intersection(texts)):
            raise InputError(
                f"{texts.count(word)} of {columns.size} values of {what} are {word!r}, which "
                f"stands for missing ones. {_without(X, what, columns, word)} If it is a class, "
                f"give it another name, such as 'class {word}'."
            )


def plink_missing(values: Array) -> int:
    """Count what looks like PLINK's missing values: -9 far below all others, or among text.

    Examples
    --------
    >>> plink_missing(np.array([1, 2, -9])), plink_missing(np.array([-9.0, -8.5, 1.0]))
    (1, 0)
    >>> plink_missing(np.array(["case", "-9", "control"]))
    1
    """
    if values.dtype.kind in "OSUT":
        values = _numbers(values)
    if values.dtype.kind not in "if":
        return 0
    coded = values == PLINK_MISSING
    others = values[~coded & ~np.isnan(values)]
    far = bool(others.size and others.min() > PLINK_MISSING / 2 and others.max() >= 0)
    looks = coded.any() and far
    return int(coded.sum()) if looks else 0


def _numbers(texts: Array) -> Array:
    """Numbers that texts say; 0 for other text, NaN for none."""
    given = np.char.decode(texts) if texts.dtype.kind == "S" else texts
    distinct = {text: _number(text) for text in {str(value).strip() for value in given}}
    return np.array([distinct[str(value).strip()] for value in given], dtype=np.float64)


def _number(text: str) -> float:
    try:
        return float(text) if text else np.nan
    except ValueError:
        return 0.0


def _without(X: Any, what: str, columns: Array, code: object) -> str:
    """How to leave out samples whose values are a code."""
    code = repr(str(code)) if columns.dtype.kind in "SUT" or isinstance(code, str) else code
    keep = f"({what} != {code}).all(axis=1)" if columns.ndim == 2 else f"{what} != {code}"
    if isinstance(X, (str, PathLike, zarr.Group, zarr.Array, AbstractSource)):
        return (
            f"Leave those samples out: keep = numpy.flatnonzero({keep}); then pass "
            "xarray.open_zarr(path, mask_and_scale=False).isel(samples=keep) for the data and "
            f"{what}[keep] (dhsic.read_target reads them by name)."
        )
    if hasattr(X, "isel"):
        return (
            f"Leave those samples out: keep = numpy.flatnonzero({keep}); then pass "
            f"X.isel({_samples_of(X)}=keep) and {what}[keep]."
        )
    return f"Leave those samples out: keep = {keep}; then pass X[keep] and {what}[keep]."


def _samples_of(X: Any) -> str:
    return next((str(dim) for dim in X.dims if str(dim).lower() in SAMPLE_DIMS), "samples")


def _as_values(what: str, columns: Array) -> str:
    """How to say that -9 is no code."""
    if columns.dtype.kind in "if":
        return f"pass {what} + {-PLINK_MISSING}, which ranks alike"
    return f"give it another name, such as 'minus {-PLINK_MISSING}'"

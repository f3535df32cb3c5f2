"""`open_source`: whatever a user holds, as a source.

What lies in memory: NumPy and dask arrays, frames of pandas, and what is neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

import numpy as np
import zarr

from dhsic.errors import InputError
from dhsic.sources.arrays import ArraySource, DaskSource, Names, check_sizes
from dhsic.sources.base import AbstractSource
from dhsic.sources.domain import check_dtype, check_matrix
from dhsic.sources.dosage import PloidyPolicy
from dhsic.sources.request import Request, feature_axis
from dhsic.sources.stores import open_store
from dhsic.sources.values import RecodedSource
from dhsic.sources.variants import passing
from dhsic.sources.watched import MissingChunks
from dhsic.sources.xarray import open_xarray
from dhsic.sources.zarr import ZarrSource, open_array, open_group, parent
from dhsic.validation import EXACT, WIDE, refuse_lossy

if TYPE_CHECKING:
    import pandas as pd


def open_in_memory(X: Any, request: Request) -> AbstractSource:
    """Open an array, a frame or an object of xarray."""
    if type(X).__module__.partition(".")[0] == "xarray":
        return open_xarray(X, request)
    check_in_memory(X, request.variable)
    if _is_frame(X):
        return _open_frame(X, request)
    if hasattr(X, "dask") and hasattr(X, "chunks"):
        check_sizes(X)
        return DaskSource(_samples_first(X, request), missing_code=request.code_of({}))
    matrix = _samples_first(np.asarray(X), request)
    return ArraySource(matrix, missing_code=request.code_of({}))


def check_in_memory(X: Any, variable: str | None = None) -> None:
    """Refuse what NumPy would make something else of, before it does.

    Raises
    ------
    InputError
        Sparse, masked, no matrix, text, dates, complex numbers; a frame with columns that are
        not numbers or are called alike; not an array at all.
    """
    refuse_lossy(X, "X")
    if not (isinstance(X, np.ndarray | list | tuple) or hasattr(X, "__array__")):
        raise InputError(
            f"X is a {type(X).__module__}.{type(X).__qualname__}. Pass a NumPy or dask array, a "
            "DataFrame, an xarray DataArray or Dataset, a zarr Array or Group, a path or a URL."
        )
    if variable is not None:
        raise InputError(
            f"variable={variable!r} names a part of a Dataset or group, and X is one "
            f"{type(X).__name__}. Leave it out."
        )
    if _is_frame(X):
        _check_frame(X)
        return
    if hasattr(X, "shape"):
        check_matrix(X.shape, "X")
    if hasattr(X, "dtype") and getattr(X.dtype, "kind", "O") != "O":
        check_dtype(X.dtype, "X")


def check_turned(shape: tuple[int, ...], n_labels: int) -> None:
    """Refuse a matrix with other samples than labels; say so where it looks transposed."""
    feature_axis(shape, None, None, n_labels, what="X", convention=1)


def _is_frame(X: Any) -> bool:
    return type(X).__module__.partition(".")[0] == "pandas" and hasattr(X, "columns")


def _check_frame(X: pd.DataFrame) -> None:
    thin = [str(c) for c, t in X.dtypes.items() if type(t).__name__ == "SparseDtype"]
    if thin:
        raise InputError(
            f"Columns {thin[:5]} of the DataFrame ({len(thin)} in all) are sparse; dhsic reads "
            "dense matrices. Pass X.sparse.to_dense()."
        )
    odd = [str(c) for c, t in X.dtypes.items() if not hasattr(t, "kind") or t.kind not in "biuf"]
    if odd:
        raise InputError(
            f"Columns {odd[:5]} of the DataFrame ({len(odd)} in all) are not numbers. Drop them, "
            "or encode them: pandas.get_dummies(X)."
        )
    _check_digits(X)
    if len({isinstance(c, str) for c in X.columns}) > 1:
        raise InputError(
            f"Names of columns of the DataFrame are text and numbers ({list(X.columns[:3])}, ...). "
            "Make them text: X.columns = X.columns.astype(str)."
        )
    if not X.columns.is_unique:
        twice = [str(c) for c in X.columns[X.columns.duplicated()].unique()]
        raise InputError(
            f"Columns {twice[:5]} of the DataFrame ({len(twice)} in all) are there more than once. "
            "Rename them, or keep the first of each: X.loc[:, ~X.columns.duplicated()]."
        )


def _check_digits(X: pd.DataFrame) -> None:
    """Refuse integers that are to become floats, beside other columns, and would lose digits."""
    for kind in set(X.dtypes):
        if kind.kind not in "iu" or kind.itemsize < WIDE:
            continue
        part = X.loc[:, X.dtypes == kind]
        beyond = (part.max() > EXACT) | (part.min() < -EXACT)
        names = [str(name) for name in part.columns[beyond.fillna(value=False).to_numpy(bool)]]
        if names:
            raise InputError(
                f"Columns {names[:5]} of the DataFrame ({len(names)} in all) hold integers beyond "
                "2**53, up to which float64 holds every one; digits would be lost. Drop what is a "
                "name and no number, or subtract an offset."
            )


def _open_frame(X: pd.DataFrame, request: Request) -> AbstractSource:
    request.check_dim(0, X.index.name, "the DataFrame")
    request.check_length(len(X), "The DataFrame")
    names = Names(X.columns.to_numpy(dtype=object), X.index.to_numpy(dtype=object))
    nullable = any(not isinstance(t, np.dtype) for t in X.dtypes)
    matrix = X.to_numpy(dtype=float, na_value=np.nan) if nullable else X.to_numpy()
    return ArraySource(matrix, missing_code=request.code_of({}), names=names)


def _samples_first(X: Any, request: Request) -> Any:
    """Orient an array without names: (samples, features), unless the caller says otherwise."""
    if X.ndim != 2:
        return X  # the source refuses it
    axis = feature_axis(
        X.shape, None, request.sample_dim, request.n_samples, what="X", convention=1
    )
    return X if axis == 1 else X.T


def open_source(
    X: Any,
    *,
    variable: str | None = None,
    sample_dim: str | int | None = None,
    n_samples: int | None = None,
    missing_code: int | Sequence[int] | str | None = "auto",
    missing_chunks: MissingChunks = "error",
    ploidy_policy: PloidyPolicy = "count",
    pass_only: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> AbstractSource:
    """Open data as a source of samples x features.

    Parameters
    ----------
    X : array, dataset, group, path or URL
        NumPy or dask array (samples, features), pandas DataFrame, xarray DataArray or Dataset,
        zarr Array or Group, AbstractSource, or the path or URL of a Zarr array or group (a
        folder, a ``.zip`` file, an object store), VCF Zarr and AnnData included.
    variable : str, optional
        Which variable of a Dataset or group. By default ``call_genotype``, else
        ``call_dosage``, else the only one with two dimensions; of AnnData ``X``, or another
        matrix such as ``layers/counts``.
    sample_dim : str or int, optional
        Dimension, or axis, of the samples. Needed only where neither the names of the dimensions
        nor `n_samples` tell.
    n_samples : int, optional
        Length of y, which X must have as many samples as.
    missing_code : int, sequence of int, None or "auto"
        Numbers that mean missing. ``"auto"``: -1 in VCF Zarr; what a Zarr or xarray array
        declares (attribute ``missing_value`` or ``_FillValue``, or fill value -1 of int8); and in
        data of 0, 1 and 2 the numbers -1, -9 and -127, any other lone value being refused. What is
        said takes the place of all that; None: every number counts as it is. In floats NaN is
        missing, always.
    missing_chunks : {"error", "fill"}
        Whether chunks that a Zarr array lacks are an error or fill values.
    ploidy_policy : {"count", "scale", "error"}
        What a genotype of lower ploidy counts: its own alleles, as many as others have, an error.
    pass_only : bool
        Leave out variants of VCF Zarr whose FILTER is not PASS, as ``bcftools view -f PASS`` does:
        those with another one, and those with none, ".", to which filters were not applied.
    storage_options : mapping, optional
        Options of fsspec for a URL.

    Returns
    -------
    AbstractSource

    Raises
    ------
    InputError
        X cannot be read as a matrix of samples x features, or it cannot be told how.

    Examples
    --------
    >>> import numpy as np
    >>> source = open_source(np.arange(6.0).reshape(2, 3), n_samples=2)
    >>> source.n_samples, source.n_features
    (2, 3)
    """
    several = _codes_of(missing_code)
    said: Any = None if several else missing_code
    request = Request(variable, sample_dim, n_samples, said, missing_chunks, ploidy_policy)
    if isinstance(X, AbstractSource):
        request.check_length(X.n_samples, "X")
        if pass_only or sample_dim is not None or variable is not None:
            raise InputError(
                "X is open already: say sample_dim=, variable= and pass_only= where it is opened."
            )
        return X
    if isinstance(X, str | PathLike):
        X = open_store(fspath(X), storage_options)
    source = _opened(X, request)
    source.keeps_codes |= not isinstance(missing_code, str)  # said: nothing is guessed
    if source.dtype.kind == "f" and source.missing_code is not None:
        several = (*several, source.missing_code)
    if several:
        source = RecodedSource(source, several)
    if not pass_only:
        return source
    return passing(source, parent(X) if isinstance(X, zarr.Array) else X, missing_chunks)


def _codes_of(missing_code: Any) -> tuple[int, ...]:
    """Codes where there are several, none elsewhere."""
    if missing_code is None or isinstance(missing_code, str | int | np.integer):
        is_known = missing_code in (None, "auto") or not isinstance(missing_code, str | bool)
        codes: tuple[Any, ...] = ()
    else:
        codes = tuple(missing_code) if isinstance(missing_code, Iterable) else ()
        is_known = bool(codes) and all(isinstance(code, int | np.integer) for code in codes)
    if not is_known:
        raise InputError(
            f"missing_code={missing_code!r}; pass 'auto', a whole number, several of them, or None "
            "where every number counts."
        )
    return codes


def _opened(X: Any, request: Request) -> AbstractSource:
    if isinstance(X, zarr.Array):
        return open_array(X, request)
    if isinstance(X, zarr.Group):
        source = open_group(X, request)
        return source.named_by(X) if isinstance(source, ZarrSource) else source
    return open_in_memory(X, request)

"""Lazy arrays: a source as a lazy matrix, and selection of features of lazy or sparse arrays."""

from __future__ import annotations

from functools import partial
from typing import Any
from uuid import uuid4

import numpy as np
import xarray as xr
from scipy.sparse import coo_array

from dhsic._typing import Array, Index, Mask
from dhsic.errors import InputError
from dhsic.sources import AbstractSource
from dhsic.sources.arrays import check_chunks, names_along
from dhsic.sources.blocks import Block, check_dtype
from dhsic.sources.h5ad import is_anndata
from dhsic.sources.options import text
from dhsic.sources.sparse import is_sparse

#: Approximate number of features that are read together.
WIDTH = 4096


def lazy_matrix(source: AbstractSource) -> xr.DataArray:
    """Return the matrix (samples, features) as a lazy DataArray, with names if they are known.

    If integers have a code for missing values, the result is floating-point, with NaN for this
    code.
    """
    import dask.array as da  # imported here because it loads slowly and is rarely needed

    blocks, dtype = source.blocks(WIDTH), np.dtype(source.dtype)
    if source.missing_code is not None and dtype.kind in "iu":
        dtype = np.result_type(dtype, np.float32)
    matrix = da.map_blocks(  # type: ignore[no-untyped-call]
        partial(_values, source, blocks, dtype),
        chunks=((source.n_samples,), tuple(block.width for block in blocks)),
        dtype=dtype,
        meta=np.empty((0, 0), dtype=dtype),
        name=f"features-{uuid4().hex}",
    )
    axis_names = {"samples": source.sample_names(), "features": source.feature_names()}
    coords = {dim: text(names) for dim, names in axis_names.items() if names is not None}
    return xr.DataArray(matrix, coords, dims=("samples", "features"))


def _values(
    source: AbstractSource, blocks: tuple[Block, ...], dtype: Any, block_id: tuple[int, int]
) -> Array:
    """Read the block (m, c) with the number ``block_id[1]``, with NaN for missing values."""
    raw = source.read(blocks[block_id[1]])
    values = raw.astype(dtype, copy=False)
    if values.dtype != raw.dtype:
        values[raw == source.missing_code] = np.nan
    return values


def take_features(
    X: Any, chosen: Index, d: int, names: Array | None = None, *, turned: bool = False
) -> Any:
    """Select features of a dask or sparse array, a DataArray or AnnData, without computing it.

    The result has shape (samples, features). `d` is the number of features in `fit`, and `names`
    (d,) are their names ("" if unknown). With `turned`, X has shape (features, samples). InputError
    is raised if X has other features, or if `fit` would not accept X.
    """
    if is_anndata(X) and X.n_vars == d:
        return X[:, chosen]
    if isinstance(X, xr.DataArray):
        dim = _feature_dim(X, d, names)
        return X.isel({dim: chosen}).transpose(..., dim)
    shape = getattr(X, "shape", None)
    if not isinstance(shape, tuple) or len(shape) != 2 or not hasattr(X, "dtype"):
        description = shape if isinstance(shape, tuple) else type(X).__name__
        raise InputError(
            f"transform needs data with {d} features, but got {description}. Pass an array with "
            "samples and features."
        )
    if shape[0 if turned else 1] != d:
        raise InputError(
            f"X has shape {shape}, but the selector was fitted on {d} features. Pass an array "
            f"with {d} features, {'features' if turned else 'samples'} first."
        )
    check_dtype(X.dtype, "X")
    check_chunks(X)
    if is_sparse(X) and X.format not in ("csr", "csc"):
        X = X.tocsr()
    return X[chosen].T if turned else X[:, chosen]


def _feature_dim(X: xr.DataArray, d: int, names: Array | None) -> Any:
    """Return the feature dimension of X; InputError if the feature names differ from `names`."""
    dims = [dim for dim, size in X.sizes.items() if size == d]
    if len(dims) != 1:
        raise InputError(
            f"The data have dimensions {dict(X.sizes)}, but the selector was fitted on {d} "
            "features. Pass data with exactly one dimension of that size."
        )
    check_dtype(X.dtype, "X")
    here = names_along(X, dims[0])
    if names is not None and here is not None:
        check_features(here, names, np.arange(d))
    return dims[0]


def check_features(here: Array, names: Array, numbers: Index) -> None:
    """Refuse features with names `here` (k,) that differ from the names (k,) in `fit`.

    Unknown names in `fit` ("") are not compared. `numbers` (k,) are the positions of the features,
    for messages.
    """
    differ = np.flatnonzero((np.asarray(here, dtype=object) != names) & (names != ""))
    if len(differ):
        at = int(differ[0])
        raise InputError(
            "The features of X differ from those in fit, or are in a different order: feature "
            f"{numbers[at]} is {str(here[at])!r}, but was {str(names[at])!r}. Pass the same "
            "features as in fit, for example with X.sel(...)."
        )


def spread_features(X: Any, chosen: Mask) -> Any:
    """Return a matrix (m, d) with X (m, k) in the columns where `chosen` (d,) is True, 0 elsewhere.

    The result is sparse or lazy if X is.
    """
    X = X.data if isinstance(X, xr.DataArray) else X
    if not (is_sparse(X) or hasattr(X, "dask")):
        X = np.asarray(X)
    if len(X.shape) != 2 or X.shape[1] != chosen.sum():
        raise InputError(
            f"X has shape {X.shape}, but {chosen.sum()} features are selected. Pass the output "
            "of transform, (m, k)."
        )
    if is_sparse(X):
        places = np.flatnonzero(chosen)
        spread = coo_array(
            (np.ones(places.size, X.dtype), (np.arange(places.size), places)),
            shape=(places.size, chosen.size),
        )
        return X @ spread.asformat(X.format)
    at = np.where(chosen, np.cumsum(chosen) - 1, -1)
    return np.concatenate([X, np.zeros_like(X[:, :1])], axis=1)[:, at]

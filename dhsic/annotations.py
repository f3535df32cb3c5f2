"""Add the results of a run to the features of the data: `merge`, `select_genes`."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
import zarr

from dhsic._typing import Array, Index
from dhsic.errors import InputError, warn
from dhsic.results.views import result_of_one
from dhsic.selectors import select
from dhsic.sources import FEATURES, AbstractSource
from dhsic.sources.anndata import AnnDataStore
from dhsic.sources.columns import NAME
from dhsic.sources.h5ad import AnnDataObject, is_anndata
from dhsic.sources.opening import open_source
from dhsic.sources.options import dimension_names
from dhsic.sources.views import STORED
from dhsic.storage.paths import as_path, is_url

#: Variables of a result that are added to the data if present, and the value that each has for
#: features that were filtered out.
FOUND: Mapping[str, Any] = {
    "rank": 0,
    "score": np.nan,
    "selected": False,
    "p": np.nan,
    "q": np.nan,
    "fdr": np.nan,
    "stability": np.nan,
}
#: Maximum number of genes listed in a message.
MOST_NAMED = 3
#: Types of parameters that `uns` of AnnData can store.
PLAIN = (str, int, float, list, tuple)


def merge(
    data: Any,
    result: Any,
    *,
    key_added: str = "hsic",
    variable: str | None = None,
    sample_dim: str | int | None = None,
    overwrite: bool = False,
) -> Any:
    """Add ranks, scores and the selection to the features of the data.

    Variables are called ``hsic_rank``, ``hsic_score`` and ``hsic_selected``, and also ``hsic_p``,
    ``hsic_q``, ``hsic_fdr`` and ``hsic_stability`` if the result has them. Features are matched by
    name if data and result have names, otherwise by position. Features that were filtered out have
    rank 0 and no score.

    Parameters
    ----------
    data : Dataset, DataArray, DataFrame, AnnData, zarr.Group or path
        Data of the result, or data that contain the same features, in any order.
    result : Dataset or selector
        Result of `select` for one run, or a fitted selector.
    key_added : str
        Prefix of the names.
    variable, sample_dim
        As in `open_source`, if they do not follow from the data.
    overwrite : bool
        Replace existing variables with these names.

    Returns
    -------
    Dataset, DataArray, DataFrame or None
        For a Dataset, a copy with new variables. For a DataArray, a copy with new coordinates along
        its feature dimension. Existing coordinates and dtypes are unchanged. For a DataFrame, a new
        frame with one row per column of the data. None for AnnData, which gets new columns of
        ``var``, and for a Zarr group or store, which gets new arrays.

    Raises
    ------
    InputError
        Features of the result differ from those of the data, a name exists already, or the kind of
        data is not supported.

    Examples
    --------
    >>> import numpy as np, xarray as xr, dhsic
    >>> X = xr.DataArray(np.random.default_rng(0).standard_normal((50, 3)), dims=("cell", "gene"),
    ...                  coords={"gene": ["a", "b", "c"]})
    >>> result = dhsic.select(X, X[:, 1].values > 0, n_features_to_select=1)
    >>> found = dhsic.merge(X, result)
    >>> found.gene[found.hsic_selected].item(), found.hsic_rank.dims
    ('b', ('gene',))
    """
    source = open_source(data, variable=variable, sample_dim=sample_dim)
    columns = _columns(result_of_one(result), source, key_added)
    if isinstance(data, pd.DataFrame):
        return pd.DataFrame(columns, index=data.columns)
    if isinstance(data, xr.DataArray | xr.Dataset):
        there = data.coords if isinstance(data, xr.DataArray) else data.variables
        _check_free(columns, {*map(str, there)}, "the data", overwrite=overwrite)
        along = {name: (source.names.dim, values) for name, values in columns.items()}
        return data.assign_coords(along) if isinstance(data, xr.DataArray) else data.assign(along)
    if is_anndata(data):
        _check_free(columns, {*map(str, data.var.columns)}, "var", overwrite=overwrite)
        for name, values in columns.items():
            data.var[name] = values
        return None
    _write_beside(data, source, columns, overwrite=overwrite)
    return None


def _columns(result: xr.Dataset, source: AbstractSource, key_added: str) -> dict[str, Array]:
    """Return the variables in `FOUND` of a result as columns (d,), in the order of the source."""
    at, d = feature_places(result, source), source.n_features
    columns: dict[str, Array] = {}
    for name, nothing in FOUND.items():
        if name in result:
            values = result[name].to_numpy()
            column = columns[f"{key_added}_{name}"] = np.full(d, nothing, values.dtype)
            column[at] = values
    return columns


def feature_places(
    result: xr.Dataset, source: AbstractSource, features: Index | None = None
) -> Index:
    """Find features of a result in the data; return their indices in the data, (n,).

    `features` are indices in the result (default: all features). If features have names, the data
    need not contain other features of the result.
    """
    n, d = result.sizes["features"], source.n_features
    which = np.arange(n) if features is None else features
    at = result[STORED].to_numpy() if STORED in result.coords else np.arange(n)
    chosen: Index = at[which]
    names = source.feature_names()
    if NAME not in result.coords or names is None:
        left_out = int(result.attrs.get("n_features_filtered", 0))
        if n + left_out != d:
            raise InputError(
                f"The result has {n + left_out} features, but the data have {d}, and they cannot "
                "be matched because feature names are missing. Pass the data of the selection."
            )
        return chosen
    mine, theirs = (pd.Index([*map(str, of)]) for of in (result[NAME].to_numpy(), names))
    if at.max() < d and mine.equals(theirs[at]):
        return chosen
    mine = mine[which]
    there = np.flatnonzero(theirs.isin(mine))
    if not (mine.is_unique and theirs[there].is_unique):
        raise InputError(
            "Features of the result and of the data differ, or are in a different order, and "
            "cannot be matched because names are repeated. Pass the data of the selection."
        )
    places = theirs[there].get_indexer(mine)
    if (places < 0).any():
        lost = mine[places < 0]
        raise InputError(
            f"{lost.size} of {mine.size} features of the result are not in the data: "
            f"{', '.join(lost[:MOST_NAMED])}{', ...' if lost.size > MOST_NAMED else ''}. Pass the "
            "data of the selection, or data that contain all of these features."
        )
    stored: Index = there[places]
    return stored


def _check_free(
    columns: Mapping[str, Array], names: set[str], where: str, *, overwrite: bool
) -> None:
    """Reject columns whose names are among `names`, unless `overwrite`."""
    if (there := [name for name in columns if name in names]) and not overwrite:
        raise InputError(
            f"{', '.join(there)} already exist in {where}. Choose other names (key_added='mine'), "
            "or overwrite them (overwrite=True)."
        )


def _write_beside(
    data: Any, source: AbstractSource, columns: Mapping[str, Array], *, overwrite: bool
) -> None:
    """Write columns to the Zarr group that contains the matrix of the data."""
    is_group, chunked = isinstance(data, zarr.Group), source.chunked
    is_folder = isinstance(data, str | PathLike) and not is_url(data) and as_path(data).is_dir()
    if chunked is None or not (is_group or is_folder):
        raise InputError(
            f"{data if isinstance(data, str | PathLike) else type(data).__name__} is not a Zarr "
            "group in a folder, and not a Dataset, DataArray, DataFrame or AnnData, so nothing can "
            "be added to it. Read it first (anndata.read_h5ad, xarray.open_zarr), or write a "
            "table: dhsic.save(result, 'all.tsv')."
        )
    within = chunked.path.rpartition("/")[0]
    store: Any = data.store if is_group else str(as_path(data))
    group = zarr.open_group(store, path=within, mode="r+", use_consolidated=False)
    if AnnDataStore.of(group) is not None:
        raise InputError(
            f"{group.store_path} is AnnData; add columns with anndata: adata = "
            "anndata.read_zarr(path), dhsic.merge(adata, result), adata.write_zarr(path)."
        )
    _check_free(columns, {*group.array_keys()}, str(group.store_path), overwrite=overwrite)
    for name in columns:
        if name in group:
            del group[name]
    dims = dimension_names(chunked.opened())
    along = FEATURES if dims is None else str(dims[chunked.feature_axis])
    dataset = xr.Dataset({name: (along, of) for name, of in columns.items()})
    lists_all = zarr.open_group(store).metadata.consolidated_metadata is not None
    with warnings.catch_warnings():  # about consolidated metadata in format 3
        warnings.filterwarnings("ignore", "Consolidated metadata", UserWarning)
        dataset.to_zarr(store, group=within or None, mode="a", consolidated=lists_all)


def select_genes(
    adata: Any,
    key: str | None,
    *,
    layer: str | None = None,
    n: int | float | None = 50,
    method: str = "bahsic",
    key_added: str = "hsic",
    inplace: bool = True,
    donor: str | None = None,
    **parameters: Any,
) -> pd.DataFrame | None:
    """Select genes that explain a column of ``obs``, with an interface like scanpy's.

    Parameters
    ----------
    adata : AnnData
        Cells x genes, in memory or backed.
    key : str or None
        Column of ``adata.obs``: cell types, condition, age of donors. None with
        ``label_kernel="self"``.
    layer : str, optional
        Layer to select from, or ``raw`` (``adata.raw.X``); ``X`` by default. Counts should be
        normalised and log-transformed, as for scanpy's methods; if X was scaled afterwards, use
        ``raw`` or a layer.
    n : int, float or None
        Number of genes to select, as ``n_features_to_select`` of `BAHSIC`.
    method : str
        As in `select`.
    key_added : str
        Prefix of the columns of ``var``, and name in ``uns``.
    inplace : bool
        Write to ``adata``; otherwise return the columns.
    donor : str, optional
        Column of ``adata.obs`` with the donor of each cell, if all cells of a donor have the same
        label. The p-values of single genes are then based on exchanging the labels of whole donors.
        This is ``permute_whole`` of `select`.
    **parameters
        As in `select`: ``covariates="batch"``, ``kernel="linear"``, ``random_state=0``, ...

    Returns
    -------
    pandas.DataFrame or None
        With ``inplace=False``, a table of the columns with one row per gene. Otherwise None: the
        columns ``hsic_rank``, ``hsic_score`` and ``hsic_selected`` are added to ``adata.var``, and
        ``adata.uns["hsic"]`` has the parameters (``params``), the history of rounds and the
        attributes of the result.

    Raises
    ------
    InputError
        The object is not AnnData, or `select` raises the error.
    """
    check_anndata(adata, "select_genes")
    _check_parameters(parameters, donor)
    parameters |= {} if donor is None else {"permute_whole": donor}
    if hint := AnnDataObject(adata).hint(layer, "layer"):
        warn(hint)
    variable = matrix_name(adata, layer)
    result = select(
        adata, key, method=method, n_features_to_select=n, variable=variable, **parameters
    )
    columns = _columns(result_of_one(result), open_source(adata, variable=variable), key_added)
    if not inplace:
        return pd.DataFrame(columns, index=adata.var_names)
    for name, values in columns.items():
        adata.var[name] = values
    rounds = {
        str(name): of.to_numpy() for name, of in result.data_vars.items() if of.dims == ("rounds",)
    }
    params: dict[str, Any] = {
        "key": key or "",
        "layer": variable.removeprefix("layers/"),
        "method": method,
        "n": n or "all",
    }
    params |= {k: v for k, v in parameters.items() if k != "progress" and isinstance(v, PLAIN)}
    adata.uns[key_added] = {"params": params, "rounds": rounds, "attributes": dict(result.attrs)}
    return None


def check_anndata(adata: Any, function: str) -> None:
    """Refuse an object that is not AnnData; the message names the public `function`."""
    if not is_anndata(adata):
        raise InputError(
            f"{function} needs an AnnData object, not a {type(adata).__name__}. Pass "
            "anndata.read_h5ad(path); for other data use dhsic.select."
        )


def matrix_name(adata: Any, layer: str | None) -> str:
    """Return the path of the matrix of a layer, ``raw``, or X (for None), as in `open_source`."""
    layer = "raw/X" if layer == "raw" and "raw" not in adata.layers else layer or "X"
    return layer if layer == "X" or "/" in layer else f"layers/{layer}"


def _check_parameters(parameters: Mapping[str, Any], donor: str | None) -> None:
    """Refuse parameters of `select` that `select_genes` does not support."""
    if parameters.get("per_class") or parameters.get("per_target"):
        raise InputError(
            "select_genes writes one ranking. Call it once per class, with labels for that class "
            "against the rest in adata.obs; or call dhsic.select(adata, key, per_class=True) for "
            "one result with all classes."
        )
    if "variable" in parameters:
        raise InputError(
            f"select_genes uses layer= for the matrix: pass layer={parameters['variable']!r}."
        )
    if donor is not None and parameters.get("permute_whole") is not None:
        raise InputError("donor= and permute_whole= are the same parameter; pass only one of them.")

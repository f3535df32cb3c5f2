"""What a run found about each feature, put along the features of data: `merge`, `select_genes`."""

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
from dhsic.errors import InputError
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

#: What is put along the features, where a result has it, and what it is of features that took no
#: part.
FOUND: Mapping[str, Any] = {
    "rank": 0,
    "score": np.nan,
    "selected": False,
    "p": np.nan,
    "q": np.nan,
    "fdr": np.nan,
    "stability": np.nan,
}
#: Genes that a message names, at most.
MOST_NAMED = 3
#: What `uns` of AnnData can hold of the parameters that were passed.
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
    """Put ranks, scores and what is selected along the features of data.

    They are called ``hsic_rank``, ``hsic_score`` and ``hsic_selected``; ``hsic_p``, ``hsic_q``,
    ``hsic_fdr`` and ``hsic_stability`` come with them where the result has such. Features are
    matched by name where data and result have names, else by position. Those that took no part, as
    filters left them out, have rank 0 and no score.

    Parameters
    ----------
    data : Dataset, DataArray, DataFrame, AnnData, zarr.Group or path
        What the result is about, or what has its features in another order or with others between
        them.
    result : Dataset or selector
        What `select` returns, of one run; or a selector after fit.
    key_added : str
        What names begin with.
    variable, sample_dim
        As of `open_source`, where data do not tell.
    overwrite : bool
        Replace what is there by these names already.

    Returns
    -------
    Dataset, DataArray, DataFrame or None
        A Dataset has them as variables, a DataArray as coordinates, along its own dimension, with
        its coordinates and dtypes as they were; both are copies. Of a DataFrame a new one, with a
        row for each of its columns. AnnData gets columns of ``var``, and a Zarr group or store
        arrays: then there is nothing to return.

    Raises
    ------
    InputError
        Features of the result are not those of the data, something has such a name already, or
        data are of another kind.

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
    """What a result has of `FOUND`, (d,) each, in the order of the features of a source."""
    at, d = _places(result, source), source.n_features
    columns: dict[str, Array] = {}
    for name, nothing in FOUND.items():
        if name in result:
            values = result[name].to_numpy()
            made = columns[f"{key_added}_{name}"] = np.full(d, nothing, values.dtype)
            made[at] = values
    return columns


def _places(result: xr.Dataset, source: AbstractSource) -> Index:
    """Positions in the data of the features of a result, (d,)."""
    n, d = result.sizes["features"], source.n_features
    at = result[STORED].to_numpy() if STORED in result.coords else np.arange(n)
    names = source.feature_names()
    if NAME not in result.coords or names is None:
        left_out = int(result.attrs.get("n_features_filtered", 0))
        if n + left_out != d:
            raise InputError(
                f"The result is about {n + left_out} features and the data have {d}, and names "
                "that would tell which are the same are not in both. Pass what was selected from."
            )
        return at
    mine, theirs = (pd.Index([*map(str, of)]) for of in (result[NAME].to_numpy(), names))
    if at.max() < d and mine.equals(theirs[at]):
        return at
    if not (mine.is_unique and theirs.is_unique):
        raise InputError(
            "Features of the result are in another order than those of the data, or are others, "
            "and names are there more than once. Pass what was selected from."
        )
    found: Index = theirs.get_indexer(mine)
    if (found < 0).any():
        lost = mine[found < 0]
        raise InputError(
            f"{lost.size} of {n} features of the result are not in the data: "
            f"{', '.join(lost[:MOST_NAMED])}{', ...' if lost.size > MOST_NAMED else ''}. Pass what "
            "was selected from, or more of it."
        )
    return found


def _check_free(
    columns: Mapping[str, Array], names: set[str], where: str, *, overwrite: bool
) -> None:
    """Refuse to replace what is there, unless to overwrite it."""
    if (there := [name for name in columns if name in names]) and not overwrite:
        raise InputError(
            f"{', '.join(there)} are in {where} already. Choose other names (key_added='mine'), or "
            "overwrite them (overwrite=True)."
        )


def _write_beside(
    data: Any, source: AbstractSource, columns: Mapping[str, Array], *, overwrite: bool
) -> None:
    """Write columns to the Zarr group that the matrix is in."""
    is_group, chunked = isinstance(data, zarr.Group), source.chunked
    is_folder = isinstance(data, str | PathLike) and not is_url(data) and as_path(data).is_dir()
    if chunked is None or not (is_group or is_folder):
        raise InputError(
            f"{data if isinstance(data, str | PathLike) else type(data).__name__} is no folder of "
            "Zarr, to which arrays could be added, nor a Dataset, DataArray, DataFrame or AnnData. "
            "Read it first (anndata.read_h5ad, xarray.open_zarr), or write a table: "
            "dhsic.save(result, 'all.tsv')."
        )
    within = chunked.path.rpartition("/")[0]
    store: Any = data.store if is_group else str(as_path(data))
    group = zarr.open_group(store, path=within, mode="r+", use_consolidated=False)
    if AnnDataStore.of(group) is not None:
        raise InputError(
            f"{group.store_path} is AnnData, whose columns anndata writes: adata = "
            "anndata.read_zarr(path), dhsic.merge(adata, result), adata.write_zarr(path)."
        )
    _check_free(columns, {*group.array_keys()}, str(group.store_path), overwrite=overwrite)
    for name in columns:
        if name in group:
            del group[name]
    dims = dimension_names(chunked.opened())
    along = FEATURES if dims is None else str(dims[chunked.feature_axis])
    found = xr.Dataset({name: (along, of) for name, of in columns.items()})
    lists_all = zarr.open_group(store).metadata.consolidated_metadata is not None
    with warnings.catch_warnings():  # consolidated metadata of format 3
        warnings.filterwarnings("ignore", "Consolidated metadata", UserWarning)
        found.to_zarr(store, group=within or None, mode="a", consolidated=lists_all)


def select_genes(
    adata: Any,
    key: str | None,
    *,
    layer: str | None = None,
    n: int | float | None = 50,
    method: str = "bahsic",
    key_added: str = "hsic",
    inplace: bool = True,
    **parameters: Any,
) -> pd.DataFrame | None:
    """Select genes that a column of ``obs`` depends on, in scanpy's manner.

    Parameters
    ----------
    adata : AnnData
        Cells x genes, in memory or backed.
    key : str or None
        Column of ``adata.obs``: cell types, condition, donor's age. None with
        ``label_kernel="self"``.
    layer : str, optional
        The layer to select from, or ``raw`` (``adata.raw.X``); ``X`` by default. Counts are best
        normalised and logarithms taken before, as for any method of scanpy; where X was scaled
        since, these are in ``raw`` or a layer.
    n : int, float or None
        How many genes to select, as ``n_features_to_select`` of `BAHSIC`.
    method : str
        As of `select`.
    key_added : str
        What columns of ``var`` begin with, and the name in ``uns``.
    inplace : bool
        Write to ``adata``; else return the columns.
    **parameters
        As of `select`: ``covariates="batch"``, ``kernel="linear"``, ``random_state=0``, ...

    Returns
    -------
    pandas.DataFrame or None
        With ``inplace=False`` the columns, a row a gene. Else they are in ``adata.var``:
        ``hsic_rank``, ``hsic_score``, ``hsic_selected``; and ``adata.uns["hsic"]`` says how they
        came about: ``params``, the history of rounds, the attributes of the result.

    Raises
    ------
    InputError
        What is passed is no AnnData, or as of `select`.
    """
    if not is_anndata(adata):
        raise InputError(
            f"select_genes takes an object of AnnData, and this is a {type(adata).__name__}. Pass "
            "anndata.read_h5ad(path), or select from anything else with dhsic.select."
        )
    if parameters.get("per_class") or parameters.get("per_target"):
        raise InputError(
            "select_genes writes one ranking. Call it for each class, with labels of that class "
            "and the rest in adata.obs; or dhsic.select(adata, key, per_class=True) for a result "
            "of all of them."
        )
    if "variable" in parameters:
        raise InputError(
            f"select_genes calls the matrix layer=: pass layer={parameters['variable']!r}."
        )
    if hint := AnnDataObject(adata).hint(layer, "layer"):
        warnings.warn(hint, stacklevel=2)
    layer = "raw/X" if layer == "raw" and "raw" not in adata.layers else layer or "X"
    variable = layer if layer == "X" or "/" in layer else f"layers/{layer}"
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
        "layer": layer,
        "method": method,
        "n": n or "all",
    }
    params |= {k: v for k, v in parameters.items() if k != "progress" and isinstance(v, PLAIN)}
    adata.uns[key_added] = {"params": params, "rounds": rounds, "attributes": dict(result.attrs)}
    return None

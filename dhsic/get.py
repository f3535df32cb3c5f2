"""Convert results to the structures of other programs: `rank_genes_groups_like`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from dhsic._typing import Array, Index
from dhsic.annotations import check_anndata, feature_places, matrix_name
from dhsic.errors import InputError
from dhsic.sources import AbstractSource
from dhsic.sources.opening import open_source
from dhsic.validation import is_count

__all__ = ["rank_genes_groups_like"]

#: Dimension of a result of ``per_class=True``.
CLASSES = "classes"
#: Lower bound for p-values before their logarithm is taken.
SMALLEST = 1e-300
#: Number that scanpy adds to both means of a fold change, so that neither is 0.
SCANPY_OFFSET = 1e-9
#: Number of values of the matrix that are in memory at a time.
ENTRIES = 1 << 24
#: Types of the columns in ``adata.uns``, as written by scanpy.
DTYPES = {
    "names": "O",
    "scores": "f4",
    "pvals": "f8",
    "pvals_adj": "f8",
    "logfoldchanges": "f4",
}


def rank_genes_groups_like(
    adata: Any,
    result: Any,
    *,
    groupby: str | None = None,
    layer: str | None = None,
    n_genes: int | None = None,
    key_added: str = "rank_genes_groups",
    inplace: bool = True,
) -> dict[str, Any] | None:
    """Convert the rankings of all cell types to the structure of scanpy's ``rank_genes_groups``.

    Functions that read the result of ``sc.tl.rank_genes_groups`` then work with the genes of dhsic:
    ``sc.pl.rank_genes_groups``, ``sc.pl.rank_genes_groups_dotplot``,
    ``sc.get.rank_genes_groups_df`` and others.

    Parameters
    ----------
    adata : AnnData
        Cells x genes, from which the genes were selected.
    result : Dataset
        Result of ``dhsic.select(adata, groupby, per_class=True)``.
    groupby : str, optional
        Column of ``adata.obs`` with the classes; by default the target of the result.
    layer : str, optional
        Layer of the mean expression, or ``raw`` (``adata.raw.X``); ``X`` by default. Choose the
        matrix from which the genes were selected. Its values must be logarithms (``sc.pp.log1p``)
        for fold changes.
    n_genes : int, optional
        Number of genes to list per class, at least 1; all by default.
    key_added : str
        Name in ``adata.uns``.
    inplace : bool
        Write to ``adata.uns``; otherwise return the structure.

    Returns
    -------
    dict or None
        With ``inplace=False``, ``params`` and one record array per column, which has one field per
        class and one row per gene, best first: ``names``; ``scores``, -log10 of the p-value;
        ``pvals`` and ``pvals_adj``, of each gene alone, for an effect of any shape, before and
        after Benjamini-Hochberg correction; ``logfoldchanges``, log2 of the ratio of mean
        expression inside the class and in all other classes, computed as in scanpy. Results of
        methods without p-values have the score of the ranking as ``scores``, and neither ``pvals``
        nor ``pvals_adj``.

    Raises
    ------
    InputError
        The object is not AnnData, the result is not per class, the column is missing or lacks a
        class of the result, or genes of the result are not in the data.

    Notes
    -----
    Genes are in the order of dhsic, which ranks them *together*, so the p-values are not sorted.
    Genes that are lower inside the class are listed too; their fold change is negative.
    """
    check_anndata(adata, "rank_genes_groups_like")
    if not isinstance(result, xr.Dataset) or CLASSES not in result.dims:
        raise InputError(
            "rank_genes_groups_like needs one ranking per class: pass the result of "
            "dhsic.select(adata, key, per_class=True)."
        )
    if n_genes is not None and not is_count(n_genes):
        raise InputError(f"n_genes={n_genes!r} is invalid. Pass a whole number of at least 1.")
    groupby = groupby or str(result.attrs.get("target"))
    classes = [*map(str, result[CLASSES].to_numpy())]
    members = _members(adata, groupby, classes)
    matrix = matrix_name(adata, layer)
    source = open_source(adata, variable=matrix)
    places = feature_places(result, source)
    base = adata.uns.get("log1p", {}).get("base")
    log_ratios = _log_fold_changes(source, members, base)[:, places]
    names = np.asarray(source.feature_names())[places]
    columns = {"names": np.broadcast_to(names, log_ratios.shape)}
    columns |= _scores(result) | {"logfoldchanges": log_ratios}
    order = np.argsort(result["rank"].transpose(CLASSES, ...).to_numpy(), axis=1)[:, :n_genes]
    structure: dict[str, Any] = {"params": _params(groupby, matrix)}
    for name, values in columns.items():
        sorted_values = np.take_along_axis(values, order, axis=1)
        structure[name] = _records(classes, sorted_values, DTYPES[name])
    if not inplace:
        return structure
    adata.uns[key_added] = structure
    return None


def _params(groupby: str, matrix: str) -> dict[str, Any]:
    """Create the entry ``params`` for scanpy's plots: the classes, and the matrix at this path."""
    return {
        "groupby": groupby,
        "reference": "rest",
        "method": "dhsic",
        "use_raw": matrix == "raw/X",
        "layer": matrix.removeprefix("layers/") if matrix.startswith("layers/") else None,
        "corr_method": "benjamini-hochberg",
    }


def _members(adata: Any, groupby: str, classes: list[str]) -> Array:
    """Masks (c, m) of the cells of each class."""
    if groupby not in adata.obs:
        raise InputError(
            f"adata.obs has no column {groupby!r}. Pass the column with the classes as groupby=."
        )
    labels = adata.obs[groupby].astype(str).to_numpy()
    members = np.array([labels == name for name in classes])
    if absent := [name for name, of in zip(classes, members, strict=True) if not of.any()]:
        raise InputError(
            f"No cell of adata.obs[{groupby!r}] has the class {absent[0]!r} of the result. Pass "
            "the data of the selection; or pass as groupby= the column with the labels of the "
            "selection."
        )
    return members


def _log_fold_changes(source: AbstractSource, members: Array, base: float | None) -> Array:
    """Compute log2 fold changes (c, d): mean expression inside each class over all others.

    Parameters
    ----------
    source : AbstractSource
        Logarithms of expression.
    members : Array
        Masks (c, m) of the cells of each class.
    base : float or None
        Base of the logarithm; e if None.
    """
    labelled, sizes = members.any(axis=0), members.sum(axis=1)[:, None]
    ratios = np.empty((len(members), source.n_features))
    factor = 1.0 if base is None else np.log(base)
    for block in source.blocks(max(1, ENTRIES // source.n_samples)):
        x = np.asarray(source.read(block), dtype=np.float64)
        sums = members @ x
        inside, outside = sums / sizes, (x[labelled].sum(axis=0) - sums) / (labelled.sum() - sizes)
        up, down = (np.expm1(factor * mean) + SCANPY_OFFSET for mean in (inside, outside))
        with np.errstate(divide="ignore", invalid="ignore"):  # values that are no logarithms
            ratios[:, block.start : block.stop] = np.log2(up / down)
    return ratios


def _scores(result: xr.Dataset) -> dict[str, Array]:
    """Return the columns ``scores`` and, if available, ``pvals`` and ``pvals_adj``, (c, d) each."""
    if "p_marginal" not in result:
        return {"scores": result["score"].transpose(CLASSES, ...).to_numpy()}
    p, q = (
        result[name].transpose(CLASSES, ...).to_numpy() for name in ("p_marginal", "q_marginal")
    )
    return {"scores": -np.log10(np.maximum(p, SMALLEST)), "pvals": p, "pvals_adj": q}


def _records(classes: list[str], values: Array | Index, dtype: str) -> Any:
    """Convert values (c, n) to a record array with one field per class."""
    frame = pd.DataFrame(dict(zip(classes, values, strict=True)))
    return frame.to_records(index=False, column_dtypes=dict.fromkeys(classes, dtype))

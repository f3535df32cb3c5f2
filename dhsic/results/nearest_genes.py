"""Nearest genes of the variants of a result, from a GTF, GFF3 or BED file."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from dhsic.errors import InputError
from dhsic.joins.genes import Genes, nearest_genes, warn_of_chromosomes
from dhsic.namespace import slices
from dhsic.results.views import as_result
from dhsic.sources.columns import STRETCH
from dhsic.sources.variants import CONTIG, POSITION

#: Variables that are added, with descriptions.
GENE, DISTANCE = "gene", "gene_distance"
LONG_NAMES = {
    GENE: "nearest gene; genes that overlap at the variant are separated by commas",
    DISTANCE: "distance of the variant from that gene in bases; 0 inside the gene, -1 without one",
}


def annotate(result: Any, genes: str | PathLike[str] | Genes) -> xr.Dataset:
    """Add the nearest gene of each variant, and its distance, to a result.

    The variable ``gene`` is the name of the gene (``gene_name``, else ``gene_id``). Genes that
    overlap at the variant are all named, separated by commas. ``gene_distance`` is the distance in
    bases, 0 inside a gene. Variants on a chromosome without genes have the gene "" and the
    distance -1. Positions of the genes and of the variants must be of the same genome build, which
    is not checked.

    Parameters
    ----------
    result : xarray.Dataset or selector
        Result of `select`, with one or several runs, or a fitted selector.
    genes : path or Genes
        GTF, GFF3 or BED file of genes, which may be compressed. Chromosomes match with or without
        "chr", as accession numbers of human chromosomes (NC_000006.12), and X as PLINK's 23.

    Returns
    -------
    xarray.Dataset
        A copy of the result with both variables.

    Raises
    ------
    InputError
        The result has no chromosomes and positions, no chromosome of the genes is one of the
        result, or the file cannot be read.

    Examples
    --------
    >>> import dhsic
    >>> result = dhsic.load("tests.zarr")  # doctest: +SKIP
    >>> dhsic.annotate(result, "gencode.gtf.gz").dhsic.table(10)  # doctest: +SKIP
    """
    result = as_result(result)
    check_places(result.coords)
    known = genes if isinstance(genes, Genes) else Genes.read(genes)
    dim = str(result["rank"].dims[-1])
    if GENE in {*map(str, result.dims), *map(str, result.coords)}:
        raise InputError(
            f"The data have a dimension or coordinate {GENE!r}, so the nearest gene cannot be "
            "added under this name. Rename it in the data."
        )
    parts = slices(result.sizes[dim], STRETCH)
    contigs = (result[CONTIG][rows].to_numpy().astype(object) for rows in parts)
    called = dict.fromkeys(str(name) for part in contigs for name in pd.unique(part))
    warn_of_chromosomes(known, called)
    segments = known.segments(called)
    names = np.empty(result.sizes[dim], dtype=object)
    distances = np.empty(names.size, dtype=np.int64)
    for rows in parts:
        here, positions = (result[name][rows].to_numpy() for name in (CONTIG, POSITION))
        names[rows], distances[rows] = nearest_genes(segments, here.astype(object), positions)
    columns = {GENE: names, DISTANCE: distances}
    described = {n: (dim, values, {"long_name": LONG_NAMES[n]}) for n, values in columns.items()}
    annotated: xr.Dataset = result.assign(described).assign_attrs(genes=known.source)
    return annotated


def check_places(known: Iterable[Any]) -> None:
    """Reject data without chromosomes and positions; `known` are the names of the coordinates."""
    if not {CONTIG, POSITION} <= {*map(str, known)}:
        raise InputError(
            "The nearest genes need the chromosome and position of each feature, which the data do "
            "not have. Leave the genes out, or use data with positions of variants."
        )

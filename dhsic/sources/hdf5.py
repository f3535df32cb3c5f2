"""HDF5 files: counts of Cell Ranger, AnnData, or other matrices, recognised by content.

Cell Ranger writes sparse counts of features in cells, stored by cells. They are in the group
``matrix`` (version 3 and later), or in one group per genome (version 2). Cell Ranger also writes a
folder with the same data as text (``matrix.mtx``). Cells are samples, named by barcodes. Features
are named by gene; if a gene name is repeated, the gene id is appended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dhsic._typing import Array
from dhsic.errors import DataError, InputError
from dhsic.sources import AbstractSource, Names
from dhsic.sources.arrow import begins
from dhsic.sources.h5ad import H5AD, open_h5ad, open_stored_sparse, opened_h5, values_at
from dhsic.sources.ids import abbreviate
from dhsic.sources.options import OpenOptions, text
from dhsic.sources.sparse import CSC, SparseSource, by_columns, check_room
from dhsic.sources.views import SubsetSource

#: First bytes of an HDF5 file.
HDF5 = b"\x89HDF\r\n\x1a\n"
#: Suffixes of HDF5 files.
SUFFIXES = (".h5", ".hdf5", ".h5mu")
#: Possible names of the files in a Cell Ranger folder; the first that exists is read.
MATRIX, BARCODES = ("matrix.mtx.gz", "matrix.mtx"), ("barcodes.tsv.gz", "barcodes.tsv")
FEATURES = ("features.tsv.gz", "features.tsv", "genes.tsv.gz", "genes.tsv")
#: Type of features if a file has no types.
GENES = "Gene Expression"
#: Key in `AbstractSource.left_out` of features that do not have the chosen type.
OTHER_TYPES = "other_types"
#: Bytes of memory per entry of a Matrix Market file while it is read and transposed.
BYTES_OF_ENTRY = 48


def is_h5ad(path: str) -> bool:
    """Whether a file contains AnnData, according to its suffix or content."""
    if path.lower().endswith(H5AD):
        return True
    return Path(path).is_file() and begins(path) == HDF5 and _is_anndata(path)


def _is_anndata(path: str) -> bool:
    with opened_h5(path) as file:
        return {"obs", "var"} <= set(file) and "mod" not in file


def open_hdf5(path: str, options: OpenOptions) -> AbstractSource:
    """Open an HDF5 file according to its content.

    Raises
    ------
    InputError
        The file contains neither counts of Cell Ranger nor AnnData; the message lists the content.
    DataError
        The file is damaged.
    """
    with opened_h5(path) as file:
        groups = list(file)
        of_genomes = [name for name in groups if _has(file[name], "barcodes", "genes")]
        is_counts = "matrix" in groups and _has(file["matrix"], "barcodes", "indptr")
        several = list(file["mod"]) if "mod" in groups else []
        datasets: list[str] = []
        file.visititems(lambda name, node: datasets.append(name) if _is_matrix(node) else None)
    if several:
        raise InputError(
            f"{path} is MuData, which contains several AnnData objects: {abbreviate(several)}. "
            "dhsic joins them if the file is local and has the suffix .h5mu: rename it, or "
            "download it first."
        )
    if is_counts:
        return _open_counts(path, "matrix", options)
    if of_genomes:
        return _open_genome(path, of_genomes, options)
    if _is_anndata(path):
        return open_h5ad(path, options)
    listed = f"the matrices {abbreviate(datasets)}" if datasets else "no matrix"
    remedy = f"h5py.File({path!r})[{datasets[0]!r}][:]" if datasets else "an array"
    raise InputError(
        f"{path} is an HDF5 file with {listed}, but it is neither AnnData nor a count matrix of "
        f"Cell Ranger. Pass {remedy}; if it is NetCDF, pass xarray.open_dataset({path!r})."
    )


def _has(node: Any, *names: str) -> bool:
    return not hasattr(node, "dtype") and set(names) <= set(node)


def _is_matrix(node: Any) -> bool:
    return hasattr(node, "shape") and len(node.shape) == 2 and node.dtype.kind in "biuf"


def _open_genome(path: str, genomes: list[str], options: OpenOptions) -> AbstractSource:
    """Open the counts of one genome (Cell Ranger 2), which the option `variable` selects."""
    name = options.variable or genomes[0]
    if name not in genomes or (options.variable is None and len(genomes) > 1):
        raise InputError(
            f"{path} contains counts for {len(genomes)} genomes: {abbreviate(genomes)}. Pass one "
            "of them as variable=."
        )
    return _open_counts(path, name, OpenOptions(n_samples=options.n_samples))


def _open_counts(path: str, name: str, options: OpenOptions) -> AbstractSource:
    """Open the counts (features, cells) in the group `name` of a file; they are stored by cells."""
    with opened_h5(path) as file:
        group = file[name]
        shape = tuple(map(int, values_at(group["shape"])))
        cells = text(values_at(group["barcodes"]))
        of = {key: text(values_at(node)) for key, node in _columns(group).items()}
        options.feature_axis(shape, ("features", "cells"), path)
        source = open_stored_sparse(path, group, CSC, shape, 0, options.code_of())
    if "id" not in of:
        raise DataError(
            f"{path} contains counts in {name!r} but no feature names (features/id, or genes). It "
            "is damaged, or another program wrote it. Copy it again, or pass the folder with "
            "matrix.mtx, which is usually next to it."
        )
    _check_sizes(path, shape, of["id"], cells)
    return _with_names(source, path, of, cells, options)


def _columns(group: Any) -> Mapping[str, Any]:
    """Return the HDF5 datasets of feature annotations by key: id, name, type or genome."""
    if "features" not in group:
        paths = {"id": "genes", "name": "gene_names"}
        return {key: group[name] for key, name in paths.items() if name in group}
    paths = {"id": "id", "name": "name", "type": "feature_type", "genome": "genome"}
    return {key: group["features"][of] for key, of in paths.items() if of in group["features"]}


def _check_sizes(path: str, shape: tuple[int, ...], ids: Array, cells: Array) -> None:
    if (len(ids), len(cells)) != shape:
        raise DataError(
            f"{path} contains counts of {shape[0]:,} features in {shape[1]:,} cells, but names of "
            f"{len(ids):,} features and {len(cells):,} cells. It is damaged, or it mixes two runs: "
            "copy it again."
        )


def _with_names(
    source: AbstractSource,
    path: str,
    of: Mapping[str, Array],
    cells: Array,
    options: OpenOptions,
) -> AbstractSource:
    """Add names of features and cells to a source of counts, and select features by type.

    `of` maps names of annotations to their values (d,). The option `variable` selects a type.
    Without it, all types are used, and the source has a hint that lists them.
    """
    source.keeps_codes = True  # counts are never missing
    coords = {f"feature_{key}": values for key, values in of.items() if key != "name"}
    source.names = Names(_unique(of.get("name", of["id"]), of["id"]), cells, coords)
    types = of.get("type", np.full(len(of["id"]), GENES, dtype=object))
    counts = pd.Series(types).value_counts()
    if options.variable is not None:
        if options.variable not in counts:
            raise InputError(
                f"{path} has no features of type {options.variable!r}; its types are "
                f"{abbreviate(map(repr, counts.index))}. Pass one of them as variable=, or leave "
                "out variable=."
            )
        view = SubsetSource(source, np.flatnonzero(types == options.variable))
        if n := source.n_features - view.n_features:
            view.left_out = ((OTHER_TYPES, n),)
        return view
    if len(counts) > 1:
        type_counts = abbreviate(f"{n:,} of {kind!r}" for kind, n in counts.items())
        source.hint = (
            f"X has features of several types ({type_counts}), which are ranked together. To use "
            f"only one type, pass variable={counts.index[0]!r}."
        )
    return source


def _unique(names: Array, ids: Array) -> Array:
    """Return names (d,) of features with the id appended to each name that is repeated.

    >>> _unique(np.array(["A", "B", "A"], object), np.array(["1", "2", "3"], object)).tolist()
    ['A_1', 'B', 'A_3']
    """
    twice = pd.Series(names).duplicated(keep=False).to_numpy()
    return np.where(twice, names + "_" + ids, names)


# Folders -----------------------------------------------------------------------------------------


def is_folder_of_counts(path: Path) -> bool:
    """Whether a folder contains counts of Cell Ranger as text (Matrix Market)."""
    return any((path / name).is_file() for name in MATRIX)


def open_counts_folder(path: str, options: OpenOptions) -> AbstractSource:
    """Read the counts (features, cells) in a Cell Ranger folder into memory.

    Raises
    ------
    InputError
        A file is missing or invalid.
    DataError
        The number of features or cells differs between the files.
    MemoryBudgetError
        The counts do not fit into memory.
    """
    from scipy.io import mminfo, mmread  # imported here because it loads slowly

    folder = Path(path)
    matrix = _file(folder, MATRIX)
    try:
        n_features, n_cells, n, *_ = mminfo(matrix)
        options.feature_axis((n_features, n_cells), ("features", "cells"), path)
        remedy = "convert it on a machine with more memory: dhsic convert FOLDER OUT.zarr"
        check_room(n * BYTES_OF_ENTRY, f"Reading {matrix} at once", remedy)
        counts = mmread(matrix, spmatrix=False)
    except (ValueError, OSError, EOFError) as error:
        raise InputError(
            f"{matrix} is not a valid Matrix Market file ({error}). Copy it again."
        ) from error
    features = _lines(_file(folder, FEATURES))
    cells = _lines(_file(folder, BARCODES))
    names = ("id", "name", "type")[: features.shape[1]]
    of = {key: features[:, i] for i, key in enumerate(names)}
    _check_sizes(path, (n_features, n_cells), of["id"], cells[:, 0])
    if not hasattr(counts, "tocsc"):
        raise InputError(
            f"{matrix} is a dense matrix, but counts of Cell Ranger are sparse. Pass "
            f"scipy.io.mmread({str(matrix)!r}).T."
        )
    source = SparseSource(by_columns(counts.T, path), missing_code=options.code_of())
    return _with_names(source, path, of, cells[:, 0], options)


def _file(folder: Path, names: Sequence[str]) -> Path:
    table_path = next((folder / name for name in names if (folder / name).is_file()), None)
    if table_path is None:
        raise InputError(
            f"{folder} has counts of Cell Ranger, but no {' or '.join(names[::2])} (compressed "
            "or not). Copy the whole folder."
        )
    return table_path


def _lines(path: Path) -> Array:
    """Read a tab-separated table without header as text, (rows, columns)."""
    try:
        table = pd.read_csv(path, sep="\t", header=None, dtype=str, keep_default_na=False)
    except (ValueError, OSError, EOFError) as error:
        raise InputError(f"{path} cannot be read as a table ({error}). Copy it again.") from error
    return np.asarray(table.to_numpy(dtype=object))

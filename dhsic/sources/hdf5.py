"""HDF5 by what is in it: counts of Cell Ranger, AnnData, or something that is not read.

Cell Ranger writes counts of features in cells, sparse and by cells: version 3 and later in the
group ``matrix``, version 2 in a group for each genome; beside the file there is a folder with the
same as text (``matrix.mtx``). Cells are samples, named by barcodes; features are named as the file
names genes, and by their id too where a name repeats.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.io import mminfo, mmread

from dhsic._typing import Array
from dhsic.errors import DataError, InputError
from dhsic.sources import AbstractSource, Names
from dhsic.sources.arrow import begins
from dhsic.sources.h5ad import H5AD, open_h5ad, open_stored_sparse, opened_h5, values_at
from dhsic.sources.ids import abbreviate
from dhsic.sources.options import OpenOptions, text
from dhsic.sources.sparse import CSC, SparseSource, by_columns, check_room
from dhsic.sources.views import SubsetSource

#: How a file of HDF5 begins.
HDF5 = b"\x89HDF\r\n\x1a\n"
#: Suffixes of files of HDF5.
SUFFIXES = (".h5", ".hdf5", ".h5mu")
#: Names of the files of a folder of Cell Ranger, packed or not; the first one that is there.
MATRIX, BARCODES = ("matrix.mtx.gz", "matrix.mtx"), ("barcodes.tsv.gz", "barcodes.tsv")
FEATURES = ("features.tsv.gz", "features.tsv", "genes.tsv.gz", "genes.tsv")
#: Type of features where a file says none.
GENES = "Gene Expression"
#: Bytes of an entry of Matrix Market while it is read and turned.
BYTES_OF_ENTRY = 48


def is_h5ad(path: str) -> bool:
    """Whether a file holds AnnData, by its name or by what is in it."""
    if path.lower().endswith(H5AD):
        return True
    return Path(path).is_file() and begins(path) == HDF5 and _is_anndata(path)


def _is_anndata(path: str) -> bool:
    with opened_h5(path) as file:
        return {"obs", "var"} <= set(file) and "mod" not in file


def open_hdf5(path: str, options: OpenOptions) -> AbstractSource:
    """Open a file of HDF5 by what is in it.

    Raises
    ------
    InputError
        It holds neither counts of Cell Ranger nor AnnData; the message lists what there is.
    DataError
        It is damaged.
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
            f"{path} is MuData, which holds several AnnData: {abbreviate(several)}. Pass one of "
            f"them: mudata.read({path!r}).mod[{several[0]!r}]."
        )
    if is_counts:
        return _open_counts(path, "matrix", options)
    if of_genomes:
        return _open_genome(path, of_genomes, options)
    if _is_anndata(path):
        return open_h5ad(path, options)
    listed = f"matrices {abbreviate(datasets)}" if datasets else "no matrix"
    remedy = f"h5py.File({path!r})[{datasets[0]!r}][:]" if datasets else "an array"
    raise InputError(
        f"{path} is HDF5 with {listed}, and neither AnnData nor counts of Cell Ranger. Pass "
        f"{remedy}; of NetCDF, xarray.open_dataset({path!r})."
    )


def _has(node: Any, *names: str) -> bool:
    return not hasattr(node, "dtype") and set(names) <= set(node)


def _is_matrix(node: Any) -> bool:
    return hasattr(node, "shape") and len(node.shape) == 2 and node.dtype.kind in "biuf"


def _open_genome(path: str, genomes: list[str], options: OpenOptions) -> AbstractSource:
    """Open the counts of a genome, of version 2; of several, the one that `variable` names."""
    name = options.variable or genomes[0]
    if name not in genomes or (options.variable is None and len(genomes) > 1):
        raise InputError(
            f"{path} holds counts for each of {len(genomes)} genomes, {abbreviate(genomes)}. Pass "
            "one of them as variable=."
        )
    return _open_counts(path, name, OpenOptions(n_samples=options.n_samples))


def _open_counts(path: str, name: str, options: OpenOptions) -> AbstractSource:
    """Open the counts of a group of a file, (features, cells), stored by cells."""
    with opened_h5(path) as file:
        group = file[name]
        shape = tuple(map(int, values_at(group["shape"])))
        cells = text(values_at(group["barcodes"]))
        of = {key: text(values_at(node)) for key, node in _columns(group).items()}
        options.feature_axis(shape, ("features", "cells"), path)
        source = open_stored_sparse(path, group, CSC, shape, 0, options.code_of())
    if "id" not in of:
        raise DataError(
            f"{path} holds counts in {name!r} and no names of their features (features/id, or "
            "genes). It is damaged, or of another program: copy it again, or pass the folder with "
            "matrix.mtx that lies beside it."
        )
    _check_sizes(path, shape, of["id"], cells)
    return _with_names(source, path, of, cells, options)


def _columns(group: Any) -> Mapping[str, Any]:
    """Annotations of the features: ids, names, types."""
    if "features" not in group:
        paths = {"id": "genes", "name": "gene_names"}
        return {key: group[name] for key, name in paths.items() if name in group}
    paths = {"id": "id", "name": "name", "type": "feature_type", "genome": "genome"}
    return {key: group["features"][of] for key, of in paths.items() if of in group["features"]}


def _check_sizes(path: str, shape: tuple[int, ...], ids: Array, cells: Array) -> None:
    if (len(ids), len(cells)) != shape:
        raise DataError(
            f"{path} holds counts of {shape[0]:,} features in {shape[1]:,} cells, and names of "
            f"{len(ids):,} features and {len(cells):,} cells. It is damaged, or of two runs: copy "
            "it again."
        )


def _with_names(
    source: AbstractSource,
    path: str,
    of: Mapping[str, Array],
    cells: Array,
    options: OpenOptions,
) -> AbstractSource:
    """Counts with names of features and cells; of several types of features, those asked for."""
    source.keeps_codes = True  # a count is there, always
    coords = {f"feature_{key}": values for key, values in of.items() if key != "name"}
    source.names = Names(_unique(of.get("name", of["id"]), of["id"]), cells, coords)
    types = of.get("type", np.full(len(of["id"]), GENES, dtype=object))
    counts = pd.Series(types).value_counts()
    if options.variable is not None:
        if options.variable not in counts:
            raise InputError(
                f"{path} has no features of type {options.variable!r}; it has "
                f"{abbreviate(map(repr, counts.index))}. Pass one of them as variable=, or leave "
                "it out."
            )
        return SubsetSource(source, np.flatnonzero(types == options.variable))
    if len(counts) > 1:
        type_counts = abbreviate(f"{n:,} of {kind!r}" for kind, n in counts.items())
        source.hint = (
            f"X has features of several types, {type_counts}, which are ranked together. Pass "
            f"variable={counts.index[0]!r} to take those of one type."
        )
    return source


def _unique(names: Array, ids: Array) -> Array:
    """Names, followed by the id where a name is there more than once.

    >>> _unique(np.array(["A", "B", "A"], object), np.array(["1", "2", "3"], object)).tolist()
    ['A_1', 'B', 'A_3']
    """
    twice = pd.Series(names).duplicated(keep=False).to_numpy()
    return np.where(twice, names + "_" + ids, names)


# Folders -----------------------------------------------------------------------------------------


def is_folder_of_counts(path: Path) -> bool:
    """Whether a folder holds counts of Cell Ranger as text."""
    return any((path / name).is_file() for name in MATRIX)


def open_counts_folder(path: str, options: OpenOptions) -> AbstractSource:
    """Open counts of a folder of Cell Ranger, (features, cells), in memory.

    Raises
    ------
    InputError
        A file is missing, or is no such file.
    DataError
        Files have other sizes than the matrix.
    MemoryBudgetError
        There is no room for it.
    """
    folder = Path(path)
    matrix = _file(folder, MATRIX)
    try:
        n_features, n_cells, n, *_ = mminfo(matrix)
        options.feature_axis((n_features, n_cells), ("features", "cells"), path)
        remedy = "convert it where there is more: dhsic convert FOLDER OUT.zarr"
        check_room(n * BYTES_OF_ENTRY, f"{matrix}, read whole,", remedy)
        counts = mmread(matrix, spmatrix=False)
    except (ValueError, OSError, EOFError) as error:
        raise InputError(
            f"{matrix} does not read as Matrix Market ({error}). Copy it again."
        ) from error
    features = _lines(_file(folder, FEATURES))
    cells = _lines(_file(folder, BARCODES))
    names = ("id", "name", "type")[: features.shape[1]]
    of = {key: features[:, i] for i, key in enumerate(names)}
    _check_sizes(path, (n_features, n_cells), of["id"], cells[:, 0])
    if not hasattr(counts, "tocsc"):
        raise InputError(
            f"{matrix} is dense, and counts are sparse. Pass scipy.io.mmread({str(matrix)!r}).T."
        )
    source = SparseSource(by_columns(counts.T, path), missing_code=options.code_of())
    return _with_names(source, path, of, cells[:, 0], options)


def _file(folder: Path, names: Sequence[str]) -> Path:
    table_path = next((folder / name for name in names if (folder / name).is_file()), None)
    if table_path is None:
        raise InputError(
            f"{folder} has counts of Cell Ranger, and no {' or '.join(names[::2])} (packed or "
            "not). Copy the whole folder."
        )
    return table_path


def _lines(path: Path) -> Array:
    """Fields of a table without a header, text."""
    try:
        table = pd.read_csv(path, sep="\t", header=None, dtype=str, keep_default_na=False)
    except (ValueError, OSError, EOFError) as error:
        raise InputError(f"{path} does not read as a table ({error}). Copy it again.") from error
    return np.asarray(table.to_numpy(dtype=object))

"""AnnData outside Zarr: AnnData objects, in memory or backed, and HDF5 files (.h5ad).

The package anndata is not imported. An object is read through its attributes, and a file with h5py.
The encodings of all versions of anndata since 0.5 are supported. Early versions wrote a dataframe
as one array of records, and its categories to `uns`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd

from dhsic._typing import Array, Index
from dhsic.errors import DataError, InputError
from dhsic.sources import GRAIN, AbstractSource, AbstractStored, Names
from dhsic.sources.anndata import (
    AXES,
    ENTRIES,
    FRAMES,
    GLANCED,
    MOST_READ,
    PARTS,
    SPARSE,
    AbstractAnnData,
    Glance,
    axes_of,
)
from dhsic.sources.arrays import open_in_memory
from dhsic.sources.blocks import (
    Block,
    check_dtype,
    check_finite,
    check_shape,
    regular_edges,
    row_span,
    take_rows,
)
from dhsic.sources.frames import GROUPS, AbstractFrame, filled, frame_source, named_by
from dhsic.sources.ids import abbreviate
from dhsic.sources.options import MissingChunks, OpenOptions, text
from dhsic.sources.sparse import CSC, CSR, SparseSource, is_sparse, loaded, open_sparse, turned
from dhsic.sources.stored_sparse import AbstractParts, StoredSparse, stays_stored
from dhsic.sources.stores import file_bytes

#: Suffix of AnnData files.
H5AD = ".h5ad"
#: Pattern of the path of a modality in a MuData file: ``x.h5mu/mod/rna``.
MODALITY = re.compile(r"(.+\.h5mu)/(mod/[^/]+)", re.IGNORECASE)
#: Names of the attributes with the format and the shape of a sparse matrix; the second name is from
#: before version 0.7.
FORMATS, SHAPES = ("encoding-type", "h5sparse_format"), ("shape", "h5sparse_shape")
#: Names of elements of a file before version 0.7, by current name.
EARLY = {"raw/X": "raw.X", "raw/var": "raw.var"}


class PandasFrame(AbstractFrame):
    """Dataframe (obs, var or one in obsm) of an AnnData object in memory."""

    def __init__(self, frame: pd.DataFrame, place: str) -> None:
        self.frame, self.place, self.n = frame, place, len(frame)
        self.columns = tuple(map(str, frame.columns))

    def names(self) -> Array:
        return text(self.frame.index.to_numpy(dtype=object))

    def column(self, name: str, missing_chunks: MissingChunks = "error") -> Array:
        values = self.frame[name]
        missing = values.isna().to_numpy()
        if isinstance(values.dtype, pd.CategoricalDtype):
            labels = values.astype(object).where(~missing, "").astype(str)
            return np.asarray(labels.to_numpy(dtype=object), dtype=str)
        if values.dtype.kind == "O" or isinstance(values.dtype, pd.StringDtype):
            return np.where(missing, "", values.to_numpy(dtype=object))
        if missing.any():
            return cast("Array", values.to_numpy(dtype=np.float64, na_value=np.nan))
        return np.asarray(values.to_numpy())

    def levels(self, name: str) -> list[str]:
        kind = self.frame[name].dtype
        is_ordered = isinstance(kind, pd.CategoricalDtype) and kind.ordered
        return [*map(str, kind.categories)] if is_ordered else []


@dataclass(frozen=True, slots=True)
class AnnDataObject(AbstractAnnData):
    """Matrices and dataframes of an object of the package anndata."""

    adata: Any

    def __post_init__(self) -> None:
        if not hasattr(self.adata, "obs"):
            raise InputError(
                "This is adata.raw, which does not contain the annotations of the samples. Pass "
                "adata and variable='raw/X' (layer='raw/X' in select_genes)."
            )

    def frame(self, name: str) -> PandasFrame:
        if "/" in name and name != "raw/var":
            return PandasFrame(self.matrix(name), f"adata.{name}")
        of, last = (self.adata.raw, "var") if name == "raw/var" else (self.adata, name)
        return PandasFrame(getattr(of, last), f"adata.{name}")

    def is_frame(self, name: str) -> bool:
        return isinstance(self.matrix(name), pd.DataFrame)

    def matrix(self, name: str) -> Any:
        """Return a matrix by its full name, such as X, raw/X or layers/counts."""
        folder, _, key = name.partition("/")
        if name == "X" or (name == "raw/X" and self.adata.raw is not None):
            return (self.adata if name == "X" else self.adata.raw).X
        container = getattr(self.adata, folder, None) if folder in AXES else None
        if container is not None and key in container:
            return container[key]
        raise InputError(
            f"The {type(self.adata).__name__} object has no matrix {name!r}; its matrices are "
            f"{', '.join(self.matrices())}. Pass one of them as variable=."
        )

    def matrices(self) -> dict[str, None]:
        raw = [] if self.adata.raw is None else ["raw/X"]
        folders = ("layers", "obsm")
        inside = [f"{folder}/{name}" for folder in folders for name in getattr(self.adata, folder)]
        return dict.fromkeys(["X", *raw, *inside])

    def _look(self, name: str) -> Glance | None:
        if self.adata.isbacked and name in ("X", "raw/X"):
            return H5Store(str(Path(self.adata.filename).absolute())).glance(name)
        few = self.adata[:GLANCED] if self.adata.is_view else self.adata  # avoids a copy of X
        matrix = AnnDataObject(few).matrix(name)
        if is_sparse(matrix):
            return Glance.of(matrix.data[:ENTRIES], matrix.data.size / prod(matrix.shape))
        in_memory = isinstance(matrix, np.ndarray)
        return Glance.of(matrix[:GLANCED, :GLANCED]) if in_memory else None


def is_anndata(X: Any) -> bool:
    """Whether X is an AnnData object."""
    return type(X).__module__.partition(".")[0] == "anndata" and hasattr(X, "obs_names")


def open_object(adata: Any, options: OpenOptions) -> AbstractSource:
    """Open X or another matrix of an AnnData object, in memory or backed; samples come first.

    Raises
    ------
    InputError
        There is no such matrix, or the object is a view of a backed object.
    """
    held = AnnDataObject(adata)
    name = held.full_name(options.variable)
    matrix, dims = held.matrix(name), axes_of(name)
    axis = options.feature_axis(matrix.shape, dims if any(dims) else None, name)
    if adata.isbacked and name in ("X", "raw/X"):
        if adata.is_view:
            raise InputError(
                f"This object is a view of part of {adata.filename}, and its X would be read in "
                "many small pieces. Pass adata.to_memory()."
            )
        source = _opened(H5Store(str(Path(adata.filename).absolute())), options)
    else:
        plain = OpenOptions(sample_dim=1 - axis, missing_code=options.missing_code)
        is_numpy = isinstance(matrix, np.ndarray)
        opened = open_sparse if is_sparse(matrix) else open_in_memory
        source = opened(np.asarray(matrix) if is_numpy else matrix, plain)
    features, samples = (held.frame_along(name, dims[at]) for at in (axis, 1 - axis))
    source.names = Names(
        source.feature_names() if features is None else features.names(),
        None if samples is None else samples.names(),
    )
    source.hint = held.hint(options.variable)
    return source


# Files -------------------------------------------------------------------------------------------


@contextmanager
def opened_h5(path: str) -> Iterator[Any]:
    """Open an HDF5 file, or a modality of a MuData file (`MODALITY`), for one read.

    Files do not stay open between reads, so that sources can be sent to workers.
    """
    modality = MODALITY.fullmatch(path)
    path, group = (path, "/") if modality is None else (modality[1], modality[2])
    try:
        import h5py
    except ImportError as error:
        raise InputError(
            f"{path} needs the package h5py, which is not installed. Install dhsic[anndata] here "
            "and on all workers, or write the data as Zarr: "
            "anndata.read_h5ad(path).write_zarr(...)."
        ) from error
    if file_bytes(Path(path)) is None:
        raise InputError(f"The file {path} does not exist. Check the path.")
    try:
        with h5py.File(path, "r") as file:
            yield file[group]
    except (OSError, RuntimeError, KeyError) as error:
        raise DataError(
            f"{path} cannot be read as HDF5 ({str(error).splitlines()[0]}). It is damaged or "
            "incomplete, or a program is still writing it. Restore it, or copy it again."
        ) from error


def _is_group(node: Any) -> bool:
    return not hasattr(node, "dtype")


def values_at(dataset: Any, at: Any = ...) -> Array:
    """Read values of an HDF5 dataset, all by default; text is converted to str."""
    values = dataset.asstr()[at] if dataset.dtype.kind == "O" else dataset[at]
    return np.asarray(values)


def _attribute(node: Any, names: tuple[str, ...]) -> Any:
    value = next((node.attrs[name] for name in names if name in node.attrs), None)
    return value.decode() if isinstance(value, bytes) else value


@dataclass(frozen=True, slots=True)
class H5Frame(AbstractFrame):
    """Dataframe in an HDF5 file: a group of columns or, in early versions, an array of records."""

    path: str
    name: str
    place: str
    columns: tuple[str, ...]
    index: str
    n: int

    @classmethod
    def of(cls, path: str, name: str) -> H5Frame:
        """Return the dataframe `name` of a file; DataError if there is none."""
        with opened_h5(path) as file:
            node, place = file.get(name, file.get(EARLY.get(name, name))), f"{path}/{name}"
            if node is None:
                raise DataError(
                    f"{place} is absent, so the sample or feature names are unknown. Write the "
                    "file again with anndata, or restore it."
                )
            if _is_group(node):
                index = _attribute(node, ("_index",)) or "_index"
                order = node.attrs.get("column-order", ())
                columns = tuple(map(str, order))
            else:
                index, *other_fields = node.dtype.names
                columns = tuple(other_fields)
            frame = cls(path, node.name, place, columns, index, 0)
            return cls(path, node.name, place, columns, index, len(frame._in(file, index)))

    def names(self) -> Array:
        return text(self._read(self.index))

    def column(self, name: str, missing_chunks: MissingChunks = "error") -> Array:
        return self._read(name)

    def levels(self, name: str) -> list[str]:
        with opened_h5(self.path) as file:
            node = file[self.name]
            element = node.get(name) if _is_group(node) else node
            if element is None or not _is_group(element) or not element.attrs.get("ordered"):
                return []
            return [*map(str, text(values_at(element["categories"])))]

    def _read(self, name: str) -> Array:
        with opened_h5(self.path) as file:
            return self._in(file, name)

    def _in(self, file: Any, name: str) -> Array:
        node = file[self.name]
        if not _is_group(node):
            return self._of_records(file, node, name)
        where, element = f"{self.place}/{name}", node.get(name)
        if element is None:
            raise DataError(
                f"{where} is absent, although {self.place} lists it. Write the file again, or "
                "restore it."
            )
        if not _is_group(element):
            values = values_at(element)
            categories = element.attrs.get("categories")  # the format of AnnData 0.7
            return values if categories is None else named_by(
                values, values_at(file[categories]), where
            )  # fmt: skip
        encoding = _attribute(element, ("encoding-type",))
        if encoding not in GROUPS:
            raise DataError(
                f"{where} has the encoding {encoding!r}, which dhsic cannot read as one value per "
                "row. Write it as text or numbers, for example with .astype(str)."
            )
        if encoding == "categorical":
            return named_by(values_at(element["codes"]), values_at(element["categories"]), where)
        values, mask = values_at(element["values"]), values_at(element["mask"]).astype(bool)
        return filled(values, mask, encoding)

    def _of_records(self, file: Any, records: Any, name: str) -> Array:
        values = np.asarray(records[name])
        categories = file.get(f"uns/{name}_categories")
        if categories is not None and values.dtype.kind in "iu":
            return named_by(values, values_at(categories), f"{self.place}/{name}")
        return text(values) if values.dtype.kind == "S" else values


@dataclass(frozen=True, slots=True)
class H5Store(AbstractAnnData):
    """AnnData in an HDF5 file."""

    path: str

    def frame(self, name: str) -> H5Frame:
        return H5Frame.of(self.path, name)

    def is_frame(self, name: str) -> bool:
        with opened_h5(self.path) as file:
            return _is_frame(_node(file, name))

    def matrices(self) -> dict[str, str]:
        """Return short descriptions of all matrices by name: X, raw/X, layers, and obsm."""
        with opened_h5(self.path) as file:
            names = ["X", "raw/X"]
            for folder in ("layers", "obsm"):
                if folder in file and _is_group(file[folder]):
                    names += [f"{folder}/{name}" for name in file[folder]]
            found = {name: _node(file, name) for name in names}
            return {name: _describe_node(node) for name, node in found.items() if node is not None}

    def _look(self, name: str) -> Glance | None:
        with opened_h5(self.path) as file:
            node = _node(file, name)
            stored = node["data"] if _is_group(node) else node
            if prod(stored.chunks or ()) * stored.dtype.itemsize > MOST_READ:
                return None
            if not _is_group(node):
                return Glance.of(node[:GLANCED, :GLANCED])
            return Glance.of(stored[:ENTRIES], stored.size / prod(_attribute(node, SHAPES)))


def _node(file: Any, name: str) -> Any:
    """Return a matrix of a file (dense, sparse, or a dataframe in obsm); None if it is absent."""
    node = None if name in FRAMES else file.get(name, file.get(EARLY.get(name, name)))
    if node is None or (not _is_group(node) and len(node.shape) == 2 and node.dtype.names is None):
        return node
    is_matrix = _is_group(node) and _attribute(node, FORMATS) in (*SPARSE, CSC, CSR, "dataframe")
    return node if is_matrix else None


def _is_frame(node: Any) -> bool:
    return _is_group(node) and _attribute(node, FORMATS) == "dataframe"


def _describe_node(node: Any) -> str:
    if _is_frame(node):
        columns = node.attrs.get("column-order", ())
        return f"dataframe with columns {abbreviate(map(str, columns), 3)}"
    if _is_group(node):
        return f"sparse ({_attribute(node, FORMATS)})"
    return f"{' x '.join(f'{n:,}' for n in node.shape)}, {node.dtype}"


def open_h5ad(path: str, options: OpenOptions) -> AbstractSource:
    """Open X of an .h5ad file, or another matrix; in the AnnData format, samples come first.

    Raises
    ------
    InputError
        The file does not exist, or has no such matrix.
    DataError
        The file is damaged, or a dataframe does not have the same number of rows as the matrix.
    MemoryBudgetError
        The matrix is sparse and does not fit into memory.
    """
    return _opened(H5Store(str(Path(path).absolute())), options)


def _opened(store: H5Store, options: OpenOptions) -> AbstractSource:
    path, name = store.path, store.full_name(options.variable)
    dims = axes_of(name)
    with opened_h5(path) as file:
        node = _node(file, name)
        if node is None:
            raise InputError(
                f"{path} has no matrix {name!r}; its matrices are "
                f"{', '.join(store.matrices()) or 'none'}. Pass one of them as variable=."
            )
        if _is_frame(node):
            return frame_source(store.frame(name), options)
        shape = tuple(map(int, _attribute(node, SHAPES) if _is_group(node) else node.shape))
        axis = options.feature_axis(shape, dims if any(dims) else None, f"{path}/{name}")
        code = options.code_of()
        source: AbstractSource
        if _is_group(node):
            kind = str(_attribute(node, FORMATS)).removesuffix("_matrix")
            source = open_stored_sparse(path, node, kind, shape, axis, code)
        else:
            source = H5Source(path, node, axis, code)
    frames = [store.frame_along(name, of) for of in dims]
    for at, frame in enumerate(frames):
        if frame is not None and frame.n != shape[at]:
            raise DataError(
                f"{dims[at]} of {path} has {frame.n} rows, but {name} of shape {shape} has "
                f"{shape[at]} along that axis. The file was written only in part. Write it again."
            )
    names = [None if frame is None else frame.names for frame in frames]
    source.names = Names(names[axis], names[1 - axis])
    source.hint = store.hint(options.variable)
    return source


@dataclass(frozen=True)
class H5Parts(AbstractParts):
    """Arrays of a sparse matrix in the group `name` of an HDF5 file."""

    path: str
    name: str

    @property
    def where(self) -> str:  # type: ignore[override]
        return f"{self.path}{self.name}"

    def read(self, name: str, at: slice = slice(None)) -> Array:
        with opened_h5(self.path) as file:
            return values_at(file[self.name][name], at)


def open_stored_sparse(
    path: str, node: Any, kind: str, shape: tuple[int, ...], axis: int, code: int | None
) -> AbstractSource:
    """Open a sparse matrix of an HDF5 file.

    A small matrix is read into memory, and a large one by blocks. The matrix is in the group `node`
    in the format `kind` (CSR or CSC), and its features are along `axis`.
    """
    stored = [node[name] for name in PARTS]
    chunks = [prod(part.chunks) * part.dtype.itemsize if part.chunks else 0 for part in stored]
    sizes = zip((part.nbytes for part in stored), chunks, strict=True)
    if kind in (CSC, CSR) and stays_stored(sizes):
        turned_shape = (shape[1 - axis], shape[axis])
        by_features = (kind == CSC) == (axis == 1)
        parts, dtype = H5Parts(path, node.name), node["data"].dtype
        return StoredSparse(parts, turned_shape, dtype, by_features=by_features, missing_code=code)
    return SparseSource(turned(_sparse(node, kind, shape, path), axis), missing_code=code)


def _sparse(node: Any, kind: str, shape: tuple[int, ...], path: str) -> Any:
    """Read a sparse matrix of an HDF5 file into memory, in CSC format."""
    parts = tuple((node[name].nbytes, partial(values_at, node[name])) for name in PARTS)
    return loaded(parts, shape, kind, path)


class H5Source(AbstractStored):
    """A dense matrix of an HDF5 file, read in whole chunks along its features."""

    def __init__(self, path: str, dataset: Any, feature_axis: int, code: int | None) -> None:
        self.path, self.name, self.feature_axis = path, dataset.name, feature_axis
        check_shape(dataset.shape, path)
        check_dtype(dataset.dtype, path)
        self.n_features, self.n_samples = (
            int(dataset.shape[k]) for k in (feature_axis, 1 - feature_axis)
        )
        self.dtype, self.missing_code = dataset.dtype, code
        chunks = dataset.chunks
        self._chunk = int(chunks[feature_axis]) if chunks else GRAIN
        self.chunk_bytes = int(np.prod(chunks)) * self.dtype.itemsize if chunks else 0

    @property
    def edges(self) -> Index:
        return regular_edges(self.n_features, self._chunk)

    @property
    def layout(self) -> Any:
        return "h5", self.name

    def read(self, block: Block, rows: Index | None = None) -> Array:
        span, features = row_span(rows, self.n_samples), slice(block.start, block.stop)
        with opened_h5(self.path) as file:
            at = (features, span) if self.feature_axis == 0 else (span, features)
            values = values_at(file[self.name], at)
        values = take_rows(np.moveaxis(values, self.feature_axis, 0), rows, span)
        values = np.ascontiguousarray(values)
        check_finite(values, block, rows, None, self.missing_code)
        return values.T

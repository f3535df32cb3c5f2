"""AnnData in Zarr: the matrices of a store, and the dataframes of their axes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import numpy as np
import zarr
from zarr.storage import StorePath

from dhsic._typing import Array
from dhsic.errors import DataError, InputError
from dhsic.sources import AbstractSource, Names
from dhsic.sources.blocks import check_shape
from dhsic.sources.chunked import Node, child, chunked_of, group_at, place_of
from dhsic.sources.frames import AbstractFrame, Frame, frame_source, part_of, whole_array
from dhsic.sources.options import MissingChunks, OpenOptions
from dhsic.sources.sparse import CSC, SparseSource, loaded, turned
from dhsic.sources.stored_sparse import AbstractParts, StoredSparse, stays_stored
from dhsic.sources.stores import metadata_of
from dhsic.sources.zarr import ZarrSource

#: Prefix of coordinate matrices, with one row per sample.
OBSM = "obsm/"
#: Limits of `Glance`: samples and features of a dense matrix, entries of a sparse one, and bytes of
#: a chunk.
GLANCED, ENTRIES, MOST_READ = 128, 1 << 14, 64 << 20


@dataclass(frozen=True, slots=True)
class Glance:
    """Range and fraction of zeros of a matrix, estimated from a sample of its values."""

    low: float
    high: float
    zeros: float

    @classmethod
    def of(cls, values: Any, n_stored: float = 1.0) -> Glance | None:
        """Summarise values; None if none is finite.

        `n_stored` is the fraction of entries that a sparse matrix stores.
        """
        finite = np.asarray(values, dtype=np.float64)
        finite = finite[np.isfinite(finite)]
        if not finite.size:
            return None
        low, high = (float(end) for end in (finite.min(), finite.max()))
        is_sparse = n_stored < 1
        zeros = 1 - n_stored * (1 - float((finite == 0).mean()))
        return cls(min(low, 0.0), max(high, 0.0), zeros) if is_sparse else cls(low, high, zeros)

    def __str__(self) -> str:
        return (
            f"from {self.low:.3g} to {self.high:.3g}, {self.zeros:.0%} zeros (in a sample of "
            "values)"
        )


class AbstractAnnData(ABC):
    """Reader of AnnData: matrices, and dataframes of samples (obs) and features (var)."""

    @abstractmethod
    def frame(self, name: str) -> AbstractFrame:
        """Return a dataframe by name: obs, var, raw/var, or a dataframe in obsm."""

    @abstractmethod
    def matrices(self) -> Mapping[str, Any]:
        """Return all matrices by name: X, raw/X, layers, and matrices in obsm."""

    @abstractmethod
    def is_frame(self, name: str) -> bool:
        """Whether a matrix is a dataframe, whose columns may contain text."""

    @abstractmethod
    def _look(self, name: str) -> Glance | None:
        """Summarise a sample of the values of a matrix; None if reading it takes too long."""

    def glance(self, name: str) -> Glance | None:
        """Summarise a sample of the values of a matrix; None if unreadable, or slow to read."""
        with suppress(Exception):  # damage raises an error when the matrix is read
            return self._look(name)
        return None

    def full_name(self, variable: str | None) -> str:
        """Return the full name of a matrix, with its folder: ``layers/counts`` for ``counts``.

        The default is X.
        """
        name = variable or "X"
        if name == "X" or "/" in name:
            return name
        matrices = self.matrices()
        same = [one for one in matrices if name in (one.partition("/")[2], one.removesuffix("/X"))]
        return same[0] if len(same) == 1 else name

    def coordinates(self) -> tuple[str, ...]:
        """Return the names of the matrices in obsm, such as spatial coordinates and embeddings."""
        return tuple(name for name in self.matrices() if name.startswith(OBSM))

    def coordinates_named(self, name: str) -> str | None:
        """Return the full name of a matrix in obsm; None if absent."""
        known = self.coordinates()
        return next((one for one in (name, OBSM + name) if one in known), None)

    def hint(self, said: str | None, called: str = "variable") -> str:
        """Return advice to use an unscaled matrix if X is the default and looks scaled; else "".

        `said` is the matrix that the caller chose (None for the default), and `called` the name of
        the parameter that chooses it.
        """
        of_X = self.glance("X") if said is None else None
        if of_X is None or of_X.low >= 0:
            return ""
        for name in self.matrices():
            glance = self.glance(name) if name == "raw/X" or name.startswith("layers/") else None
            if glance is not None and glance.low >= 0 < glance.high:
                return (
                    f"X has values below 0, so it looks scaled; {name} has none. To use {name}, "
                    f"pass {called}={name!r}; to use X, pass {called}='X'."
                )
        return ""

    @property
    def obs(self) -> AbstractFrame:
        """Dataframe of the samples."""
        return self.frame("obs")

    @property
    def var(self) -> AbstractFrame:
        """Dataframe of the features of X and of the layers."""
        return self.frame("var")

    def frame_along(self, name: str, axis: str | None) -> AbstractFrame | None:
        """Return the dataframe of an axis (obs or var) of the matrix `name`; None for no axis."""
        if axis is None:
            return None
        return self.frame("raw/var" if (name, axis) == ("raw/X", "var") else axis)


#: Dataframes of the two axes of a matrix; None for an axis without names.
Axes = tuple[str | None, str | None]
#: Axes of X, of raw/X (all features), and of the matrices in each folder.
AXES: Mapping[str, Axes] = {
    "X": ("obs", "var"),
    "raw/X": ("obs", "var"),
    "layers": ("obs", "var"),
    "obsm": ("obs", None),
    "varm": ("var", None),
}
FOLDERS = ("layers", "obsm", "varm")
#: Dataframes of the samples and the features; they are not matrices.
FRAMES = ("obs", "var")
SPARSE, PARTS = ("csr_matrix", "csc_matrix"), ("data", "indices", "indptr")


@dataclass(frozen=True, slots=True, eq=False)
class AnnDataStore(AbstractAnnData):
    """AnnData in a Zarr group: X and layers, and a dataframe for each axis."""

    group: zarr.Group

    @classmethod
    def of(cls, group: zarr.Group) -> AnnDataStore | None:
        """Return the group as AnnData; None if it has another format."""
        encoding = group.attrs.get("encoding-type")
        if encoding is None:  # AnnData before 0.8 did not declare its format
            is_one = all(_is_frame(child(group, name)) for name in ("obs", "var"))
        else:
            is_one = encoding == "anndata"
        return cls(group) if is_one else None

    @classmethod
    def containing(cls, array: zarr.Array[Any]) -> tuple[AnnDataStore, str] | None:
        """Return the AnnData store that contains an array, and the array's name; else None."""
        parts = array.path.split("/")
        for n in (1, 2):
            name = "/".join(parts[-n:])
            if len(parts) < n or axes_of(name) == (None, None):
                continue
            place = StorePath(array.store, "/".join(parts[:-n]))
            with suppress(FileNotFoundError):
                store = cls.of(group_at(place))
                if store is not None:
                    return store, name
        return None

    def frame(self, name: str) -> Frame:
        return Frame.of(self.group, name)

    def is_frame(self, name: str) -> bool:
        return _is_frame(child(self.group, name))

    def matrix(self, variable: str | None) -> Node:
        """Return a matrix (X by default): an array if it is dense, a group if it is sparse.

        Raises
        ------
        InputError
            There is no matrix of this name; the message lists the matrices.
        """
        name = variable or "X"
        node = child(self.group, name)
        if node is not None and _holds(node) and name not in FRAMES:
            return node
        raise InputError(f"AnnData store {self.group.store_path}: {self._problem(name, node)}")

    def _problem(self, name: str, node: Node | None) -> str:
        matrices = list(self.matrices())
        alternatives = (
            f"Its matrices are {', '.join(matrices)}." if matrices else "The store has no matrices."
        )
        of_features = [other for other in matrices if axes_of(other)[1] == "var"]
        choose = f"Choose variable={of_features[0]!r}." if of_features else "Write one."
        kind = "absent" if node is None else str(node.attrs.get("encoding-type", "no matrix"))
        what = f"has shape {node.shape}" if isinstance(node, zarr.Array) else f"is {kind}"
        return f"{name} {what}, but a matrix with two axes is needed. {alternatives} {choose}"

    def _look(self, name: str) -> Glance | None:
        node = self.matrix(name)
        stored = node if isinstance(node, zarr.Array) else part_of(node, "data")
        if prod(stored.chunks) * stored.dtype.itemsize > MOST_READ:
            return None
        if isinstance(node, zarr.Array):
            return Glance.of(node[:GLANCED, :GLANCED])
        shape: Any = node.attrs["shape"]
        return Glance.of(stored[:ENTRIES], stored.size / prod(shape))

    def matrices(self) -> dict[str, Node]:
        """Return dense and sparse matrices by name: X, raw/X, layers, and matrices in obsm."""
        nodes = {name: child(self.group, name) for name in ("X", "raw/X")}
        for folder in ("layers", "obsm"):
            group = child(self.group, folder)
            if isinstance(group, zarr.Group):
                with metadata_of(group.store_path):
                    members = dict(group.members())
                nodes |= {f"{folder}/{name}": members[name] for name in sorted(members)}
        return {name: node for name, node in nodes.items() if node is not None and _holds(node)}


def axes_of(name: str) -> Axes:
    """Return the dataframes of both axes of a matrix (obs, var or None each), given its name."""
    folder, slash, _ = name.partition("/")  # the name in a folder may contain a slash
    of_folder = AXES.get(folder) if slash and folder in FOLDERS else None
    return AXES.get(name) or of_folder or (None, None)


def _is_frame(node: Node | None) -> bool:
    if isinstance(node, zarr.Array):
        return node.dtype.kind == "V"
    return node is not None and node.attrs.get("encoding-type") == "dataframe"


def _holds(node: Node) -> bool:
    if isinstance(node, zarr.Array):
        return node.ndim == 2
    return node.attrs.get("encoding-type") in (*SPARSE, "dataframe")


@dataclass(frozen=True)
class ZarrParts(AbstractParts):
    """Arrays of a sparse matrix (data, indices, indptr) in the Zarr group at `place`."""

    where: str
    place: StorePath
    missing_chunks: MissingChunks

    def read(self, name: str, at: slice = slice(None)) -> Array:
        return whole_array(part_of(group_at(self.place), name), self.missing_chunks, at)


def open_anndata(store: AnnDataStore, options: OpenOptions) -> AbstractSource:
    """Open X (n_obs, n_var) or another matrix of an AnnData store.

    A small sparse matrix is read into memory in CSC format.

    Raises
    ------
    DataError
        A dataframe cannot be read, or its number of rows differs from the length of its axis.
    MemoryBudgetError
        The matrix is sparse and does not fit into memory.
    """
    name = store.full_name(options.variable)
    node, dims = store.matrix(name), axes_of(name)
    if _is_frame(node):
        return frame_source(store.frame(name), options)
    where = str(node.store_path)
    shape: Any = node.shape if isinstance(node, zarr.Array) else node.attrs["shape"]
    shape = tuple(map(int, shape))
    axis = options.feature_axis(shape, dims if any(dims) else None, where)

    def names_along(at: int) -> Callable[[], Array] | None:
        frame = store.frame_along(name, dims[at])
        if frame is not None and frame.n != shape[at]:
            raise DataError(
                f"{frame.place} has {frame.n} rows, but {name} of shape {shape} has {shape[at]} "
                "along that axis. The store was written only in part, or by two programs at the "
                "same time. Write it again."
            )
        return None if frame is None else frame.names

    names = Names(names_along(axis), names_along(1 - axis))
    if isinstance(node, zarr.Array):
        chunked, code = chunked_of(node, axis, options)
        check_shape(chunked.shape, chunked.label)
        source = ZarrSource(chunked, names, missing_code=code)
        source.hint = store.hint(options.variable)
        return source
    code, stored = options.code_of(), [part_of(node, part) for part in PARTS]
    kind = str(node.attrs["encoding-type"]).removesuffix("_matrix")
    chunks = (prod(part.shards or part.chunks) * part.dtype.itemsize for part in stored)
    if stays_stored(zip((part.nbytes for part in stored), chunks, strict=True)):
        parts = ZarrParts(where, place_of(node), options.missing_chunks)
        of_samples_first = (shape[1 - axis], shape[axis])
        by_features, dtype = (kind == CSC) == (axis == 1), stored[0].dtype
        return StoredSparse(
            parts, of_samples_first, dtype, by_features=by_features, missing_code=code, names=names
        )
    read = tuple(
        (part.nbytes, partial(whole_array, part, options.missing_chunks)) for part in stored
    )
    matrix = loaded(read, shape, kind, where)
    return SparseSource(turned(matrix, axis), missing_code=code, names=names)

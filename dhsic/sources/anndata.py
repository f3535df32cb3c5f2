"""AnnData on Zarr: where its matrices lie, and the axes of each."""

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

#: Folder of coordinates, a row for each sample.
OBSM = "obsm/"
#: Samples and features of a matrix that are looked at, entries of a sparse one, and the bytes of a
#: chunk up to which one is read for it.
GLANCED, ENTRIES, MOST_READ = 128, 1 << 14, 64 << 20


@dataclass(frozen=True, slots=True)
class Glance:
    """What some values of a matrix are: the lowest, the highest, and the part of zeros."""

    low: float
    high: float
    zeros: float

    @classmethod
    def of(cls, values: Any, n_stored: float = 1.0) -> Glance | None:
        """Of some values that are there; of a sparse matrix those are a part of all, the rest 0."""
        known = np.asarray(values, dtype=np.float64)
        known = known[np.isfinite(known)]
        if not known.size:
            return None
        low, high = (float(end) for end in (known.min(), known.max()))
        is_sparse = n_stored < 1
        zeros = 1 - n_stored * (1 - float((known == 0).mean()))
        return cls(min(low, 0.0), max(high, 0.0), zeros) if is_sparse else cls(low, high, zeros)

    def __str__(self) -> str:
        return f"from {self.low:.3g} to {self.high:.3g}, {self.zeros:.0%} zeros (of some values)"


class AbstractAnnData(ABC):
    """AnnData: its matrices, and a dataframe for what there is about samples, and features."""

    @abstractmethod
    def frame(self, name: str) -> AbstractFrame:
        """The dataframe obs, var or raw/var."""

    @abstractmethod
    def matrices(self) -> Mapping[str, Any]:
        """X, layers, X of raw and what is in obsm, by name."""

    @abstractmethod
    def _look(self, name: str) -> Glance | None:
        """Look at some values of a matrix; None where that takes too long."""

    def glance(self, name: str) -> Glance | None:
        """What some values of a matrix are; None where they are not read quickly, or not at all."""
        with suppress(Exception):  # damage is told where it is read
            return self._look(name)
        return None

    def named(self, variable: str | None) -> str:
        """Name of a matrix, X by default: raw is raw/X, and what one folder has needs no folder."""
        name = variable or "X"
        if name == "X" or "/" in name:
            return name
        known = self.matrices()
        same = [one for one in known if name in (one.partition("/")[2], one.removesuffix("/X"))]
        return same[0] if len(same) == 1 else name

    def coordinates(self) -> tuple[str, ...]:
        """Names of the matrices in obsm: coordinates in space, of an embedding, and the like."""
        return tuple(name for name in self.matrices() if name.startswith(OBSM))

    def coordinates_named(self, name: str) -> str | None:
        """Full name of a matrix in obsm, given with its folder or without; None if absent."""
        known = self.coordinates()
        return next((one for one in (name, OBSM + name) if one in known), None)

    def hint(self, said: str | None, called: str = "variable") -> str:
        """A sentence where X is taken without being asked for, and another matrix is not scaled.

        `called` is the parameter that would choose it.
        """
        of_X = self.glance("X") if said is None else None
        if of_X is None or of_X.low >= 0:
            return ""
        for name in self.matrices():
            seen = self.glance(name) if name == "raw/X" or name.startswith("layers/") else None
            if seen is not None and seen.low >= 0 < seen.high:
                return (
                    f"X has values below 0, so it looks scaled, and {name} has none. Pass "
                    f"{called}={name!r} to take that, or {called}='X' if X is meant."
                )
        return ""

    @property
    def obs(self) -> AbstractFrame:
        """What there is about the samples."""
        return self.frame("obs")

    @property
    def var(self) -> AbstractFrame:
        """What there is about the features of X and of the layers."""
        return self.frame("var")

    def frame_along(self, name: str, axis: str | None) -> AbstractFrame | None:
        """What there is about the elements of an axis (obs, var, None) of a matrix."""
        if axis is None:
            return None
        return self.frame("raw/var" if (name, axis) == ("raw/X", "var") else axis)


#: What the two axes of a matrix are; None has no names.
Axes = tuple[str | None, str | None]
#: Axes of X, of that before features were left out, and of what lies in a folder.
AXES: Mapping[str, Axes] = {
    "X": ("obs", "var"),
    "raw/X": ("obs", "var"),
    "layers": ("obs", "var"),
    "obsm": ("obs", None),
    "varm": ("var", None),
}
FOLDERS = ("layers", "obsm", "varm")
#: Dataframes of the samples and the features, whose columns are labels and names, no matrix.
FRAMES = ("obs", "var")
SPARSE, PARTS = ("csr_matrix", "csc_matrix"), ("data", "indices", "indptr")


@dataclass(frozen=True, slots=True, eq=False)
class AnnDataStore(AbstractAnnData):
    """A group that holds AnnData: X and its layers (obs, var), and a dataframe for either axis."""

    group: zarr.Group

    @classmethod
    def of(cls, group: zarr.Group) -> AnnDataStore | None:
        """Return the group as AnnData; None where it is something else."""
        encoding = group.attrs.get("encoding-type")
        if encoding is None:  # AnnData before 0.8 did not say what it is
            is_one = all(_is_frame(child(group, name)) for name in ("obs", "var"))
        else:
            is_one = encoding == "anndata"
        return cls(group) if is_one else None

    @classmethod
    def around(cls, array: zarr.Array[Any]) -> tuple[AnnDataStore, str] | None:
        """Return the AnnData that an array is a matrix of, and which; None where it is none."""
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

    def matrix(self, variable: str | None) -> Node:
        """Return a matrix, X by default: an array, or the group of a sparse one.

        Raises
        ------
        InputError
            There is none of that name; the message lists those that would do.
        """
        name = variable or "X"
        node = child(self.group, name)
        if node is not None and _holds(node) and name not in FRAMES:
            return node
        raise InputError(f"{self.group.store_path} is AnnData {self._problem(name, node)}")

    def _problem(self, name: str, node: Node | None) -> str:
        held = list(self.matrices())
        known = f"there are {', '.join(held)}" if held else "nor is there any other"
        of_features = [other for other in held if axes_of(other)[1] == "var"]
        choose = f"Choose variable={of_features[0]!r}." if of_features else "Write one."
        kind = "absent" if node is None else str(node.attrs.get("encoding-type", "no matrix"))
        what = f"has shape {node.shape}" if isinstance(node, zarr.Array) else f"is {kind}"
        return f"whose {name} {what}, no matrix with two axes; {known}. {choose}"

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
        """X, layers, X of raw and what is in obsm, dense or sparse, by name."""
        found = {name: child(self.group, name) for name in ("X", "raw/X")}
        for folder in ("layers", "obsm"):
            group = child(self.group, folder)
            if isinstance(group, zarr.Group):
                with metadata_of(group.store_path):
                    members = dict(group.members())
                found |= {f"{folder}/{name}": members[name] for name in sorted(members)}
        return {name: node for name, node in found.items() if node is not None and _holds(node)}


def axes_of(name: str) -> Axes:
    """What the axes of a matrix are, by its name."""
    folder, slash, _ = name.partition("/")  # a name in a folder may hold a slash itself
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


def refuse_mudata(group: zarr.Group) -> None:
    """Refuse several AnnData in one group, of which one has to be chosen."""
    if group.attrs.get("encoding-type") != "MuData":
        return
    listed: Any = group.attrs.get("mod-order", [])
    names = [str(name) for name in listed] or ["..."]
    raise InputError(
        f"{group.store_path} is MuData, which holds several AnnData: {', '.join(names)}. Pass one "
        f"of them: the path of its folder, mod/{names[0]}, or the group "
        f"zarr.open_group(...)['mod/{names[0]}']."
    )


@dataclass(frozen=True)
class ZarrParts(AbstractParts):
    """Parts of a sparse matrix of a Zarr store, the group at `place`."""

    where: str
    place: StorePath
    missing_chunks: MissingChunks

    def read(self, name: str, at: slice = slice(None)) -> Array:
        return whole_array(part_of(group_at(self.place), name), self.missing_chunks, at)


def open_anndata(store: AnnDataStore, options: OpenOptions) -> AbstractSource:
    """Open X (n_obs, n_var) or another matrix: samples first by AnnData's format.

    A sparse one is read into memory, by columns, where it is small.

    Raises
    ------
    DataError
        A dataframe cannot be read, or has other than one row for each element of its axis.
    MemoryBudgetError
        The matrix is sparse, and there is no room for it.
    """
    name = store.named(options.variable)
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
                f"{frame.place} has {frame.n} rows, and {name} of shape {shape} has {shape[at]} "
                "along that axis: the store was written in part, or by two writers. Write it again."
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
        held = ZarrParts(where, place_of(node), options.missing_chunks)
        of_samples_first = (shape[1 - axis], shape[axis])
        by_features, dtype = (kind == CSC) == (axis == 1), stored[0].dtype
        return StoredSparse(
            held, of_samples_first, dtype, by_features=by_features, missing_code=code, names=names
        )
    read = tuple(
        (part.nbytes, partial(whole_array, part, options.missing_chunks)) for part in stored
    )
    matrix = loaded(read, shape, kind, where)
    return SparseSource(turned(matrix, axis), missing_code=code, names=names)

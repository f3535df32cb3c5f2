"""AnnData on Zarr: where its matrices lie, and the dataframes that name their rows and columns.

A dataframe (`obs`, `var`) is a group with an index and columns, in encodings of their own.
"""

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

from dhsic._typing import Array, Mask
from dhsic.errors import DataError, InputError
from dhsic.sources import AbstractSource, Names
from dhsic.sources.arrays import ArraySource
from dhsic.sources.ids import some
from dhsic.sources.options import MissingChunks, OpenOptions, text
from dhsic.sources.sparse import CSC, SparseSource, loaded, turned
from dhsic.sources.stored_sparse import AbstractParts, StoredSparse, stays_stored
from dhsic.sources.stores import metadata_of
from dhsic.sources.zarr import ChunkedArray, Node, ZarrSource, child, group_at, place_of, read_array

#: Encodings of columns that are groups, and the array of each that has an element a row.
GROUPS: Mapping[str, str] = {
    "categorical": "codes",
    "nullable-integer": "values",
    "nullable-boolean": "values",
    "nullable-string-array": "values",
}
#: Encodings that are plain arrays; early writers gave them no name.
ARRAYS = frozenset({"array", "string-array", ""})
#: Folder of coordinates, a row for each sample.
OBSM = "obsm/"
#: Samples and features of a matrix that are looked at, entries of a sparse one, and the bytes of a
#: chunk up to which one is read for it.
GLANCED, ENTRIES, MOST_READ = 128, 1 << 14, 64 << 20


class AbstractFrame(ABC):
    """A dataframe of AnnData: names of its n rows, and columns with one value a row."""

    place: Any  # how messages call it
    columns: tuple[str, ...]
    n: int

    @abstractmethod
    def names(self) -> Array:
        """Names of the rows, text."""

    @abstractmethod
    def column(self, name: str, missing_chunks: MissingChunks = "error") -> Array:
        """Values of a column, (n,): text where it is categorical, NaN or "" where missing."""


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


@dataclass(frozen=True, eq=False)
class Frame(AbstractFrame):
    """The dataframe of a group of Zarr.

    `index` is the element of the group that names the rows.
    """

    group: zarr.Group
    index: str
    columns: tuple[str, ...]
    n: int
    place: StorePath

    @classmethod
    def of(cls, parent: zarr.Group, name: str) -> Frame:
        """Return the dataframe `name` of a group, whose names are known to be there.

        Raises
        ------
        DataError
            There is none, or its index is absent or of an unknown encoding. Without names rows
            would be matched by position, and wrongly so.
        """
        where, listed = f"{parent.store_path}/{name}", child(parent, name)
        if not isinstance(listed, zarr.Group):
            what = "absent" if listed is None else "no group (AnnData wrote it so before 0.7)"
            raise DataError(
                f"{where} is {what}, so it is not known what X holds. Write the store again with "
                "anndata (read_zarr, write_zarr), or restore it."
            )
        try:
            group = group_at(place_of(listed))
        except FileNotFoundError as error:
            raise DataError(
                f"{where} is absent, though the metadata of its store list it: it was deleted. "
                "Write the store again, or restore it."
            ) from error
        index = str(group.attrs.get("_index", "_index"))
        order: Any = group.attrs.get("column-order", [])
        rows = _element(group, index)
        if isinstance(rows, zarr.Group):
            rows = _part(rows, GROUPS[str(rows.attrs["encoding-type"])])
        return cls(group, index, tuple(map(str, order)), int(rows.shape[0]), group.store_path)

    def names(self) -> Array:
        return text(self._values(self.index, "error"))

    def column(self, name: str, missing_chunks: MissingChunks = "error") -> Array:
        values = self._values(name, missing_chunks)
        if values.shape != (self.n,):
            raise DataError(
                f"{self.place}/{name} has shape {values.shape}, and {self.place} has {self.n} "
                "rows; the store is damaged: write it again, or restore it."
            )
        return values

    def _values(self, name: str, missing_chunks: MissingChunks) -> Array:
        element = _element(self.group, name)
        where = str(element.store_path)
        if isinstance(element, zarr.Group):
            if element.attrs["encoding-type"] != "categorical":
                return _nullable(element, missing_chunks)
            codes, categories = _part(element, "codes"), _part(element, "categories")
            return named_by(_all(codes, missing_chunks), _all(categories, missing_chunks), where)
        values = _all(element, missing_chunks)
        listed = element.attrs.get("categories")  # as AnnData 0.7 wrote categories
        if listed is None:
            return values
        beside = child(self.group, str(listed))
        if not isinstance(beside, zarr.Array):
            raise DataError(
                f"{where} holds codes of categories {listed!r}, which are absent. Write the store "
                "again, or restore it."
            )
        return named_by(values, _all(beside, missing_chunks), where)


def _element(group: zarr.Group, name: str) -> Node:
    """The index or a column of a dataframe, in an encoding that is known."""
    where = f"{group.store_path}/{name}"
    node = child(group, name)
    if node is None:
        raise DataError(
            f"{where} is absent, though {group.store_path} lists it: it was deleted, or the writer "
            "died. Write the store again, or restore it."
        )
    encoding = str(node.attrs.get("encoding-type", ""))
    known = encoding in (GROUPS if isinstance(node, zarr.Group) else ARRAYS)
    if not known or (isinstance(node, zarr.Array) and node.ndim != 1):
        raise DataError(
            f"{where} has encoding {encoding or 'none'!r}, which dhsic does not read as one value "
            f"a row; it reads {', '.join(sorted((*GROUPS, *filter(None, ARRAYS))))}. Write it as "
            "text or numbers, for instance with .astype(str)."
        )
    return node


def _part(element: zarr.Group, name: str) -> zarr.Array[Any]:
    part = child(element, name)
    if not isinstance(part, zarr.Array) or part.ndim != 1:
        raise DataError(
            f"{element.store_path} lacks its array {name!r}; it was deleted, or the writer died. "
            "Write the store again, or restore it."
        )
    return part


def _all(array: zarr.Array[Any], missing_chunks: MissingChunks, at: slice = slice(None)) -> Array:
    """A whole array (n,), or part of it; its writer writes whole shards, and leaves out of them what is all zeros."""
    holes: MissingChunks | None = "fill" if array.dtype.kind in "biuf" else None
    return read_array(array, missing_chunks, at, holes=holes)


def named_by(codes: Array, categories: Array, where: str) -> Array:
    """Category of each row, text; "" where the code is -1."""
    n = len(categories)
    if codes.dtype.kind not in "iu" or (codes.size and not -1 <= codes.min() <= codes.max() < n):
        raise DataError(
            f"{where} holds codes other than -1 to {n - 1}, and has {n} categories; it is damaged: "
            "write the store again, or restore it."
        )
    # Text of fixed width: categories are classes, whether or not they look like numbers.
    named: Array = np.append(text(categories), "").astype(str)[codes]
    return named


def _nullable(element: zarr.Group, missing_chunks: MissingChunks) -> Array:
    values = _all(_part(element, "values"), missing_chunks)
    # A mask that masks nothing is all fill values, which zarr leaves out.
    mask = _all(_part(element, "mask"), "fill").astype(bool)
    if mask.shape != values.shape:
        raise DataError(
            f"{element.store_path} has {len(values)} values and a mask of {len(mask)}; it is "
            "damaged: write the store again, or restore it."
        )
    return filled(values, mask, element.attrs["encoding-type"])


def filled(values: Array, mask: Mask, encoding: Any) -> Array:
    """Values as they are where all are there; else numbers as float64 with NaN, text with ""."""
    if encoding == "nullable-string-array":
        return np.where(mask, "", text(values))
    return np.where(mask, np.nan, values.astype(np.float64)) if mask.any() else values


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
        if node is not None and _holds(node):
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
        stored = node if isinstance(node, zarr.Array) else _part(node, "data")
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


def frame_source(frame: AbstractFrame, options: OpenOptions) -> AbstractSource:
    """Open a dataframe in obsm as a matrix in memory: rows are samples, columns features.

    Raises
    ------
    InputError
        A column holds no numbers.
    """
    columns = [frame.column(name, options.missing_chunks) for name in frame.columns]
    text_columns = [
        name
        for name, values in zip(frame.columns, columns, strict=True)
        if values.dtype.kind not in "biuf"
    ]
    if text_columns or not columns:
        what = f"has text in {some(map(repr, text_columns))}" if columns else "has no columns"
        raise InputError(
            f"The dataframe {frame.place} {what}; a matrix holds numbers. Write it again with "
            "columns of numbers alone, or choose another matrix."
        )
    matrix = np.column_stack(columns)
    options.feature_axis(matrix.shape, ("obs", None), str(frame.place))
    names = Names(np.array(frame.columns, dtype=object), frame.names)
    return ArraySource(matrix, missing_code=options.code_of({}), names=names)


@dataclass(frozen=True)
class ZarrParts(AbstractParts):
    """Parts of a sparse matrix of a Zarr store, the group at `place`."""

    where: str
    place: StorePath
    missing_chunks: MissingChunks

    def read(self, name: str, at: slice = slice(None)) -> Array:
        return _all(_part(group_at(self.place), name), self.missing_chunks, at)


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
    code = options.code_of(node.attrs)
    if isinstance(node, zarr.Array):
        chunked = ChunkedArray(node, axis, options.missing_chunks)
        source = ZarrSource(chunked, names, missing_code=code)
        source.hint = store.hint(options.variable)
        return source
    stored = [_part(node, part) for part in PARTS]
    kind = str(node.attrs["encoding-type"]).removesuffix("_matrix")
    chunks = (prod(part.shards or part.chunks) * part.dtype.itemsize for part in stored)
    if stays_stored(zip((part.nbytes for part in stored), chunks, strict=True)):
        held = ZarrParts(where, place_of(node), options.missing_chunks)
        of_samples_first = (shape[1 - axis], shape[axis])
        by_features, dtype = (kind == CSC) == (axis == 1), stored[0].dtype
        return StoredSparse(
            held, of_samples_first, dtype, by_features=by_features, missing_code=code, names=names
        )
    read = tuple((part.nbytes, partial(_all, part, options.missing_chunks)) for part in stored)
    matrix = loaded(read, shape, kind, where)
    return SparseSource(turned(matrix, axis), missing_code=code, names=names)

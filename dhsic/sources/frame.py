"""Dataframes of AnnData on Zarr (`obs`, `var`): an index and columns, in encodings of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import zarr
from zarr.storage import StorePath

from dhsic._typing import Array
from dhsic.errors import DataError
from dhsic.sources.chunked import group_at, read_array
from dhsic.sources.files import portable
from dhsic.sources.naming import text
from dhsic.sources.stores import metadata_of
from dhsic.sources.watched import MissingChunks

Node = zarr.Array[Any] | zarr.Group


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """The rows of `obs` or `var`: their names, and columns with one value a row.

    Attributes
    ----------
    place : StorePath
        Where the group lies.
    index : str
        Which element of it names the rows.
    columns : tuple of str
        Names of the columns, in their order.
    n : int
        Number of rows.
    """

    place: StorePath
    index: str
    columns: tuple[str, ...]
    n: int

    @classmethod
    def of(cls, parent: zarr.Group, name: str) -> Frame:
        """Return the dataframe `name` of a group, whose names are known to be there.

        Raises
        ------
        DataError
            There is none, or its index is absent or of an unknown encoding. Without names rows
            would be matched by position, and wrongly so.
        """
        where = f"{parent.store_path}/{name}"
        group = child(parent, name)
        if not isinstance(group, zarr.Group):
            what = "absent" if group is None else "no group (AnnData wrote it so before 0.7)"
            raise DataError(
                f"{where} is {what}, so it is not known what X holds. Write the store again with "
                "anndata (read_zarr, write_zarr), or restore it."
            )
        place = StorePath(portable(group.store), group.path)
        group = _opened(place)
        index = str(group.attrs.get("_index", "_index"))
        listed: Any = group.attrs.get("column-order", [])
        columns = tuple(str(column) for column in listed)
        return cls(place, index, columns, _length(_element(group, index)))

    def names(self) -> Array:
        """Names of the rows, text."""
        return text(self._values(self.index, "error"))

    def column(self, name: str, missing_chunks: MissingChunks = "error") -> Array:
        """Values of a column, (n,): text where it is categorical, NaN or "" where missing."""
        values = self._values(name, missing_chunks)
        if values.shape != (self.n,):
            raise DataError(
                f"{self.place}/{name} has shape {values.shape}, and {self.place} has {self.n} "
                "rows; the store is damaged: write it again, or restore it."
            )
        return values

    def _values(self, name: str, missing_chunks: MissingChunks) -> Array:
        group = _opened(self.place)
        return _decoded(group, _element(group, name), missing_chunks)


def child(group: zarr.Group, name: str) -> Node | None:
    """Return what lies at a path below a group, or None; damage is an error."""
    with metadata_of(f"{group.store_path}/{name}"):
        return group.get(name)


def _opened(place: StorePath) -> zarr.Group:
    """The group of a dataframe, by metadata of its own."""
    try:
        with metadata_of(place):
            return group_at(place)
    except FileNotFoundError as error:
        raise DataError(
            f"{place} is absent, though the metadata of its store list it: it was deleted. Write "
            "the store again, or restore it."
        ) from error


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
    known = encoding in (READERS if isinstance(node, zarr.Group) else ARRAYS)
    if not known or (isinstance(node, zarr.Array) and node.ndim != 1):
        raise DataError(
            f"{where} has encoding {encoding or 'none'!r}, which dhsic does not read as one value "
            f"a row; it reads {', '.join(sorted((*READERS, *filter(None, ARRAYS))))}. Write it as "
            "text or numbers, for instance with .astype(str)."
        )
    return node


def _length(element: Node) -> int:
    """Number of rows that an index names, from metadata alone."""
    if isinstance(element, zarr.Array):
        return int(element.shape[0])
    encoding = str(element.attrs["encoding-type"])
    return int(_part(element, "codes" if encoding == "categorical" else "values").shape[0])


def _decoded(frame: zarr.Group, element: Node, missing_chunks: MissingChunks) -> Array:
    if isinstance(element, zarr.Group):
        return READERS[str(element.attrs["encoding-type"])](element, missing_chunks)
    values = _all(element, missing_chunks)
    listed = element.attrs.get("categories")  # as AnnData 0.7 wrote categories
    categories = None if listed is None else child(frame, str(listed))
    if listed is None:
        return values
    if not isinstance(categories, zarr.Array):
        raise DataError(
            f"{element.store_path} holds codes of categories {listed!r}, which are absent. Write "
            "the store again, or restore it."
        )
    return _named(values, _all(categories, missing_chunks), str(element.store_path))


def _all(array: zarr.Array[Any], missing_chunks: MissingChunks) -> Array:
    """A whole array; its writer writes whole shards, and leaves out of them what is all zeros."""
    holes: MissingChunks | None = "fill" if array.dtype.kind in "biuf" else None
    return read_array(array, missing_chunks, holes=holes)


def _part(element: zarr.Group, name: str) -> zarr.Array[Any]:
    part = child(element, name)
    if not isinstance(part, zarr.Array) or part.ndim != 1:
        raise DataError(
            f"{element.store_path} lacks its array {name!r}; it was deleted, or the writer died. "
            "Write the store again, or restore it."
        )
    return part


def _categorical(element: zarr.Group, missing_chunks: MissingChunks) -> Array:
    """Category of each row, text; "" where the code is -1."""
    codes = _all(_part(element, "codes"), missing_chunks)
    categories = _all(_part(element, "categories"), missing_chunks)
    return _named(codes, categories, str(element.store_path))


def _named(codes: Array, categories: Array, where: str) -> Array:
    n = len(categories)
    if codes.dtype.kind not in "iu" or (codes.size and not -1 <= codes.min() <= codes.max() < n):
        raise DataError(
            f"{where} holds codes other than -1 to {n - 1}, and has {n} categories; it is damaged: "
            "write the store again, or restore it."
        )
    # Text of fixed width: categories are classes, whether or not they look like numbers.
    named: Array = np.append(text(categories), "").astype(str)[codes]
    return named


def _nullable_numbers(element: zarr.Group, missing_chunks: MissingChunks) -> Array:
    """Numbers or booleans as they are; float64 with NaN where some are missing."""
    values, mask = _masked(element, missing_chunks)
    return np.where(mask, np.nan, values.astype(np.float64)) if mask.any() else values


def _nullable_text(element: zarr.Group, missing_chunks: MissingChunks) -> Array:
    """Text, "" where it is missing."""
    values, mask = _masked(element, missing_chunks)
    return np.where(mask, "", text(values))


def _masked(element: zarr.Group, missing_chunks: MissingChunks) -> tuple[Array, Array]:
    values = _all(_part(element, "values"), missing_chunks)
    # A mask that masks nothing is all fill values, which zarr leaves out.
    mask = _all(_part(element, "mask"), "fill").astype(bool)
    if mask.shape != values.shape:
        raise DataError(
            f"{element.store_path} has {len(values)} values and a mask of {len(mask)}; it is "
            "damaged: write the store again, or restore it."
        )
    return values, mask


#: Encodings that are groups, and what reads each.
READERS: Mapping[str, Callable[[zarr.Group, MissingChunks], Array]] = {
    "categorical": _categorical,
    "nullable-integer": _nullable_numbers,
    "nullable-boolean": _nullable_numbers,
    "nullable-string-array": _nullable_text,
}

#: Encodings that are plain arrays; early writers gave them no name.
ARRAYS = frozenset({"array", "string-array", ""})


@dataclass(frozen=True, slots=True, eq=False)
class FrameLabels:
    """Names of features and samples that dataframes hold, read when they are asked for."""

    features: Frame | None
    samples: Frame | None

    def feature_names(self) -> Array | None:
        """Names of the features, or None."""
        return None if self.features is None else self.features.names()

    def sample_names(self) -> Array | None:
        """Names of the samples, or None."""
        return None if self.samples is None else self.samples.names()

    def feature_coords(self) -> Mapping[str, Array]:
        """Return no coordinates: there are only names."""
        return {}

    def identity(self) -> tuple[Array | None, ...]:
        """What a fingerprint takes for the names."""
        return self.feature_names(), self.sample_names()

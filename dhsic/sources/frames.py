"""Dataframes of AnnData: names of samples or features, and columns with one value per row.

In Zarr, a dataframe is a group with an index and columns, in the encodings of AnnData.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import zarr
from zarr.storage import StorePath

from dhsic._typing import Array, Mask
from dhsic.errors import DataError, InputError
from dhsic.sources import AbstractSource, Names
from dhsic.sources.arrays import ArraySource
from dhsic.sources.chunked import Node, child, group_at, place_of, read_array
from dhsic.sources.ids import abbreviate
from dhsic.sources.options import MissingChunks, OpenOptions, text

#: Encodings of columns that are stored as groups, by name; the value is the array of the group that
#: has one element per row.
GROUPS: Mapping[str, str] = {
    "categorical": "codes",
    "nullable-integer": "values",
    "nullable-boolean": "values",
    "nullable-string-array": "values",
}
#: Encodings of columns that are stored as arrays; early versions of AnnData wrote no encoding.
ARRAYS = frozenset({"array", "string-array", ""})


class AbstractFrame(ABC):
    """Dataframe of AnnData: names of its n rows, and columns with one value per row."""

    place: Any  # location, for messages
    columns: tuple[str, ...]
    n: int

    @abstractmethod
    def names(self) -> Array:
        """Return the names of the rows, as text."""

    @abstractmethod
    def column(self, name: str, missing_chunks: MissingChunks = "error") -> Array:
        """Return the values of a column, (n,): text if categorical; NaN or "" if missing."""

    @abstractmethod
    def levels(self, name: str) -> list[str]:
        """Return the categories of an ordered column, lowest first; [] for other columns."""


@dataclass(frozen=True, eq=False)
class Frame(AbstractFrame):
    """Dataframe in a Zarr group.

    `index` is the element of the group that contains the names of the rows.
    """

    group: zarr.Group
    index: str
    columns: tuple[str, ...]
    n: int
    place: StorePath

    @classmethod
    def of(cls, parent: zarr.Group, name: str) -> Frame:
        """Return the dataframe `name` of a group; its index must contain row names.

        Raises
        ------
        DataError
            There is no such dataframe, or its index is absent or has an unknown encoding. Without
            names, rows would be matched by position, which may be wrong.
        """
        where, listed = f"{parent.store_path}/{name}", child(parent, name)
        if not isinstance(listed, zarr.Group):
            what = (
                "absent" if listed is None else "not a group (AnnData before 0.7 did not write one)"
            )
            raise DataError(
                f"{where} is {what}, so the sample or feature names are unknown. Write the store "
                "again with anndata (read_zarr, write_zarr), or restore it."
            )
        try:
            group = group_at(place_of(listed))
        except FileNotFoundError as error:
            raise DataError(
                f"{where} is absent, although the metadata of the store list it. It was deleted. "
                "Write the store again, or restore it."
            ) from error
        index = str(group.attrs.get("_index", "_index"))
        order: Any = group.attrs.get("column-order", [])
        rows = _element(group, index)
        if isinstance(rows, zarr.Group):
            rows = part_of(rows, GROUPS[str(rows.attrs["encoding-type"])])
        return cls(group, index, tuple(map(str, order)), int(rows.shape[0]), group.store_path)

    def names(self) -> Array:
        return text(self._values(self.index, "error"))

    def column(self, name: str, missing_chunks: MissingChunks = "error") -> Array:
        values = self._values(name, missing_chunks)
        if values.shape != (self.n,):
            raise DataError(
                f"{self.place}/{name} has shape {values.shape}, but {self.place} has {self.n} "
                "rows. The store is damaged: write it again, or restore it."
            )
        return values

    def levels(self, name: str) -> list[str]:
        element = _element(self.group, name)
        if not isinstance(element, zarr.Group) or not element.attrs.get("ordered"):
            return []
        return list(map(str, text(whole_array(part_of(element, "categories"), "error"))))

    def _values(self, name: str, missing_chunks: MissingChunks) -> Array:
        element = _element(self.group, name)
        where = str(element.store_path)
        if isinstance(element, zarr.Group):
            if element.attrs["encoding-type"] != "categorical":
                return _nullable(element, missing_chunks)
            codes, categories = part_of(element, "codes"), part_of(element, "categories")
            return named_by(
                whole_array(codes, missing_chunks), whole_array(categories, missing_chunks), where
            )
        values = whole_array(element, missing_chunks)
        listed = element.attrs.get("categories")  # the format of AnnData 0.7
        if listed is None:
            return values
        beside = child(self.group, str(listed))
        if not isinstance(beside, zarr.Array):
            raise DataError(
                f"{where} contains codes of the categories {listed!r}, but these are absent. "
                "Write the store again, or restore it."
            )
        return named_by(values, whole_array(beside, missing_chunks), where)


def _element(group: zarr.Group, name: str) -> Node:
    """Return the index or a column of a dataframe; DataError if its encoding is unknown."""
    where = f"{group.store_path}/{name}"
    node = child(group, name)
    if node is None:
        raise DataError(
            f"{where} is absent, although {group.store_path} lists it. It was deleted, or the "
            "program that wrote it died. Write the store again, or restore it."
        )
    encoding = str(node.attrs.get("encoding-type", ""))
    is_readable = encoding in (GROUPS if isinstance(node, zarr.Group) else ARRAYS)
    if not is_readable or (isinstance(node, zarr.Array) and node.ndim != 1):
        raise DataError(
            f"{where} has the encoding {encoding or 'none'!r}, which dhsic cannot read as one "
            f"value per row. It can read {', '.join(sorted((*GROUPS, *filter(None, ARRAYS))))}. "
            "Write it as text or numbers, for example with .astype(str)."
        )
    return node


def part_of(element: zarr.Group, name: str) -> zarr.Array[Any]:
    """Return the array `name` (n,) in the group of a column or of a sparse matrix."""
    part = child(element, name)
    if not isinstance(part, zarr.Array) or part.ndim != 1:
        raise DataError(
            f"{element.store_path} lacks its array {name!r}. It was deleted, or the program that "
            "wrote it died. Write the store again, or restore it."
        )
    return part


def whole_array(
    array: zarr.Array[Any], missing_chunks: MissingChunks, at: slice = slice(None)
) -> Array:
    """Read an array (n,) or a part of it; chunks that a shard omits contain fill values."""
    holes: MissingChunks | None = "fill" if array.dtype.kind in "biuf" else None
    return read_array(array, missing_chunks, at, holes=holes)


def named_by(codes: Array, categories: Array, where: str) -> Array:
    """Return the category of each row as text; "" if the code is -1."""
    n = len(categories)
    if codes.dtype.kind not in "iu" or (codes.size and not -1 <= codes.min() <= codes.max() < n):
        raise DataError(
            f"{where} has {n} categories, but contains codes other than -1 to {n - 1}. It is "
            "damaged: write the store again, or restore it."
        )
    # Fixed-width text is read as classes, even if the categories look like numbers.
    labels: Array = np.append(text(categories), "").astype(str)[codes]
    return labels


def _nullable(element: zarr.Group, missing_chunks: MissingChunks) -> Array:
    values = whole_array(part_of(element, "values"), missing_chunks)
    # A mask without missing values contains only fill values, which zarr omits.
    mask = whole_array(part_of(element, "mask"), "fill").astype(bool)
    if mask.shape != values.shape:
        raise DataError(
            f"{element.store_path} has {len(values)} values, but its mask has {len(mask)}. It is "
            "damaged: write the store again, or restore it."
        )
    return filled(values, mask, element.attrs["encoding-type"])


def filled(values: Array, mask: Mask, encoding: Any) -> Array:
    """Return values (n,) with NaN (as float64), or "" for text, where `mask` (n,) is True."""
    if encoding == "nullable-string-array":
        return np.where(mask, "", text(values))
    return np.where(mask, np.nan, values.astype(np.float64)) if mask.any() else values


def _paths(frame: AbstractFrame) -> str:
    """Return paths that select columns of a dataframe in obsm as labels, for messages."""
    folder = str(frame.place).rpartition("obsm/")[2]
    return abbreviate((repr(f"obsm/{folder}/{name}") for name in frame.columns), 4)


def frame_source(frame: AbstractFrame, options: OpenOptions) -> AbstractSource:
    """Read a dataframe in obsm as a matrix: rows are samples, and columns are features.

    Raises
    ------
    InputError
        A column is not numeric.
    """
    columns = [frame.column(name, options.missing_chunks) for name in frame.columns]
    text_columns = [
        name
        for name, values in zip(frame.columns, columns, strict=True)
        if values.dtype.kind not in "biuf"
    ]
    if text_columns or not columns:
        what = f"has text in {abbreviate(map(repr, text_columns))}" if columns else "has no columns"
        raise InputError(
            f"The dataframe {frame.place} {what}, but a matrix must contain numbers. Write it "
            "again with numeric columns only, or choose another matrix. For labels, choose one "
            f"column: {_paths(frame)}."
        )
    matrix = np.column_stack(columns)
    options.feature_axis(matrix.shape, ("obs", None), str(frame.place))
    names = Names(np.array(frame.columns, dtype=object), frame.names)
    return ArraySource(matrix, missing_code=options.code_of(), names=names)

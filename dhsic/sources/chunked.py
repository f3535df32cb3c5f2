"""Arrays and groups of Zarr stores, read by chunk, checked and decoded."""

from __future__ import annotations

from functools import cached_property
from itertools import product
from math import prod
from typing import Any

import numpy as np
import zarr
from zarr.storage import MemoryStore, StorePath

from dhsic._typing import Array, Index
from dhsic.errors import DataError, DhsicError
from dhsic.sources.blocks import Block, check_dtype, regular_edges, row_span, take_rows
from dhsic.sources.codecs import check_fits
from dhsic.sources.options import MissingChunks, OpenOptions
from dhsic.sources.packing import Packing, code_among, declared, names_among, unpacked
from dhsic.sources.stores import StoreFailedError, damaged, guarded, metadata_of, portable

Node = zarr.Array[Any] | zarr.Group
#: Attribute of a text variable that is an ordered category: names of its levels, lowest first.
LEVELS = "levels"


class ChunkedArray:
    """An array (features, samples, ...) or (samples, features, ...) of a Zarr store.

    Only the store and the path are pickled. An unpickled copy opens the array again when it is
    read.

    The concurrency of zarr (``async.concurrency``) is not changed: this setting belongs to the
    whole process, and a temporary change would be a race between threads.

    An absent chunk is either lost, or the writer omitted it because it contained only fill values
    (``write_empty_chunks=False``). `missing_chunks` says which case is assumed. `packing` decodes
    the values if the array declares a packing. `dtype` is the dtype of decoded values, and
    `stored_dtype` the dtype in the store.
    """

    def __init__(
        self,
        array: zarr.Array[Any],
        feature_axis: int,
        missing_chunks: MissingChunks = "error",
        packing: Packing | None = None,
    ) -> None:
        self.store = portable(array.store)
        self.path = array.path
        self.label = str(StorePath(self.store, self.path))
        check_dtype(array.dtype, self.label)
        self.feature_axis = feature_axis
        self.missing_chunks = missing_chunks
        self.shape = array.shape
        self.n_features, self.n_samples = (
            int(array.shape[k]) for k in (feature_axis, 1 - feature_axis)
        )
        self.packing, self.stored_dtype = packing, array.dtype
        self.dtype = array.dtype if packing is None else packing.dtype
        self.grid = array.shards or array.chunks
        self.chunk_bytes = prod(self.grid) * self.stored_dtype.itemsize
        check_fits(array, self.label, feature_axis)
        # A store in memory is pickled with its content.
        self.client_bytes = array.nbytes_stored() if isinstance(self.store, MemoryStore) else 0

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "handle"}

    @property
    def edges(self) -> Index:
        """Boundaries of chunks (or shards) along the features."""
        return regular_edges(self.n_features, self.grid[self.feature_axis])

    @cached_property
    def handle(self) -> zarr.Array[Any]:
        """The opened array; its chunks are read through a store that checks them."""
        raw = self.opened()
        layout = raw.shape, raw.dtype, raw.shards or raw.chunks
        if layout != (self.shape, self.stored_dtype, self.grid):
            raise DataError(
                f"{self.label} changed after it was opened: its shape is now {raw.shape} "
                f"({raw.dtype}) in chunks of {layout[2]}, but was {self.shape} "
                f"({self.stored_dtype}) in chunks of {self.grid}. It was written again in the "
                "meantime, or its consolidated metadata differ. Run again."
            )
        return guarded(raw, self.label, self.missing_chunks)

    def opened(self) -> zarr.Array[Any]:
        """Open the array with zarr, to read its metadata."""
        return array_at(StorePath(self.store, self.path))

    def read(self, block: Block, rows: Index | None) -> Array:
        """Read a block, (c, m, ...), C-ordered; only the chunks that contain `rows` are read."""
        span = row_span(rows, self.n_samples)
        features = slice(block.start, block.stop)
        region = (features, span) if self.feature_axis == 0 else (span, features)
        try:
            values = _decoded(self.handle, region)
        except UndecodedError:
            self._find_damage(region)
            values = _decoded(self.handle, region)  # all chunks decode now: the error was temporary
        values = take_rows(np.moveaxis(values, self.feature_axis, 0), rows, span)
        values = np.ascontiguousarray(values)
        return values if self.packing is None else self.packing.decoded(values, in_place=True)

    def stored_samples(self, rows: Index) -> int:
        """Return the number of samples in the chunks that contain `rows`."""
        span, width = row_span(rows, self.n_samples), int(self.grid[1 - self.feature_axis])
        stop = min(-(-span.stop // width) * width, self.n_samples)
        return int(stop - span.start // width * width)

    def place(self, feature: int, sample: int) -> str:
        """Return a text on where a value is stored, such as ", in chunk 'c/0/0' of x.zarr"."""
        at = (feature, sample) if self.feature_axis == 0 else (sample, feature)
        coords = [k // n for k, n in zip(at, self.grid, strict=False)]
        return f", in chunk {self._key(*coords, *(0 for _ in self.grid[2:]))!r} of {self.label}"

    def _key(self, *coords: int) -> str:
        return str(self.handle.metadata.encode_chunk_key(coords))

    def _find_damage(self, region: tuple[slice, ...]) -> None:
        """Decode the chunks of a region one by one; raise DataError for the first that fails."""
        full_region = (*region, *(slice(0, n) for n in self.shape[2:]))
        sides = zip(full_region, self.grid, strict=True)
        for coords in product(*(range(s.start // n, -(-s.stop // n)) for s, n in sides)):
            part = zip(coords, self.grid, strict=True)
            try:
                _decoded(self.handle, tuple(slice(k * n, (k + 1) * n) for k, n in part))
            except UndecodedError as error:
                raise damaged(self._key(*coords), self.label, error) from error.__cause__


def read_array(
    array: zarr.Array[Any],
    missing_chunks: MissingChunks = "error",
    region: Any = ...,
    *,
    holes: MissingChunks | None = None,
) -> Array:
    """Read an array of labels or names, of any dtype; DataError if it is damaged."""
    label = str(array.store_path)
    check_fits(array, label)
    try:
        return _decoded(guarded(array, label, missing_chunks, holes), region)
    except UndecodedError as error:
        raise DataError(
            f"{label} cannot be decoded ({error}). It is damaged: write it again, or restore it."
        ) from error.__cause__


class UndecodedError(Exception):
    """Error for a chunk that exists but cannot be decoded."""


def _decoded(array: zarr.Array[Any], region: Any) -> Array:
    """Read values of an array; UndecodedError if decoding fails, other errors are unchanged."""
    try:
        return np.asarray(array[region])
    except (DhsicError, MemoryError):
        raise
    except StoreFailedError as error:
        raise (error.__cause__ or error) from None
    except Exception as error:  # a codec may raise anything
        raise UndecodedError(f"{type(error).__name__}: {error}") from error


def array_at(place: StorePath) -> zarr.Array[Any]:
    """Open the array at `place`."""
    with metadata_of(place):
        return zarr.open_array(place.store, path=place.path, mode="r")


def group_at(place: StorePath) -> zarr.Group:
    """Open the group at `place` with its own metadata, not the metadata consolidated in the root.

    Store and path are passed separately, because zarr does not open the zip file of a `StorePath`.
    """
    with metadata_of(place):
        return zarr.open_group(place.store, path=place.path, mode="r", use_consolidated=False)


def place_of(node: Node) -> StorePath:
    """Return the location of an array or group, from which another process can open it."""
    return StorePath(portable(node.store), node.path)


def child(group: zarr.Group, name: str) -> Node | None:
    """Return the array or group at the path `name` in `group`; None if absent."""
    with metadata_of(f"{group.store_path}/{name}"):
        return group.get(name)


def member(group: zarr.Group, name: str) -> zarr.Array[Any] | None:
    """Return an array of a group by name; None if there is none."""
    node = child(group, name)
    return node if isinstance(node, zarr.Array) else None


def arrays_of(group: zarr.Group) -> dict[str, zarr.Array[Any]]:
    """Return the arrays of a group by name."""
    with metadata_of(group.store_path):
        return dict(group.arrays())


def chunked_of(
    array: zarr.Array[Any], feature_axis: int, options: OpenOptions
) -> tuple[ChunkedArray, int | None]:
    """Return a matrix of a store, and its code for missing values.

    The matrix is decoded as its attributes declare. The code is None if decoded values are floats
    or if no code is declared.
    """
    attributes = declared(array)
    packing = Packing.of(attributes, array.dtype, takes_codes=options.missing_code == "auto")
    chunked = ChunkedArray(array, feature_axis, options.missing_chunks, packing)
    code = code_among(attributes, array.dtype) if packing is None else None
    return chunked, options.code_of(code, chunked.dtype, array.fill_value)


def read_variable(
    array: zarr.Array[Any], missing_chunks: MissingChunks = "error", region: Any = ...
) -> Array:
    """Read and decode an array of labels or covariates."""
    return unpacked(read_array(array, missing_chunks, region), declared(array))


def read_names(array: zarr.Array[Any], rows: Any = ...) -> Array:
    """Read the names in an array, as an object array of str; "" if missing."""
    return names_among(read_array(array, "fill", rows), declared(array))

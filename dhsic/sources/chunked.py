"""One array of a Zarr store, read in whole chunks along its features."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import product
from math import prod
from typing import Any

import numpy as np
import zarr
from zarr.storage import MemoryStore, StorePath

from dhsic._typing import Array, Index
from dhsic.errors import DataError, InputError
from dhsic.sources.base import Block, group_chunks, regular_edges, row_span, take_rows
from dhsic.sources.decoding import check_chunks, check_whole
from dhsic.sources.domain import check_dtype
from dhsic.sources.stores import metadata_of, portable
from dhsic.sources.watched import MissingChunks, StoreFailedError, damaged, guarded


class ChunkedArray:
    """An array (features, samples, ...) or (samples, features, ...) of a Zarr store.

    It pickles as its store and its path, and opens itself again where it is needed; the handle
    stays with the instance.

    zarr's own concurrency (``async.concurrency``) is left alone: its setting belongs to the whole
    process, and a scoped change would race between threads.

    Parameters
    ----------
    array : zarr.Array
        Any format, sharded or not, in any store.
    feature_axis : int
        0 or 1.
    missing_chunks : {"error", "fill"}
        What a chunk that is not stored is: damage, or fill values (of a writer with
        ``write_empty_chunks=False``).
    """

    def __init__(
        self, array: zarr.Array[Any], feature_axis: int, missing_chunks: MissingChunks = "error"
    ) -> None:
        if missing_chunks not in ("error", "fill"):
            raise InputError(
                f"missing_chunks={missing_chunks!r} is unknown. Pass 'error', or 'fill' to read "
                "chunks that are not stored as fill values."
            )
        self.store = portable(array.store)
        self.path = array.path
        self.label = str(StorePath(self.store, self.path))
        check_dtype(array.dtype, self.label)
        self.feature_axis = feature_axis
        self.missing_chunks = missing_chunks
        self.shape = array.shape
        self.dtype = array.dtype
        self.grid = array.shards or array.chunks
        self.chunk_bytes = prod(self.grid) * self.dtype.itemsize
        check_chunks(array, feature_axis, self.label)
        # A store in memory is pickled with what it holds.
        self.client_bytes = array.nbytes_stored() if isinstance(self.store, MemoryStore) else 0

    @property
    def n_features(self) -> int:
        """Number of features d."""
        return int(self.shape[self.feature_axis])

    @property
    def n_samples(self) -> int:
        """Number of samples m."""
        return int(self.shape[1 - self.feature_axis])

    @property
    def edges(self) -> Index:
        """Boundaries of chunks (or shards) along the features."""
        return regular_edges(self.n_features, self.grid[self.feature_axis])

    @property
    def layout(self) -> Any:
        """What tells stores of the same matrix apart."""
        return self.feature_axis, self.shape, self.grid, str(self.dtype)

    @cached_property
    def handle(self) -> zarr.Array[Any]:
        """The array, opened; its chunks come through a store that watches."""
        raw = self.opened()
        found = raw.shape, raw.dtype, raw.shards or raw.chunks
        if found != (self.shape, self.dtype, self.grid):
            raise DataError(
                f"{self.label} is {raw.shape} {raw.dtype} in chunks of {found[2]} now and was "
                f"{self.shape} {self.dtype} in chunks of {self.grid} when it was opened: it was "
                "written again meanwhile, or its consolidated metadata are others. Open it anew."
            )
        return guarded(raw, self.label, self.missing_chunks)

    def opened(self) -> zarr.Array[Any]:
        """The array as zarr opens it: for its metadata, not to read its values."""
        with metadata_of(self.label):
            return zarr.open_array(self.store, path=self.path, mode="r")

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "handle"}

    def blocks(self, width: int) -> tuple[Block, ...]:
        """Group whole chunks (or shards) into blocks of up to `width` features."""
        return group_chunks(self.edges, width)

    def read(self, block: Block, rows: Index | None) -> Array:
        """Read a block features-first, (c, m, ...), C-ordered; only the chunks that hold `rows`."""
        span = row_span(rows, self.n_samples)
        features = slice(block.start, block.stop)
        region = (features, span) if self.feature_axis == 0 else (span, features)
        values = np.asarray(self._decoded(region))
        values = take_rows(np.moveaxis(values, self.feature_axis, 0), rows, span)
        return np.ascontiguousarray(values)

    def place(self, feature: int, sample: int) -> str:
        """Say where a value is stored, as the end of a clause."""
        at = (feature, sample) if self.feature_axis == 0 else (sample, feature)
        coords = (k // n for k, n in zip(at, self.grid, strict=False))
        rest = (0 for _ in self.grid[2:])
        return f", in chunk {self._key((*coords, *rest))!r} of {self.label}"

    def _key(self, coords: tuple[int, ...]) -> str:
        return str(self.handle.metadata.encode_chunk_key(coords))

    def _decoded(self, region: tuple[slice, ...]) -> Any:
        try:
            return self.handle[region]
        except DataError:
            raise
        except StoreFailedError as error:
            raise (error.__cause__ or error) from None
        except Exception:  # a codec may raise anything
            self._find_damage(region)
            return self.handle[region]  # every chunk decodes now: the failure has passed

    def _find_damage(self, region: tuple[slice, ...]) -> None:
        """Decode the chunks of a region one by one, and name the first that does not."""
        for coords, part in self._chunks_of(region):
            try:
                self.handle[part]
            except (DataError, StoreFailedError):
                raise
            except Exception as error:
                why = f"{type(error).__name__}: {error}"
                raise damaged(self._key(coords), self.label, why) from error

    def _chunks_of(
        self, region: tuple[slice, ...]
    ) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
        whole = (*region, *(slice(0, n) for n in self.shape[2:]))
        axes = zip(whole, self.grid, strict=True)
        touched = [range(s.start // n, -(-s.stop // n)) for s, n in axes]
        for coords in product(*touched):
            part = zip(coords, self.grid, self.shape, strict=True)
            yield coords, tuple(slice(k * n, min((k + 1) * n, size)) for k, n, size in part)


def read_array(
    array: zarr.Array[Any],
    missing_chunks: MissingChunks = "error",
    region: Any = ...,
    *,
    holes: MissingChunks | None = None,
) -> Array:
    """An array of labels or names, of any dtype; damage is named as that of a matrix."""
    label = str(array.store_path)
    check_whole(array, label)
    try:
        return np.asarray(guarded(array, label, missing_chunks, holes)[region])
    except (DataError, MemoryError):
        raise
    except StoreFailedError as error:
        raise (error.__cause__ or error) from None
    except Exception as error:  # a codec may raise anything
        raise DataError(
            f"{label} does not decode ({type(error).__name__}: {error}); it is damaged: write it "
            "again, or restore it."
        ) from error


def group_at(place: StorePath) -> zarr.Group:
    """Open the group at a place; its own metadata, not those that the root consolidates.

    Given as store and path: zarr leaves the zip file of a `StorePath` unopened.
    """
    with metadata_of(place):
        return zarr.open_group(place.store, path=place.path, mode="r", use_consolidated=False)


def dimension_names(array: zarr.Array[Any]) -> tuple[str | None, ...] | None:
    """Names of the dimensions: of the metadata in format 3, of an attribute in format 2."""
    names: Any = getattr(array.metadata, "dimension_names", None)
    if not names or not any(names):
        names = array.attrs.get("_ARRAY_DIMENSIONS")
    return tuple(names) if names and len(names) == array.ndim else None

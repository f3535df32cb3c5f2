"""A matrix in Zarr: one array of a store, read in whole chunks along its features; and written.

Zarr reads a chunk that is not there as fill values, silently: a deleted file of genotypes becomes
zeros, which are genotypes too. Here every chunk that a read asks for passes through `get` of a
store whose absent chunks are errors (`stores`), so nothing is listed, nothing is asked twice, and
nothing can vanish between a check and the read.

Zarr's default codecs let most bit flips pass. So every array that dhsic writes ends its codecs with
crc32c, has every chunk written (an absent one is then lost, not empty) and a fill value outside its
domain: -1 for integers, NaN for floats.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from itertools import product
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numcodecs
import numpy as np
import zarr
from zarr.codecs import BloscCodec, Crc32cCodec
from zarr.storage import MemoryStore, StorePath

from dhsic._typing import Array, Index
from dhsic.errors import DataError, DhsicError, InputError
from dhsic.sources import (
    AbstractStored,
    Block,
    Names,
    check_dtype,
    check_finite,
    check_shape,
    regular_edges,
    row_span,
    take_rows,
)
from dhsic.sources.codecs import check_fits
from dhsic.sources.options import MissingChunks
from dhsic.sources.stores import StoreFailedError, damaged, guarded, metadata_of, portable

if TYPE_CHECKING:
    from dhsic.sources.packing import Packing
    from dhsic.sources.vcz import Calls

Node = zarr.Array[Any] | zarr.Group
BLOSC_LEVEL = 5  # 7.4 x on genotypes, against 7.1 x at level 1 and 7.6 x at level 7, twice as slow


class ChunkedArray:
    """An array (features, samples, ...) or (samples, features, ...) of a Zarr store.

    It pickles as its store and its path, and opens itself again where it is needed; the handle
    stays with the instance.

    zarr's own concurrency (``async.concurrency``) is left alone: its setting belongs to the whole
    process, and a scoped change would race between threads.

    A chunk that is not stored is damage, or fill values (`missing_chunks`) of a writer with
    ``write_empty_chunks=False``. Values are decoded by a `packing`, where the array declares one;
    `dtype` is that of the decoded ones, `stored_dtype` the array's.
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
        # A store in memory is pickled with what it holds.
        self.client_bytes = array.nbytes_stored() if isinstance(self.store, MemoryStore) else 0

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "handle"}

    @property
    def edges(self) -> Index:
        """Boundaries of chunks (or shards) along the features."""
        return regular_edges(self.n_features, self.grid[self.feature_axis])

    @cached_property
    def handle(self) -> zarr.Array[Any]:
        """The array, opened; its chunks come through a store that watches."""
        raw = self.opened()
        found = raw.shape, raw.dtype, raw.shards or raw.chunks
        if found != (self.shape, self.stored_dtype, self.grid):
            raise DataError(
                f"{self.label} is {raw.shape} {raw.dtype} in chunks of {found[2]} now and was "
                f"{self.shape} {self.stored_dtype} in chunks of {self.grid} when it was "
                "opened: it was written again meanwhile, or its consolidated metadata are others. "
                "Open it anew."
            )
        return guarded(raw, self.label, self.missing_chunks)

    def opened(self) -> zarr.Array[Any]:
        """The array as zarr opens it: for its metadata, not to read its values."""
        return array_at(StorePath(self.store, self.path))

    def read(self, block: Block, rows: Index | None) -> Array:
        """Read a block features-first, (c, m, ...), C-ordered; only the chunks that hold `rows`."""
        span = row_span(rows, self.n_samples)
        features = slice(block.start, block.stop)
        region = (features, span) if self.feature_axis == 0 else (span, features)
        try:
            values = _decoded(self.handle, region)
        except UndecodedError:
            self._find_damage(region)
            values = _decoded(self.handle, region)  # all chunks decode now: it has passed
        values = take_rows(np.moveaxis(values, self.feature_axis, 0), rows, span)
        values = np.ascontiguousarray(values)
        return values if self.packing is None else self.packing.decoded(values, in_place=True)

    def stored_samples(self, rows: Index) -> int:
        """Samples of the chunks that hold `rows`."""
        span, width = row_span(rows, self.n_samples), int(self.grid[1 - self.feature_axis])
        stop = min(-(-span.stop // width) * width, self.n_samples)
        return int(stop - span.start // width * width)

    def place(self, feature: int, sample: int) -> str:
        """Say where a value is stored, as the end of a clause."""
        at = (feature, sample) if self.feature_axis == 0 else (sample, feature)
        coords = [k // n for k, n in zip(at, self.grid, strict=False)]
        return f", in chunk {self._key(*coords, *(0 for _ in self.grid[2:]))!r} of {self.label}"

    def _key(self, *coords: int) -> str:
        return str(self.handle.metadata.encode_chunk_key(coords))

    def _find_damage(self, region: tuple[slice, ...]) -> None:
        """Decode the chunks of a region one by one, and name the first that does not."""
        whole = (*region, *(slice(0, n) for n in self.shape[2:]))
        sides = zip(whole, self.grid, strict=True)
        for coords in product(*(range(s.start // n, -(-s.stop // n)) for s, n in sides)):
            part = zip(coords, self.grid, strict=True)
            try:
                _decoded(self.handle, tuple(slice(k * n, (k + 1) * n) for k, n in part))
            except UndecodedError as error:
                raise damaged(self._key(*coords), self.label, error) from error.__cause__


class ZarrSource(AbstractStored):
    """A Zarr array: format 2 or 3, sharded or not, a folder, a zip file or an object store.

    `calls` say how calls of variants become numbers, where it holds some.
    """

    chunked: ChunkedArray

    def __init__(
        self,
        chunked: ChunkedArray,
        names: Names,
        *,
        missing_code: int | None = None,
        calls: Calls | None = None,
    ) -> None:
        if calls is None:
            check_shape(chunked.shape, chunked.label)
        self.chunked, self.names, self.calls = chunked, names, calls
        self.n_samples, self.n_features = chunked.n_samples, chunked.n_features
        self.dtype = chunked.dtype if calls is None else calls.dtype
        self.missing_code = missing_code
        self.client_bytes, self.chunk_bytes = chunked.client_bytes, chunked.chunk_bytes

    @property
    def edges(self) -> Index:
        return self.chunked.edges

    def read(self, block: Block, rows: Index | None = None) -> Array:
        values = self.chunked.read(block, rows)
        if self.calls is not None:
            return self.calls.numbers(values, block, rows).T
        check_finite(values, block, rows, self.chunked.place, self.missing_code)
        return values.T

    def haploid_features(self) -> Index:
        return super().haploid_features() if self.calls is None else self.calls.haploid_features

    def allele_counts(
        self, block: Block, local: Index, rows: Index | None = None
    ) -> tuple[Array, Array]:
        assert self.calls is not None, "genotypes alone have haploid calls"
        return self.calls.allele_counts(self.chunked.read(block, rows)[local])

    def stored_samples(self, rows: Index) -> int:
        return self.chunked.stored_samples(rows)

    @property
    def layout(self) -> Any:
        data, calls = self.chunked, self.calls
        known = data.feature_axis, data.shape, data.grid, str(data.dtype)
        return known if calls is None else (known, calls.policy, calls.mask is not None)


def read_array(
    array: zarr.Array[Any],
    missing_chunks: MissingChunks = "error",
    region: Any = ...,
    *,
    holes: MissingChunks | None = None,
) -> Array:
    """An array of labels or names, of any dtype; damage is named as that of a matrix."""
    label = str(array.store_path)
    check_fits(array, label)
    try:
        return _decoded(guarded(array, label, missing_chunks, holes), region)
    except UndecodedError as error:
        raise DataError(
            f"{label} does not decode ({error}); it is damaged: write it again, or restore it."
        ) from error.__cause__


class UndecodedError(Exception):
    """Chunks are there, and do not decode."""


def _decoded(array: zarr.Array[Any], region: Any) -> Array:
    """Values of a guarded array; errors of its store as they are."""
    try:
        return np.asarray(array[region])
    except (DhsicError, MemoryError):
        raise
    except StoreFailedError as error:
        raise (error.__cause__ or error) from None
    except Exception as error:  # a codec may raise anything
        raise UndecodedError(f"{type(error).__name__}: {error}") from error


def array_at(place: StorePath) -> zarr.Array[Any]:
    """Open the array at a place."""
    with metadata_of(place):
        return zarr.open_array(place.store, path=place.path, mode="r")


def group_at(place: StorePath) -> zarr.Group:
    """Open the group at a place; its own metadata, not those that the root consolidates.

    Given as store and path: zarr leaves the zip file of a `StorePath` unopened.
    """
    with metadata_of(place):
        return zarr.open_group(place.store, path=place.path, mode="r", use_consolidated=False)


def place_of(node: Node) -> StorePath:
    """Where an array or group lies, for whoever opens it again elsewhere."""
    return StorePath(portable(node.store), node.path)


def child(group: zarr.Group, name: str) -> Node | None:
    """Return what lies at a path below a group, or None; damage is an error."""
    with metadata_of(f"{group.store_path}/{name}"):
        return group.get(name)


def member(group: zarr.Group, name: str) -> zarr.Array[Any] | None:
    """Return an array of a group, or None where there is none of that name."""
    found = child(group, name)
    return found if isinstance(found, zarr.Array) else None


def arrays_of(group: zarr.Group) -> dict[str, zarr.Array[Any]]:
    """Arrays of a group by name."""
    with metadata_of(group.store_path):
        return dict(group.arrays())


def create_array(
    group: zarr.Group,
    name: str,
    *,
    shape: tuple[int, ...],
    dtype: Any,
    chunks: tuple[int, ...],
    dims: tuple[str, ...],
    fill_value: Any = None,
    codec: Literal["zstd", "lz4"] = "zstd",
) -> Any:
    """Create an empty array with dhsic's codecs in `group`, whose Zarr format it takes.

    Its elements are integers, floats, or `str` for text of any length; `dims` become
    `dimension_names` in format 3, `_ARRAY_DIMENSIONS` in format 2. By default a `fill_value` is
    outside the domain: -1 for integers, NaN for floats. The codec lz4 is for what is read again
    soon: on noise it is ten times as fast.
    """
    kind, itemsize = ("T", 1) if dtype is str else (np.dtype(dtype).kind, np.dtype(dtype).itemsize)
    options: dict[str, Any] = {
        "shape": shape,
        "dtype": dtype,
        "chunks": tuple(max(1, c) for c in chunks),
        "fill_value": {"T": "", "f": np.nan, "i": -1}.get(kind, 0),
        "config": {"write_empty_chunks": True},
    }
    if fill_value is not None:
        options["fill_value"] = fill_value
    if group.metadata.zarr_format == 2:
        # The compressor comes last, so the checksum is of the raw bytes.
        shuffle = numcodecs.Blosc.BITSHUFFLE if itemsize == 1 else numcodecs.Blosc.SHUFFLE
        text = [numcodecs.VLenUTF8()] if dtype is str else []
        options["filters"] = [*text, numcodecs.CRC32()]
        options["compressors"] = numcodecs.Blosc(codec, BLOSC_LEVEL, shuffle)
        return group.create_array(name, attributes={"_ARRAY_DIMENSIONS": list(dims)}, **options)
    bits: Any = "bitshuffle" if itemsize == 1 else "shuffle"
    blosc = BloscCodec(cname=codec, clevel=BLOSC_LEVEL, shuffle=bits, typesize=itemsize)
    options["compressors"] = (blosc, Crc32cCodec())
    return group.create_array(name, dimension_names=dims, **options)


def write_array(
    group: zarr.Group, name: str, values: Any, dims: tuple[str, ...], chunk: int = 65536
) -> None:
    """Write a whole small array, `chunk` elements of its first dimension at a time.

    Text is given as an object array.
    """
    dtype = str if values.dtype == object else values.dtype
    chunks = (*(min(chunk, n) for n in values.shape[:1]), *values.shape[1:])
    fill = None
    if group.metadata.zarr_format == 2 and values.dtype.kind == "i" and (values == -1).any():
        fill = np.iinfo(values.dtype).min  # -1 would be read as missing
    array = create_array(
        group, name, shape=values.shape, dtype=dtype, chunks=chunks, dims=dims, fill_value=fill
    )
    array[...] = values


#: Up to here all samples go into one chunk; elsewhere so many.
ONE_CHUNK_SAMPLES, MANY_SAMPLES = 250_000, 10_000


def good_chunks(n_features: int, n_samples: int, value_bytes: int) -> tuple[int, int]:
    """Features and samples of a chunk: 4 to 16 MiB raw, all samples together while they are few."""
    samples = n_samples if n_samples <= ONE_CHUNK_SAMPLES else MANY_SAMPLES
    return chunk_width(n_features, samples * value_bytes), samples


def chunk_width(n_features: int, bytes_per_feature: int) -> int:
    """Features per chunk: a power of two with 4 to 16 MiB raw, but at least eight chunks or so.

    Reading is fastest per core from 2 MiB on; a small matrix is cut finer (never below 256
    features for that reason alone) so that there is something to spread over cores.
    """
    least = -(-4 * 2**20 // bytes_per_feature)
    width = 1 << (least - 1).bit_length()
    small = 1 << max(8, (n_features // 8).bit_length() - 1)
    return max(1, min(width, small, n_features))


@contextmanager
def written_aside(path: Path, *, overwrite: bool) -> Iterator[Path]:
    """Give a path to write a store at; rename it to `path` when the block ends well.

    A run that is killed leaves `path` as it was.
    """
    check_free(path, overwrite=overwrite)
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.partial")
    shutil.rmtree(aside, ignore_errors=True)
    try:
        yield aside
        put_in_place(aside, path)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def put_in_place(aside: Path, path: Path) -> None:
    """Rename a folder that is whole, in the place of what is there."""
    old = path.with_name(f".{path.name}.old")  # a folder is not renamed onto one with content
    shutil.rmtree(old, ignore_errors=True)
    if path.exists():
        path.rename(old)
    aside.rename(path)
    shutil.rmtree(old, ignore_errors=True)


def check_free(path: Path, *, overwrite: bool) -> None:
    """Refuse to write where something is, unless it is a Zarr store to overwrite."""
    if not path.exists():
        return
    if not overwrite:
        raise InputError(
            f"{path} exists already. Choose another path, or overwrite it (overwrite=True)."
        )
    if not any((path / name).is_file() for name in ("zarr.json", ".zgroup")):
        raise InputError(
            f"{path} is not a Zarr store, so it is not overwritten. Choose another path, "
            "or remove it yourself."
        )

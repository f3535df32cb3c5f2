"""Reading and writing of matrices in Zarr.

Zarr silently replaces an absent chunk by fill values. A deleted chunk of genotypes then becomes
zeros, which are valid genotypes. Here every chunk is read through a store that raises an error for
absent chunks (`stores`). This needs no additional requests, and no chunk can vanish between a check
and the read.

Arrays that dhsic writes are protected further. The last codec is crc32c, because the default codecs
of Zarr do not detect most bit flips. Every chunk is written, so an absent chunk has been lost. The
fill value is outside the domain: -1 for integers, NaN for floats.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numcodecs
import numpy as np
import zarr
from zarr.codecs import BloscCodec, Crc32cCodec

from dhsic._typing import Array, Index
from dhsic.errors import InputError
from dhsic.sources import AbstractStored, Names
from dhsic.sources.blocks import Block, check_finite
from dhsic.sources.chunked import ChunkedArray

BLOSC_LEVEL = 5  # genotypes: 7.4 x; level 1: 7.1 x; level 7, twice as slow: 7.6 x


class ZarrSource(AbstractStored):
    """Source of a Zarr array of format 2 or 3, with or without shards.

    The store is a folder, a zip file or a bucket.
    """

    chunked: ChunkedArray

    def __init__(
        self,
        chunked: ChunkedArray,
        names: Names,
        *,
        missing_code: int | None = None,
    ) -> None:
        self.chunked, self.names = chunked, names
        self.n_samples, self.n_features = chunked.n_samples, chunked.n_features
        self.dtype = chunked.dtype
        self.missing_code = missing_code
        self.client_bytes, self.chunk_bytes = chunked.client_bytes, chunked.chunk_bytes

    @property
    def edges(self) -> Index:
        return self.chunked.edges

    def read(self, block: Block, rows: Index | None = None) -> Array:
        values = self.chunked.read(block, rows)
        check_finite(values, block, rows, self.chunked.place, self.missing_code)
        return values.T

    def stored_samples(self, rows: Index) -> int:
        return self.chunked.stored_samples(rows)

    @property
    def layout(self) -> Any:
        data = self.chunked
        return data.feature_axis, data.shape, data.grid, str(data.dtype)


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
    """Create an empty array in `group`, in its Zarr format, with the codecs of dhsic.

    Elements are integers, floats, or `str` for text of any length. `dims` become `dimension_names`
    in format 3 and `_ARRAY_DIMENSIONS` in format 2. The default `fill_value` is outside the domain:
    -1 for integers, NaN for floats. The codec lz4 is for temporary arrays: on random data it is ten
    times as fast as zstd.
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
    """Write a small array at once, in chunks of `chunk` elements along its first dimension.

    Text must be an object array.
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


#: Maximum number of samples that are stored in one chunk; with more, number of samples per chunk.
ONE_CHUNK_SAMPLES, MANY_SAMPLES = 250_000, 10_000


def good_chunks(n_features: int, n_samples: int, value_bytes: int) -> tuple[int, int]:
    """Return the numbers of features and samples per chunk, for chunks of 4 to 16 MiB.

    A chunk contains all samples if there are at most `ONE_CHUNK_SAMPLES`.
    """
    samples = n_samples if n_samples <= ONE_CHUNK_SAMPLES else MANY_SAMPLES
    return chunk_width(n_features, samples * value_bytes), samples


def chunk_width(n_features: int, bytes_per_feature: int) -> int:
    """Return the number of features per chunk: a power of two, for chunks of 4 to 16 MiB.

    Reading per core is fastest for chunks of at least 2 MiB. A small matrix has smaller chunks of
    at least 256 features, so that there are about eight chunks for several cores to read.
    """
    least = -(-4 * 2**20 // bytes_per_feature)
    width = 1 << (least - 1).bit_length()
    small = 1 << max(8, (n_features // 8).bit_length() - 1)
    return max(1, min(width, small, n_features))


@contextmanager
def written_aside(path: Path, *, overwrite: bool) -> Iterator[Path]:
    """Yield a temporary path for a store; rename it to `path` if the with block succeeds.

    If the process is killed, `path` remains unchanged.
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
    """Move a complete folder to `path`; an existing folder there is replaced."""
    old = path.with_name(f".{path.name}.old")  # a folder cannot replace a non-empty one
    shutil.rmtree(old, ignore_errors=True)
    if path.exists():
        path.rename(old)
    aside.rename(path)
    shutil.rmtree(old, ignore_errors=True)


def check_free(path: Path, *, overwrite: bool) -> None:
    """Raise InputError if a path exists, unless it is a Zarr store that may be overwritten."""
    if not path.exists():
        return
    if not overwrite:
        raise InputError(
            f"{path} exists already. Choose another path, or overwrite it (overwrite=True)."
        )
    if not any((path / name).is_file() for name in ("zarr.json", ".zgroup")):
        raise InputError(
            f"{path} is not a Zarr store, so it is not overwritten. Choose another path, or "
            "remove it yourself."
        )

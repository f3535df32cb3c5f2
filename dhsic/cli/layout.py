"""How a store lays its matrix out, what that costs to read, and what would be better."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, prod
from typing import Any

import numpy as np

from dhsic.memory import human
from dhsic.passes.reader import MANY_BLOCKS, block_width
from dhsic.sources.base import AbstractSource
from dhsic.sources.codecs import CHECKSUMS, described
from dhsic.sources.writing import chunk_width
from dhsic.sources.zarr import ChunkedArray, dimension_names

#: Below this many raw bytes a chunk is slower to read than to use.
SMALL_CHUNK = 1 << 20
#: A task holds a block about three times; above this many bytes tasks crowd each other out.
LARGE_BLOCK = 64 << 20
#: Up to here all samples go into one chunk.
ONE_CHUNK_SAMPLES = 250_000


@dataclass(frozen=True)
class Layout:
    """Layout of the array behind a source.

    Attributes
    ----------
    axes : tuple of str
        What the axes are: "features", "samples", then the names of others.
    chunks, shards : tuple of int
        Shapes; shards is None without sharding.
    codecs : tuple of str
        Filters, compressors and checksums, in the order of writing.
    sample_chunks : int
        Chunks side by side that one feature is spread over.
    block_features, block_bytes, n_blocks : int
        Blocks of a pass over all features: the widest, its bytes once read, how many.
    amplification : float
        Bytes decoded per byte of the matrix in a pass over all features: padded chunks at the
        edges, alleles that are folded into a dosage.
    """

    array: str
    axes: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: str
    dims: tuple[str | None, ...] | None
    zarr_format: int
    chunks: tuple[int, ...]
    shards: tuple[int, ...] | None
    codecs: tuple[str, ...]
    has_checksum: bool
    fill_value: str
    stored_bytes: int
    sample_chunks: int
    block_features: int
    block_bytes: int
    n_blocks: int
    amplification: float


def layout_of(source: AbstractSource, data: ChunkedArray) -> Layout:
    """Look at the array that a source reads."""
    array = data.opened()
    axes = ["samples", "features"] if data.feature_axis else ["features", "samples"]
    dims = dimension_names(array)
    others = [str(d) for d in dims[2:]] if dims else [f"axis {i}" for i in range(2, array.ndim)]
    grid = array.shards or array.chunks
    blocks = source.blocks(block_width(source.n_samples, source.n_features, source.dtype.itemsize))
    widest = max(block.width for block in blocks)
    padded = prod(ceil(n / g) * g for n, g in zip(array.shape, grid, strict=True))
    read = source.n_samples * source.n_features * source.dtype.itemsize
    codecs = [described(codec) for codec in (*array.filters, *array.compressors)]
    return Layout(
        array=data.path or array.basename or "/",
        axes=(*axes, *others),
        shape=array.shape,
        dtype=str(array.dtype),
        dims=dims,
        zarr_format=array.metadata.zarr_format,
        chunks=array.chunks,
        shards=array.shards,
        codecs=tuple(_codec_name(*codec) for codec in codecs),
        has_checksum=any(name in CHECKSUMS or config.get("checksum") for name, config in codecs),
        fill_value=str(array.fill_value),
        stored_bytes=int(array.nbytes_stored()),
        sample_chunks=ceil(source.n_samples / grid[1 - data.feature_axis]),
        block_features=widest,
        block_bytes=widest * source.n_samples * source.dtype.itemsize,
        n_blocks=len(blocks),
        amplification=padded * array.dtype.itemsize / read,
    )


def _codec_name(name: str, config: Mapping[str, Any]) -> str:
    if name == "blosc":
        shuffle = {0: "noshuffle", 1: "shuffle", 2: "bitshuffle"}.get(
            config["shuffle"], config["shuffle"]
        )
        return f"blosc ({config['cname']} {config['clevel']}, {shuffle})"
    level = config.get("level")
    return name if level is None else f"{name} {level}"


def better_chunks(source: AbstractSource, layout: Layout) -> dict[str, int]:
    """Chunk sizes to write the store with: 4 to 16 MiB raw, all samples together."""
    m, d = source.n_samples, source.n_features
    per_value = prod(layout.shape[2:]) * np.dtype(layout.dtype).itemsize
    samples = m if m <= ONE_CHUNK_SAMPLES else 10_000
    return {"features": chunk_width(d, samples * per_value), "samples": samples}


def advice(source: AbstractSource, layout: Layout) -> list[str]:
    """What to change, each with the exact fix; empty when there is nothing."""
    best = better_chunks(source, layout)
    out = _about_chunks(source, layout, best)
    if out:
        out.append(f"To write it again: {_fix(layout, best)}.")
    if not layout.has_checksum:
        out.append(
            "No checksum: most damage to stored bytes would pass unseen. End the codecs with "
            "crc32c (format 3) when writing again."
        )
    return out


def _about_chunks(source: AbstractSource, layout: Layout, best: dict[str, int]) -> list[str]:
    out = []
    features = layout.axes.index("features")
    unit = prod(layout.chunks) * np.dtype(layout.dtype).itemsize
    wanted = prod((*best.values(), *layout.shape[2:])) * np.dtype(layout.dtype).itemsize
    if layout.sample_chunks > 1 and best["samples"] == source.n_samples:
        out.append(
            f"Samples are split over {layout.sample_chunks} chunks, so a block of features is "
            f"gathered from {layout.sample_chunks} places."
        )
    if unit < SMALL_CHUNK <= wanted:
        count = ceil(source.n_features / layout.chunks[features]) * layout.sample_chunks
        out.append(f"Chunks are small ({human(unit)} raw, {count:,} of them): reading is slow.")
    if layout.block_bytes > LARGE_BLOCK and best["features"] < layout.block_features:
        out.append(
            f"Chunks are {layout.block_features:,} features wide: every task holds a block of "
            f"{human(layout.block_bytes)}, about three times over."
        )
    if layout.n_blocks < MANY_BLOCKS and best["features"] * 2 < layout.block_features:
        out.append(f"Only {layout.n_blocks} blocks, so at most so many tasks run at once.")
    return out


def _fix(layout: Layout, best: dict[str, int]) -> str:
    sizes = [best.get(axis, n) for axis, n in zip(layout.axes, layout.shape, strict=True)]
    where = ", ".join(str(d) for d in layout.dims) if layout.dims else ", ".join(layout.axes)
    fix = f"chunks={tuple(sizes)} along ({where})"
    if layout.array.endswith("call_genotype"):
        fix += (
            f"; vcf2zarr: --variants-chunk-size {best['features']} "
            f"--samples-chunk-size {best['samples']}"
        )
    return fix

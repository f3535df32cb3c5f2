"""What a plan says of the data: sizes, chunks, blocks."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

from dhsic.scoring.reader import block_width
from dhsic.sources.base import AbstractSource
from dhsic.sources.chunked import ChunkedArray
from dhsic.sources.subset import whole_of


@dataclass(frozen=True, slots=True)
class Stored:
    """The data of a run.

    Attributes
    ----------
    n_samples, n_features : int
        Samples that take part, and features.
    dtype : str
        Of the values as they are read.
    n_bytes : int
        Values as they are read.
    stored_bytes : int or None
        What the store takes, compressed; None where there is none.
    chunk : tuple of int or None
        Features and samples of a chunk (or shard).
    n_chunks : int or None
        How many there are.
    n_blocks, block_features, block_bytes : int
        Blocks of a pass over everything: how many, and the widest.
    """

    n_samples: int
    n_features: int
    dtype: str
    n_bytes: int
    stored_bytes: int | None
    chunk: tuple[int, int] | None
    n_chunks: int | None
    n_blocks: int
    block_features: int
    block_bytes: int

    @staticmethod
    def of(source: AbstractSource, m: int) -> Stored:
        """Look at a source; reads metadata alone."""
        d, itemsize = source.n_features, np.dtype(source.dtype).itemsize
        blocks = source.blocks(block_width(m, d, itemsize))
        widest = max(source.stored_width(block) for block in blocks)
        store = whole_of(source)
        data = getattr(store, "_data", None)
        chunk, stored = None, None
        if isinstance(data, ChunkedArray):
            axis = data.feature_axis
            chunk = int(data.grid[axis]), int(data.grid[1 - axis])
            array = data.opened()
            stored = int(array.nbytes_stored())
        return Stored(
            n_samples=m,
            n_features=d,
            dtype=np.dtype(source.dtype).name,
            n_bytes=m * d * itemsize,
            stored_bytes=stored,
            chunk=chunk,
            n_chunks=None
            if chunk is None
            else ceil(store.n_features / chunk[0]) * ceil(source.n_samples / chunk[1]),
            n_blocks=len(blocks),
            block_features=widest,
            block_bytes=widest * source.n_samples * itemsize,
        )

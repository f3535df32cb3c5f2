"""A source as a lazy matrix: what goes on to whoever takes arrays, read when it is asked for."""

from __future__ import annotations

from functools import partial
from typing import Any
from uuid import uuid4

import dask.array as da
import numpy as np
import xarray as xr

from dhsic._typing import Array
from dhsic.sources import AbstractSource, Block
from dhsic.sources.options import text

#: Features that are read together, about.
WIDTH = 4096


def lazy_matrix(source: AbstractSource) -> xr.DataArray:
    """The matrix (samples, features) as a lazy DataArray with the names that there are.

    Where integers have a code for missing values it is floats, and these are NaN.
    """
    blocks, dtype = source.blocks(WIDTH), np.dtype(source.dtype)
    if source.missing_code is not None and dtype.kind in "iu":
        dtype = np.result_type(dtype, np.float32)
    matrix = da.map_blocks(  # type: ignore[no-untyped-call]
        partial(_values, source, blocks, dtype),
        chunks=((source.n_samples,), tuple(block.width for block in blocks)),
        dtype=dtype,
        meta=np.empty((0, 0), dtype=dtype),
        name=f"features-{uuid4().hex}",
    )
    named = {"samples": source.sample_names(), "features": source.feature_names()}
    coords = {dim: text(names) for dim, names in named.items() if names is not None}
    return xr.DataArray(matrix, coords, dims=("samples", "features"))


def _values(
    source: AbstractSource, blocks: tuple[Block, ...], dtype: Any, block_id: tuple[int, int]
) -> Array:
    """A block (m, c), NaN where values are missing."""
    raw = source.read(blocks[block_id[1]])
    values = raw.astype(dtype, copy=False)
    if values.dtype != raw.dtype:
        values[raw == source.missing_code] = np.nan
    return values

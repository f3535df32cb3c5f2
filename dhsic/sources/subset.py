"""Some features of a source.

Some features of what is not in memory, left where it is.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from dhsic._typing import Array, Index
from dhsic.errors import InputError
from dhsic.sources.arrays import check_chunks
from dhsic.sources.base import AbstractSource, AbstractView, Block
from dhsic.sources.domain import check_dtype
from dhsic.sources.xarray import names_along

#: Coordinate of features that are some of a store's: their positions there.
STORED = "stored_feature"


class SubsetSource(AbstractView):
    """Some features of another source, numbered anew; nothing is copied.

    Blocks are those of the other source with fewer features. Between the features that are
    wanted, the others of a block are read too.

    Attributes
    ----------
    base : AbstractSource
        The other source; of some features of a source, that source.
    features : (d,) int64
        Which of its features, ascending.
    """

    features: Index

    def __init__(self, base: AbstractSource, features: Index) -> None:
        features = np.asarray(features, dtype=np.int64)
        _check(features, base.n_features)
        if isinstance(base, SubsetSource):
            features = base.features[features]
        super().__init__(base.base if isinstance(base, SubsetSource) else base)
        self.features, self.n_features = features, features.size
        self.n_features_filtered = self.base.n_features - features.size

    def __reduce__(self) -> tuple[Any, ...]:
        """As a mask in bits: 64 times smaller than positions, and runs of it shrink further."""
        mask = np.zeros(self.base.n_features, dtype=bool)
        mask[self.features] = True
        return _unpacked, (self.base, zlib.compress(np.packbits(mask).tobytes()))

    def blocks(self, width: int) -> tuple[Block, ...]:
        """Return the blocks of the other source, those that hold features of this one."""
        stored = self.base.blocks(width)
        starts = np.searchsorted(self.features, [block.start for block in stored])
        stops = np.searchsorted(self.features, [block.stop for block in stored])
        held = np.flatnonzero(stops > starts)
        return tuple(Block(i, int(starts[k]), int(stops[k])) for i, k in enumerate(held))

    def read(self, block: Block, rows: Index | None = None) -> Array:
        """Read a block, (m, c)."""
        return self.read_columns(block, np.arange(block.width), rows).T

    def read_columns(self, block: Block, local: Index, rows: Index | None = None) -> Array:
        around = self._around(block)
        wanted = self.features[block.start + local] - around.start
        return self.base.read_columns(around, wanted, rows)

    def stored_width(self, block: Block) -> int:
        """Features from the first to the last of the block, wanted or not."""
        return self.base.stored_width(self._around(block))

    def fingerprint(self) -> str:
        """Hex digest of the other source's and of which features are taken."""
        digest = hashlib.sha256(self.base.fingerprint().encode())
        digest.update(self.features.tobytes())
        return digest.hexdigest()

    def feature_names(self) -> Array | None:
        names = self.base.feature_names()
        return None if names is None else names[self.features]

    def feature_coords(self) -> Mapping[str, Array]:
        known = {STORED: np.arange(self.base.n_features), **self.base.feature_coords()}
        return {name: values[self.features] for name, values in known.items()}

    def of_features(self, values: Array) -> Array:
        taken: Array = values[self.features]
        return taken

    def pieces(self, blocks: tuple[Block, ...]) -> tuple[Any, ...] | None:
        return self.base.pieces(tuple(self._around(block) for block in blocks))

    def with_pieces(self, blocks: tuple[Block, ...], arrays: tuple[Array, ...]) -> AbstractSource:
        """Return the same features of what serves the computed blocks."""
        around = tuple(self._around(block) for block in blocks)
        return SubsetSource(self.base.with_pieces(around, arrays), self.features)

    def _around(self, block: Block) -> Block:
        """From the first to the last feature of a block, as the other source numbers them."""
        first, last = self.features[block.start], self.features[block.stop - 1]
        return Block(block.index, int(first), int(last) + 1)


def whole_of(source: AbstractSource) -> AbstractSource:
    """Return the source that reads the store itself, all features of it."""
    while isinstance(source, AbstractView):
        source = source.base
    return source


def _unpacked(base: AbstractSource, packed: bytes) -> SubsetSource:
    bits = np.frombuffer(zlib.decompress(packed), dtype=np.uint8)
    mask = np.unpackbits(bits, count=base.n_features).astype(bool)
    return SubsetSource(base, np.flatnonzero(mask))


def _check(features: Index, d: int) -> None:
    if features.ndim != 1 or features.size == 0:
        raise InputError(
            f"features have shape {features.shape}; pass positions, at least one, ascending."
        )
    if features[0] < 0 or features[-1] >= d or (np.diff(features) <= 0).any():
        raise InputError(
            f"features are positions from 0 to {d - 1}, ascending, each once; these begin with "
            f"{features[:5].tolist()} and end with {features[-1]}."
        )


def take_features(X: Any, chosen: Index, d: int, names: Array | None = None) -> Any:
    """Features of a dask array, DataArray, Dataset or Zarr array, without computing.

    Parameters
    ----------
    d : int
        Features at fit.
    names : (d,) array, optional
        Their names; where X names its own, they must be those.

    Raises
    ------
    InputError
        X has other features, or is nothing that `fit` would have taken.
    """
    if isinstance(X, (xr.DataArray, xr.Dataset)):
        return X.isel({_feature_dim(X, d, names): chosen})
    shape = getattr(X, "shape", None)
    if not isinstance(shape, tuple) or len(shape) != 2 or not hasattr(X, "dtype") or d not in shape:
        given = shape if isinstance(shape, tuple) else type(X).__name__
        raise InputError(
            f"transform takes arrays with {d} features and got {given}; open a store first, for "
            "instance with xarray.open_zarr(path, mask_and_scale=False)."
        )
    check_dtype(X.dtype, "X")
    check_chunks(X)
    axis = 1 if shape[1] == d else 0
    index = (slice(None), chosen) if axis == 1 else (chosen, slice(None))
    return X.oindex[index] if hasattr(X, "oindex") else X[index]


def _feature_dim(X: xr.DataArray | xr.Dataset, d: int, names: Array | None) -> Any:
    """Dimension of the features, which are those of fit as far as names tell."""
    dims = [dim for dim, size in X.sizes.items() if size == d]
    if len(dims) != 1:
        raise InputError(
            f"The data have dimensions {dict(X.sizes)} and the selector was fitted on {d} "
            "features; pass data with exactly one such dimension."
        )
    if isinstance(X, xr.DataArray):
        check_dtype(X.dtype, "X")
    here = None if names is None else names_along(X, dims[0])
    if names is not None and here is not None:
        _check_names(here, names, str(dims[0]))
    return dims[0]


def _check_names(here: Array, names: Array, dim: str) -> None:
    differ = np.flatnonzero(np.asarray(here, dtype=object) != names)
    if len(differ):
        at = int(differ[0])
        raise InputError(
            f"Features of X along {dim!r} are not those of fit, or in another order: number {at} "
            f"is {str(here[at])!r} and was {str(names[at])!r}. Pass them as at fit, for instance "
            "by X.sel(...)."
        )

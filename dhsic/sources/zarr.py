"""A matrix in Zarr."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import zarr

from dhsic._typing import Array, Index
from dhsic.sources.base import AbstractSource, Block
from dhsic.sources.chunked import ChunkedArray
from dhsic.sources.domain import check_finite, check_shape
from dhsic.sources.fingerprint import fingerprint
from dhsic.sources.labels import DimensionLabels, Labels
from dhsic.sources.watched import MissingChunks


class ZarrSource(AbstractSource):
    """A 2-D Zarr array: format 2 or 3, sharded or not, a folder, a zip file or an object store.

    Parameters
    ----------
    array : zarr.Array
        The matrix.
    feature_axis : int
        Which of its axes, 0 or 1, holds the features.
    missing_code : int or None
        Integer that stands for a missing value.
    missing_chunks : {"error", "fill"}
        Whether a chunk that is not stored is an error or fill values.
    labels : DimensionLabels or VariantLabels, optional
        Names, read when they are asked for.
    """

    def __init__(
        self,
        array: zarr.Array[Any],
        feature_axis: int,
        *,
        missing_code: int | None = None,
        missing_chunks: MissingChunks = "error",
        labels: Labels | None = None,
    ) -> None:
        check_shape(array.shape, str(array.store_path))
        self._data = ChunkedArray(array, feature_axis, missing_chunks)
        self.n_samples, self.n_features = self._data.n_samples, self._data.n_features
        self.dtype = self._data.dtype
        self.missing_code = missing_code
        self.client_bytes = self._data.client_bytes
        self._labels = labels or DimensionLabels()

    def blocks(self, width: int) -> tuple[Block, ...]:
        """Group whole chunks (or shards) into blocks of up to `width` features."""
        return self._data.blocks(width)

    def read(self, block: Block, rows: Index | None = None) -> Array:
        """Read a block, (m, c)."""
        values = self._data.read(block, rows)
        check_finite(values, block, rows, self._data.place)
        return values.T

    def fingerprint(self) -> str:
        """Hex digest of shape, dtype, layout, names and a sample of the data."""
        names = self._labels.identity()
        return fingerprint(self, self._data.edges, self._data.layout, *names)

    def feature_names(self) -> Array | None:
        """Names of the features, or None."""
        return self._labels.feature_names()

    def sample_names(self) -> Array | None:
        """Names of the samples, or None."""
        return self._labels.sample_names()

    def feature_coords(self) -> Mapping[str, Array]:
        """Coordinates of the features, those that the store keeps."""
        return self._labels.feature_coords()

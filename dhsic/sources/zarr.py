"""A matrix in Zarr."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import zarr

from dhsic._typing import Array, Index
from dhsic.sources.base import AbstractSource, Block
from dhsic.sources.chunked import ChunkedArray, dimension_names
from dhsic.sources.domain import check_finite, check_shape
from dhsic.sources.fingerprint import fingerprint
from dhsic.sources.labels import DimensionLabels, Labels, VariantLabels, member
from dhsic.sources.naming import naming_array
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
    labels : DimensionLabels, VariantLabels or FrameLabels, optional
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
        self._dims = dimension_names(array)
        self.n_samples, self.n_features = self._data.n_samples, self._data.n_features
        self.dtype = self._data.dtype
        self.missing_code = missing_code
        self.client_bytes, self.chunk_bytes = self._data.client_bytes, self._data.chunk_bytes
        self._labels = labels or DimensionLabels()

    def named_by(self, group: zarr.Group) -> ZarrSource:
        """Take the names that an axis lacks from the array of `group` that says it holds them.

        Names of dimensions lead to names at once; a matrix without may still have ``variant_id``
        or ``sample_id`` beside it.
        """
        if not isinstance(self._labels, DimensionLabels):
            return self
        dims = self._dims
        if dims is None and self._has_variants(group):
            self._labels = VariantLabels.of(group, self.n_features)
            return self
        beside = {
            name: (array.shape, dimension_names(array), array.dtype.kind)
            for name, array in group.arrays()
        }
        axis = self._data.feature_axis

        def found(length: int, at: int, *, of_features: bool) -> zarr.Array[Any] | None:
            dim = dims[at] if dims else None
            name = naming_array(beside, length, dim, of_features=of_features)
            return None if name is None else member(group, name)

        near = DimensionLabels.of(
            found(self.n_features, axis, of_features=True),
            found(self.n_samples, 1 - axis, of_features=False),
        )
        own = self._labels
        self._labels = DimensionLabels(own.features or near.features, own.samples or near.samples)
        return self

    def _has_variants(self, group: zarr.Group) -> bool:
        """Whether the arrays of VCF Zarr are there for every feature, and none for others."""
        position, ids = member(group, "variant_position"), member(group, "sample_id")
        fits = position is not None and position.shape == (self.n_features,)
        return fits and (ids is None or ids.shape == (self.n_samples,))

    def blocks(self, width: int) -> tuple[Block, ...]:
        """Group whole chunks (or shards) into blocks of up to `width` features."""
        return self._data.blocks(width)

    def read(self, block: Block, rows: Index | None = None) -> Array:
        """Read a block, (m, c)."""
        values = self._data.read(block, rows)
        check_finite(values, block, rows, self._data.place, self.missing_code)
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

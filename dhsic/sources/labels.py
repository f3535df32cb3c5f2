"""Labels that a store keeps beside a matrix, read when they are asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import zarr
from zarr.storage import StorePath

from dhsic._typing import Array
from dhsic.sources.anndata import FrameLabels
from dhsic.sources.chunked import group_at, read_array
from dhsic.sources.names import (
    ALLELES,
    IDS,
    Getter,
    check_variants,
    text,
    variant_coords,
    variant_names,
)
from dhsic.sources.stores import metadata_of, portable


@dataclass(frozen=True, slots=True, eq=False)
class DimensionLabels:
    """One array of names per dimension, as xarray keeps them; either may be absent."""

    features: StorePath | None = None
    samples: StorePath | None = None

    @classmethod
    def of(
        cls, features: zarr.Array[Any] | None, samples: zarr.Array[Any] | None
    ) -> DimensionLabels:
        """Return labels that two arrays hold."""
        return cls(_where(features), _where(samples))

    def feature_names(self) -> Array | None:
        """Names of the features, or None."""
        return _read(self.features)

    def sample_names(self) -> Array | None:
        """Names of the samples, or None."""
        return _read(self.samples)

    def feature_coords(self) -> Mapping[str, Array]:
        """Return no coordinates: there are only names."""
        return {}

    def identity(self) -> tuple[Array | None, ...]:
        """What a fingerprint takes for the names."""
        return self.feature_names(), self.sample_names()


@dataclass(frozen=True, slots=True, eq=False)
class VariantLabels:
    """The arrays ``variant_*``, ``sample_id`` and ``contig_id`` of a VCF Zarr group.

    Text is read once for as long as somebody has it: a million ids take 60 MB.
    """

    group: StorePath
    _held: WeakValueDictionary[str, Array] = field(default_factory=WeakValueDictionary, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return VariantLabels, (self.group,)

    @classmethod
    def of(cls, group: zarr.Group, d: int) -> VariantLabels:
        """Return the labels of a group of d variants.

        Raises
        ------
        DataError
            They are those of others, or name contigs that there are not.
        """
        labels = cls(StorePath(portable(group.store), group.path))
        shapes = {name: array.shape for name, array in group.arrays()}
        check_variants(labels._getter(), shapes, d, str(group.store_path))
        return labels

    def feature_names(self) -> Array | None:
        """Ids of the variants, or "contig:position[:ref:alt]"."""
        return variant_names(self._getter())

    def sample_names(self) -> Array | None:
        """Ids of the samples, or None."""
        ids = self._getter()("sample_id")
        return None if ids is None else text(ids)

    def feature_coords(self) -> Mapping[str, Array]:
        """Contigs, positions and ids of the variants."""
        return variant_coords(self._getter())

    def identity(self) -> tuple[Array | None, ...]:
        """Positions name variants as well as ids do, and are read 100 times as fast."""
        get = self._getter()
        return get("variant_position"), get("variant_contig"), self.sample_names()

    def _getter(self) -> Getter:
        group = group_at(self.group)

        def get(name: str) -> Array | None:
            array = member(group, name)
            if array is None or name not in (IDS, ALLELES):
                return None if array is None else read_array(array, "fill")
            held = self._held.get(name)
            if held is None:
                held = self._held[name] = _read_text(array)
            return held

        return get


#: Rows of text that are read at a time.
ROWS = 1 << 16

Labels = DimensionLabels | VariantLabels | FrameLabels


def member(group: zarr.Group, name: str) -> zarr.Array[Any] | None:
    """Return an array of a group, or None where there is none of that name."""
    with metadata_of(f"{group.store_path}/{name}"):
        found = group.get(name)
    return found if isinstance(found, zarr.Array) else None


def _where(array: zarr.Array[Any] | None) -> StorePath | None:
    return None if array is None else StorePath(portable(array.store), array.path)


def _read_text(array: zarr.Array[Any]) -> Array:
    """Text as objects, some rows at a time: as it is read it takes as much again."""
    chunk = (array.shards or array.chunks)[0]
    step = chunk * -(-ROWS // chunk)
    out = np.empty(array.shape, dtype=object)
    for start in range(0, len(out), step):
        rows = slice(start, start + step)
        out[rows] = text(read_array(array, "fill", rows))
    return out


def _read(names: StorePath | None) -> Array | None:
    if names is None:
        return None
    with metadata_of(names):
        array = zarr.open_array(names.store, path=names.path, mode="r")
    return text(read_array(array, "fill"))

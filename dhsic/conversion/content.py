"""What goes along with a matrix: names, coordinates, labels; everything small of its store."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd
import zarr

from dhsic._typing import Array
from dhsic.errors import DataError, InputError
from dhsic.joins.text import phenotype, read_table, typed
from dhsic.joins.variables import anndata_of
from dhsic.namespace import slices
from dhsic.sources import AbstractSource, Names
from dhsic.sources.anndata import AbstractAnnData, AnnDataStore, axes_of
from dhsic.sources.chunked import arrays_of, read_array
from dhsic.sources.ids import is_id
from dhsic.sources.opening import on_disk, parent
from dhsic.sources.options import FEATURE_DIMS, SAMPLE_DIMS, dimension_names, text
from dhsic.sources.packing import (
    DECLARING,
    MISSING,
    Packing,
    code_among,
    declared,
    names_among,
)
from dhsic.sources.plink import samples_table
from dhsic.sources.variants import ALLELES, ALT, CONTIG, CONTIGS, IDS, NO_CONTIG, POSITION, REF
from dhsic.sources.zarr import create_array, write_array

#: Rows that are copied at a time.
SLAB = 1 << 16
#: Dimensions of genotypes, and of anything else.
OF_CALLS, PLAIN = ("variants", "samples"), ("features", "samples")


@dataclass
class Content:
    """Where the matrix goes, and what else does.

    `arrays` are copied from a store; `values` (by name, with dimensions) are in memory. `left` are
    arrays of the store that stay behind.
    """

    name: str
    dims: tuple[str, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    of_group: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, zarr.Array[Any]] = field(default_factory=dict)
    values: dict[str, tuple[tuple[str, ...], Array]] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, source: AbstractSource, X: Any, variable: str | None = None) -> Content:
        """Metadata of a source that was opened from a variable of X."""
        chunked = source.chunked
        if chunked is None:
            made, store = cls.named(source), anndata_of(X)
            if store is not None:
                made._add_frames(store, source, store.named(variable))
        else:
            array = chunked.opened()
            group = parent(array)
            dims = _dims(dimension_names(array), chunked.feature_axis, array.ndim)
            if source.dosages:
                dims = (*OF_CALLS, "ploidy")[: array.ndim]
            made = cls(array.basename or "X", dims)
            made.attributes = _attributes_of(array)
            held = AnnDataStore.around(array)
            if held is not None:
                made._add_frames(held[0], source, held[1])
            elif group is not None:
                made.of_group = dict(group.attrs)
                made._add_arrays(group, source)
            made.add_names(source.names)
        if isinstance(X, str | PathLike) and (path := samples_table(on_disk(X))) is not None:
            made._add_phenotypes(path)
        if source.missing_code is not None and source.dtype.kind in "iu":
            made.attributes.setdefault(MISSING, int(source.missing_code))
        return made

    @classmethod
    def named(cls, source: AbstractSource) -> Content:
        """What a source knows of itself that is no store."""
        coords = dict(source.feature_coords())
        samples, is_calls = source.sample_names(), source.dosages
        return cls._described(source.names, coords, samples, is_calls=is_calls)

    @classmethod
    def of_table(cls, names: Names) -> Content:
        """Content of a table of text, by its names: their coordinates are in memory."""
        assert not callable(names.coords)
        assert not callable(names.samples)
        return cls._described(names, dict(names.coords), names.samples, is_calls=False)

    @classmethod
    def _described(
        cls, names: Names, coords: dict[str, Array], samples: Array | None, *, is_calls: bool
    ) -> Content:
        """Content by names and coordinates; those of variants are as VCF Zarr has them."""
        is_calls = is_calls or CONTIG in coords
        dims = OF_CALLS if is_calls else PLAIN
        made = cls("call_dosage" if is_calls else "X", dims)
        if is_calls:
            coords = _variants(coords)
        for name, values in coords.items():
            own = ("contigs",) if name == CONTIGS else (dims[0], "alleles")[: values.ndim]
            made.values[name] = own, values
        if is_calls and samples is not None:
            made.values["sample_id"] = dims[1:], samples
        made.add_names(names)
        return made

    def _free(self, name: str) -> str:
        name = name.replace("/", "_") or "_"
        return f"sample_{name}" if name in {self.name, *self.values, *self.dims} else name

    def add_names(self, names: Names) -> None:
        """Labels as variables; names as coordinates, where no array beside the matrix has them."""
        labels = names.sample_coords
        for name, values in (labels() if callable(labels) else labels).items():
            self.values[self._free(name)] = self.dims[1:2], typed(values)
        if POSITION in {*self.arrays, *self.values}:
            return
        for dim, given in zip(self.dims, (names.features, names.samples), strict=False):
            known = given() if callable(given) else given
            if known is not None and dim not in self.arrays:
                self.values[dim] = (dim,), text(np.asarray(known))

    def _add_arrays(self, group: zarr.Group, source: AbstractSource) -> None:
        """Arrays of the group but other matrices."""
        d, m = source.n_features, source.n_samples
        for name, array in arrays_of(group).items():
            if array.shape[:2] in ((d, m), (m, d)):
                if name != self.name:
                    self.left.append(name)
            else:
                self.arrays[name] = array

    def _add_frames(self, store: AbstractAnnData, source: AbstractSource, matrix: str) -> None:
        """Columns of obs and var; what cannot be read stays behind, and matrices but one."""
        self.left += [name for name in store.matrices() if name != matrix]
        sizes = {"var": source.n_features, "obs": source.n_samples}
        for axis, dim in (("var", self.dims[0]), ("obs", self.dims[1])):
            frame = store.frame_along(matrix, axis if axis in axes_of(matrix) else None)
            if frame is None:
                continue
            for name in frame.columns:
                try:
                    values = frame.column(name)
                except DataError:
                    self.left.append(f"{axis}/{name}")
                    continue
                if len(values) == sizes[axis] and values.dtype.kind in "biufOSUT":
                    self.values[self._free(name)] = (dim,), values

    def _add_phenotypes(self, path: str) -> None:
        for name in read_table(path).columns:
            if not is_id(name):
                with suppress(InputError):  # PLINK's codes for missing alone
                    self.values[name] = self.dims[1:2], phenotype(path, name)

    def write(self, group: zarr.Group) -> None:
        """Write all but the matrix."""
        group.attrs.update(self.of_group)
        for name in {*self.arrays, *self.values}.intersection(group.array_keys()):
            del group[name]  # of a conversion that was killed
        for name, array in self.arrays.items():
            _copy(array, group, name)
        for name, (dims, values) in self.values.items():
            write_array(group, name, text(values) if values.dtype.kind in "SUT" else values, dims)


def _dims(known: tuple[str | None, ...] | None, axis: int, ndim: int) -> tuple[str, ...]:
    """Dimensions features first; names that say which is which, of those that have none."""
    names = [*(known or (None,) * ndim)]
    features, samples = names[axis], names[1 - axis]
    more = [name or f"dim_{i}" for i, name in enumerate(names[2:], 2)]
    told = (features or "").lower() in FEATURE_DIMS or (samples or "").lower() in SAMPLE_DIMS
    if features is None or samples is None or not told:
        features, samples = PLAIN
    return features, samples, *more


def _variants(coords: dict[str, Array]) -> dict[str, Array]:
    """Coordinates of variants as VCF Zarr has them: contigs by number, alleles in one array."""
    known = {name: values for name, values in coords.items() if name in (POSITION, IDS)}
    if CONTIG in coords:
        contigs = coords[CONTIG].astype(object)
        contigs[contigs == NO_CONTIG] = None  # which has no number
        index, names = pd.factorize(contigs)
        known |= {CONTIG: index.astype(np.int32), CONTIGS: np.asarray(names, dtype=object)}
    if REF in coords and ALT in coords:
        others = [str(alt).split(",") if alt else [] for alt in coords[ALT]]
        alleles = np.full((len(others), 1 + max(map(len, others))), "", dtype=object)
        alleles[:, 0] = coords[REF]
        for i, alt in enumerate(others):
            alleles[i, 1 : 1 + len(alt)] = alt
        known[ALLELES] = alleles
    return known


def _attributes_of(array: zarr.Array[Any]) -> dict[str, Any]:
    """Attributes of an array once its values are decoded; integers keep their one code."""
    left = {*DECLARING, "_ARRAY_DIMENSIONS"}
    kept = {name: value for name, value in array.attrs.items() if name not in left}
    attributes = declared(array)
    code = code_among(attributes, array.dtype)
    is_kept = code is not None and Packing.of(attributes, array.dtype) is None
    return kept | {MISSING: code} if is_kept else kept


def _copy(array: zarr.Array[Any], group: zarr.Group, name: str) -> None:
    """Copy an array, some rows at a time."""
    dims = tuple(str(dim or f"dim_{i}") for i, dim in enumerate(dimension_names(array) or ()))
    dims = dims or tuple(f"{name}_{i}" for i in range(array.ndim))
    is_text = array.dtype.kind in "SUTO"
    attributes = declared(array)
    packing, code = Packing.of(attributes, array.dtype), code_among(attributes, array.dtype)
    fill = array.fill_value if code is None else code
    n = array.shape[0] if array.ndim else 1
    made = create_array(
        group,
        name,
        shape=array.shape,
        dtype=str if is_text else array.dtype if packing is None else packing.dtype,
        chunks=(min(n, SLAB), *array.shape[1:])[: array.ndim],
        dims=dims,
        fill_value=None if is_text or packing is not None else fill,
    )
    made.attrs.update(_attributes_of(array))
    for rows in slices(n, SLAB) if array.ndim else [...]:
        values = read_array(array, "fill", rows)
        values = values if packing is None else packing.decoded(values)
        made[rows] = names_among(values, attributes) if is_text else values

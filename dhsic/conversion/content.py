"""Metadata that a conversion writes beside the matrix: names, coordinates, labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
from dhsic.joins.variables import along_samples, anndata_of
from dhsic.namespace import slices
from dhsic.sources import AbstractSource, Names
from dhsic.sources.anndata import AbstractAnnData, AnnDataStore, axes_of
from dhsic.sources.chunked import LEVELS, arrays_of, read_array, read_variable
from dhsic.sources.ids import is_id
from dhsic.sources.joined import Part, parts_of
from dhsic.sources.opening import on_disk
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
from dhsic.sources.sexes import ON_X, SEX, SEX_ATTRIBUTES, UNKNOWN, DosagesOnX, Sexes
from dhsic.sources.variants import ALLELES, ALT, CONTIG, CONTIGS, IDS, NO_CONTIG, POSITION, REF
from dhsic.sources.zarr import create_array, write_array
from dhsic.sources.zarr_matrices import parent

#: Number of rows copied at a time.
SLAB = 1 << 16
#: Names of the dimensions of genotypes, and of other matrices.
OF_CALLS, PLAIN = ("variants", "samples"), ("features", "samples")


@dataclass
class Content:
    """Name and dimensions of the new matrix, and the arrays to write beside it.

    Attributes
    ----------
    attributes, of_group : dict
        Attributes of the matrix, and of its group.
    arrays : dict
        Arrays to copy from a store, by name.
    values : dict
        Arrays in memory, by name: their dimensions and values.
    about : dict
        Attributes of some arrays in `values`, by name of the array.
    left : list of str
        Names of arrays of the original store that are not copied.
    """

    name: str
    dims: tuple[str, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    of_group: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, zarr.Array[Any]] = field(default_factory=dict)
    values: dict[str, tuple[tuple[str, ...], Array]] = field(default_factory=dict)
    about: dict[str, dict[str, Any]] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, source: AbstractSource, X: Any, variable: str | None = None) -> Content:
        """Collect the content of a source that was opened from a variable of X."""
        chunked = source.chunked
        if chunked is None:
            content, store = cls.of_source(source), anndata_of(X)
            if store is not None:
                content._add_frames(store, source, store.full_name(variable))
        else:
            array = chunked.opened()
            group = parent(array)
            dims = _dims(dimension_names(array), chunked.feature_axis, array.ndim)
            if source.dosages:
                dims = (*OF_CALLS, "ploidy")[: array.ndim]
            content = cls(array.basename or "X", dims)
            content.attributes = _attributes_of(array)
            found_store = AnnDataStore.containing(array)
            if found_store is not None:
                content._add_frames(found_store[0], source, found_store[1])
            elif group is not None:
                content.of_group = dict(group.attrs)
                content._add_arrays(group, source)
            content.add_names(source.names)
        parts = parts_of(source)
        content._add_phenotypes(parts[0] if parts else Part(source, "", X))
        content._add_variables(parts[:1])
        content.add_sexes(source.on_x, source.n_features)
        if source.missing_code is not None and source.dtype.kind in "iu":
            content.attributes.setdefault(MISSING, int(source.missing_code))
        return content

    @classmethod
    def of_source(cls, source: AbstractSource) -> Content:
        """Collect the content of a source without a store, from its names and coordinates."""
        coords = dict(source.feature_coords())
        samples, is_calls = source.sample_names(), source.dosages
        return cls._described(source.names, coords, samples, is_calls=is_calls)

    @classmethod
    def of_table(cls, names: Names) -> Content:
        """Collect the content of a text table from its names and coordinates in memory."""
        assert not callable(names.coords)
        assert not callable(names.samples)
        return cls._described(names, dict(names.coords), names.samples, is_calls=False)

    @classmethod
    def _described(
        cls, names: Names, coords: dict[str, Array], samples: Array | None, *, is_calls: bool
    ) -> Content:
        """Create content from names and coordinates; variants get the names of VCF Zarr."""
        is_calls = is_calls or CONTIG in coords
        dims = OF_CALLS if is_calls else PLAIN
        content = cls("call_dosage" if is_calls else "X", dims)
        if is_calls:
            coords = _variants(coords)
        for name, values in coords.items():
            own = ("contigs",) if name == CONTIGS else (dims[0], "alleles")[: values.ndim]
            content.values[name] = own, values
        if is_calls and samples is not None:
            content.values["sample_id"] = dims[1:], samples
        content.add_names(names)
        return content

    def _free(self, name: str) -> str:
        name = name.replace("/", "_") or "_"
        return f"sample_{name}" if name in {self.name, *self.values, *self.dims} else name

    def add_names(self, names: Names) -> None:
        """Add labels as variables, and names as coordinates.

        Names are omitted if variants have positions, which name them.
        """
        labels = names.sample_coords
        for name, values in (labels() if callable(labels) else labels).items():
            free_name = self._free(name)
            self.values[free_name] = self.dims[1:2], typed(values)
            self._add_levels(free_name, names.levels.get(name, ()))
        if POSITION in {*self.arrays, *self.values}:
            return
        for dim, names_or_reader in zip(self.dims, (names.features, names.samples), strict=False):
            dim_names = names_or_reader() if callable(names_or_reader) else names_or_reader
            if dim_names is not None and dim not in self.arrays:
                self.values[dim] = (dim,), text(np.asarray(dim_names))

    def _add_arrays(self, group: zarr.Group, source: AbstractSource) -> None:
        """Add the arrays of a group; list other matrices of the same shape in `left`."""
        d, m = source.n_features, source.n_samples
        for name, array in arrays_of(group).items():
            if array.shape[:2] in ((d, m), (m, d)):
                if name != self.name:
                    self.left.append(name)
            else:
                self.arrays[name] = array

    def _add_frames(self, store: AbstractAnnData, source: AbstractSource, matrix: str) -> None:
        """Add the columns of obs and var of AnnData.

        Unreadable columns, and all matrices except `matrix`, are listed in `left`.
        """
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
                    free_name = self._free(name)
                    self.values[free_name] = (dim,), values
                    self._add_levels(free_name, frame.levels(name))

    def _add_levels(self, name: str, levels: Sequence[str]) -> None:
        """Add the levels of an ordered categorical variable, lowest first, to its attributes."""
        if levels:
            self.about[name] = {LEVELS: [*levels]}

    def _add_phenotypes(self, part: Part) -> None:
        """Add the phenotypes in the sample table of a part that consists of PLINK files."""
        path = samples_table(on_disk(part.data)) if isinstance(part.data, str | PathLike) else None
        for name in () if path is None else read_table(path).columns:
            if not is_id(name):
                with suppress(InputError):  # the column has only missing codes
                    values = part.samples_of(phenotype(str(path), name))
                    self.values[name] = self.dims[1:2], values

    def _add_variables(self, parts: Iterable[Part]) -> None:
        """Add one-dimensional variables along the samples from parts in Zarr stores."""
        for part in parts:
            chunked = part.source.chunked
            group = None if chunked is None else parent(chunked.opened())
            arrays = {} if group is None else arrays_of(group)
            for name in along_samples(arrays, part.source):
                if arrays[name].ndim == 1 and name not in self.values:
                    values = part.samples_of(read_variable(arrays[name], "fill"))
                    self.values[name] = self.dims[1:2], values

    def add_sexes(self, on_x: DosagesOnX | None, d: int) -> None:
        """Add the variable SEX; without chromosomes, add the mask (d,) of features on X, too."""
        sex = None if on_x is None or SEX in self.arrays else on_x.sex()
        if on_x is None or sex is None:
            return
        sexes = Sexes.of_codes(sex, len(sex))
        if not sexes.are_known:
            return
        if SEX not in self.values or self.values[SEX][1].dtype.kind not in "OSUT":
            codes = sexes.codes().astype(np.float64)
            codes[codes == UNKNOWN] = np.nan
            self.values[SEX] = self.dims[1:2], codes
        self.about[SEX] = dict(SEX_ATTRIBUTES)
        if not on_x.is_placed:
            mask = np.isin(np.arange(d), on_x.positions)
            self.values[ON_X] = self.dims[:1], mask

    def write(self, group: zarr.Group) -> None:
        """Write everything except the matrix to a group."""
        group.attrs.update(self.of_group)
        for name in {*self.arrays, *self.values}.intersection(group.array_keys()):
            del group[name]  # left by a conversion that was killed
        for name, array in self.arrays.items():
            _copy(array, group, name)
        for name, (dims, values) in self.values.items():
            write_array(group, name, text(values) if values.dtype.kind in "SUT" else values, dims)
            group[name].attrs.update(self.about.get(name, {}))


def _dims(known: tuple[str | None, ...] | None, axis: int, ndim: int) -> tuple[str, ...]:
    """Return the dimension names of a matrix, with features first.

    `known` are the declared names, and `axis` is the axis of the features. If the names do not
    identify an axis, the result contains default names.
    """
    names = [*(known or (None,) * ndim)]
    features, samples = names[axis], names[1 - axis]
    more = [name or f"dim_{i}" for i, name in enumerate(names[2:], 2)]
    is_declared = (features or "").lower() in FEATURE_DIMS or (samples or "").lower() in SAMPLE_DIMS
    if features is None or samples is None or not is_declared:
        features, samples = PLAIN
    return features, samples, *more


def _variants(coords: dict[str, Array]) -> dict[str, Array]:
    """Convert coordinates of variants to VCF Zarr: contigs as indices, alleles as one array."""
    variant_coords = {name: values for name, values in coords.items() if name in (POSITION, IDS)}
    if CONTIG in coords:
        contigs = coords[CONTIG].astype(object)
        contigs[contigs == NO_CONTIG] = None  # unknown contig, index -1
        index, names = pd.factorize(contigs)
        variant_coords |= {CONTIG: index.astype(np.int32), CONTIGS: np.asarray(names, dtype=object)}
    if REF in coords and ALT in coords:
        alternatives = [str(alt).split(",") if alt else [] for alt in coords[ALT]]
        alleles = np.full((len(alternatives), 1 + max(map(len, alternatives))), "", dtype=object)
        alleles[:, 0] = coords[REF]
        for i, alt in enumerate(alternatives):
            alleles[i, 1 : 1 + len(alt)] = alt
        variant_coords[ALLELES] = alleles
    return variant_coords


def _attributes_of(array: zarr.Array[Any]) -> dict[str, Any]:
    """Return the attributes of an array, except those that declare the encoding of values.

    The missing code of integers is kept if they have no other encoding.
    """
    dropped = {*DECLARING, "_ARRAY_DIMENSIONS"}
    attributes_kept = {name: value for name, value in array.attrs.items() if name not in dropped}
    attributes = declared(array)
    code = code_among(attributes, array.dtype)
    is_kept = code is not None and Packing.of(attributes, array.dtype) is None
    return attributes_kept | {MISSING: code} if is_kept else attributes_kept


def _copy(array: zarr.Array[Any], group: zarr.Group, name: str) -> None:
    """Decode an array and write it to a group, `SLAB` rows at a time."""
    dims = tuple(str(dim or f"dim_{i}") for i, dim in enumerate(dimension_names(array) or ()))
    dims = dims or tuple(f"{name}_{i}" for i in range(array.ndim))
    is_text = array.dtype.kind in "SUTO"
    attributes = declared(array)
    packing, code = Packing.of(attributes, array.dtype), code_among(attributes, array.dtype)
    fill = array.fill_value if code is None else code
    n = array.shape[0] if array.ndim else 1
    new_array = create_array(
        group,
        name,
        shape=array.shape,
        dtype=str if is_text else array.dtype if packing is None else packing.dtype,
        chunks=(min(n, SLAB), *array.shape[1:])[: array.ndim],
        dims=dims,
        fill_value=None if is_text or packing is not None else fill,
    )
    new_array.attrs.update(_attributes_of(array))
    for rows in slices(n, SLAB) if array.ndim else [...]:
        values = read_array(array, "fill", rows)
        values = values if packing is None else packing.decoded(values)
        new_array[rows] = names_among(values, attributes) if is_text else values

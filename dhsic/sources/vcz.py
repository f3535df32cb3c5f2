"""Genotypes and dosages in VCF Zarr, as bio2zarr and sgkit write them.

A genotype lists allele indices, one per chromosome copy: 0 reference, above 0 another, -1
missing, -2 no such copy (a haploid call in a diploid array). Its dosage is the number of
non-reference alleles; neither ``sum`` over the copies nor the largest index gives it. The store is
never opened through xarray, whose masking turns dosage 0 into NaN.

Besides calls it says the names, places, FILTER and alleles of its variants, in arrays that are
read when they are asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import pandas as pd
import xarray as xr
import zarr
from zarr.storage import StorePath

from dhsic._typing import Array, Index, Mask
from dhsic.errors import DataError, InputError
from dhsic.sources import AbstractSource, Block, Names, check_finite, refuse_any
from dhsic.sources.options import MissingChunks, OpenOptions, PloidyPolicy, dimension_names, text
from dhsic.sources.views import SubsetSource
from dhsic.sources.zarr import (
    ChunkedArray,
    ZarrSource,
    arrays_of,
    group_at,
    member,
    place_of,
    read_array,
)

#: Arrays that describe variants, and the one that `variant_contig` counts in.
IDS, POSITION, ALLELES = "variant_id", "variant_position", "variant_allele"
CONTIG, CONTIGS = "variant_contig", "contig_id"
FILTER, FILTER_IDS = "variant_filter", "filter_id"
PASS = "PASS"
#: What VCF writes for what is missing: the contig of a variant whose index of it is -1.
NO_CONTIG = "."
#: Rows of text that are read at a time.
AT_A_TIME = 2**16


class Variants:
    """The arrays ``variant_*``, ``sample_id`` and ``contig_id`` of a VCF Zarr group, or a Dataset.

    Text of a group is read once for as long as somebody has it: a million ids take 60 MB.
    """

    def __init__(self, data: StorePath | zarr.Group | xr.Dataset) -> None:
        self._data = data
        self._held: WeakValueDictionary[str, Array] = WeakValueDictionary()
        self._found: dict[str, zarr.Array[Any] | xr.Variable | None] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return Variants, (self._data,)

    @classmethod
    def of(cls, data: StorePath | xr.Dataset, d: int, where: str) -> Variants:
        """Those of d variants; DataError where they are of others, or name unknown contigs."""
        found = cls(data)
        for name in (CONTIG, POSITION, ALLELES, IDS):
            array = found._find(name)
            if array is not None and array.shape[:1] != (d,):
                raise DataError(
                    f"{name} of {where} has shape {array.shape}, and there are {d} variants. The "
                    "store is damaged: write it again."
                )
        index, names = found.get(CONTIG), found.get(CONTIGS)
        if index is None or names is None or index.dtype.kind not in "iu":
            return found
        outside = np.flatnonzero((index < -1) | (index >= len(names)))
        if outside.size:
            raise DataError(
                f"{CONTIG} of {where} is {index[outside[0]]} for variant {outside[0]} "
                f"({outside.size} such in all), and {CONTIGS} names {len(names)} contigs, 0 to "
                f"{len(names) - 1}; -1 is missing. The store is damaged: write it again."
            )
        return found

    @classmethod
    def names_of(cls, data: zarr.Group | xr.Dataset, d: int) -> Names:
        """Names and coordinates of d variants: of a group they are read when they are asked for."""
        if isinstance(data, xr.Dataset):
            here = cls.of(data, d, "the Dataset")
            return Names(here.names(), here.samples(), here.coords())
        stored = cls.of(place_of(data), d, str(data.store_path))
        return Names(stored.names, stored.samples, stored.coords, stored.key, stored.check)

    def names(self) -> Array | None:
        """Name the variants: their ids, "contig:position[:ref:alt]" for those without.

        Ids that repeat name nothing, so then every variant is named by its position.
        """
        ids = self._text(IDS)
        if ids is None:
            return self._places()
        unnamed = np.isin(ids, (".", ""))
        if not unnamed.any() and pd.Index(ids).is_unique:
            return ids  # the places of a million variants take 100 MB
        places = self._places()
        if places is None:
            return ids
        names = np.where(unnamed, places, ids)
        return names if pd.Index(names).is_unique else places

    def samples(self) -> Array | None:
        """Ids of the samples, or None."""
        return self._text("sample_id")

    def coords(self) -> dict[str, Array]:
        """Contig names, positions, ids and alleles of the variants, those that there are."""
        position = self.get(POSITION)
        coords = {
            CONTIG: self._contigs(),
            POSITION: None if position is None else position.astype(np.int64),
            IDS: self._text(IDS),
            **_alleles(self.get(ALLELES)),
        }
        return {name: values for name, values in coords.items() if values is not None}

    def key(self) -> tuple[Array | None, ...]:
        """Positions name variants as well as ids do, and are read 100 times as fast."""
        return self.get(POSITION), self.get(CONTIG), self.samples()

    def check(self) -> None:
        """Read what variants are named by, a part after the other: as text it takes 100 MB."""
        for name in (IDS, POSITION, CONTIG, CONTIGS):
            array = self._find(name)
            if array is not None and not isinstance(array, xr.Variable):
                for rows in _stretches(array):
                    read_array(array, "fill", rows)

    def get(self, name: str, missing_chunks: MissingChunks = "fill") -> Array | None:
        """Values of an array, or None where there is none."""
        array = self._find(name)
        if array is None or isinstance(array, xr.Variable):
            return None if array is None else np.asarray(array.values)
        if name not in (IDS, ALLELES):
            return read_array(array, missing_chunks)
        held = self._held.get(name)
        if held is None:
            held = np.empty(array.shape, dtype=object)
            for rows in _stretches(array):  # as it is read text takes as much again
                held[rows] = text(read_array(array, missing_chunks, rows))
            self._held[name] = held
        return held

    def _find(self, name: str) -> zarr.Array[Any] | xr.Variable | None:
        if name not in self._found:
            data = self._opened
            self._found[name] = (
                data.variables.get(name) if isinstance(data, xr.Dataset) else member(data, name)
            )
        return self._found[name]

    @cached_property
    def _opened(self) -> zarr.Group | xr.Dataset:
        return group_at(self._data) if isinstance(self._data, StorePath) else self._data

    def _text(self, name: str) -> Array | None:
        values = self.get(name)
        return None if values is None else text(values)

    def _contigs(self) -> Array | None:
        index, names = self.get(CONTIG), self.get(CONTIGS)
        if index is None:
            return None
        if names is None or index.dtype.kind not in "iu":
            return text(index)
        contigs: Array = np.append(text(names), NO_CONTIG)[index]  # the last one, at -1
        return contigs

    def _places(self) -> Array | None:
        contigs, positions, alleles = self._contigs(), self.get(POSITION), self.get(ALLELES)
        if contigs is None or positions is None:
            return None
        places = [f"{c}:{p}" for c, p in zip(contigs, positions, strict=True)]
        if alleles is not None and not pd.Index(places).is_unique:
            places = [
                f"{place}:{row[0]}:{','.join(a for a in row[1:] if a)}"
                for place, row in zip(places, text(alleles), strict=True)
            ]
        return np.array(places, dtype=object)


def _alleles(alleles: Array | None) -> dict[str, Array]:
    """Reference alleles, and all others of each variant between commas."""
    if alleles is None or alleles.ndim != 2 or not alleles.shape[1]:
        return {}
    columns = [text(column) for column in alleles.T]
    alt = columns[1].copy() if columns[1:] else np.full(len(alleles), "", dtype=object)
    for column in columns[2:]:
        more = np.flatnonzero(column != "")
        alt[more] = [f"{a},{b}" for a, b in zip(alt[more], column[more], strict=True)]
    return {"variant_ref": columns[0], "variant_alt": alt}


@dataclass(frozen=True, eq=False)
class Filters:
    """FILTER of the variants: PASS, another one, or none, "." in VCF: then it was not applied.

    `by_id` counts variants by filter other than PASS, of which a variant may have several.
    """

    passed: Mask  # (d,)
    n_failed: int
    n_unset: int
    by_id: Mapping[str, int]

    @classmethod
    def of(cls, data: Any, d: int, missing_chunks: MissingChunks = "error") -> Filters | None:
        """Return those of a group or Dataset of d variants, None where it keeps none."""
        if not isinstance(data, zarr.Group | xr.Dataset):
            return None
        variants = Variants(data)
        given, listed = (variants.get(name, missing_chunks) for name in (FILTER, FILTER_IDS))
        if given is None or listed is None:
            return None
        if given.shape != (d, listed.size):
            raise DataError(
                f"{FILTER} has shape {given.shape}, and there are {d} features and {listed.size} "
                f"filters in {FILTER_IDS}. The features are no variants, or the store is damaged: "
                "choose another variable, or write it again."
            )
        ids = [str(name) for name in listed]
        has = given.astype(bool)
        passed = has[:, ids.index(PASS)] if PASS in ids else np.zeros(d, dtype=bool)
        n_set = int(has.any(axis=1).sum())
        counts = zip(ids, has.sum(axis=0), strict=True)
        by_id = {name: int(n) for name, n in counts if n and name != PASS}
        return cls(passed, n_set - int(passed.sum()), d - n_set, by_id)

    def plain(self) -> dict[str, Any]:
        """Counts, for JSON."""
        n_passed = int(self.passed.sum())
        counts = {"pass": n_passed, "other": self.n_failed, "none": self.n_unset}
        return {**counts, "by_id": dict(self.by_id)}

    def __str__(self) -> str:
        named = ", ".join(f"{name} {n:,}" for name, n in self.by_id.items())
        failed = f"{self.n_failed:,} other{f' ({named})' if named else ''}"
        return f"{int(self.passed.sum()):,} PASS, {failed}, {self.n_unset:,} none ('.')"


def passing(source: AbstractSource, data: Any, missing_chunks: MissingChunks) -> SubsetSource:
    """Return the features of a source, opened from `data`, that are variants with FILTER PASS."""
    filters = Filters.of(data, source.n_features, missing_chunks)
    if filters is None:
        raise InputError(
            f"The data hold no {FILTER} with {FILTER_IDS}, as VCF Zarr does, so it is not known "
            "which features pass. Leave out pass_only=True."
        )
    if not filters.passed.any():
        raise InputError(
            f"The FILTER of none of {source.n_features} variants is PASS: {filters}. Leave out "
            "pass_only=True, or apply filters before converting."
        )
    return SubsetSource(source, np.flatnonzero(filters.passed))


def n_multiallelic(group: zarr.Group) -> int | None:
    """Count variants with two alternative alleles or more; None where alleles are not kept."""
    alleles = member(group, ALLELES)
    if alleles is None or alleles.ndim != 2:
        return None
    if alleles.shape[1] < 3:  # the reference, and one other
        return 0
    parts = (read_array(alleles, "fill", rows) for rows in _stretches(alleles))
    return sum(int(((part[:, 1:] != "").sum(axis=1) > 1).sum()) for part in parts)


def _stretches(array: zarr.Array[Any]) -> list[slice]:
    """Rows of an array in stretches of whole chunks."""
    chunk = (array.shards or array.chunks)[0]
    step = chunk * -(-AT_A_TIME // chunk)
    return [slice(start, start + step) for start in range(0, array.shape[0], step)]


MISSING = -1
NO_COPY = -2
#: Variables that hold dosages, and alleles of a call where no genotypes tell.
DOSAGES, DIPLOID = ("call_dosage", "call_DS"), 2


@dataclass(frozen=True, eq=False)
class Calls:
    """How calls, features first, become numbers.

    ``call_genotype`` (variants, samples, ploidy) becomes the number of non-reference alleles,
    int8, -1 where missing: at a multi-allelic site all alternative alleles count together, 0/2 is
    1 and 1/2 is 2. Other variables (``call_dosage``, ``call_DS``) are read as they are; a
    third dimension is accepted when it has one element. A mask (``call_dosage_mask``) is honoured.

    `chunked` is where they are stored, `n_alleles` how many a variant may have where that is known;
    `mask` says which calls are missing.
    """

    chunked: ChunkedArray
    policy: PloidyPolicy
    is_genotype: bool
    n_alleles: int | None
    mask: ChunkedArray | None

    @property
    def dtype(self) -> Any:
        """Dtype of the numbers."""
        return np.dtype(np.int8) if self.is_genotype else self.chunked.dtype

    @property
    def missing_code(self) -> int | None:
        """-1, or the largest value where numbers have no sign and a mask says what is missing."""
        if self.dtype.kind == "b" and self.mask is not None:
            raise InputError(
                f"{self.mask.label} masks booleans, which have no value for missing. Choose "
                "another variable, or write it as int8 with -1 where missing."
            )
        if self.dtype.kind == "u" and self.mask is not None:
            return int(np.iinfo(self.dtype).max)
        return MISSING if self.dtype.kind == "i" else None

    def numbers(self, values: Array, block: Block, rows: Index | None) -> Array:
        """Numbers (c, m) of stored calls (c, m, ...)."""
        if self.is_genotype:
            self._check_alleles(values, block, rows)
            return fold(values, self.policy)
        values = values.reshape(values.shape[:2])
        if self.mask is not None:
            masked = self.mask.read(block, rows).reshape(values.shape).astype(bool)
            values[masked] = np.nan if values.dtype.kind == "f" else self.missing_code
        check_finite(values, block, rows, self.chunked.place, self.missing_code)
        self._check_numbers(values, block, rows)
        return values

    def _check_alleles(self, genotypes: Array, block: Block, rows: Index | None) -> None:
        if not genotypes.size:
            return
        lowest, highest = int(genotypes.min()), int(genotypes.max())
        most = highest if self.n_alleles is None else self.n_alleles - 1
        lower_bound = MISSING if self.policy == "error" else NO_COPY
        if lower_bound <= lowest and highest <= most:
            return
        place = self.chunked.place
        outside: Any = (genotypes < NO_COPY) | (genotypes > most)
        why = (
            f"; allele indices are -2 (no copy), -1 (missing) or 0 to {most}. The store is "
            "damaged, or holds something else: write it again."
        )
        refuse_any(outside.any(axis=-1), genotypes, block, rows, place, why)
        why = (
            ", a call of lower ploidy. Pass ploidy_policy='count' or 'scale', or leave out haploid "
            "variants."
        )
        refuse_any(np.any(genotypes == NO_COPY, axis=-1), genotypes, block, rows, place, why)

    def _check_numbers(self, values: Array, block: Block, rows: Index | None) -> None:
        if values.dtype.kind == "b" or not values.size:
            return
        negative: Mask = values < 0
        if self.missing_code is not None:
            negative &= values != self.missing_code
        missing = "NaN" if values.dtype.kind == "f" else self.missing_code
        why = f"; what a call counts is not negative. Write missing calls as {missing}."
        refuse_any(negative, values, block, rows, self.chunked.place, why)


def open_calls(group: zarr.Group, variable: str, options: OpenOptions) -> ZarrSource:
    """Open a variable with dimensions (variants, samples, ...) of a VCF Zarr group."""
    label = f"{group.store_path}/{variable}"
    array = member(group, variable)
    if array is None:
        held = ", ".join(f"{name} {a.shape}" for name, a in sorted(arrays_of(group).items()))
        raise InputError(f"{group.store_path} holds no {variable}. It holds {held or 'no arrays'}.")
    is_genotypes = is_genotype(array)
    axis = _variants_axis(array, label, is_genotype=is_genotypes)
    chunked = ChunkedArray(array, axis, options.missing_chunks)
    names = Variants.names_of(group, chunked.n_features)
    ids, alleles = member(group, "sample_id"), member(group, ALLELES)
    if ids is not None and ids.shape != (chunked.n_samples,):
        raise DataError(
            f"sample_id of {group.store_path} has shape {ids.shape}, and {chunked.label} has "
            f"{chunked.n_samples} samples. The store is damaged: write it again."
        )
    mask = None if is_genotypes else member(group, f"{variable}_mask")
    calls = Calls(
        chunked,
        options.ploidy_policy,
        is_genotypes,
        None if alleles is None else int(alleles.shape[1]),
        None if mask is None else ChunkedArray(mask, axis, options.missing_chunks),
    )
    source = ZarrSource(chunked, names, missing_code=calls.missing_code, calls=calls)
    source.dosages = is_genotypes or variable in DOSAGES
    source.keeps_codes = True  # values that are none of these are refused
    if source.dosages:
        genotypes = array if is_genotypes else member(group, "call_genotype")
        shape = () if genotypes is None else genotypes.shape
        source.ploidy = int(shape[2]) if len(shape) == 3 else DIPLOID
    options.check_dim(1, "samples", label)
    options.check_length(source.n_samples, label)
    return source


def holds_calls(array: zarr.Array[Any]) -> bool:
    """Whether it is a variable of calls."""
    dims = dimension_names(array)
    named = dims is None or set(dims[:2]) == {"variants", "samples"}
    return array.basename.startswith("call_") and array.ndim >= 2 and named


def is_genotype(array: zarr.Array[Any]) -> bool:
    """Whether an array lists alleles per chromosome copy."""
    dims = dimension_names(array)
    named = array.basename == "call_genotype" if dims is None else dims[-1] == "ploidy"
    return array.ndim == 3 and named


def _variants_axis(array: zarr.Array[Any], label: str, *, is_genotype: bool) -> int:
    """Return the axis of the variants: by name where there are names, else the first."""
    dims = dimension_names(array)
    known = dims or ("variants", "samples")
    if array.ndim < 2 or set(known[:2]) != {"variants", "samples"}:
        raise InputError(
            f"{label} has shape {array.shape} and dimensions {known}; calls have dimensions "
            "(variants, samples) and perhaps ploidy. Choose another variable."
        )
    if array.ndim > 2 and not is_genotype and array.shape[2:] != (1,):
        raise InputError(
            f"{label} has shape {array.shape}{f' and dimensions {dims}' if dims else ''}: several "
            "numbers per call, and a feature is one. Choose variable='call_genotype', or a "
            "variable with dimensions (variants, samples), or split multi-allelic variants before "
            "converting."
        )
    return known.index("variants")


def fold(genotypes: Array, policy: PloidyPolicy) -> Array:
    """Fold allele indices (..., ploidy) into dosages (...), int8, -1 where missing.

    A call is missing when one of its alleles is, or when it has no copy at all. Calls of lower
    ploidy count what they have, or are scaled up to the full ploidy (rounded half to even).
    """
    if genotypes.dtype == np.int8 and genotypes.shape[-1] == 2:
        # 65,536 pairs are all there are: one look-up instead of seven passes, 4 times as fast.
        pairs = np.ascontiguousarray(genotypes).view(np.uint16)[..., 0]
        dosages: Array = _pair_table(policy)[pairs]
        return dosages
    return _fold(genotypes, policy)


@cache
def _pair_table(policy: PloidyPolicy) -> Array:
    pairs = np.arange(2**16, dtype=np.uint16).view(np.int8).reshape(-1, 2)
    return _fold(pairs, policy)


def _fold(genotypes: Array, policy: PloidyPolicy) -> Array:
    ploidy = genotypes.shape[-1]
    dosage = np.zeros(genotypes.shape[:-1], np.int8)
    copies = np.zeros_like(dosage)
    missing = np.zeros(dosage.shape, bool)
    for k in range(ploidy):  # strided, 10 times as fast as a reduction over a short last axis
        allele = genotypes[..., k]
        dosage += allele > 0
        copies += allele != NO_COPY
        missing |= allele == MISSING
    if policy == "scale":
        scaled = dosage * (ploidy / np.maximum(copies, 1))
        dosage = np.rint(scaled).astype(np.int8)
    dosage[missing | (copies == 0)] = MISSING
    return dosage

"""What VCF Zarr says of its variants besides calls: names and places, FILTER, alleles.

Variants have names and coordinates in the arrays of VCF Zarr and sgkit; they are read when they
are asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import pandas as pd
import xarray as xr
import zarr
from zarr.storage import StorePath

from dhsic._typing import Array, Mask
from dhsic.errors import DataError, InputError
from dhsic.sources.base import AbstractSource, Names
from dhsic.sources.options import MissingChunks, text
from dhsic.sources.views import SubsetSource
from dhsic.sources.zarr import group_at, member, place_of, read_array

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
        return Names(stored.names, stored.samples, stored.coords, stored.key)

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
        data = self._opened
        return data.variables.get(name) if isinstance(data, xr.Dataset) else member(data, name)

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

"""What VCF Zarr says of its variants besides calls: their FILTER, how many alleles they have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
import zarr

from dhsic._typing import Array, Mask
from dhsic.errors import DataError, InputError
from dhsic.sources.base import AbstractSource
from dhsic.sources.chunked import read_array
from dhsic.sources.labels import member
from dhsic.sources.subset import SubsetSource
from dhsic.sources.watched import MissingChunks

FILTER, FILTER_IDS, ALLELES = "variant_filter", "filter_id", "variant_allele"
PASS = "PASS"
#: Alleles of so many variants are read at once.
AT_A_TIME = 2**16


@dataclass(frozen=True, eq=False)
class Filters:
    """FILTER of the variants.

    Attributes
    ----------
    passed : (d,) bool
        Whether it is PASS.
    n_failed : int
        Variants with another one.
    n_unset : int
        Variants with none, "." in VCF: filters were not applied, so they have not passed.
    by_id : mapping
        Variants by filter, those other than PASS that any has; a variant may have several.
    """

    passed: Mask
    n_failed: int
    n_unset: int
    by_id: Mapping[str, int]

    @classmethod
    def of(cls, data: Any, d: int, missing_chunks: MissingChunks = "error") -> Filters | None:
        """Return those of a group or Dataset of d variants, None where it keeps none.

        Raises
        ------
        DataError
            They are not those of d variants and the filters that are listed.
        """
        given, listed = (_values(data, name, missing_chunks) for name in (FILTER, FILTER_IDS))
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
    """Return the features of a source that are variants whose FILTER is PASS.

    Raises
    ------
    InputError
        `data`, which the source was opened from, keep no FILTER, or no variant passed.
    DataError
        The filters are damaged, or of other variants.
    """
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
    return sum(int(((part[:, 1:] != "").sum(axis=1) > 1).sum()) for part in _parts(alleles))


def _parts(array: zarr.Array[Any]) -> Iterator[Array]:
    """Rows of an array, whole chunks at a time."""
    chunk = (array.shards or array.chunks)[0]
    step = chunk * max(1, AT_A_TIME // chunk)
    for start in range(0, array.shape[0], step):
        yield read_array(array, "fill", slice(start, start + step))


def _values(data: Any, name: str, missing_chunks: MissingChunks) -> Array | None:
    if isinstance(data, xr.Dataset):
        return np.asarray(data[name].values) if name in data else None
    array = member(data, name) if isinstance(data, zarr.Group) else None
    return None if array is None else read_array(array, missing_chunks)

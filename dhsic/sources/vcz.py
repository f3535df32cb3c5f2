"""Genotypes and dosages in VCF Zarr, as bio2zarr and sgkit write them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import zarr

from dhsic._typing import Array, Index, Mask
from dhsic.errors import DataError, InputError
from dhsic.sources.base import AbstractSource, Block
from dhsic.sources.chunked import ChunkedArray, dimension_names
from dhsic.sources.domain import check_finite, first_bad
from dhsic.sources.dosage import (
    DIPLOID,
    DOSAGES,
    MISSING,
    NO_COPY,
    PloidyPolicy,
    check_policy,
    fold,
)
from dhsic.sources.fingerprint import fingerprint
from dhsic.sources.labels import VariantLabels, member
from dhsic.sources.watched import MissingChunks


class VczSource(AbstractSource):
    """Calls of a VCF Zarr group: genotypes folded into dosages, or numbers per call.

    ``call_genotype`` (variants, samples, ploidy) becomes the number of non-reference alleles,
    int8, -1 where missing: at a multi-allelic site all alternative alleles count together, 0/2 is
    1 and 1/2 is 2. Other variables (``call_dosage``, ``call_DS``) are read as they are; a
    third dimension is accepted when it has one element. A mask (``call_dosage_mask``) is honoured.

    Parameters
    ----------
    group : zarr.Group
        The store; it is never opened through xarray, whose masking turns dosage 0 into NaN.
    variable : str
        A variable with dimensions (variants, samples, ...).
    ploidy_policy : {"count", "scale", "error"}
        What a call of lower ploidy counts: its alleles, as many as full ploidy has, or an error.
    missing_chunks : {"error", "fill"}
        Whether a chunk that is not stored is an error or fill values.
    """

    def __init__(
        self,
        group: zarr.Group,
        variable: str = "call_genotype",
        *,
        ploidy_policy: PloidyPolicy = "count",
        missing_chunks: MissingChunks = "error",
    ) -> None:
        check_policy(ploidy_policy)
        array = member(group, variable)
        if array is None:
            raise InputError(f"{group.store_path} holds no {variable}. It holds {contents(group)}.")
        axis = calls_axis(array, f"{group.store_path}/{variable}")
        self._data = ChunkedArray(array, axis, missing_chunks)
        self._labels = VariantLabels.of(group, self._data.n_features)
        _check_samples(group, self._data)
        self._is_genotype = is_genotype(array)
        _check_third_axis(array, self._data.label, is_genotype=self._is_genotype)
        mask = None if self._is_genotype else member(group, f"{variable}_mask")
        self._mask = None if mask is None else ChunkedArray(mask, axis, missing_chunks)
        alleles = member(group, "variant_allele")
        self._n_alleles = None if alleles is None else int(alleles.shape[1])
        self._policy = ploidy_policy
        self.n_samples, self.n_features = self._data.n_samples, self._data.n_features
        self.dtype = np.dtype(np.int8) if self._is_genotype else self._data.dtype
        self.missing_code = _missing_code(self.dtype, self._mask)
        self.dosages = self._is_genotype or variable in DOSAGES
        self.keeps_codes = True  # values that are none of these are refused
        self.ploidy = _ploidy(group, array)
        self.client_bytes, self.chunk_bytes = self._data.client_bytes, self._data.chunk_bytes

    def blocks(self, width: int) -> tuple[Block, ...]:
        """Group whole chunks (or shards) into blocks of up to `width` variants."""
        return self._data.blocks(width)

    def read(self, block: Block, rows: Index | None = None) -> Array:
        """Read a block, (m, c)."""
        values = self._data.read(block, rows)
        if self._is_genotype:
            self._check_alleles(values, block, rows)
            return fold(values, self._policy).T
        values = values.reshape(values.shape[:2])
        if self._mask is not None:
            masked = self._mask.read(block, rows).reshape(values.shape).astype(bool)
            values[masked] = np.nan if values.dtype.kind == "f" else self.missing_code
        check_finite(values, block, rows, self._data.place, self.missing_code)
        self._check_numbers(values, block, rows)
        return values.T

    def _check_alleles(self, genotypes: Array, block: Block, rows: Index | None) -> None:
        if not genotypes.size:
            return
        lowest, highest = int(genotypes.min()), int(genotypes.max())
        most = highest if self._n_alleles is None else self._n_alleles - 1
        lower_bound = MISSING if self._policy == "error" else NO_COPY
        if lower_bound <= lowest and highest <= most:
            return
        outside: Mask = (genotypes < NO_COPY) | (genotypes > most)
        if outside.any():
            where = first_bad(np.any(outside, axis=-1), genotypes, block, rows, self._data.place)
            raise DataError(
                f"{where}; allele indices are -2 (no copy), -1 (missing) or 0 to {most}. The "
                "store is damaged, or holds something else: write it again."
            )
        partial: Mask = np.any(genotypes == NO_COPY, axis=-1)
        where = first_bad(partial, genotypes, block, rows, self._data.place)
        raise DataError(
            f"{where}, a call of lower ploidy. Pass ploidy_policy='count' or 'scale', or leave "
            "out haploid variants."
        )

    def _check_numbers(self, values: Array, block: Block, rows: Index | None) -> None:
        if values.dtype.kind == "b" or not values.size:
            return
        negative: Mask = values < 0
        if self.missing_code is not None:
            negative &= values != self.missing_code
        if negative.any():
            raise DataError(
                f"{first_bad(negative, values, block, rows, self._data.place)}; what a call "
                "counts is not negative. Write missing calls as "
                f"{'NaN' if values.dtype.kind == 'f' else self.missing_code}."
            )

    def fingerprint(self) -> str:
        layout = (self._data.layout, self._policy, self._mask is not None)
        return fingerprint(self, self._data.edges, layout, *self._labels.identity())

    def feature_names(self) -> Array | None:
        """Ids of the variants, or "contig:position[:ref:alt]"."""
        return self._labels.feature_names()

    def sample_names(self) -> Array | None:
        return self._labels.sample_names()

    def feature_coords(self) -> Mapping[str, Array]:
        """Contigs, positions and ids of the variants."""
        return self._labels.feature_coords()


def _check_samples(group: zarr.Group, data: ChunkedArray) -> None:
    ids = member(group, "sample_id")
    if ids is not None and ids.shape != (data.n_samples,):
        raise DataError(
            f"sample_id of {group.store_path} has shape {ids.shape}, and {data.label} has "
            f"{data.n_samples} samples. The store is damaged: write it again."
        )


def _ploidy(group: zarr.Group, calls: zarr.Array[Any]) -> int | None:
    """Alleles of a full call; None where calls count none."""
    genotypes = calls if is_genotype(calls) else member(group, "call_genotype")
    if calls is not genotypes and calls.basename not in DOSAGES:
        return None
    return DIPLOID if genotypes is None or genotypes.ndim != 3 else int(genotypes.shape[2])


def _missing_code(dtype: Any, mask: ChunkedArray | None) -> int | None:
    """-1, or the largest value where numbers have no sign and a mask says what is missing."""
    if dtype.kind == "b" and mask is not None:
        raise InputError(
            f"{mask.label} masks booleans, which have no value for missing. Choose another "
            "variable, or write it as int8 with -1 where missing."
        )
    if dtype.kind == "u" and mask is not None:
        return int(np.iinfo(dtype).max)
    return MISSING if dtype.kind == "i" else None


def contents(group: zarr.Group) -> str:
    """List the arrays of a group with their shapes."""
    arrays = sorted((name, array.shape) for name, array in group.arrays())
    return ", ".join(f"{name} {shape}" for name, shape in arrays) or "no arrays"


def is_genotype(array: zarr.Array[Any]) -> bool:
    """Whether an array lists alleles per chromosome copy."""
    dims = dimension_names(array)
    named = array.basename == "call_genotype" if dims is None else dims[-1] == "ploidy"
    return array.ndim == 3 and named


def calls_axis(array: zarr.Array[Any], label: str) -> int:
    """Return the axis of the variants: by name where there are names, else the first."""
    dims = dimension_names(array) or ("variants", "samples")
    if array.ndim < 2 or set(dims[:2]) != {"variants", "samples"}:
        raise InputError(
            f"{label} has shape {array.shape} and dimensions {dims}; calls have dimensions "
            "(variants, samples) and perhaps ploidy. Choose another variable."
        )
    return dims.index("variants")


def _check_third_axis(array: zarr.Array[Any], label: str, *, is_genotype: bool) -> None:
    if array.ndim == 2 or is_genotype or array.shape[2:] == (1,):
        return
    dims = dimension_names(array)
    raise InputError(
        f"{label} has shape {array.shape}{f' and dimensions {dims}' if dims else ''}: several "
        "numbers per call, and a feature is one. Choose variable='call_genotype', or a variable "
        "with dimensions (variants, samples), or split multi-allelic variants before converting."
    )

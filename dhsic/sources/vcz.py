"""Genotypes and dosages in VCF Zarr, as written by bio2zarr and sgkit.

A genotype lists allele indices, one per chromosome copy: 0 is the reference allele, numbers above 0
are other alleles, -1 is missing, and -2 is an absent copy (a haploid call in a diploid array). The
dosage is the number of non-reference alleles, not the sum of the indices or the largest index. The
store is never opened through xarray, because xarray's masking replaces dosage 0 by NaN.

Other arrays of a store that describe variants are read by `dhsic.sources.variants`.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from dhsic._typing import Array, Index, Mask
from dhsic.errors import DataError, InputError
from dhsic.namespace import slices
from dhsic.sources import Names
from dhsic.sources.blocks import Block, check_finite, refuse_any
from dhsic.sources.chunked import ChunkedArray, arrays_of, member, place_of
from dhsic.sources.males import CopiesOfX, males_by_calls, n_heterozygous, places_on_x
from dhsic.sources.options import OpenOptions, PloidyPolicy, dimension_names, text
from dhsic.sources.packing import Packing, code_among, declared
from dhsic.sources.sexes import DIPLOID, DosagesOnX, Sexes, stored_sex
from dhsic.sources.variants import (
    ALLELES,
    CONTIG,
    CONTIGS,
    Variants,
    chromosome_name,
    chromosome_names,
)
from dhsic.sources.zarr import ZarrSource

MISSING = -1
NO_COPY = -2
#: Bits that are set in a pair of alleles unless both are 0 or 1; and number of pairs at a time,
#: which is large because threads wait for each other between calls.
NOT_0_OR_1, AT_A_TIME = 0xFEFE, 1 << 21
#: Variables that hold dosages.
DOSAGES = ("call_dosage", "call_DS")
#: Names of X; and number of its variants from which males are recognised.
X, FEW_VARIANTS = ("X", "23"), 8


@dataclass(frozen=True, eq=False)
class Calls:
    """Conversion of stored calls, with features on the first axis, to numbers such as dosages.

    ``call_genotype`` (variants, samples, ploidy) becomes the number of non-reference alleles, int8,
    or -1 if missing. At a multi-allelic site all alternative alleles count: 0/2 is 1 and 1/2 is 2.
    Other variables (``call_dosage``, ``call_DS``) are read unchanged. They may have a third
    dimension of one element. A mask (``call_dosage_mask``) is applied.

    `chunked` is the stored array, and `n_alleles` the maximum number of alleles of a variant, if
    known. `mask` is the stored mask of missing calls, and `variants` are the annotations, such as
    contigs and positions.
    """

    chunked: ChunkedArray
    policy: PloidyPolicy
    is_genotype: bool
    n_alleles: int | None
    mask: ChunkedArray | None
    variants: Variants | None = None

    @cached_property
    def haploid_by_contig(self) -> dict[str, int]:
        """Number of haploid samples per contig, for contigs that are diploid in other samples.

        A sample is haploid if it has a haploid call at the variant in the middle of the contig. On
        X, males that are recognised by their calls (`homozygous_males`) are haploid, too. Autosomes
        are not examined.

        Raises
        ------
        InputError
            Some samples have only half calls (0/.) on a contig.
        """
        haploid: dict[str, int] = {}
        for name, at in self._sex_contigs.items():
            self._check_half_calls(name, at)
            middle = int(at[at.size // 2])
            copies = self.copies(self.chunked.read(Block(0, middle, middle + 1), None)[0])
            n = int((copies == 1).sum())
            if n and (copies > 1).any():
                haploid[name] = n
            elif self._is_x(name) and self.homozygous_males.any():
                haploid[name] = int(self.homozygous_males.sum())
        return haploid

    def _check_half_calls(self, contig: str, at: Index) -> None:
        """Refuse half calls (0/.) that are all calls of some samples at the features `at`.

        Programs that write a single copy in this way mean a haploid call; as half calls, all calls
        of these samples would be missing.
        """
        m, first = self.chunked.n_samples, max(0, at.size // 2 - FEW_VARIANTS // 2)
        n_half, n_whole = np.zeros(m, dtype=int), np.zeros(m, dtype=int)
        for j in at[first : first + FEW_VARIANTS].tolist():
            calls = self.chunked.read(Block(0, j, j + 1), None)[0]
            is_half = (calls >= 0).any(axis=-1) & (calls == MISSING).any(axis=-1)
            n_half += is_half
            n_whole += ~is_half & (calls >= 0).any(axis=-1)
        n = int(((n_half > 0) & (n_whole == 0)).sum())
        if n < 2 or n_half.max() < min(at.size, FEW_VARIANTS) / 2:
            return
        remedy = _haploid_calls(self.chunked.label, contig)
        raise InputError(
            f"{n:,} of {m:,} samples of {self.chunked.label} have only half calls (0/.) on "
            f"{contig}: one allele, and a missing one. If these samples have one copy of {contig}, "
            f"as males have of X, write haploid calls: {remedy} "
            f"If these calls are missing, exclude {contig} (chromosomes=)."
        )

    @cached_property
    def _sex_contigs(self) -> dict[str, Index]:
        """Feature positions on each contig that is not an autosome, by name of the contig."""
        contigs = None if self.variants is None else self.variants.get(CONTIG)
        names = None if self.variants is None else self.variants.get(CONTIGS)
        is_known = contigs is not None and names is not None and contigs.dtype.kind in "iu"
        if not (self.is_genotype and is_known):
            return {}
        bare = chromosome_names(text(np.asarray(names)).tolist())
        each = {
            name: np.flatnonzero(contigs == code)
            for code, (name, known) in enumerate(bare.items())
            if not known.isdecimal()
        }
        return {name: at for name, at in each.items() if at.size}

    @cached_property
    def sex_linked_features(self) -> Index:
        """Ascending positions of the features on sex chromosomes and other non-autosomes."""
        each = [*self._sex_contigs.values()]
        return np.sort(np.concatenate(each)) if each else np.empty(0, dtype=np.int64)

    @cached_property
    def haploid_only_features(self) -> Index:
        """Ascending positions of the features on contigs with haploid calls only.

        Only the variant in the middle of each contig is examined. Autosomes are not examined.
        """
        each = []
        for at in self._sex_contigs.values():
            middle = int(at[at.size // 2])
            copies = self.copies(self.chunked.read(Block(0, middle, middle + 1), None)[0])
            if copies.max(initial=0) == 1:
                each.append(at)
        return np.sort(np.concatenate(each)) if each else np.empty(0, dtype=np.int64)

    @staticmethod
    def _is_x(contig: str) -> bool:
        return chromosome_name(contig) in X

    @cached_property
    def haploid_features(self) -> Index:
        """Ascending positions of features on contigs that are haploid in some samples only."""
        each = [self._sex_contigs[name] for name in self.haploid_by_contig]
        return np.sort(np.concatenate(each)) if each else np.empty(0, dtype=np.int64)

    @property
    def homozygous_males(self) -> Mask:
        """Mask (m,) of males with a single copy of X that is stored as two equal alleles.

        `dhsic.sources.males` recognises them.
        """
        return self._copies_by_calls.males

    @cached_property
    def _copies_by_calls(self) -> CopiesOfX:
        """Males, recognised by their few heterozygous calls on X (`males_by_calls`).

        There are none if the store has no X, or if it has haploid calls on X.
        """
        m = self.chunked.n_samples
        counts, none = np.zeros(m), CopiesOfX(np.zeros(m, dtype=bool), are_clear=True)
        at = next((at for name, at in self._sex_contigs.items() if self._is_x(name)), None)
        if at is None:
            return none
        for start, stop in places_on_x(at, m):
            calls = self.chunked.read(Block(0, start, stop), None)
            if calls.shape[-1] != DIPLOID or (calls == NO_COPY).any():
                return none
            counts += n_heterozygous(calls)
        return males_by_calls(counts)

    @property
    def sexes(self) -> Sexes:
        """Sexes of the samples, according to their calls on X."""
        males, copies = self.males, self._copies_by_calls
        females = ~males if males.any() else males
        return Sexes(males, females, int(copies.males.sum()), are_clear=copies.are_clear)

    @cached_property
    def males(self) -> Mask:
        """Mask (m,) of the males: all their calls at a few variants on X are haploid.

        If no call on X is haploid, the males are `homozygous_males`.
        """
        at = next((self._sex_contigs[c] for c in self.haploid_by_contig if self._is_x(c)), None)
        if at is None or self.homozygous_males.any():
            return self.homozygous_males
        males = np.zeros(self.chunked.n_samples, dtype=bool)
        middle, females = at.size // 2, males.copy()
        for j in at[max(0, middle - FEW_VARIANTS // 2) : middle + FEW_VARIANTS // 2 + 1].tolist():
            copies = self.copies(self.chunked.read(Block(0, j, j + 1), None)[0])
            males |= copies == 1
            females |= copies > 1
        return males & ~females

    def by_sex(self, genotypes: Array, rows: Index | None) -> Array:
        """Convert the calls of `homozygous_males` on X to haploid calls, (c, n, ploidy).

        Heterozygous calls of these males become missing. Calls that are stored as haploid remain
        unchanged. `rows` (n,) are the samples; None for all.
        """
        males = self.homozygous_males if rows is None else self.homozygous_males[rows]
        if not males.any():
            return genotypes
        calls = genotypes.copy()
        of_males = calls[:, males]
        is_unclear = (of_males[..., 0] != of_males[..., 1]) & (of_males >= 0).all(axis=-1)
        of_males[is_unclear] = MISSING
        of_males[..., 1] = np.where(of_males[..., 1] == MISSING, MISSING, NO_COPY)
        calls[:, males] = of_males
        return calls

    @staticmethod
    def copies(genotypes: Array) -> Array:
        """Count the chromosome copies in each call (..., ploidy); 0 if an allele is missing."""
        there = np.where((genotypes == MISSING).any(axis=-1), 0, 1)
        return np.asarray((genotypes != NO_COPY).sum(axis=-1) * there).astype(np.int8)

    @classmethod
    def allele_counts(cls, genotypes: Array) -> tuple[Array, Array]:
        """Count the alternative alleles and all alleles, (c,) each, in calls (c, m, ploidy)."""
        copies = cls.copies(genotypes)
        alternative = ((genotypes > 0).sum(axis=-1) * (copies > 0)).sum(axis=1)
        return alternative, copies.sum(axis=1, dtype=np.int64)

    @classmethod
    def diploid_genotypes(cls, genotypes: Array) -> Array:
        """Count diploid calls (c, m, ploidy) with 0, 1 and 2 alternative alleles, (c, 3)."""
        alternative = np.where(cls.copies(genotypes) == DIPLOID, (genotypes > 0).sum(axis=-1), -1)
        return np.stack([(alternative == n).sum(axis=1) for n in range(DIPLOID + 1)], axis=1)

    @property
    def dtype(self) -> Any:
        """Dtype of the values that `numbers` returns."""
        return np.dtype(np.int8) if self.is_genotype else self.chunked.dtype

    @property
    def missing_code(self) -> int | None:
        """Missing code of the values that `numbers` returns; None for floats.

        It is -1 for signed integers, and the largest value for unsigned integers with a mask.
        """
        if self.dtype.kind == "b" and self.mask is not None:
            raise InputError(
                f"{self.mask.label} marks missing values of booleans, which cannot be "
                "represented. Choose another variable, or write it as int8 with -1 for missing "
                "values."
            )
        if self.dtype.kind == "u" and self.mask is not None:
            return int(np.iinfo(self.dtype).max)
        return MISSING if self.dtype.kind == "i" else None

    def numbers(self, values: Array, block: Block, rows: Index | None) -> Array:
        """Convert stored calls (c, m, ...) to dosages or other numbers (c, m)."""
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
            f". Allele indices are -2 (no copy), -1 (missing) or 0 to {most}. The store is "
            "damaged, or contains something else: write it again."
        )
        refuse_any(outside.any(axis=-1), genotypes, block, rows, place, why)
        why = (
            ", a call of lower ploidy. Pass ploidy_policy='scale' or 'count', or remove haploid "
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
        why = f". Values of calls cannot be negative. Write missing calls as {missing}."
        refuse_any(negative, values, block, rows, self.chunked.place, why)


class CallSource(ZarrSource):
    """Source of genotypes, dosages or other calls (variants, samples, ...) in VCF Zarr.

    `calls` is the rule that converts stored calls to numbers.
    """

    def __init__(self, chunked: ChunkedArray, names: Names, calls: Calls) -> None:
        super().__init__(chunked, names, missing_code=calls.missing_code)
        self.calls, self.dtype = calls, calls.dtype

    def read(self, block: Block, rows: Index | None = None) -> Array:
        return self.calls.numbers(self.chunked.read(block, rows), block, rows).T

    def sexes(self) -> Sexes | None:
        return self.calls.sexes if self.calls.is_genotype else super().sexes()

    def sex_linked_features(self) -> Index:
        if not self.calls.is_genotype:
            return super().sex_linked_features()
        return self.calls.sex_linked_features

    def haploid_features(self) -> Index:
        return self.calls.haploid_features if self.calls.is_genotype else super().haploid_features()

    def allele_counts(
        self, block: Block, local: Index, rows: Index | None = None
    ) -> tuple[Array, Array]:
        if not self.calls.is_genotype:
            return super().allele_counts(block, local, rows)
        calls = self.calls.by_sex(self.chunked.read(block, rows)[local], rows)
        return self.calls.allele_counts(calls)

    def diploid_genotypes(self, block: Block, local: Index, rows: Index | None = None) -> Array:
        if not self.calls.is_genotype:
            return super().diploid_genotypes(block, local, rows)
        calls = self.calls.by_sex(self.chunked.read(block, rows)[local], rows)
        return self.calls.diploid_genotypes(calls)

    @property
    def layout(self) -> Any:
        return super().layout, self.calls.policy, self.calls.mask is not None


def open_calls(group: zarr.Group, variable: str, options: OpenOptions) -> CallSource:
    """Open a variable with dimensions (variants, samples, ...) of a VCF Zarr group."""
    label = f"{group.store_path}/{variable}"
    array = member(group, variable)
    if array is None:
        shapes = ", ".join(f"{name} {a.shape}" for name, a in sorted(arrays_of(group).items()))
        raise InputError(
            f"{group.store_path} has no {variable}; its arrays are {shapes or 'none'}. Choose "
            "one of them."
        )
    is_genotypes = is_genotype(array)
    axis = _variants_axis(array, label, is_genotype=is_genotypes)
    packing = None if is_genotypes else _packing_of(array)
    chunked = ChunkedArray(array, axis, options.missing_chunks, packing)
    names = Variants.names_of(group, chunked.n_features)
    ids, alleles = member(group, "sample_id"), member(group, ALLELES)
    if ids is not None and ids.shape != (chunked.n_samples,):
        raise DataError(
            f"sample_id of {group.store_path} has shape {ids.shape}, but {chunked.label} has "
            f"{chunked.n_samples} samples. The store is damaged: write it again."
        )
    mask = None if is_genotypes else member(group, f"{variable}_mask")
    calls = Calls(
        chunked,
        options.ploidy_policy,
        is_genotypes,
        None if alleles is None else int(alleles.shape[1]),
        None if mask is None else ChunkedArray(mask, axis, options.missing_chunks),
        Variants(place_of(group)),
    )
    source = CallSource(chunked, names, calls)
    source.dosages = is_genotypes or variable in DOSAGES
    source.keeps_codes = True  # other values are refused
    if source.dosages:
        genotypes = array if is_genotypes else member(group, "call_genotype")
        shape = () if genotypes is None else genotypes.shape
        source.ploidy = int(shape[2]) if len(shape) == 3 else DIPLOID
        if not is_genotypes and source.ploidy == DIPLOID:
            place = place_of(group)
            source.on_x = DosagesOnX(Variants(place).on_x, partial(stored_sex, place))
    options.check_dim(1, "samples", label)
    options.check_length(source.n_samples, label)
    return source


def _haploid_calls(label: str, contig: str) -> str:
    """Return advice on how to write the half calls of a contig as haploid calls.

    `label` is the path of the variable of calls, in a VCF file or a VCF Zarr store.
    """
    path = Path(label).parent
    if not path.is_file():
        return (
            "in VCF Zarr, the absent allele of a haploid call is -2, and -1 is a missing allele. "
            "Write the store again from its VCF file, for example with vcf2zarr."
        )
    read = "gzip -dc" if path.suffix == ".gz" else "cat"
    change = rf"/^{contig}\t/s#\t([0-9]+)[/|]\.#\t\1#g"
    return (
        f"{read} {shlex.quote(str(path))} | sed -E {shlex.quote(change)} > NEW.vcf, then pass "
        "NEW.vcf."
    )


def _packing_of(array: zarr.Array[Any]) -> Packing | None:
    """Return the packing of call values; None for integers with only a negative missing code."""
    attributes = declared(array)
    code = code_among(attributes, array.dtype)
    return Packing.of(attributes, array.dtype, keeps_code=code is None or code < 0)


def holds_calls(array: zarr.Array[Any]) -> bool:
    """Whether an array contains calls, judging by its name (call_...) and its dimensions."""
    dims = dimension_names(array)
    is_declared = dims is None or set(dims[:2]) == {"variants", "samples"}
    return array.basename.startswith("call_") and array.ndim >= 2 and is_declared


def is_genotype(array: zarr.Array[Any]) -> bool:
    """Whether an array contains genotypes: allele indices per chromosome copy."""
    dims = dimension_names(array)
    is_genotype = array.basename == "call_genotype" if dims is None else dims[-1] == "ploidy"
    return array.ndim == 3 and is_genotype


def _variants_axis(array: zarr.Array[Any], label: str, *, is_genotype: bool) -> int:
    """Return the axis of the variants according to the dimension names; 0 without names."""
    dims = dimension_names(array)
    dim_names = dims or ("variants", "samples")
    if array.ndim < 2 or set(dim_names[:2]) != {"variants", "samples"}:
        raise InputError(
            f"{label} has shape {array.shape} and dimensions {dim_names}, but calls have the "
            "dimensions (variants, samples) and perhaps ploidy. Choose another variable."
        )
    if array.ndim > 2 and not is_genotype and array.shape[2:] != (1,):
        raise InputError(
            f"{label} has shape {array.shape}{f' and dimensions {dims}' if dims else ''}, so "
            "it has several numbers per call, but a feature needs one. Choose "
            "variable='call_genotype' or a variable with dimensions (variants, samples), or split "
            "multi-allelic variants before conversion."
        )
    return dim_names.index("variants")


def unsupported_calls(alleles: Array, reads: Array, quality: Array | None) -> Mask:
    """Return the mask (..., m) of reference calls without any supporting read.

    GATK GenotypeGVCFs 4.2.3 to 4.5 writes 0/0 with DP and GQ 0 where nothing was called. A call
    with positive GQ is not in the mask. If most non-reference calls of a variant have no reads
    either, reads were not counted, and no call of the variant is in the mask.

    Parameters
    ----------
    alleles : ndarray (..., m, ploidy)
        Allele indices.
    reads : ndarray (..., m)
        Number of reads (DP).
    quality : ndarray (..., m) or None
        Quality of the calls (GQ); None if it is unknown.

    Examples
    --------
    >>> alleles = np.array([[0, 0], [0, 0], [0, 1]])
    >>> unsupported_calls(alleles, np.array([0, 8, 9]), None).tolist()
    [True, False, False]
    """
    has_none, highest = reads == 0, alleles.max(axis=-1)
    carriers = highest > 0
    are_counted = 2 * (has_none & carriers).sum(axis=-1) <= carriers.sum(axis=-1)
    is_reference = (highest == 0) & (alleles != MISSING).all(axis=-1)
    mask: Mask = has_none & is_reference & np.expand_dims(are_counted, -1)
    return mask if quality is None else mask & ~(quality > 0)


def fold(genotypes: Array, policy: PloidyPolicy) -> Array:
    """Convert allele indices (..., ploidy) to dosages (...), int8, -1 if missing.

    A call is missing if one of its alleles is missing, or if it has no copy. `policy` determines
    the dosage of a call of lower ploidy: the number of alternative alleles, or this number scaled
    to the full ploidy (rounded half to even).
    """
    if genotypes.dtype == np.int8 and genotypes.shape[-1] == 2:
        # Pairs of 0 and 1 are added; other pairs are looked up in a table of all 65,536.
        pairs = np.ascontiguousarray(genotypes).view(np.uint16)[..., 0]
        dosages, table = np.empty(pairs.shape, np.int8), _pair_table(policy)
        for batch in slices(pairs.size, AT_A_TIME):
            part, out = pairs.reshape(-1)[batch], dosages.reshape(-1)[batch]
            np.copyto(out, (part >> 8) + part, casting="unsafe")  # keeps the low byte of the sum
            unusual = np.flatnonzero((part & NOT_0_OR_1) != 0)
            out[unusual] = table[part[unusual]]
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

"""Facts and notes on variants: FILTER, multiallelic variants, haploid calls, unused dosages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import zarr

from dhsic.cli.console import counted
from dhsic.joins.sexes import features_on_x
from dhsic.sources import AbstractSource
from dhsic.sources.chunked import member
from dhsic.sources.ids import abbreviate
from dhsic.sources.joined import parts_of
from dhsic.sources.variants import ALLELES, FILTER, FilterColumn, Multiallelic
from dhsic.sources.vcz import DOSAGES, CallSource, unsupported_calls
from dhsic.sources.views import stored_positions, whole_of
from dhsic.sources.zarr_matrices import parent

#: Explanation, for notes, of how haploid calls are used.
USE_OF_HAPLOID = (
    "each haploid call is one allele in allele frequencies, and on these chromosomes the default "
    "test uses dosage alone, without dominance. If the labels depend on sex, pass it as a covariate"
)
#: Explanation, for notes, of how variants on X are tested if sexes are unknown; advice follows.
IF_SEX_UNKNOWN = (
    "variants on X are tested as if all samples had two copies, but males have one copy, so the "
    "variants depend on any label that depends on sex. If there are males,"
)


@dataclass(frozen=True, eq=False)
class Sites:
    """Facts about the variants of a store, including variants that were excluded on opening."""

    n_filtered: int  # number of variants excluded by FILTER
    filters: FilterColumn | None  # None if the store has no FILTER
    multiallelic: Multiallelic | None  # None without alleles
    haploid: str = ""  # note on chromosomes with haploid and diploid calls
    unread: str = ""  # note on imputed dosages of the store that are not used
    unsupported: str = ""  # note on reference calls without a read

    @classmethod
    def of(cls, source: AbstractSource, left_out: Mapping[str, int]) -> Sites:
        """Collect facts about the variants from the store of a source.

        These are numbers of filtered and of multiallelic variants, and notes on ploidy, dosages and
        calls. `left_out` are the numbers of excluded samples and variants, as in `Filtered`.
        """
        data = whole_of(source).chunked
        group = None if data is None else parent(data.opened())
        n_filtered, d = left_out.get("pass_only", 0), whole_of(source).n_features
        if group is None:
            return cls(n_filtered, None, None, haploid_note(source))
        return cls(
            n_filtered,
            FilterColumn.of(group, d, "fill") if _has_one_per_feature(group, FILTER, d) else None,
            Multiallelic.of(group) if _has_one_per_feature(group, ALLELES, d) else None,
            haploid_note(source),
            _unread_dosages_note(source, group),
            _unsupported_calls_note(source, group),
        )

    def plain(self) -> dict[str, Any]:
        """Return the facts as plain values for JSON."""
        return {
            "filters": None if self.filters is None else self.filters.plain(),
            "n_multiallelic": None if self.multiallelic is None else self.multiallelic.n,
            "haploid": self.haploid,
        }

    def facts(self) -> Iterator[tuple[str, str]]:
        """Yield facts about the variants, as pairs of a label and a text."""
        if self.filters is not None:
            excluded = f"; {self.n_filtered:,} excluded" if self.n_filtered else ""
            yield "filter", f"{self.filters}{excluded}"
        if self.multiallelic is not None:
            variants = counted(self.multiallelic.n, "variant")
            n_spanned = self.multiallelic.n_spanned
            spanned = f", {n_spanned:,} of them with * (a spanning deletion)" if n_spanned else ""
            yield "alleles", f"{variants} with several alternative alleles{spanned}"
        if self.haploid:
            yield "ploidy", self.haploid
        if self.unread:
            yield "dosages", self.unread
        if self.unsupported:
            yield "reads", self.unsupported

    def notes(self) -> Iterator[str]:
        """Yield notes on variants, to show before they are ranked."""
        if self.haploid:
            yield self.haploid
        if self.unread:
            yield self.unread
        if self.unsupported:
            yield self.unsupported
        if self.n_filtered:
            yield f"{counted(self.n_filtered, 'variant')} excluded by FILTER: {self.filters}"
        elif self.filters is not None and self.filters.n_failed:
            yield (
                f"variants with any FILTER are used: {self.filters}; --pass-only keeps only PASS"
            )
        if self.multiallelic is not None and self.multiallelic.n:
            yield (
                f"{counted(self.multiallelic.n, 'variant')} of the store with several alternative "
                "alleles, which the dosage counts together; to split them, use bcftools norm -m-"
            )
        if self.multiallelic is not None and self.multiallelic.n_spanned:
            yield (
                f"{counted(self.multiallelic.n_spanned, 'variant')} of these with the allele *, a "
                "deletion that spans the position, which is counted like the others; to read its "
                "calls as missing: bcftools norm -m -any --multi-overlaps . IN.vcf.gz | bcftools "
                "view -e 'ALT=\"*\"' -o NEW.vcf"
            )


def _unread_dosages_note(source: AbstractSource, group: zarr.Group) -> str:
    """Return a note if the store has imputed dosages, but its genotype calls are used; else ""."""
    base = whole_of(source)
    if not isinstance(base, CallSource) or not base.calls.is_genotype:
        return ""
    name = next((name for name in DOSAGES if member(group, name) is not None), "")
    return name and (
        f"the store also has imputed dosages ({name}), but the rounded genotype calls are used; "
        f"to use the dosages, pass --variable {name}"
    )


def _unsupported_calls_note(source: AbstractSource, group: zarr.Group) -> str:
    """Return a note if some reference calls are based on no reads; else "".

    Only the first chunk of the store is examined.
    """
    base, reads = whole_of(source), member(group, "call_DP")
    if not isinstance(base, CallSource) or not base.calls.is_genotype or reads is None:
        return ""
    is_imputed = any(member(group, name) is not None for name in (*DOSAGES, "call_GP"))
    shape = base.n_features, base.n_samples
    if is_imputed or reads.shape != shape or base.chunked.feature_axis != 0:
        return ""
    rows, columns = (slice(0, n) for n in reads.chunks)
    quality = member(group, "call_GQ")
    is_unknown = quality is None or quality.shape != shape
    parts = (base.chunked.opened(), reads, *(() if is_unknown else (quality,)))
    calls, n_reads, *of_calls = (np.asarray(part[rows, columns]) for part in parts)
    n = int(unsupported_calls(calls, n_reads, of_calls[0] if of_calls else None).sum())
    return bool(n) * (
        f"{n:,} reference calls (0/0) in the first chunk have no read (call_DP is 0), and are used "
        "as 0/0. Some versions of GATK write 0/0 where nothing was called. To read them as "
        "missing, convert the VCF with dhsic convert IN.vcf.gz OUT.vcz"
    )


def haploid_note(source: AbstractSource) -> str:
    """Return a note on chromosomes with haploid calls of some samples; "" if there are none."""
    if parts := parts_of(source):
        notes = dict.fromkeys(haploid_note(part.source) for part in parts)
        return _note_on_dosages(source) or next(filter(None, notes), "")
    base = whole_of(source)
    if isinstance(base, CallSource) and base.calls.is_genotype:
        is_autosomal = not source.sex_linked_features().size
        return "" if is_autosomal else _note_on_calls(base, source.n_samples)
    return _note_on_dosages(source)


def _note_on_calls(base: CallSource, n_samples: int) -> str:
    """Return a note on haploid calls in a store of genotype calls; "" if there are none."""
    calls = base.calls
    if not calls.haploid_by_contig:
        return "" if calls.sexes.are_clear else _unclear("")
    if n := int(calls.homozygous_males.sum()):
        return _males_by_calls(n, n_samples)
    n_haploid = [
        f"{n:,} of {n_samples:,} samples on {contig}"
        for contig, n in calls.haploid_by_contig.items()
    ]
    how = {
        "scale": "count 0 or 2, as in PLINK (--ploidy count: 0 or 1)",
        "count": "count 0 or 1, so the dosage also depends on the number of copies",
    }.get(calls.policy, "are rejected")
    return f"haploid calls of {' and '.join(n_haploid)} {how}; {USE_OF_HAPLOID}"


def _note_on_dosages(source: AbstractSource) -> str:
    """Return a note on dosages of variants on X, and on how males are recognised; "" if none."""
    on_x, n_on_x, m = source.on_x, features_on_x(source).size, source.n_samples
    if on_x is None or (on_x.is_placed and not n_on_x):
        return ""
    sexes = source.sexes()
    if sexes is None:
        return ""
    n_males = int(sexes.males.sum())
    if not on_x.is_placed and not sexes.are_known:
        return (
            f"this .raw table has neither chromosomes nor known sexes: {IF_SEX_UNKNOWN} pass the "
            ".bed or .pgen file from which it was made, or sex as a covariate"
        )
    if single := _single_in_males(source):
        return single
    if not n_on_x:
        return ""
    if sexes.by_calls:
        return _males_by_calls(n_males, m)
    if not n_males:
        return "" if sexes.are_clear else _unclear("SEX of the samples is missing, and ")
    recognised = (
        "" if on_x.is_placed else f", by calls that are heterozygous in females alone ({n_on_x:,})"
    )
    return (
        f"{n_males:,} of {m:,} samples are male: on X{recognised} their calls count 0 or 2; "
        f"{USE_OF_HAPLOID}"
    )


def _single_in_males(source: AbstractSource) -> str:
    """Return a note on features coded 0 and 1 in males, but 0, 1 and 2 in females; else ""."""
    assert source.on_x is not None, "sexes are known"
    at = np.flatnonzero(np.isin(stored_positions(source), source.on_x.single))
    names = source.feature_names()
    if not at.size or names is None:
        return ""
    listed = abbreviate(names[at], 3)
    return (
        f"in at least {counted(at.size, 'feature')} ({listed}), males (SEX 1) count 0 or 1 and "
        "females 0, 1 or 2, as on chromosome X. The values depend on sex, so their ranks are "
        "misleading if the labels depend on sex. In that case, pass --covariate SEX, or leave "
        "these features out (--exclude), or pass the .bed or .pgen file from which this table was "
        "made"
    )


def _males_by_calls(n: int, m: int) -> str:
    """Return a note on n males, of m samples, that were recognised by their calls on X."""
    return (
        f"{n:,} of {m:,} samples have no heterozygous calls on X, and are treated as males: their "
        f"calls count 0 or 2; {USE_OF_HAPLOID}"
    )


def _unclear(why: str) -> str:
    """Return a note that sexes cannot be inferred from calls; the note begins with `why`."""
    fill = "fill in SEX, or " if why else ""
    return (
        f"{why}heterozygous calls on X are too rare, or too similar among samples, to identify "
        f"males: {IF_SEX_UNKNOWN} {fill}pass sex as a covariate, or leave X out (--chr)"
    )


def _has_one_per_feature(group: zarr.Group, name: str, d: int) -> bool:
    """Whether an array of a store has one entry for each of the d features in use.

    It has more if some variants of the store are not used.
    """
    array = member(group, name)
    return array is not None and array.shape[0] == d

"""Notes on the variants of data: FILTER, several alleles, copies of X, and dosages unread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import zarr

from dhsic.cli.console import counted
from dhsic.joins.sexes import features_on_x
from dhsic.sources import AbstractSource
from dhsic.sources.chunked import member
from dhsic.sources.opening import parent
from dhsic.sources.variants import ALLELES, FILTER, FilterColumn, n_multiallelic
from dhsic.sources.vcz import DOSAGES, CallSource
from dhsic.sources.views import whole_of

#: Note on chromosomes with haploid calls.
OF_HAPLOID = (
    "each haploid call is one allele in allele frequencies, and on these chromosomes the default "
    "test uses dosage alone, without dominance. If the labels depend on sex, pass it as a covariate"
)
#: Note on variants on X of samples whose sexes are not known.
OF_UNKNOWN = (
    "variants on X are tested as if all samples had two copies, and those of males, who have one, "
    "follow any label that depends on sex. If there are males,"
)


@dataclass(frozen=True, eq=False)
class Sites:
    """Facts about the variants of a store, including variants that the source excludes."""

    n_filtered: int  # number excluded by FILTER
    filters: FilterColumn | None  # None if the store has no FILTER
    n_multiallelic: int | None  # with two or more alternative alleles; None without alleles
    haploid: str = ""  # note on chromosomes with haploid and diploid calls
    unread: str = ""  # note on dosages beside the calls that are read

    @classmethod
    def of(cls, source: AbstractSource, left_out: Mapping[str, int]) -> Sites:
        """Inspect the store of a source; `left_out` as in `Filtered`."""
        data = whole_of(source).chunked
        group = None if data is None else parent(data.opened())
        n_filtered, d = left_out.get("pass_only", 0), whole_of(source).n_features
        if group is None:
            return cls(n_filtered, None, None, haploid_told(source))
        has = {name for name in (FILTER, ALLELES) if _describes(group, name, d)}
        return cls(
            n_filtered,
            FilterColumn.of(group, d, "fill") if FILTER in has else None,
            n_multiallelic(group) if ALLELES in has else None,
            haploid_told(source),
            _dosages_unread(source, group),
        )

    def plain(self) -> dict[str, Any]:
        """Values for JSON."""
        return {
            "filters": None if self.filters is None else self.filters.plain(),
            "n_multiallelic": self.n_multiallelic,
            "haploid": self.haploid,
        }

    def facts(self) -> Iterator[tuple[str, str]]:
        """Yield labelled facts about the variants."""
        if self.filters is not None:
            out = f"; {self.n_filtered:,} excluded" if self.n_filtered else ""
            yield "filter", f"{self.filters}{out}"
        if self.n_multiallelic is not None:
            multiallelic = counted(self.n_multiallelic, "variant")
            yield "alleles", f"{multiallelic} with several alternative alleles"
        if self.haploid:
            yield "ploidy", self.haploid
        if self.unread:
            yield "dosages", self.unread

    def notes(self) -> Iterator[str]:
        """Yield notes on variants, to show before they are ranked."""
        if self.haploid:
            yield self.haploid
        if self.unread:
            yield self.unread
        if self.n_filtered:
            yield f"{counted(self.n_filtered, 'variant')} excluded by FILTER: {self.filters}"
        elif self.filters is not None and self.filters.n_failed:
            yield (
                f"variants with any FILTER are used: {self.filters}; --pass-only keeps only PASS"
            )
        if self.n_multiallelic:
            yield (
                f"{counted(self.n_multiallelic, 'variant')} of the store with several alternative "
                "alleles, which are counted together in the dosage; to split them, use bcftools "
                "norm -m-"
            )


def _dosages_unread(source: AbstractSource, group: zarr.Group) -> str:
    """Note on dosages of a store whose calls are read; "" without any."""
    whole = whole_of(source)
    if not isinstance(whole, CallSource) or not whole.calls.is_genotype:
        return ""
    name = next((name for name in DOSAGES if member(group, name) is not None), "")
    return name and (
        f"the store also has imputed dosages ({name}), but the rounded genotype calls are used; "
        f"to use the dosages, pass --variable {name}"
    )


def haploid_told(source: AbstractSource) -> str:
    """Note on chromosomes on which some samples have haploid calls; "" without any."""
    whole = whole_of(source)
    if isinstance(whole, CallSource) and whole.calls.is_genotype:
        return _of_calls(whole, source.n_samples)
    return _of_dosages(source)


def _of_calls(whole: CallSource, n_samples: int) -> str:
    """Note on haploid calls of genotypes that are stored by copies."""
    calls = whole.calls
    if not calls.haploid_by_contig:
        return "" if calls.sexes.are_clear else _unclear("")
    if n := int(calls.homozygous_males.sum()):
        return _males_by_calls(n, n_samples)
    each = [f"{n:,} of {n_samples:,} samples on {c}" for c, n in calls.haploid_by_contig.items()]
    how = {
        "scale": "count 0 or 2, as in PLINK (--ploidy count: 0 or 1)",
        "count": "count 0 or 1, so the dosage also depends on the number of copies",
    }.get(calls.policy, "are rejected")
    return f"haploid calls of {' and '.join(each)} {how}; {OF_HAPLOID}"


def _of_dosages(source: AbstractSource) -> str:
    """Note on variants on X of dosages, and on how males are known."""
    on_x, sexes, m = source.on_x, source.sexes(), source.n_samples
    if on_x is None or sexes is None:
        return ""
    n_on_x, n_males = features_on_x(source).size, int(sexes.males.sum())
    if not on_x.is_placed and not sexes.are_known:
        return (
            f"this .raw table has neither chromosomes nor known sexes: {OF_UNKNOWN} pass the .bed "
            "or .pgen file from which it was made, or sex as a covariate"
        )
    if not n_on_x:
        return ""
    if sexes.by_calls:
        return _males_by_calls(n_males, m)
    if not n_males:
        return "" if sexes.are_clear else _unclear("SEX of the samples is missing, and ")
    told = (
        "" if on_x.is_placed else f", by calls that are heterozygous in females alone ({n_on_x:,})"
    )
    return (
        f"{n_males:,} of {m:,} samples are male: on X{told} their calls count 0 or 2; {OF_HAPLOID}"
    )


def _males_by_calls(n: int, m: int) -> str:
    """Note on males that are known from their calls."""
    return (
        f"{n:,} of {m:,} samples have no heterozygous calls on X, and are treated as males: their "
        f"calls count 0 or 2; {OF_HAPLOID}"
    )


def _unclear(why: str) -> str:
    """Note on samples whose sexes are not known."""
    fill = "fill in SEX, or " if why else ""
    return (
        f"{why}heterozygous calls on X are too few, or too much alike, to tell males: {OF_UNKNOWN} "
        f"{fill}pass sex as a covariate, or leave X out (--chr)"
    )


def _describes(group: zarr.Group, name: str, d: int) -> bool:
    """Whether an array has d entries, one per feature; a store may contain other variants."""
    array = member(group, name)
    return array is not None and array.shape[0] == d

"""Filters that select samples and features of the data, by name, position or condition.

As in PLINK 2, filters of samples run before those of features. Data are not copied: the result is a
set of positions in the data (`Filtered`), so later steps need neither names nor files.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import numpy as np

from dhsic._typing import Array, Float, Index, Mask
from dhsic.errors import InputError, warn
from dhsic.joins.conditions import Condition
from dhsic.joins.filtered import OF_SAMPLES, Filtered
from dhsic.joins.frame_rows import names_of
from dhsic.joins.hardy_weinberg import is_in_equilibrium
from dhsic.joins.id_lists import features_listed, samples_listed
from dhsic.joins.imputation_quality import imputation_quality
from dhsic.joins.places import chromosome_codes, features_at
from dhsic.joins.plink_ids import family_ids
from dhsic.joins.regions import Regions
from dhsic.joins.sexes import (
    BY_SEX,
    KNOWN_BY,
    OF_BOTH,
    ONE_COPY,
    full_dosages,
    males_of,
    missing_rates,
    on_y,
)
from dhsic.joins.variables import column_of, labels_at, values_of_features
from dhsic.sources import AbstractSource
from dhsic.sources.file_lists import is_several
from dhsic.sources.options import MissingChunks
from dhsic.sources.sexes import DIPLOID, dosages_of
from dhsic.sources.values import Alleles
from dhsic.sources.views import SubsetSource, described
from dhsic.validation import is_number

#: Number of features per block when haploid calls are counted.
BLOCK_FEATURES = 1024
#: Filters that remove the samples or features they name.
LEAVING_OUT = ("remove", "exclude", "exclude_regions")
#: A max_missing above this may be meant as in vcftools, where it is the minimum call rate.
MOSTLY = 0.5


class AbstractCounting(ABC):
    """Interface for allele counts and missing calls in the samples `rows` (None: all)."""

    @abstractmethod
    def alleles(
        self, source: AbstractSource, rows: Index | None, *, genotypes: bool = False
    ) -> Alleles:
        """Count the alleles of all features; with `genotypes` also the calls 0, 1 and 2."""

    @abstractmethod
    def missing_calls(self, source: AbstractSource, rows: Index | None) -> Index:
        """Count the missing values of each sample, (m,)."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Filters:
    """Filters of samples and features. Removed samples and features are counted.

    Parameters
    ----------
    keep, remove : path, sequence of str or (m,) bool array, optional
        Keep only these samples, or remove these samples: ids, or a file with FID and IID or one
        id per line, with or without a header.
    mind : float, optional
        Maximum missing rate per sample (plink's --mind), such as 0.1. It is computed over the
        features that pass the filters by name, region and condition, without features on Y.
    keep_if : str, optional
        Keep samples that meet a condition on variables of the data: ``"age >= 18 and sex == 1"``.
        Samples with a missing value in one of these variables are removed.
    chromosomes : str or sequence of str, optional
        Keep only features on these chromosomes, ``"1-5,X"``, or in these intervals, such as
        ``"6:25000000-34000000"``, which include both ends. "chr6" and "6" are the same.
    extract, exclude : path, sequence of str or (d,) bool array, optional
        Keep only these features, or remove these features: ids or names, or a file of them
        separated by whitespace.
    extract_regions, exclude_regions : path or sequence of (str, int, int), optional
        Keep only the features in these regions, or remove those in these regions: chromosome,
        start and end on each line, like PLINK's range files.
    regions_start : {0, 1}, optional
        Number of the first base of a chromosome in region files. By default 0 for ``.bed`` and
        ``.bed.gz``, where regions exclude their end, and 1 for other files, where they include it.
    extract_if : str, optional
        Keep features that meet a condition on their annotations: ``"variant_quality >= 30"``.
    maf : float, optional
        Minimum minor allele frequency, such as 0.01, in the remaining samples. The values must be
        allele counts.
    max_missing : float, optional
        Maximum missing rate per feature (plink's --geno) in the remaining samples: 0.1 removes
        features with more than 10% missing values.
    min_info : float, optional
        Minimum imputation quality, such as 0.8, in the remaining samples: the variance of the
        dosages divided by 2p(1-p), the variance of genotypes with the allele frequency p in
        Hardy-Weinberg equilibrium (the R2 of MaCH and minimac; PLINK 2's --mach-r2-filter). On X it
        is computed in females; features on Y and MT are kept. The values must be imputed dosages.
    hwe : float, optional
        Minimum p-value of the exact test of Hardy-Weinberg equilibrium, such as 1e-6, in the
        remaining samples; on X only females are tested, if sexes are known. The values must be
        genotypes.

    Examples
    --------
    >>> import dhsic
    >>> X = np.random.default_rng(0).standard_normal((50, 8))
    >>> few = dhsic.Filters(exclude=np.arange(8) < 3)
    >>> found = dhsic.select(X, X[:, 5] > 0, n_features_to_select=1, filters=few)
    >>> dhsic.selected_features(found)["stored_feature"].item(), found.attrs["n_features_filtered"]
    (5, 3)
    """

    keep: Any = None
    remove: Any = None
    keep_if: str | None = None
    mind: float | None = None
    chromosomes: str | Sequence[str] | None = None
    extract: Any = None
    exclude: Any = None
    extract_regions: Any = None
    exclude_regions: Any = None
    regions_start: int | str | None = None
    extract_if: str | None = None
    maf: float | None = None
    max_missing: float | None = None
    hwe: float | None = None
    min_info: float | None = None

    def of(
        self,
        data: Any,
        source: AbstractSource,
        counting: AbstractCounting,
        missing_chunks: MissingChunks = "error",
    ) -> Filtered:
        """Apply all filters to `data`, opened as `source`; `counting` computes allele counts.

        Raises
        ------
        InputError
            A filter is invalid, or removes everything.
        """
        filtered = self.by_name(data, source, missing_chunks)
        filtered = self.by_samples(filtered, source, counting)
        return self.by_values(filtered, source, filtered.samples, counting)

    def by_name(
        self, data: Any, source: AbstractSource, missing_chunks: MissingChunks = "error"
    ) -> Filtered:
        """Apply the filters by name, position and condition, which do not read feature values."""
        self._check()
        passed, data = data, source if is_several(data) else data
        keep_if, extract_if = (
            None if said is None else Condition.of(said, name)
            for name, said in (("keep_if", self.keep_if), ("extract_if", self.extract_if))
        )

        def samples_called(given: Any, name: str) -> Mask:
            known = names_of(data) if hasattr(data, "iloc") else source.sample_names()
            return samples_listed(given, name, known, family_ids(source))

        def features_called(given: Any, name: str) -> Mask:
            return features_listed(given, name, described(source))

        def of_samples(name: str) -> Array:
            return _variable_of(data, source, name, missing_chunks)

        def of_features(name: str) -> Array:
            known, otherwise = described(source), "feature names with extract="
            if name in known:
                return known[name].read(slice(0, source.n_features))
            return values_of_features(
                passed, name, source, missing_chunks, what="extract_if", otherwise=otherwise
            )

        samples, features = (
            _RemainingMask("samples", source.n_samples),
            _RemainingMask("features", source.n_features),
        )
        samples.keep("keep", self.keep, samples_called)
        samples.keep("remove", self.remove, samples_called)
        samples.meet(keep_if, of_samples)
        if self.chromosomes is not None:
            features.filter("chromosomes", features_at(self.chromosomes, described(source)))
        features.keep("extract", self.extract, features_called)
        features.keep("exclude", self.exclude, features_called)
        for name, met in self._in_regions(source):
            features.filter(name, met)
        features.meet(extract_if, of_features)
        left_out = {**samples.out, **Filtered.of(source).left_out, **features.out}
        return Filtered(samples.positions, features.positions, left_out)

    def _in_regions(self, source: AbstractSource) -> Iterator[tuple[str, Mask]]:
        """Yield for each region filter its name and the mask of features that pass it."""
        first = None if self.regions_start is None else int(self.regions_start)
        for name in ("extract_regions", "exclude_regions"):
            given = getattr(self, name)
            if given is not None:
                there = Regions.of(given, name, first).holding(source, name)
                yield name, ~there if name in LEAVING_OUT else there

    def _check(self) -> None:
        """Raise InputError for thresholds outside their range."""
        limits = {"maf": 0.5, "max_missing": 1, "mind": 1, "hwe": 1, "min_info": 1}
        for name, most in limits.items():
            value = getattr(self, name)
            if value is not None and not (is_number(value) and 0 <= value <= most):
                raise InputError(
                    f"{name}={value!r} is out of range; pass a number from 0 to {most} (1% is "
                    "0.01)."
                )
        if self.max_missing is not None and MOSTLY < self.max_missing < 1:
            warn(
                f"max_missing={self.max_missing:g} keeps features with up to "
                f"{self.max_missing:.0%} missing values. If you mean the minimum share of values "
                f"that must be present, as in vcftools, pass {1 - self.max_missing:.4g}.",
            )
        if self.regions_start is not None:
            if str(self.regions_start) not in ("0", "1"):
                raise InputError(
                    f"regions_start={self.regions_start!r} is not 0 or 1. Pass the number that the "
                    "first base of a chromosome has in the file."
                )
            if self.extract_regions is None and self.exclude_regions is None:
                raise InputError(
                    "regions_start= applies only to extract_regions= and exclude_regions=, and "
                    "neither is used. Remove regions_start=, or pass regions."
                )

    def by_samples(
        self, before: Filtered, source: AbstractSource, counting: AbstractCounting
    ) -> Filtered:
        """Apply the filter by missing rate per sample (`mind`) to the result `before`.

        `source` has all features. Features on Y are not counted, because females lack Y.
        """
        if self.mind is None:
            return before
        here = before.features_of(source)
        of_males = on_y(here)
        if of_males is not None and not of_males.all():
            here = SubsetSource(here, np.flatnonzero(~of_males))
        n_missing = counting.missing_calls(here, before.samples)
        at = np.arange(source.n_samples) if before.samples is None else before.samples
        mask = np.zeros(source.n_samples, dtype=bool)
        mask[at] = True
        remaining = _RemainingMask("samples", source.n_samples, mask)
        remaining.out |= {k: n for k, n in before.left_out.items() if k in OF_SAMPLES}
        passes = np.zeros(source.n_samples, dtype=bool)
        passes[at] = n_missing / here.n_features <= self.mind
        remaining.filter("mind", passes)
        return replace(
            before, samples=remaining.positions, left_out={**remaining.out, **before.left_out}
        )

    def by_values(
        self,
        before: Filtered,
        source: AbstractSource,
        rows: Index | None,
        counting: AbstractCounting,
    ) -> Filtered:
        """Apply the filters by feature values in samples `rows` (None: all) to `before`.

        `source` has all features. One pass over the data serves all of these filters.
        """
        if all(x is None for x in (self.maf, self.max_missing, self.hwe, self.min_info)):
            return before
        here, at = before.features_of(source), before.features
        at = np.arange(source.n_features) if at is None else at
        mask = np.zeros(source.n_features, dtype=bool)
        mask[at] = True
        remaining = _RemainingMask("features", source.n_features, mask)
        remaining.out |= {k: n for k, n in before.left_out.items() if k not in OF_SAMPLES}
        m = source.n_samples if rows is None else rows.size
        alleles = counting.alleles(here, rows, genotypes=self.hwe is not None)
        masks = dict[str, Mask]()
        if self.maf is not None:
            sentence = f"maf={self.maf:g}"
            frequency = with_haploid(alleles.minor_frequency(here, m, sentence), here, rows)
            masks["maf"] = np.minimum(frequency, 1 - frequency) >= self.maf
        if self.max_missing is not None:
            rates = missing_rates(alleles.n_missing, here, rows, counting.alleles)
            masks["max_missing"] = rates <= self.max_missing
        if self.min_info is not None:
            sentence = f"min_info={self.min_info:g}"
            masks["min_info"] = imputation_quality(alleles, here, rows, sentence) >= self.min_info
        if self.hwe is not None:
            counts = of_diploids(alleles.genotype_counts(here, m, f"hwe={self.hwe:g}"), here, rows)
            masks["hwe"] = is_in_equilibrium(counts, self.hwe)
        for name, passes in masks.items():
            of_all = np.zeros(remaining.n, dtype=bool)
            of_all[at] = passes
            remaining.filter(name, of_all)
        return replace(
            before, features=remaining.positions, left_out={**before.left_out, **remaining.out}
        )


def of_diploids(counts: Index, source: AbstractSource, rows: Index | None) -> Index:
    """Return genotype counts (d, 3) of diploid calls only; 0 for features that are not tested.

    Features on X are read again for females only, if sexes are known; otherwise they are not
    tested, with a warning. Features on Y and MT are never tested.
    """
    d = source.n_features
    sexes = source.sexes() if source.sex_linked_features().size else None
    codes, names = chromosome_codes(source) or (np.zeros(d, dtype=np.int64), np.array([""]))
    counts, on_x = counts.copy(), np.isin(names, BY_SEX)[codes]
    is_mixed = np.isin(np.arange(d), source.haploid_features())
    if sexes is not None and sexes.are_known:
        is_mixed |= (names == OF_BOTH)[codes]
    counts[np.isin(names, ONE_COPY)[codes]] = 0
    of_unknown = on_x & ~is_mixed
    if of_unknown.any():
        counts[of_unknown] = 0
        warn(
            f"hwe= was not applied to {int(of_unknown.sum()):,} features on X, because the sexes "
            f"of the samples are unknown. These features are kept. {KNOWN_BY} To exclude X, use "
            "chromosomes=.",
        )
    diploid = np.flatnonzero(is_mixed & ~np.isin(names, ONE_COPY)[codes])
    if diploid.size:
        here = SubsetSource(source, diploid)
        for block in here.blocks(BLOCK_FEATURES):
            columns = np.arange(block.width)
            counts[diploid[block.start : block.stop]] = here.diploid_genotypes(block, columns, rows)
    return counts


def with_haploid(frequency: Float, source: AbstractSource, rows: Index | None) -> Float:
    """Return allele frequencies (d,); a haploid call, such as a male's on X, counts as one allele.

    On Y, only males are counted if sexes are known, as in PLINK. Features with both haploid
    and diploid calls, and features on Y, are read again for this.
    """
    frequencies = frequency * ((source.ploidy or DIPLOID) / full_dosages(source))
    features = source.haploid_features()
    if features.size:
        frequencies[features] = _of_alleles(SubsetSource(source, features), rows)
    mask = on_y(source)
    males = None if mask is None else males_of(source)
    if mask is not None and males is not None and males.any():
        only = np.flatnonzero(males) if rows is None else rows[males[rows]]
        here = SubsetSource(source, np.flatnonzero(mask))
        frequencies[mask] = _mean_dosages(here, only) / full_dosages(here)
    return frequencies


def _of_alleles(source: AbstractSource, rows: Index | None) -> Float:
    """Allele frequencies (d,) from `allele_counts`; NaN for features without calls."""
    parts = []
    for block in source.blocks(BLOCK_FEATURES):
        counts = source.allele_counts(block, np.arange(block.width), rows)
        nothing = np.full(block.width, np.nan)
        parts.append(np.divide(*counts, out=nothing, where=counts[1] > 0))
    return np.concatenate(parts)


def _variable_of(
    data: Any, source: AbstractSource, name: str, missing_chunks: MissingChunks
) -> Array:
    """Read a variable (m,) of the samples: a feature of a table, or a variable of the store."""
    column = column_of(data, source, name)
    if column is not None:
        return column
    return labels_at(data, name, missing_chunks, "sample names with keep=")


def _mean_dosages(source: AbstractSource, rows: Index) -> Float:
    """Means (d,) of the values of samples `rows`; NaN without values."""
    parts = []
    for block in source.blocks(BLOCK_FEATURES):
        raw, missing = dosages_of(source, block, np.arange(block.width), rows)
        n, nothing = (~missing).sum(axis=1), np.full(block.width, np.nan)
        parts.append(np.divide(raw.sum(axis=1), n, out=nothing, where=n > 0))
    return np.concatenate(parts)


class _RemainingMask:
    """Mask of the remaining samples or features, out of `n`; `out` counts removals by filter."""

    def __init__(self, noun: str, n: int, mask: Mask | None = None) -> None:
        self.noun, self.n, self.out = noun, n, dict[str, int]()
        self._mask = np.ones(n, dtype=bool) if mask is None else mask

    def filter(self, name: str, met: Mask) -> None:
        """Apply the mask `met` of a filter; InputError if nothing remains."""
        before = int(self._mask.sum())
        self._mask &= met
        self.out[name] = before - int(self._mask.sum())
        if self.out[name] == before:
            other_filters = [f"{other}=" for other in self.out if other != name]
            beside = f" that remain after {', '.join(other_filters)}" if other_filters else ""
            which = f"all {before:,} {self.noun}" if before > 1 else f"the only {self.noun[:-1]}"
            beside = beside if before > 1 else beside.replace("remain", "remains")
            raise InputError(
                f"{name}= removes {which}{beside}. Compare it with the data "
                "(dhsic inspect), or do not use this filter."
            )

    def keep(self, name: str, given: Any, called: Callable[[Any, str], Mask]) -> None:
        """Apply a filter that is a mask or a list of names; `called` converts names to a mask."""
        if given is None:
            return
        if isinstance(given, str | PathLike) or np.asarray(given).dtype.kind != "b":
            mask = called(given, name)
        else:
            mask = np.asarray(given)
        if mask.shape != (self.n,):
            raise InputError(
                f"{name}= is a mask of shape {mask.shape}, but there are {self.n} {self.noun}. "
                "Pass one value per item, or names."
            )
        self.filter(name, ~mask if name in LEAVING_OUT else mask)

    def meet(self, condition: Condition | None, read: Callable[[str], Array]) -> None:
        """Apply a condition on variables; `read` returns the values of a variable by name."""
        if condition is None:
            return
        values = {name: read(name) for name in condition.names}
        for name, column in values.items():
            if column.shape != (self.n,):
                raise InputError(
                    f"{condition.what}={condition.said!r}: {name} has shape {column.shape}, but "
                    f"there are {self.n} {self.noun}. Use a variable with one value for each of "
                    "them."
                )
        self.filter(condition.what, condition.holds(values))

    @property
    def positions(self) -> Index | None:
        """Positions of the remaining samples or features, ascending; None for all."""
        return None if self._mask.all() else np.flatnonzero(self._mask)

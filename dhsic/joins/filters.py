"""Filters: which samples and features of the data take part, by name, place or condition.

As in PLINK 2, those of samples come before those of features. Nothing is copied: what comes out are
positions in the data (`Filtered`), so that whoever goes on needs neither names nor files.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike, fspath
from typing import Any

import numpy as np
import pandas as pd

from dhsic._typing import Array, Float, Index, Mask
from dhsic.errors import InputError
from dhsic.joins.conditions import Condition
from dhsic.joins.filtered import OF_SAMPLES, Filtered
from dhsic.joins.keys import as_text, written_once
from dhsic.joins.likeness import difference
from dhsic.joins.places import features_at
from dhsic.joins.sample_list import SampleList
from dhsic.joins.table import names_of
from dhsic.joins.variables import labels_at, values_of_features
from dhsic.namespace import slices
from dhsic.sources import AbstractSource
from dhsic.sources.columns import NAME, STRETCH, Column
from dhsic.sources.delimited import Delimited
from dhsic.sources.ids import some
from dhsic.sources.options import MissingChunks
from dhsic.sources.plink import AbstractPlinkSource
from dhsic.sources.values import Alleles
from dhsic.sources.variants import IDS
from dhsic.sources.views import SubsetSource, whole_of
from dhsic.validation import is_number

#: Counts alleles of all features of a source, over some samples (None: all).
Counting = Callable[[AbstractSource, Index | None], Alleles]
#: Features of a block of haploid calls that are counted.
BLOCK_FEATURES = 1024
#: Filters that leave out what they name.
LEAVING_OUT = ("remove", "exclude")
#: Parts of missing values from which a user of vcftools may mean the part that is there.
MOSTLY = 0.5


@dataclass(frozen=True, eq=False, kw_only=True)
class Filters:
    """Which samples and features take part in a run; others are left out, and counted.

    Parameters
    ----------
    keep, remove : path, sequence of str or (m,) bool array, optional
        Samples that alone take part, and samples that do not: ids, or a file of them with FID and
        IID, or one id, in each line, with a header or without.
    keep_if : str, optional
        Condition on variables of the data along the samples: ``"age >= 18 and sex == 1"``. Samples
        without a value of one of them do not meet it.
    chromosomes : str or sequence of str, optional
        Where features lie that take part: ``"1-5,X"``, or places such as ``"6:25000000-34000000"``,
        of which both ends belong to it. "chr6" and "6" are the same.
    extract, exclude : path, sequence of str or (d,) bool array, optional
        Features that alone take part, and features that do not: ids or names, or a file of them
        between blanks.
    extract_if : str, optional
        Condition on what the data say of their features: ``"variant_quality >= 30"``.
    maf : float, optional
        Least frequency of the rarer allele, such as 0.01, in the samples that take part. Values are
        copies of an allele.
    max_missing : float, optional
        Largest part of the values of a feature that may be missing among these samples: 0.1 leaves
        out what lacks more than a tenth.

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
    chromosomes: str | Sequence[str] | None = None
    extract: Any = None
    exclude: Any = None
    extract_if: str | None = None
    maf: float | None = None
    max_missing: float | None = None

    def of(
        self,
        data: Any,
        source: AbstractSource,
        counting: Counting,
        missing_chunks: MissingChunks = "error",
    ) -> Filtered:
        """What takes part of `data`, which are open as `source`; `counting` counts their alleles.

        Raises
        ------
        InputError
            Filters that mean nothing, or that leave nothing.
        """
        found = self.by_name(data, source, missing_chunks)
        return self.by_values(found, source, found.samples, counting)

    def by_name(
        self, data: Any, source: AbstractSource, missing_chunks: MissingChunks = "error"
    ) -> Filtered:
        """What takes part, but for filters by the values of features."""
        self._check()
        keep_if, extract_if = (
            None if said is None else Condition.of(said, name)
            for name, said in (("keep_if", self.keep_if), ("extract_if", self.extract_if))
        )

        def samples_called(given: Any, name: str) -> Mask:
            known = names_of(data) if hasattr(data, "iloc") else source.sample_names()
            whole = whole_of(source)
            ids = whole.files.family_ids() if isinstance(whole, AbstractPlinkSource) else None
            return _samples(given, name, known, ids)

        def features_called(given: Any, name: str) -> Mask:
            return _features(given, name, described(source))

        def of_samples(name: str) -> Array:
            return labels_at(data, name, missing_chunks, "names of samples with keep=")

        def of_features(name: str) -> Array:
            known, otherwise = described(source), "names of features with extract="
            if name in known:
                return known[name].read(slice(0, source.n_features))
            return values_of_features(
                data, name, source, missing_chunks, what="extract_if", otherwise=otherwise
            )

        samples, features = _Left("samples", source.n_samples), _Left("features", source.n_features)
        samples.keep("keep", self.keep, samples_called)
        samples.keep("remove", self.remove, samples_called)
        samples.meet(keep_if, of_samples)
        if self.chromosomes is not None:
            features.filter("chromosomes", features_at(self.chromosomes, described(source)))
        features.keep("extract", self.extract, features_called)
        features.keep("exclude", self.exclude, features_called)
        features.meet(extract_if, of_features)
        left_out = {**samples.out, **Filtered.of(source).left_out, **features.out}
        return Filtered(samples.positions, features.positions, left_out)

    def _check(self) -> None:
        """Refuse thresholds that are none."""
        for name, value, most in (("maf", self.maf, 0.5), ("max_missing", self.max_missing, 1)):
            if value is not None and not (is_number(value) and 0 <= value <= most):
                raise InputError(f"{name}={value!r}; pass a number from 0 to {most}, 1% is 0.01.")
        if self.max_missing is not None and MOSTLY < self.max_missing < 1:
            warnings.warn(
                f"max_missing={self.max_missing:g} leaves in features that lack up to "
                f"{self.max_missing:.0%} of their values. If so many are to be there, as vcftools "
                f"means it, pass {1 - self.max_missing:.4g}.",
                stacklevel=2,
            )

    def by_values(
        self, before: Filtered, source: AbstractSource, rows: Index | None, counting: Counting
    ) -> Filtered:
        """What `before` left, less features by their values in the samples at `rows` (None: all).

        `source` has all features.
        """
        if self.maf is None and self.max_missing is None:
            return before
        here, at = before.features_of(source), before.features
        at = np.arange(source.n_features) if at is None else at
        mask = np.zeros(source.n_features, dtype=bool)
        mask[at] = True
        left = _Left("features", source.n_features, mask)
        left.out |= {k: n for k, n in before.left_out.items() if k not in OF_SAMPLES}
        found, m = counting(here, rows), source.n_samples if rows is None else rows.size
        kept = dict[str, Mask]()
        if self.maf is not None:
            said = f"maf={self.maf:g}"
            frequency = with_haploid(found.minor_frequency(here, m, said), here, rows)
            kept["maf"] = np.minimum(frequency, 1 - frequency) >= self.maf
        if self.max_missing is not None:
            kept["max_missing"] = found.n_missing / m <= self.max_missing
        for name, met in kept.items():
            of_all = np.zeros(left.n, dtype=bool)
            of_all[at] = met
            left.filter(name, of_all)
        return replace(before, features=left.positions, left_out={**before.left_out, **left.out})


def with_haploid(frequency: Float, source: AbstractSource, rows: Index | None) -> Float:
    """Allele frequencies (d,) in which a haploid call, as of males on X, is one allele.

    Features with haploid and diploid calls are read again for that, those of one chromosome.
    """
    features = source.haploid_features() if source.ploidy is not None else np.arange(0)
    if not features.size:
        return frequency
    here, found = SubsetSource(source, features), frequency.copy()
    for block in here.blocks(BLOCK_FEATURES):
        counts = here.allele_counts(block, np.arange(block.width), rows)
        nothing = np.full(block.width, np.nan)
        found[features[block.start : block.stop]] = np.divide(
            *counts, out=nothing, where=counts[1] > 0
        )
    return found


class _Left:
    """What is left of `n` samples or features, and how many each filter left out (`out`)."""

    def __init__(self, noun: str, n: int, mask: Mask | None = None) -> None:
        self.noun, self.n, self.out = noun, n, dict[str, int]()
        self._mask = np.ones(n, dtype=bool) if mask is None else mask

    def filter(self, name: str, met: Mask) -> None:
        """Leave out what does not meet a filter; refused where nothing is left."""
        before = int(self._mask.sum())
        self._mask &= met
        self.out[name] = before - int(self._mask.sum())
        if self.out[name] == before:
            others = [f"{other}=" for other in self.out if other != name]
            beside = f" that {', '.join(others)} left" if others else ""
            raise InputError(
                f"{name}= leaves none of the {before:,} {self.noun}{beside}. Check what it says "
                "against the data (dhsic inspect), or leave it out."
            )

    def keep(self, name: str, given: Any, called: Callable[[Any, str], Mask]) -> None:
        """Filter by a mask, or by names, of which those are that are `called` so."""
        if given is None:
            return
        if isinstance(given, str | PathLike) or np.asarray(given).dtype.kind != "b":
            mask = called(given, name)
        else:
            mask = np.asarray(given)
        if mask.shape != (self.n,):
            raise InputError(
                f"{name}= is a mask of shape {mask.shape} and there are {self.n} {self.noun}; pass "
                "one value for each of them, or names."
            )
        self.filter(name, ~mask if name in LEAVING_OUT else mask)

    def meet(self, condition: Condition | None, read: Callable[[str], Array]) -> None:
        """Filter by a condition on variables."""
        if condition is None:
            return
        values = {name: read(name) for name in condition.names}
        for name, column in values.items():
            if column.shape != (self.n,):
                raise InputError(
                    f"{condition.what}={condition.said!r}: {name} has shape {column.shape} and "
                    f"there are {self.n} {self.noun}; take a variable with one value for each."
                )
        self.filter(condition.what, condition.holds(values))

    @property
    def positions(self) -> Index | None:
        """Where they are; None for all."""
        return None if self._mask.all() else np.flatnonzero(self._mask)


# Names ---------------------------------------------------------------------------------------


class _Ids:
    """Ids that a filter gives, and how often the data have each."""

    def __init__(self, given: Iterable[str]) -> None:
        self.names = pd.Index(pd.unique(as_text(given)), dtype=object)
        self.counts = np.zeros(self.names.size, dtype=np.int64)

    def among(self, *names: Array) -> Mask:
        """Which of things with these names, of each the first that is known, are given."""
        at = np.full(len(names[0]), -1)
        for known in names[::-1]:
            found = self.names.get_indexer(pd.Index(known, dtype=object))
            at = np.where(found >= 0, found, at)
        np.add.at(self.counts, at[at >= 0], 1)
        return at >= 0

    def tell(self, name: str, noun: str, ours: Array | None = None) -> None:
        """Warn of ids that the data lack, or have more than once; refuse when they lack all.

        `ours` are the names of the data, of which a refusal says how they are written.
        """
        lacking, repeated = self.names[self.counts == 0], self.names[self.counts > 1]
        if lacking.size == self.names.size:
            told = "" if ours is None else difference(self.names, ours)[0]
            told += " " * bool(told)
            raise InputError(
                f"{name}= names {self.names.size:,} {noun} and none of the data "
                f"({some(self.names) or 'it is empty'}). {told}Check how they are called (dhsic "
                "inspect), or leave it out."
            )
        if lacking.size:
            warnings.warn(
                f"{name}= names {self.names.size:,} {noun}, {lacking.size:,} of which the data do "
                f"not have ({some(lacking)}).",
                stacklevel=2,
            )
        if repeated.size:
            warnings.warn(
                f"{name}= names {self.names.size:,} {noun}, {repeated.size:,} of which the data "
                f"have more than once ({some(repeated)}); all of these count.",
                stacklevel=2,
            )


def _listed(given: Any, name: str) -> Array:
    """Ids of a sequence."""
    values = np.array([given] if np.ndim(given) == 0 else [*given], dtype=object)
    if values.ndim != 1 or np.ndim(given) == 0:
        raise InputError(f"{name}={given!r}; pass the path of a file, or a list of ids.")
    return as_text(values)


def _samples(
    given: Any, name: str, known: Array | None, families: tuple[Array, Array] | None = None
) -> Mask:
    """Which samples are given by their ids, or a file of these; `families` are FID and IID."""
    if known is None:
        raise InputError(
            f"The data do not name their samples, so {name}= finds none; in Python, pass a mask: "
            "an array of bool, one value a sample."
        )
    names = as_text(known)
    once = written_once(names)
    of_each = [names] if once is None else [names, once]
    listed = SampleList.read(fspath(given)) if isinstance(given, str | PathLike) else None
    keys = iter([_listed(given, name)]) if listed is None else listed.keys()
    found = [(key := _Ids(ids), key.among(*of_each)) for ids in keys]
    ids, mask = max(found, key=lambda one: int((one[0].counts > 0).sum()))
    ids.tell(name, "samples", names)
    if listed is None or listed.families is None or families is None:
        return mask
    pairs = pd.MultiIndex.from_arrays([listed.families, listed.own])
    is_pair = pd.MultiIndex.from_arrays([*map(as_text, families)]).isin(pairs)
    is_own = np.isin(as_text(families[1]), listed.own)
    others = np.flatnonzero(mask & is_own & ~is_pair)
    if others.size:
        own = families[1][others[0]]
        theirs = listed.families[listed.own.index(own)]
        told = (
            f"{name}= names {others.size:,} samples by an IID of the data and another FID (first: "
            f"FID {theirs} of {own}, which is {families[0][others[0]]} in the data)"
        )
        remedy = "Correct the FIDs, or list IIDs alone, one in each line."
        if others.size == mask.sum():
            raise InputError(f"{told}, and no others. {remedy}")
        warnings.warn(f"{told}; as in PLINK they are not meant. {remedy}", stacklevel=2)
        mask[others] = False
    return mask


def described(source: AbstractSource) -> Mapping[str, Column]:
    """Names of the features, as ``feature``, and what else a source says of them."""
    columns = source.feature_columns()
    if columns is not None:
        return columns
    known, names = dict(source.feature_coords()), source.feature_names()
    if names is not None:
        known[NAME] = names
    return {
        name: Column(source.n_features, np.asarray(values).dtype, np.asarray(values).__getitem__)
        for name, values in known.items()
    }


def _features(given: Any, name: str, known: Mapping[str, Column]) -> Mask:
    """Which features are given by their ids, or a file of these; ids come before other names."""
    columns = [known[of] for of in (IDS, NAME) if of in known]
    if not columns:
        raise InputError(
            f"The data do not name their features, so {name}= finds none; in Python, pass a mask: "
            "an array of bool, one value a feature."
        )
    if isinstance(given, str | PathLike):
        text = Delimited(fspath(given), is_list=True)
        text.separator = ""  # ids may hold commas
        ids = _Ids(word for line in text.lists() for word in line)
    else:
        ids = _Ids(_listed(given, name))
    parts = [
        ids.among(*(as_text(column.read(rows)) for column in columns))
        for rows in slices(columns[0].n, STRETCH)
    ]
    ids.tell(name, "features")
    return np.concatenate(parts)

"""Classification of a matrix as allele counts, with codes for missing calls, or as other data.

Genotype tools write a missing call as a number: -1 (VCF Zarr), -9 (PLINK's text files), -127
(bed-reader). If such a code is used as a value, it is an outlier that decides the ranking. All
values are therefore inspected first. In a matrix of 0, 1 and 2, codes become missing, and any other
rare value raises an error. Other data remain unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Any

import numpy as np

from dhsic._typing import Array, Float, Index, Mask
from dhsic.errors import DataError, InputError
from dhsic.sources import AbstractSource
from dhsic.sources.feature_blocks import FloatBlocks
from dhsic.sources.scaling import missing_mask
from dhsic.sources.text_features import TWO_DIGITS
from dhsic.sources.views import RecodedSource

#: Numbers that mean a missing call. The first, -1, may also be a value, in data of -1, 0 and 1 or
#: on a scale to 5. It is a code only if the largest value is 2, which shows that copies are
#: counted.
CODES = (-1, -9, -127)
UNSURE = CODES[0]
MOST_COPIES = 2
#: Maximum number of distinct other values among 0, 1, 2; with more, data are of another kind.
MOST_STRAYS = 3
#: Maximum number of distinct codes in fractions from 0 to 2, such as imputed dosages.
MOST_LONE = 2
#: Descriptions of the values, for messages.
DOSAGES, CALLS = "dosages", "genotype calls (0, 1 and 2)"
ONLY, MORE = "only 0, 1 and 2", "values other than 0, 1 and 2"
#: Description of 1, 2 and 3, the codes of genotypes in R and others that count from 1.
FROM_ONE = "1, 2 and 3, which are treated as numbers; if they are genotypes, subtract 1"
#: Largest ordinary value in data in which the value 1, or the value 2, does not occur.
FEW_LEVELS = 8
#: Dosage data may have one feature of another kind, such as age, per this many features.
FEW_OTHERS = 20
#: Up to this many consecutive integers may be 0 to 2 with -1 for missing; more are a scale.
SHORTEST_SCALE = 4
#: Advice if a code is a value, for messages.
KEEPING = "If it is a real value, pass missing_code=None."
#: Maximum number of distinct values that are recorded.
MOST_TOLD = 64


@dataclass(frozen=True, slots=True)
class Occurrences:
    """Number of occurrences of a value, and the position (feature, sample) of the first."""

    n: int
    place: tuple[int, int]

    def __add__(self, other: Occurrences) -> Occurrences:
        return Occurrences(self.n + other.n, min(self.place, other.place))

    def __str__(self) -> str:
        times = "once" if self.n == 1 else f"{self.n:,} times"
        return f"{times}, first in feature {self.place[0]} of sample {self.place[1]}"


@dataclass(frozen=True, slots=True)
class Census:
    """Summary of the values of some features, by which `ValueKind` classifies them.

    Attributes
    ----------
    n_features : int
        Number of features.
    n_others : int
        Number of features that vary and are not dosages. Such a feature has more than `MOST_STRAYS`
        distinct values outside 0 to 2, or only values outside 0 to 2, or both fractions and values
        outside 0 to 2.
    n_fractions : int
        Number of features with fractions from 0 to 2 that are not counted in `n_others`.
    has_zero, has_one : bool
        Whether the value 0 occurs, and whether the value 1 occurs.
    largest : float
        Largest value within 0 to 2.
    outside : mapping
        Occurrences of each value outside 0 to 2, including codes, in the features that are not
        counted in `n_others`.
    n_lone : int
        Number of features, among `n_others`, that have fractions from 0 to 2 and, in fewer than
        half of the samples, whole numbers outside 0 to 2.
    lone : mapping
        Occurrences of each of these whole numbers.
    """

    n_features: int = 0
    n_others: int = 0
    n_fractions: int = 0
    has_zero: bool = False
    has_one: bool = False
    largest: float = 0.0
    outside: Mapping[float, Occurrences] = field(default_factory=dict)
    n_lone: int = 0
    lone: Mapping[float, Occurrences] = field(default_factory=dict)

    def __add__(self, other: Census) -> Census:
        return Census(
            self.n_features + other.n_features,
            self.n_others + other.n_others,
            self.n_fractions + other.n_fractions,
            self.has_zero or other.has_zero,
            self.has_one or other.has_one,
            max(self.largest, other.largest),
            _merged(self.outside, other.outside),
            self.n_lone + other.n_lone,
            _merged(self.lone, other.lone),
        )

    @property
    def strays(self) -> dict[float, Occurrences]:
        """Occurrences of each value outside 0 to 2 that is not a code, in ascending order."""
        return {v: f for v, f in sorted(self.outside.items()) if v not in CODES}

    @property
    def is_counts(self) -> bool:
        """Whether nearly all features are allele counts: 0, 1 and 2, with few other values.

        At most one in `FEW_OTHERS` features may have fractions or other kinds of values.
        """
        return FEW_OTHERS * (self.n_others + self.n_fractions) <= self.n_features

    @property
    def is_mixed(self) -> bool:
        """Whether more than one in `FEW_OTHERS` features is not a dosage."""
        return FEW_OTHERS * self.n_others > self.n_features

    @property
    def is_ordinary(self) -> bool:
        """Whether most features are not dosages, or many different values are outside 0 to 2."""
        return 2 * self.n_others > self.n_features or len(self.strays) > MOST_STRAYS

    @property
    def is_more_copies(self) -> bool:
        """Whether values continue above 2 without a gap (3, 4, ...), as in polyploid genotypes."""
        values = list(self.strays)
        return len(values) > 1 and values == list(range(3, 3 + len(values)))

    @property
    def is_from_one(self) -> bool:
        """Whether the values are 1, 2 and 3, like genotypes that are numbered from 1."""
        is_plain = not (self.n_others or self.n_fractions or self.has_zero)
        return is_plain and self.has_one and self.largest > 1 and [*self.outside] == [3]

    @property
    def is_scale(self) -> bool:
        """Whether the values are five or more consecutive whole numbers, some below 0."""
        values = sorted({*self.outside, 0.0, 1.0, 2.0})
        gapless = values == list(np.arange(values[0], values[0] + len(values)))
        return bool(gapless and values[0] < 0 and len(values) > SHORTEST_SCALE)

    @property
    def far(self) -> Mapping[float, Occurrences]:
        """One or two integers far outside 0 to 2, if all other values are within 0 to 2.

        Such integers cannot be dosages, so they probably mean missing values. In other data the
        result is empty.
        """
        is_kind = FEW_OTHERS * (self.n_others - self.n_lone) <= self.n_features
        is_alone = 0 < len(self.lone) <= MOST_LONE and not self.strays and self.largest > 1
        is_far = all(value < 0 or value > FEW_LEVELS for value in self.lone)
        return self.lone if is_kind and is_alone and is_far else {}

    @staticmethod
    def of(raw: Array, missing_code: int | None, features: Index, rows: Index | None) -> Census:
        """Summarise stored values (c, m) of the features at positions `features` (c,).

        `rows` (m,) are the positions of the samples; None for all.
        """
        if not raw.size:
            return Census()
        if raw.dtype.kind != "f" and raw.min() >= min(CODES[0], 0) and raw.max() <= MOST_COPIES:
            return _census_of_counts(raw, missing_code, features, rows)  # the usual case
        outside = (raw < 0) | (raw > MOST_COPIES)
        missing = missing_mask(raw, missing_code)
        is_excluded = outside
        if missing is not None:
            is_excluded, outside = outside | missing, outside & ~missing
        is_code = np.zeros(raw.shape, dtype=bool)
        for code in CODES:
            is_code |= raw == code
        is_code &= outside
        other_values: dict[float, Occurrences] = {}
        lone: dict[float, Occurrences] = {}
        fractions = _have_fractions(raw, ~outside)
        strays = (outside & ~is_code).any(axis=1)
        is_other = strays & (fractions | outside.all(axis=1))
        for c in np.flatnonzero(strays & ~is_other):
            occurrences = _values(raw[[c]], (outside[c] & ~is_code[c])[None], features[[c]], rows)
            is_other[c] = len(occurrences) > MOST_STRAYS
            other_values = other_values if is_other[c] else _merged(other_values, occurrences)
        is_lone = strays & fractions & ~_have_fractions(raw, outside)
        is_lone &= 2 * outside.sum(axis=1) < raw.shape[1]
        for c in np.flatnonzero(is_lone):
            lone = _merged(lone, _values(raw[[c]], outside[[c]], features[[c]], rows))
        codes = _values(raw, is_code & ~is_other[:, None], features, rows)
        return Census(
            n_features=len(raw),
            n_others=int((is_other & (raw != raw[:, :1]).any(axis=1)).sum()),
            n_fractions=int((fractions & ~is_other).sum()),
            has_zero=_occurs(0, raw, missing),
            has_one=_occurs(1, raw, missing),
            largest=float(np.fmax.reduce(np.where(is_excluded, 0, raw), axis=None, initial=0)),
            outside=_merged(other_values, codes),
            n_lone=int(is_lone.sum()),
            lone=lone,
        )


def _census_of_counts(
    raw: Array, missing_code: int | None, features: Index, rows: Index | None
) -> Census:
    """Compute `Census.of` for integers from -1 to 2, which is the usual case."""
    outside: dict[float, Occurrences] = {}
    if raw.min() < 0 and missing_code != CODES[0]:
        outside = _values(raw, raw < 0, features, rows)
    zeros, ones = (bool((raw[:1] == v).any() or (raw == v).any()) for v in (0, 1))
    largest = max(float(raw.max()), 0.0)
    return Census(len(raw), has_zero=zeros, has_one=ones, largest=largest, outside=outside)


def _occurs(value: int, raw: Array, missing: Mask | None) -> bool:
    """Whether the non-missing values among stored values (c, m) contain the number `value`."""
    is_equal = raw == value
    return bool((is_equal if missing is None else is_equal & ~missing).any())


def _have_fractions(raw: Array, which: Mask) -> Mask:
    """Return the mask (c,) of features with a fraction among the values in the mask `which`."""
    if raw.dtype.kind != "f":
        return np.zeros(len(raw), dtype=bool)
    return np.asarray(((raw != np.floor(raw)) & which & ~np.isnan(raw)).any(axis=1))


def _values(
    raw: Array, which: Mask, features: Index, rows: Index | None
) -> dict[float, Occurrences]:
    """Count each distinct value among the entries of the mask `which` (c, m)."""
    at_feature, at_sample = np.divmod(np.flatnonzero(which), raw.shape[1])
    values, first, counts = np.unique(
        raw[at_feature, at_sample], return_index=True, return_counts=True
    )
    samples = at_sample if rows is None else rows[at_sample]
    places = zip(features[at_feature[first]].tolist(), samples[first].tolist(), strict=True)
    told = zip(values.tolist(), counts.tolist(), places, strict=True)
    return {value: Occurrences(n, place) for value, n, place in told}


def _merged(
    some: Mapping[float, Occurrences], more: Mapping[float, Occurrences]
) -> dict[float, Occurrences]:
    merged = dict(some)
    for value, occurrences in more.items():
        if value in merged:
            merged[value] = merged[value] + occurrences
        elif len(merged) < MOST_TOLD:
            merged[value] = occurrences
    return merged


@dataclass(frozen=True, slots=True)
class ValueKind:
    """Kind of the values of a matrix: dosages or other numbers.

    `dosages` is True if all values are 0, 1, 2 or missing, as in allele counts or presence.
    `codes` are numbers that are treated as missing, with their occurrences, in addition to the code
    that the source declares. `because` describes the values, for messages.
    """

    dosages: bool
    codes: Mapping[int, Occurrences] = field(default_factory=dict)
    because: str = ""

    @staticmethod
    def declared(source: AbstractSource) -> ValueKind | None:
        """Return the value kind that the metadata declare; None if values must be inspected."""
        if source.dosages and source.keeps_codes:
            are_calls = np.dtype(source.dtype).kind in "iu" and source.ploidy == MOST_COPIES
            return ValueKind(dosages=True, because=CALLS if are_calls else DOSAGES)
        if np.dtype(source.dtype).kind == "b":
            return ValueKind(dosages=True, because="only 0 and 1")
        return None

    @staticmethod
    def judged(source: AbstractSource, tally: Census, *, as_they_are: bool = False) -> ValueKind:
        """Determine the value kind of a source from the summary `tally` of its values.

        If `as_they_are` is True, no number means a missing value.

        Raises
        ------
        DataError
            A few values are neither 0, 1, 2 nor codes. Or a number is a code in some features and
            may be a value in others. The message names the numbers.
        """
        kind = _kind_without_codes(tally) if as_they_are or source.keeps_codes else _judged(tally)
        return replace(kind, dosages=True, because=DOSAGES) if source.dosages else kind

    def __str__(self) -> str:
        return (
            f"{self.because}; {_list_occurrences(self.codes)} treated as missing"
            if self.codes
            else self.because
        )


def _list_occurrences(values: Mapping[Any, Occurrences]) -> str:
    return "; ".join(f"{_written(value)} ({found})" for value, found in sorted(values.items()))


def _written(value: float) -> str:
    """Format a number with all its digits.

    >>> _written(-9.0), _written(1000.000001)
    ('-9', '1000.000001')
    """
    return repr(float(value)).removesuffix(".0")


def _kind_without_codes(tally: Census) -> ValueKind:
    """Determine the value kind from a summary if no number means a missing value."""
    dosages = not (tally.n_others or tally.n_fractions or tally.outside)
    if tally.is_from_one:
        return ValueKind(dosages=False, because=FROM_ONE)
    if dosages or tally.is_ordinary or not tally.is_counts:
        return ValueKind(dosages, because=ONLY if dosages else MORE)
    return ValueKind(
        dosages=False,
        because=f"0, 1 and 2, and also {_list_occurrences(tally.outside)}, which are treated as "
        "numbers. Because of them, the features are not read as genotypes",
    )


def _judged(tally: Census) -> ValueKind:
    if tally.far:
        _refuse(tally.far, "values from 0 to 2")
    if tally.is_from_one:
        return ValueKind(dosages=False, because=FROM_ONE)
    strays = tally.strays
    if (tally.is_ordinary and not tally.is_more_copies) or tally.is_scale:
        return ValueKind(dosages=False, because=MORE)
    sure = tally.largest > 1
    counts = sure and tally.has_zero and tally.has_one
    lone = {v: f for v, f in strays.items() if counts or abs(v) > FEW_LEVELS}
    seen = sorted(v for v in tally.outside if v in CODES)
    seen += [0] * tally.has_zero + [1] * tally.has_one + [2] * sure
    if tally.is_counts and lone and seen and not tally.is_more_copies:
        _refuse(lone, ", ".join(map(_written, seen)), [v for v in tally.outside if v in CODES])
    alone = sure and not strays and not tally.is_mixed
    codes = {
        int(value): found
        for value, found in tally.outside.items()
        if value in CODES and (alone or value != UNSURE)
    }
    if codes and tally.is_mixed:
        given = next(iter(codes)) if len(codes) == 1 else f"[{', '.join(map(str, sorted(codes)))}]"
        raise DataError(
            f"Some features of X are genotypes (0, 1, 2) and contain {_list_occurrences(codes)}, "
            "which means a missing call there. Other features of X are not genotypes, so it may be "
            "a value there. If it means a missing value in all features, pass "
            f"missing_code={given}. If it is a value in all features, pass missing_code=None."
        )
    plain = not (tally.n_others or tally.n_fractions or strays)
    dosages = plain and set(tally.outside) == set(codes)
    return ValueKind(dosages, codes, ONLY if dosages else MORE)


def _refuse(strays: Mapping[float, Occurrences], seen: str, others: Sequence[float] = ()) -> None:
    """Raise DataError for the values `strays`, which are not counts of alleles.

    `seen` lists the other values of the data as text, and `others` are the codes among them.
    """
    codes = ", ".join(map(_written, sorted(strays)))
    one = len(strays) == 1
    value = codes if one else f"[{codes}]"
    from_one, meaning = "", "it means" if one else "they mean"
    if [*strays] == [MOST_COPIES + 1] and seen.endswith("0, 1, 2"):
        zero = f"[0, {', '.join(map(_written, sorted(others)))}]" if others else "0"
        from_one = (
            "If genotypes are numbered 1, 2 and 3, and 0 is a missing call, pass "
            f"missing_code={zero}. "
        )
        meaning = f"{codes} means"
    if {*strays} <= TWO_DIGITS and any(v % 11 for v in strays) and seen == "0":
        raise DataError(
            f"X contains {seen} and {_list_occurrences(strays)}, like genotypes of two alleles, 1 "
            "and 2, where 0 is a missing call. Write the number of copies of allele 2, in Python: "
            "X = numpy.where(X > 0, X // 10 + X % 10 - 2, numpy.nan). To treat every number as a "
            "value, pass missing_code=None."
        )
    raise DataError(
        f"X contains {seen}, and otherwise only {_list_occurrences(strays)}, which "
        f"{'is' if one else 'are'} not a count of alleles. {from_one}If "
        f"{meaning} missing calls, pass missing_code={value}. To "
        "treat every number as a value, pass missing_code=None. Otherwise correct the data."
    )


@dataclass(frozen=True, slots=True)
class BlockKinds(ValueKind):
    """Kind of the values of several matrices (blocks); `kinds` has the kind of each matrix."""

    kinds: tuple[ValueKind, ...] = ()

    @staticmethod
    def of(names: Sequence[str], kinds: Sequence[ValueKind]) -> BlockKinds:
        """Combine the value kinds of several matrices, given the names of the matrices."""
        codes: Mapping[Any, Occurrences] = {}
        for kind in kinds:
            own: Mapping[Any, Occurrences] = kind.codes
            codes = _merged(codes, own)
        named = [f"{name}: {kind}" for name, kind in zip(names, kinds, strict=True)]
        dosages = all(kind.dosages for kind in kinds)
        return BlockKinds(dosages, codes, "; ".join(named), tuple(kinds))

    def __str__(self) -> str:
        return self.because


def recoded(source: AbstractSource, values: ValueKind) -> AbstractSource:
    """Return a view of the source in which codes are missing; without codes, the source itself.

    In dosages, all codes become -1, the missing code of the packed format. In several matrices, a
    code is missing only in the matrices where it is a code, and all values become floats.
    """
    if not values.codes:
        return source
    if isinstance(values, BlockKinds):
        return FloatBlocks(source, {b: [*kind.codes] for b, kind in enumerate(values.kinds)})
    free = values.dosages and source.missing_code is None
    return RecodedSource(source, sorted(values.codes), UNSURE if free else None)


@dataclass(frozen=True, slots=True)
class Alleles:
    """Allele counts of c features: sums over their samples, (c,) each.

    All values must be inspected before it is known which codes mean missing calls. In the same
    pass, values that equal a possible code are therefore counted separately.

    Attributes
    ----------
    n_missing : int64
        Number of missing values, according to the source.
    total : float64
        Sum of the values that are not missing.
    coded : int64
        For each of `CODES`, the number of non-missing values that equal it, (codes, c).
    census : Census
        Summary of the values, or of a few of them if these show that the data are not dosages.
    genotypes : int64 or None
        Numbers of values 0, 1 and 2, (c, 3); None if they were not counted.
    squares : float64 or None
        Sum of the squares of the values that are not missing; None for integers.
    """

    n_missing: Index
    total: Float
    coded: Index
    census: Census
    genotypes: Index | None = None
    squares: Float | None = None

    @staticmethod
    def of(
        raw: Array, missing_code: int | None, census: Census, *, genotypes: bool = False
    ) -> Alleles:
        """Count the alleles in stored values (c, m); `census` summarises these values."""
        missing = missing_mask(raw, missing_code)
        here = raw if missing is None else np.where(missing, raw.dtype.type(0), raw)
        lowest = here.min(initial=0)
        none = np.zeros(len(raw), dtype=np.int64)
        return Alleles(
            none if missing is None else missing.sum(axis=1),
            here.sum(axis=1, dtype=np.float64),
            np.array([(here == code).sum(axis=1) if code >= lowest else none for code in CODES]),
            census,
            _genotypes(raw, missing) if genotypes else None,
            np.einsum("ij,ij->i", *2 * [here.astype(np.float64)])
            if raw.dtype.kind == "f"
            else None,
        )

    @staticmethod
    def join(parts: Sequence[Alleles]) -> Alleles:
        """Concatenate the counts of consecutive features."""
        counted: list[Any] = [part.genotypes for part in parts]
        squares: list[Any] = [part.squares for part in parts]
        return Alleles(
            np.concatenate([part.n_missing for part in parts]),
            np.concatenate([part.total for part in parts]),
            np.concatenate([part.coded for part in parts], axis=1),
            sum((part.census for part in parts), Census()),
            None if counted[0] is None else np.concatenate(counted),
            None if squares[0] is None else np.concatenate(squares),
        )

    def judged(self, source: AbstractSource) -> Alleles:
        """Return the counts after codes for missing values have become missing.

        Raises
        ------
        DataError
            See `ValueKind.judged`.
        """
        if ValueKind.declared(source) is not None:
            return self
        codes = ValueKind.judged(source, self.census).codes
        n = self.coded * np.isin(CODES, [*codes])[:, None]
        numbers = np.array(CODES, dtype=np.float64)
        return Alleles(
            self.n_missing + n.sum(axis=0),
            self.total - numbers @ n,
            self.coded - n,
            self.census,
            self.genotypes,
            None if self.squares is None else self.squares - numbers**2 @ n,
        )

    def minor_frequency(self, source: AbstractSource, m: int, said: str) -> Float:
        """Return the minor allele frequencies (c,) among the calls of m samples; 0 without calls.

        Raises
        ------
        InputError
            The values are not allele counts; the message begins with `said`.
        """
        census, strays = self.census, self.census.strays
        largest = max([census.largest, *strays])
        copies = source.ploidy or max(1, ceil(largest))
        alleles = copies * (m - self.n_missing)
        is_other = census.n_others or (strays and not census.is_more_copies) or self.coded.any()
        is_share = bool(census.n_fractions) and largest <= 1 and source.ploidy is None
        if is_other or is_share or (self.total > alleles).any() or (self.total < 0).any():
            seen = "fractions up to 1" if is_share else f"values that are not 0 to {copies}"
            raise InputError(
                f"{said} filters by allele frequency, but X contains {seen}, which are not "
                "allele counts. Do not use this filter, or exclude these features (extract=, "
                "exclude=)."
            )
        rarer = np.minimum(self.total, alleles - self.total)
        return np.divide(rarer, alleles, out=np.zeros(rarer.size), where=alleles > 0)

    def genotype_counts(self, source: AbstractSource, m: int, said: str) -> Index:
        """Return how many of m samples have 0, 1 and 2 copies of an allele, (c, 3).

        Raises
        ------
        InputError
            The values are not biallelic genotypes; the message begins with `said`.
        """
        assert self.genotypes is not None, "they were counted"
        n_other = int((m - self.n_missing - self.genotypes.sum(axis=1)).sum())
        noun = f"{n_other:,} values that are not 0, 1 or 2, such as dosages of imputed alleles"
        if source.ploidy not in (None, MOST_COPIES):
            n_other, noun = 1, f"calls of {source.ploidy} alleles"
        if n_other:
            raise InputError(
                f"{said} filters diploid genotypes with two alleles, but X contains {noun}. Do "
                "not use this filter, or exclude these features (extract=, exclude=)."
            )
        return self.genotypes


def _genotypes(raw: Array, missing: Mask | None) -> Index:
    """Count the values 0, 1 and 2 of each feature: stored values (c, m), counts (c, 3)."""
    here = [raw == copies for copies in range(MOST_COPIES + 1)]
    present = here if missing is None else [each & ~missing for each in here]
    return np.stack([each.sum(axis=1) for each in present], axis=1)

"""Sexes of samples, and dosages of variants on chromosome X, of which males have one copy.

The single copy of a male has the dosage 0 or 2, so only females have heterozygous calls on X. Sexes
are read from the SEX column of PLINK files, or else inferred from the calls on X
(`dhsic.sources.males`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dhsic._typing import Array, Float, Index, Mask
from dhsic.sources.blocks import Block
from dhsic.sources.chunked import group_at, member, read_variable
from dhsic.sources.males import (
    APART,
    HARD_CALL,
    OFTEN,
    SELDOM,
    males_by_calls,
    n_near_one,
    places_on_x,
)
from dhsic.sources.options import text

if TYPE_CHECKING:
    from zarr.storage import StorePath

#: Codes of SEX for males and for females, as text.
MALE, FEMALE = ("1", "1.0", "M", "m"), ("2", "2.0", "F", "f")
#: Name of the variable of a store with the sexes; its code for unknown; and its attributes (CF
#: conventions).
SEX, UNKNOWN = "SEX", 0
SEX_ATTRIBUTES = {"flag_values": [1, 2], "flag_meanings": "male female"}
#: Name of the variable of a store that marks the features on X, if chromosomes are not stored.
ON_X = "feature_on_x"
#: Minimum number of females with a call at a variant on X, as a share of the largest such number of
#: any variant. On Y females have no calls.
MOST_CALLED = 0.5
#: Consecutive features in which males count 0 or 1: minimum number; minimum difference of the log
#: likelihoods of one and two alleles; maximum share of calls of 2; and bound of the frequencies.
FEWEST_SINGLE, LEAST_EVIDENCE, MOST_TWOS, LOWEST_FREQUENCY = 3, 70.0, 0.01, 0.02
#: Number of copies of a diploid chromosome; dosages go from 0 to this number.
DIPLOID = 2


def _no_features() -> Index:
    """Return an empty array of feature positions."""
    return np.empty(0, dtype=np.int64)


class DosageReader(Protocol):
    """Source of dosages that is read in blocks of features, such as an `AbstractSource`."""

    n_samples: int
    missing_code: int | None

    def read_columns(self, block: Block, local: Index, rows: Index | None = None) -> Array:
        """Read dosages of some features of a block, (c, m); `local` are positions in the block."""


@dataclass(frozen=True, eq=False)
class Sexes:
    """Masks of male and female samples; the sex of all other samples is unknown."""

    males: Mask  # (m,)
    females: Mask  # (m,)
    by_calls: int = 0  # number of males that were recognised by their calls on X
    are_clear: bool = True  # False if neither SEX nor the calls on X determine the sexes

    @property
    def are_known(self) -> bool:
        """Whether the sex of any sample is known."""
        return bool(self.males.any() or self.females.any())

    @classmethod
    def of_codes(cls, codes: Array | None, m: int) -> Sexes:
        """Create the masks from PLINK codes of SEX (m,): 1 or M, 2 or F; others are unknown."""
        texts = np.full(m, "", dtype=object) if codes is None else text(np.asarray(codes))
        return cls(np.isin(texts, MALE), np.isin(texts, FEMALE))

    def codes(self) -> Array:
        """Codes of SEX as in PLINK, (m,) int8: 1 for males, 2 for females, 0 for unknown."""
        return np.where(self.males, 1, np.where(self.females, 2, UNKNOWN)).astype(np.int8)


@dataclass(eq=False)
class DosagesOnX:
    """Features on X of a source of dosages, and the sexes of its samples, both read on demand.

    Attributes
    ----------
    features : callable
        Returns the positions of the features on X, ascending.
    sex : callable
        Returns codes of SEX (m,); None if there is no such variable.
    is_placed : bool
        Whether the features on X were found by their chromosomes. If not, chromosomes are unknown,
        and the features were recognised by calls of males and females.
    single : (k,)
        Positions of the features in which dosages of males are 0 or 1, and those of females 0, 1 or
        2. They are not in `features`, in which dosages of males are 0 or 2.
    """

    features: Callable[[], Index]
    sex: Callable[[], Array | None]
    is_placed: bool = True
    single: Index = field(default_factory=_no_features)
    _features: Index | None = None
    _sexes: Sexes | None = None

    @classmethod
    def of(cls, features: Index, sex: Array | None) -> DosagesOnX:
        """Return an instance for positions of features and SEX codes (m,) in memory."""
        sex_reader: Callable[[], Array | None] = partial(_constant, sex)
        return cls(partial(_constant, features), sex_reader)

    @classmethod
    def of_calls(cls, calls: CallsBySex, sex: Array | None) -> DosagesOnX:
        """Return an instance for data without chromosomes, from `calls` and SEX codes (m,)."""
        on_x = cls.of(calls.on_x(), sex)
        return replace(on_x, is_placed=False, single=calls.single_in_males())

    @property
    def positions(self) -> Index:
        """Positions of the features on X, ascending."""
        if self._features is None:
            self._features = self.features()
        return self._features

    def sexes_of(self, source: DosageReader) -> Sexes:
        """Sexes of the samples of `source`, inferred from calls on X if SEX contains no males."""
        if self._sexes is None:
            self._sexes = self._determine_sexes(source)
        return self._sexes

    def _determine_sexes(self, source: DosageReader) -> Sexes:
        """Return the sexes from SEX, or from the calls on X if SEX contains no males."""
        coded, features = Sexes.of_codes(self.sex(), source.n_samples), self.positions
        unknown = ~(coded.males | coded.females)
        if coded.males.any() or not unknown.any() or not features.size:
            return coded
        counts = np.zeros(source.n_samples)
        for start, stop in places_on_x(features, source.n_samples):
            local = features[(features >= start) & (features < stop)] - start
            counts += n_near_one(source.read_columns(Block(0, start, stop), local))
        inferred = males_by_calls(counts, unknown)
        n = int(inferred.males.sum())
        if not n:
            return Sexes(coded.males, coded.females, are_clear=inferred.are_clear)
        return Sexes(inferred.males, coded.females | (unknown & ~inferred.males), by_calls=n)

    def haploid_features(self, source: DosageReader) -> Index:
        """Positions of the features on X, where males have one copy; empty without known males."""
        has_males = self.positions.size and self.sexes_of(source).males.any()
        return self.positions if has_males else _no_features()

    def allele_counts(
        self, source: DosageReader, block: Block, local: Index, rows: Index | None
    ) -> tuple[Array, Array]:
        """Count alternative alleles, and all alleles, (c,) each; calls of males have one allele."""
        raw, missing = dosages_of(source, block, local, rows)
        males = self.sexes_of(source).males
        copies = np.where(males if rows is None else males[rows], 1, DIPLOID)
        return raw @ (copies / DIPLOID), ~missing @ copies

    def genotypes_of_females(
        self, source: DosageReader, block: Block, local: Index, rows: Index | None
    ) -> Array:
        """Count calls of females with 0, 1 and 2 alternative alleles, (c, 3)."""
        samples = np.arange(source.n_samples) if rows is None else rows
        females = samples[self.sexes_of(source).females[samples]]
        raw = source.read_columns(block, local, females)
        return np.stack([(raw == n).sum(axis=1) for n in range(DIPLOID + 1)], axis=1)


def _constant(values: Any) -> Any:
    """Return the argument; unlike a lambda, this function can be sent to workers."""
    return values


def dosages_of(
    source: DosageReader, block: Block, local: Index, rows: Index | None
) -> tuple[Float, Mask]:
    """Read dosages (c, m) of some features, 0 where missing, and the mask of missing values."""
    raw = source.read_columns(block, local, rows).astype(np.float64)
    missing = np.isnan(raw)
    if source.missing_code is not None:
        missing |= raw == source.missing_code
    return np.where(missing, 0.0, raw), missing


def coded_sex(values: Array, attributes: Mapping[str, Any]) -> Array | None:
    """Return `values` (m,) of a variable SEX if its attributes are `SEX_ATTRIBUTES`; else None.

    Without these attributes, it may come from a program that codes the sexes differently.
    """
    is_coded = all(attributes.get(name) == value for name, value in SEX_ATTRIBUTES.items())
    return values if is_coded else None


def stored_sex(place: StorePath) -> Array | None:
    """Read SEX (m,) from the group at `place`; None unless `dhsic convert` wrote it."""
    array = member(group_at(place), SEX)
    if array is None or array.ndim != 1:
        return None
    return coded_sex(read_variable(array, "fill"), dict(array.attrs))


def stored_on_x(place: StorePath) -> Index:
    """Read the positions of the features on X from the mask that `dhsic convert` writes."""
    array = member(group_at(place), ON_X)
    return np.flatnonzero([] if array is None else read_variable(array, "fill"))


@dataclass(frozen=True, eq=False)
class CallsBySex:
    """Counts of calls per sex, to recognise features on X in a table without chromosomes.

    On X, males have almost no heterozygous calls, and females about as many as expected from the
    allele frequencies.

    Attributes
    ----------
    n, heterozygous, alleles, twos : (2, d)
        Number of calls, of heterozygous calls, of alternative alleles in all calls, and of calls
        with two alternative alleles, for males (first row) and females (second row).
    """

    n: Float
    heterozygous: Float
    alleles: Float
    twos: Float

    @classmethod
    def none(cls, d: int) -> CallsBySex:
        """Create counts of 0 for d features, before samples are added."""
        return cls(*(np.zeros((2, d)) for _ in range(4)))

    def add(self, dosages: Float, is_male: bool) -> None:  # noqa: FBT001  # the only argument
        """Add the dosages (d,) of a sample, NaN if missing, to the counts in place."""
        row, is_present = int(not is_male), ~np.isnan(dosages)
        self.n[row] += is_present
        self.heterozygous[row] += np.abs(dosages - 1.0) <= HARD_CALL
        self.alleles[row] += np.where(is_present, dosages, 0.0)
        self.twos[row] += np.abs(dosages - DIPLOID) <= HARD_CALL

    def single_in_males(self) -> Index:
        """Positions of features in which males have dosages 0 or 1, and females 0, 1 or 2.

        Each range of consecutive features in which males (almost) never have the dosage 2 is tested
        as a whole: given the allele frequencies of females, the log likelihood of the calls of
        males must be larger by at least `LEAST_EVIDENCE` for one allele than for two. This is ten
        times what a single feature would need, because neighbours in linkage have nearly the same
        calls.
        """
        frequency = np.divide(
            self.alleles[1], DIPLOID * self.n[1], where=self.n[1] > 0, out=0.0 * self.n[1]
        )
        p = np.clip(frequency, LOWEST_FREQUENCY, 1.0 - LOWEST_FREQUENCY)
        ones, zeros = self.heterozygous[0], self.n[0] - self.heterozygous[0] - self.twos[0]
        evidence = -zeros * np.log(1.0 - p) - ones * np.log(2.0 * (1.0 - p))
        is_known = (frequency > 0.0) & (frequency < 1.0)
        has_twos = self.twos[0] > MOST_TWOS * self.n[0]
        run = np.cumsum(has_twos)  # number of the range of features between those with calls of 2
        counted = is_known & ~has_twos & (self.twos[1] + self.heterozygous[1] > 0)
        total = np.bincount(run, np.where(counted, evidence, 0.0))
        number = np.bincount(run, counted)
        is_single = (total >= LEAST_EVIDENCE) & (number >= FEWEST_SINGLE)
        return np.flatnonzero(is_single[run] & counted)

    def on_x(self) -> Index:
        """Positions of the features on X, recognised by the calls of males and females.

        Rare variants have too few heterozygous calls to be recognised. They count as on X if they
        lie between recognised features, or before or after these without a feature in between that
        is clearly not on X.
        """
        frequency = np.divide(self.alleles, DIPLOID * self.n, where=self.n > 0, out=0.0 * self.n)
        expected = 2.0 * frequency * (1.0 - frequency) * self.n
        has_one = self.heterozygous[0] <= SELDOM * expected[0]
        has_calls = self.n[1] >= MOST_CALLED * self.n[1].max(initial=0.0)  # females lack Y
        is_rare = (expected < OFTEN).any(axis=0) & has_calls
        is_as_expected = self.heterozygous[1] >= APART * expected[1]
        is_clear = has_one & has_calls & ~is_rare & is_as_expected
        clear = np.flatnonzero(is_clear)
        if clear.size < OFTEN:  # a few variants with unusual calls, not a chromosome
            return _no_features()
        elsewhere = np.flatnonzero(~(is_clear | (has_one & is_rare)))
        start = elsewhere[elsewhere < clear[0]].max(initial=-1) + 1
        stop = elsewhere[elsewhere > clear[-1]].min(initial=len(is_clear))
        positions = np.arange(len(is_clear))
        is_between = (positions >= start) & (positions < stop)
        return np.flatnonzero(is_clear | (is_between & has_one & is_rare))

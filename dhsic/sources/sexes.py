"""Sexes of samples, and dosages of variants on chromosome X.

Males have a single copy of X, with dosage 0 or 2, so only females have heterozygous calls on X. The
SEX column of PLINK files contains the sexes. Otherwise they are inferred from the calls on X
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
#: Consecutive features in which males have dosages 0 and 1: minimum number of features; minimum
#: difference between the log likelihoods of one and two alleles; maximum share of calls with dosage
#: 2; and lower bound of allele frequencies.
FEWEST_SINGLE, LEAST_EVIDENCE, MOST_TWOS, LOWEST_FREQUENCY = 3, 70.0, 0.01, 0.02
#: Number of copies of a diploid chromosome; dosages go from 0 to this number.
DIPLOID = 2


def _no_features() -> Index:
    """Return an empty array of feature positions."""
    return np.empty(0, dtype=np.int64)


class DosageReader(Protocol):
    """Interface of sources of dosages, such as `AbstractSource`, which are read in blocks."""

    n_samples: int
    missing_code: int | None

    def read_columns(self, block: Block, local: Index, rows: Index | None = None) -> Array:
        """Read dosages (c, m) of the features at positions `local` within a block."""


@dataclass(frozen=True, eq=False)
class Sexes:
    """Masks of male and female samples; samples in neither mask have unknown sex."""

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
        """Create the masks from PLINK codes of SEX (m,): 1 or M is male, 2 or F female."""
        texts = np.full(m, "", dtype=object) if codes is None else text(np.asarray(codes))
        return cls(np.isin(texts, MALE), np.isin(texts, FEMALE))

    def codes(self) -> Array:
        """Codes of SEX as in PLINK, (m,) int8: 1 for males, 2 for females, 0 for unknown."""
        return np.where(self.males, 1, np.where(self.females, 2, UNKNOWN)).astype(np.int8)


@dataclass(eq=False)
class DosagesOnX:
    """Features on chromosome X, and sexes of the samples, of a source of dosages.

    Both are read when they are first needed.

    Attributes
    ----------
    features : callable
        Function that returns the ascending positions of the features on X.
    sex : callable
        Function that returns the codes of SEX (m,), or None if there is no such variable.
    is_placed : bool
        Whether the chromosomes of the features are known. If not, features on X were recognised by
        the calls of males and females.
    single : (k,)
        Positions of further features on X, in which males have dosages 0 and 1, and females 0, 1
        and 2. In `features`, males have dosages 0 and 2.
    """

    features: Callable[[], Index]
    sex: Callable[[], Array | None]
    is_placed: bool = True
    single: Index = field(default_factory=_no_features)
    _features: Index | None = None
    _sexes: Sexes | None = None

    @classmethod
    def of(cls, features: Index, sex: Array | None) -> DosagesOnX:
        """Create an instance from feature positions and SEX codes (m,) in memory."""
        sex_reader: Callable[[], Array | None] = partial(_constant, sex)
        return cls(partial(_constant, features), sex_reader)

    @classmethod
    def of_calls(cls, calls: CallsBySex, sex: Array | None) -> DosagesOnX:
        """Create an instance for data without chromosomes, from `calls` and SEX codes (m,)."""
        on_x = cls.of(calls.on_x(), sex)
        return replace(on_x, is_placed=False, single=calls.single_in_males())

    @property
    def positions(self) -> Index:
        """Positions of the features on X, ascending."""
        if self._features is None:
            self._features = self.features()
        return self._features

    def sexes_of(self, source: DosageReader) -> Sexes:
        """Return the sexes of the samples of `source`; they are determined once.

        If SEX contains no males, the sexes are inferred from the calls on X.
        """
        if self._sexes is None:
            self._sexes = self._determine_sexes(source)
        return self._sexes

    def _determine_sexes(self, source: DosageReader) -> Sexes:
        """Read the sexes from SEX, or infer them from calls on X if SEX contains no males."""
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
        """Return the positions of the features on X, or none if no sample is known to be male.

        Males have one copy of these features.
        """
        has_males = self.positions.size and self.sexes_of(source).males.any()
        return self.positions if has_males else _no_features()

    def allele_counts(
        self, source: DosageReader, block: Block, local: Index, rows: Index | None
    ) -> tuple[Array, Array]:
        """Count the alternative alleles and all alleles of some features, (c,) each.

        A call of a male counts one allele, and other calls count two.
        """
        raw, missing = dosages_of(source, block, local, rows)
        males = self.sexes_of(source).males
        copies = np.where(males if rows is None else males[rows], 1, DIPLOID)
        return raw @ (copies / DIPLOID), ~missing @ copies

    def genotypes_of_females(
        self, source: DosageReader, block: Block, local: Index, rows: Index | None
    ) -> Array:
        """Count the females with 0, 1 and 2 alternative alleles at some features, (c, 3)."""
        samples = np.arange(source.n_samples) if rows is None else rows
        females = samples[self.sexes_of(source).females[samples]]
        raw = source.read_columns(block, local, females)
        return np.stack([(raw == n).sum(axis=1) for n in range(DIPLOID + 1)], axis=1)


def _constant(values: Any) -> Any:
    """Return the argument; unlike a lambda, this function can be pickled."""
    return values


def dosages_of(
    source: DosageReader, block: Block, local: Index, rows: Index | None
) -> tuple[Float, Mask]:
    """Read dosages (c, m) of some features, with 0 for missing values, and the missing mask."""
    raw = source.read_columns(block, local, rows).astype(np.float64)
    missing = np.isnan(raw)
    if source.missing_code is not None:
        missing |= raw == source.missing_code
    return np.where(missing, 0.0, raw), missing


def coded_sex(values: Array, attributes: Mapping[str, Any]) -> Array | None:
    """Return the values (m,) of a variable SEX if its attributes are `SEX_ATTRIBUTES`; else None.

    A variable without these attributes may be from a program that codes the sexes differently.
    """
    is_coded = all(attributes.get(name) == value for name, value in SEX_ATTRIBUTES.items())
    return values if is_coded else None


def stored_sex(place: StorePath) -> Array | None:
    """Read the codes of SEX (m,) that `dhsic convert` writes to a group; None if absent."""
    array = member(group_at(place), SEX)
    if array is None or array.ndim != 1:
        return None
    return coded_sex(read_variable(array, "fill"), dict(array.attrs))


def stored_on_x(place: StorePath) -> Index:
    """Read the positions of features on X, from the mask that `dhsic convert` writes."""
    array = member(group_at(place), ON_X)
    return np.flatnonzero([] if array is None else read_variable(array, "fill"))


@dataclass(frozen=True, eq=False)
class CallsBySex:
    """Counts of calls per sex, by which features on X are recognised without chromosomes.

    On X, males have almost no heterozygous calls. In females, the frequency of heterozygous calls
    is about the frequency expected from the allele frequencies.

    Attributes
    ----------
    n, heterozygous, alleles, twos : (2, d)
        Numbers of calls, heterozygous calls, alternative alleles, and calls with two alternative
        alleles. The first row counts males, the second females.
    """

    n: Float
    heterozygous: Float
    alleles: Float
    twos: Float

    @classmethod
    def none(cls, d: int) -> CallsBySex:
        """Create zero counts for d features."""
        return cls(*(np.zeros((2, d)) for _ in range(4)))

    def add(self, dosages: Float, is_male: bool) -> None:  # noqa: FBT001  # the only argument
        """Add the dosages (d,) of a sample, NaN if missing, to the counts, in place."""
        row, is_present = int(not is_male), ~np.isnan(dosages)
        self.n[row] += is_present
        self.heterozygous[row] += np.abs(dosages - 1.0) <= HARD_CALL
        self.alleles[row] += np.where(is_present, dosages, 0.0)
        self.twos[row] += np.abs(dosages - DIPLOID) <= HARD_CALL

    def single_in_males(self) -> Index:
        """Return the positions of features in which males have dosages 0 and 1, females 0 to 2.

        Ranges of consecutive features in which males (almost) never have dosage 2 are tested as a
        whole. Given the allele frequencies of females, the log likelihood of the males' calls must
        be larger by at least `LEAST_EVIDENCE` for one allele than for two alleles. This limit is
        ten times the limit for a single feature, because neighbours in linkage have nearly the same
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
        """Return the positions of the features on X, recognised by the calls of both sexes.

        Rare variants have too few heterozygous calls to be recognised themselves. They count as on
        X if no feature that is clearly elsewhere lies between them and the recognised features.
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

"""Sexes of samples, and dosages on X, of which males have one copy.

Dosages count this copy as 0 or 2, so heterozygous calls would tell the sex. Sexes are known from
SEX of PLINK, or else from the calls on X (`dhsic.sources.males`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
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

#: SEX of males and of females, as text.
MALE, FEMALE = ("1", "1.0", "M", "m"), ("2", "2.0", "F", "f")
#: Name of the variable of a store, the codes in it, and its attributes (of the CF conventions).
SEX, UNKNOWN = "SEX", 0
SEX_ATTRIBUTES = {"flag_values": [1, 2], "flag_meanings": "male female"}
#: Name of the variable of a store that tells which features are on X, where no chromosomes do.
ON_X = "feature_on_x"
#: Part of the most calls of females in a feature that they have at least on X.
MOST_CALLED = 0.5
#: Copies of full ploidy, in which dosages count.
DIPLOID = 2


class DosageReader(Protocol):
    """Source of dosages of samples, of which features are read in blocks (`AbstractSource`)."""

    n_samples: int
    missing_code: int | None

    def read_columns(self, block: Block, local: Index, rows: Index | None = None) -> Array:
        """Read some features of a block, (c, m)."""


@dataclass(frozen=True, eq=False)
class Sexes:
    """Males and females among the samples, (m,) each; the sex of others is unknown.

    `by_calls` is the number of males known from their calls on X. `are_clear` is False where
    neither SEX nor calls on X tell who has one copy.
    """

    males: Mask
    females: Mask
    by_calls: int = 0
    are_clear: bool = True

    @property
    def are_known(self) -> bool:
        """Whether the sex of any sample is known."""
        return bool(self.males.any() or self.females.any())

    @classmethod
    def of_codes(cls, codes: Array | None, m: int) -> Sexes:
        """Sexes by SEX (m,), as PLINK has it: 1 or M, 2 or F; anything else is unknown."""
        texts = np.full(m, "", dtype=object) if codes is None else text(np.asarray(codes))
        return cls(np.isin(texts, MALE), np.isin(texts, FEMALE))

    def codes(self) -> Array:
        """SEX as PLINK writes it, (m,) int8: 1 for males, 2 for females, 0 for unknown."""
        return np.where(self.males, 1, np.where(self.females, 2, UNKNOWN)).astype(np.int8)


@dataclass(eq=False)
class DosagesOnX:
    """Features on X of a source of dosages, and the sexes of its samples.

    Both are read when they are needed: `features` returns positions, ascending; `sex` returns SEX
    (m,), or None where there is no such variable. Without `is_placed` no chromosomes are known, and
    `features` are told by calls of males and females.
    """

    features: Callable[[], Index]
    sex: Callable[[], Array | None]
    is_placed: bool = True
    _features: Index | None = None
    _sexes: Sexes | None = None

    @classmethod
    def of(cls, features: Index, sex: Array | None, *, is_placed: bool = True) -> DosagesOnX:
        """Those of features and of SEX (m,) in memory."""
        sex_reader: Callable[[], Array | None] = partial(_same, sex)
        return cls(partial(_same, features), sex_reader, is_placed)

    @property
    def positions(self) -> Index:
        """Positions of the features on X, ascending."""
        if self._features is None:
            self._features = self.features()
        return self._features

    def sexes_of(self, source: DosageReader) -> Sexes:
        """Sexes of the samples of `source`, whose calls on X are read if SEX tells no male."""
        if self._sexes is None:
            self._sexes = self._found(source)
        return self._sexes

    def _found(self, source: DosageReader) -> Sexes:
        given, features = Sexes.of_codes(self.sex(), source.n_samples), self.positions
        unknown = ~(given.males | given.females)
        if given.males.any() or not unknown.any() or not features.size:
            return given
        counts = np.zeros(source.n_samples)
        for start, stop in places_on_x(features, source.n_samples):
            local = features[(features >= start) & (features < stop)] - start
            counts += n_near_one(source.read_columns(Block(0, start, stop), local))
        found = males_by_calls(counts, unknown)
        n = int(found.males.sum())
        if not n:
            return Sexes(given.males, given.females, are_clear=found.are_clear)
        return Sexes(found.males, given.females | (unknown & ~found.males), by_calls=n)

    def haploid_features(self, source: DosageReader) -> Index:
        """Features of which males have one copy; none where no sample is known to be male."""
        is_any = self.positions.size and self.sexes_of(source).males.any()
        return self.positions if is_any else np.empty(0, dtype=np.int64)

    def allele_counts(
        self, source: DosageReader, block: Block, local: Index, rows: Index | None
    ) -> tuple[Array, Array]:
        """Count alternative alleles and all of them, (c,) each; calls of males are one allele."""
        raw, missing = dosages_of(source, block, local, rows)
        males = self.sexes_of(source).males
        copies = np.where(males if rows is None else males[rows], 1, DIPLOID)
        return raw @ (copies / DIPLOID), ~missing @ copies

    def genotypes_of_females(
        self, source: DosageReader, block: Block, local: Index, rows: Index | None
    ) -> Array:
        """Count calls of females with 0, 1 and 2 alternative alleles, (c, 3)."""
        every = np.arange(source.n_samples) if rows is None else rows
        females = every[self.sexes_of(source).females[every]]
        raw = source.read_columns(block, local, females)
        return np.stack([(raw == n).sum(axis=1) for n in range(DIPLOID + 1)], axis=1)


def _same(values: Any) -> Any:
    """Return its argument; a function that is sent to workers."""
    return values


def dosages_of(
    source: DosageReader, block: Block, local: Index, rows: Index | None
) -> tuple[Float, Mask]:
    """Dosages (c, m) of some features of a block, 0 where missing, and the mask of these."""
    raw = source.read_columns(block, local, rows).astype(np.float64)
    missing = np.isnan(raw)
    if source.missing_code is not None:
        missing |= raw == source.missing_code
    return np.where(missing, 0.0, raw), missing


def coded_sex(values: Array, attributes: Mapping[str, Any]) -> Array | None:
    """SEX (m,) of a store, if its attributes are `SEX_ATTRIBUTES`; else None.

    Other programs code the sexes otherwise.
    """
    is_coded = all(attributes.get(name) == value for name, value in SEX_ATTRIBUTES.items())
    return values if is_coded else None


def stored_sex(place: StorePath) -> Array | None:
    """SEX (m,) as `dhsic convert` stores it in the group at a place; None without."""
    array = member(group_at(place), SEX)
    if array is None or array.ndim != 1:
        return None
    return coded_sex(read_variable(array, "fill"), dict(array.attrs))


def stored_on_x(place: StorePath) -> Index:
    """Positions of the features on X, as `dhsic convert` stores their mask in a group."""
    array = member(group_at(place), ON_X)
    return np.flatnonzero([] if array is None else read_variable(array, "fill"))


@dataclass(frozen=True, eq=False)
class CallsBySex:
    """Calls of males and of females, and heterozygous ones and alleles among them, (2, d) each.

    They tell the features on X where a table names no chromosomes: males have hardly a
    heterozygous call there, and females as many as their alleles let expect.
    """

    n: Float
    heterozygous: Float
    alleles: Float

    @classmethod
    def none(cls, d: int) -> CallsBySex:
        """Counts of no samples, to which those of rows are added."""
        return cls(*(np.zeros((2, d)) for _ in range(3)))

    def add(self, dosages: Float, is_male: bool) -> None:  # noqa: FBT001  # the only argument
        """Add the dosages (d,) of a sample; NaN is missing."""
        row, is_present = int(not is_male), ~np.isnan(dosages)
        self.n[row] += is_present
        self.heterozygous[row] += np.abs(dosages - 1.0) <= HARD_CALL
        self.alleles[row] += np.where(is_present, dosages, 0.0)

    def on_x(self) -> Index:
        """Positions of the features on X: those that calls tell, and rare ones beside them."""
        frequency = np.divide(self.alleles, DIPLOID * self.n, where=self.n > 0, out=0.0 * self.n)
        expected = 2.0 * frequency * (1.0 - frequency) * self.n
        has_one = self.heterozygous[0] <= SELDOM * expected[0]
        has_calls = self.n[1] >= MOST_CALLED * self.n[1].max(initial=0.0)  # females lack Y
        is_rare = (expected < OFTEN).any(axis=0) & has_calls
        is_told = has_one & has_calls & ~is_rare & (self.heterozygous[1] >= APART * expected[1])
        told = np.flatnonzero(is_told)
        if told.size < OFTEN:  # a few variants of odd calls
            return np.empty(0, dtype=np.int64)
        others = np.flatnonzero(~(is_told | (has_one & is_rare)))
        first = others[others < told[0]].max(initial=-1) + 1
        end = others[others > told[-1]].min(initial=len(is_told))
        is_here = (np.arange(len(is_told)) >= first) & (np.arange(len(is_told)) < end)
        return np.flatnonzero(is_told | (is_here & has_one & is_rare))

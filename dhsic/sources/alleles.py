"""Alleles counted: how often a feature has each of two, and how many of its values are missing.

What stands for a missing call is known once all values were looked at (`dhsic.sources.values`), so
numbers that may are counted apart from the others, in the same reading.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.errors import InputError
from dhsic.sources import AbstractSource
from dhsic.sources.scaling import missing_mask
from dhsic.sources.values import CODES, Census, ValueKind


@dataclass(frozen=True, slots=True)
class Alleles:
    """Sums over the samples of each of c features, (c,), with codes that may mean missing.

    Attributes
    ----------
    n_missing : int64
        Values that are missing, as the source says.
    total : float64
        Sum of the others.
    coded : int64
        How many of these are each of `CODES`, (codes, c).
    census : Census
        What the values are, of a few where these are of another kind.
    """

    n_missing: Index
    total: Float
    coded: Index
    census: Census

    @staticmethod
    def of(raw: Array, missing_code: int | None, census: Census) -> Alleles:
        """Sums over stored values (c, m), of which there is a census."""
        missing = missing_mask(raw, missing_code)
        here = raw if missing is None else np.where(missing, raw.dtype.type(0), raw)
        lowest = here.min(initial=0)
        none = np.zeros(len(raw), dtype=np.int64)
        return Alleles(
            none if missing is None else missing.sum(axis=1),
            here.sum(axis=1, dtype=np.float64),
            np.array([(here == code).sum(axis=1) if code >= lowest else none for code in CODES]),
            census,
        )

    @staticmethod
    def join(parts: Sequence[Alleles]) -> Alleles:
        """Sums of consecutive features as one."""
        return Alleles(
            np.concatenate([part.n_missing for part in parts]),
            np.concatenate([part.total for part in parts]),
            np.concatenate([part.coded for part in parts], axis=1),
            sum((part.census for part in parts), Census()),
        )

    def judged(self, source: AbstractSource) -> Alleles:
        """The same once codes are known: those that stand for missing values are missing.

        Raises
        ------
        DataError
            As of `ValueKind.judged`.
        """
        if ValueKind.known(source) is not None:
            return self
        taken = ValueKind.judged(source, self.census).codes
        n = self.coded * np.isin(CODES, [*taken])[:, None]
        return Alleles(
            self.n_missing + n.sum(axis=0),
            self.total - np.array(CODES, dtype=np.float64) @ n,
            self.coded - n,
            self.census,
        )

    def minor_frequency(self, source: AbstractSource, m: int, said: str) -> Float:
        """Frequency of the rarer allele among the calls of m samples that are there; 0 of none.

        Raises
        ------
        InputError
            The values are no copies of an allele; it begins with what was `said`.
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
                f"{said} is a frequency of alleles, and X holds {seen}, which are no copies of an "
                "allele. Leave it out, or leave out these features (extract=, exclude=)."
            )
        rarer = np.minimum(self.total, alleles - self.total)
        return np.divide(rarer, alleles, out=np.zeros(rarer.size), where=alleles > 0)

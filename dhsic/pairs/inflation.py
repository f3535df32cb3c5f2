r"""By how much shares are larger than those of permuted labels, over all pairs.

Permutations tell what chance gives where samples can be exchanged. Relatives cannot: what many
genes add up to is alike among them, and so are the products of any two variants, so every share is
larger than labels at random among the samples would give it, the largest one too. How much so is
seen where hardly any pair acts: in the middle of all. `Inflation` is the median share of some pairs
over the mean of such medians of the permutations, which go by the same pairs; whether that is
beyond chance is told by its rank among the permutations. The deviances of shares, of which the
inflation is a factor, are divided by it (genomic control; Devlin and Roeder, 1999).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dhsic._typing import Array, Float

#: Pairs by which it is measured, about, and fewer than which tell nothing.
SAMPLED, FEWEST = 1 << 16, 1000
#: It is beyond chance where so small a part of permutations has as large a median.
BEYOND_CHANCE = 0.05


@dataclass(frozen=True, slots=True)
class Inflation:
    """How many times larger shares are, and the probability of that where there is nothing."""

    times: float
    p: float

    @classmethod
    def of(cls, medians: Float) -> Inflation | None:
        """By medians of the labels as they are, and of permutations; None where there are none."""
        if not medians.size:
            return None
        here, others = medians[0], medians[1:]
        rank = 1 + int((others >= here).sum())
        return cls(float(here / others.mean()), rank / (1 + others.size))

    @property
    def is_real(self) -> bool:
        """Whether it is beyond chance."""
        return self.times > 1 and self.p <= BEYOND_CHANCE

    @property
    def corrected(self) -> float:
        """What deviances are divided by."""
        return self.times if self.is_real else 1.0


def medians_of(some: Array) -> Float:
    """Medians of rough shares (1 + B, s), along s; none where these are too few."""
    if some.shape[1] < FEWEST:
        return np.empty(0)
    found = np.median(some, axis=1).astype(np.float64)
    return found if found[1:].any() else np.empty(0)


def every(n_pairs: int) -> int:
    """Which pairs are those by which it is measured: every so-many-th, an odd number."""
    return (n_pairs // SAMPLED) | 1

"""What is drawn for rounds in low rank: it follows from sizes and a seed alone.

Samples are landmarks. A part of them, the *check rows*, serves no factor: what is estimated on them
is honest. And features are sampled, by which rounds are certified.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dhsic._typing import Index
from dhsic.passes.reader import AbstractReader

#: Landmarks that a run begins with, and the fewest where samples are many.
FIRST_LANDMARKS, FEWEST = 192, 64
#: Check rows, at most and at least.
MOST_CHECKS, FEWEST_CHECKS = 96, 32
#: Rows by which turns of the kernel are told, at most and at least, and their entries.
MOST_TURNS, FEWEST_TURNS, TURN_ENTRIES = 32, 8, 1 << 22
#: Entries of the statistic, and of its check rows, that decide how many landmarks many samples get.
ENTRIES, CHECK_ENTRIES = 1 << 25, 1 << 24
#: Most landmarks, unless that is every sample, and most entries of the statistic with them.
MOST_LANDMARKS, MOST_ENTRIES = 1024, 1 << 26
#: Features of the sample, at most and at least, and its entries.
SAMPLE_MOST, SAMPLE_FEWEST, SAMPLE_ENTRIES = 2048, 64, 1 << 25


@dataclass(frozen=True, slots=True)
class LandmarkSet:
    """Samples that are landmarks, `rows` (b,), ascending.

    `fit` and `check` are positions among them: those that make factors, and that check them.
    """

    rows: Index
    fit: Index
    check: Index
    n_samples: int

    @staticmethod
    def of(m: int, n: int, seed: int, *, everyone: bool = False) -> LandmarkSet:
        """`n` landmarks for factors, and check rows; where those are most samples, all are both.

        With `everyone` every sample is a landmark, and K is known, but as many make factors.
        """
        order = np.random.default_rng([seed, m]).permutation(m)
        n_check = check_number(m) if n >= first_number(m) else check_number(m) // 2
        every = np.arange(m)
        if 2 * (n + n_check) > m:
            return LandmarkSet(every, every, np.sort(order[: max(n_check, FIRST_LANDMARKS)]), m)
        rows = every if everyone else np.sort(order[: n + n_check])
        check, fit = np.sort(order[:n_check]), np.sort(order[n_check : n + n_check])
        return LandmarkSet(rows, np.searchsorted(rows, fit), np.searchsorted(rows, check), m)

    @property
    def is_everyone(self) -> bool:
        """Every sample is a landmark: K is known."""
        return len(self.rows) == self.n_samples


def check_number(m: int) -> int:
    """Check rows of a run over m samples."""
    return int(np.clip(CHECK_ENTRIES // m, FEWEST_CHECKS, MOST_CHECKS))


def turning_rows(m: int, seed: int) -> Index:
    """Samples whose rows of K tell its turns, ascending: check rows of any set of landmarks."""
    n = min(check_number(m), int(np.clip(TURN_ENTRIES // m, FEWEST_TURNS, MOST_TURNS)))
    return np.sort(np.random.default_rng([seed, m]).permutation(m)[:n])


def most_number(m: int) -> int:
    """Landmarks that a run over m samples may come to, short of all samples."""
    return max(first_number(m), min(MOST_LANDMARKS, MOST_ENTRIES // m))


def first_number(m: int) -> int:
    """Landmarks that a run over m samples begins with."""
    return int(np.clip(ENTRIES // m, FEWEST, FIRST_LANDMARKS))


def sample_size(m: int) -> int:
    """Features of a sample, about: half to all of them."""
    return int(np.clip(SAMPLE_ENTRIES // m, SAMPLE_FEWEST, SAMPLE_MOST))


class Sample:
    """Sampled features.

    Every feature has a random number; in the sample are those below a threshold, which is doubled
    when half of the features are left. So the sample is a function of S alone.
    """

    def __init__(self, data: AbstractReader, seed: int) -> None:
        d = data.source.n_features
        self._lots = np.random.default_rng([seed, d]).random(d, dtype=np.float32)
        self._size = sample_size(data.n_samples)

    def of(self, S: Index) -> Index:
        """Features of the sample that are in S."""
        d = len(self._lots)
        share = min(1.0, self._size / d * 2.0 ** np.floor(np.log2(d / S.size)))
        features = S[self._lots[S] < share]
        # Fewer than a quarter come by chance alone: where few are sampled, they need not be others
        # in every round.
        fewest = min(SAMPLE_FEWEST, self._size // 4)
        if features.size < min(S.size, fewest):
            features = S[np.sort(np.argsort(self._lots[S], kind="stable")[:fewest])]
        return np.asarray(features)

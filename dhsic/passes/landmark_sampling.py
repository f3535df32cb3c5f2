"""Random draws for low-rank rounds, determined by data sizes and a seed alone.

Landmarks are sampled from the samples. The *check rows* are landmarks that are not used in the
factors, so the errors estimated on them are unbiased. A sample of the features is used to estimate
the error of each round.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dhsic._typing import Index
from dhsic.passes.reader import AbstractReader

#: Number of landmarks at the start of a run, and the minimum for large m.
FIRST_LANDMARKS, FEWEST = 192, 64
#: Number of check rows: maximum and minimum.
MOST_CHECKS, FEWEST_CHECKS = 96, 32
#: Number of rows of K that measure its drift: maximum, minimum, and maximum total of their entries.
MOST_TURNS, FEWEST_TURNS, TURN_ENTRIES = 32, 8, 1 << 22
#: Maximum entries of the landmark statistic, and of its check rows; they limit the number of
#: landmarks for large m.
ENTRIES, CHECK_ENTRIES = 1 << 25, 1 << 24
#: Maximum number of landmarks, and of entries of their statistic, unless all samples are landmarks.
MOST_LANDMARKS, MOST_ENTRIES = 1024, 1 << 26
#: Number of features in the sample: maximum and minimum; and maximum number of their values.
SAMPLE_MOST, SAMPLE_FEWEST, SAMPLE_ENTRIES = 2048, 64, 1 << 25


@dataclass(frozen=True, slots=True)
class LandmarkSet:
    """Landmarks of a round: samples with ascending indices `rows` (b,).

    `fit` and `check` are positions in `rows`. Factors are built from the landmarks `fit`; the error
    is estimated on the landmarks `check` (check rows).
    """

    rows: Index
    fit: Index
    check: Index
    n_samples: int

    @staticmethod
    def of(m: int, n: int, seed: int, *, everyone: bool = False) -> LandmarkSet:
        """Draw `n` landmarks for low-rank factors, and check rows, from m samples.

        Check rows are landmarks that no factor uses, to estimate errors. If more than half of the
        samples would be drawn, factors use all samples. If `everyone`, all samples are landmarks
        and the kernel matrix is known, but factors still use only `n` of them.
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
        """Whether every sample is a landmark, so that the kernel matrix K is known."""
        return len(self.rows) == self.n_samples


def check_number(m: int) -> int:
    """Number of check rows (landmarks used only to estimate errors) for m samples."""
    return int(np.clip(CHECK_ENTRIES // m, FEWEST_CHECKS, MOST_CHECKS))


def turning_rows(m: int, seed: int) -> Index:
    """Indices of samples used to measure the drift of kernel rows between rounds, ascending.

    These samples are check rows of every `LandmarkSet` with this seed.
    """
    n = min(check_number(m), int(np.clip(TURN_ENTRIES // m, FEWEST_TURNS, MOST_TURNS)))
    return np.sort(np.random.default_rng([seed, m]).permutation(m)[:n])


def most_number(m: int) -> int:
    """Maximum number of landmarks for m samples, unless all samples are landmarks."""
    return max(first_number(m), min(MOST_LANDMARKS, MOST_ENTRIES // m))


def first_number(m: int) -> int:
    """Number of landmarks at the start of a run over m samples."""
    return int(np.clip(ENTRIES // m, FEWEST, FIRST_LANDMARKS))


def sample_size(m: int) -> int:
    """Approximate maximum number of features in a `Sample`, for m samples.

    A sample has at least half of this number.
    """
    return int(np.clip(SAMPLE_ENTRIES // m, SAMPLE_FEWEST, SAMPLE_MOST))


class Sample:
    """Random sample of features.

    Every feature has a random number. The sample contains the features with a number below a
    threshold. The threshold doubles when half of the features have left, so the sample depends only
    on the seed and the surviving features S.
    """

    def __init__(self, data: AbstractReader, seed: int) -> None:
        d = data.source.n_features
        self._lots = np.random.default_rng([seed, d]).random(d, dtype=np.float32)
        self._size = sample_size(data.n_samples)

    def of(self, S: Index) -> Index:
        """Select those of the surviving features S that are in the random sample."""
        d = len(self._lots)
        share = min(1.0, self._size / d * 2.0 ** np.floor(np.log2(d / S.size)))
        features = S[self._lots[S] < share]
        # If by chance the sample is too small, the features with the smallest random numbers are
        # used, so that it does not change in every round.
        fewest = min(SAMPLE_FEWEST, self._size // 4)
        if features.size < min(S.size, fewest):
            features = S[np.sort(np.argsort(self._lots[S], kind="stable")[:fewest])]
        return np.asarray(features)

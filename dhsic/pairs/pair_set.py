"""Sets of pairs of features: number of pairs, and the jobs that scan them.

All pairs of some features are tested by default. Other sets are the pairs of two sets of features,
and the pairs of each feature with columns that are not features, such as an exposure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isqrt

import numpy as np

from dhsic._typing import Index
from dhsic.pairs.tiles import between_jobs, run_jobs, run_width, runs_of, tile_jobs
from dhsic.passes.reader import Reader
from dhsic.runtime.base import Job


@dataclass(frozen=True, slots=True, eq=False)
class PairSet:
    """Set of pairs of features.

    Attributes
    ----------
    within : Index
        Features, ascending; all pairs among them are tested.
    crosses : tuple of (Index, Index)
        Disjoint sets of features, ascending: each feature of the first set is paired with each
        feature of the second one.
    one_run : bool
        Whether the first set of a cross is read as one range of features; it must be small.
    n_columns : int
        Number of columns that are not features; they are paired with all features in `alone`.
    alone : Index or None
        Features that are paired with these columns.
    whole : PairSet or None
        Larger set that these pairs were chosen from by means of the labels; None if the labels were
        not used. Permutations and p-values refer to a scan of the larger set.
    """

    within: Index
    crosses: tuple[tuple[Index, Index], ...] = ()
    one_run: bool = False
    n_columns: int = 0
    alone: Index | None = None
    whole: PairSet | None = None

    @classmethod
    def of_all(cls, features: Index, partners: Index | None = None) -> PairSet:
        """Create the set of all pairs of `features`, and their pairs with `partners`."""
        crosses = () if partners is None or not partners.size else ((features, partners),)
        return cls(features, crosses, one_run=True)

    @classmethod
    def between(cls, first: Index, second: Index) -> PairSet:
        """Create the set of pairs of a feature of `first` and a feature of `second`."""
        both = np.intersect1d(first, second)
        only_first, only_second = np.setdiff1d(first, both), np.setdiff1d(second, both)
        crosses = ((only_first, second), (both, only_second))
        return cls(both, tuple((a, b) for a, b in crosses if a.size and b.size))

    @classmethod
    def with_columns(cls, features: Index, n_columns: int) -> PairSet:
        """Create the set of pairs of each feature with each of `n_columns` other columns."""
        return cls(features[:0], n_columns=n_columns, alone=features)

    @property
    def n_pairs(self) -> int:
        """Number of pairs."""
        n_alone = 0 if self.alone is None else self.alone.size
        n_crossed = sum(first.size * second.size for first, second in self.crosses)
        n_within = self.within.size * (self.within.size - 1) // 2
        return int(n_within + n_crossed + n_alone * self.n_columns)

    @property
    def n_features(self) -> int:
        """Number of features that are paired."""
        parts = [self.within, *(part for cross in self.crosses for part in cross)]
        parts += [] if self.alone is None else [self.alone]
        return int(np.unique(np.concatenate(parts)).size)

    def identity(self) -> bytes:
        """Bytes that are different for different sets of pairs of the same data."""
        parts = [] if self.one_run else [part for cross in self.crosses for part in cross]
        parts += [] if self.alone is None else [self.alone]
        return b"".join(part.tobytes() for part in (self.within, *parts))

    def sampled(self, seed: int, most: int, n_runs: int) -> PairSet:
        """Sample the pairs that are tested with permuted labels.

        There are at most about ``most (most - 1) / 2`` such pairs, within `n_runs` random ranges of
        neighbouring features. Pairs with the partners of `PairSet.of_all` are not included.
        """
        if self.alone is not None:
            most_pairs = most * (most - 1) // 2
            n = max(1, most_pairs // self.n_columns)
            return replace(self, alone=sampled_features(self.alone, seed, n, n_runs))
        if self.one_run or not self.crosses:
            return PairSet.of_all(sampled_features(self.within, seed, most, n_runs))
        return self._sampled_crosses(seed, most, n_runs)

    def _sampled_crosses(self, seed: int, most: int, n_runs: int) -> PairSet:
        first = np.union1d(self.within, self.crosses[0][0])
        second = np.union1d(self.within, self.crosses[-1][1])
        most_pairs = most * (most - 1) // 2
        n_second = min(second.size, max(isqrt(most_pairs), most_pairs // first.size))
        n_first = min(first.size, max(1, most_pairs // n_second))
        return PairSet.between(
            sampled_features(first, seed, n_first, n_runs),
            sampled_features(second, seed + 1, n_second, n_runs),
        )

    def jobs(self, reader: Reader, functions: int, narrowest: int | None = None) -> list[Job]:
        """Jobs of a scan, one per tile; ranges have at most `narrowest` features."""
        width = self.width(reader.n_samples, functions)
        width = width if narrowest is None else min(narrowest, width)

        def runs(features: Index, at_most: int = width) -> list[Job]:
            return runs_of(reader.jobs(features, tags=features), at_most)

        if self.alone is not None:
            return run_jobs(runs(self.alone))
        jobs = tile_jobs(runs(self.within)) if self.within.size else []
        for first, second in self.crosses:
            of_first = runs(first, first.size if self.one_run else width)
            jobs += between_jobs(of_first, runs(second))
        return jobs

    def width(self, m: int, functions: int) -> int:
        """Number of features in each range of a tile, for m samples."""
        return run_width(m, self.n_features, functions)

    def n_tiles(self, width: int) -> int:
        """Number of tiles, for ranges of at most `width` features."""
        own = -(-self.within.size // width)
        n_alone = 0 if self.alone is None else -(-self.alone.size // width)
        n_crossed = sum(a * b for a, b in self._cross_runs(width))
        return int(own * (own + 1) // 2 + n_alone + n_crossed)

    def n_read(self, width: int) -> int:
        """Number of features that all tiles read; a feature is counted once per tile."""
        n = self.within.size * -(-self.within.size // width)
        n += 0 if self.alone is None else self.alone.size
        for (first, second), (a, b) in zip(self.crosses, self._cross_runs(width), strict=True):
            n += first.size * b + second.size * a
        return int(n)

    def _cross_runs(self, width: int) -> list[tuple[int, int]]:
        """Number of feature ranges into which each of the two sets of a cross is divided."""
        return [
            (1 if self.one_run else -(-first.size // width), -(-second.size // width))
            for first, second in self.crosses
        ]


def sampled_features(features: Index, seed: int, most: int, n_runs: int) -> Index:
    """Features for tests of pairs with permuted labels, at most about `most`.

    If there are more features, they are sampled as `n_runs` random ranges of neighbouring features.
    """
    if features.size <= most:
        return features
    n_runs = min(n_runs, most)
    width = most // n_runs
    rng = np.random.default_rng([seed, 1])
    starts = np.sort(rng.choice(features.size // width, n_runs, replace=False)) * width
    return np.concatenate([features[a : a + width] for a in starts])

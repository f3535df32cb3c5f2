"""The features that certificates are made from: a seeded sample that thins out with S."""

from __future__ import annotations

import numpy as np

from dhsic._typing import Array, Index
from dhsic.scoring.reader import Reader
from dhsic.scoring.thin_tasks import sample_columns
from dhsic.sources.scaling import Scaling

#: Features of the sample, at most and at least, and its entries.
MOST, FEWEST, ENTRIES = 4096, 64, 1 << 25


def sample_size(m: int) -> int:
    """Features of a sample, about: half to all of them."""
    return int(np.clip(ENTRIES // m, FEWEST, MOST))


class Sample:
    """Standardised values of sampled features, held as long as they survive.

    Every feature has a random number; in the sample are those below a threshold, which is doubled
    when half of the features are left. So the sample is a function of S alone.
    """

    def __init__(self, d: int, m: int, seed: int) -> None:
        self._lots = np.random.default_rng([seed, d]).random(d, dtype=np.float32)
        self._size = sample_size(m)
        self._held: Index = np.empty(0, dtype=np.int64)
        self._X: Array = np.empty((0, m))
        self.bytes_read = 0

    def of(self, S: Index, reader: Reader, scaling: Scaling | None) -> tuple[Index, Array]:
        """Features of the sample that are in S, and their values (c, m) float32."""
        features = self._features(S)
        if np.isin(features, self._held, assume_unique=True).all():
            X = self._X[np.searchsorted(self._held, features)]
        else:
            jobs = reader.jobs(features, scaling)
            self.bytes_read += reader.bytes_of(jobs)
            X = np.concatenate(list(reader.joined(sample_columns, jobs)))
        self._held, self._X = features, X
        return features, X

    def _features(self, S: Index) -> Index:
        d = len(self._lots)
        share = min(1.0, self._size / d * 2.0 ** np.floor(np.log2(d / S.size)))
        features = S[self._lots[S] < share]
        if features.size < min(S.size, FEWEST):
            features = S[np.sort(np.argsort(self._lots[S], kind="stable")[:FEWEST])]
        return np.asarray(features)

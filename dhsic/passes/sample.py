"""A sample of the features, whose values are held as long as they survive."""

from __future__ import annotations

import numpy as np

from dhsic._typing import Array, Index
from dhsic.passes.engineplan import SAMPLE_FEWEST, sample_size
from dhsic.passes.reader import AbstractReader


class Sample:
    """Standardised values of sampled features, held as long as they survive.

    Every feature has a random number; in the sample are those below a threshold, which is doubled
    when half of the features are left. So the sample is a function of S alone.
    """

    def __init__(self, data: AbstractReader, seed: int) -> None:
        d, m = data.source.n_features, data.n_samples
        self._data = data
        self._lots = np.random.default_rng([seed, d]).random(d, dtype=np.float32)
        self._size = sample_size(m)
        self.held: Index = np.empty(0, dtype=np.int64)
        self._X: Array = np.empty((0, m))

    def of(self, S: Index) -> tuple[Index, Array]:
        """Features of the sample that are in S, and their values (c, m) float32."""
        features = self._features(S)
        if np.isin(features, self.held, assume_unique=True).all():
            X = self._X[np.searchsorted(self.held, features)]
        else:
            X = self._data.values(features, np.float32)
        self.held, self._X = features, X
        return features, X

    def _features(self, S: Index) -> Index:
        d = len(self._lots)
        share = min(1.0, self._size / d * 2.0 ** np.floor(np.log2(d / S.size)))
        features = S[self._lots[S] < share]
        if features.size < min(S.size, SAMPLE_FEWEST):
            features = S[np.sort(np.argsort(self._lots[S], kind="stable")[:SAMPLE_FEWEST])]
        return np.asarray(features)

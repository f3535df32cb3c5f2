"""A sample of the features, by which rounds in low rank are certified."""

from __future__ import annotations

import numpy as np

from dhsic._typing import Index
from dhsic.passes.engineplan import SAMPLE_FEWEST, sample_size
from dhsic.passes.reader import AbstractReader


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

"""What gains of a round may not be, and the sample of features that tells how good they are.

The features that certificates are made from: a seeded sample that thins out with S.
"""

from __future__ import annotations

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.engines.base import Question
from dhsic.errors import InputError
from dhsic.kernels.base import AbstractKernel
from dhsic.passes.scaled import ScaledReader

#: Part of the sum of all weights that is rounding.
NOTHING = 1e-13


def check_gains(kernel: AbstractKernel, sigma: float, hsic: float, gains: Float) -> None:
    """Refuse gains that say nothing.

    Raises
    ------
    InputError
        Gains that are no numbers, or a kernel matrix that is the identity or constant.
    """
    lost = int((~np.isfinite(gains)).sum())
    if lost:
        raise InputError(
            f"{lost} of {gains.size} scores are not finite at sigma={sigma:.4g}: the kernel "
            "overflows on these data; scale them down, or pass standardize=True."
        )
    # The matrix is the identity, or constant:
    if kernel.has_bandwidth and gains.size > 1 and hsic == 0 and not gains.any():
        raise InputError(
            f"HSIC and all {gains.size} scores are 0: at sigma={sigma:.4g} no two samples are "
            "alike to the kernel, or all are. Pass bandwidth='median', or standardize=True."
        )


def check_shared(question: Question, gains: Float) -> None:
    """Refuse features of which the delta kernel sees nothing.

    Raises
    ------
    InputError
        No two samples share a value of any feature.
    """
    if question.kernel.is_of_categories and np.abs(gains).max(initial=0.0) <= NOTHING * float(
        np.abs(question.W).sum()
    ):
        raise InputError(
            "No two samples share a value of any feature, and that is all that the delta kernel "
            "looks at: it is for categories. Take another kernel for measurements, or round them."
        )


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

    def __init__(self, data: ScaledReader, seed: int) -> None:
        d, m = data.reader.source.n_features, data.n_samples
        self._data = data
        self._lots = np.random.default_rng([seed, d]).random(d, dtype=np.float32)
        self._size = sample_size(m)
        self._held: Index = np.empty(0, dtype=np.int64)
        self._X: Array = np.empty((0, m))

    def of(self, S: Index) -> tuple[Index, Array]:
        """Features of the sample that are in S, and their values (c, m) float32."""
        features = self._features(S)
        if np.isin(features, self._held, assume_unique=True).all():
            X = self._X[np.searchsorted(self._held, features)]
        else:
            X = self._data.values(features, np.float32)
        self._held, self._X = features, X
        return features, X

    def _features(self, S: Index) -> Index:
        d = len(self._lots)
        share = min(1.0, self._size / d * 2.0 ** np.floor(np.log2(d / S.size)))
        features = S[self._lots[S] < share]
        if features.size < min(S.size, FEWEST):
            features = S[np.sort(np.argsort(self._lots[S], kind="stable")[:FEWEST])]
        return np.asarray(features)

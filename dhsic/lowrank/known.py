"""What a policy for the width may know of the data where the statistic is against landmarks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dhsic._typing import Float
from dhsic.kernels.bandwidth import EQUAL
from dhsic.kernels.gaussian import squared_distances
from dhsic.lowrank.base import Landmarks


@dataclass(frozen=True)
class KnownLandmarks:
    """`dhsic.kernels.bandwidth.Known` from landmarks; `value` is HSIC as a function of sigma."""

    landmarks: Landmarks
    value: Callable[[float], float]

    def pair_distances(self) -> Float:
        """Landmarks with all samples that come after them."""
        rows, norms = self.landmarks.rows, self.landmarks.norms
        assert rows is not None, "landmarks of a run are samples"
        D = squared_distances(self.landmarks.inner, norms[rows], norms)
        D[EQUAL * norms.max() >= D] = 0.0
        is_landmark = np.zeros(len(norms), dtype=bool)
        is_landmark[rows] = True
        counted = ~is_landmark | (np.arange(len(norms)) > rows[:, None])
        return np.asarray(D[counted])

    def hsic(self, sigma: float) -> float:
        """HSIC(sigma, S) by the factor."""
        return self.value(sigma)

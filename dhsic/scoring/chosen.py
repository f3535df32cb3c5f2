"""The statistic of the features chosen so far: of all samples, or against landmarks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dhsic._typing import Float, Index
from dhsic.engines.base import Question
from dhsic.engines.thin_adding import ThinQuestion, added_to
from dhsic.kernels.bandwidth import Known
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.gaussian import squared_distances
from dhsic.kernels.known import known_of
from dhsic.kernels.statistic import AbstractSums, Statistic, zero_upper
from dhsic.lowrank.base import Landmarks
from dhsic.lowrank.weights import FactoredWeights
from dhsic.runtime.base import Job
from dhsic.scoring.landmarks import Chosen as Drawn
from dhsic.scoring.reader import Reader
from dhsic.scoring.tasks import standardised_columns, statistic_of

#: Features that join together and are sent by their values, not their statistic.
FEW = 128
#: Landmarks that K of the features chosen is factored from.
LANDMARKS = 256


class AbstractChosen(ABC):
    """Statistic of the features chosen, with the weights that go with it."""

    n_samples: int

    @abstractmethod
    def clear(self) -> None:
        """No feature is chosen."""

    @abstractmethod
    def add(self, reader: Reader, jobs: Sequence[Job], n_features: int) -> None:
        """Add features that join together; the same bits for the same features."""

    @property
    @abstractmethod
    def longest(self) -> float:
        """Largest squared norm of a sample."""

    @abstractmethod
    def known(self, kernel: AbstractKernel) -> Known:
        """What policies for the bandwidth may ask."""

    @abstractmethod
    def question(self, kernel: AbstractKernel, sigma: float, each: Any) -> Question | ThinQuestion:
        """What engines are asked in a round."""


class SquareChosen(AbstractChosen):
    """Of all samples, (m, m)."""

    def __init__(self, W: Float, sums: AbstractSums) -> None:
        self.W = W
        self.n_samples = len(W)
        self._sums = sums
        self._upper = zero_upper(len(W))

    def clear(self) -> None:
        """No feature is chosen."""
        self._upper[...] = 0.0

    def add(self, reader: Reader, jobs: Sequence[Job], n_features: int) -> None:
        """Add to the upper triangle, by values where they are few."""
        if n_features > FEW:
            for part in reader.map(statistic_of, jobs):
                self._upper += part
        else:
            parts = list(reader.joined(standardised_columns, jobs))
            self._sums.add(self._upper, np.concatenate(parts))

    @property
    def longest(self) -> float:
        """Largest squared norm of a sample."""
        return float(np.diagonal(self._upper).max())

    def known(self, kernel: AbstractKernel) -> Known:
        """From the statistic."""
        return known_of(kernel, self.W, Statistic(self._upper))

    def question(self, kernel: AbstractKernel, sigma: float, each: Any) -> Question:
        """As of elimination."""
        return Question(kernel, sigma, self.W, Statistic(self._upper), each)


class ThinChosen(AbstractChosen):
    """Against landmarks that make a factor of K, and against rows that check it; O(b m)."""

    def __init__(self, W: FactoredWeights, seed: int) -> None:
        self.W = W
        self.n_samples = W.n_samples
        self._drawn = Drawn.of(W.n_samples, LANDMARKS, seed)
        self._both = self._empty()

    def _empty(self) -> Landmarks:
        m, rows = self.n_samples, self._drawn.rows
        return Landmarks(np.zeros((rows.size, m)), np.zeros(m), rows)

    def clear(self) -> None:
        """No feature is chosen."""
        self._both = self._empty()

    def add(self, reader: Reader, jobs: Sequence[Job], n_features: int) -> None:
        """Add inner products, a part after the other."""
        del n_features
        for Z in reader.joined(standardised_columns, jobs):
            self._both = added_to(self._both, Z)

    @property
    def longest(self) -> float:
        """Largest squared norm of a sample."""
        return float(self._both.norms.max())

    def known(self, kernel: AbstractKernel) -> Known:
        """Distances among landmarks, and HSIC by their factor."""
        return _KnownThin(self, kernel)

    def question(self, kernel: AbstractKernel, sigma: float, each: Any) -> ThinQuestion:
        """In linear time."""
        del each
        fit, check = self.part(self._drawn.fit), self.part(self._drawn.check)
        return ThinQuestion(kernel, sigma, self.W, fit, check)

    def part(self, which: Index) -> Landmarks:
        """The statistic against some of the landmarks."""
        assert self._both.rows is not None, "landmarks are samples"
        return replace(self._both, inner=self._both.inner[which], rows=self._both.rows[which])

    @property
    def n_landmarks(self) -> int:
        """Landmarks, check rows included."""
        return self._drawn.rows.size


class _KnownThin:
    """`Known` from landmarks."""

    def __init__(self, chosen: ThinChosen, kernel: AbstractKernel) -> None:
        self._chosen, self._kernel = chosen, kernel

    def pair_distances(self) -> Float:
        """Pairs of landmarks."""
        both = self._chosen.part(np.arange(self._chosen.n_landmarks))
        norms = both.norms[both.rows]
        D = squared_distances(both.inner[:, both.rows], norms, norms)
        return D[np.triu_indices_from(D, k=1)]

    def hsic(self, sigma: float) -> float:
        """``<W, K>`` by the factor."""
        return self._chosen.question(self._kernel, sigma, None).hsic

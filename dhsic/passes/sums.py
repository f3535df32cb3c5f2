"""The statistic of the surviving features, kept up to date as they leave.

G is down-dated by the features removed; what that costs in digits is bounded by starting anew
whenever an eighth is left (an *epoch*), which is also when survivors are compacted. Both follow
from the sizes of S alone, so a resumed run repeats them and gets the same bits.

The statistic of the features chosen so far: of all samples, or against landmarks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dhsic._typing import Float, Index
from dhsic.algorithms.state import SelectionState
from dhsic.engines.base import Question
from dhsic.engines.compact import ThinQuestion, added_to
from dhsic.hsic import FactoredWeights
from dhsic.kernels.bandwidth import DistanceStats, Known
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.gaussian import squared_distances
from dhsic.kernels.statistic import AbstractSums, Statistic, zero_upper
from dhsic.lowrank.base import Landmarks
from dhsic.passes.landmarks import Chosen as Drawn
from dhsic.passes.reader import Reader, grouped
from dhsic.passes.task import Sum, Values
from dhsic.runtime.base import Job
from dhsic.sources.scaling import Scaling

#: Up to how many features G is down-dated by their values, (c, m). The same number for all
#: runtimes: the two ways add up in other orders, and to other bits.
FEW = 2048
#: A new epoch begins when this fraction of the features of the last one is left.
EPOCH = 8


class RunningStatistic:
    """G for the survivors; `at` moves it on.

    Attributes
    ----------
    features : (s,) int64
        Those that G is the statistic of.
    """

    def __init__(
        self,
        reader: Reader,
        scaling: Scaling,
        features: Index,
        upper: Float,
        sums: AbstractSums,
    ) -> None:
        """Begin with `features`, whose statistic (its upper triangle) is `upper`."""
        self._sums = sums
        self.reader = reader
        self.scaling = scaling
        self._upper = upper
        self.bytes_read = 0
        self.features = features
        self._base = features.size

    @property
    def statistic(self) -> Statistic:
        """G of `features`."""
        return Statistic(self._upper)

    def at(self, S: Index) -> Statistic:
        """G of S, a subset of the features it had before."""
        if S.size == self.features.size:
            return self.statistic
        if S.size * EPOCH <= self._base:
            self.begin(S)
        else:
            gone = np.setdiff1d(self.features, S, assume_unique=True)
            self._take_away(gone)
            self.features = S
        return self.statistic

    def replay(self, survivors: Sequence[Index]) -> None:
        """Repeat what an uninterrupted run did for these S: the same bits, not all the work."""
        base = self._base
        last = None
        for number, S in enumerate(survivors):
            if S.size * EPOCH <= base:
                base, last = S.size, number
        if last is not None:
            self.begin(survivors[last])
            survivors = survivors[last + 1 :]
        for S in survivors:
            self.at(S)

    def begin(self, S: Index) -> None:
        """Begin an epoch: the statistic of S is summed anew."""
        self.reader = self.reader.compacted(S)
        self._upper = self._sum(S)
        self._base = S.size
        self.features = S

    def _take_away(self, gone: Index) -> None:
        """Down-date G: by the features themselves where they are few, else by their statistic."""
        if gone.size > FEW:
            self._upper -= self._sum(gone)
            return
        jobs = self.reader.jobs(gone, self.scaling)
        self.bytes_read += self.reader.bytes_of(jobs)
        parts = list(self.reader.joined(Values(), jobs))
        self._sums.take_away(self._upper, np.concatenate(parts), self.reader.runtime.each)

    def _sum(self, features: Index) -> Float:
        total = zero_upper(len(self._upper))
        jobs = grouped(self.reader.jobs(features, self.scaling))
        self.bytes_read += self.reader.bytes_of(jobs)
        for part in self.reader.map(Sum(self._sums), jobs):
            total += part
        return total


def survivors_after_rounds(state: SelectionState) -> list[Index]:
    """S after each round but the last done, and none before the first; ascending arrays.

    The last one is left to the round that comes, which moves the statistic there itself.
    """
    out = []
    S = np.sort(np.concatenate([state.survivors, state.eliminated]))
    for number in range(1, state.round):
        gone = state.eliminated[state.removed_in == number]
        S = np.setdiff1d(S, gone, assume_unique=True)
        out.append(S)
    return out


#: Features that join together and are sent by their values, not their statistic.
FEW_CHOSEN = 128
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
        self._upper[...] = 0.0

    def add(self, reader: Reader, jobs: Sequence[Job], n_features: int) -> None:
        """Add to the upper triangle, by values where they are few."""
        if n_features > FEW_CHOSEN:
            for part in reader.map(Sum(self._sums), jobs):
                self._upper += part
        else:
            parts = list(reader.joined(Values(), jobs))
            self._sums.add(self._upper, np.concatenate(parts))

    @property
    def longest(self) -> float:
        return float(np.diagonal(self._upper).max())

    def known(self, kernel: AbstractKernel) -> Known:
        """From the statistic."""
        return DistanceStats(kernel, self.W, Statistic(self._upper))

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
        self._both = self._empty()

    def add(self, reader: Reader, jobs: Sequence[Job], n_features: int) -> None:
        """Add inner products, a part after the other."""
        del n_features
        for Z in reader.joined(Values(), jobs):
            self._both = added_to(self._both, Z)

    @property
    def longest(self) -> float:
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

"""Sums over a set of features, updated as they leave or join: `AbstractFeatureSum`.

Removed features are subtracted from the statistic G of all samples. This loses digits. When an
eighth of the features is left, G is therefore recomputed and a new *epoch* begins. The remaining
features are compacted at the same time. Both steps depend only on the sizes of S, so a resumed run
repeats them and gets the same bits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any, ClassVar

import numpy as np

from dhsic._typing import Float, Index
from dhsic.algorithms.state import SelectionState
from dhsic.engines.scoring_problem import AnyQuestion, ScoringProblem
from dhsic.kernels.bandwidth import BandwidthStats, DistanceStats
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.statistic import AbstractSums, Statistic, zero_upper
from dhsic.linalg.quadratic import WorkBuffer
from dhsic.passes import Sum
from dhsic.passes.jobs import grouped
from dhsic.passes.reader import AbstractReader

#: Maximum number of removed features whose values, (c, m), are fetched to update G. It is the same
#: for all runtimes, because the order of summation determines the last bits.
FEW_LEAVING = 2048
#: Maximum number of joining features whose values are fetched instead of their statistic.
FEW_CHOSEN = 128


class AbstractFeatureSum(ABC):
    """Sums over a set of features that a kernel needs, such as inner products of samples.

    Subclasses store sums for all pairs of samples, (m, m), or for pairs of a sample and a landmark.
    """

    #: A new epoch begins when the number of features of the last one has been divided by this.
    epoch: ClassVar[int]

    def __init__(self, data: AbstractReader) -> None:
        self.data = data
        #: Features in the sum, ascending (only in backward elimination).
        self.features: Index = np.empty(0, dtype=np.int64)
        self._base = 0

    @abstractmethod
    def clear(self) -> None:
        """Reset the sum to no features."""

    @abstractmethod
    def add(self, features: Index) -> None:
        """Add features (ascending) that are selected in the same round.

        Repeating the same additions gives a sum with identical bits.
        """

    @abstractmethod
    def remove(self, features: Index) -> None:
        """Subtract features that are removed in the same round."""

    @abstractmethod
    def restart(self, S: Index) -> None:
        """Recompute the sum over the features S, and begin an epoch (see the module docstring)."""

    @property
    @abstractmethod
    def longest(self) -> float:
        """Largest squared norm of a sample."""

    @abstractmethod
    def bandwidth_stats(self, kernel: AbstractKernel, W: Any) -> BandwidthStats:
        """Statistics of the samples that bandwidth policies use."""

    @abstractmethod
    def question(self, kernel: AbstractKernel, sigma: float, W: Any) -> AnyQuestion:
        """Scoring problem of a round for the engines, with label weights W."""

    def begin(self, S: Index) -> None:
        """Begin an epoch (see the module docstring); S are the features of the present sum."""
        self.features, self._base = S, S.size

    def move_to(self, S: Index) -> None:
        """Update the sum to S, a subset of its features."""
        if S.size == self.features.size:
            return
        if S.size * self.epoch <= self._base:
            self.data.compact(S)
            self.restart(S)
        else:
            leaves = np.ones(self.features[-1] + 1, dtype=bool)
            leaves[S] = False
            removed, self.features = self.features[leaves[self.features]], S
            self.remove(removed)

    def replay(self, survivors: Sequence[Index], restarted: Collection[int] = ()) -> None:
        """Repeat the updates of completed rounds, so that the sum has the same bits.

        `survivors` are the features of each round. In the rounds at the positions `restarted` the
        sum was recomputed for other reasons than the number of features.
        """
        base, last = self._base, None
        for number, S in enumerate(survivors):
            if number in restarted or S.size * self.epoch <= base:
                base, last = S.size, number
        if last is not None:
            self.data.compact(survivors[last])
            self.restart(survivors[last])
            survivors = survivors[last + 1 :]
        for S in survivors:
            self.move_to(S)


class SquareSum(AbstractFeatureSum):
    """Sum over features for all pairs of samples, (m, m), stored as its upper triangle."""

    epoch = 8

    def __init__(
        self, data: AbstractReader, sums: AbstractSums, upper: Float | None = None
    ) -> None:
        """Create a sum over features for all pairs of samples, stored in `upper` (default: zeros).

        `sums` defines the summed statistic, such as inner products.
        """
        super().__init__(data)
        self._sums = sums
        self._upper = zero_upper(data.n_samples) if upper is None else upper
        self._rooms: defaultdict[int, WorkBuffer] = defaultdict(WorkBuffer)

    @property
    def statistic(self) -> Statistic:
        """Sum as a `Statistic`."""
        return Statistic(self._upper)

    def gram(self, kernel: AbstractKernel, sigma: float) -> Float:
        """Kernel matrix (m, m) of the features in the sum."""
        norms = self.statistic.diagonal
        return kernel.gram(self.statistic.to_dense(), norms, norms, sigma)

    def clear(self) -> None:
        self._upper[...] = 0.0

    def include(self, upper: Float) -> None:
        """Add a sum over other features, an upper triangle (m, m)."""
        self._upper += upper

    def add(self, features: Index) -> None:
        if features.size > FEW_CHOSEN:
            self.include(self.data.sum_results(Sum(self._sums), self.data.jobs(features)))
        else:
            self._sums.add(self._upper, self.data.values(features))

    def remove(self, features: Index) -> None:
        """Subtract the contributions of features from the sums.

        If there are few features, the contributions are computed from their values, otherwise by a
        pass.
        """
        if features.size > FEW_LEAVING:
            self._upper -= self._sum(features)
        else:
            Z, each = self.data.values(features), self.data.runtime.each
            self._sums.take_away(self._upper, Z, each)

    def restart(self, S: Index) -> None:
        self._upper = self._sum(S)
        self.begin(S)

    @property
    def longest(self) -> float:
        return float(self.statistic.diagonal.max())

    def bandwidth_stats(self, kernel: AbstractKernel, W: Any) -> BandwidthStats:
        return DistanceStats(kernel, W, self.statistic)

    def question(self, kernel: AbstractKernel, sigma: float, W: Any) -> ScoringProblem:
        return ScoringProblem(kernel, sigma, W, self.statistic, self.data.runtime.each, self._rooms)

    def _sum(self, features: Index) -> Any:
        return self.data.sum_results(Sum(self._sums), grouped(self.data.jobs(features)))


def survivors_of(state: SelectionState) -> list[Index]:
    """Features at the start of every completed round, including the first round; ascending.

    The features left after the last completed round are not included; they begin the next round.
    """
    S = np.sort(np.concatenate([state.survivors, state.eliminated]))
    out = [S]
    for number in range(1, state.round):
        removed = state.eliminated[state.removed_in == number]
        out.append(S := np.setdiff1d(S, removed, assume_unique=True))
    return out

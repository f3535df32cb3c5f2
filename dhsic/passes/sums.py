"""A sum over a set of features, kept up to date as they leave or join: `AbstractFeatureSum`.

Of all samples, G is down-dated by the features removed; what that costs in digits is bounded by
starting anew whenever an eighth is left (an *epoch*), which is also when survivors are compacted.
Both follow from the sizes of S alone, so a resumed run repeats them and gets the same bits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any, ClassVar

import numpy as np

from dhsic._typing import Float, Index
from dhsic.algorithms.state import SelectionState
from dhsic.engines.question import AnyQuestion, Question
from dhsic.kernels.bandwidth import BandwidthStats, DistanceStats
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.statistic import AbstractSums, Statistic, zero_upper
from dhsic.linalg.quadratic import Room
from dhsic.passes import Sum
from dhsic.passes.jobs import grouped
from dhsic.passes.reader import AbstractReader

#: Up to how many features G is down-dated by their values, (c, m). The same number for all
#: runtimes: the two ways add up in other orders, and to other bits.
FEW_LEAVING = 2048
#: Features that join together and are sent by their values, not their statistic.
FEW_CHOSEN = 128


class AbstractFeatureSum(ABC):
    """Inner products of samples, or what else a kernel sums, over a set of features.

    How it is stored is a subclass's to say: (m, m) here, or samples against landmarks.
    """

    #: A new epoch begins when one in so many features of the last one is left.
    epoch: ClassVar[int]

    def __init__(self, data: AbstractReader) -> None:
        self.data = data
        #: Those that it is the sum over, where they leave; ascending.
        self.features: Index = np.empty(0, dtype=np.int64)
        self._base = 0

    @abstractmethod
    def clear(self) -> None:
        """Sum over no feature."""

    @abstractmethod
    def add(self, features: Index) -> None:
        """Add features (ascending) that join together; the same bits for the same features."""

    @abstractmethod
    def remove(self, features: Index) -> None:
        """Take features away that leave together."""

    @abstractmethod
    def restart(self, S: Index) -> None:
        """Sum anew, over S: a new epoch."""

    @property
    @abstractmethod
    def longest(self) -> float:
        """Largest squared norm of a sample."""

    @abstractmethod
    def known(self, kernel: AbstractKernel, W: Any) -> BandwidthStats:
        """What policies for the bandwidth may ask."""

    @abstractmethod
    def question(self, kernel: AbstractKernel, sigma: float, W: Any) -> AnyQuestion:
        """What engines are asked in a round."""

    def begin(self, S: Index) -> None:
        """Begin an epoch with S, over which the sum is."""
        self.features, self._base = S, S.size

    def move_to(self, S: Index) -> None:
        """Follow to S, a subset of the features so far."""
        if S.size == self.features.size:
            return
        if S.size * self.epoch <= self._base:
            self.data.compact(S)
            self.restart(S)
        else:
            leaves = np.ones(self.features[-1] + 1, dtype=bool)
            leaves[S] = False
            gone, self.features = self.features[leaves[self.features]], S
            self.remove(gone)

    def replay(self, survivors: Sequence[Index], restarted: Collection[int] = ()) -> None:
        """Repeat what an uninterrupted run did for these S: the same bits, not all the work.

        `restarted` are numbers of those S for which it was summed anew whatever their sizes.
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
    """Sum for all samples with each other, (m, m), its upper triangle."""

    epoch = 8

    def __init__(
        self, data: AbstractReader, sums: AbstractSums, upper: Float | None = None
    ) -> None:
        """Make a sum of what `sums` says; `upper` is where to put it, by default new memory."""
        super().__init__(data)
        self._sums = sums
        self._upper = zero_upper(data.n_samples) if upper is None else upper
        self._rooms: defaultdict[int, Room] = defaultdict(Room)

    @property
    def statistic(self) -> Statistic:
        """The sum."""
        return Statistic(self._upper)

    def gram(self, kernel: AbstractKernel, sigma: float) -> Float:
        """K of the features, (m, m)."""
        norms = self.statistic.diagonal
        return kernel.gram(self.statistic.whole(), norms, norms, sigma)

    def clear(self) -> None:
        self._upper[...] = 0.0

    def include(self, upper: Float) -> None:
        """Add the sum over some features."""
        self._upper += upper

    def add(self, features: Index) -> None:
        if features.size > FEW_CHOSEN:
            self.include(self.data.added(Sum(self._sums), self.data.jobs(features)))
        else:
            self._sums.add(self._upper, self.data.values(features))

    def remove(self, features: Index) -> None:
        """Take features away by their values where they are few, else by their sum."""
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

    def known(self, kernel: AbstractKernel, W: Any) -> BandwidthStats:
        return DistanceStats(kernel, W, self.statistic)

    def question(self, kernel: AbstractKernel, sigma: float, W: Any) -> Question:
        return Question(kernel, sigma, W, self.statistic, self.data.runtime.each, self._rooms)

    def _sum(self, features: Index) -> Any:
        return self.data.added(Sum(self._sums), grouped(self.data.jobs(features)))


def survivors_of(state: SelectionState) -> list[Index]:
    """S at the start of every round done, and of the first; ascending arrays.

    Where the last one led is left to the round that comes, which moves the sum there itself.
    """
    S = np.sort(np.concatenate([state.survivors, state.eliminated]))
    out = [S]
    for number in range(1, state.round):
        gone = state.eliminated[state.removed_in == number]
        out.append(S := np.setdiff1d(S, gone, assume_unique=True))
    return out

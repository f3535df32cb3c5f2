"""The statistic of the surviving features, kept up to date as they leave.

G is down-dated by the features removed; what that costs in digits is bounded by starting anew
whenever an eighth is left (an *epoch*), which is also when survivors are compacted. Both follow
from the sizes of S alone, so a resumed run repeats them and gets the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dhsic._typing import Float, Index
from dhsic.kernels.statistic import Statistic, zero_upper
from dhsic.scoring.reader import Reader, grouped
from dhsic.scoring.tasks import standardised_columns, statistic_of
from dhsic.selection.state import SelectionState
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

    def __init__(self, reader: Reader, scaling: Scaling, features: Index, upper: Float) -> None:
        """Begin with `features`, whose statistic (its upper triangle) is `upper`."""
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
        parts = list(self.reader.joined(standardised_columns, jobs))
        self.reader.wanted.sums.take_away(
            self._upper, np.concatenate(parts), self.reader.runtime.each
        )

    def _sum(self, features: Index) -> Float:
        total = zero_upper(len(self._upper))
        jobs = grouped(self.reader.jobs(features, self.scaling))
        self.bytes_read += self.reader.bytes_of(jobs)
        for part in self.reader.map(statistic_of, jobs):
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

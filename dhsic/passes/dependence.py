r"""HSIC(sigma, S) of the features in a source: what Algorithm 1 asks.

How a round is scored is a strategy, `dhsic.passes.scoring.AbstractScorer`: exact, or in low rank,
from which the exact one takes over. Candidates are features or groups of them. The weights W are
those of an estimator, or come from a machine in every round.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from dhsic._typing import Float, Index
from dhsic.algorithms.bahsic import Removal
from dhsic.algorithms.state import SelectionState
from dhsic.engines.refine import largest, tie_width
from dhsic.kernels.table import check_reach
from dhsic.passes.groups import AbstractCandidates, Singles
from dhsic.passes.lowrank import LowRankChoices, LowRankScorer
from dhsic.passes.reader import Reader
from dhsic.passes.removal import check_gains
from dhsic.passes.scaled import ScaledReader
from dhsic.passes.scoring import AbstractScorer, Choices, ExactScorer
from dhsic.passes.sums import survivors_of
from dhsic.runtime.base import AbstractRuntime
from dhsic.sources.base import AbstractSource
from dhsic.sources.scaling import Scaling


class SourceDependence:
    """`dhsic.algorithms.bahsic.Dependence` over a source.

    Parameters
    ----------
    candidates : AbstractCandidates, optional
        What is removed; single features by default.
    machine : callable, optional
        Makes W of K in every round, where that of `choices` is not used.
    low_rank : LowRankChoices, optional
        Begin in low rank.

    Attributes
    ----------
    scorer : AbstractScorer
        What scores the round.
    """

    def __init__(
        self,
        source: AbstractSource,
        choices: Choices,
        runtime: AbstractRuntime,
        *,
        rows: Index | None = None,
        memory: int | None = None,
        candidates: AbstractCandidates | None = None,
        machine: Callable[[Float], Float] | None = None,
        low_rank: LowRankChoices | None = None,
    ) -> None:
        self.choices = choices
        self.data = ScaledReader(Reader(source, runtime, rows, memory=memory))
        self._candidates = candidates or Singles()
        self.scorer: AbstractScorer = (
            ExactScorer(choices, self.data, self._candidates, machine=machine)
            if low_rank is None
            else LowRankScorer(choices, self.data, low_rank)
        )
        self._sigma = 1.0
        self._started = time.perf_counter()

    def measure(self) -> Scaling:
        """Pass over all features: their scaling and, with it, the statistic."""
        scaling = self.scorer.measure()
        self._candidates.drop_constant(scaling)
        return scaling

    @property
    def candidates(self) -> Index:
        """What may be removed: features that vary, or groups of them."""
        return self._candidates.every

    def weigh_itself(self, weigh: Callable[[Float], Float]) -> None:
        """Take the data for their own labels, after `measure`: W of K over all features."""
        assert isinstance(self.scorer, ExactScorer), "labels of full rank have no thin factor"
        self.scorer.weigh_itself(weigh)

    def check_reach(self) -> None:
        """Refuse data that the kernel overflows on, after `measure`."""
        kernel = self.choices.kernel
        if kernel.of_inner_products and not kernel.is_additive:  # others are bounded
            check_reach(kernel, self.scorer.sum.longest)

    def resume(self, state: SelectionState) -> None:
        """Go to where `state` left off, after `measure`."""
        survivors = [self._candidates.features(S) for S in survivors_of(state)]
        self.scorer = self.scorer.resume(survivors, state.history)

    def move_to(self, S: Index) -> None:
        """Begin a round with the candidates S: the statistic follows, sigma and W with it."""
        self._started = time.perf_counter()
        features, kernel = self._candidates.features(S), self.choices.kernel
        self.scorer = self.scorer.for_round(features)
        if kernel.is_additive:
            return
        self.scorer.move_to(features)
        if kernel.has_bandwidth:
            self._sigma = self.choices.bandwidth(self.scorer.known(), features.size)
        self.scorer.reweigh(self._sigma)

    def bandwidth(self, S: Index) -> float:
        """Line 3: sigma for S, to which the statistic was moved."""
        del S
        return self._sigma

    def least_relevant(self, sigma: float, S: Index, n: int) -> Removal:
        """Line 4: the n candidates whose removal leaves the largest HSIC."""
        is_additive = self.choices.kernel.is_additive
        found = (
            self.scorer.scores_again(self._candidates, S)
            if is_additive
            else self.scorer.scores(sigma, S, n)
        )
        check_gains(self.choices.kernel, sigma, found.hsic, found.gains)
        first = largest(found.gains, n, tie_width(found.gains))
        if not is_additive:
            left = np.delete(np.arange(S.size), first)
            found.record["advice"] = self.scorer.advise(sigma, S[left], found.gains[left], n)
        facts = {
            "n_features": S.size,
            "n_removed": first.size,
            "sigma": float(sigma),
            "hsic": found.hsic,
            "seconds": time.perf_counter() - self._started,
            "bytes_read": self.data.take_bytes(),
        }
        return Removal(S[first], -found.gains[first], facts | found.record)

    def close(self) -> None:
        """Let go of scratch."""
        self.data.close()

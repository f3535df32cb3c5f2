"""Exact or low rank, round by round: the cheaper one that is good enough.

A round by the exact engine costs ``2 m^2 |S|`` flops, and its statistic as many as half a round;
in low rank both are nearly free. So a wide matrix begins in low rank, and the exact engine takes
over where it has become cheap. From there on nothing is approximated any more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NoReturn

import numpy as np

from dhsic._typing import Float, Index
from dhsic.algorithms.bahsic import Removal
from dhsic.algorithms.state import SelectionState
from dhsic.passes.dependence import Choices, Reporter, SourceDependence
from dhsic.passes.lowrank import ThinDependence
from dhsic.passes.sums import survivors_after_rounds
from dhsic.sources.scaling import Scaling

#: Flops of a round by the exact engine: up to here it is always taken, seconds at most.
CHEAP = 3e10
#: m x m matrices in the middle of a run: up to so many samples.
MOST_SAMPLES = 6000
#: With so few features left K has many directions, one wrong feature counts, and exact is cheap.
FEW_FEATURES = 1024


def flops_of_round(m: int, n_features: int) -> float:
    """Of the exact engine, its share of the statistic included."""
    return 2.3 * m * m * n_features


class AdaptiveDependence:
    """`dhsic.algorithms.bahsic.Dependence` that begins in low rank.

    Parameters
    ----------
    thin : ThinDependence
        Low rank.
    exact : callable
        Makes the choices of what comes after it, once that is needed; where m x m matrices may
        be made.
    eager : bool
        Go on exactly as soon as that is cheap; else only with a handful of features.
    """

    def __init__(self, thin: ThinDependence, exact: Callable[[], Choices], *, eager: bool) -> None:
        self.thin = thin
        self._choices = exact
        self._eager = eager
        self._exact: SourceDependence | None = None

    @property
    def reporter(self) -> Reporter | None:
        """Hears of progress."""
        return self.thin.reporter

    @reporter.setter
    def reporter(self, reporter: Reporter | None) -> None:
        self.thin.reporter = reporter
        if self._exact is not None:
            self._exact.reporter = reporter

    def measure(self) -> Scaling:
        """Pass over all features: their scaling and the statistic against landmarks."""
        return self.thin.measure()

    @property
    def candidates(self) -> Index:
        """What may be removed: features that vary."""
        assert self.thin.scaling is not None, "measure comes first"
        return np.flatnonzero(~self.thin.scaling.constant)

    def weigh_itself(self, weigh: Callable[[Float], Float]) -> NoReturn:
        """Refuse: labels of as many directions as samples have no factor."""
        raise AssertionError("runs whose data are their own labels are exact")

    def close(self) -> None:
        """Let go of scratch."""
        self.thin.close()
        if self._exact is not None:
            self._exact.close()

    def check_reach(self) -> None:
        """Refuse data that the kernel overflows on, after `measure`."""
        self.thin.check_reach()

    def resume(self, state: SelectionState) -> None:
        """Go to where `state` left off, after `measure`."""
        survivors = survivors_after_rounds(state)
        by_rank = [str(record["engine"]).startswith("low rank") for record in state.history]
        n_thin = by_rank.index(False) if False in by_rank else len(by_rank)
        everyone = np.sort(np.concatenate([state.survivors, state.eliminated]))
        before = [everyone, *survivors][:n_thin]  # S of every round in low rank
        self.thin.replay(before, state.history[:n_thin])
        if n_thin < len(by_rank):
            start = [everyone, *survivors][n_thin]
            self._begin_exact(start).replay(state, survivors[n_thin:])

    def bandwidth(self, S: Index) -> float:
        """Line 3."""
        if self._exact is None and self._prefers_exact(S.size):
            self._begin_exact(S)
        dependence = self._exact or self.thin
        return dependence.bandwidth(S)

    def least_relevant(self, sigma: float, S: Index, n: int) -> Removal:
        """Line 4."""
        if self._exact is None:
            return self.thin.least_relevant(sigma, S, n)
        removal = self._exact.least_relevant(sigma, S, n)
        nothing: dict[str, float | int | str] = {"relative_error": 0.0, "cut_error": 0.0}
        return replace(removal, record={**removal.record, **nothing})

    def _prefers_exact(self, n_features: int) -> bool:
        cheap = flops_of_round(self._m, n_features) <= CHEAP
        few = n_features <= FEW_FEATURES
        return self.thin.choices.may_square and (few or (self._eager and cheap))

    @property
    def _m(self) -> int:
        return self.thin.choices.weights.n_samples

    def _begin_exact(self, S: Index) -> SourceDependence:
        thin = self.thin
        assert thin.scaling is not None, "measure comes first"
        reader = thin.running.reader
        thin.let_go()
        self._exact = SourceDependence.from_survivors(self._choices(), reader, thin.scaling, S)
        self._exact.reporter = thin.reporter
        return self._exact

"""Engines: they prepare a state from a round's scoring problem, and score blocks of features.

Scoring problems are in `question`. States are prepared with NumPy, in O(m^2) or more per round.
They score in any namespace of the array API standard with writable arrays: ``state.on(xp, device)``
is the state on a device.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, final

import numpy as np

from dhsic._typing import Array, Float, Mask
from dhsic.engines.scoring_problem import FeatureStats, RoundState
from dhsic.namespace import cast, host, take, zeros


class AbstractEngine(ABC):
    """Computes scores of features from a scoring problem; a value object, cheap to create."""

    @property
    def name(self) -> str:
        """Name in the records of rounds."""
        return type(self).__name__.lower()

    @property
    def is_final(self) -> bool:
        """Whether gains of this engine are final, and not refined any more."""
        return True

    @abstractmethod
    def prepare(self, question: Any) -> Any:
        """State for a round, which is broadcast to the workers."""

    @abstractmethod
    def score(self, state: Any, X: Array, facts: FeatureStats) -> Float:
        """Gains of c features, float64 (c,); X is (c, m), standardised, one feature per row.

        X is in the namespace and on the device of the state; facts and gains are NumPy arrays. An
        engine that measures the error of each gain returns (c, 2), gains and errors.
        """

    def error(self, question: Any, facts: FeatureStats, gains: Float) -> Float:
        """Bound on the error of `score` for each feature, (c,), given gains or estimates of them.

        It is 0 for engines without truncation: the tolerance for ties covers rounding.
        """
        return np.zeros_like(gains)

    def products(self, question: Any, facts: FeatureStats) -> int:
        """Total number of columns of products ``A X^p`` that these features need."""
        return 0


class AbstractSplitEngine(AbstractEngine):
    """Engine that scores features in different ways: splits them, and merges the results."""

    @abstractmethod
    def ways(self, known: Any, facts: FeatureStats) -> Iterator[tuple[Any, Mask]]:
        """Yield each way, and a mask (c,) of its features; every feature has one way.

        `known` is the question or its state; the way "direct" is the definition on all samples.
        """

    @abstractmethod
    def one_way(self, way: Any, state: RoundState, X: Array, facts: FeatureStats) -> Float:
        """Gains (see `score`) of features that all use the same way."""

    @abstractmethod
    def columns(self, way: Any, known: Any, facts: FeatureStats) -> int:
        """Number of columns of products for features that all use the same way."""

    @final
    def score(self, state: RoundState, X: Array, facts: FeatureStats) -> Float:
        gains = np.empty(0)
        for way, which in self.ways(state, facts):
            X_part = X if which.all() else take(X, which)
            part = self.one_way(way, state, X_part, facts.take(which))
            gains = gains if gains.size else np.empty((X.shape[0], *part.shape[1:]))
            gains[which] = part
        return gains

    @final
    def products(self, question: Any, facts: FeatureStats) -> int:
        ways = self.ways(question, facts)
        return sum(self.columns(way, question, facts.take(which)) for way, which in ways)

    @final
    def definitions(self, question: Any, facts: FeatureStats) -> int:
        """Number of features that are scored by the definition on all samples."""
        ways = self.ways(question, facts)
        return sum(int(which.sum()) for way, which in ways if way == "direct")


def one_by_one(X: Array, gain: Callable[[Float], Float]) -> Float:
    """Gains of the features X (c, m), one at a time in float64; `gain` takes x (m,)."""
    gains = zeros(X.shape[0], like=X)
    for j in range(X.shape[0]):
        gains[j] = gain(cast(X[j, :], np.float64))
    return host(gains)

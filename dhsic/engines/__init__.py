"""An engine prepares a state from a round's question and scores blocks of features with it.

`question` says what is asked. States are prepared with NumPy, m x m work once a round, and score on
any namespace of the array API standard whose arrays can be written: `state.on(xp, device)` is the
same state there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, final

import numpy as np

from dhsic._typing import Array, Float, Mask
from dhsic.engines.question import FeatureStats, RoundState
from dhsic.namespace import cast, host, taken, zeros


class AbstractEngine(ABC):
    """Turns a question into scores of features; a value, cheap to make."""

    @property
    def name(self) -> str:
        """What records of rounds call it."""
        return type(self).__name__.lower()

    @property
    def is_final(self) -> bool:
        """Whether it has the last word on a gain."""
        return True

    @abstractmethod
    def prepare(self, question: Any) -> Any:
        """State for a round: what is broadcast to the workers."""

    @abstractmethod
    def score(self, state: Any, X: Array, facts: FeatureStats) -> Float:
        """Gains of c features, float64 (c,); X is (c, m), a feature a row, standardised.

        X is of the namespace and on the device of the state; facts and gains are NumPy's. An
        engine that measures the error of each gain gives that besides, (c, 2).
        """

    def error(self, question: Any, facts: FeatureStats, gains: Float) -> Float:
        """Bound on the error of `score` for each feature, given (a guess of) the gains, (c,).

        Zeros for engines that leave nothing out: the tolerance for ties covers their rounding.
        """
        return np.zeros_like(gains)

    def products(self, question: Any, facts: FeatureStats) -> int:
        """Columns of products ``A X^p`` that the formulas take for these features, all told."""
        return 0


class AbstractSplitEngine(AbstractEngine):
    """Scores each feature in a way of its own: they are split by it, and the parts put together."""

    @abstractmethod
    def ways(self, known: Any, facts: FeatureStats) -> Iterator[tuple[Any, Mask]]:
        """Ways and the features that go them, (c,) each; every feature goes one.

        `known` is the question or its state; the definition on all samples is the way "direct".
        """

    @abstractmethod
    def one_way(self, way: Any, state: RoundState, X: Array, facts: FeatureStats) -> Float:
        """Gains, as of `score`, of features that all go one way."""

    @abstractmethod
    def columns(self, way: Any, known: Any, facts: FeatureStats) -> int:
        """Columns of products that features take which all go one way."""

    @final
    def score(self, state: RoundState, X: Array, facts: FeatureStats) -> Float:
        gains = np.empty(0)
        for way, which in self.ways(state, facts):
            some = X if which.all() else taken(X, which)
            part = self.one_way(way, state, some, facts.take(which))
            gains = gains if gains.size else np.empty((X.shape[0], *part.shape[1:]))
            gains[which] = part
        return gains

    @final
    def products(self, question: Any, facts: FeatureStats) -> int:
        ways = self.ways(question, facts)
        return sum(self.columns(way, question, facts.take(which)) for way, which in ways)

    @final
    def definitions(self, question: Any, facts: FeatureStats) -> int:
        """Features that are scored by the definition on all samples."""
        ways = self.ways(question, facts)
        return sum(int(which.sum()) for way, which in ways if way == "direct")


def one_by_one(X: Array, gain: Callable[[Float], Float]) -> Float:
    """Gains of the features X (c, m), each by itself in float64; `gain` takes x (m,)."""
    gains = zeros(X.shape[0], like=X)
    for j in range(X.shape[0]):
        gains[j] = gain(cast(X[j, :], np.float64))
    return host(gains)

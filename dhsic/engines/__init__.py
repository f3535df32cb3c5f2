"""Engines: methods to score the features of a round, a block at a time.

An engine prepares a state from the scoring problem of a round (`dhsic.engines.scoring_problem`),
with NumPy, in O(m^2) operations or more. Features are scored with any library of the array API
standard that has writable arrays: ``state.on(xp, device)`` is the state on a device.
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
    """Method to compute the gain of every feature: the change of HSIC if it is removed or added.

    Engines are immutable.
    """

    @property
    def name(self) -> str:
        """Name of the engine in the records of rounds."""
        return type(self).__name__.lower()

    @property
    def is_final(self) -> bool:
        """Whether the gains (changes of HSIC) of this engine are final and need no refinement."""
        return True

    @abstractmethod
    def prepare(self, question: Any) -> Any:
        """Prepare the matrices of a round, which are sent to the workers that score features."""

    @abstractmethod
    def score(self, state: Any, X: Array, facts: FeatureStats) -> Float:
        """Compute the gains of c features, (c,) float64: the change of HSIC without (or with) each.

        X (c, m) contains the standardised values, one feature per row. It is an array of the same
        library and device as the state; `facts` (statistics of the features) and gains are NumPy
        arrays. An engine that estimates the error of each gain returns gains and errors, (c, 2).
        """

    def error(self, question: Any, facts: FeatureStats, gains: Float) -> Float:
        """Bound on the errors of the gains from `score`, (c,); `gains` may be estimates.

        The gain of a feature is the change of HSIC without (or with) it. The bound is 0 for engines
        that do not truncate a series, because the tolerance for ties covers rounding errors.
        """
        return np.zeros_like(gains)

    def products(self, question: Any, facts: FeatureStats) -> int:
        """Number of columns to multiply by an (m, m) matrix to score these features.

        The matrix is the elementwise product of the label weights W and a term of the kernel's
        series expansion. `facts` are statistics of the features.
        """
        return 0


class AbstractSplitEngine(AbstractEngine):
    """Engine that scores each feature in one of several ways, and merges the results."""

    @abstractmethod
    def ways(self, known: Any, facts: FeatureStats) -> Iterator[tuple[Any, Mask]]:
        """Yield each way of scoring, with the mask (c,) of its features.

        Every feature has one way. `known` is the scoring problem or its state. The way "direct"
        evaluates HSIC with and without the feature, on all samples.
        """

    @abstractmethod
    def one_way(self, way: Any, state: RoundState, X: Array, facts: FeatureStats) -> Float:
        """Compute the gains of features that are all scored in the same way; see `score`.

        The gain of a feature is the change of HSIC without (or with) it.
        """

    @abstractmethod
    def columns(self, way: Any, known: Any, facts: FeatureStats) -> int:
        """Number of columns to multiply by a matrix (see `products`) to score features in one way.

        `way` is one of `ways`, `known` is the scoring problem or its state, and `facts` are
        statistics of these features.
        """

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
        """Number of features that are scored by direct evaluation of HSIC on all samples."""
        ways = self.ways(question, facts)
        return sum(int(which.sum()) for way, which in ways if way == "direct")


def one_by_one(X: Array, gain: Callable[[Float], Float]) -> Float:
    """Compute the gains of the features X (c, m), one by one in float64; `gain` takes x (m,).

    The gain of a feature is the change of HSIC without (or with) it.
    """
    gains = zeros(X.shape[0], like=X)
    for j in range(X.shape[0]):
        gains[j] = gain(cast(X[j, :], np.float64))
    return host(gains)

"""Scores of the features that are left, exact in their result: engines and a sum over features.

How the rounds of Algorithm 1 are scored is a strategy of `dhsic.passes.dependence`; the other one
is `dhsic.passes.lowrank`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dhsic._typing import Float, Index
from dhsic.engines.base import Question
from dhsic.engines.refine import EngineChoice, RemovalEngines, read_record
from dhsic.errors import InputError
from dhsic.kernels.bandwidth import AbstractBandwidth, Grid, Known
from dhsic.kernels.base import AbstractKernel
from dhsic.passes.groups import AbstractCandidates, Membership, group_gains
from dhsic.passes.refinement import Refinement
from dhsic.passes.removal import check_shared
from dhsic.passes.scaled import ScaledReader
from dhsic.passes.sums import AbstractFeatureSum, SquareSum
from dhsic.passes.task import Measure
from dhsic.sources.scaling import Scaling

#: What the history says of rounds without error, in a run that has others.
NO_ERROR = {"relative_error": 0.0, "cut_error": 0.0}


@dataclass(frozen=True)
class Choices:
    """What does not change during a run.

    Attributes
    ----------
    kernel, bandwidth
        Kernel on the data and the policy for its width.
    W : (m, m) float64
        Weights of the estimator; of no samples where they are not to be a matrix.
    standardize : bool
        Features to unit standard deviation.
    dtype : float32 or float64
        Of the products.
    by_definition : bool
        Score with the direct engine alone.
    """

    kernel: AbstractKernel
    bandwidth: AbstractBandwidth
    W: Float
    standardize: bool = True
    dtype: Any = np.float32
    by_definition: bool = False


@dataclass(frozen=True)
class Scores:
    """Gains of a round, (s,), HSIC of what is left, and a record of what they took."""

    gains: Float
    hsic: float
    record: dict[str, Any]


class AbstractScorer(ABC):
    """Scores candidates for removal; its sum follows the features that are left.

    Attributes
    ----------
    data : ScaledReader
        Reads the features.
    sum : AbstractFeatureSum
        Of those that are left.
    """

    sum: AbstractFeatureSum

    def __init__(self, choices: Choices, data: ScaledReader) -> None:
        self.data = data
        self._choices = choices
        self._question: Question | None = None
        self._lasting: tuple[Index, Float] | None = None

    @abstractmethod
    def measure(self) -> Scaling:
        """Pass over all features: their scaling and, with it, the sum over those that vary."""

    @abstractmethod
    def resume(
        self, survivors: Sequence[Index], history: Sequence[Mapping[str, Any]]
    ) -> AbstractScorer:
        """Repeat rounds that are done, to the same bits; what scored the last of them.

        Parameters
        ----------
        survivors : sequence of int64 arrays
            Features left at the start of every round, and of the first.
        history : sequence of mappings
            Records of these rounds.
        """

    @abstractmethod
    def for_round(self, S: Index) -> AbstractScorer:
        """What scores a round with the features S left: this, or what takes over from it."""

    @abstractmethod
    def known(self) -> Known:
        """What policies for the bandwidth may ask."""

    @abstractmethod
    def reweigh(self, sigma: float) -> None:
        """Take the weights of a round, where each has its own."""

    @abstractmethod
    def scores(self, sigma: float, S: Index, n: int) -> Scores:
        """Gains of S, good enough to place the n largest."""

    @abstractmethod
    def advise(self, sigma: float, left: Index, gains: Float, n: int) -> str:
        """Choose what scores the next round first, where these are left; in words."""

    @abstractmethod
    def lasting(self, features: Index) -> tuple[Float, dict[str, Any]]:
        """Gains of features that are the same in every round, of an additive kernel."""

    @property
    @abstractmethod
    def words(self) -> Mapping[str, Any]:
        """Record of a round of an additive kernel after the first."""

    def move_to(self, S: Index) -> None:
        """Follow to the features S."""
        self._question = None
        self.sum.move_to(S)

    def scores_again(self, candidates: AbstractCandidates, S: Index) -> Scores:
        """Gains of S of an additive kernel, scored once and then looked up."""
        record = dict(self.words)
        if self._lasting is None:
            everyone = self.sum.features
            gains, first = self.lasting(everyone)
            self._lasting, record = (everyone, gains), record | first
        everyone, gains = self._lasting
        features = candidates.features(S)
        self.data.tell(features.size)
        of_S = candidates.summed(S, gains[np.searchsorted(everyone, features)])
        return Scores(of_S, -float(of_S.sum()), record)


class ExactScorer(AbstractScorer):
    """Exact, from the statistic of all samples.

    Parameters
    ----------
    machine : callable, optional
        Makes W of K, anew in every round.
    takes_over : bool
        Whether rounds before were in low rank: the history says that none of these is.
    """

    def __init__(
        self,
        choices: Choices,
        data: ScaledReader,
        candidates: AbstractCandidates,
        *,
        machine: Callable[[Float], Float] | None = None,
        takes_over: bool = False,
    ) -> None:
        super().__init__(choices, data)
        self.sum: SquareSum = SquareSum(data, choices.kernel.sums)
        self._W = choices.W
        self._candidates = candidates
        self._machine = machine
        self._beside = NO_ERROR if takes_over else {}
        self._first: EngineChoice | None = None

    def measure(self) -> Scaling:
        parts = []
        kernel = self._choices.kernel
        first = Measure(self._choices.standardize, None if kernel.is_additive else kernel.sums)
        for scaling, upper in self.data.first_pass(first):
            parts.append(scaling)
            if upper is not None:
                self.sum.include(upper)
        scaling = self.data.measured(parts)
        self.sum.begin(self.data.alive)
        return scaling

    def resume(
        self, survivors: Sequence[Index], history: Sequence[Mapping[str, Any]]
    ) -> AbstractScorer:
        if history and not self._choices.kernel.is_additive:
            self._first = read_record(history[-1]).then
            self.sum.replay(survivors)
        return self

    def for_round(self, S: Index) -> AbstractScorer:
        return self

    def known(self) -> Known:
        return self.sum.known(self._choices.kernel, self._W)

    def reweigh(self, sigma: float) -> None:
        if self._machine is not None:
            self._W = self._machine(self.sum.gram(self._choices.kernel, sigma))

    def weigh_itself(self, weigh: Callable[[Float], Float]) -> None:
        """Take the data for their own labels: W of K over all features."""
        if self._choices.kernel.is_additive:  # whose first pass sums nothing
            self.sum.restart(self.sum.features)
        self._W = weigh(own_labels(self._choices, self.sum))

    def scores(self, sigma: float, S: Index, n: int) -> Scores:
        question = self._asked(sigma)
        if isinstance(self._candidates, Membership):
            gains, record = group_gains(self._candidates, self.data, question, S, joining=False)
        else:
            gains, record = Refinement(self._engines(question), self.data, S, n).run(self._first)
        return Scores(gains, question.hsic, {**record, **self._beside})

    def advise(self, sigma: float, left: Index, gains: Float, n: int) -> str:
        if isinstance(self._candidates, Membership):  # there is one engine
            return ""
        engines = self._engines(self._asked(sigma))
        self._first = engines.advice(self.data.facts(left), gains, n)
        return self._first.name

    def lasting(self, features: Index) -> tuple[Float, dict[str, Any]]:
        question = self.sum.question(self._choices.kernel, 1.0, self._W)
        definition = self._choices.by_definition
        return lasting_gains(question, self.data, features, by_definition=definition)

    @property
    def words(self) -> Mapping[str, Any]:
        return {"engine": "as in round 1", **self._beside}

    def _engines(self, question: Question) -> RemovalEngines:
        return RemovalEngines(question, self._choices.dtype, self._choices.by_definition)

    def _asked(self, sigma: float) -> Question:
        """The round's question, which keeps what engines made of it."""
        if self._question is None or self._question.sigma != sigma:
            self._question = self.sum.question(self._choices.kernel, sigma, self._W)
        return self._question


def lasting_gains(
    question: Question, data: ScaledReader, features: Index, *, by_definition: bool
) -> tuple[Float, dict[str, Any]]:
    """Gains of an additive kernel, which do not depend on what is left, and a record."""
    engines = RemovalEngines(question, np.float64, by_definition)
    refinement = Refinement(engines, data, features, features.size, aloud=False)
    gains, record = refinement.run(EngineChoice())
    check_shared(question, gains)
    return gains, record


def own_labels(choices: Choices, of_all: SquareSum) -> Float:
    """K over all features at the sigma of the policy, (m, m)."""
    sigma = 1.0
    if choices.kernel.has_bandwidth:
        if isinstance(choices.bandwidth, Grid):
            raise InputError(
                "A grid of bandwidths is searched for the largest HSIC with the labels, and "
                "label_kernel='self' has labels that follow the bandwidth; pass one."
            )
        sigma = choices.bandwidth(of_all.known(choices.kernel, None), of_all.features.size)
    return of_all.gram(choices.kernel, sigma)

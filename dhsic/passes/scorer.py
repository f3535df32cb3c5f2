"""What scores the candidates of a round: a strategy, `AbstractScorer`.

Exact in its result, here, or in low rank (`dhsic.passes.lowrank`), from which the exact one takes
over. The weights W are those of an estimator, or come from a machine in every round.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.engines.question import Question
from dhsic.engines.refine import AbstractEngines, EngineChoice, History, RemovalEngines
from dhsic.engines.turns import form_rows
from dhsic.errors import InputError
from dhsic.kernels.bandwidth import AbstractBandwidth, BandwidthStats, Grid
from dhsic.kernels.base import AbstractKernel
from dhsic.passes import Measure
from dhsic.passes.candidates import AbstractCandidates, Gains, Scoring, Singles
from dhsic.passes.lazy import Lazy, is_rough
from dhsic.passes.reader import AbstractReader
from dhsic.passes.sums import AbstractFeatureSum, SquareSum
from dhsic.sources.scaling import Scale, Scaling

#: What the history says of rounds without error, in a run that has others.
NO_ERROR = {"relative_error": 0.0, "cut_error": 0.0}
#: Part of the sum of all weights that is rounding.
NOTHING = 1e-13


@dataclass(frozen=True)
class Choices:
    """What does not change during a run.

    `dtype` is of the products; `by_definition` scores with the direct engine alone.
    """

    kernel: AbstractKernel
    bandwidth: AbstractBandwidth
    standardize: Scale = True
    dtype: Any = np.float32
    by_definition: bool = False


class AbstractScorer(ABC):
    """Finds what the removal of candidates gains."""

    sum: AbstractFeatureSum  # over the features that are left

    @abstractmethod
    def measure(self) -> Scaling:
        """Pass over all features: their scaling and, with it, the sum over those that vary."""

    @abstractmethod
    def resume(self, survivors: Sequence[Index], history: History) -> AbstractScorer:
        """Repeat rounds that are done, to the same bits; what scored the last of them.

        `survivors` are the features left at the start of every round, `history` their records.
        """

    @abstractmethod
    def begin(self, S: Index) -> AbstractScorer:
        """Follow to the features S; what scores their round: this, or what takes over."""

    @abstractmethod
    def known(self) -> BandwidthStats:
        """What policies for the bandwidth may ask."""

    @abstractmethod
    def gains(self, sigma: float, S: Index, n: int) -> tuple[Float, float, dict[str, Any]]:
        """Gains of the candidates S, (s,), good enough to place the n largest.

        Then HSIC of what is left, and a record of what they took.
        """

    @abstractmethod
    def advise(self, sigma: float, left: Index, gains: Float, n: int) -> str:
        """Choose what scores the next round first, where these are left; in words."""

    @abstractmethod
    def form_rows(self, sigma: float, rows: Index) -> Array | None:
        """Rows of B, as of `dhsic.engines.turns`, (r, m); None of a kernel known as a whole."""


class ExactScorer(AbstractScorer):
    """Exact in its result, from the statistic of all samples."""

    def __init__(
        self,
        choices: Choices,
        total: SquareSum,  # over the features that are left
        candidates: AbstractCandidates,
        W: Float,  # (m, m), weights of the estimator
        *,
        machine: Callable[[Float], Float] | None = None,  # makes others of K, anew in every round
        takes_over: bool = False,  # from low rank: the history says that errors are none now
        lazy: Lazy | None = None,  # spares rounds that would score all features
        engines: Callable[..., AbstractEngines] = RemovalEngines,  # a plan supposes what they find
    ) -> None:
        self.sum: SquareSum = total
        self._choices, self._data, self._candidates = choices, total.data, candidates
        self._W = W
        self._machine, self._engines_of = machine, engines
        self._lazy = lazy
        self._beside = NO_ERROR if takes_over or lazy is not None else {}
        self._lasting = LastingGains(total.data, "as in round 1")
        self._first: EngineChoice | None = None
        self._is_spared = False  # whether the last round was lazy
        self._questions: dict[bool, Question] = {}  # whether few digits do

    def measure(self) -> Scaling:
        kernel = self._choices.kernel
        if kernel.is_additive:
            scaling = self._data.measure(Measure(self._choices.standardize))
        else:
            first = Measure(self._choices.standardize, kernel.sums)
            scaling = self._data.measure(first, self.sum.include)
        self.sum.begin(self._data.alive)
        return scaling

    def resume(self, survivors: Sequence[Index], history: History) -> AbstractScorer:
        if history and not self._choices.kernel.is_additive:
            self._first = EngineChoice.read(history[-1]) if history[-1].get("advice") else None
            kept = None if self._lazy is None else self._lazy.kept_in(history)
            if self._lazy is not None and kept is not None:
                self.sum.replay(survivors[: kept + 1])
                asked = self._asked(float(history[kept]["sigma"]), few=is_rough(history[kept]))
                self._lazy.resume(asked, survivors[kept])
                survivors = survivors[kept + 1 :]
            self.sum.replay(survivors)
        return self

    def begin(self, S: Index) -> AbstractScorer:
        self._questions.clear()
        if not self._choices.kernel.is_additive:
            self.sum.move_to(S)
        return self

    def known(self) -> BandwidthStats:
        return self.sum.known(self._choices.kernel, self._W)

    def weigh_itself(self, weigh: Callable[[Float], Float]) -> None:
        """Take the data for their own labels: W of K over all features."""
        if self._choices.kernel.is_additive:  # whose first pass sums nothing
            self.sum.restart(self.sum.features)
        self._W = weigh(own_labels(self._choices, self.sum))

    def gains(self, sigma: float, S: Index, n: int) -> tuple[Float, float, dict[str, Any]]:
        if self._choices.kernel.is_additive:
            of_features, record = self._lasting.of(
                self._candidates.features(S),
                self.sum.features,
                partial(lasting_gains, self._engines(sigma), self._data),
            )
            gains = self._candidates.summed(S, of_features)
            return gains, -float(gains.sum()), record | self._beside
        lazy, found = self._lazy, None
        if lazy is not None and lazy.may_spare(S.size, n, self._data.n_samples):
            question = self._engines(sigma, few=True).question
            found = lazy.gains(question, self._data, S, n)
        self._is_spared = found is not None
        if found is None:
            engines = self._engines(sigma)
            question = engines.question
            found = self._candidates.gains(S, Scoring(engines, self._data, n, self._first))
            if lazy is not None:
                lazy.keep(question, S, found[0])
        return found[0], question.hsic, self._beside | found[1]

    def advise(self, sigma: float, left: Index, gains: Float, n: int) -> str:
        if self._is_spared or not self._candidates.has_engines:
            self._first = None
            return ""
        self._first = self._engines(sigma).advice(self._data.facts(left), gains, n)
        return self._first.name

    def form_rows(self, sigma: float, rows: Index) -> Array | None:
        kernel = self._choices.kernel
        if kernel.scored_by == "matrix" or self._machine is not None:
            return None
        known = self.sum.statistic
        norms = known.diagonal
        K = kernel.gram(known.rows(rows), norms[rows], norms, sigma)
        return form_rows(K * self._W[rows], rows)

    def _engines(self, sigma: float, *, few: bool = False) -> AbstractEngines:
        dtype = np.float64 if self._choices.kernel.is_additive else self._choices.dtype
        return self._engines_of(self._asked(sigma, few=few), dtype, self._choices.by_definition)

    def _asked(self, sigma: float, *, few: bool) -> Question:
        """The round's question, which keeps what engines made of it; `few` digits may do."""
        if few not in self._questions or self._questions[few].sigma != sigma:
            kernel = self._choices.kernel
            if self._machine is not None:
                self._W = self._machine(self.sum.gram(kernel, sigma))
            W = self._W
            if few and self._lazy is not None:
                W = self._lazy.weights(W, sigma, self.sum)
            self._questions[few] = self.sum.question(kernel, sigma, W)
        return self._questions[few]


class LastingGains:
    """Gains of an additive kernel: scored once, then looked up, `words` say in the history."""

    def __init__(self, data: AbstractReader, words: str) -> None:
        self._data, self._words = data, words
        self._found: tuple[Index, Float] | None = None

    def of(self, features: Index, everyone: Index, score: Callable[[Index], Gains]) -> Gains:
        """Gains of features, and a record of what it took; `score` is asked for all, once."""
        record: dict[str, Any] = {"engine": self._words}
        if self._found is None:
            gains, record = score(everyone)
            self._found = everyone, gains
        everyone, gains = self._found
        self._data.tell(features.size)
        return gains[np.searchsorted(everyone, features)], record


def lasting_gains(engines: AbstractEngines, data: AbstractReader, features: Index) -> Gains:
    """Gains of features under an additive kernel, from all samples, and a record."""
    asked = Scoring(engines, data, features.size, EngineChoice(), aloud=False)
    gains, record = Singles().gains(features, asked)
    check_shared(engines.question, gains)
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


def check_shared(question: Question, gains: Float) -> None:
    """Refuse features of which the delta kernel sees nothing: no samples share a value."""
    if not question.kernel.is_of_categories:
        return
    if np.abs(gains).max(initial=0.0) <= NOTHING * float(np.abs(question.W).sum()):
        raise InputError(
            "No two samples share a value of any feature, and that is all that the delta kernel "
            "looks at: it is for categories. Take another kernel for measurements, or round them."
        )

"""Scorers of the candidates of a round: the strategy `AbstractScorer`, and the exact scorer.

The low-rank scorer is in `dhsic.passes.lowrank`; the exact one takes over from it. The weights W
come from an estimator of HSIC, or a learning machine computes them in every round.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.engines.kernel_drift import form_rows
from dhsic.engines.refine import AbstractEngines, EngineChoice, History, RemovalEngines
from dhsic.engines.scoring_problem import ScoringProblem
from dhsic.errors import InputError
from dhsic.kernels.bandwidth import AbstractBandwidth, BandwidthStats, Grid
from dhsic.kernels.base import AbstractKernel
from dhsic.passes import Measure
from dhsic.passes.candidates import AbstractCandidates, Gains, Scoring, Singles
from dhsic.passes.reader import AbstractReader
from dhsic.passes.score_reuse import ScoreReuse, is_rough
from dhsic.passes.sums import AbstractFeatureSum, SquareSum
from dhsic.sources.scaling import Scale, Scaling

#: Entries in the records of exact rounds, in a run that has other rounds too.
NO_ERROR = {"relative_error": 0.0, "cut_error": 0.0}
#: Gains up to this, relative to the sum of all absolute weights, are rounding errors.
NOTHING = 1e-13


@dataclass(frozen=True)
class Choices:
    """Settings of scoring that do not change during a run.

    `dtype` is the precision of matrix products. If `by_definition`, only the direct engine is used,
    which evaluates HSIC with and without each feature.
    """

    kernel: AbstractKernel
    bandwidth: AbstractBandwidth
    standardize: Scale = True
    dtype: Any = np.float32
    by_definition: bool = False


class AbstractScorer(ABC):
    """Strategy that computes the gain of each candidate: the change of HSIC without it."""

    sum: AbstractFeatureSum  # statistic of the surviving features

    @abstractmethod
    def measure(self) -> Scaling:
        """Run the first pass: measure the scaling, and add the features that vary to the sums."""

    @abstractmethod
    def resume(self, survivors: Sequence[Index], history: History) -> AbstractScorer:
        """Repeat completed rounds, bit for bit, and return the scorer of the last one.

        `survivors` are the features at the start of every round, `history` the records of rounds.
        """

    @abstractmethod
    def begin(self, S: Index) -> AbstractScorer:
        """Begin a round with the features S; return its scorer, either self or its successor."""

    @abstractmethod
    def bandwidth_stats(self) -> BandwidthStats:
        """Statistics of the samples that bandwidth policies use."""

    @abstractmethod
    def gains(self, sigma: float, S: Index, n: int) -> tuple[Float, float, dict[str, Any]]:
        """Compute the gains of the candidates S, (s,), accurate enough to rank the n largest.

        The gain of a candidate is the change of HSIC without it. Returns gains, HSIC of S, and a
        record of the work.
        """

    @abstractmethod
    def advise(self, sigma: float, left: Index, gains: Float, n: int) -> str:
        """Choose the first engine of the next round, and return its name.

        The features of the next round are `left`. `gains` are the changes of HSIC without each of
        them, in this round; the next round removes about n of them.
        """

    @abstractmethod
    def form_rows(self, sigma: float, rows: Index) -> Array | None:
        """Compute rows (r, m) of B, the matrix of the quadratic form that approximates scores.

        To first order, ``x' B x`` is the change of HSIC without the feature x
        (`dhsic.engines.kernel_drift`). `rows` are sample indices. Returns None if B is not
        available.
        """


class ExactScorer(AbstractScorer):
    """Exact scorer of candidates; it uses the inner products of all pairs of samples.

    For some kernels, distances or other sums take the place of inner products.
    """

    def __init__(
        self,
        choices: Choices,
        total: SquareSum,  # statistic of the surviving features
        candidates: AbstractCandidates,
        W: Float,  # (m, m), weights of the estimator
        *,
        machine: Callable[[Float], Float] | None = None,  # computes weights from K in every round
        takes_over: bool = False,  # whether it follows low rank: then records state errors of 0
        lazy: ScoreReuse | None = None,  # reuses gains, so that rounds need not score all features
        engines: Callable[..., AbstractEngines] = RemovalEngines,  # plans pass simulated engines
    ) -> None:
        self.sum: SquareSum = total
        self._choices, self._data, self._candidates = choices, total.data, candidates
        self._W = W
        self._machine, self._engines_of = machine, engines
        self._score_reuse = lazy
        self._beside = NO_ERROR if takes_over or lazy is not None else {}
        self._lasting = LastingGains(total.data, "as in round 1")
        self._first: EngineChoice | None = None
        self._is_spared = False  # whether the last round was lazy
        self._questions: dict[bool, ScoringProblem] = {}  # key: whether low precision is enough

    def measure(self) -> Scaling:
        kernel = self._choices.kernel
        if self._data.rescales:  # their scaling is known after the pass
            scaling = self._data.measure(Measure(self._choices.standardize, p=self._data.p))
            begin = self.sum.begin if kernel.is_additive else self.sum.restart
            begin(self._data.alive)
            return scaling
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
            kept_round = None if self._score_reuse is None else self._score_reuse.kept_in(history)
            if self._score_reuse is not None and kept_round is not None:
                self.sum.replay(survivors[: kept_round + 1])
                question = self._scoring_problem(
                    float(history[kept_round]["sigma"]), few=is_rough(history[kept_round])
                )
                self._score_reuse.resume(question, survivors[kept_round])
                survivors = survivors[kept_round + 1 :]
            self.sum.replay(survivors)
        return self

    def begin(self, S: Index) -> AbstractScorer:
        self._questions.clear()
        if not self._choices.kernel.is_additive:
            self.sum.move_to(S)
        return self

    def bandwidth_stats(self) -> BandwidthStats:
        return self.sum.bandwidth_stats(self._choices.kernel, self._W)

    def weigh_itself(self, weigh: Callable[[Float], Float]) -> None:
        """Use the data as their own labels (unsupervised selection).

        `weigh` computes the weights W from the kernel matrix K of all features.
        """
        if self._choices.kernel.is_additive:  # the first pass does not sum their statistic
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
        lazy, result = self._score_reuse, None
        if lazy is not None and lazy.may_spare(S.size, n, self._data.n_samples):
            question = self._engines(sigma, few=True).question
            result = lazy.gains(question, self._data, S, n)
        self._is_spared = result is not None
        if result is None:
            engines = self._engines(sigma)
            question = engines.question
            result = self._candidates.gains(S, Scoring(engines, self._data, n, self._first))
            if lazy is not None:
                lazy.keep(question, S, result[0])
        return result[0], question.hsic, self._beside | result[1]

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
        statistic = self.sum.statistic
        norms = statistic.diagonal
        K = kernel.gram(statistic.rows(rows), norms[rows], norms, sigma)
        return form_rows(K * self._W[rows], rows)

    def _engines(self, sigma: float, *, few: bool = False) -> AbstractEngines:
        dtype = np.float64 if self._choices.kernel.is_additive else self._choices.dtype
        return self._engines_of(
            self._scoring_problem(sigma, few=few), dtype, self._choices.by_definition
        )

    def _scoring_problem(self, sigma: float, *, few: bool) -> ScoringProblem:
        """Scoring problem of the round, with cached matrices.

        If `few`, only few features are scored exactly, and low precision is enough.
        """
        if few not in self._questions or self._questions[few].sigma != sigma:
            kernel = self._choices.kernel
            if self._machine is not None:
                self._W = self._machine(self.sum.gram(kernel, sigma))
            W = self._W
            if few and self._score_reuse is not None:
                W = self._score_reuse.weights(W, sigma, self.sum)
            self._questions[few] = self.sum.question(kernel, sigma, W)
        return self._questions[few]


class LastingGains:
    """Gains of an additive kernel; they are computed once and are the same in all rounds.

    `words` is the engine name in the records of later rounds.
    """

    def __init__(self, data: AbstractReader, words: str) -> None:
        self._data, self._words = data, words
        self._found: tuple[Index, Float] | None = None

    def of(self, features: Index, everyone: Index, score: Callable[[Index], Gains]) -> Gains:
        """Return the gains of `features`, and a record of the work.

        The gain of a feature is the change of HSIC without (or with) it. The first call computes
        the gains of `everyone` by the function `score`.
        """
        record: dict[str, Any] = {"engine": self._words}
        if self._found is None:
            gains, record = score(everyone)
            self._found = everyone, gains
        everyone, gains = self._found
        self._data.tell(features.size)
        return gains[np.searchsorted(everyone, features)], record


def lasting_gains(engines: AbstractEngines, data: AbstractReader, features: Index) -> Gains:
    """Exact gains of features under an additive kernel, and a record of the work.

    The gain of a feature is the change of HSIC without (or with) it.
    """
    scoring = Scoring(engines, data, features.size, EngineChoice(), aloud=False)
    gains, record = Singles().gains(features, scoring)
    check_shared(engines.question, gains)
    return gains, record


def own_labels(choices: Choices, of_all: SquareSum) -> Float:
    """Kernel matrix K of all features, (m, m), to be used as labels.

    The bandwidth policy chooses sigma. `of_all` is the statistic of all features.
    """
    sigma = 1.0
    if choices.kernel.has_bandwidth:
        if isinstance(choices.bandwidth, Grid):
            raise InputError(
                "A grid of bandwidths needs fixed labels, but with label_kernel='self' the labels "
                "depend on the bandwidth; pass one bandwidth."
            )
        sigma = choices.bandwidth(
            of_all.bandwidth_stats(choices.kernel, None), of_all.features.size
        )
    return of_all.gram(choices.kernel, sigma)


def check_shared(question: ScoringProblem, gains: Float) -> None:
    """Raise InputError for the delta kernel if no feature has two equal values."""
    if not question.kernel.is_of_categories:
        return
    if np.abs(gains).max(initial=0.0) <= NOTHING * float(np.abs(question.W).sum()):
        raise InputError(
            "The delta kernel is for categories, but no two samples have the same value of any "
            "feature. For measurements use another kernel, or round them."
        )

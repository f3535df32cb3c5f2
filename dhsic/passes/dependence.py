r"""HSIC(sigma, S) of the features in a source: what Algorithm 1 asks.

How a round is scored is a strategy, `AbstractScorer`: exact in its result, here, or in low rank
(`dhsic.passes.lowrank`), from which the exact one takes over. Candidates are features or groups of
them. The weights W are those of an estimator, or come from a machine in every round.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.algorithms.bahsic import Removal
from dhsic.algorithms.state import SelectionState
from dhsic.engines.question import Question
from dhsic.engines.refine import (
    AbstractEngines,
    EngineChoice,
    RemovalEngines,
    largest,
    tie_width,
)
from dhsic.engines.survival import Survival
from dhsic.engines.turns import form_rows, turn
from dhsic.errors import InputError
from dhsic.kernels import check_overflow
from dhsic.kernels.bandwidth import AbstractBandwidth, BandwidthStats, Grid
from dhsic.kernels.base import AbstractKernel
from dhsic.passes import Measure
from dhsic.passes.candidates import AbstractCandidates, Singles
from dhsic.passes.landmark_set import turning_rows
from dhsic.passes.lazy import Lazy, is_rough
from dhsic.passes.reader import AbstractReader
from dhsic.passes.sums import AbstractFeatureSum, SquareSum, survivors_of
from dhsic.sources.scaling import Scaling

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
    standardize: bool = True
    dtype: Any = np.float32
    by_definition: bool = False


class AbstractScorer(ABC):
    """Finds what the removal of candidates gains.

    Attributes
    ----------
    sum : AbstractFeatureSum
        Over the features that are left.
    """

    sum: AbstractFeatureSum

    @abstractmethod
    def measure(self) -> Scaling:
        """Pass over all features: their scaling and, with it, the sum over those that vary."""

    @abstractmethod
    def resume(
        self, survivors: Sequence[Index], history: Sequence[Mapping[str, Any]]
    ) -> AbstractScorer:
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
    """Exact in its result, from the statistic of all samples.

    Parameters
    ----------
    total : SquareSum
        The sum over the features that are left.
    W : (m, m) float64
        Weights of the estimator.
    machine : callable, optional
        Makes other weights of K, anew in every round.
    takes_over : bool
        Whether rounds before were in low rank: the history says that none of these is.
    lazy : Lazy, optional
        Spares rounds that would score all features; by default none is spared.
    engines : callable
        Makes engines of a question; a plan supposes what they find.
    """

    def __init__(
        self,
        choices: Choices,
        total: SquareSum,
        candidates: AbstractCandidates,
        W: Float,
        *,
        machine: Callable[[Float], Float] | None = None,
        takes_over: bool = False,
        lazy: Lazy | None = None,
        engines: Callable[..., AbstractEngines] = RemovalEngines,
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

    def resume(
        self, survivors: Sequence[Index], history: Sequence[Mapping[str, Any]]
    ) -> AbstractScorer:
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
            found = self._candidates.gains(engines, self._data, S, n, self._first)
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
        """Engines of the round's question."""
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

    def of(
        self,
        features: Index,
        everyone: Index,
        score: Callable[[Index], tuple[Float, dict[str, Any]]],
    ) -> tuple[Float, dict[str, Any]]:
        """Gains of features, and a record of what it took; `score` is asked for all, once."""
        record: dict[str, Any] = {"engine": self._words}
        if self._found is None:
            gains, record = score(everyone)
            self._found = everyone, gains
        everyone, gains = self._found
        self._data.tell(features.size)
        return gains[np.searchsorted(everyone, features)], record


def lasting_gains(
    engines: AbstractEngines, data: AbstractReader, features: Index
) -> tuple[Float, dict[str, Any]]:
    """Gains of features under an additive kernel, from all samples, and a record."""
    choice, n = EngineChoice(), features.size
    gains, record = Singles().gains(engines, data, features, n, choice, aloud=False)
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


class AbstractRoundDependence(ABC):
    """What both algorithms ask about features of a source; `candidates` are removed or added."""

    def __init__(
        self, choices: Choices, data: AbstractReader, candidates: AbstractCandidates
    ) -> None:
        self.choices = choices
        self.data = data
        self._candidates = candidates
        self._sigma = 1.0
        self._started, self._read = time.perf_counter(), 0
        #: Scores of all candidates in the first round; None of a run that was gone on with.
        self.first_scores: Float | None = None

    @abstractmethod
    def measure(self) -> Scaling:
        """Pass over all features: their scaling."""

    @abstractmethod
    def weigh_itself(self, weigh: Callable[[Float], Float]) -> None:
        """Take the data for their own labels, after `measure`: W of K over all features."""

    @abstractmethod
    def check_overflow(self) -> None:
        """Refuse data that the kernel overflows on, after `measure`."""

    @abstractmethod
    def resume(self, state: SelectionState, arrays: Mapping[str, Array]) -> None:
        """Go to where `state` left off, after `measure`; `arrays` were kept with it."""

    def kept(self) -> Mapping[str, Array]:
        """Arrays that a resumed run needs besides its state."""
        return {}

    @property
    def candidates(self) -> Index:
        """What may be removed or chosen: features that vary, or their groups."""
        return self._candidates.every

    def bandwidth(self, S: Index) -> float:
        """Line 3: sigma, as `move_to` has found it for S."""
        del S
        return self._sigma

    def close(self) -> None:
        """Let go of scratch."""
        self.data.close()

    def _largest(self, sigma: float, hsic: float, gains: Float, n: int) -> tuple[Index, Index]:
        """Positions of the n largest gains, the largest first, and of the others."""
        check_gains(self.choices.kernel, sigma, hsic, gains)
        first = largest(gains, n, tie_width(gains))
        return first, np.delete(np.arange(gains.size), first)

    def _took(self, sigma: float, hsic: float) -> dict[str, Any]:
        """What every record of a round ends its own facts with; the next one counts anew."""
        before, self._read = self._read, self.data.bytes_read
        return {
            "sigma": float(sigma),
            "hsic": float(hsic),
            "seconds": time.perf_counter() - self._started,
            "bytes_read": self._read - before,
        }


class SourceDependence(AbstractRoundDependence):
    """`dhsic.algorithms.bahsic.Dependence` over a source.

    `scorer` is of the first round; `survival` follows what it loses, None where that is nothing;
    `lazy` is what its exact rounds keep.
    Turns of the kernel are told on some of its rows, which `seed` draws.
    """

    def __init__(
        self,
        choices: Choices,
        data: AbstractReader,
        candidates: AbstractCandidates,
        scorer: AbstractScorer,
        survival: Survival | None = None,
        lazy: Lazy | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(choices, data, candidates)
        self.scorer = scorer
        self._survival, self._lazy = survival, lazy
        self._rows = turning_rows(data.n_samples, seed)
        self._form: Array | None = None  # rows of B in the last round

    def measure(self) -> Scaling:
        scaling = self.scorer.measure()
        self._candidates.drop_constant(scaling)
        return scaling

    def weigh_itself(self, weigh: Callable[[Float], Float]) -> None:
        assert isinstance(self.scorer, ExactScorer), "labels of full rank have no factor"
        self.scorer.weigh_itself(weigh)

    def check_overflow(self) -> None:
        kernel = self.choices.kernel
        if kernel.of_inner_products and not kernel.is_additive:  # others are bounded
            check_overflow(kernel, self.scorer.sum.longest)

    def resume(self, state: SelectionState, arrays: Mapping[str, Array]) -> None:
        survivors = [self._candidates.features(S) for S in survivors_of(state)]
        if self._lazy is not None:
            self._lazy.restore(arrays)
        self.scorer = self.scorer.resume(survivors, state.history)
        if self._survival is not None:
            self._survival.restore(arrays, state.survivors.size)
        if state.round:
            self._form = self._rows_of_form(float(state.history[-1]["sigma"]))

    def kept(self) -> Mapping[str, Array]:
        kept = {} if self._survival is None else self._survival.arrays()
        return kept if self._lazy is None else kept | self._lazy.arrays()

    def move_to(self, S: Index) -> None:
        """Begin a round with the candidates S: the statistic follows, and sigma with it."""
        self._started = time.perf_counter()
        features = self._candidates.features(S)
        self.scorer = self.scorer.begin(features)
        if self.choices.kernel.has_bandwidth:
            self._sigma = self.choices.bandwidth(self.scorer.known(), features.size)

    def least_relevant(self, sigma: float, S: Index, n: int) -> Removal:
        """Line 4: the n candidates whose removal leaves the largest HSIC."""
        gains, hsic, record = self.scorer.gains(sigma, S, n)
        first, left = self._largest(sigma, hsic, gains, n)
        if S.size == self.candidates.size:
            self.first_scores = -gains
        if not self.choices.kernel.is_additive:
            record["advice"] = self.scorer.advise(sigma, S[left], gains[left], n)
        if self._survival is not None:
            record |= self._survival.follow(gains, first)
        record |= self._turned(sigma)
        sizes = {"n_features": S.size, "n_removed": first.size}
        return Removal(S[first], -gains[first], sizes | self._took(sigma, hsic) | record)

    def _turned(self, sigma: float) -> dict[str, float]:
        """By how much the kernel turned since the last round, for its record."""
        before, self._form = self._form, self._rows_of_form(sigma)
        if self._form is None:
            return {}
        return {"turn": 0.0 if before is None else turn(self._form, before)}

    def _rows_of_form(self, sigma: float) -> Array | None:
        """Rows of B; None where it never turns, or is not known row by row."""
        if self.choices.kernel.is_additive:
            return None
        return self.scorer.form_rows(sigma, self._rows)


def check_gains(kernel: AbstractKernel, sigma: float, hsic: float, gains: Float) -> None:
    """Refuse gains that are no numbers, or of a kernel matrix that is the identity or constant."""
    lost = int((~np.isfinite(gains)).sum())
    if lost:
        raise InputError(
            f"{lost} of {gains.size} scores are not finite at sigma={sigma:.4g}: the kernel "
            "overflows on these data; scale them down, or pass standardize=True."
        )
    if kernel.has_bandwidth and gains.size > 1 and hsic == 0 and not gains.any():
        raise InputError(
            f"HSIC and all {gains.size} scores are 0: at sigma={sigma:.4g} no two samples are "
            "alike to the kernel, or all are. Pass bandwidth='median', or standardize=True."
        )


def check_shared(question: Question, gains: Float) -> None:
    """Refuse features of which the delta kernel sees nothing: no samples share a value."""
    if not question.kernel.is_of_categories:
        return
    if np.abs(gains).max(initial=0.0) <= NOTHING * float(np.abs(question.W).sum()):
        raise InputError(
            "No two samples share a value of any feature, and that is all that the delta kernel "
            "looks at: it is for categories. Take another kernel for measurements, or round them."
        )

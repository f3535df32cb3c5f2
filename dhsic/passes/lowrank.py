"""HSIC(sigma, S) in linear time: rounds scored by matrices of low rank.

Every round has a certificate (`dhsic.engines.certificate`) before a single feature is scored: a
seeded sample of features is held against rows where K is known. Where features that would leave by
mistake cost more in the end than a run may lose (`dhsic.engines.survival`), K is needed: of all
samples where an m x m matrix can be had, and then features next to the threshold are scored
exactly; else against more landmarks.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.engines.certificate import EXACT, Certificate, certify, row_errors
from dhsic.engines.lowrank import (
    LONGEST_LOW_RANK,
    NEGLECTED,
    LowRank,
    SampledRows,
    orders_for,
)
from dhsic.engines.question import LowRankQuestion, Question, RoundState
from dhsic.engines.refine import in_low_rank
from dhsic.engines.survival import Survival
from dhsic.kernels.bandwidth import BandwidthStats
from dhsic.kernels.dot import Linear
from dhsic.linalg.symmetric import LowRankSymmetric
from dhsic.lowrank.base import BaseRows, LandmarkStats
from dhsic.lowrank.factorizers import Spectral
from dhsic.lowrank.residuals import missed_rows, predictive
from dhsic.memory import (
    release_pages,
)
from dhsic.passes import ScoreLowRank, rank_of
from dhsic.passes.candidates import Threshold
from dhsic.passes.dependence import (
    NO_ERROR,
    AbstractScorer,
    Choices,
    ExactScorer,
    LastingGains,
)
from dhsic.passes.engineplan import SAMPLE_FEWEST, exact_takes_over, sample_size
from dhsic.passes.landmarks import (
    MANY_FEATURES,
    LandmarkSum,
    MeasureLandmarks,
)
from dhsic.passes.projection import (
    ANEW,
    Project,
    Projection,
    enough,
    highest_order,
)
from dhsic.passes.reader import AbstractReader
from dhsic.sources.scaling import Scaling

#: Directions that a factor may have, of which those are kept that predict other rows.
DIRECTIONS = 32
#: Parts of the features for which the series in powers is to be long enough: the others are read.
NEARLY_ALL, MOST = 0.98, 0.5
#: Part of ``W o K`` that compression may lose.
COMPRESSION = 1e-4


class AbstractLowRankScorer(AbstractScorer):
    """Scorer in linear time, as long as it is good enough.

    What a round makes of the data is left to subclasses, so that a plan can suppose it.

    Parameters
    ----------
    weights : LowRankSymmetric
        W, of low rank.
    survival : Survival
        What features that leave by mistake cost, and may cost.
    may_square : bool
        Whether m x m matrices may be made.
    seed : int
        Of landmarks, directions and the sample.
    exact : callable, optional
        Makes what scores the exact rounds that take over, once they are needed and m x m
        matrices may be made; None where low rank goes on to the end.
    eager : bool
        They take over as soon as they are cheap; else only with a handful of features.
    """

    def __init__(
        self,
        choices: Choices,
        data: AbstractReader,
        weights: LowRankSymmetric,
        survival: Survival | None = None,
        *,
        may_square: bool = True,
        seed: int = 0,
        exact: Callable[[], ExactScorer] | None = None,
        eager: bool = False,
    ) -> None:
        directions = weights.F.astype(np.float32)
        self.sum: LandmarkSum = LandmarkSum(data, seed, directions=directions)
        self.sample = Sample(data, seed)
        self._choices, self._data, self._weights = choices, data, weights
        self._survival = survival or Survival()
        self._may_square, self._seed = may_square, seed
        self._exact, self._eager = exact, eager
        self._lasting = LastingGains(data, "low rank: as in round 1")
        self._question: Question | None = None
        self._W: Float | None = None
        self._are_codes = False
        self._projected = 0  # features of the last round in which they were projected; 0 if none

    def measure(self) -> Scaling:
        first = MeasureLandmarks(self.sum.pass_over, self._choices.standardize)
        found: list[Any] = []
        scaling = self._data.measure(first, lambda *rest: found.extend(rest))
        sums, are_codes = found
        self._are_codes = self._choices.kernel.is_product and bool(are_codes)
        self.sum.start(self._data.alive, sums)
        return scaling

    def resume(
        self, survivors: Sequence[Index], history: Sequence[Mapping[str, Any]]
    ) -> AbstractScorer:
        by_rank = [in_low_rank(record) for record in history]
        n = by_rank.index(False) if False in by_rank else len(history)
        if n and not self._choices.kernel.is_additive:
            self._replay(survivors[:n], history[:n])
        if n == len(history):
            return self
        return self._exactly(survivors[n]).resume(survivors[n:], history[n:])

    def begin(self, S: Index) -> AbstractScorer:
        self._question = None
        now = exact_takes_over(self._data.n_samples, S.size, eager=self._eager)
        if now and self._may_square and self._exact is not None:
            return self._exactly(S).begin(S)
        if not self._choices.kernel.is_additive:
            self.sum.move_to(S)
            if self.sum.are_few and S.size < MANY_FEATURES:
                self.sum.grow(S, to_everyone=False)
        return self

    def gains(self, sigma: float, S: Index, n: int) -> tuple[Float, float, dict[str, Any]]:
        if self._choices.kernel.is_additive:
            gains, record = self._lasting.of(S, self.sum.features, self._score_for_good)
            return gains, -float(gains.sum()), record | NO_ERROR
        question, state, certificate = self._fit_within(sigma, S, n)
        gains, order = self._scored(state, S)
        exactly = ""
        if n == S.size:
            certificate = EXACT
        else:
            gains, n_exact, certificate = self._placed(sigma, gains, certificate, S, n)
            exactly = f", exact: {n_exact}" if n_exact else ""
        self._survival.lose(certificate, n)
        record = {
            "engine": f"low rank {rank_of(state)}: {S.size}{exactly}",
            "landmarks": len(self.sum.chosen.rows),
            "rank": rank_of(state),
            "order": order,
            "projected": self._projected,
            "relative_error": certificate.relative_error,
            "cut_error": certificate.expected_swap_rate,
        }
        return gains, self._hsic(sigma, question), record

    def advise(self, sigma: float, left: Index, gains: Float, n: int) -> str:
        return "low rank"

    def weighted_rows(self, sigma: float, rows: Index) -> Float:
        K = BaseRows(self._choices.kernel, sigma, self.sum.at(rows), None)
        return K.part(np.arange(rows.size), slice(None)) * self._weights.rows(rows)

    def _score_for_good(self, features: Index) -> tuple[Float, dict[str, Any]]:
        """The linear kernel: A is W, exactly."""
        m, kernel = self._data.n_samples, self._choices.kernel
        ones = LowRankSymmetric.of(np.ones((m, 1)), np.ones(1))
        question = LowRankQuestion(kernel, 1.0, self._weights, lambda _: ones, tolerance=0.0)
        state = LowRank(1, np.float64).prepare(question)
        gains = self._by_values(state, features, aloud=False)
        return gains, {"engine": f"low rank {rank_of(state)}"}

    def _exactly(self, S: Index) -> ExactScorer:
        """Exact scorer that takes over where S is left; all of low rank is forgotten."""
        assert self._exact is not None, "a run that goes on exactly says how"
        del self.sum, self.sample
        self._W = self._question = None
        release_pages()
        self._data.compact(S)
        scorer = self._exact()
        scorer.sum.restart(S)
        return scorer

    def _fit_within(self, sigma: float, S: Index, n: int) -> tuple[Any, RoundState, Certificate]:
        """A fit that costs no more than it may, or the best there is; its state and certificate."""
        while True:
            question = self._fit(sigma)
            for anew in (False, True):
                state = self._along(question, S, anew=anew)
                certificate = self._certify(state, S, n)
                if self._survival.allows(certificate, S.size, n):
                    return question, state, certificate
                if self._projected in (0, S.size):  # another projection would hold no more
                    break
            if not self.sum.grow(S, to_everyone=self._may_square):
                return question, state, certificate
            if self._projected == S.size:  # what a round is projected on is its last fit
                self._projected = 0

    def _by_values(self, state: RoundState, S: Index, *, aloud: bool) -> Float:
        """Gains by a pass over the values."""
        dtype = np.float64 if self._choices.kernel.is_additive else np.float32
        jobs = self._data.jobs(S, scaled=not self._are_codes)
        score = ScoreLowRank(state, dtype, self._choices.standardize)
        return self._data.scores(score, jobs, aloud=aloud)

    @abstractmethod
    def _replay(self, survivors: Sequence[Index], history: Sequence[Mapping[str, Any]]) -> None:
        """Repeat rounds in low rank that are done."""

    @abstractmethod
    def _fit(self, sigma: float) -> Any:
        """Question of the round: W, and factors of the bases of the expansion."""

    @abstractmethod
    def _along(self, question: Any, S: Index, *, anew: bool) -> RoundState:
        """State of the round, along the directions that features are projected on, if any.

        They are projected where they have not been, where the kernel has turned since, or `anew`.
        """

    @abstractmethod
    def _scored(self, state: RoundState, S: Index) -> tuple[Float, int]:
        """Gains of S, and the highest order of the series that one of them takes."""

    @abstractmethod
    def _certify(self, state: RoundState, S: Index, n: int) -> Certificate:
        """Certificate from the sample of features that are left."""

    @abstractmethod
    def _placed(
        self, sigma: float, gains: Float, certificate: Certificate, S: Index, n: int
    ) -> tuple[Float, int, Certificate]:
        """Gains, how many of them are exact now, and the certificate of all; not all of S leave."""

    @abstractmethod
    def _hsic(self, sigma: float, question: Any = None) -> float:
        """``<W, K>``."""


class LowRankScorer(AbstractLowRankScorer):
    """Scorer in linear time by factors of K."""

    _projection: Projection | None = None
    _asked_along: LowRankQuestion | None = None

    def known(self) -> BandwidthStats:
        return LandmarkStats(self.sum.fit, self._hsic)

    def _asked(self, sigma: float) -> Question:
        """The round's question, with K and W of all samples."""
        if self._question is None or self._question.sigma != sigma:
            if self._W is None:
                self._W = self._weights.rows(np.arange(self._data.n_samples))
            kernel, each = self._choices.kernel, self._data.runtime.each
            self._question = Question(kernel, sigma, self._W, self.sum.statistic, each)
        return self._question

    def _fit(self, sigma: float) -> LowRankQuestion:
        kernel, W = self._choices.kernel, self._weights
        factor = cache(lambda base: self._factor(sigma, base))
        question = LowRankQuestion(kernel, sigma, W, factor, tolerance=COMPRESSION)
        if kernel.has_bandwidth:  # the base of every such kernel is K itself
            sums = self._row_sums(sigma, factor(0))
            question.suppose(0, replace(question.weighted(0), sums=sums))
        return question

    def _factor(self, sigma: float, base: int) -> LowRankSymmetric:
        kernel, seed = self._choices.kernel, self._seed
        factor = Spectral(DIRECTIONS).factor(kernel, sigma, self.sum.fit, base=base, seed=seed)
        return predictive(factor, BaseRows(kernel, sigma, self.sum.check, base))

    def _row_sums(self, sigma: float, K: LowRankSymmetric) -> Float:
        """``(W o K) 1``, of a K that its directions know and of what they miss of it.

        What a factor misses of K is about what one of G misses of G, times a slope b, which is seen
        on check rows; and ``(W o G) 1`` is known, for G along the directions of W is summed.
        """
        if self.sum.chosen.is_everyone and self._may_square:
            return self._asked(sigma).weighted(0).row_sums
        W, check, linear = self._weights, self.sum.check, Linear()
        G = Spectral(DIRECTIONS).factor(linear, sigma, self.sum.fit, base=None, seed=self._seed)
        kernel = self._choices.kernel
        missed = missed_rows(BaseRows(kernel, sigma, check), K)
        beside = missed_rows(BaseRows(linear, sigma, check, None), G)
        slope = float(np.vdot(missed, beside)) / (float(np.vdot(beside, beside)) or 1.0)
        known = np.einsum("iq,qi->i", W.F @ W.core, self.sum.products) + W.rest * self.sum.norms
        return np.asarray(W.hadamard_sums(K) + slope * (known - W.hadamard_sums(G)))

    def _along(self, question: LowRankQuestion, S: Index, *, anew: bool) -> RoundState:
        order, known = self._order(question.sigma, S), self._projection
        if not order:
            self._projected = 0
            return LowRank().prepare(question)
        if not self._projected or known is None or known.order < order:
            anew = True
        if anew or ANEW * S.size <= self._projected:
            known = self._project(question, S, order)
        assert known is not None, "features are projected by now"
        known.keep(S)
        self._asked_along = known.question(question)
        return LowRank().prepare(self._asked_along)

    def _order(self, sigma: float, S: Index) -> int:
        """Order in powers that does for most of S, or for nearly all; 0 where none does."""
        kernel, data = self._choices.kernel, self._data
        facts, highest = data.facts(S), highest_order(kernel, S.size, data.scaling.std.size)
        for order in range(kernel.exact_order or 1, highest + 1):
            part = np.mean(enough(kernel, order, sigma, facts, data.n_samples, NEGLECTED))
            if part >= (MOST if order == highest else NEARLY_ALL):
                return order
        return 0

    def _project(self, question: LowRankQuestion, S: Index, order: int) -> Projection:
        """Numbers of S along the directions of a round."""
        self._projection = None  # whose numbers need not be there with those to come
        found = Projection(order, question)
        found.take(S, self._data.joined(Project(found.numbers), self._data.jobs(S)))
        release_pages()  # of what blocks were decoded to
        self._projection, self._projected = found, S.size
        return found

    def _scored(self, state: RoundState, S: Index) -> tuple[Float, int]:
        data, known = self._data, self._projection
        if not self._projected or known is None or self._asked_along is None:
            return self._by_series(state, S)
        kernel, m = self._choices.kernel, data.n_samples
        does = enough(kernel, known.order, state.sigma, data.facts(S), m, NEGLECTED)
        gains, order = np.empty(S.size), known.order
        gains[does] = known.gains(self._asked_along, S[does], data.runtime.each)
        data.tell(int(does.sum()))
        if not does.all():
            gains[~does], order = self._by_series(state, S[~does])
        return gains, order

    def _by_series(self, state: RoundState, S: Index) -> tuple[Float, int]:
        """Gains by the values, to the order that each feature takes, and the highest of those."""
        facts = self._data.facts(S)
        order = int(orders_for(self._choices.kernel, state.sigma, facts, state.n_samples).max())
        if order > LONGEST_LOW_RANK:
            state = replace(state, definition=SampledRows.of(self._weights, self.sum.check))
        return self._by_values(state, S, aloud=True), order

    def _certify(self, state: RoundState, S: Index, n: int) -> Certificate:
        if n >= S.size:
            return EXACT
        features, X = self.sample.of(S)
        errors = row_errors(self._weights, self.sum.check, state, X)
        gains = LowRank().score(state, X, self._data.facts(features))
        n_sampled = n * len(features) / S.size
        sizes = self._data.sizes(features)
        return certify(errors, gains, n_sampled, self._data.n_samples, sizes)

    def _placed(
        self, sigma: float, gains: Float, certificate: Certificate, S: Index, n: int
    ) -> tuple[Float, int, Certificate]:
        if not self.sum.chosen.is_everyone:
            return gains, 0, certificate.at_threshold(gains, n, self._data.sizes(S))
        tolerance = self._survival.rate(certificate, S.size, n)
        threshold = Threshold(self._asked(sigma), self._data, tolerance, S, n)
        gains, band, certificate = threshold.corrected(gains, certificate)
        return gains, band.size, certificate

    def _hsic(self, sigma: float, question: LowRankQuestion | None = None) -> float:
        if self.sum.chosen.is_everyone:
            return self._asked(sigma).hsic
        question = question or self._fit(sigma)
        if self._choices.kernel.has_bandwidth:  # the base of every such kernel is K itself
            return float(question.weighted(0).row_sums.sum())
        return question.hsic

    def _replay(self, survivors: Sequence[Index], history: Sequence[Mapping[str, Any]]) -> None:
        n_rows = [int(record["landmarks"]) for record in history]
        last = int(history[-1]["projected"])
        if last:
            at = 1 + next(i for i, S in enumerate(survivors) if S.size == last)
            self.sum.replay_rounds(survivors[:at], n_rows[:at])
            sigma = float(history[at - 1]["sigma"])
            S = survivors[at - 1]
            found = self._project(self._fit(sigma), S, self._order(sigma, S))
            survivors, n_rows = survivors[at:], n_rows[at:]
            found.keep(survivors[-1] if survivors else S)
        self.sum.replay_rounds(survivors, n_rows)


class Sample:
    """Standardised values of sampled features, held as long as they survive.

    Every feature has a random number; in the sample are those below a threshold, which is doubled
    when half of the features are left. So the sample is a function of S alone.
    """

    def __init__(self, data: AbstractReader, seed: int) -> None:
        d, m = data.source.n_features, data.n_samples
        self._data = data
        self._lots = np.random.default_rng([seed, d]).random(d, dtype=np.float32)
        self._size = sample_size(m)
        self._held: Index = np.empty(0, dtype=np.int64)
        self._X: Array = np.empty((0, m))

    def of(self, S: Index) -> tuple[Index, Array]:
        """Features of the sample that are in S, and their values (c, m) float32."""
        features = self._features(S)
        if np.isin(features, self._held, assume_unique=True).all():
            X = self._X[np.searchsorted(self._held, features)]
        else:
            X = self._data.values(features, np.float32)
        self._held, self._X = features, X
        return features, X

    def _features(self, S: Index) -> Index:
        d = len(self._lots)
        share = min(1.0, self._size / d * 2.0 ** np.floor(np.log2(d / S.size)))
        features = S[self._lots[S] < share]
        if features.size < min(S.size, SAMPLE_FEWEST):
            features = S[np.sort(np.argsort(self._lots[S], kind="stable")[:SAMPLE_FEWEST])]
        return np.asarray(features)

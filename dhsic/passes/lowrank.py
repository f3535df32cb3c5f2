"""HSIC(sigma, S) in linear time: rounds scored by matrices of low rank.

Every round has a certificate (`dhsic.engines.certificate`) before a single feature is scored: a
seeded sample of features is held against rows where K is known. Where features that would leave by
mistake cost more in the end than a run may lose (`dhsic.engines.survival`), K is needed: of all
samples where an m x m matrix can be had, and then features next to the threshold are scored
exactly; else against more landmarks.

Exact or low rank, round by round: the cheaper one that is good enough. A round by the exact engine
costs ``2 m^2 |S|`` flops, and its statistic as many as half a round; in low rank both are nearly
free. So a wide matrix begins in low rank, and the exact engine takes over where it has become
cheap. From there on nothing is approximated any more.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.engines.certificate import EXACT, Certificate, certify, row_errors
from dhsic.engines.final import FAMILIES
from dhsic.engines.lowrank import LONGEST_LOW_RANK, LowRank, SampledRows, orders_for
from dhsic.engines.question import LowRankQuestion, Question, RoundState
from dhsic.engines.refine import in_low_rank
from dhsic.engines.survival import Survival
from dhsic.kernels import check_approx
from dhsic.kernels.bandwidth import BandwidthStats
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.labels import MOST_DECOMPOSED
from dhsic.linalg.symmetric import LowRankSymmetric
from dhsic.lowrank.base import BaseRows, LandmarkStats
from dhsic.lowrank.factorizers import Spectral
from dhsic.lowrank.residuals import predictive
from dhsic.memory import (
    VECTORS,
    MemoryEstimate,
    fitted,
    release_pages,
    resident_bytes,
    square_bytes,
    task_bytes,
)
from dhsic.passes import Cost, ScoreLowRank, Sum, rank_of, scoring_cost
from dhsic.passes.candidates import Threshold
from dhsic.passes.dependence import (
    NO_ERROR,
    AbstractScorer,
    Choices,
    ExactScorer,
    LastingGains,
)
from dhsic.passes.jobs import block_bytes, n_partials
from dhsic.passes.landmarks import (
    LandmarkSum,
    LandmarkSums,
    MeasureLandmarks,
    check_number,
    first_number,
    most_number,
)
from dhsic.passes.reader import COMPACT_BYTES, COMPACTING, AbstractReader
from dhsic.passes.sums import FEW_LEAVING, SquareSum
from dhsic.passes.survivors import HOME_BYTES
from dhsic.runtime.base import AbstractRuntime
from dhsic.sources import AbstractSource
from dhsic.sources.scaling import Scaling

#: Directions that a factor may have, of which those are kept that predict other rows.
DIRECTIONS = 32
#: Part of ``W o K`` that compression may lose.
COMPRESSION = 1e-4
#: Flops of a round by the exact engine: up to here it is always taken, seconds at most.
CHEAP = 3e10
#: m x m matrices in the middle of a run: up to so many samples.
MOST_SAMPLES = 6000
#: Up to so many features left K has many directions, one wrong one counts, and exact is cheap.
ALWAYS_EXACT = 1024
#: Features of the sample, at most and at least, and its entries.
SAMPLE_MOST, SAMPLE_FEWEST, SAMPLE_ENTRIES = 4096, 64, 1 << 25
#: Matrices of low rank, b x m in float64 (statistic, kernel rows, factors), and copies of the
#: sample of its certificate in float32.
LOW_RANK, SAMPLES = 4, 4


def sample_size(m: int) -> int:
    """Features of a sample, about: half to all of them."""
    return int(np.clip(SAMPLE_ENTRIES // m, SAMPLE_FEWEST, SAMPLE_MOST))


def flops_of_round(m: int, n_features: int) -> float:
    """Flops of a round by the exact engine, its share of the statistic included."""
    return 2.3 * m * m * n_features


def exact_takes_over(m: int, n_features: int, *, eager: bool) -> bool:
    """Whether a round of so many features is for the exact engine, where that may be used."""
    cheap = flops_of_round(m, n_features) <= CHEAP
    return n_features <= ALWAYS_EXACT or (eager and cheap)


@dataclass(frozen=True)
class EnginePlan:
    """Engines of a run.

    Attributes
    ----------
    is_low_rank : bool
        Low rank at first.
    eager : bool
        Exact as soon as that is cheap.
    may_square : bool
        Whether m x m matrices may be made.
    """

    is_low_rank: bool
    eager: bool
    may_square: bool

    @staticmethod
    def of(
        approx: str, kernel: AbstractKernel, m: int, d: int, label_kernel: str = "auto"
    ) -> EnginePlan:
        """Plan of a run with m samples and d features.

        ``approx="auto"`` begins in low rank where a round by the exact engine is not cheap (for a
        kernel that takes one round, ten of them), and wherever m x m matrices would be too large;
        never with labels that cannot be factored or a kernel that low rank does not know. It goes
        by the sizes alone and not by the memory that is there: a run is the same on all machines.
        """
        check_approx(kernel, approx)
        rounds = 0.1 if kernel.is_additive else 1.0
        wide = rounds * flops_of_round(m, d) > CHEAP and d > ALWAYS_EXACT
        able = kernel.low_rank and (label_kernel != "precomputed" or m <= MOST_DECOMPOSED)
        low_rank = approx == "lowrank" or (approx == "auto" and able and (wide or m > MOST_SAMPLES))
        return EnginePlan(low_rank, approx == "auto", not low_rank or m <= MOST_SAMPLES)

    def exact_from(self, m: int) -> int:
        """So many features left are scored exactly, and fewer, after rounds in low rank; or 0."""
        cheap = int(CHEAP / flops_of_round(m, 1)) if self.eager else 0
        return max(ALWAYS_EXACT, cheap) if self.may_square else 0

    def n_landmarks(self, m: int) -> int:
        """Most landmarks in low rank, check rows included, before it is all samples."""
        n = first_number(m)
        while 2 * n <= most_number(m) and not self.may_square:
            n *= 2
        return min(m, n + check_number(m)) if self.is_low_rank else 0

    def costs(self, kernel: AbstractKernel, m: int) -> list[Cost]:
        """Costs of passes that a run may come to."""
        exact = [Sum(kernel.sums).cost(m), scoring_cost(kernel, m)] if self.may_square else []
        rows = np.arange(self.n_landmarks(m))
        return [*exact, LandmarkSums(rows).cost(m)] if rows.size else exact

    def memory(
        self,
        source: AbstractSource,
        runtime: AbstractRuntime,
        kernel: AbstractKernel,
        m: int,
        limit: int | None,
    ) -> tuple[MemoryEstimate, int | None]:
        """Memory of a run at most, and how much of it survivors get if that is less."""
        stored = m * source.n_features * np.dtype(source.dtype).itemsize
        costs, n_landmarks = self.costs(kernel, m), self.n_landmarks(m)
        tile, result = max(cost.tile for cost in costs), max(cost.result for cost in costs)
        sampled = sample_size(m) * m if n_landmarks else 0
        n_bases = FAMILIES[kernel.scored_by].bases or kernel.exact_order or 1
        partials = n_partials(source.n_features)
        tasks = task_bytes(runtime.n_here, block_bytes(source, m), tile, result, partials)

        def promised(budget: int) -> MemoryEstimate:
            held = min(stored, HOME_BYTES if runtime.is_remote else budget)
            # Survivors are copied when so few are left; those that leave are in memory besides.
            copied = held // (COMPACTING if self.is_low_rank else SquareSum.epoch)
            return MemoryEstimate(
                process=resident_bytes(),
                squares=square_bytes(m, n_bases) if self.may_square else 0,
                survivors=held + copied + FEW_LEAVING * m * 8,
                vectors=VECTORS * 8 * source.n_features,
                landmarks=LOW_RANK * 8 * n_landmarks * m + SAMPLES * 4 * sampled,
                **tasks,
            )

        return fitted(promised, COMPACT_BYTES, stored, limit)


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
        self.sum: LandmarkSum = LandmarkSum(data, seed)
        self.sample = Sample(data, seed)
        self._choices, self._data, self._weights = choices, data, weights
        self._survival = survival or Survival()
        self._may_square, self._seed = may_square, seed
        self._exact, self._eager = exact, eager
        self._lasting = LastingGains(data, "low rank: as in round 1")
        self._question: Question | None = None
        self._W: Float | None = None
        self._are_codes = False

    def measure(self) -> Scaling:
        first = MeasureLandmarks(self.sum.chosen.rows, self._choices.standardize)
        found: list[tuple[Any, bool]] = []  # sums, and whether all that they are over are codes
        scaling = self._data.measure(first, lambda *rest: found.append(rest))
        self._are_codes = self._choices.kernel.is_product and all(codes for _, codes in found)
        self.sum.start(self._data.alive, [sums for sums, _ in found])
        return scaling

    def resume(
        self, survivors: Sequence[Index], history: Sequence[Mapping[str, Any]]
    ) -> AbstractScorer:
        by_rank = [in_low_rank(record) for record in history]
        n = by_rank.index(False) if False in by_rank else len(history)
        if n and not self._choices.kernel.is_additive:
            n_rows = [int(record["landmarks"]) for record in history[:n]]
            self.sum.replay_rounds(survivors[:n], n_rows)
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
        return self

    def gains(self, sigma: float, S: Index, n: int) -> tuple[Float, float, dict[str, Any]]:
        if self._choices.kernel.is_additive:
            gains, record = self._lasting.of(S, self.sum.features, self._score_for_good)
            return gains, -float(gains.sum()), record | NO_ERROR
        state, certificate = self._fit_within(sigma, S, n)
        order = self._order(sigma, S)
        steep = order > LONGEST_LOW_RANK
        rows = SampledRows.of(self._weights, self.sum.check) if steep else None
        gains = self._gains(replace(state, definition=rows), S, aloud=True)
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
            "relative_error": certificate.relative_error,
            "cut_error": certificate.expected_swap_rate,
        }
        return gains, self._hsic(sigma, state), record

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
        gains = self._gains(state, features, aloud=False)
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

    def _fit_within(self, sigma: float, S: Index, n: int) -> tuple[RoundState, Certificate]:
        """A fit that costs no more than it may, or the best there is, and its certificate."""
        while True:
            state = self._fit(sigma)
            certificate = self._certify(state, S, n)
            good_enough = self._survival.allows(certificate, S.size, n)
            if good_enough or not self.sum.grow(S, to_everyone=self._may_square):
                return state, certificate

    def _gains(self, state: RoundState, S: Index, *, aloud: bool) -> Float:
        dtype = np.float64 if self._choices.kernel.is_additive else np.float32
        jobs = self._data.jobs(S, scaled=not self._are_codes)
        score = ScoreLowRank(state, dtype, self._choices.standardize)
        return self._data.scores(score, jobs, aloud=aloud)

    @abstractmethod
    def _fit(self, sigma: float) -> RoundState:
        """Factors of the bases of the expansion, and W with them."""

    @abstractmethod
    def _order(self, sigma: float, S: Index) -> int:
        """Highest order of the series that a feature takes; above `LONGEST_LOW_RANK` none does."""

    @abstractmethod
    def _certify(self, state: RoundState, S: Index, n: int) -> Certificate:
        """Certificate from the sample of features that are left."""

    @abstractmethod
    def _placed(
        self, sigma: float, gains: Float, certificate: Certificate, S: Index, n: int
    ) -> tuple[Float, int, Certificate]:
        """Gains, how many of them are exact now, and the certificate of all; not all of S leave."""

    @abstractmethod
    def _hsic(self, sigma: float, state: RoundState | None = None) -> float:
        """``<W, K>``."""


class LowRankScorer(AbstractLowRankScorer):
    """Scorer in linear time by factors of K."""

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

    def _fit(self, sigma: float) -> RoundState:
        factor, W = partial(self._factor, sigma), self._weights
        question = LowRankQuestion(self._choices.kernel, sigma, W, factor, tolerance=COMPRESSION)
        return LowRank().prepare(question)

    def _factor(self, sigma: float, base: int) -> LowRankSymmetric:
        kernel, seed = self._choices.kernel, self._seed
        factor = Spectral(DIRECTIONS).factor(kernel, sigma, self.sum.fit, base=base, seed=seed)
        return predictive(factor, BaseRows(kernel, sigma, self.sum.check, base))

    def _order(self, sigma: float, S: Index) -> int:
        kernel, facts = self._choices.kernel, self._data.facts(S)
        return int(orders_for(kernel, sigma, facts, self._data.n_samples).max())

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

    def _hsic(self, sigma: float, state: RoundState | None = None) -> float:
        if self.sum.chosen.is_everyone:
            return self._asked(sigma).hsic
        kernel = self._choices.kernel
        if kernel.has_bandwidth:  # the base of every such kernel is K itself
            state = self._fit(sigma) if state is None else state
            row_sums = state.row_sums[0].astype(np.float32)  # as they are scored with
            return float(np.sum(row_sums, dtype=np.float64) * state.scale)
        return float(self._weights.hadamard_sums(self._factor(sigma, 0)).sum())


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

"""Assumptions of a plan about outcomes of rounds that depend on the data.

They are based on runs on genotypes and on normally distributed data. All features are scored by one
matrix product, and undecided features by more (`AssumedEngines`). All low-rank factors have the
same error bound (`AssumedLowRankScorer`). The number of rounds that reuse scores is fixed
(`AssumedScoreReuse`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from dhsic._typing import Array, Float, Index, Mask
from dhsic.engines import AbstractEngine
from dhsic.engines.certificate import EXACT, Certificate
from dhsic.engines.exact_scoring import DIRECT_COST, FAMILIES
from dhsic.engines.scoring_problem import FeatureStats, RoundState, ScoringProblem
from dhsic.kernels.bandwidth import BandwidthStats
from dhsic.kernels.base import AbstractKernel
from dhsic.linalg.quadratic import LowRankQuadratic
from dhsic.lowrank.directions import weigh
from dhsic.passes.dependence import JOINING_LANDMARKS
from dhsic.passes.landmark_sampling import first_number, turning_rows
from dhsic.passes.lowrank import AbstractLowRankScorer
from dhsic.passes.projection import ANEW, Numbers, Project
from dhsic.passes.reader import AbstractReader
from dhsic.passes.score import Score
from dhsic.passes.score_reuse import DIRECTIONS, LEAST_KEPT, PART, PROBED, Change, ScoreReuse
from dhsic.plans.dry_run import DryRun, PlaceholderArray

#: Fraction of the features that an exact expansion in float32 leaves undecided.
LEFT = 0.05
#: Remaining features up to which a round scores all features once in float64.
FEW = 64
#: Products per feature if one engine decides all features, and per candidate in forward selection.
#: There, few features are chosen, so sigma is large and the series is long.
AT_ONCE, JOINING = 3, 4
#: Time of a round in this process, in evaluations of one matrix entry. First, per entry of an
#: (m, m) matrix: K, W o K, their sums and norms, and copies. Second, in forward selection with
#: landmarks, per entry of the (m, n_landmarks) statistic.
DRIVING, DRIVING_LOW_RANK = 8.0, 30.0
#: Work on slices of the samples, in evaluations of one matrix entry. Per entry of the statistic:
#: factoring it, finding directions, and weighing the round. Per value of the sampled features:
#: certifying the round. Per entry of the rows that measure kernel drift: computing them.
FACTORING, FINDING, WEIGHING, CERTIFYING, TURNING = 9.0, 2.0, 4.0, 3.0, 3.0
#: Work in this process to find the directions of the landmarks, in evaluations per pair of them.
DECOMPOSING = 800.0
#: Typical rank of a factor: with the initial landmarks, and with more.
RANK, HIGHER_RANK = 12, 32
#: Fraction of the features, those closest to the threshold, that is scored exactly if K is known.
BAND = 0.1
#: Number of rounds that reuse the scores of one round. In runs over 9,282 and 20,000 features there
#: were 15 and 27.
ROUNDS_KEPT = 10


@dataclass(frozen=True)
class AssumedScoringProblem:
    """Scoring problem of a round, without arrays.

    `rank` is the rank of the low-rank factor of the kernel matrix; 0 for the full matrix.
    """

    kernel: AbstractKernel
    n_samples: int
    rank: int = 0
    W: float = 0.0
    sigma: float = 1.0
    hsic: float = 0.0
    statistic: PlaceholderArray = field(default_factory=PlaceholderArray)

    @property
    def state(self) -> RoundState:
        """State that is broadcast to workers; it has realistic sizes, but no values."""
        A, none = {}, np.empty(0)
        if self.rank:
            A[0] = LowRankQuadratic(none, np.empty(self.rank), none)
        return RoundState(self.kernel, self.sigma, self.n_samples, A, {}, {}, 1.0)


@dataclass(frozen=True)
class AssumedEngine(AbstractEngine):
    """Assumed scoring engine: `n_products` matrix products per feature.

    It leaves a fraction `open` of the features undecided; the next engine scores them.
    """

    n_products: int
    dtype: str = "float32"
    open: float = 0.0

    @property
    def is_final(self) -> bool:
        return not self.open

    def prepare(self, question: AssumedScoringProblem) -> RoundState:
        return question.state

    def score(self, state: RoundState, X: Array, facts: FeatureStats) -> Float:
        raise TypeError("A plan runs nothing.")

    def error(self, question: Any, facts: FeatureStats, gains: Float) -> Float:
        out = np.zeros(gains.size)
        n_open = max(1, round(self.open * gains.size))
        out[np.linspace(0, gains.size - 1, n_open).astype(np.int64)] = 1.0
        return out

    def products(self, question: Any, facts: FeatureStats) -> int:
        return self.n_products * len(facts.max_abs)


#: Engines of a round that uses a series, in order.
STEPS = (
    AssumedEngine(1, "float32", 0.2),
    AssumedEngine(2, "float32", 0.25),
    AssumedEngine(4, "float64"),
)


@dataclass(frozen=True)
class AssumedEngines:
    """Engines of a round in a dry run, chosen as in a typical run.

    The class has only the methods of `AbstractEngines` that `Singles.gains` calls. Other methods
    choose an engine from error bounds, and a plan has no error bounds.
    """

    dry: DryRun
    question: AssumedScoringProblem
    dtype: Any
    by_definition: bool
    joining: bool = False

    @staticmethod
    def leaving(dry: DryRun, question: ScoringProblem, *how: Any) -> Any:
        """Create the replacement for `RemovalEngines`; the arguments after `dry` are the same."""
        return AssumedEngines(dry, AssumedScoringProblem(question.kernel, question.n_samples), *how)

    def first(self, facts: FeatureStats, *_: Any) -> AssumedEngine:
        """Return the assumed engine that scores all features of a round."""
        question, m = self.question, self.question.n_samples
        if question.rank:
            self.dry.drive(DRIVING_LOW_RANK * JOINING_LANDMARKS * m)
        elif not question.kernel.is_additive:
            self.dry.drive(DRIVING * m**2)
        return self._steps(len(facts.max_abs))[0]

    def then(self, _: Any, gains: Float, errors: Float, open_: Index, *how: Any) -> AssumedEngine:
        """Return the assumed engine that scores the features whose rank is still undecided."""
        steps = self._steps(gains.size)
        # The second engine scores the features that the first leaves undecided, and the third
        # those that both leave.
        number = 1 if open_.size > gains.size * steps[0].open * steps[1].open * 2 else 2
        return steps[number]

    def still_open(self, gains: Float, errors: Float, n: int) -> Mask:
        """Mask of the features that the last engine left undecided."""
        return np.equal(errors, 1.0)

    def _steps(self, n: int) -> tuple[AssumedEngine, ...]:
        """Return the engines that a round over n features uses one after the other."""
        kernel = self.question.kernel
        exact = kernel.exact_order
        if self.by_definition or not FAMILIES[kernel.scored_by].has_series:
            return (AssumedEngine(int(DIRECT_COST)),)
        if self.joining and not kernel.is_additive:
            return (AssumedEngine(JOINING),)
        if n <= FEW or np.dtype(self.dtype) == np.float64:
            return (AssumedEngine(exact or AT_ONCE, "float64"),)
        if exact is not None:
            return AssumedEngine(exact, "float32", LEFT), AssumedEngine(exact, "float64")
        return STEPS


class AssumedLowRankScorer(AbstractLowRankScorer):
    """Low-rank scorer of a dry run; all factors have the same certificate (error bound)."""

    def __init__(self, *of_run: Any, dry: DryRun, certificate: Certificate, **options: Any) -> None:
        super().__init__(*of_run, **options)
        self._dry, self._certificate = dry, certificate

    def bandwidth_stats(self) -> BandwidthStats:
        raise TypeError("A plan knows no data.")

    def _replay(self, survivors: Sequence[Index], history: Sequence[Any]) -> None:
        raise TypeError("A plan is not resumed.")

    def _fit(self, sigma: float) -> AssumedScoringProblem:
        chosen, m = self.sum.chosen, self._data.n_samples
        self._dry.drive(DECOMPOSING * len(chosen.fit) ** 2)
        n = turning_rows(m, 0).size * m
        elements = FACTORING * self._n_entries + TURNING * n
        self._dry.work(elements, self.sum, result_bytes=4 * n)  # rows that measure kernel drift
        rank = HIGHER_RANK if len(chosen.fit) > first_number(m) else RANK
        return AssumedScoringProblem(self._choices.kernel, m, rank)

    def _along(
        self, question: AssumedScoringProblem, S: Index, *, anew: bool
    ) -> AssumedScoringProblem:
        is_anew = not self._projected or ANEW * S.size <= self._projected
        if is_anew:
            self._dry.work(0.0, self.sum)
        self._weigh(S, FINDING * self._n_entries if is_anew else 0.0)
        if is_anew:
            self._projected = S.size
            order = question.kernel.exact_order or 1
            numbers = Numbers.supposed(question.kernel, order, question.n_samples)
            self._dry.work(0.0, self.sum)  # existing directions stay in files
            self._numbers = self._data.keep_on_workers(Project(numbers), S)
        assert self._numbers is not None, "features are projected by now"
        self._numbers.keep(S, self._data.runtime)
        return question

    def _scored(self, state: AssumedScoringProblem, S: Index) -> tuple[Float, int]:
        assert self._numbers is not None, "features are projected by now"
        (gains,) = self._numbers.query(S, abs)
        return gains, 1

    def _weigh(self, S: Index, finding: float) -> None:
        """Record the cost of errors and projections on slices of the samples, for the features S.

        A run computes them by `dhsic.lowrank.directions.weigh`. The cost of finding the directions
        of the round, `finding`, is added.
        """
        features, is_there = self._sampled(S)
        weighing = WEIGHING * self._n_entries + CERTIFYING * self._data.n_samples * features.size
        read = None if is_there else partial(self.sum.sample, features, weigh, None)
        self._dry.work(finding + weighing, self.sum, read)

    def _certify(self, state: AssumedScoringProblem, S: Index, n: int) -> Certificate:
        return EXACT if n >= S.size else self._certificate

    @property
    def _n_entries(self) -> int:
        chosen = self.sum.chosen
        return self._data.n_samples * (len(chosen.fit) + len(chosen.check))

    def _placed(
        self, sigma: float, gains: Float, certificate: Certificate, S: Index, n: int
    ) -> tuple[Float, int, Certificate]:
        if self.sum.chosen.is_everyone and certificate != EXACT:
            places = np.linspace(0, S.size - 1, max(1, round(BAND * S.size))).astype(np.int64)
            m = self._data.n_samples
            exact = AssumedScoringProblem(self._choices.kernel, m).state
            score = Score(AssumedEngine(1), exact)
            self._data.scores(score, self._data.jobs(S[places]))
            self._dry.drive(DRIVING * m**2)
        return gains, 0, certificate

    def _hsic(self, sigma: float, state: Any = None) -> float:
        return 0.0


class AssumedScoreReuse:
    """Replacement for `ScoreReuse` with a fixed number of rounds that reuse scores."""

    def __init__(self, dry: DryRun) -> None:
        self._dry, self._left = dry, 0

    may_spare = staticmethod(ScoreReuse.may_spare)

    def weights(self, W: Array, *_: Any) -> Array:
        """Return the label weights W unchanged, because only their size matters."""
        return W

    def gains(
        self, question: AssumedScoringProblem, data: AbstractReader, S: Index, n: int
    ) -> tuple[Array, dict[str, Any]] | None:
        """Return scores of the features S from an earlier round; None if all must be computed.

        The cost of recomputing some of the scores is recorded.
        """
        if not self._left:
            return None
        self._left -= 1
        none, m = np.empty(0), question.n_samples
        self._dry.drive(DRIVING * m**2)
        change = LowRankQuadratic(none, np.empty(DIRECTIONS), none)
        gains = data.scores(Change(change), data.jobs(S))
        near = S[np.linspace(0, S.size - 1, min(PROBED, S.size // PART)).astype(np.int64)]
        data.scores(Score(AssumedEngine(1), question.state), data.jobs(near))
        return gains, {}

    def keep(self, _: AssumedScoringProblem, S: Index, *__: Any) -> None:
        """Note that a round over the features S stores its scores for later rounds."""
        self._left = ROUNDS_KEPT if S.size > LEAST_KEPT else 0

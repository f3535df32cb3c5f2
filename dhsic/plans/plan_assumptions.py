"""Assumptions of a plan about rounds, whose outcome depends on data that are not read.

They are based on runs on genotypes and normal data: one product for every feature, more for
undecided features (`AssumedEngines`); low-rank factors with one certificate
(`AssumedLowRankScorer`); and a fixed number of rounds that reuse scores (`AssumedScoreReuse`).
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
#: Products per feature that is decided at once, and per candidate that may join: with few chosen
#: features, sigma is large and the series is long.
AT_ONCE, JOINING = 3, 4
#: Time of a round in this process, per entry of an (m, m) matrix, in functions of an entry: K, W o
#: K, their sums and norms, copies; and per entry of the statistic against landmarks, in forward
#: selection.
DRIVING, DRIVING_LOW_RANK = 8.0, 30.0
#: Work on slices of the samples: per entry of the statistic to factor it, to find directions and to
#: weigh the round; per value of the sample to certify it; and per entry of the rows that measure
#: kernel drift.
FACTORING, FINDING, WEIGHING, CERTIFYING, TURNING = 9.0, 2.0, 4.0, 3.0, 3.0
#: Work in this process to find the directions of the landmarks, per pair of landmarks.
DECOMPOSING = 800.0
#: Typical rank of a factor: with the initial landmarks, and with more.
RANK, HIGHER_RANK = 12, 32
#: Fraction of the features next to the threshold that is scored exactly if K is known.
BAND = 0.1
#: Rounds that reuse scores of one round: 15 and 27 in runs over 9,282 and 20,000 features.
ROUNDS_KEPT = 10


@dataclass(frozen=True)
class AssumedScoringProblem:
    """Scoring problem of a round without numbers; `rank` of labels and kernel, 0 for full."""

    kernel: AbstractKernel
    n_samples: int
    rank: int = 0
    W: float = 0.0
    sigma: float = 1.0
    hsic: float = 0.0
    statistic: PlaceholderArray = field(default_factory=PlaceholderArray)

    @property
    def state(self) -> RoundState:
        """State that is broadcast, with realistic sizes."""
        A, none = {}, np.empty(0)
        if self.rank:
            A[0] = LowRankQuadratic(none, np.empty(self.rank), none)
        return RoundState(self.kernel, self.sigma, self.n_samples, A, {}, {}, 1.0)


@dataclass(frozen=True)
class AssumedEngine(AbstractEngine):
    """Engine with a fixed number of products per feature, which leaves some features undecided."""

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


#: Passes of a round by a series.
STEPS = (
    AssumedEngine(1, "float32", 0.2),
    AssumedEngine(2, "float32", 0.25),
    AssumedEngine(4, "float64"),
)


@dataclass(frozen=True)
class AssumedEngines:
    """Engines of a round in a dry run, which follow typical behaviour.

    It has the methods that `Singles.gains` uses of `AbstractEngines`, and no others: those choose
    by error bounds, which a plan does not have.
    """

    dry: DryRun
    question: AssumedScoringProblem
    dtype: Any
    by_definition: bool
    joining: bool = False

    @staticmethod
    def leaving(dry: DryRun, question: ScoringProblem, *how: Any) -> Any:
        """Create engines in place of `RemovalEngines`, with the same arguments after `dry`."""
        return AssumedEngines(dry, AssumedScoringProblem(question.kernel, question.n_samples), *how)

    def first(self, facts: FeatureStats, *_: Any) -> AssumedEngine:
        """Engine that scores all features."""
        question, m = self.question, self.question.n_samples
        if question.rank:
            self.dry.drive(DRIVING_LOW_RANK * JOINING_LANDMARKS * m)
        elif not question.kernel.is_additive:
            self.dry.drive(DRIVING * m**2)
        return self._steps(len(facts.max_abs))[0]

    def then(self, _: Any, gains: Float, errors: Float, open_: Index, *how: Any) -> AssumedEngine:
        """Engine that scores the undecided features."""
        steps = self._steps(gains.size)
        # # the second engine scores what the first leaves, the third what both leave
        number = 1 if open_.size > gains.size * steps[0].open * steps[1].open * 2 else 2
        return steps[number]

    def still_open(self, gains: Float, errors: Float, n: int) -> Mask:
        """Mask of the features that the last engine left undecided."""
        return np.equal(errors, 1.0)

    def _steps(self, n: int) -> tuple[AssumedEngine, ...]:
        """Engines of a round over n features."""
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
    """Low-rank scorer of a dry run, whose factors all have the same certificate."""

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
        self._dry.work(elements, self.sum, result_bytes=4 * n)  # rows of the form
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
        """Record weighing a round on slices, including the cost of finding its directions."""
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
        """Return W, of which only the size matters."""
        return W

    def gains(
        self, question: AssumedScoringProblem, data: AbstractReader, S: Index, n: int
    ) -> tuple[Array, dict[str, Any]] | None:
        """Reused scores of S, with some scored again; None if all must be scored."""
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
        """Keep the scores of a round."""
        self._left = ROUNDS_KEPT if S.size > LEAST_KEPT else 0

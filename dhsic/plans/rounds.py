"""The work of a run that has not begun: its rounds, gone through on sizes (`dhsic.plans.dry`).

The algorithm, what scores a round, the reader and the sums over features are those of the run, and
so is what they take. What a round makes of the data is supposed, `Supposed` and `SupposedLowRank`,
from what was seen on genotypes and on normal data: a first product for every feature, more for
those it leaves undecided. Whether a factor of so many landmarks is good enough, the certificate of
a round decides, so there are two ends: it always is, or K of all samples (or as many landmarks as
there may be) is needed from the first round.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from dhsic._typing import Array, Float, Index, Mask
from dhsic.algorithms.bahsic import Removal
from dhsic.algorithms.state import begin
from dhsic.engines import AbstractEngine
from dhsic.engines.certificate import EXACT, UNKNOWN, Certificate
from dhsic.engines.final import DIRECT_COST, FAMILIES
from dhsic.engines.question import FeatureStats, Question, RoundState
from dhsic.engines.refine import MOST_AT_ONCE
from dhsic.kernels import resolve_kernel
from dhsic.kernels.bandwidth import BandwidthStats, Fixed
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.labels import SELF
from dhsic.linalg.quadratic import LowRankQuadratic
from dhsic.linalg.symmetric import LowRankSymmetric
from dhsic.memory import human
from dhsic.passes import Score
from dhsic.passes.candidates import AbstractCandidates, Membership, Singles
from dhsic.passes.dependence import AbstractScorer, Choices, ExactScorer
from dhsic.passes.forward import JOINING_LANDMARKS, SourceForward
from dhsic.passes.landmarks import LandmarkSum, first_number
from dhsic.passes.lowrank import AbstractLowRankScorer, EnginePlan
from dhsic.passes.once import Judge
from dhsic.passes.sums import SquareSum
from dhsic.plans.dry import CountedSums, CountingReader, DryRun, Move, Step, Unread
from dhsic.selectors.bahsic import AbstractElimination, KernelSelector
from dhsic.selectors.fohsic import FOHSIC
from dhsic.selectors.onepass import OnePass
from dhsic.selectors.run import SelectionRun
from dhsic.selectors.svmrfe import SVMRFE

VARY = "all features vary; those that do not leave before the first round"
SERIES = "a round takes 1.4 products a feature in float32 and 0.2 in float64, as seen on genotypes"
JOINED = "a candidate takes 4 products in float32; fewer on genotypes, more on outliers"
OPEN = (
    "low rank meets its tolerance (the lower figure), or needs K of all samples, or more "
    "landmarks, from the first round (the upper one)"
)
PACKED = "values of one byte take at most four consecutive integers, so survivors pack in two bits"
MACHINES = "the support vector machines of the rounds, which run in this process, are not counted"
UNTIMED = "what this kernel or criterion computes is not foreseen, so there are no flops or times"

#: Part of the features that an exact expansion in float32 leaves to one in float64.
LEFT = 0.05
#: Products of a feature where it is settled at once, and of a candidate for joining: with few
#: features chosen sigma is large and the series long.
AT_ONCE, JOINING = 3, 4
#: Time of a round in this process, in functions of the entries of an (m, m) matrix: K, W o K, their
#: sums and norms, copies. And of those of the statistic against landmarks, to factor and certify;
#: and of the values of the sample.
DRIVING, DRIVING_LOW_RANK, CERTIFYING = 8.0, 30.0, 5.0
#: Directions of labels; and of a factor, as they turn out: with the landmarks that a run begins
#: with, and with more.
RANK_OF_LABELS, RANK, HIGHER_RANK = 3, 12, 32
#: Part of the features next to the threshold, which are scored exactly where K is known.
BAND = 0.1
#: Rounds are alike, and gone through once, while fewer than one in so many candidates are gone.
ALIKE = 64


@dataclass(frozen=True, slots=True)
class Work:
    """What a run does.

    Attributes
    ----------
    least, most : DryRun
        As it goes where low rank meets its tolerance, and where it does not; else the same.
    survivors : str
        Where features are kept on the way.
    assumed : tuple of str
        What the data decide, and was supposed.
    is_timed : bool
        Whether flops are foreseen: not for kernels and criteria without a series.
    """

    least: DryRun
    most: DryRun
    survivors: str
    assumed: tuple[str, ...]
    is_timed: bool = True

    @property
    def sizes(self) -> list[int]:
        """Candidates at the start of every round."""
        return self.least.sizes

    def both(self, of: Callable[[Step], Any]) -> list[Any]:
        """Sums over the steps of either."""
        return [self.least.total(of), self.most.total(of)]

    @property
    def bytes_read(self) -> list[int]:
        """Stored bytes of either, as the history of the run counts them."""
        return [sum(self.least.bytes_read), sum(self.most.bytes_read)]

    @property
    def n_passes(self) -> int:
        """Passes over features."""
        return int(self.least.total(lambda step: step.n_features > 0))

    @property
    def state_bytes(self) -> int:
        """Most bytes that are sent to every worker at once."""
        steps = [*self.least.steps, *self.most.steps]
        return max((step.state_bytes for step in steps), default=0)


def work_of(run: SelectionRun, budget: int | None) -> Work | None:
    """All passes of a run; None where the data decide how many steps it takes.

    `budget` are bytes of it for survivors, as of `Selector.fitted`.
    """
    asked = run.selector
    if isinstance(asked, OnePass):
        dry, criterion = DryRun(), asked.resolved()
        data = CountingReader(dry, run.source, run.runtime, run.rows, budget)
        judge = Judge(standardize=True, criterion=criterion)
        data.scores(judge, data.jobs(data.alive))
        dry.rounds_done([run.source.n_features], data.bytes_read)
        return _work(run, dry, dry, [], is_timed=criterion.is_timed)
    if not isinstance(asked, KernelSelector):
        return None
    kernel = _kernel_of(asked)
    least = _gone_through(run, asked, budget, misses=False)
    misses = isinstance(asked, AbstractElimination) and asked.engines(run, asked.approx).is_low_rank
    most = _gone_through(run, asked, budget, misses=True) if misses else least
    assumed, timed = [OPEN] if misses else [], FAMILIES[kernel.scored_by].has_series
    if isinstance(asked, FOHSIC):
        assumed += [] if kernel.is_additive else [JOINED]
        timed = FAMILIES[kernel.scored_by].has_series and run.groups is None
        is_timed = timed and asked.strategy == "forward"
        return _work(run, least, most, assumed, is_timed=is_timed)
    if not kernel.is_additive and kernel.exact_order is None and run.groups is None:
        assumed.append(SERIES)
    if isinstance(asked, SVMRFE):
        assumed.append(MACHINES)
    return _work(run, least, most, assumed, is_timed=FAMILIES[kernel.scored_by].has_series)


def _work(
    run: SelectionRun, least: DryRun, most: DryRun, assumed: list[str], *, is_timed: bool
) -> Work:
    known = [VARY, *assumed]
    if not is_timed:
        known.append(UNTIMED)
    if np.dtype(run.source.dtype).itemsize == 1 and isinstance(run.selector, KernelSelector):
        known.append(PACKED)
    return Work(least, most, _kept(least.moves, run), tuple(known), is_timed)


def _kept(moves: list[Move], run: SelectionRun) -> str:
    """Where features are kept on the way, in words."""
    if not moves:
        return "stay in memory" if run.source.in_memory else "are read where they are stored"
    largest: dict[str, Move] = {}
    for move in moves:
        largest.setdefault(move.place.value, move)
    return ", then ".join(
        f"in {place}: {move.n_features:,} in {human(move.n_bytes)}"
        for place, move in largest.items()
    )


def _kernel_of(asked: KernelSelector[Any]) -> AbstractKernel:
    """Kernel of the rounds."""
    return asked.machine_kernel if isinstance(asked, SVMRFE) else resolve_kernel(asked.kernel)


def _gone_through(
    run: SelectionRun, asked: KernelSelector[Any], budget: int | None, *, misses: bool
) -> DryRun:
    """The algorithm of the run on sizes; `misses` where low rank does not meet its tolerance."""
    dry = DryRun()
    data = CountingReader(dry, run.source, run.runtime, run.rows, budget)
    choices = Choices(
        _kernel_of(asked),
        Fixed(1.0),
        dtype=np.dtype(str(asked.dtype)),
        by_definition=asked.approx == "direct",
    )
    candidates = Singles() if run.groups is None else Membership(run.groups.codes)
    candidates.drop_constant(data.scaling)
    parts, plan = (choices, data, candidates), asked.engines(run, asked.approx)
    dependence: Any
    if isinstance(asked, FOHSIC):  # a floating one goes back where the data say
        asked = replace(asked, strategy="forward")
        dependence = Joining(dry, *parts, RANK if plan.is_low_rank else 0)
    else:
        dependence = Leaving(dry, *parts, plan, UNKNOWN if misses else EXACT)
    dependence.measure(is_own=asked.label_kernel == SELF)
    for _ in asked.rounds(run, dependence, begin(candidates.every)):
        pass
    return dry


def _counted_sum(data: CountingReader, dry: DryRun) -> SquareSum:
    upper: Any = Unread()
    return SquareSum(data, CountedSums(dry, data.n_samples), upper)


@dataclass(frozen=True)
class SupposedQuestion:
    """Of what a round is asked, without numbers; of labels and kernels of `rank`, 0 for any."""

    kernel: AbstractKernel
    n_samples: int
    rank: int = 0
    W: float = 0.0
    sigma: float = 1.0
    hsic: float = 0.0
    statistic: Unread = field(default_factory=Unread)

    @property
    def state(self) -> RoundState:
        """What is broadcast, as far as sizes go."""
        A, none = {}, np.empty(0)
        if self.rank:
            A[0] = LowRankQuadratic(none, np.empty(self.rank), none)
        return RoundState(self.kernel, self.sigma, self.n_samples, A, {}, {}, 1.0)


@dataclass(frozen=True)
class SupposedEngine(AbstractEngine):
    """So many products a feature; part of the features, evenly spread, are left open."""

    n_products: int
    dtype: str = "float32"
    open: float = 0.0

    @property
    def is_final(self) -> bool:
        return not self.open

    def prepare(self, question: SupposedQuestion) -> RoundState:
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


@dataclass(frozen=True)
class Supposed:
    """In place of the engines of a round (`AbstractEngines`): as they go as a rule."""

    dry: DryRun
    question: SupposedQuestion
    dtype: Any
    by_definition: bool
    joining: bool = False

    @staticmethod
    def leaving(dry: DryRun, question: Question, *how: Any) -> Any:
        """In place of `RemovalEngines`, which are made of the same but the dry run."""
        return Supposed(dry, SupposedQuestion(question.kernel, question.n_samples), *how)

    def first(self, facts: FeatureStats, *_: Any) -> SupposedEngine:
        """Engine that scores all features."""
        asked, m = self.question, self.question.n_samples
        if asked.rank:
            self.dry.drive(DRIVING_LOW_RANK * JOINING_LANDMARKS * m)
        elif not asked.kernel.is_additive:
            self.dry.drive(DRIVING * m**2)
        return self._steps(len(facts.max_abs))[0]

    def then(self, _: Any, gains: Float, errors: Float, open_: Index, *how: Any) -> SupposedEngine:
        """Engine that scores the open features."""
        steps = self._steps(gains.size)
        number = 1 if open_.size > gains.size * steps[0].open * steps[1].open * 2 else 2
        return steps[number]

    def still_open(self, gains: Float, errors: Float, n: int) -> Mask:
        """Features to be scored again, which the last engine has left open."""
        return np.equal(errors, 1.0)

    def _steps(self, n: int) -> tuple[SupposedEngine, ...]:
        """Engines of a round over n features."""
        kernel = self.question.kernel
        exact = kernel.exact_order
        if self.by_definition or not FAMILIES[kernel.scored_by].has_series:
            return (SupposedEngine(int(DIRECT_COST)),)
        if self.joining and not kernel.is_additive:
            return (SupposedEngine(JOINING),)
        if n <= MOST_AT_ONCE or np.dtype(self.dtype) == np.float64:
            return (SupposedEngine(exact or AT_ONCE, "float64"),)
        if exact is not None:
            return SupposedEngine(exact, "float32", LEFT), SupposedEngine(exact, "float64")
        return STEPS


#: Passes of a round by a series.
STEPS = (
    SupposedEngine(1, "float32", 0.2),
    SupposedEngine(2, "float32", 0.25),
    SupposedEngine(4, "float64"),
)


class SupposedLowRank(AbstractLowRankScorer):
    """Factors that all have one certificate."""

    def __init__(self, *of_run: Any, dry: DryRun, certificate: Certificate, **options: Any) -> None:
        super().__init__(*of_run, **options)
        self._dry, self._certificate = dry, certificate

    def known(self) -> BandwidthStats:
        raise TypeError("A plan knows no data.")

    def _fit(self, sigma: float) -> RoundState:
        chosen, m = self.sum.chosen, self._data.n_samples
        self._dry.drive(DRIVING_LOW_RANK * m * (len(chosen.fit) + len(chosen.check)))
        rank = HIGHER_RANK if len(chosen.fit) > first_number(m) else RANK
        return SupposedQuestion(self._choices.kernel, m, rank).state

    def _certify(self, state: RoundState, S: Index, n: int) -> Certificate:
        if n >= S.size:
            return EXACT
        self._dry.drive(CERTIFYING * self._data.n_samples * self.sample.of(S)[0].size)
        return self._certificate

    def _placed(
        self, sigma: float, gains: Float, certificate: Certificate, S: Index, n: int
    ) -> tuple[Float, int, Certificate]:
        if self.sum.chosen.is_everyone:
            places = np.linspace(0, S.size - 1, max(1, round(BAND * S.size))).astype(np.int64)
            m = self._data.n_samples
            exact = SupposedQuestion(self._choices.kernel, m).state
            score = Score(SupposedEngine(1), exact)
            self._data.scores(score, self._data.jobs(S[places]))
            self._dry.drive(DRIVING * m**2)
        return gains, 0, certificate

    def _hsic(self, sigma: float, state: RoundState | None = None) -> float:
        return 0.0


class Leaving:
    """What Algorithm 1 asks: scored as it is, candidates leave at random.

    Rounds that are alike (`ALIKE`) are gone through once.
    """

    def __init__(
        self,
        dry: DryRun,
        choices: Choices,
        data: CountingReader,
        candidates: AbstractCandidates,
        plan: EnginePlan,
        certificate: Certificate,
    ) -> None:
        self._dry, self._candidates = dry, candidates
        self._is_additive, m = choices.kernel.is_additive, data.n_samples
        self._order = np.random.default_rng(0).permutation(candidates.every)
        self._last = self._order[:0]  # those that left in the last of such rounds

        def exact() -> ExactScorer:
            total, W = _counted_sum(data, dry), np.broadcast_to(0.0, (m, m))
            engines = partial(Supposed.leaving, dry)
            return ExactScorer(choices, total, candidates, W, engines=engines)

        self._scorer: AbstractScorer = exact()
        if plan.is_low_rank:
            directions = np.cos(np.multiply.outer(np.arange(m), np.arange(RANK_OF_LABELS)))
            W = LowRankSymmetric.of(directions, np.ones(RANK_OF_LABELS))
            self._scorer = SupposedLowRank(
                choices,
                data,
                W,
                dry=dry,
                certificate=certificate,
                may_square=plan.may_square,
                exact=exact,
                eager=plan.eager,
            )

    def measure(self, *, is_own: bool) -> None:
        """The first pass; `is_own` where the data are their own labels."""
        self._scorer.measure()
        if is_own and self._is_additive:
            self._scorer.sum.restart(self._scorer.sum.features)

    def move_to(self, S: Index) -> None:
        """Begin a round with S."""
        self._n_before = len(self._dry.steps)
        if self._last.size:
            before = np.union1d(S, self._last)
            self._scorer.sum.features = self._candidates.features(before)
        self._features = self._candidates.features(S)
        self._scorer = self._scorer.begin(self._features)

    def bandwidth(self, S: Index) -> float:
        """Any: it changes no size."""
        return 1.0

    def least_relevant(self, sigma: float, S: Index, n: int) -> Removal:
        """So many of S, once they are scored, or several times as many."""
        self._scorer.gains(sigma, S, n)
        steps = self._dry.steps[self._n_before :]
        starts_anew = sum(step.n_features >= self._features.size for step in steps) > 1
        n_alike = max(1, S.size // (n * ALIKE))
        if starts_anew or not self._dry.sizes:  # such rounds are like no other
            n_alike = 1
        sizes = range(S.size, S.size - n_alike * n, -n)
        self._dry.rounds_done(sizes, self._scorer.sum.data.bytes_read, self._n_before)
        first = self._order.size - S.size
        gone = self._order[first : first + n_alike * n]
        self._last = gone[-n:] if n_alike > 1 else gone[:0]
        return Removal(gone, np.zeros(gone.size), {})


class Joining:
    """What Algorithm 2 asks: scored as it is, candidates join at random; `rank` is of factors."""

    def __init__(
        self,
        dry: DryRun,
        choices: Choices,
        data: CountingReader,
        candidates: AbstractCandidates,
        rank: int,
    ) -> None:
        self._dry, self._rank, self._sum = dry, rank, _counted_sum(data, dry)
        total = LandmarkSum(data, 0, JOINING_LANDMARKS) if rank else self._sum
        W = np.broadcast_to(0.0, (data.n_samples, data.n_samples))
        self._forward = SourceForward(choices, total, candidates, W)
        self._order = np.random.default_rng(0).permutation(candidates.every)
        self._n_inside = 0
        self._n_scored, self._n_bytes, self._steps = 0, 0, [Step()]  # of the last round scored

    def measure(self, *, is_own: bool) -> None:
        """The first pass; `is_own` where the data are their own labels."""
        self._forward.measure()
        if is_own:
            self._sum.restart(self._forward.data.alive)

    def move_to(self, S_dagger: Index) -> None:
        """Begin a round with S-dagger chosen."""
        self._forward.follow(S_dagger)
        if self._rank:  # there are no groups
            flops = 2.0 * JOINING_LANDMARKS * self._forward.data.n_samples
            self._dry.drive(float64=flops * (S_dagger.size - self._n_inside))
        self._n_inside = S_dagger.size

    def bandwidth(self, S_dagger: Index) -> float:
        """Any: it changes no size."""
        return 1.0

    def most_relevant(self, sigma: float, S_dagger: Index, S: Index, n: int) -> Removal:
        """So many of S, once they are scored."""
        data, dry = self._forward.data, self._dry
        if S.size * ALIKE < self._n_scored * (ALIKE - 1) or not self._n_scored:
            first, before = len(dry.steps), data.bytes_read
            self._score(S, n)
            self._n_scored = S.size if S_dagger.size else 0  # the first round is like no other
            self._n_bytes = data.bytes_read - before
            self._steps = dry.steps[first:]
        else:
            dry.steps += self._steps
            data.bytes_read += self._n_bytes
        dry.rounds_done([S.size], data.bytes_read)
        gone = self._order[S_dagger.size : S_dagger.size + n]
        return Removal(gone, np.zeros(n), {})

    def _score(self, S: Index, n: int) -> None:
        choices, data = self._forward.choices, self._forward.data
        asked = SupposedQuestion(choices.kernel, data.n_samples, self._rank)
        dtype = np.float64 if choices.kernel.is_additive else choices.dtype
        engines: Any = Supposed(self._dry, asked, dtype, choices.by_definition, joining=True)
        self._forward.gains(engines, S, n)

"""The work of a run that has not begun: its rounds, gone through on sizes (`dhsic.plans.dry`).

The algorithm, the reader and the sums over features are those of the run. Which expansion settles
a round, the data decide; what is supposed here was seen on genotypes and on normal data: a first
product for every feature, more for those it leaves undecided. Whether a factor of so many landmarks
is good enough, the certificate of a round decides, so there are two ends: it always is, or K of all
samples (or as many landmarks as there may be) is needed from the first round.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dhsic._typing import Index
from dhsic.algorithms.bahsic import Removal
from dhsic.engines.final import DIRECT_COST, FAMILIES
from dhsic.engines.refine import MOST_AT_ONCE
from dhsic.kernels import resolve_kernel
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.labels import SELF
from dhsic.memory import human
from dhsic.passes import Cost, Measure, scoring_cost
from dhsic.passes.candidates import AbstractCandidates, Membership, Singles
from dhsic.passes.forward import JOINING_LANDMARKS
from dhsic.passes.landmarks import LandmarkSum, MeasureLandmarks, first_number
from dhsic.passes.lowrank import EnginePlan, Sample, exact_takes_over
from dhsic.passes.once import Judge
from dhsic.passes.sums import AbstractFeatureSum, SquareSum
from dhsic.plans.dry import Assumed, CountedSums, CountingReader, DryRun, Move, Step, Unread
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

#: Passes of a round by a series: part of the features, products of each, their precision.
STEPS = ((1.0, 1.0, "float32"), (0.2, 2.0, "float32"), (0.05, 4.0, "float64"))
#: Part of the features that an exact expansion in float32 leaves to one in float64.
LEFT = 0.05
#: Products of a feature where it is settled at once, and of a candidate for joining: with few
#: features chosen sigma is large and the series long.
AT_ONCE, JOINING = 3.0, 4.0
#: Time of a round in this process, in functions of the entries of an (m, m) matrix: K, W o K, their
#: sums and norms, copies. And of those of the statistic against landmarks, to factor and certify;
#: and of the values of the sample.
DRIVING, DRIVING_LOW_RANK, CERTIFYING = 8.0, 30.0, 5.0
#: Directions of a factor and of what is broadcast, as they turn out: with the landmarks that a run
#: begins with, and with more; and at most, for their size.
RANK, HIGHER_RANK, MOST_DIRECTIONS = 12, 32, 128
#: Time of scoring a value in low rank, and that for each direction, over that of standardising it.
SCORING, DIRECTION = 2.0, 0.17
#: Part of the features next to the threshold, which are scored exactly where K is known.
BAND = 0.1


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
        data = _data(run, budget, dry)
        judge = Judge(standardize=True, criterion=criterion)
        data.scores(judge, data.jobs(data.alive))
        dry.round_done(run.source.n_features, data.bytes_read)
        return _work(run, dry, dry, [], is_timed=criterion.is_timed)
    if not isinstance(asked, KernelSelector):
        return None
    kernel = _kernel_of(asked)
    least = _gone_through(run, asked, budget, misses=False)
    misses = isinstance(asked, AbstractElimination) and asked.engines(run, asked.approx).is_low_rank
    most = _gone_through(run, asked, budget, misses=True) if misses else least
    assumed = [OPEN] if misses else []
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


def _data(run: SelectionRun, budget: int | None, dry: DryRun) -> CountingReader:
    """What reads the features of the run, and only counts."""
    return CountingReader(dry, run.source, run.runtime, run.rows, budget)


def _gone_through(
    run: SelectionRun, asked: KernelSelector[Any], budget: int | None, *, misses: bool
) -> DryRun:
    """The algorithm of the run on sizes; `misses` where low rank does not meet its tolerance."""
    dry = DryRun()
    data = _data(run, budget, dry)
    dependence: Any
    if isinstance(asked, FOHSIC):  # a floating one goes back where the data say
        asked = replace(asked, strategy="forward")
        dependence = Joining(run, asked, data, dry)
    else:
        dependence = Leaving(run, asked, data, dry, misses=misses)
    dependence.measure()
    start: Any = Left(dependence.candidates.every)
    for _ in asked.rounds(run, dependence, start):
        pass
    return dry


class Left:
    """State of the algorithm, without scores and history: candidates leave or join at random."""

    def __init__(self, every: Index) -> None:
        self.survivors, self._order = every, np.random.default_rng(0).permutation(every)
        self.eliminated = self._order[:0]
        self._is_left = np.ones(every.max(initial=-1) + 1, dtype=bool)

    def after(self, n: Any, *_: Any) -> Left:
        """Once n more are gone."""
        a, b = self.eliminated.size, self.eliminated.size + n
        self._is_left[self._order[a:b]] = False
        self.survivors = self.survivors[self._is_left[self.survivors]]
        self.eliminated = self._order[:b]
        return self


class AbstractSizes(ABC):
    """What both algorithms ask, answered by sizes."""

    def __init__(
        self, run: SelectionRun, asked: KernelSelector[Any], data: CountingReader, dry: DryRun
    ) -> None:
        groups, self._plan = run.groups, asked.engines(run, asked.approx)
        self.candidates: AbstractCandidates = (
            Singles() if groups is None else Membership(groups.codes)
        )
        self.candidates.drop_constant(data.scaling)
        self._exact = ExactRounds(run, asked, data, dry)
        self._kernel, self._data, self._dry = self._exact.kernel, data, dry

    @abstractmethod
    def measure(self) -> None:
        """The first pass."""

    def bandwidth(self, S: Index) -> float:
        """Any: it changes no size."""
        return 1.0

    def answered(self, S: Index, n: int) -> Removal:
        """The round over S is done, in which n leave or join."""
        self._dry.round_done(S.size, self._data.bytes_read)
        return Removal(n, None, {})  # type: ignore[arg-type]  # which they are, `Left` says


class Leaving(AbstractSizes):
    """What Algorithm 1 asks; `misses` where low rank does not meet its tolerance."""

    def __init__(self, *of_run: Any, misses: bool) -> None:
        super().__init__(*of_run)
        self._rounds: ExactRounds | LowRankRounds = self._exact
        if self._plan.is_low_rank:
            self._rounds = LowRankRounds(self._exact, self._plan, misses=misses)

    def measure(self) -> None:
        self._rounds.measure()

    def move_to(self, S: Index) -> None:
        """Begin a round with S."""
        self._features = self.candidates.features(S)
        self._rounds = self._rounds.begin(self._features)

    def least_relevant(self, sigma: float, S: Index, n: int) -> Removal:
        """So many of S, once they are scored."""
        self._rounds.score(self._features, S.size, n)
        return self.answered(S, n)


class ExactRounds:
    """Rounds of Algorithm 1 by the exact engine."""

    def __init__(
        self, run: SelectionRun, asked: KernelSelector[Any], data: CountingReader, dry: DryRun
    ) -> None:
        self.kernel = _kernel_of(asked)
        self.data, self.dry, self.m = data, dry, data.n_samples
        self.sum = SquareSum(data, CountedSums(dry, self.m), Unread())  # type: ignore[arg-type]  # never read
        self.is_own = asked.label_kernel == SELF
        self._in_double = str(asked.dtype) == "float64"
        self._by_definition = asked.approx == "direct" or run.groups is not None
        self._is_scored = False

    def measure(self) -> None:
        """The first pass: scaling, and the sum unless the kernel is linear."""
        data, sums = self.data, CountedSums(self.dry, self.m)
        data.measure(Measure(sums=None if self.kernel.is_additive else sums))
        self.sum.begin(data.alive)
        if self.is_own and self.kernel.is_additive:
            self.sum.restart(data.alive)

    def begin(self, S: Index) -> ExactRounds:
        """Follow to the features S."""
        if not self.kernel.is_additive:
            self.sum.move_to(S)
        return self

    def score(self, S: Index, n_candidates: int, _: int) -> None:
        """Score the features S, or groups of them."""
        if not self.kernel.is_additive:
            self.dry.drive(DRIVING * self.m**2)
        elif self._is_scored:
            return
        self._is_scored = True
        times = n_candidates / S.size if self._by_definition else 1.0  # each group is a candidate
        for share, products, dtype in self._steps(S.size):
            self.score_part(S, share, times * products, dtype)

    def score_part(self, S: Index, share: float, products: float, dtype: str = "float32") -> None:
        """Score so many of S, evenly spread, by so many products each."""
        places = np.linspace(0, S.size - 1, max(1, round(share * S.size))).astype(np.int64)
        some = S if share == 1.0 else S[places]
        cost = scoring_cost(self.kernel, self.m, products, dtype)
        self.data.scores(Assumed(cost), self.data.jobs(some))

    def _steps(self, n: int) -> tuple[tuple[float, float, str], ...]:
        """Passes over n features: part of them, products of each, precision."""
        exact = self.kernel.exact_order
        if self._by_definition or not FAMILIES[self.kernel.scored_by].has_series:
            return ((1.0, DIRECT_COST, "float32"),)
        if self.kernel.is_additive or n <= MOST_AT_ONCE or self._in_double:
            return ((1.0, exact or AT_ONCE, "float64"),)
        if exact is not None:
            return ((1.0, exact, "float32"), (LEFT, exact, "float64"))
        return STEPS


class LowRankRounds:
    """Rounds of Algorithm 1 in low rank, until the exact ones take over."""

    def __init__(self, exact: ExactRounds, plan: EnginePlan, *, misses: bool) -> None:
        self._exact, self._plan, self._misses = exact, plan, misses
        self._kernel, self._data, self._dry = exact.kernel, exact.data, exact.dry
        self._m = exact.m
        self._sum, self._sample = LandmarkSum(self._data, 0), Sample(self._data, 0)
        self._is_scored = False

    def measure(self) -> None:
        """The first pass: scaling, and the sum against landmarks."""
        self._data.measure(MeasureLandmarks(self._sum.chosen.rows))
        self._sum.start(self._data.alive, [])

    def begin(self, S: Index) -> ExactRounds | LowRankRounds:
        """Follow to the features S, or let the exact rounds do so."""
        plan = self._plan
        if plan.may_square and exact_takes_over(self._m, S.size, eager=plan.eager):
            self._data.compact(S)
            self._exact.sum.restart(S)
            return self._exact.begin(S)
        if not self._kernel.is_additive:
            self._sum.move_to(S)
        return self

    def score(self, S: Index, _: int, n: int) -> None:
        """Score the features S, of which n leave."""
        if self._kernel.is_additive:
            if not self._is_scored:
                self._score(S)
            self._is_scored = True
            return
        self._fit(S, n)
        while n < S.size and self._misses:
            self._misses = self._sum.grow(S, to_everyone=self._plan.may_square)
            if self._misses:
                self._fit(S, n)
        self._score(S)
        if n < S.size and self._sum.chosen.is_everyone:
            self._exact.score_part(S, BAND, 1.0)
            self._dry.drive(DRIVING * self._m**2)

    def _fit(self, S: Index, n: int) -> None:
        """A factor and its certificate."""
        chosen = self._sum.chosen
        self._dry.drive(DRIVING_LOW_RANK * self._m * (len(chosen.fit) + len(chosen.check)))
        if n < S.size:
            features, _ = self._sample.of(S)
            self._dry.drive(CERTIFYING * self._m * features.size)

    def _score(self, S: Index) -> None:
        has_grown = len(self._sum.chosen.fit) > first_number(self._m)
        cost = lowrank_scoring(self._m, HIGHER_RANK if has_grown else RANK)
        self._data.scores(Assumed(cost), self._data.jobs(S))


def lowrank_scoring(m: int, rank: int, products: float = 1.0) -> Cost:
    """Of scoring by factors of so many directions."""
    return Cost(
        float32=2.0 * rank * m * products,
        values=(SCORING + DIRECTION * rank) * m,
        state=4 * MOST_DIRECTIONS * m,
        sent=4 * rank * m,
    )


class Joining(AbstractSizes):
    """What Algorithm 2 asks."""

    def __init__(self, *of_run: Any) -> None:
        super().__init__(*of_run)
        self._is_low_rank = self._plan.is_low_rank
        self._sum: AbstractFeatureSum = self._exact.sum
        if self._is_low_rank:
            self._sum = LandmarkSum(self._data, 0, JOINING_LANDMARKS)
        self._n_inside = 0

    def measure(self) -> None:
        self._data.measure(Measure())
        if self._exact.is_own:
            self._exact.sum.restart(self._data.alive)

    def move_to(self, S_dagger: Index) -> None:
        """Begin a round with S-dagger chosen."""
        new, self._n_inside = S_dagger[self._n_inside :], S_dagger.size
        if not new.size:
            return
        features = np.sort(self.candidates.features(new))
        self._sum.add(features)
        if self._is_low_rank:
            self._dry.drive(float64=2.0 * JOINING_LANDMARKS * self._data.n_samples * features.size)

    def most_relevant(self, sigma: float, S_dagger: Index, S: Index, n: int) -> Removal:
        """So many of S, once they are scored."""
        if not (S_dagger.size and self._kernel.is_additive):
            self._score(self.candidates.features(S))
        return self.answered(S, n)

    def _score(self, S: Index) -> None:
        m = self._data.n_samples
        if self._is_low_rank:
            self._dry.drive(DRIVING_LOW_RANK * JOINING_LANDMARKS * m)
            cost = replace(lowrank_scoring(m, RANK, JOINING), values=m)
            self._data.scores(Assumed(cost), self._data.jobs(S))
        else:
            self._dry.drive(DRIVING * m**2)
            self._exact.score_part(S, 1.0, 1.0 if self._kernel.is_additive else JOINING)

"""Forecast of the rounds of a run, by a dry run on sizes (`dhsic.plans.dry_run`).

The dry run uses the algorithm, scorers, reader and sums over features of the run, so it has the
same costs. Whether a low-rank factor of K is accurate enough depends on the data, so there are two
scenarios. Either it always is, or the full K (or the largest number of landmarks) is needed from
the first round on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np

from dhsic._typing import Index
from dhsic.algorithms import how_many
from dhsic.algorithms.bahsic import Removal
from dhsic.engines.certificate import EXACT, UNKNOWN, Certificate
from dhsic.engines.exact_scoring import FAMILIES
from dhsic.kernels import resolve_kernel
from dhsic.kernels.bandwidth import Fixed
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.labels import SELF
from dhsic.linalg.symmetric import LowRankSymmetric
from dhsic.memory import human
from dhsic.methods.fohsic import FOHSIC
from dhsic.methods.kernel import AbstractElimination, KernelSelector
from dhsic.methods.onepass import OnePass
from dhsic.methods.svmrfe import SVMRFE
from dhsic.passes.candidates import AbstractCandidates, Membership, Singles
from dhsic.passes.dependence import JOINING_LANDMARKS, SourceForward
from dhsic.passes.engineplan import EnginePlan
from dhsic.passes.inner import ProductsWithLabels
from dhsic.passes.landmarks import LandmarkSum
from dhsic.passes.score_reuse import PROBED
from dhsic.passes.scorer import AbstractScorer, Choices, ExactScorer
from dhsic.passes.single_pass import Judge
from dhsic.passes.sums import SquareSum
from dhsic.plans.dry_run import CountedSums, CountingReader, DryRun, Moved, PlaceholderArray, Step
from dhsic.plans.plan_assumptions import (
    RANK,
    ROUNDS_KEPT,
    AssumedEngines,
    AssumedLowRankScorer,
    AssumedScoreReuse,
    AssumedScoringProblem,
)
from dhsic.relatedness import chromosomes_of
from dhsic.selection.marginal import every_job, marginal_judge
from dhsic.selection.rerank import SAMPLES, read_again
from dhsic.selection.run import SelectionRun

VARY = "no feature is constant; constant features would be removed before the first round"
SERIES = "a round needs 1.4 products per feature in float32 and 0.2 in float64, as for genotypes"
KEPT = f"scores are reused for {ROUNDS_KEPT} rounds, in which {PROBED} features are scored"
JOINED = (
    "scoring one candidate takes 4 matrix products in float32; fewer for genotypes, more if there "
    "are outliers"
)
OPEN = (
    "lower figure: with its first landmarks, low rank is estimated to lose at most {lost:.2g} of "
    "the {n:,} requested features; upper figure: it needs K of all samples, or more landmarks, "
    "from the first round"
)
PACKED = "values of one byte are at most four consecutive integers, so survivors need two bits each"
MACHINES = "the support vector machines of the rounds, which run in this process, are not included"
BY_CHROMOSOME = (
    "features are read three times (loco=True): for the kernel matrix of all features, for those "
    "of the chromosomes, and for the tests"
)
UNTIMED = "the work of this kernel or criterion cannot be estimated, so there are no flops or times"

#: Assumed rank of the label kernel matrix.
RANK_OF_LABELS = 3
#: Rounds count as similar while fewer than 1 / ALIKE of the candidates are removed.
ALIKE = 64


@dataclass(frozen=True, slots=True)
class Work:
    """Forecast of all passes of a run."""

    least: DryRun  # if low rank meets its tolerance
    most: DryRun  # if it does not; otherwise the same
    survivors: str  # where surviving features are kept, as text for the report
    assumed: tuple[str, ...]  # assumptions about the data
    is_timed: bool = True  # False for kernels and criteria of unknown cost

    @property
    def sizes(self) -> list[int]:
        """Number of candidates at the start of every round."""
        return self.least.sizes

    def both(self, of: Callable[[Step], Any]) -> list[Any]:
        """Sum the quantity `of` over the steps, if low rank is sufficient, and if it is not."""
        return [self.least.total(of), self.most.total(of)]

    @property
    def bytes_read(self) -> list[int]:
        """Stored bytes read in all rounds, if low rank is sufficient, and if it is not."""
        return [sum(self.least.bytes_read), sum(self.most.bytes_read)]

    @property
    def n_passes(self) -> int:
        """Number of passes over features."""
        return int(self.least.total(lambda step: step.n_features > 0))

    @property
    def state_bytes(self) -> int:
        """Largest number of bytes sent to every worker at once."""
        steps = [*self.least.steps, *self.most.steps]
        return max((step.state_bytes for step in steps), default=0)


def work_of(run: SelectionRun, budget: int | None) -> Work | None:
    """Forecast all passes of a run; None if the number of steps depends on the data.

    `budget` is the size of the feature cache in bytes, as in `Selector.memory_estimate`.
    """
    selector, assumed = run.selector, [VARY]
    if isinstance(selector, OnePass):
        criterion = selector.resolved()
        if selector.loco:
            chromosomes_of(run.source)
            assumed.append(BY_CHROMOSOME)
        judge = Judge(standardize=True, criterion=criterion)
        least = most = _one_pass(run, judge, budget, 3 if selector.loco else 1)
        is_timed = criterion.is_timed
    elif isinstance(selector, KernelSelector):
        least = most = _gone_through(run, selector, budget)
        if selector.engines(run, selector.solver).is_low_rank and isinstance(
            selector, AbstractElimination
        ):
            most = _gone_through(run, selector, budget, misses=True)
            n = how_many(selector.n_features_to_select, run.n_candidates)
            assumed.append(OPEN.format(lost=selector.max_expected_loss * n, n=n))
        assumed += _supposed_of(run, selector)
        is_timed = FAMILIES[_kernel_of(selector).scored_by].has_series
        if isinstance(selector, FOHSIC):
            is_timed &= run.groups is None and selector.strategy == "forward"
    else:
        return None
    if not is_timed:
        assumed.append(UNTIMED)
    if np.dtype(run.source.dtype).itemsize == 1 and isinstance(selector, KernelSelector):
        assumed.append(PACKED)
    return Work(least, most, _describe_location(least.moves, run), tuple(assumed), is_timed)


def _supposed_of(run: SelectionRun, asked: KernelSelector[Any]) -> Iterator[str]:
    """Yield the assumptions of the plan about rounds, as text."""
    kernel = _kernel_of(asked)
    if isinstance(asked, FOHSIC):
        if not kernel.is_additive:
            yield JOINED
    elif not kernel.is_additive and kernel.exact_order is None and run.groups is None:
        yield SERIES
        if isinstance(asked, AbstractElimination) and asked.engines(run, asked.solver).is_lazy:
            yield KEPT
    if isinstance(asked, SVMRFE):
        yield MACHINES


def _describe_location(moves: list[Moved], run: SelectionRun) -> str:
    """Describe where the surviving features are stored during the run."""
    if not moves:
        return "stay in memory" if run.source.in_memory else "are read from the store"
    largest: dict[str, Moved] = {}
    for move in moves:
        largest.setdefault(move.place.value, move)
    return ", then ".join(
        f"in {place}: {move.n_features:,} in {human(move.n_bytes)}"
        for place, move in largest.items()
    )


def _kernel_of(asked: KernelSelector[Any]) -> AbstractKernel:
    return asked.machine_kernel if isinstance(asked, SVMRFE) else resolve_kernel(asked.kernel)


def _one_pass(run: SelectionRun, judge: Judge, budget: int | None, n_passes: int) -> DryRun:
    dry = DryRun()
    data = CountingReader(dry, run.source, run.runtime, run.rows, budget)
    for _ in range(n_passes):
        data.scores(judge, data.jobs(data.alive))
    dry.rounds_done([run.source.n_features], data.bytes_read)
    return dry


def _gone_through(
    run: SelectionRun, asked: KernelSelector[Any], budget: int | None, *, misses: bool = False
) -> DryRun:
    """Execute a dry run of the algorithm, and return its record.

    `budget` is the size of the feature cache in bytes. With `misses`, low-rank factors are assumed
    to be never accurate enough.
    """
    dry = DryRun()
    data = CountingReader(dry, run.source, run.runtime, run.rows, budget)
    kernel, plan = _kernel_of(asked), asked.engines(run, asked.solver)
    definition, dtype = asked.solver == "direct", np.dtype(str(asked.dtype))
    choices = Choices(kernel, Fixed(1.0), dtype=dtype, by_definition=definition)
    candidates = Singles() if run.groups is None else Membership(run.groups.codes)
    candidates.drop_constant(data.scaling)
    of_run: Any = dry, choices, data, candidates
    dependence: Any
    if isinstance(asked, FOHSIC):
        asked = replace(asked, strategy="forward")  # floating steps back depend on the data
        dependence = PlannedAdditions(*of_run, rank=RANK if plan.is_low_rank else 0)
    else:
        certificate = UNKNOWN if misses else EXACT
        dependence = PlannedRemovals(*of_run, plan=plan, certificate=certificate)
    dependence.measure(is_own=asked.label_kernel == SELF)
    if asked.tests_features(run):
        beside = data.copy_unread()  # separate from the readers of rounds
        beside.scores(marginal_judge(run), every_job(beside))
    again = partial(_read_again, data, asked.again_from(run))
    is_read = again(dependence.left.survivors)
    for state in asked.rounds(run, dependence, dependence.left):
        is_read = is_read or again(state.survivors)
    return dry


def _read_again(data: CountingReader, most: int, S: Index) -> bool:
    """Record a reading of the features S for the re-ranking if their number is at most `most`.

    Return whether they are read.
    """
    if S.size > most or S.size < 2:
        return False
    m = data.n_samples
    read_again(data, S, ProductsWithLabels(np.zeros((m, 1)), np.arange(min(m, SAMPLES))))
    return True


class PlannedState:
    """State of an algorithm in a dry run, without scores and history.

    Features are removed, or added, in random order.
    """

    def __init__(self, every: Index) -> None:
        self.survivors, self._order = every, np.random.default_rng(0).permutation(every)
        self.eliminated = self._order[:0]
        self._stays = np.ones(every.max(initial=-1) + 1, dtype=bool)

    def removal(self, n: int) -> Removal:
        """Return the removal of the next n features, without scores."""
        first = self.eliminated.size
        return Removal(self._order[first : first + n], np.empty(0), {})

    def after(self, gone: Index, *_: Any) -> PlannedState:
        """Remove the features `gone` from the state, in place; return the state."""
        self._stays[gone] = False
        self.survivors = self.survivors[self._stays[self.survivors]]
        self.eliminated = self._order[: self.eliminated.size + gone.size]
        return self


class AbstractSizes:
    """Base class of dependence measures for a dry run; they use sizes and no data."""

    def __init__(
        self, dry: DryRun, choices: Choices, data: CountingReader, candidates: AbstractCandidates
    ) -> None:
        self._dry, self._choices, self._data, self._candidates = dry, choices, data, candidates
        self.left = PlannedState(candidates.every)
        self._W = np.broadcast_to(0.0, (data.n_samples, data.n_samples))

    def bandwidth(self, _: Index) -> float:
        """Return 1, because the bandwidth has no effect on sizes."""
        return 1.0

    def _square(self) -> SquareSum:
        """Return a placeholder for the (m, m) sum over features, which records only its flops."""
        upper: Any = PlaceholderArray()
        return SquareSum(self._data, CountedSums(self._dry, self._data.n_samples), upper)


class PlannedRemovals(AbstractSizes):
    """Dependence measure for a dry run of Algorithm 1.

    Rounds that each remove a small part of the candidates (see `ALIKE`) are similar. Only one of
    them is executed, and it is counted several times.
    """

    def __init__(self, *of_run: Any, plan: EnginePlan, certificate: Certificate) -> None:
        super().__init__(*of_run)
        dry, choices, data = self._dry, self._choices, self._data
        self._last = self.left.eliminated  # features removed in the last of several similar rounds

        def exact() -> ExactScorer:
            engines = partial(AssumedEngines.leaving, dry)
            total, lazy = (
                self._square(),
                cast("Any", AssumedScoreReuse(dry)) if plan.is_lazy else None,
            )
            return ExactScorer(
                choices, total, self._candidates, self._W, lazy=lazy, engines=engines
            )

        self._scorer: AbstractScorer = exact()
        if plan.is_low_rank:
            places = np.multiply.outer(np.arange(data.n_samples), np.arange(RANK_OF_LABELS))
            W = LowRankSymmetric.of(np.cos(places), np.ones(RANK_OF_LABELS))
            how = {"may_square": plan.may_square, "exact": exact, "eager": plan.eager}
            self._scorer = AssumedLowRankScorer(
                choices, data, W, dry=dry, certificate=certificate, **how
            )

    def measure(self, *, is_own: bool) -> None:
        """Record the first pass; `is_own` means that the data are their own labels."""
        self._scorer.measure()
        if is_own and self._choices.kernel.is_additive:
            self._scorer.sum.restart(self._scorer.sum.features)

    def move_to(self, S: Index) -> None:
        """Begin a round with the candidate features S."""
        self._n_before = len(self._dry.steps)
        if self._last.size:
            before = np.union1d(S, self._last)
            self._scorer.sum.features = self._candidates.features(before)
        self._features = self._candidates.features(S)
        self._scorer = self._scorer.begin(self._features)

    def least_relevant(self, sigma: float, S: Index, n: int) -> Removal:
        """Score the candidates S and remove n of them, or k n in place of k similar rounds."""
        self._scorer.gains(sigma, S, n)
        steps = self._dry.steps[self._n_before :]
        starts_anew = sum(step.n_features >= self._features.size for step in steps) > 1
        n_alike = max(1, S.size // (n * ALIKE))
        if starts_anew or not self._dry.sizes:  # rounds that differ from all others
            n_alike = 1
        sizes = range(S.size, S.size - n_alike * n, -n)
        self._dry.rounds_done(sizes, self._data.bytes_read, self._n_before)
        removal = self.left.removal(n_alike * n)
        self._last = removal.features[(n_alike - 1) * n :] if n_alike > 1 else removal.features[:0]
        return removal


class PlannedAdditions(AbstractSizes):
    """Dependence measure for a dry run of Algorithm 2 (forward selection).

    `rank` is the rank of the kernel matrix, 0 if it is full.
    """

    def __init__(self, *of_run: Any, rank: int) -> None:
        super().__init__(*of_run)
        total = LandmarkSum(self._data, 0, JOINING_LANDMARKS) if rank else self._square()
        self._forward = SourceForward(self._choices, total, self._candidates, self._W)
        self._rank, self._n_inside = rank, 0
        self._n_scored, self._n_bytes, self._steps = 0, 0, [Step()]  # of the last round scored

    def measure(self, *, is_own: bool) -> None:
        """Record the first pass; `is_own` means that the data are their own labels."""
        self._forward.measure()
        if is_own:
            self._square().restart(self._data.alive)

    def move_to(self, S_dagger: Index) -> None:
        """Begin a round in which the features S_dagger are already chosen."""
        self._forward.follow(S_dagger)
        if self._rank:  # there are no groups
            flops = 2.0 * JOINING_LANDMARKS * self._data.n_samples
            self._dry.drive(float64=flops * (S_dagger.size - self._n_inside))
        self._n_inside = S_dagger.size

    def most_relevant(self, sigma: float, S_dagger: Index, S: Index, n: int) -> Removal:
        """Score the candidates S and add n of them; of similar rounds, score only one."""
        data, steps = self._data, self._dry.steps
        if not self._n_scored or S.size * ALIKE < self._n_scored * (ALIKE - 1):
            first, before = len(steps), data.bytes_read
            self._score(S, n)
            self._n_scored = (
                S.size if S_dagger.size else 0
            )  # the first round differs from all others
            self._n_bytes, self._steps = data.bytes_read - before, steps[first:]
        else:
            steps += self._steps
            data.bytes_read += self._n_bytes
        self._dry.rounds_done([S.size], data.bytes_read)
        return self.left.removal(n)

    def _score(self, S: Index, n: int) -> None:
        choices = self._choices
        question = AssumedScoringProblem(choices.kernel, self._data.n_samples, self._rank)
        dtype = np.float64 if choices.kernel.is_additive else choices.dtype
        engines: Any = AssumedEngines(
            self._dry, question, dtype, choices.by_definition, joining=True
        )
        self._forward.gains(engines, S, n)

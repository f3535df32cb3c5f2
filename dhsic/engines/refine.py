"""Which engine scores next: the one that settles the places for the least work.

A round scores all features with a cheap engine and then only those whose place is still open
with dearer ones, the last of which converges. How far the expansion goes follows from error
bounds: given (a guess of) the gains, the number of places that an engine would leave open can be
counted before it runs. The guess is the gains so far; for the first
pass of a round, the gains of the round before it.

From gains with error bounds to the features that leave, and in which order.

Exact ties are real: duplicated columns, flipped alleles. Gains within `TIE` of the largest
magnitude of the round count as equal and go by feature index, so the order does not hang on
the last bit of a sum.

What a round learns of the next one is an `EngineChoice`; the history of rounds has it in words.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dhsic._typing import Float, Index, Mask
from dhsic.engines.adding import NOTHING, Adding, ways
from dhsic.engines.base import AbstractEngine, FeatureStats, Question
from dhsic.engines.compact import ThinQuestion
from dhsic.engines.dense import Dense
from dhsic.engines.direct import Direct
from dhsic.engines.final import (
    DOUBLE_COST,
    LONGEST_TAYLOR,
    cost_of,
    definition_of,
    final_engine,
    has_series,
)
from dhsic.engines.ridge import Inverse
from dhsic.kernels.base import AbstractKernel

#: Gains closer than this, relative to the largest magnitude in the round, are ties.
TIE = 1e-10


def tie_width(gains: Float) -> float:
    """Absolute width of a tie."""
    return TIE * float(np.abs(gains).max(initial=0.0))


def undecided(gains: Float, errors: Float, n: int) -> Mask:
    """Features whose place among the n largest is open within the error bounds, (d,)."""
    low, high = gains - errors, gains + errors
    out = np.zeros(len(gains), dtype=bool)
    n = min(n, len(gains))
    threshold = np.partition(low, len(low) - n)[len(low) - n]
    candidates = np.flatnonzero(high >= threshold)
    by_gain = candidates[np.argsort(-gains[candidates], kind="stable")]
    low, high = low[by_gain], high[by_gain]
    # Sorted by gain, intervals overlap where a later one reaches above this one's lower end or
    # an earlier one reaches below this one's upper end.
    later = np.maximum.accumulate(high[::-1])[::-1]
    earlier = np.minimum.accumulate(low)
    out[by_gain[:-1]] |= later[1:] > low[:-1]
    out[by_gain[1:]] |= earlier[:-1] < high[1:]
    return out


def largest(gains: Float, n: int, tie: float) -> Index:
    """Positions of the n largest gains, the largest first; ties by position."""
    by_gain = np.argsort(-gains, kind="stable")
    falls = -np.diff(gains[by_gain])
    group = np.concatenate([[0], np.cumsum(falls > tie)])  # equal within a chain of ties
    ordered = by_gain[np.lexsort((by_gain, group))]
    return ordered[:n].astype(np.int64)


#: With this few features left a round is a matter of milliseconds: converge at once.
FEW_FEATURES = 64
#: Neglected part that the first engine of a run may have, over the spread of gains by chance.
FIRST_NEGLECTED = 0.02
#: Highest orders worth a pass of their own, by precision.
HIGHEST_ORDER = {"float32": 4, "float64": 6}
#: What a pass costs besides its forms, in forms.
PASS_COST = 400.0


def first_engine(question: Question, facts: FeatureStats, dtype: Any) -> AbstractEngine:
    """Engine for the first pass of the first round, when nothing is known of the gains."""
    kernel = question.kernel
    single = np.dtype(dtype) == np.float32
    radial = kernel.scored_by == "taylor"  # their last engine may be the definition: slow
    if len(facts.max_abs) <= FEW_FEATURES or not has_series(kernel) or not (single or radial):
        return final_engine(question, facts)
    if kernel.exact_order is not None:
        return Dense(kernel.exact_order, dtype)
    # Of gains by chance:
    spread = 2 * np.sqrt(2) * question.sigma * question.norm(_first_base(kernel))
    for order in _orders(kernel, np.dtype(dtype).name):
        neglected = question.neglected(order, facts)
        neglected = np.minimum(neglected, np.finfo(np.float64).max)  # quantiles subtract
        if np.quantile(neglected, 0.9) <= FIRST_NEGLECTED * spread:
            return Dense(order, np.dtype(dtype))
    return final_engine(question, facts)


def next_engine(
    question: Question,
    facts: FeatureStats,
    gains: Float,
    errors: Float,
    open_: Index,
    n: int,
    dtype: Any,
    caution: float = 1.0,
) -> AbstractEngine:
    """Engine that should score the open features.

    Parameters
    ----------
    question : Question
        The round's.
    facts : FeatureStats
        Of all features, (d,).
    gains, errors : (d,) float64
        What is known or guessed of the gains, and bounds on how far they may be off.
    open_ : int array
        Features to score.
    n : int
        How many of the largest gains matter, in order.
    dtype : float32 or float64
        Working precision.
    caution : float
        Factor on error bounds, once one was found too small.
    """
    some = facts.take(open_)
    last = final_engine(question, some)
    if open_.size <= FEW_FEATURES or not has_series(question.kernel):
        return last
    last_cost = cost_of(last, question, some) / open_.size
    best: AbstractEngine = last
    least = last_cost * open_.size + PASS_COST
    for engine, cost in _candidates(question, dtype, last_cost):
        work = cost * open_.size + PASS_COST
        if work >= least:
            continue
        tried = errors.copy()
        tried[open_] = caution * engine.error(question, some, gains[open_])
        n_left = int(undecided(gains, tried, n)[open_].sum())
        work += last_cost * n_left + (PASS_COST if n_left else 0.0)
        if work < least:
            best, least = engine, work
    return best


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """Engine that scores all features of a round first: by default the one with the last word.

    Attributes
    ----------
    name : str
        In words, for the history of rounds.
    order : int
        Of the series, where features leave; 0 for no series.
    share : float
        What may be left out of R where features join, on average over a feature's range, times m.
    dtype : str
        Of the products, "float32" or "float64".
    """

    name: str = field(default="", compare=False)
    order: int = 0
    share: float = 0.0
    dtype: str = "float64"


@dataclass(frozen=True, slots=True)
class RoundEngines:
    """Whether a round was scored in low rank, and the engine that it chose for the next one."""

    in_low_rank: bool
    then: EngineChoice


def read_record(record: Mapping[str, Any]) -> RoundEngines:
    """Engines of a round from its record: the one reader of the words that checkpoints keep.

    ``record["engine"]`` begins with "low rank" where that is how features were scored.
    ``record["advice"]`` is "order 2 float32" for a series, "float32, leaving 0.1" for a share that
    is left out, and else the name of an engine that has the last word ("converged", "exact"),
    "low rank", or empty.
    """
    advice = str(record.get("advice", ""))
    then = EngineChoice(advice)
    if advice.startswith("order "):
        _, order, dtype = advice.split()
        then = EngineChoice(advice, order=int(order), dtype=dtype)
    elif advice.startswith(LEAVING):
        then = EngineChoice(advice, share=float(advice.removeprefix(LEAVING)), dtype="float32")
    return RoundEngines(str(record.get("engine", "")).startswith("low rank"), then)


class AbstractEngines(ABC):
    """Engines of a round, as its refinement asks for them."""

    question: Any

    @abstractmethod
    def first(self, facts: FeatureStats, n: int, choice: EngineChoice | None) -> AbstractEngine:
        """Engine that scores all features; `choice` is None in the first round of a run."""

    @abstractmethod
    def then(
        self, facts: FeatureStats, gains: Float, errors: Float, open_: Index, n: int, caution: float
    ) -> AbstractEngine:
        """Engine that scores the features `open_` next; see `next_engine`."""

    @abstractmethod
    def settles(self, engine: AbstractEngine) -> bool:
        """Whether what the engine scores is settled."""

    @abstractmethod
    def still_open(self, gains: Float, errors: Float, n: int) -> Mask:
        """Features to be scored again, unless they are settled, (d,)."""

    @abstractmethod
    def advice(self, facts: FeatureStats, gains: Float, n: int) -> EngineChoice:
        """Choice for a round over features whose gains will be much like these."""

    @abstractmethod
    def name(self, engine: AbstractEngine) -> str:
        """Name of the engine, for the history of rounds."""


@dataclass(frozen=True)
class RemovalEngines(AbstractEngines):
    """Of features that leave: series of growing order, then the engine that converges.

    Attributes
    ----------
    dtype : float32 or float64
        Working precision.
    by_definition : bool
        Score by the definition alone.
    """

    question: Question
    dtype: Any
    by_definition: bool = False

    def first(self, facts: FeatureStats, n: int, choice: EngineChoice | None) -> AbstractEngine:
        if self.by_definition:
            return definition_of(self.question.kernel)
        if choice is None:
            return first_engine(self.question, facts, self.dtype)
        if choice.order:
            return Dense(choice.order, np.dtype(choice.dtype))
        return final_engine(self.question, facts)

    def then(
        self, facts: FeatureStats, gains: Float, errors: Float, open_: Index, n: int, caution: float
    ) -> AbstractEngine:
        return next_engine(self.question, facts, gains, errors, open_, n, self.dtype, caution)

    def settles(self, engine: AbstractEngine) -> bool:
        return engine.is_final

    def still_open(self, gains: Float, errors: Float, n: int) -> Mask:
        return undecided(gains, errors, n)

    def advice(self, facts: FeatureStats, gains: Float, n: int) -> EngineChoice:
        if self.by_definition or not gains.size:
            return EngineChoice()
        everyone, nothing = np.arange(gains.size), np.zeros(gains.size)
        engine = self.then(facts, gains, nothing, everyone, n, 1.0)
        if isinstance(engine, Dense):
            dtype = str(np.dtype(engine.dtype))
            return EngineChoice(self.name(engine), order=engine.order, dtype=dtype)
        return EngineChoice(self.name(engine))

    def name(self, engine: AbstractEngine) -> str:
        return engine.name


def _first_base(kernel: AbstractKernel) -> int:
    """Base of the first term, which sets the size of gains."""
    return 1 if kernel.scored_by == "taylor" else 0


def _orders(kernel: AbstractKernel, precision: str) -> range:
    """Orders worth a pass of their own; radial kernels hold a matrix for each."""
    highest = HIGHEST_ORDER[precision]
    if kernel.scored_by == "taylor":
        highest = min(highest, LONGEST_TAYLOR)
    return range(1, highest + 1)


def _candidates(
    question: Question, dtype: Any, last_cost: float
) -> list[tuple[AbstractEngine, float]]:
    """Dense engines cheaper than converging, with their cost per column."""
    kernel = question.kernel
    exact = kernel.exact_order
    single = np.dtype(dtype) == np.float32
    out: list[tuple[AbstractEngine, float]] = []
    for name, factor in (("float32", 1.0), ("float64", DOUBLE_COST)):
        if name == "float32" and not single:
            continue
        for order in _orders(kernel, name) if exact is None else [exact]:
            cost = factor * kernel.expansion(order, question.sigma).n_forms
            if cost < last_cost:
                out.append((Dense(order, np.dtype(name)), cost))
    return out


#: What a first pass in float32 may leave out of R, on average over a feature's range, times m.
SHARES = (1.0, 0.1, 0.01)
#: Share of the first pass of a run, when nothing is known of the gains.
FIRST_SHARE = 0.1
#: Name of such an engine, before the share.
LEAVING = "float32, leaving "


@dataclass(frozen=True)
class AdditionEngines(AbstractEngines):
    """Of features that join: a series cut short in float32, then all of it in float64.

    Attributes
    ----------
    mean_square : float
        Of the values of a feature, on average over features.
    """

    question: Question | ThinQuestion
    dtype: Any
    mean_square: float
    by_definition: bool = False

    def first(self, facts: FeatureStats, n: int, choice: EngineChoice | None) -> AbstractEngine:
        last, share = self._last(facts), FIRST_SHARE if choice is None else choice.share
        if not (isinstance(last, Adding) and share and self._is_single) or n == len(facts.max_abs):
            return last
        rough = self._leaving(share)  # where some features have no such engine, none have
        return last if self._needs_direct(rough, facts) else rough

    def then(
        self, facts: FeatureStats, gains: Float, errors: Float, open_: Index, n: int, caution: float
    ) -> AbstractEngine:
        return self._last(facts.take(open_))

    def settles(self, engine: AbstractEngine) -> bool:
        return not isinstance(engine, Adding) or engine.tolerance == NOTHING

    def still_open(self, gains: Float, errors: Float, n: int) -> Mask:
        """Those whose place is undecided, and those that are taken: their scores are kept."""
        out = undecided(gains, errors, n)
        out[largest(gains, n, tie_width(gains))] = True
        return out

    def advice(self, facts: FeatureStats, gains: Float, n: int) -> EngineChoice:
        if not gains.size:
            return EngineChoice()
        best, last = EngineChoice("exact"), self._last(facts)
        if not isinstance(last, Adding) or not self._is_single or gains.size <= FEW_FEATURES:
            return best
        last_cost = DOUBLE_COST * last.products(self.question, facts)
        least = last_cost + PASS_COST
        for share in SHARES:
            engine = self._leaving(share)
            cost = engine.products(self.question, facts) + PASS_COST
            if cost >= least:
                continue
            errors = engine.error(self.question, facts, gains)
            n_left = int(undecided(gains, errors, n).sum())
            cost += last_cost * n_left / gains.size + (PASS_COST if n_left else 0.0)
            if cost < least:
                best = EngineChoice(self.name(engine), share=share, dtype="float32")
                least = cost
        return best

    def name(self, engine: AbstractEngine) -> str:
        if isinstance(engine, Adding) and not self.settles(engine):
            return f"{LEAVING}{engine.tolerance * self.question.n_samples:.3g}"
        return "exact"

    @property
    def _is_single(self) -> bool:
        return bool(np.dtype(self.dtype) == np.float32)

    def _leaving(self, share: float) -> Adding:
        return Adding(share / self.question.n_samples, "float32")

    def _last(self, facts: FeatureStats) -> AbstractEngine:
        """Engine that has the last word."""
        if self.question.kernel.scored_by == "matrix":
            return Inverse(joining=self.mean_square)
        if self.by_definition:
            return Direct(adding=True)
        return Adding(with_direct=self._needs_direct(Adding(), facts))

    def _needs_direct(self, engine: Adding, facts: FeatureStats) -> bool:
        kernel, sigma = self.question.kernel, self.question.sigma
        found = ways(kernel, sigma, facts, engine.tolerance)
        return any(way == "direct" for way, _ in found)

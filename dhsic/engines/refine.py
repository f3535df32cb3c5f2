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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dhsic._typing import Float, Index, Mask
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
from dhsic.engines.increment import NOTHING, Increment, ways
from dhsic.engines.ridge import Inverse

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
    steps = -np.diff(gains[by_gain])
    group = np.concatenate([[0], np.cumsum(steps > tie)])  # equal within a chain of ties
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


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """Engine that scores all features of a round first: by default a final one.

    Attributes
    ----------
    name : str
        In words, for the history of rounds.
    order : int
        Of the series, where features leave; 0 for no series.
    dtype : str
        Of its products, "float32" or "float64".
    share : float
        What may be left out of R where features join, on average over a feature's range, times m.
    """

    name: str = field(default="", compare=False)
    order: int = 0
    dtype: str = "float64"
    share: float = 0.0


@dataclass(frozen=True, slots=True)
class RoundEngines:
    """Whether a round was scored in low rank, and the engine that it chose for the next one."""

    in_low_rank: bool
    then: EngineChoice


def read_record(record: Mapping[str, Any]) -> RoundEngines:
    """Engines of a round from its record: the one reader of the words that checkpoints keep.

    ``record["engine"]`` begins with "low rank" where that is how features were scored.
    ``record["advice"]`` is "order 2 float32" for a series, "float32, leaving 0.1" for a share that
    is left out, and else the name of a final engine ("converged", "exact"), "low rank", or empty.
    """
    advice = str(record.get("advice", ""))
    then = EngineChoice(advice)
    if advice.startswith("order "):
        _, order, dtype = advice.split()
        then = EngineChoice(advice, int(order), dtype)
    elif advice.startswith(LEAVING):
        then = EngineChoice(advice, share=float(advice.removeprefix(LEAVING)))
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
        """Engine that should score the open features.

        Parameters
        ----------
        facts : FeatureStats
            Of all features, (d,).
        gains, errors : (d,) float64
            What is known or guessed of the gains, and bounds on how far they may be off.
        open_ : int array
            Features to score.
        n : int
            How many of the largest gains matter, in order.
        caution : float
            Factor on error bounds, once one was found too small.
        """

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
            return self._first_of_all(facts)
        if choice.order:
            return Dense(choice.order, np.dtype(choice.dtype))
        return final_engine(self.question, facts)

    def _first_of_all(self, facts: FeatureStats) -> AbstractEngine:
        """When nothing is known of the gains."""
        question, kernel, dtype = self.question, self.question.kernel, np.dtype(self.dtype)
        radial = kernel.scored_by == "taylor"  # their final engine may be the definition: slow
        worth = has_series(kernel) and (dtype == np.float32 or radial)
        if len(facts.max_abs) > FEW_FEATURES and worth:
            if kernel.exact_order is not None:
                return Dense(kernel.exact_order, dtype)
            first_base = 1 if radial else 0  # which sets the size of gains; of those by chance:
            spread = 2 * np.sqrt(2) * question.sigma * question.norm(first_base)
            for order in self._orders(dtype.name):
                neglected = question.neglected(order, facts)
                neglected = np.minimum(neglected, np.finfo(np.float64).max)  # quantiles subtract
                if np.quantile(neglected, 0.9) <= FIRST_NEGLECTED * spread:
                    return Dense(order, dtype)
        return final_engine(question, facts)

    def then(
        self, facts: FeatureStats, gains: Float, errors: Float, open_: Index, n: int, caution: float
    ) -> AbstractEngine:
        question, some = self.question, facts.take(open_)
        best = final_engine(question, some)
        if open_.size <= FEW_FEATURES or not has_series(question.kernel):
            return best
        final_cost = cost_of(best, question, some) / open_.size
        least = final_cost * open_.size + PASS_COST
        for engine, cost in self._cheaper(final_cost):
            work = cost * open_.size + PASS_COST
            if work >= least:
                continue
            tried = errors.copy()
            tried[open_] = caution * engine.error(question, some, gains[open_])
            n_left = int(undecided(gains, tried, n)[open_].sum())
            work += final_cost * n_left + (PASS_COST if n_left else 0.0)
            if work < least:
                best, least = engine, work
        return best

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
            return EngineChoice(engine.name, engine.order, str(np.dtype(engine.dtype)))
        return EngineChoice(engine.name)

    def name(self, engine: AbstractEngine) -> str:
        return engine.name

    def _orders(self, precision: str) -> range:
        """Orders worth a pass of their own; radial kernels hold a matrix for each."""
        highest = HIGHEST_ORDER[precision]
        if self.question.kernel.scored_by == "taylor":
            highest = min(highest, LONGEST_TAYLOR)
        return range(1, highest + 1)

    def _cheaper(self, final_cost: float) -> Iterator[tuple[Dense, float]]:
        """Series cheaper than converging, with their cost per column."""
        kernel, sigma = self.question.kernel, self.question.sigma
        single = np.dtype(self.dtype) == np.float32
        for name, factor in (("float32", 1.0), ("float64", DOUBLE_COST))[0 if single else 1 :]:
            for order in self._orders(name) if kernel.exact_order is None else [kernel.exact_order]:
                cost = factor * kernel.expansion(order, sigma).n_forms
                if cost < final_cost:
                    yield Dense(order, np.dtype(name)), cost


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
        final, share = self._final(facts), FIRST_SHARE if choice is None else choice.share
        all_join = n == len(facts.max_abs)
        if all_join or not (isinstance(final, Increment) and share and self._is_single):
            return final
        rough = self._leaving(share)  # where some features have no such engine, none have
        return final if self._needs_direct(rough, facts) else rough

    def then(
        self, facts: FeatureStats, gains: Float, errors: Float, open_: Index, n: int, caution: float
    ) -> AbstractEngine:
        return self._final(facts.take(open_))

    def settles(self, engine: AbstractEngine) -> bool:
        return not isinstance(engine, Increment) or engine.tolerance == NOTHING

    def still_open(self, gains: Float, errors: Float, n: int) -> Mask:
        """Those whose place is undecided, and those that are taken: their scores are kept."""
        out = undecided(gains, errors, n)
        out[largest(gains, n, tie_width(gains))] = True
        return out

    def advice(self, facts: FeatureStats, gains: Float, n: int) -> EngineChoice:
        if not gains.size:
            return EngineChoice()
        best, final = EngineChoice("exact"), self._final(facts)
        if not isinstance(final, Increment) or not self._is_single or gains.size <= FEW_FEATURES:
            return best
        final_cost = DOUBLE_COST * final.products(self.question, facts)
        least = final_cost + PASS_COST
        for share in SHARES:
            engine = self._leaving(share)
            cost = engine.products(self.question, facts) + PASS_COST
            if cost >= least:
                continue
            errors = engine.error(self.question, facts, gains)
            n_left = int(undecided(gains, errors, n).sum())
            cost += final_cost * n_left / gains.size + (PASS_COST if n_left else 0.0)
            if cost < least:
                best = EngineChoice(self.name(engine), share=share)
                least = cost
        return best

    def name(self, engine: AbstractEngine) -> str:
        if isinstance(engine, Increment) and not self.settles(engine):
            return f"{LEAVING}{engine.tolerance * self.question.n_samples:.3g}"
        return "exact"

    @property
    def _is_single(self) -> bool:
        return bool(np.dtype(self.dtype) == np.float32)

    def _leaving(self, share: float) -> Increment:
        return Increment(share / self.question.n_samples, "float32")

    def _final(self, facts: FeatureStats) -> AbstractEngine:
        """Engine that settles gains."""
        if self.question.kernel.scored_by == "matrix":
            return Inverse(joining=self.mean_square)
        if self.by_definition:
            return Direct(joining=True)
        return Increment(with_direct=self._needs_direct(Increment(), facts))

    def _needs_direct(self, engine: Increment, facts: FeatureStats) -> bool:
        kernel, sigma = self.question.kernel, self.question.sigma
        found = ways(kernel, sigma, facts, engine.tolerance)
        return any(way == "direct" for way, _ in found)

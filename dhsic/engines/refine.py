"""Choice of engines: the next engine should decide all ranks with the least work.

A round first scores all features with a cheap engine. The features with undecided rank are then
scored with more expensive engines; the last engine is accurate to rounding. The order of a series
follows from error bounds: with estimates of the gains, the number of ranks that an engine would
leave undecided is counted before it runs. The estimates are the gains computed so far. In the first
pass of a round, they are the gains of the previous round, which made the `EngineChoice`; the
history stores the name of this choice.

The removed features and their order are determined by gains with error bounds. Exact ties do occur,
for example for duplicated columns or flipped alleles. Gains count as equal if they differ by at
most `TIE`, relative to the largest magnitude of the round. Equal gains are ordered by feature
index, so the order does not depend on the last bit of a sum.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, final

import numpy as np

from dhsic._typing import Float, Index, Mask
from dhsic.engines import AbstractEngine
from dhsic.engines.dense import Dense
from dhsic.engines.direct import Direct
from dhsic.engines.exact_scoring import DOUBLE_COST, FAMILIES, cost_of, final_engine
from dhsic.engines.increment import Increment
from dhsic.engines.scoring_problem import AnyQuestion, FeatureStats, ScoringProblem

#: Gains closer than this, relative to the largest magnitude in the round, are ties.
TIE = 1e-10


def tie_width(gains: Float) -> float:
    """Largest difference between two gains (changes of HSIC) of a round that counts as a tie."""
    return TIE * float(np.abs(gains).max(initial=0.0))


def undecided(gains: Float, errors: Float, n: int) -> Mask:
    """Mask (d,) of features with undecided rank: error bounds allow it above or below rank n.

    `gains` (d,) are changes of HSIC by each feature; `errors` (d,) bound their differences from the
    exact gains.
    """
    low, high = gains - errors, gains + errors
    out = np.zeros(len(gains), dtype=bool)
    n = min(n, len(gains))
    threshold = np.partition(low, len(low) - n)[len(low) - n]
    candidates = np.flatnonzero(high >= threshold)
    by_gain = candidates[np.argsort(-gains[candidates], kind="stable")]
    low, high = low[by_gain], high[by_gain]
    # Intervals are sorted by gain. They overlap if a later one reaches above this one's lower end,
    # or an earlier one reaches below this one's upper end.
    later = np.maximum.accumulate(high[::-1])[::-1]
    earlier = np.minimum.accumulate(low)
    out[by_gain[:-1]] |= later[1:] > low[:-1]
    out[by_gain[1:]] |= earlier[:-1] < high[1:]
    return out


def largest(gains: Float, n: int, tie: float) -> Index:
    """Positions of the n features with the largest gains, the largest first.

    The gain of a feature is the change of HSIC without (or with) it. Ties are in the order of the
    positions.
    """
    among = _contenders(gains, n, tie)
    by_gain = among[np.argsort(-gains[among], kind="stable")]
    steps = -np.diff(gains[by_gain])
    group = np.concatenate([[0], np.cumsum(steps > tie)])  # equal within a chain of ties
    ordered = by_gain[np.lexsort((by_gain, group))]
    return ordered[:n].astype(np.int64)


def _contenders(gains: Float, n: int, tie: float) -> Index:
    """Ascending positions of the n largest gains, and of gains that tie with the n-th largest.

    Gains are changes of HSIC without (or with) a feature.
    """
    if n >= gains.size:
        return np.arange(gains.size)
    least = np.partition(gains, gains.size - n)[gains.size - n]
    while (below := gains[(gains < least) & (gains >= least - tie)]).size:
        least = below.min()
    return np.flatnonzero(gains >= least)


#: Number of features up to which a round uses the final engine only, in milliseconds.
MOST_AT_ONCE = 8
#: Maximum remainder of the first engine of a run, relative to the spread of gains by chance. With
#: this value two of five features are scored again with the next order, which is cheapest in all.
FIRST_NEGLECTED = 0.1
#: Highest orders that are worth a separate pass, by precision.
HIGHEST_ORDER = {"float32": 4, "float64": 6}
#: Cost of a pass without its quadratic forms, in units of one form.
PASS_COST = 400.0
#: Remainders of R to try in a first float32 pass over joining features (see `Increment`); and the
#: remainder in the first round of a run, when no gains are known.
SHARES, FIRST_SHARE = (1.0, 0.1, 0.01), 0.1


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """Choice of the engine that scores all features at the start of a round.

    `engine` is None for a final engine. `name` is recorded in the history of rounds.
    """

    name: str = field(default="", compare=False)
    engine: Dense | Increment | None = None

    @staticmethod
    def of(engine: AbstractEngine) -> EngineChoice:
        """Create the choice of `engine` for the next round.

        The features of the next round are similar.
        """
        if isinstance(engine, Dense | Increment) and not engine.is_final:
            return EngineChoice(engine.name, engine)
        return EngineChoice(engine.name)

    @staticmethod
    def read(record: Mapping[str, Any]) -> EngineChoice:
        """Read the choice that a round made for the next round from its record in a checkpoint.

        The record has "order 2 float32" for a series up to order 2, "float32, leaving 0.1" for a
        series with a remainder of 0.1, the name of a final engine ("converged", "exact"), "low
        rank", or "".
        """
        words = str(record.get("advice", ""))
        if words.startswith("order "):
            _, order, dtype = words.split()
            return EngineChoice(words, Dense(int(order), dtype))
        if words.startswith("float32, leaving "):
            return EngineChoice(words, Increment(float(words.rsplit(maxsplit=1)[-1]), "float32"))
        return EngineChoice(words)


#: Records of rounds, in order.
History = Sequence[Mapping[str, Any]]


def in_low_rank(record: Mapping[str, Any]) -> bool:
    """Whether a round was scored in low rank, according to its record."""
    return str(record.get("engine", "")).startswith("low rank")


#: Engine name of a lazy round.
LAZY = "kept"


def is_lazy(record: Mapping[str, Any]) -> bool:
    """Whether a round reused the gains of an earlier round, according to its record."""
    return str(record.get("engine", "")).startswith(LAZY)


@dataclass(frozen=True)
class AbstractEngines(ABC):
    """Engines of a round: cheap engines first, then more expensive ones for undecided features."""

    joining: ClassVar[bool] = False  # whether features join instead of leave
    question: Any
    dtype: Any  # working precision
    by_definition: bool = False  # whether to score by the definition only

    @abstractmethod
    def first(self, facts: FeatureStats, n: int, choice: EngineChoice | None) -> AbstractEngine:
        """Engine for the first pass of a round, over all features.

        `facts` are statistics of the features; the n features with the largest gains (changes of
        HSIC) must be ranked. `choice` is None in the first round.
        """

    @final
    def then(
        self, facts: FeatureStats, gains: Float, errors: Float, open_: Index, n: int, caution: float
    ) -> AbstractEngine:
        """Engine for the next pass, over the features `open_` with undecided rank.

        Gains (changes of HSIC by a feature) and errors, (d,), are known or estimated for all
        features; the n largest gains must be ranked. `caution` is a factor on error bounds; it is
        above 1 if a bound was too small before.
        """
        if self.joining:
            return self._final(facts.take(open_))
        return self._cheapest(facts, gains, errors, open_, n, caution)

    @final
    def still_open(self, gains: Float, errors: Float, n: int) -> Mask:
        """Mask of the features to be scored again, unless their gains are final, (d,).

        The gain of a feature is the change of HSIC without (or with) it. The n best features to be
        added are included, because their exact scores are recorded.
        """
        out = undecided(gains, errors, n)
        if self.joining:
            out[largest(gains, n, tie_width(gains))] = True
        return out

    @final
    def advice(self, facts: FeatureStats, gains: Float, n: int) -> EngineChoice:
        """Choose the first engine of the next round.

        Its gains (changes of HSIC by a feature) will be similar to the present `gains`.
        """
        if not gains.size:
            return EngineChoice()
        if gains.size <= MOST_AT_ONCE:  # the name of a final engine does not depend on features
            return EngineChoice.of(self._final(facts.take(np.arange(0))))
        everyone, nothing = np.arange(gains.size), np.zeros(gains.size)
        return EngineChoice.of(self._cheapest(facts, gains, nothing, everyone, n, 1.0))

    @abstractmethod
    def _final(self, facts: FeatureStats) -> AbstractEngine:
        """Create the final engine for these features, which computes gains accurately.

        Gains are changes of HSIC; `facts` are statistics of the features.
        """

    @abstractmethod
    def _rough(self, last: AbstractEngine, facts: FeatureStats) -> Iterator[tuple[Any, float]]:
        """Yield engines that may run before the final engine `last`, and their cost per feature."""

    @final
    def _cheapest(
        self, facts: FeatureStats, gains: Float, errors: Float, open_: Index, n: int, caution: float
    ) -> AbstractEngine:
        """Choose the engine with the least total work.

        It is the final engine, or a cheaper engine that runs before it. For the parameters, see
        `then`.
        """
        open_facts = facts.take(open_)
        best = last = self._final(open_facts)
        if open_.size <= MOST_AT_ONCE:
            return last
        last_cost = cost_of(last, self.question, open_facts) / open_.size
        least = last_cost * open_.size + PASS_COST
        for engine, cost in self._rough(last, open_facts):
            work = cost * open_.size + PASS_COST
            if work >= least:
                continue
            tried = errors.copy()
            tried[open_] = caution * engine.error(self.question, open_facts, gains[open_])
            n_left = int(undecided(gains, tried, n)[open_].sum())
            work += last_cost * n_left + (PASS_COST if n_left else 0.0)
            if work < least:
                best, least = engine, work
        return best

    @property
    def _is_single(self) -> bool:
        return bool(np.dtype(self.dtype) == np.float32)


@dataclass(frozen=True)
class RemovalEngines(AbstractEngines):
    """Engines for removing features: series of increasing order, then the final engine."""

    question: ScoringProblem

    def first(self, facts: FeatureStats, n: int, choice: EngineChoice | None) -> AbstractEngine:
        rough = self._guess(facts) if choice is None else choice.engine
        return rough or self._final(facts)

    def _guess(self, facts: FeatureStats) -> Dense | None:
        """Choose a series for the first round, when no gains are known.

        The result is None if a series does not help.
        """
        question, kernel, dtype = self.question, self.question.kernel, np.dtype(self.dtype)
        radial = kernel.scored_by == "taylor"  # final engine: maybe the slow definition
        worth = self._has_rough and (self._is_single or radial)
        if len(facts.max_abs) <= MOST_AT_ONCE or not worth:
            return None
        if kernel.exact_order is not None:
            return Dense(kernel.exact_order, dtype)
        first_base = 1 if radial else 0  # its matrix determines the spread of gains by chance:
        chance_gain = 2 * np.sqrt(2) * question.sigma * question.norm(first_base)
        for order in self._orders(dtype.name):
            neglected = question.neglected(order, facts)
            neglected = np.minimum(neglected, np.finfo(np.float64).max)  # inf - inf in quantiles
            if np.quantile(neglected, 0.9) <= FIRST_NEGLECTED * chance_gain:
                return Dense(order, dtype)
        return None

    @property
    def _has_rough(self) -> bool:
        return FAMILIES[self.question.kernel.scored_by].has_series and not self.by_definition

    def _final(self, facts: FeatureStats) -> AbstractEngine:
        if self.by_definition:
            return FAMILIES[self.question.kernel.scored_by].definition
        return final_engine(self.question, facts)

    def _orders(self, precision: str) -> range:
        """Orders of the series that are worth a separate pass in the given precision.

        Radial kernels store a matrix for each order.
        """
        highest = HIGHEST_ORDER[precision]
        n_bases = FAMILIES[self.question.kernel.scored_by].bases or highest
        return range(1, min(highest, n_bases) + 1)

    def _rough(self, last: AbstractEngine, facts: FeatureStats) -> Iterator[tuple[Dense, float]]:
        kernel, sigma = self.question.kernel, self.question.sigma
        if not self._has_rough:
            return
        for name, factor in (("float32", 1.0), ("float64", DOUBLE_COST))[not self._is_single :]:
            for order in self._orders(name) if kernel.exact_order is None else [kernel.exact_order]:
                yield Dense(order, np.dtype(name)), factor * kernel.expansion(order, sigma).n_forms


@dataclass(frozen=True)
class AdditionEngines(AbstractEngines):
    """Engines for adding features: a short series in float32, then the full series in float64."""

    joining: ClassVar[bool] = True
    question: AnyQuestion
    mean_square: float = 1.0  # mean square of a feature's values, averaged over features

    def first(self, facts: FeatureStats, n: int, choice: EngineChoice | None) -> AbstractEngine:
        last = self._final(facts)
        rough = Increment(FIRST_SHARE, "float32") if choice is None else choice.engine
        all_join = n == len(facts.max_abs)
        if all_join or not (self._is_single and isinstance(last, Increment)):
            return last
        # If some features cannot use the series, all are scored by the final engine:
        able = isinstance(rough, Increment) and not rough.definitions(self.question, facts)
        return rough if rough is not None and able else last

    def _final(self, facts: FeatureStats) -> AbstractEngine:
        family = FAMILIES[self.question.kernel.scored_by]
        if family.joining is not None:
            return family.joining(self.mean_square)
        if self.by_definition:
            return Direct(joining=True)
        return Increment(with_direct=Increment().definitions(self.question, facts) > 0)

    def _rough(
        self, last: AbstractEngine, facts: FeatureStats
    ) -> Iterator[tuple[Increment, float]]:
        for share in SHARES if isinstance(last, Increment) and self._is_single else ():
            engine = Increment(share, "float32")
            yield engine, engine.products(self.question, facts) / len(facts.max_abs)

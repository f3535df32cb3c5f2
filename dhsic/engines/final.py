r"""The final engine: each feature in the cheapest way that is right to the last places.

- by the series, in float64, as far as the feature needs it (`dhsic.engines.dense`);
- by the pairs of its levels, where it has few values (`dhsic.engines.levels`), or pair by pair of
  samples, where a level kernel meets many;
- by the definition (`dhsic.engines.direct`).

What a series leaves out is known from the feature alone, but for radial kernels, whose samples
must be far from each other besides (`Remainder` says for which features they are): that is so for
nearly all features as long as many are left. With few of them, or with samples that are nearly
equal, the definition takes over. Ridge kernels have engines of their own (`dhsic.engines.direct`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from dhsic._typing import Array, Float, Mask
from dhsic.engines import AbstractEngine, AbstractSplitEngine
from dhsic.engines.dense import Dense, rounding_of_terms, sufficient_orders
from dhsic.engines.direct import Direct, Inverse, RadialDirect, Solved
from dhsic.engines.levels import level_gains, level_products, pair_gains
from dhsic.engines.question import FeatureStats, Question, RoundState
from dhsic.kernels.ridge import AbstractMatrixFunction
from dhsic.namespace import namespace_of

#: Error of the series over the size of gains by chance: ``sigma ||A||_F``, for small features less.
TOLERANCE = 1e-12
#: Longest series: beyond it the definition is cheaper, and powers lose digits.
LONGEST_SERIES = 32
#: Longest series of radial kernels: order p takes 2p - 1 forms and a base matrix.
LONGEST_TAYLOR = 4
#: Largest exponent of a feature that a series may have: its exponential multiplies rounding.
STEEPEST = 8.0
#: The same over levels: there it only has to stay a number, times a K that may be none.
STEEPEST_LEVELS = 600.0
#: Up to so many features the definition of a radial kernel is done before the bases are.
MOST_BY_DEFINITION = 64
#: Time of the definition of a feature, in quadratic forms in float32.
DIRECT_COST = 200.0
#: Time of a quadratic form in float64 over one in float32.
DOUBLE_COST = 2.0

#: An order of the series, or another way to score; and the features that go each way.
Way = int | Literal["levels", "pairs", "direct"]
Ways = Iterator[tuple[Way, Mask]]
#: Who tells them: a round, at home or where it is scored.
Known = Question | RoundState


@dataclass(frozen=True)
class Final(AbstractSplitEngine):
    """Gains to about 1e-12 of their size by chance, in float64; `scored_by` as of the kernel."""

    #: What records of rounds call it, by the family.
    NAMES: ClassVar = {"series": "converged", "taylor": "settled", "levels": "levelled"}

    scored_by: str
    order: int = 0  # of the series that is prepared; 0 for none
    with_direct: bool = True  # prepare for features that only the definition can score

    @staticmethod
    def for_features(question: Question, facts: FeatureStats) -> Final:
        """Engine for these features, prepared for the definition only if one needs it."""
        kernel = question.kernel
        if kernel.scored_by == "taylor":
            return _shortest(question, facts)
        order = (kernel.exact_order or 1) if kernel.scored_by == "series" else 0
        engine = Final(kernel.scored_by, order)
        return Final(kernel.scored_by, order, engine.definitions(question, facts) > 0)

    @property
    def name(self) -> str:
        return self.NAMES[self.scored_by]

    def prepare(self, question: Question) -> RoundState:
        bases = [0] if self.scored_by == "levels" else []
        if self.order:
            bases = [t.base for t in question.kernel.expansion(self.order, question.sigma).terms]
        definition = self._definition.prepare(question) if self.with_direct else None
        remainder = question.remainder if self.order and self.scored_by == "taylor" else None
        return RoundState.of(
            question, bases, np.float64, scaled=False, definition=definition, remainder=remainder
        )

    def columns(self, way: Way, known: Question, facts: FeatureStats) -> int:
        if isinstance(way, int):
            return Dense(way, np.float64).products(known, facts)
        return level_products(facts.n_levels) if way == "levels" else 0

    def suffices(self, known: Known, facts: FeatureStats) -> Mask:
        """Features for which the radial kernel's series is right, (c,)."""
        if not self.order:
            return np.zeros(len(facts.max_abs), dtype=bool)
        assert known.remainder is not None, "bounds of a series are prepared with it"
        norms = {p: known.norm(p) for p in range(1, self.order + 1)}
        expansion = known.kernel.expansion(self.order, known.sigma)
        with np.errstate(all="ignore"):
            error = known.remainder.neglected(self.order, facts.max_abs, facts.fourth_moment)
            error += rounding_of_terms(expansion, norms, known.n_samples, np.float64, facts)
            size = float(known.sigma) * norms[1] * np.sqrt(facts.fourth_moment)
        return np.asarray(error <= TOLERANCE * size)

    @property
    def _definition(self) -> AbstractEngine:
        return RadialDirect() if self.scored_by == "taylor" else Direct()

    def one_way(self, way: Way, state: RoundState, X: Array, facts: FeatureStats) -> Float:
        if way == "direct":
            assert state.definition is not None, "prepared for_features that include these"
            return self._definition.score(state.definition, X, facts)
        if isinstance(way, int):
            return Dense(way, np.float64).score(state, X, facts)
        # <A, F + constant> with F the kernel's `factor`, over levels or over pairs of samples:
        if way == "levels":
            gains = level_gains(state, X, facts.n_levels, state.sigma)
        else:
            gains = pair_gains(state, X)
        if constant := state.kernel.constant:
            row_sums = state.row_sums[0]
            gains += constant * float(namespace_of(row_sums).sum(row_sums))
        return gains

    def ways(self, known: Known, facts: FeatureStats) -> Ways:
        by = {"taylor": self._by_distances, "levels": self._by_levels}.get(
            self.scored_by, self._by_order
        )
        return ((way, which) for way, which in by(known, facts) if which.any())

    def _by_distances(self, known: Known, facts: FeatureStats) -> Ways:
        good = self.suffices(known, facts)
        yield self.order, good
        yield "direct", ~good

    def _by_levels(self, known: Known, facts: FeatureStats) -> Ways:
        steep = np.asarray(known.kernel.exponent(facts.max_abs, known.sigma) > STEEPEST_LEVELS)
        few = (facts.n_levels > 0) & ~steep
        yield "levels", few
        yield "pairs", ~few & ~steep
        yield "direct", steep

    def _by_order(self, known: Known, facts: FeatureStats) -> Ways:
        kernel, sigma, everyone = known.kernel, known.sigma, np.ones(len(facts.max_abs), dtype=bool)
        if kernel.exact_order is not None:
            yield kernel.exact_order, everyone
            return
        mild, few = everyone, ~everyone
        if kernel.is_product:
            exponents = kernel.exponent(facts.max_abs, sigma)
            mild, few = exponents <= STEEPEST, exponents <= STEEPEST_LEVELS
        # Levels take over where the series is no shorter: there its order does not matter.
        until = np.where(few & (facts.n_levels > 0), facts.n_levels - 2.0, LONGEST_SERIES)
        open_ = np.flatnonzero(mild & (until > 0))
        orders = sufficient_orders(
            kernel, sigma, facts, known.n_samples, TOLERANCE, LONGEST_SERIES, open_, until
        )
        few = few & (facts.n_levels > 0)
        few &= facts.n_levels - 1.0 <= np.minimum(orders, LONGEST_SERIES)
        yield "levels", few
        yield "direct", ~few & (orders > LONGEST_SERIES)
        for order in np.unique(orders[~few & (orders <= LONGEST_SERIES)]):
            yield int(order), ~few & (orders == order)


def _shortest(question: Question, facts: FeatureStats) -> Final:
    """Engine with the shortest series of a radial kernel that does for nine in ten."""
    for order in range(1, LONGEST_TAYLOR + 1) if len(facts.max_abs) > MOST_BY_DEFINITION else ():
        good = Final("taylor", order).suffices(question, facts)
        if good.mean() >= 0.9 or (order == LONGEST_TAYLOR and good.any()):
            return Final("taylor", order, with_direct=not good.all())
    return Final("taylor")


@dataclass(frozen=True)
class Family:
    """How kernels that are `scored_by` the same are scored for good, and what that takes."""

    #: Engine that settles these features, in the cheapest way there is.
    final: Callable[[Question, FeatureStats], AbstractEngine]
    #: The oracle, where users ask for it.
    definition: AbstractEngine = field(default_factory=Direct)
    #: Whether cheaper engines may go before the final one (`dhsic.engines.refine`).
    has_series: bool = False
    #: Engine of features that join, from the mean square of the values of one; an `Increment` by
    #: default, which does for products over features and goes by the definition for others.
    joining: Callable[[float], AbstractEngine] | None = None
    #: (m, m) matrices that a round holds; by default as many as an exact expansion has orders.
    bases: int | None = None
    #: What a task holds: tiles of features in float64, and (m, m) matrices of its own.
    tiles: int | None = None
    squares: int = 0


#: By what a kernel is `scored_by`. Radial kernels keep powers; those of ridge K, its resolvent with
#: what inverting it takes, and B.
FAMILIES: dict[str, Family] = {
    "definition": Family(lambda *_: Direct()),
    "matrix": Family(
        lambda question, _: (
            Inverse() if AbstractMatrixFunction.of(question.kernel).updates else Solved()
        ),
        definition=Solved(),
        joining=Inverse,
        bases=4,
        squares=8,
    ),
    "series": Family(Final.for_features, has_series=True),
    "taylor": Family(Final.for_features, has_series=True, bases=LONGEST_TAYLOR, tiles=14),
    "levels": Family(Final.for_features),
}


def final_engine(question: Question, facts: FeatureStats) -> AbstractEngine:
    """Engine that settles these features for good."""
    return FAMILIES[question.kernel.scored_by].final(question, facts)


def cost_of(engine: AbstractEngine, question: Question, facts: FeatureStats) -> float:
    """Time that the final engine takes for these features, in quadratic forms in float32."""
    cost = DOUBLE_COST * engine.products(question, facts)
    if isinstance(engine, Final) and engine.scored_by == "taylor":
        cost += DIRECT_COST * engine.definitions(question, facts)
    return cost

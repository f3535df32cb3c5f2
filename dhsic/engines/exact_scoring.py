r"""The final engine: it scores each feature in the cheapest way that is accurate to rounding.

- by the series, in float64, to the order that the feature needs (`dhsic.engines.dense`);
- by pairs of its levels, if it has few distinct values (`dhsic.engines.levels`), or by pairs of
  samples, if a level kernel has features with many values;
- by the definition (`dhsic.engines.direct`).

The remainder of a series is bounded by statistics of the feature alone. For radial kernels, the
series is accurate only if samples are far from each other without the feature; `Remainder`
determines this. It holds for nearly all features as long as many are left. With few features, or
samples that are nearly equal, the definition is used instead. Ridge kernels have their own engines
(`dhsic.engines.direct`).
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
from dhsic.engines.scoring_problem import FeatureStats, RoundState, ScoringProblem
from dhsic.kernels.ridge import AbstractMatrixFunction
from dhsic.namespace import namespace_of

#: Error of the series relative to typical gains by chance, ``sigma ||A||_F``, which are smaller for
#: small features.
TOLERANCE = 1e-12
#: Highest order of a series: above it the definition is cheaper, and powers lose digits.
LONGEST_SERIES = 32
#: Highest order of a series of radial kernels: order p takes 2p - 1 forms and a base matrix.
LONGEST_TAYLOR = 4
#: Largest exponent of a feature for a series, because its exponential multiplies rounding errors.
STEEPEST = 8.0
#: Largest exponent for sums over levels: they need only not overflow, even multiplied by K = 0.
STEEPEST_LEVELS = 600.0
#: Number of features up to which the definition of a radial kernel is faster than computing base
#: matrices.
MOST_BY_DEFINITION = 64
#: Time of the definition for a feature, in units of a float32 quadratic form.
DIRECT_COST = 200.0
#: Time of a float64 quadratic form, in units of a float32 one.
DOUBLE_COST = 2.0

#: Way to score a feature: an order of the series, or another way; and masks of features per way.
Way = int | Literal["levels", "pairs", "direct"]
Ways = Iterator[tuple[Way, Mask]]
#: Source of the kernel and its parameters: a round's scoring problem, or its state on a worker.
Known = ScoringProblem | RoundState


@dataclass(frozen=True)
class ExactScoring(AbstractSplitEngine):
    """Exact engine in float64: errors are about 1e-12 of typical scores by chance.

    `scored_by` is the kernel's attribute with the same name.
    """

    #: Names in the records of rounds, by family.
    NAMES: ClassVar = {"series": "converged", "taylor": "settled", "levels": "levelled"}

    scored_by: str
    order: int = 0  # order of the prepared series; 0 if there is no series
    with_direct: bool = True  # whether to prepare the definition, which some features may need

    @staticmethod
    def for_features(question: ScoringProblem, facts: FeatureStats) -> ExactScoring:
        """Create the final engine for these features.

        Direct evaluation is prepared only if a feature needs it.
        """
        kernel = question.kernel
        if kernel.scored_by == "taylor":
            return _shortest(question, facts)
        order = (kernel.exact_order or 1) if kernel.scored_by == "series" else 0
        engine = ExactScoring(kernel.scored_by, order)
        return ExactScoring(kernel.scored_by, order, engine.definitions(question, facts) > 0)

    @property
    def name(self) -> str:
        return self.NAMES[self.scored_by]

    def prepare(self, question: ScoringProblem) -> RoundState:
        bases = [0] if self.scored_by == "levels" else []
        if self.order:
            bases = [t.base for t in question.kernel.expansion(self.order, question.sigma).terms]
        definition = self._definition.prepare(question) if self.with_direct else None
        remainder = question.remainder if self.order and self.scored_by == "taylor" else None
        return RoundState.of(
            question, bases, np.float64, scaled=False, definition=definition, remainder=remainder
        )

    def columns(self, way: Way, known: ScoringProblem, facts: FeatureStats) -> int:
        if isinstance(way, int):
            return Dense(way, np.float64).products(known, facts)
        return level_products(facts.n_levels) if way == "levels" else 0

    def suffices(self, known: Known, facts: FeatureStats) -> Mask:
        """Mask of features for which the radial kernel's series is accurate enough, (c,)."""
        if not self.order:
            return np.zeros(len(facts.max_abs), dtype=bool)
        assert known.remainder is not None, (
            "the state of a series includes the bound on its remainder"
        )
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
        # The gain is <A, F + constant>, F the kernel's `factor`, by levels or by pairs of samples:
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
        # Levels are used unless the series is shorter; then its order does not matter.
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


def _shortest(question: ScoringProblem, facts: FeatureStats) -> ExactScoring:
    """Create the engine with the shortest radial series that is accurate for 90% of features."""
    for order in range(1, LONGEST_TAYLOR + 1) if len(facts.max_abs) > MOST_BY_DEFINITION else ():
        good = ExactScoring("taylor", order).suffices(question, facts)
        if good.mean() >= 0.9 or (order == LONGEST_TAYLOR and good.any()):
            return ExactScoring("taylor", order, with_direct=not good.all())
    return ExactScoring("taylor")


@dataclass(frozen=True)
class Family:
    """Final engine and its cost, for kernels with the same attribute `scored_by`."""

    #: Function that creates the cheapest final engine for some features.
    final: Callable[[ScoringProblem, FeatureStats], AbstractEngine]
    #: Engine by the definition, the reference; used if users request it.
    definition: AbstractEngine = field(default_factory=Direct)
    #: Whether cheaper engines may run before the final one (`dhsic.engines.refine`).
    has_series: bool = False
    #: Function that creates the engine of joining features, from the mean square of a feature's
    #: values. None: the engine is `Increment`, which uses the definition for kernels that are not
    #: products over features.
    joining: Callable[[float], AbstractEngine] | None = None
    #: Number of (m, m) matrices that a round holds; None: the order of the exact expansion.
    bases: int | None = None
    #: Memory of a task: number of float64 tiles of features, and of (m, m) matrices.
    tiles: int | None = None
    squares: int = 0


#: Families by `scored_by`. The matrices of radial kernels are powers; those of ridge kernels are K,
#: its resolvent with the temporaries of the inversion, and B.
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
    "series": Family(ExactScoring.for_features, has_series=True),
    "taylor": Family(ExactScoring.for_features, has_series=True, bases=LONGEST_TAYLOR, tiles=14),
    "levels": Family(ExactScoring.for_features),
}


def final_engine(question: ScoringProblem, facts: FeatureStats) -> AbstractEngine:
    """Create the engine that computes final gains (changes of HSIC) of these features."""
    return FAMILIES[question.kernel.scored_by].final(question, facts)


def cost_of(engine: AbstractEngine, question: ScoringProblem, facts: FeatureStats) -> float:
    """Time of the final engine for these features, relative to one float32 quadratic form x'A x."""
    cost = DOUBLE_COST * engine.products(question, facts)
    if isinstance(engine, ExactScoring) and engine.scored_by == "taylor":
        cost += DIRECT_COST * engine.definitions(question, facts)
    return cost

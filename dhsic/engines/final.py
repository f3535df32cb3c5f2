r"""The final engine: each feature in the cheapest way that is right to the last places.

- by the series, in float64, as far as the feature needs it (`dhsic.engines.dense`);
- by the pairs of its levels, where it has few values (`dhsic.engines.levels`), or pair by pair of
  samples, where a level kernel meets many;
- by the definition (`dhsic.engines.direct`).

What a series leaves out is known from the feature alone, but for radial kernels, whose samples
must be far from each other besides (`Remainder` says for which features they are): that is so for
nearly all features as long as many are left. With few of them, or with samples that are nearly
equal, the definition takes over. Ridge kernels have engines of their own (`dhsic.engines.ridge`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import numpy as np

from dhsic._typing import Array, Float, Mask
from dhsic.engines.base import AbstractEngine, FeatureStats, Question
from dhsic.engines.dense import Dense, DenseState, rounding_of
from dhsic.engines.direct import Direct, DirectState, RadialDirect, RadialState
from dhsic.engines.levels import level_gains, pair_gains
from dhsic.engines.remainder import Remainder
from dhsic.engines.ridge import Inverse, Solved
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.ridge import AbstractMatrixFunction
from dhsic.namespace import Movable, namespace_of, taken

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
#: With this few features the definition of a radial kernel is done before the bases are.
FEW_FEATURES = 64
#: Time of the definition of a feature, in quadratic forms in float32.
DIRECT_COST = 200.0
#: Time of a quadratic form in float64 over one in float32.
DOUBLE_COST = 2.0

#: An order of the series, or another way to score.
Way = int | Literal["levels", "pairs", "direct"]


@dataclass(frozen=True, slots=True)
class Splitter:
    """Splits the features of a round by how they are scored.

    Attributes
    ----------
    order : int
        Of the series that a radial kernel has; 0 for none.
    remainder : Remainder or None
        What it leaves out.
    norms : dict of float
        Of its base matrices.
    """

    kernel: AbstractKernel
    sigma: float
    n_samples: int
    order: int = 0
    remainder: Remainder | None = None
    norms: Mapping[int, float] = field(default_factory=dict)

    @staticmethod
    def of(question: Question, order: int) -> Splitter:
        """For a round, with the bounds for a radial kernel's series of this order."""
        out = Splitter(question.kernel, question.sigma, question.n_samples)
        if not order or question.kernel.scored_by != "taylor":
            return out
        norms = {p: question.norm(p) for p in range(1, order + 1)}
        return replace(out, order=order, remainder=question.remainder, norms=norms)

    def ways(self, facts: FeatureStats) -> Iterator[tuple[Way, Mask]]:
        """Ways and the features that go them, (c,) each; every feature goes one."""
        split = {"taylor": self._by_distances, "levels": self._by_levels}
        by = split.get(self.kernel.scored_by, self._by_order)
        return ((way, which) for way, which in by(facts) if which.any())

    def suffices(self, facts: FeatureStats) -> Mask:
        """Features for which the radial kernel's series is right, (c,)."""
        if self.remainder is None:
            return np.zeros(len(facts.max_abs), dtype=bool)
        expansion = self.kernel.expansion(self.order, self.sigma)
        with np.errstate(all="ignore"):
            error = self.remainder.neglected(self.order, facts.max_abs, facts.fourth_moment)
            error += rounding_of(expansion, self.norms, self.n_samples, np.float64, facts)
            size = float(self.sigma) * self.norms[1] * np.sqrt(facts.fourth_moment)
        return np.asarray(error <= TOLERANCE * size)

    def _by_distances(self, facts: FeatureStats) -> Iterator[tuple[Way, Mask]]:
        good = self.suffices(facts)
        yield self.order, good
        yield "direct", ~good

    def _by_levels(self, facts: FeatureStats) -> Iterator[tuple[Way, Mask]]:
        steep = np.asarray(self.kernel.exponent(facts.max_abs, self.sigma) > STEEPEST_LEVELS)
        few = (facts.n_levels > 0) & ~steep
        yield "levels", few
        yield "pairs", ~few & ~steep
        yield "direct", steep

    def _by_order(self, facts: FeatureStats) -> Iterator[tuple[Way, Mask]]:
        if self.kernel.exact_order is not None:
            yield self.kernel.exact_order, np.ones(len(facts.max_abs), dtype=bool)
            return
        orders = self._sufficient_orders(facts)
        few = np.zeros(len(orders), dtype=bool)
        if self.kernel.is_product:
            few = (facts.n_levels > 0) & (
                facts.n_levels - 1.0 <= np.minimum(orders, LONGEST_SERIES)
            )
            few &= self.kernel.exponent(facts.max_abs, self.sigma) <= STEEPEST_LEVELS
        yield "levels", few
        yield "direct", ~few & (orders > LONGEST_SERIES)
        for order in np.unique(orders[~few & (orders <= LONGEST_SERIES)]):
            yield int(order), ~few & (orders == order)

    def _sufficient_orders(self, facts: FeatureStats) -> Float:
        """Least order whose remainder is within the tolerance, (c,); above the longest none is."""
        sigma = self.sigma
        orders = np.full(len(facts.max_abs), LONGEST_SERIES + 1.0)
        tolerance = TOLERANCE * sigma * np.minimum(1.0, np.sqrt(facts.fourth_moment))
        open_ = np.arange(len(orders))
        if self.kernel.is_product:
            open_ = np.flatnonzero(self.kernel.exponent(facts.max_abs, sigma) <= STEEPEST)
        for order in range(1, LONGEST_SERIES + 1):
            if not open_.size:
                break
            remainder = self.kernel.expansion(order, sigma).remainder
            assert remainder is not None, "a kernel without exact order bounds its remainder"
            left = self.n_samples * remainder(facts.max_abs[open_], facts.fourth_moment[open_])
            good = left <= tolerance[open_]
            orders[open_[good]] = order
            open_ = open_[~good]
        return orders


@dataclass(frozen=True, slots=True)
class FinalState(Movable):
    """``W o base`` in float64 and, where a feature needs it, what the definition needs."""

    splitter: Splitter
    dense: DenseState | None
    direct: DirectState | RadialState | None


@dataclass(frozen=True)
class Final(AbstractEngine):
    """Gains to about 1e-12 of their size by chance, in float64.

    Parameters
    ----------
    scored_by : str
        Family of the kernel, see `AbstractKernel`.
    order : int
        Of the series that is prepared; 0 for none.
    with_direct : bool
        Prepare for features that only the definition can score.
    """

    #: What records of rounds call it, by the family.
    NAMES: ClassVar = {"series": "converged", "taylor": "settled", "levels": "levelled"}

    scored_by: str
    order: int = 0
    with_direct: bool = True

    @staticmethod
    def for_features(question: Question, facts: FeatureStats) -> Final:
        """Engine for these features, prepared for the definition only if one needs it."""
        kernel = question.kernel
        if kernel.scored_by == "taylor":
            return _shortest(question, facts)
        order = (kernel.exact_order or 1) if kernel.scored_by == "series" else 0
        ways = Splitter.of(question, order).ways(facts)
        return Final(kernel.scored_by, order, any(way == "direct" for way, _ in ways))

    @property
    def name(self) -> str:
        return self.NAMES[self.scored_by]

    def prepare(self, question: Question) -> FinalState:
        dense = None
        if self.scored_by == "levels":
            dense = DenseState.of(question, [0], np.float64)
        elif self.order:
            dense = Dense(self.order, np.float64).prepare(question)
        direct = self._definition.prepare(question) if self.with_direct else None
        return FinalState(Splitter.of(question, self.order), dense, direct)

    def score(self, state: FinalState, X: Array, facts: FeatureStats) -> Float:
        gains = np.empty(X.shape[0])
        for way, which in state.splitter.ways(facts):
            gains[which] = self._scored(way, state, taken(X, which), facts.take(which))
        return gains

    def products(self, question: Question, facts: FeatureStats) -> int:
        """Quadratic forms of radial kernels' series; columns of the other ways."""
        total = 0
        for way, which in Splitter.of(question, self.order).ways(facts):
            if way == "levels":
                total += int((facts.n_levels[which].astype(np.int64) - 1).sum())
            elif isinstance(way, int):
                taylor = self.scored_by == "taylor"
                forms = question.kernel.expansion(way, question.sigma).n_forms if taylor else way
                total += forms * int(which.sum())
        return total

    def definitions(self, question: Question, facts: FeatureStats) -> int:
        """Features that are scored by the definition."""
        ways = Splitter.of(question, self.order).ways(facts)
        return sum(int(which.sum()) for way, which in ways if way == "direct")

    @property
    def _definition(self) -> AbstractEngine:
        return RadialDirect() if self.scored_by == "taylor" else Direct()

    def _scored(self, way: Way, state: FinalState, X: Array, facts: FeatureStats) -> Float:
        """Gains of features that all go one way."""
        if way == "direct":
            assert state.direct is not None, "prepared for_features that include these"
            return self._definition.score(state.direct, X, facts)
        assert state.dense is not None, "prepared for_features that include these"
        if isinstance(way, int):
            return Dense(way, np.float64).score(replace(state.dense, order=way), X, facts)
        return _by_factor(way, state.dense, X, facts.n_levels)


def _by_factor(way: Way, dense: DenseState, X: Array, n_levels: Array) -> Float:
    """``<A, F + constant>`` with F the kernel's `factor`, over levels or over pairs of samples."""
    kernel, sigma = dense.kernel, dense.sigma
    A, row_sums = dense.A[0], dense.row_sums[0]
    if way == "levels":
        gains = level_gains(X, n_levels, A, row_sums, kernel, sigma)
    else:
        gains = pair_gains(X, A, kernel, sigma)
    if kernel.constant:
        gains += kernel.constant * float(namespace_of(row_sums).sum(row_sums))
    return dense.scale * gains


def _shortest(question: Question, facts: FeatureStats) -> Final:
    """With the shortest series of a radial kernel that does for nine in ten."""
    for order in range(1, LONGEST_TAYLOR + 1) if len(facts.max_abs) > FEW_FEATURES else ():
        good = Splitter.of(question, order).suffices(facts)
        if good.mean() >= 0.9 or (order == LONGEST_TAYLOR and good.any()):
            return Final("taylor", order, with_direct=not good.all())
    return Final("taylor")


#: Engine that settles features for good, in the cheapest way there is, by what a kernel is
#: `scored_by`.
FINAL_ENGINES: dict[str, Callable[[Question, FeatureStats], AbstractEngine]] = {
    "definition": lambda *_: Direct(),
    "matrix": lambda question, _: (
        Inverse() if AbstractMatrixFunction.of(question.kernel).updates else Solved()
    ),
    "series": Final.for_features,
    "taylor": Final.for_features,
    "levels": Final.for_features,
}


def final_engine(question: Question, facts: FeatureStats) -> AbstractEngine:
    """Engine that settles these features for good."""
    return FINAL_ENGINES[question.kernel.scored_by](question, facts)


def definition_of(kernel: AbstractKernel) -> AbstractEngine:
    """Engine of the definition."""
    return Solved() if kernel.scored_by == "matrix" else Direct()


def has_series(kernel: AbstractKernel) -> bool:
    """Whether a cheaper engine may go before the final one."""
    return kernel.scored_by in ("series", "taylor")


def cost_of(engine: AbstractEngine, question: Question, facts: FeatureStats) -> float:
    """Time that the final engine takes for these features, in quadratic forms in float32."""
    cost = DOUBLE_COST * engine.products(question, facts)
    if isinstance(engine, Final) and engine.scored_by == "taylor":
        cost += DIRECT_COST * engine.definitions(question, facts)
    return cost

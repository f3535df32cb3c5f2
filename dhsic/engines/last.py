"""The last word on a gain, kernel by kernel: the engine that converges, and the definition."""

from __future__ import annotations

from dhsic.engines.base import AbstractEngine, Facts, Question
from dhsic.engines.converged import Converged
from dhsic.engines.direct import Direct
from dhsic.engines.inverse import Inverse, Solved
from dhsic.engines.levelled import Levelled
from dhsic.engines.settled import DIRECT_COST, Settled
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.levelled import AbstractLevelled
from dhsic.kernels.radial import AbstractRadial
from dhsic.kernels.ridge import AbstractWhole, Ridge

#: Engines that have the last word on a gain.
FINAL = (Converged, Direct, Settled, Levelled, Inverse, Solved)
#: Time of a quadratic form in float64 over one in float32.
DOUBLE_COST = 2.0


def last_engine(question: Question, facts: Facts) -> AbstractEngine:
    """Engine that settles these features for good, in the cheapest way there is."""
    kernel = question.kernel
    if isinstance(kernel, AbstractRadial):
        return Settled.for_features(question, facts)
    if isinstance(kernel, AbstractLevelled):
        return Levelled.for_features(question, facts)
    if isinstance(kernel, AbstractWhole):
        return Inverse() if isinstance(kernel, Ridge) else Solved()
    return Converged.for_features(question, facts)


def definition_of(kernel: AbstractKernel) -> AbstractEngine:
    """Engine of the definition."""
    return Solved() if isinstance(kernel, AbstractWhole) else Direct()


def has_series(kernel: AbstractKernel) -> bool:
    """Whether a cheaper engine may go before the last one."""
    return not isinstance(kernel, (AbstractLevelled, AbstractWhole))


def cost_of(engine: AbstractEngine, question: Question, facts: Facts) -> float:
    """Time that the last engine takes for these features, in quadratic forms in float32."""
    cost = DOUBLE_COST * engine.products(question, facts)
    if isinstance(engine, Settled):
        cost += DIRECT_COST * engine.definitions(question, facts)
    return cost

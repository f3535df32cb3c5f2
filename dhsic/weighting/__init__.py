r"""Gradient descent over feature weights: interface of the methods, and the optimiser.

Spectral projected gradient (Birgin, Martinez, Raydan 2000, SIAM J. Optim. 10, algorithm SPG2)
minimises f over a convex region. A step from x, with gradient g, is:

    1: d <- P(x - a g) - x                     P the projection, a the spectral step
    2: lambda <- 1
    3: x' <- x + lambda d
    4: until f(x') <= max of the last M values + gamma lambda g'd:
           lambda <- the minimum of a parabola, or half, and back to 3
    5: s <- x' - x,  y <- g' - g,  a <- s's / s'y    (Barzilai and Borwein)

The value of f need not decrease in every step: it must only be below the largest of the last M
values, so most spectral steps are accepted. It never exceeds the first value. Line 4 needs only
values of f. The gradient needs another pass over the data, and is computed once per step.

The region is a box with a budget: ``0 <= w <= 1``, ``1'w <= b`` (CCM eq. 17). The projection of v
on it is ``clip(v - tau, 0, 1)``. If ``tau = 0`` satisfies the budget, tau is 0; otherwise it is the
root of ``s(tau) = 1' clip(v - tau, 0, 1) = b``. This sum decreases with tau, linearly between the
edges ``v_j - 1`` and ``v_j``: bisection over the sorted edges brackets the root, which then has a
closed form (Duchi et al. 2008, without upper bounds).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from dhsic._typing import Array, Float


class WeightState(Protocol):
    """Interface of the state of an optimisation: weights w, (n,), after some steps.

    The method has converged when `residual` is at most the tolerance.
    """

    @staticmethod
    def restored(iteration: int, arrays: Mapping[str, Array]) -> WeightState:
        """Restore the state after `iteration` steps from its arrays."""

    @property
    def iteration(self) -> int: ...

    @property
    def w(self) -> Float: ...

    @property
    def residual(self) -> float: ...

    def arrays(self) -> dict[str, Array]:
        """Return one-dimensional arrays for a checkpoint; `restored` reads them."""

    def record(self) -> dict[str, float | int]:
        """Return the objective, the residual and the work so far, for the history of rounds."""


class AbstractWeighting(ABC):
    """A method that optimises feature weights on some data, step by step."""

    state: ClassVar[type[WeightState]]

    @abstractmethod
    def begin(self, w: Float) -> WeightState:
        """Return the state before the first step, with weights w."""

    @abstractmethod
    def steps(self, state: Any, tolerance: float) -> Iterator[WeightState]:
        """Yield the state after every step, until the weights converge."""

    @abstractmethod
    def potential(self, w: Float) -> Float:
        """Return the rate at which the objective improves with the weight of each feature, (n,)."""


@dataclass(frozen=True)
class Region:
    """Region of points with entries from 0 to `upper`, and a sum of at most `total`.

    See CCM eq. 17, 18 and JMLR eq. 32.

    Examples
    --------
    >>> Region(total=1.5).project(np.array([2.0, 0.5, 0.25]))
    array([1.   , 0.375, 0.125])
    """

    upper: float = 1.0
    total: float = np.inf

    def project(self, point: Float) -> Float:
        """Project a point on the region; return a new array.

        Entries are shifted so that the sum is at most `total`, and clipped. If `total` is finite,
        `upper` must be 1.
        """
        w = point.clip(0.0, self.upper)
        if w.sum() <= self.total:
            return w
        return (point - _root(point, self.total)).clip(0.0, 1.0)


def _root(v: Float, budget: float) -> float:
    """Find the root tau of ``1' clip(v - tau, 0, 1) = budget`` for v (n,).

    At tau = 0, the sum must exceed the budget.
    """
    edges = np.unique(np.concatenate([v, v - 1.0]))
    first, last = 0, len(edges) - 1  # s(first) >= budget > s(last)
    while last - first > 1:
        middle = (first + last) // 2
        if (v - edges[middle]).clip(0.0, 1.0).sum() >= budget:
            first = middle
        else:
            last = middle
    low, high = edges[first], edges[last]
    within = (v >= high) & (v - 1.0 <= low)  # entries between 0 and 1 for tau between the edges
    full = v - 1.0 >= high
    if not within.any():
        return float(low)
    return float((v[within].sum() + full.sum() - budget) / within.sum())


#: Number M of earlier values that a new value is compared with.
MEMORY = 10
#: Gamma, the required decrease as a fraction of that predicted by the gradient.
SUFFICIENT = 1e-4
#: Bounds of a shortened step, relative to the previous one.
SHORTEST, LONGEST = 0.1, 0.9
#: Spectral steps are between 1 / LIMIT and LIMIT times the first one.
LIMIT = 1e10
#: Maximum number of evaluations per step; more would only change values by rounding errors.
MOST_TRIALS = 30


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Value of f at a point, and a function that computes the gradient at this point."""

    value: float
    gradient: Callable[[], Float]


#: A function to be minimised, which does not modify its argument.
Objective = Callable[[Float], Evaluation]


@dataclass(frozen=True, slots=True)
class DescentState:
    """Immutable state of the gradient descent after a step, which determines the next step."""

    iteration: int  # number of steps done; 0 at the start
    point: Float  # x, (n,)
    gradient: Float  # g, (n,)
    recent: tuple[float, ...]  # the last M values; the last one is at `point`
    step: float  # spectral step a of the next iteration
    first_step: float  # first step, to which `LIMIT` is relative
    #: Largest absolute entry of the gradient at the start, the scale of gradients.
    slope: float
    #: Largest absolute entry of ``P(x - g / slope) - x``, which is 0 if x is stationary.
    residual: float
    n_evaluations: int  # number of evaluations of f in the step

    @property
    def value(self) -> float:
        """Value of the objective at the point."""
        return self.recent[-1]

    @property
    def w(self) -> Float:
        """The point x, (n,), as weights of features."""
        return self.point

    def arrays(self) -> dict[str, Array]:
        facts = self.step, self.first_step, self.slope, self.residual
        return {
            "point": self.point,
            "gradient": self.gradient,
            "recent": np.array(self.recent),
            "facts": np.array(facts),
        }

    @staticmethod
    def restored(iteration: int, arrays: Mapping[str, Array]) -> DescentState:
        recent = tuple(float(value) for value in arrays["recent"])
        step, first_step, slope, residual = (float(fact) for fact in arrays["facts"])
        x, g = arrays["point"], arrays["gradient"]
        return DescentState(iteration, x, g, recent, step, first_step, slope, residual, 0)

    def record(self) -> dict[str, float | int]:
        return {
            "objective": self.value,
            "step": self.step,
            "residual": self.residual,
            "n_evaluations": self.n_evaluations,
        }


@dataclass(frozen=True)
class ProjectedGradient:
    """Optimiser by spectral projected gradient.

    `reach` is the maximum change of an entry in a step, before projection. If the function is not
    convex, steps follow the gradient if `reach` is small, and lead to the nearest corner if it is
    large.
    """

    objective: Objective
    region: Region
    reach: float = np.inf

    def begin(self, point: Float) -> DescentState:
        """Return the state before the first step.

        The first step changes entries by at most the mean of `point`.
        """
        x = self.region.project(point)
        evaluation = self.objective(x)
        g = evaluation.gradient()
        slope = float(np.abs(g).max(initial=0.0)) or 1.0
        step = (float(np.abs(x).mean()) or 1.0) / slope
        residual = self._residual(x, g, slope)
        return DescentState(0, x, g, (evaluation.value,), step, step, slope, residual, 1)

    def steps(self, state: DescentState, tolerance: float) -> Iterator[DescentState]:
        """Yield the state after every step, until the residual is at most `tolerance`.

        The steps end earlier if rounding errors prevent a lower value along the direction.
        """
        while state.residual > tolerance:
            new_state = self._step(state)
            if new_state is None:
                return
            state = new_state
            yield state

    def _step(self, state: DescentState) -> DescentState | None:
        x, g = state.point, state.gradient
        can_move = self.region.project(x - g / state.slope) != x
        step = min(state.step, self.reach / float(np.abs(g[can_move]).max()))
        ahead = self.region.project(x - step * g)
        promised = float(np.vdot(g, ahead - x))  # 1
        step_found = self._search(state, ahead, promised) if promised < 0 else None  # 2 to 4
        if step_found is None:
            return None
        new, evaluation, n_evaluations = step_found
        gradient = evaluation.gradient()
        return DescentState(
            iteration=state.iteration + 1,
            point=new,
            gradient=gradient,
            recent=(*state.recent, evaluation.value)[-MEMORY:],
            step=_spectral(new - x, gradient - g, state.first_step),  # 5
            first_step=state.first_step,
            slope=state.slope,
            residual=self._residual(new, gradient, state.slope),
            n_evaluations=n_evaluations,
        )

    def _search(
        self, state: DescentState, ahead: Float, promised: float
    ) -> tuple[Float, Evaluation, int] | None:
        """Find the next point (lines 2 to 4); return it, f there, and the number of evaluations.

        `ahead` is ``x + d``, a point of the region; `promised` is ``g'd``, which is negative. The
        result is None if no value is low enough.
        """
        x, ceiling = state.point, max(state.recent)
        length = 1.0
        for trial in range(1, MOST_TRIALS + 1):
            # The first trial is `ahead` itself, so that entries on the border are exact.
            new = ahead if trial == 1 else x + length * (ahead - x)
            evaluation = self.objective(new)
            if evaluation.value <= ceiling + SUFFICIENT * length * promised:
                return new, evaluation, trial
            curvature = evaluation.value - state.value - length * promised
            lowest = -0.5 * length * length * promised / curvature if curvature > 0 else 0.0
            inside = SHORTEST * length <= lowest <= LONGEST * length
            length = lowest if inside else length / 2
        return None

    def _residual(self, x: Float, g: Float, slope: float) -> float:
        return float(np.abs(self.region.project(x - g / slope) - x).max(initial=0.0))


def _spectral(s: Float, y: Float, first: float) -> float:
    """Return the spectral step ``s's / s'y``, or the longest step if f is not convex along s.

    s and y (n,) are the changes of the point and of the gradient; `first` is the first step of the
    run, which bounds the result (see `LIMIT`).
    """
    curved = float(np.vdot(s, y))
    if curved <= 0:
        return first * LIMIT
    return float(np.clip(float(np.vdot(s, s)) / curved, first / LIMIT, first * LIMIT))

r"""FeatureWeighting: weights that maximise HSIC with a concave zero norm (JMLR appendix A).

See also ICML appendix 5. Use this method for a sparse set of weights rather than a ranking: the
number of nonzero weights is controlled by the penalty lambda. The method takes some hundred passes,
and the papers found its rankings inferior to backward elimination.

The problem

    ``max_w  <W, K_w> - lambda 1' (1 - exp(-alpha w)),  w >= 0``              JMLR eq. 32, 33

is solved by the convex-concave procedure (Yuille and Rangarajan, 2003). W (m, m) are label weights,
K_w (m, m) is the kernel matrix of features with weights w (n,), and alpha is the steepness. As a
function of the squares ``v = w o w``, every entry ``exp(-sigma sum_j v_j (x_ij - x_i'j)^2)`` of K_w
is convex, and so is ``exp(-alpha sqrt(v_j))``. Grouped by the signs of the coefficients, the
objective is a difference g - h of convex functions:

    ``g = sum_{W > 0} W K + lambda 1' exp(-alpha sqrt(v)) - lambda n``,  ``h = sum_{W < 0} |W| K``.

A step replaces g by its tangent at v_0, which is a lower bound, and solves the remaining convex
problem:

    ``v <- argmin_v  h(v) - v' grad g(v_0),  v >= 0``.

The objective never decreases, even if this problem is not solved completely: any improvement of v
is enough.

Three errors of the printed text are corrected. ICML eq. 6 adds the penalty, and JMLR eq. 32
subtracts it. Line 4 of the ICML algorithm uses the tangent of h, ``argmax g(w) - w' grad h(w_0)``,
which is unbounded in w because ``grad h <= 0``. And K is not convex in w, as the paper claims
(``exp(-w^2)`` is concave around 0), but it is convex in the squares of w.

A weight of 0 stays 0: there the penalty has slope ``lambda alpha``, and HSIC has slope 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dhsic._typing import Array, Float, Mask
from dhsic.errors import warn
from dhsic.hsic import check_statistic
from dhsic.kernels.labels import LabelMatrix
from dhsic.methods.descent import DescentSelector, sigma_of
from dhsic.passes.weighted import WeightedSource
from dhsic.selection.run import SelectionRun
from dhsic.validation import POSITIVE, one_of
from dhsic.weighting import AbstractWeighting, Evaluation, ProjectedGradient, Region
from dhsic.weighting.centred import WeightedData, gram_of

#: Maximum number of steps on the convex problem of a step; more would be wasted, because the
#: tangent soon changes.
INNER_STEPS = 4
#: Residual at which the inner problem counts as solved.
INNER_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True)
class WeightingState:
    """State after a step of the convex-concave procedure; it is immutable."""

    iteration: int  # steps done
    w: Float  # (n,)
    value: float  # value of the objective
    hsic: float
    residual: float  # the criterion of line 5 of the ICML algorithm
    n_evaluations: int  # kernel matrices that the step computed

    def arrays(self) -> dict[str, Array]:
        return {"w": self.w, "facts": np.array([self.value, self.hsic, self.residual])}

    @staticmethod
    def restored(iteration: int, arrays: Mapping[str, Array]) -> WeightingState:
        value, hsic, residual = (float(fact) for fact in arrays["facts"])
        return WeightingState(iteration, arrays["w"], value, hsic, residual, 0)

    def record(self) -> dict[str, float | int]:
        return {
            "objective": self.value,
            "hsic": self.hsic,
            "residual": self.residual,
            "n_evaluations": self.n_evaluations,
        }


@dataclass(frozen=True)
class ZeroNorm(AbstractWeighting):
    """Objective ``<W, K_w> - lambda 1' (1 - exp(-alpha w))`` of feature weights w.

    W are label weights, and K_w is the kernel matrix of the weighted features, see the module
    docstring.
    """

    state: ClassVar = WeightingState

    data: WeightedData
    W: Float  # (m, m), symmetric; HSIC is <W, K>
    sigma: float
    penalty: float  # lambda
    steepness: float  # alpha

    def gram(self, w: Float) -> Float:
        """Kernel matrix K_w (m, m) of the features with weights w (n,)."""
        return gram_of(self.data.statistic(w), self.sigma)

    def begin(self, w: Float) -> WeightingState:
        return self._state(0, w, self.gram(w), np.inf, 1)

    def steps(self, state: WeightingState, tolerance: float) -> Iterator[WeightingState]:
        self.data.compact(state.w)
        K = self.gram(state.w)
        while state.residual > tolerance and state.w.any():
            state, K = self._step(state, K)
            yield state
        if not state.w.any():
            warn(
                f"All weights are 0 with penalty={self.penalty:g}; features are ranked by the "
                "contribution that each would have alone. Pass a smaller penalty.",
            )

    def potential(self, w: Float) -> Float:
        """Derivative of HSIC, ``<W, K_w>``, with respect to each squared feature weight, (n,).

        W are label weights, and K_w is the kernel matrix of the weighted features.
        """
        self.data.compact(w)
        return self.by_squares(self.W, self.gram(w), np.ones(w.shape, dtype=bool))

    def tangent(self, w: Float, K: Float) -> Tangent:
        """Convex problem that a step solves, from weights w (n,) and their kernel matrix K."""
        used = w != 0
        c = self.by_squares(np.maximum(self.W, 0.0), K, used)
        rate = self.penalty * self.steepness
        c[used] -= rate * np.exp(-self.steepness * w[used]) / (2 * w[used])
        return Tangent(self, w * w, K, c)

    def by_squares(self, W: Float, K: Float, which: Mask) -> Float:
        """Derivative (n,) of ``<W, K>`` with respect to squared feature weights; 0 outside `which`.

        W are label weights, and K is the kernel matrix of the weighted features.
        """
        return self.data.spreads(-self.sigma * W * K, which)

    def _step(self, state: WeightingState, K: Float) -> tuple[WeightingState, Float]:
        tangent = self.tangent(state.w, K)
        inner = ProjectedGradient(tangent.at, Region(np.inf))
        v = inner.begin(tangent.start)
        n_evaluations = 1  # of the new weights; K of the old ones is known
        for v in inner.steps(v, INNER_TOLERANCE):  # noqa: B020  # each step begins at the last v
            n_evaluations += v.n_evaluations
            if v.iteration == INNER_STEPS:
                break
        w = np.sqrt(v.point)
        self.data.compact(w)
        K = self.gram(w)
        residual = change_of(w, state.w)
        return self._state(state.iteration + 1, w, K, residual, n_evaluations), K

    def _state(
        self, iteration: int, w: Float, K: Float, residual: float, n_evaluations: int
    ) -> WeightingState:
        hsic = float(np.vdot(self.W, K))
        price = -self.penalty * float(np.expm1(-self.steepness * w).sum())
        return WeightingState(iteration, w, hsic - price, hsic, residual, n_evaluations)


@dataclass(frozen=True)
class Tangent:
    """Convex objective ``h(v) - v' c`` of a step, with ``c = grad g(v_0)``.

    v (n,) are squared weights; g and h are defined in the module docstring. Weights that are 0 in
    v_0 stay 0.
    """

    norm: ZeroNorm
    start: Float  # (n,), v_0
    K: Float  # (m, m), kernel matrix at v_0
    c: Float  # (n,), 0 if v_0 is 0

    def at(self, v: Float) -> Evaluation:
        """Value and gradient of the objective at squared weights v (n,)."""
        K = self.K if np.array_equal(v, self.start) else self.norm.gram(np.sqrt(v))
        h = np.maximum(-self.norm.W, 0.0)
        value = float(np.vdot(h, K)) - float(np.vdot(self.c, v))
        used = self.start != 0
        return Evaluation(value, lambda: self.norm.by_squares(h, K, used) - self.c)


def change_of(w: Float, before: Float) -> float:
    """Relative change of the weights w (n,) in a step, ``min(||w - w_0||, ||1 - w / w_0||)``.

    w_0 is `before`, the weights before the step. Only features with nonzero w_0 count.
    """
    used = before != 0
    w, before = w[used], before[used]
    return float(min(np.linalg.norm(w - before), np.linalg.norm(1 - w / before)))


@dataclass(eq=False, repr=False, kw_only=True)
class FeatureWeighting(DescentSelector):
    """Feature weights that maximise HSIC, with the parameters of `dhsic.FeatureWeighting`."""

    _method = "weighting"
    _parameter_constraints: ClassVar = {
        **DescentSelector._parameter_constraints,
        "penalty": POSITIVE,
        "steepness": POSITIVE,
        "start": one_of(("uniform", "random"), "'uniform', or 'random' (with a random_state)."),
    }

    penalty: float = 0.001
    steepness: float = 5.0
    statistic: str = "biased"
    start: str = "uniform"
    tol: float = 0.01

    def check_samples(self, run: SelectionRun) -> None:
        check_statistic(self.statistic, run.n_samples)

    def _sizes(self) -> tuple[int, int]:
        """Number of (m, m) kernel matrices, and of random features, that a run needs.

        There are two kernel matrices, for positive and negative label weights, and no random
        features.
        """
        return 2, 0

    def _weighting(
        self, run: SelectionRun, data: WeightedSource, labels: LabelMatrix
    ) -> tuple[ZeroNorm, Float]:
        W = run.weights(labels, self.statistic)
        W /= np.abs(W).sum()
        sigma = sigma_of(data, self.bandwidth)
        start = np.ones(data.features.size)
        if self.start == "random":
            # Weights in (0, 1]: a weight of 0 would stay 0.
            start -= np.random.default_rng(self._seed).uniform(size=start.size)
        return ZeroNorm(data, W, sigma, self.penalty, self.steepness), start

    def described(self) -> str:
        return f"feature weighting by {self.statistic} HSIC, penalty {self.penalty:g}"

"""Feature weighting by HSIC with a concave zero norm from end to end (JMLR appendix A).

Take it where a sparse set of weights is wanted rather than a ranking: how many features are left
follows from the price of one. It takes some hundred passes, and as a ranking the papers found it
inferior to backward elimination.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dhsic._typing import Array, Float
from dhsic.errors import InputError
from dhsic.hsic import check_estimator
from dhsic.kernels.labels import LabelParts
from dhsic.parameters import seed_of
from dhsic.runs.labelled import weights_of
from dhsic.runs.weighting import (
    AbstractWeighting,
    Size,
    WeightedParameters,
    check_positive,
    sigma_of,
)
from dhsic.scoring.weighted import WeightedSource
from dhsic.weighting.zero_norm import WeightingState, ZeroNorm

STARTS = ("uniform", "random")


@dataclass(frozen=True, kw_only=True)
class WeightingParameters(WeightedParameters):
    """Of feature weighting.

    Attributes
    ----------
    estimator : {"biased", "unbiased"}
        JMLR eq. 4, as in the papers, or eq. 5.
    penalty : float
        Lambda, the price of a feature, where HSIC is ``<W, K>`` with ``sum |W_ij| = 1``: between
        -1 and 1 in whatever units the labels are.
    steepness : float
        Alpha of ``1 - exp(-alpha w)``; the papers' 5.
    start : {"uniform", "random"}
        All weights 1, or drawn evenly from 0 to 1 by `random_state`, as the papers do.
    """

    method: ClassVar[str] = "weighting"

    estimator: str = "biased"
    penalty: float = 0.001
    steepness: float = 5.0
    start: str = "uniform"
    tolerance: float = 0.01

    def check(self) -> WeightingParameters:
        """Refuse what is unknown before any work."""
        self.check_descent()
        check_positive("penalty", self.penalty)
        check_positive("steepness", self.steepness)
        if self.start not in STARTS:
            raise InputError(
                f"start={self.start!r} is unknown; pass 'uniform', or 'random' (with a "
                "random_state)."
            )
        return self

    def identity(self) -> dict[str, Any]:
        """Plain values that two runs must share to be the same run."""
        return {
            **self.descent_identity(),
            "estimator": self.estimator,
            "penalty": float(self.penalty),
            "steepness": float(self.steepness),
            "start": self.start,
        }

    def __str__(self) -> str:
        """In a few words."""
        return f"feature weighting by {self.estimator} HSIC, penalty {self.penalty:g},"


@dataclass
class FeatureWeighting(AbstractWeighting):
    """A run of the convex-concave procedure."""

    parameters: WeightingParameters

    def check_samples(self, m: int) -> None:
        """As many as the estimator takes."""
        check_estimator(self.parameters.estimator, m)

    def size(self) -> Size:
        """Two kernel matrices, and the weights W by their signs."""
        return Size(2)

    def method(self, data: WeightedSource, labels: LabelParts) -> Ascent:
        """The objective and where to begin."""
        asked = self.parameters
        W = weights_of(labels, asked.estimator, self.covariates, data.n_samples)
        W /= np.abs(W).sum()
        sigma = sigma_of(data, asked.bandwidth)
        norm = ZeroNorm(data, W, sigma, asked.penalty, asked.steepness)
        n = data.features.size
        start = np.ones(n)
        if asked.start == "random":
            # 1 less a number below 1: no weight begins at 0, where it would stay.
            start -= np.random.default_rng(seed_of(asked.random_state)).uniform(size=n)
        return Ascent(norm, start, asked.tolerance)


@dataclass(frozen=True)
class Ascent:
    """The procedure from given weights."""

    norm: ZeroNorm
    start: Float
    tolerance: float

    def begin(self) -> WeightingState:
        """State before the first step."""
        return self.norm.begin(self.start)

    def restored(self, iteration: int, arrays: Mapping[str, Array]) -> WeightingState:
        """State after so many steps."""
        return WeightingState.restored(iteration, arrays)

    def steps(self, state: WeightingState) -> Iterator[WeightingState]:
        """States after every further step."""
        after = state
        for after in self.norm.steps(state, self.tolerance):
            yield after
        if not after.w.any():
            warnings.warn(
                f"No feature is worth penalty={self.norm.penalty:g}: all weights are 0, and the "
                "ranking is by what each would add alone. Pass a lower penalty.",
                stacklevel=2,
            )

    def potential(self, w: Float) -> Float:
        """By how much HSIC rises."""
        return self.norm.slopes(w)

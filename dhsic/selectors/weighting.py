"""Feature weighting by HSIC with a concave zero norm, for users.

Feature weighting by HSIC with a concave zero norm from end to end (JMLR appendix A).

Take it where a sparse set of weights is wanted rather than a ranking: how many features are left
follows from the price of one. It takes some hundred passes, and as a ranking the papers found it
inferior to backward elimination.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dhsic._typing import Array, Float
from dhsic.hsic import check_estimator
from dhsic.kernels.label_kernels import LabelMatrix
from dhsic.passes.weighted import WeightedSource
from dhsic.selectors.descent import AbstractWeighting, DescentSelector, Size, sigma_of
from dhsic.selectors.run import weights_of
from dhsic.weighting.zero_norm import WeightingState, ZeroNorm


@dataclass(frozen=True)
class ZeroNormRun(AbstractWeighting):
    """A run of the convex-concave procedure."""

    parameters: FeatureWeighting

    def check_samples(self, m: int) -> None:
        check_estimator(self.parameters.estimator, m)

    def labels(self) -> LabelMatrix | None:
        return self._labels_by_kernel()

    def size(self) -> Size:
        """Two kernel matrices, and the weights W by their signs."""
        return Size(2)

    def method(self, data: WeightedSource, labels: LabelMatrix) -> Ascent:
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
            start -= np.random.default_rng(asked._seed).uniform(size=n)
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


@dataclass(eq=False, repr=False, kw_only=True)
class FeatureWeighting(DescentSelector):
    r"""Feature weights that maximise HSIC at a price for each feature (JMLR appendix A).

        ``maximise  HSIC(w) - penalty sum_j (1 - exp(-steepness w_j)),   w >= 0``

    (eq. 32 and 33) by the convex-concave procedure (ICML appendix 5): how many features are left
    follows from the price. The papers found it inferior to backward elimination as a ranking; take
    it where sparse weights are wanted.

    Parameters
    ----------
    n_features_to_select : int, float or None
        How many of the largest weights count as selected; it changes no weight.
    penalty : float
        Lambda, the price of a feature, where HSIC is ``<W, K>`` with ``sum |W_ij| = 1``: between
        -1 and 1 in whatever units the labels are.
    steepness : float
        Alpha of the concave norm; the papers' 5.
    estimator : {"biased", "unbiased"}
        JMLR eq. 4, as in the papers, or eq. 5.
    start : {"uniform", "random"}
        All weights 1, or drawn by `random_state` as the papers do.
    bandwidth : "median", "dimension" or float
        Sigma of the unweighted features.
    label_kernel : str
        As of `BAHSIC`.
    max_iterations, tolerance
        Outer steps, and the relative change of weights at which they end.
    random_state : int
        Seed of a random start.
    standardize, missing, checkpoint, progress, runtime, memory, stability
        As of `BAHSIC`.

    Attributes
    ----------
    scores_ : (d,) float
        The weight of each feature.
    ranking_, support_, result_
        As of `BAHSIC`.

    Examples
    --------
    >>> import numpy as np, dhsic
    >>> X = np.random.default_rng(0).standard_normal((100, 12))
    >>> dhsic.FeatureWeighting(1).fit(X, X[:, 4] > 0).get_support(indices=True).tolist()
    [4]
    """

    _run = ZeroNormRun
    _method = "weighting"

    penalty: float = 0.001
    steepness: float = 5.0
    estimator: str = "biased"
    start: str = "uniform"
    tolerance: float = 0.01

    def _besides(self) -> dict[str, Any]:
        return {
            "estimator": self.estimator,
            "penalty": float(self.penalty),
            "steepness": float(self.steepness),
            "start": self.start,
        }

    def described(self) -> str:
        return f"feature weighting by {self.estimator} HSIC, penalty {self.penalty:g},"

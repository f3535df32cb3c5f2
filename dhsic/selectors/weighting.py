"""Feature weighting by HSIC with a concave zero norm, for users."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dhsic.fitting import Selector
from dhsic.runs.zero_norm import FeatureWeighting as Run
from dhsic.runs.zero_norm import WeightingParameters


class FeatureWeighting(Selector):
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
        The price of a feature, where HSIC is in units in which it lies between -1 and 1.
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

    _run = Run

    def __init__(
        self,
        n_features_to_select: int | float | None = 50,
        *,
        penalty: float = 0.001,
        steepness: float = 5.0,
        estimator: str = "biased",
        start: str = "uniform",
        bandwidth: Any = "median",
        label_kernel: str = "auto",
        standardize: bool | str = "auto",
        missing: str = "mean",
        max_iterations: int = 100,
        tolerance: float = 0.01,
        stability: int = 0,
        checkpoint: str | Path | None = None,
        progress: Any = "auto",
        random_state: Any = 0,
        runtime: Any = "auto",
        memory: int | None = None,
    ) -> None:
        self.n_features_to_select = n_features_to_select
        self.penalty = penalty
        self.steepness = steepness
        self.estimator = estimator
        self.start = start
        self.bandwidth = bandwidth
        self.label_kernel = label_kernel
        self.standardize = standardize
        self.missing = missing
        self.max_iterations = max_iterations
        self.tolerance = tolerance
        self.stability = stability
        self.checkpoint = checkpoint
        self.progress = progress
        self.random_state = random_state
        self.runtime = runtime
        self.memory = memory

    def parameters(self) -> WeightingParameters:
        """What identifies the run that `fit` makes, besides the data."""
        return WeightingParameters(
            penalty=self.penalty,
            steepness=self.steepness,
            estimator=self.estimator,
            start=self.start,
            bandwidth=self.bandwidth,
            label_kernel=self.label_kernel,
            standardize=self.standardize,
            missing=self.missing,
            max_iterations=self.max_iterations,
            tolerance=self.tolerance,
            random_state=self.random_state,
        )

"""Feature weighting by HSIC with a concave zero norm, for users: JMLR appendix A from end to end.

Take it where a sparse set of weights is wanted rather than a ranking: how many features are left
follows from the price of one. It takes some hundred passes, and as a ranking the papers found it
inferior to backward elimination.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dhsic._typing import Float
from dhsic.hsic import check_estimator
from dhsic.kernels.label_kernels import LabelMatrix
from dhsic.passes.weighted import WeightedSource
from dhsic.selectors.descent import DescentSelector, sigma_of
from dhsic.selectors.parameters import POSITIVE, one_of
from dhsic.selectors.run import SelectionRun
from dhsic.weighting.zero_norm import ZeroNorm


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

    _method = "weighting"
    _constraints: ClassVar = {
        **DescentSelector._constraints,
        "penalty": POSITIVE,
        "steepness": POSITIVE,
        "start": one_of(("uniform", "random"), "'uniform', or 'random' (with a random_state)."),
    }

    penalty: float = 0.001
    steepness: float = 5.0
    estimator: str = "biased"
    start: str = "uniform"
    tolerance: float = 0.01

    def check_samples(self, run: SelectionRun) -> None:
        check_estimator(self.estimator, run.n_samples)

    def _labels(self, run: SelectionRun) -> LabelMatrix | None:
        return run.labels_by_kernel()

    def _sizes(self) -> tuple[int, int]:
        """Two kernel matrices, and the weights W by their signs."""
        return 2, 0

    def _weighting(
        self, run: SelectionRun, data: WeightedSource, labels: LabelMatrix
    ) -> tuple[ZeroNorm, Float]:
        W = run.weights(labels)
        W /= np.abs(W).sum()
        sigma = sigma_of(data, self.bandwidth)
        start = np.ones(data.features.size)
        if self.start == "random":
            # 1 less a number below 1: no weight begins at 0, where it would stay.
            start -= np.random.default_rng(self._seed).uniform(size=start.size)
        return ZeroNorm(data, W, sigma, self.penalty, self.steepness), start

    def described(self) -> str:
        return f"feature weighting by {self.estimator} HSIC, penalty {self.penalty:g}"

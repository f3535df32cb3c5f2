"""Conditional covariance minimisation, for users."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dhsic.fitting import Selector
from dhsic.runs.ccm import CCMParameters, ConditionalCovariance


class CCM(Selector):
    r"""Conditional covariance minimisation (Chen, Stern, Wainwright, Jordan; NIPS 2017).

    Finds weights w from 0 to 1 of all features together such that kernel ridge regression on the
    weighted features leaves as little of the labels as can be,

        ``minimise  tr Y' (G_w + n epsilon I)^{-1} Y,   0 <= w <= 1,   1'w <= n_features_to_select``

    (eq. 17) by projected gradient; features rank by their weight. Among about ten features it sees
    those that say something only together with fewer samples than HSIC needs. A step costs
    ``m^2 d + m^3``, and the result is a local minimum: among tens of irrelevant features or more it
    mostly misses such interactions, so let `BAHSIC` go before. Main effects it finds among
    thousands.

    Parameters
    ----------
    n_features_to_select : int, float or None
        How many to select, and the budget of the weights.
    epsilon : float
        Regularisation; the paper takes 0.001 for classes and 0.1 for real labels.
    bandwidth : "median", "dimension" or float
        Sigma of ``exp(-sigma ||x - x'||^2)`` on the unweighted features; ``"median"`` is that of
        CCM 6.1, one over the median squared distance.
    label_kernel : str
        ``"auto"``: classes by the delta kernel (eq. 9), real values by the linear one (eq. 8).
    constraint : {"hard", "soft"}
        The budget as a constraint (eq. 17), or at the price `lambda_1` (eq. 18).
    inverse : {"exact", "none"}
        The objective as it is, or the relation of eq. 19 with its weight `lambda_2`.
    approximation : None or "random_features"
        The kernel matrix in full, or by `n_random_features` Fourier features (eq. 20), linear in
        the samples.
    n_random_features : int
        D of eq. 20.
    lambda_1, lambda_2 : float
        Of eq. 18 and eq. 19.
    max_iterations, tolerance
        When descent stops: after so many steps, or where the projected gradient has fallen to this
        part of its first value.
    random_state : int
        Seed of the random features.
    standardize, missing, checkpoint, progress, runtime, memory, stability
        As of `BAHSIC`.

    Attributes
    ----------
    scores_ : (d,) float
        The weight of each feature; features of equal weight rank by the derivative of the
        objective, which `result_` has as ``potential``.
    ranking_, support_, result_
        As of `BAHSIC`.

    Examples
    --------
    >>> import numpy as np, dhsic
    >>> X = np.random.default_rng(0).standard_normal((150, 8))
    >>> y = (X[:, 2] * X[:, 5] > 0).astype(int)   # neither feature tells anything alone
    >>> dhsic.CCM(2).fit(X, y).get_support(indices=True).tolist()
    [2, 5]
    """

    _run = ConditionalCovariance

    def __init__(
        self,
        n_features_to_select: int | float | None = 50,
        *,
        epsilon: float = 0.001,
        bandwidth: Any = "median",
        label_kernel: str = "auto",
        constraint: str = "hard",
        inverse: str = "exact",
        approximation: str | None = None,
        n_random_features: int = 500,
        lambda_1: float = 0.1,
        lambda_2: float = 100.0,
        standardize: bool | str = "auto",
        missing: str = "mean",
        max_iterations: int = 100,
        tolerance: float = 1e-4,
        stability: int = 0,
        checkpoint: str | Path | None = None,
        progress: Any = "auto",
        random_state: Any = 0,
        runtime: Any = "auto",
        memory: int | None = None,
    ) -> None:
        self.n_features_to_select = n_features_to_select
        self.epsilon = epsilon
        self.bandwidth = bandwidth
        self.label_kernel = label_kernel
        self.constraint = constraint
        self.inverse = inverse
        self.approximation = approximation
        self.n_random_features = n_random_features
        self.lambda_1 = lambda_1
        self.lambda_2 = lambda_2
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

    def parameters(self) -> CCMParameters:
        """What identifies the run that `fit` makes, besides the data."""
        return CCMParameters(
            n_features_to_select=self.n_features_to_select,
            epsilon=self.epsilon,
            bandwidth=self.bandwidth,
            label_kernel=self.label_kernel,
            constraint=self.constraint,
            inverse=self.inverse,
            approximation=self.approximation,
            n_random_features=self.n_random_features,
            lambda_1=self.lambda_1,
            lambda_2=self.lambda_2,
            standardize=self.standardize,
            missing=self.missing,
            max_iterations=self.max_iterations,
            tolerance=self.tolerance,
            random_state=self.random_state,
        )

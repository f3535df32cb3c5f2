"""Conditional covariance minimisation, for users (Chen et al. 2017, CCM), from end to end.

Features are judged by what kernel ridge regression on all of them together leaves of the labels,
so it finds features that say something only together with fewer samples than HSIC needs. Every step
costs two passes over the features and a decomposition of the kernel matrix, ``m^2 d + m^3``, or
``m D d + m D^2`` with D random features. The objective has many local minima: among hundreds of
irrelevant features for a hundred samples it ends in one of them, and BAHSIC should go before.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from dhsic._typing import Array, Float
from dhsic.algorithms.policies import how_many
from dhsic.errors import InputError
from dhsic.kernels.bandwidth import Median
from dhsic.kernels.label_kernels import ClassTarget, LabelMatrix, LabelPart, RealTargets
from dhsic.kernels.labels import label_matrix
from dhsic.linalg.covariates import nothing_left, residuals
from dhsic.passes.weighted import WeightedSource
from dhsic.selectors.descent import DescentSelector, sigma_of, width_of
from dhsic.selectors.parameters import COUNT, POSITIVE, one_of
from dhsic.selectors.run import SelectionRun
from dhsic.weighting.centred import Centring, FourierCentred, FullCentred
from dhsic.weighting.conditional import (
    AbstractConditional,
    Minimisation,
    WithInverse,
    WithoutInverse,
)
from dhsic.weighting.descent import Region


@dataclass(eq=False, repr=False, kw_only=True)
class CCM(DescentSelector):
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
        CCM 6.1, 1 over the median squared distance: their ``exp(-||x - x'||^2 / (2 s^2))`` has the
        median distance over ``sqrt(2)`` for s. That is twice the sigma that `BAHSIC` takes by this
        name.
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

    _method = "ccm"
    _constraints: ClassVar = {
        **DescentSelector._constraints,
        "constraint": one_of(("hard", "soft"), "'hard' or 'soft'."),
        "inverse": one_of(("exact", "none"), "'exact' or 'none'."),
        "approximation": one_of((None, "random_features"), "None or 'random_features'."),
        "epsilon": POSITIVE,
        "lambda_1": POSITIVE,
        "lambda_2": POSITIVE,
        "n_random_features": COUNT,
    }

    _aside = DescentSelector._aside - {"n_features_to_select"}
    _idle_unless: ClassVar = {
        "lambda_1": ("constraint", "soft"),
        "lambda_2": ("inverse", "none"),
        "n_random_features": ("approximation", "random_features"),
    }

    epsilon: float = 0.001
    constraint: str = "hard"
    inverse: str = "exact"
    approximation: str | None = None
    n_random_features: int = 500
    lambda_1: float = 0.1
    lambda_2: float = 100.0

    def check_samples(self, run: SelectionRun) -> None: ...

    def _labels(self, run: SelectionRun) -> LabelMatrix:
        """By the kernels of the paper, or as asked."""
        assert run.y is not None, "y was given"
        labels = label_matrix(run.y, self.label_kernel, run.covariates).centred
        if self.label_kernel != "auto":
            return labels
        return replace(labels, parts=tuple(_linear(part) for part in labels.parts))

    def _sizes(self) -> tuple[int, int]:
        """One kernel matrix, or random features."""
        return 1, self.n_random_features if self.approximation else 0

    def _weighting(
        self, run: SelectionRun, data: WeightedSource, labels: LabelMatrix
    ) -> tuple[Minimisation, Float]:
        """The objective that is asked for, over the set that is, from even weights ``m / d``."""
        # Of all features, as they are counted where they are selected.
        n_all = how_many(self.n_features_to_select, run.source.n_features)
        n_wanted = min(n_all, data.features.size)
        objective = self._objective(data, centred_targets(labels, run.covariates))
        region = Region(total=float(n_wanted))
        if self.constraint == "soft":
            objective = replace(objective, price=self.lambda_1, budget=float(n_wanted))
            region = Region()
        start = np.full(data.features.size, n_wanted / data.features.size)  # CCM 5.1
        return Minimisation(data, objective, region, self.approximation is None), start

    def _objective(self, data: WeightedSource, Y: Float) -> AbstractConditional:
        ridge = data.n_samples * self.epsilon
        if self.inverse == "exact":
            return WithInverse(self.centring(data), Y, ridge)
        if 2 * self.lambda_2 * ridge <= 1:
            warnings.warn(
                f"lambda_2={self.lambda_2:g} is at most 1 / (2 n epsilon) = {0.5 / ridge:.3g}: "
                "eq. 19 is then so loose that weights which explain less of the labels may count "
                "as better. Pass a higher lambda_2, or inverse='exact'.",
                stacklevel=2,
            )
        return WithoutInverse(self.centring(data), Y, ridge, self.lambda_2)

    def centring(self, data: WeightedSource) -> Centring:
        """G_w at any w, by the bandwidth of CCM 6.1."""
        is_median = isinstance(width_of(self.bandwidth), Median)
        sigma = sigma_of(data, self.bandwidth) * (2 if is_median else 1)
        if self.approximation is None:
            return FullCentred.over(data, sigma)
        return FourierCentred.over(data, sigma, self.n_random_features, self._seed)

    def described(self) -> str:
        kernel = f"{self.n_random_features} random features" if self.approximation else "Gaussian"
        return f"CCM ({kernel}), epsilon {self.epsilon:g}"


def centred_targets(labels: LabelMatrix, covariates: Array | None) -> Float:
    """Y with ``Y Y' = R L R``, (m, k): R takes out the mean, and covariates."""
    factor = labels.factor()
    if (factor.weights < -1e-8 * np.abs(factor.weights).max()).any():
        raise InputError(
            "The precomputed L has negative eigenvalues, and CCM takes inner products of labels; "
            "pass a positive semidefinite L, or the labels themselves."
        )
    B = factor.F * np.sqrt(np.maximum(factor.weights, 0.0))
    Y = residuals(B, covariates)
    if np.vdot(Y, Y) <= 1e-9 * np.vdot(B, B):
        raise nothing_left()
    return Y


def _linear(part: LabelPart) -> LabelPart:
    """Classes by eq. 9; real values by eq. 8, in units of their deviation."""
    if isinstance(part, ClassTarget):
        return ClassTarget.of(part.codes, "delta")
    assert isinstance(part, RealTargets), "no label kernel but a given matrix has another form"
    values = part.values - part.values.mean(axis=0)
    return RealTargets(values / values.std(axis=0), None)

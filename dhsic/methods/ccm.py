r"""CCM: conditional covariance minimisation (Chen et al. 2017).

CCM minimises the unexplained part of the labels in kernel ridge regression on all weighted
features. It finds interactions with fewer samples than HSIC. Every step takes two passes over the
features and a decomposition of the kernel matrix, ``m^2 d + m^3`` operations, or ``m D d + m D^2``
with D random features. The objective has many local minima: with hundreds of irrelevant features
and a hundred samples, descent stops in one of them, so BAHSIC should be run first.

The objective, as a function of the feature weights w, is the trace of the conditional covariance
operator (CCM eq. 13 to 20),

    ``Q(w) = tr Y' (G_w + n eps I)^-1 Y``                                   eq. 14, 17

the residual of kernel ridge regression of Y on the weighted features, up to a factor. G_w (m, m) is
the centred kernel matrix of the weighted features, n the number of samples (elsewhere m), and eps
the ridge. Y (m, k) are the centred labels: the values themselves (eq. 8), or a column for each
class (eq. 9). With ``Z = (G_w + n eps I)^-1 Y`` the derivative of Q is ``dQ = -<Z, dG_w Z>``.

Without the inverse (eq. 19), the objective is minimised over a matrix alpha as well:

    ``<alpha, Y> + lambda_2 ||(G_w + n eps I) alpha - Y||^2``.

For a given w the best alpha is ``M^-1 Y - M^-2 Y / (2 lambda_2)`` with ``M = G_w + n eps I``. It is
computed by solving two systems with conjugate gradients, from products with G_w, which take no pass
over the features. So descent is in w alone (variable projection; Golub and Pereyra, 1973). At that
alpha the objective is ``Q(w) - tr Y' M^-2 Y / (4 lambda_2)``. If ``lambda_2 > 1 / (2 n eps)``, it
decreases when more of Y is explained; otherwise it may increase.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from dhsic._typing import Array, Float
from dhsic.algorithms import how_many
from dhsic.errors import InputError, warn
from dhsic.joins.label_description import LabelDescription
from dhsic.kernels.bandwidth import Median
from dhsic.kernels.label_parts import (
    ClassTarget,
    LabelPart,
    MixedTarget,
    RealTargets,
    mean_direction,
)
from dhsic.kernels.labels import LabelMatrix
from dhsic.linalg.covariates import nothing_left, residuals
from dhsic.methods.descent import DescentSelector, sigma_of, width_of
from dhsic.passes.weighted import WeightedSource
from dhsic.selection.run import SelectionRun
from dhsic.validation import COUNT, POSITIVE, one_of
from dhsic.weighting import AbstractWeighting, DescentState, Evaluation, ProjectedGradient, Region
from dhsic.weighting.centred import (
    AbstractCentred,
    Centring,
    FourierCentred,
    FullCentred,
    WeightedData,
)

#: Relative residual at which conjugate gradients stop.
SOLVED = 1e-10
#: Largest change of a weight in one step. Without this limit, descent soon stops in a corner, which
#: CCM 5.1 means to avoid: on the first data of CCM 6.1 (30 features, m = 100), at an objective of
#: 414 instead of 376.
REACH = 0.5


@dataclass(frozen=True)
class AbstractConditional(ABC):
    """Objective of CCM, with or without the matrix inverse.

    The module docstring defines the symbols.
    """

    centring: Centring  # from weights to G_w
    Y: Float  # (m, k), centred
    ridge: float  # n eps
    #: Lambda_1 and b of ``+ lambda_1 (1'w - b)`` (CCM eq. 18), the soft form of the budget: b, the
    #: number of features to select, only shifts the value. With price 0 the budget is a hard
    #: constraint.
    price: float = field(default=0.0, kw_only=True)
    budget: float = field(default=0.0, kw_only=True)

    @abstractmethod
    def solved(self, G: AbstractCentred) -> tuple[float, Float, Float]:
        """Value of the objective, and the matrices of its derivative ``<left, dG_w right>``.

        G is the centred kernel matrix G_w; left and right are (m, k).
        """

    def at(self, w: Float) -> Evaluation:
        """Value and gradient of the objective at weights w (n,)."""
        G = self.centring(w)
        value, left, right = self.solved(G)
        value += self.price * (float(w.sum()) - self.budget)
        return Evaluation(value, lambda: G.gradient(left, right) + self.price)

    def slopes(self, w: Float) -> Float:
        """Derivatives of the objective by weight, (n,), also for features of weight 0.

        The price is left out, because it is the same for all features. See
        `AbstractCentred.slopes`.
        """
        G = self.centring(w)
        _, left, right = self.solved(G)
        return G.slopes(left, right)


@dataclass(frozen=True)
class WithInverse(AbstractConditional):
    """Objective Q(w) of CCM with the inverse of the kernel matrix; w are feature weights.

    It is eq. 14 and 17, or eq. 20 with Fourier features. Eq. 20 as printed is scaled by ``n eps``
    and lacks the constant ``tr Y'Y``. Here it is neither scaled nor shifted. The minima are the
    same, and lambda_1 of eq. 18 has the same meaning with every approximation.
    """

    def solved(self, G: AbstractCentred) -> tuple[float, Float, Float]:
        """Return the value ``Q = <Y, Z>``, and the matrices -Z and Z of its derivative.

        The derivative is ``-<Z, dG_w Z>``.
        """
        Z = G.solve(self.Y, self.ridge)
        return float(np.vdot(self.Y, Z)), -Z, Z


@dataclass(frozen=True)
class WithoutInverse(AbstractConditional):
    """Objective of eq. 19, without the inverse, at the best alpha for given weights w."""

    strictness: float  # lambda_2

    def solved(self, G: AbstractCentred) -> tuple[float, Float, Float]:
        """Return the value, and the matrices ``2 lambda_2 R`` and alpha of its derivative.

        The derivative is ``<2 lambda_2 R, dG_w alpha>`` at fixed alpha. `_best` defines R.
        """
        alpha, R = self._best(G)
        value = float(np.vdot(alpha, self.Y) + self.strictness * np.vdot(R, R))
        return value, 2 * self.strictness * R, alpha

    def _best(self, G: AbstractCentred) -> tuple[Float, Float]:
        """Best alpha (m, k), and the residual ``R = M alpha - Y = -M^-1 Y / (2 lambda_2)``."""
        Z = self._solved(G, self.Y)
        R = Z / (-2 * self.strictness)
        return Z + self._solved(G, R), R

    def _solved(self, G: AbstractCentred, Y: Float) -> Float:
        """Solution Z (m, k) of ``M Z = Y`` by conjugate gradients, with ``M = G_w + n eps I``."""
        m = len(Y)

        def product(z: Float) -> Float:
            Z = z.reshape(m, 1)
            return (G.times(Z) + self.ridge * Z).ravel()

        M = LinearOperator((m, m), matvec=product, dtype=np.float64)
        solutions = [cg(M, y, rtol=SOLVED) for y in Y.T]
        if any(failed for _, failed in solutions):
            raise InputError(
                f"Conjugate gradients do not converge with epsilon={self.ridge / m:.3g}; pass a "
                "larger epsilon, or inverse='exact'."
            )
        return np.column_stack([z for z, _ in solutions])


@dataclass(frozen=True)
class Minimisation(AbstractWeighting):
    """Minimisation of an objective over weights in `region`, by spectral projected gradients."""

    state: ClassVar = DescentState

    data: WeightedData
    objective: AbstractConditional
    region: Region
    #: Whether weights of 0 stay 0, as K is a function of their squares; such features are not read.
    is_sparse: bool

    def begin(self, w: Float) -> DescentState:
        return self._descent.begin(w)

    def steps(self, state: DescentState, tolerance: float) -> Iterator[DescentState]:
        self._compact(state.w)
        for after in self._descent.steps(state, tolerance):
            yield after
            self._compact(after.w)

    def potential(self, w: Float) -> Float:
        """Estimated decrease of the objective per unit of each feature weight, (n,).

        For kernels of squared weights, it is per unit of the squared weight.
        """
        self._compact(w)
        return -self.objective.slopes(w)

    @property
    def _descent(self) -> ProjectedGradient:
        return ProjectedGradient(self.objective.at, self.region, REACH)

    def _compact(self, w: Float) -> None:
        if self.is_sparse:
            self.data.compact(w)


@dataclass(eq=False, repr=False, kw_only=True)
class CCM(DescentSelector):
    """Conditional covariance minimisation, with the parameters of `dhsic.CCM`."""

    _method = "ccm"
    _parameter_constraints: ClassVar = {
        **DescentSelector._parameter_constraints,
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

    def labels(self, run: SelectionRun) -> LabelMatrix:
        """Label matrix: with "auto" by the kernels of the paper, otherwise by the label kernel."""
        labels = super().labels(run)
        assert labels is not None, "y was given"
        if self.label_kernel != "auto":
            return labels
        return replace(labels, parts=tuple(_linear(part) for part in labels.parts))

    def label_description(self, *, in_python: bool) -> LabelDescription:
        """Description of the labels, without a label kernel if this is the paper's default."""
        kernel = None if self.label_kernel == "auto" else self.label_kernel
        return LabelDescription(kernel, in_python=in_python)

    def _sizes(self) -> tuple[int, int]:
        """Number of kernel matrices (1), and of random features."""
        return 1, self.n_random_features if self.approximation else 0

    def _weighting(
        self, run: SelectionRun, data: WeightedSource, labels: LabelMatrix
    ) -> tuple[Minimisation, Float]:
        """Create the minimisation, and equal starting weights ``n_features_to_select / d``."""
        # A fraction is of all features of the source, also if some are constant.
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
            warn(
                f"lambda_2={self.lambda_2:g} is at most 1 / (2 n epsilon) = {0.5 / ridge:.3g}. "
                "With such a small value, eq. 19 may prefer weights that explain less of the "
                "labels. Pass a larger lambda_2, or inverse='exact'.",
            )
        return WithoutInverse(self.centring(data), Y, ridge, self.lambda_2)

    def centring(self, data: WeightedSource) -> Centring:
        """Function from weights w to the kernel matrix G_w, with the bandwidth rule of CCM 6.1."""
        is_median = isinstance(width_of(self.bandwidth), Median)
        sigma = sigma_of(data, self.bandwidth) * (2 if is_median else 1)
        if self.approximation is None:
            return FullCentred.over(data, sigma)
        return FourierCentred.over(data, sigma, self.n_random_features, self._seed)

    def described(self) -> str:
        kernel = f"{self.n_random_features} random features" if self.approximation else "Gaussian"
        return f"CCM ({kernel}), epsilon {self.epsilon:g}"


def centred_targets(labels: LabelMatrix, covariates: Array | None) -> Float:
    """Centred labels Y (m, k) with ``Y Y' = R L R``.

    L (m, m) is the label matrix, and R projects out the mean and the covariates.
    """
    factor = labels.factor()
    if (factor.weights < -1e-8 * np.abs(factor.weights).max()).any():
        raise InputError(
            "The precomputed L has negative eigenvalues, but CCM needs a matrix of inner products; "
            "pass a positive semidefinite L, or the labels themselves."
        )
    B = factor.F * np.sqrt(np.maximum(factor.weights, 0.0))
    Y = residuals(B, covariates)
    if np.vdot(Y, Y) <= 1e-9 * np.vdot(B, B):
        raise nothing_left()
    return Y


def _linear(part: LabelPart) -> LabelPart:
    """Convert labels to the labels of CCM: eq. 9 for classes, eq. 8 for standardised real values.

    Mixed labels become both, classes and numbers.
    """
    if isinstance(part, ClassTarget):
        return ClassTarget.of(part.codes, "delta")
    if isinstance(part, MixedTarget):
        classes = ClassTarget.of(part.classes.codes, "delta")
        numbers = RealTargets(_standardised(part.numbers.values), None)
        return MixedTarget.of(classes, numbers, mean_direction(len(part.classes.codes)))
    assert isinstance(part, RealTargets), "only a precomputed matrix has another form"
    return RealTargets(_standardised(part.values), None)


def _standardised(values: Float) -> Float:
    """Standardise real targets (m, t) to mean 0 and standard deviation 1."""
    centred = values - values.mean(axis=0)
    return np.asarray(centred / centred.std(axis=0))

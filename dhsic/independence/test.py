"""The test of X and Y as they are given.

What is asked of data: labels, kernels and estimator, and the matrices that they make.

Answers to a question of independence, one function for every method.

Where p-values come from.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dhsic._typing import Float
from dhsic.errors import InputError, MemoryBudgetError
from dhsic.hsic import check_estimator, variance_of_hsic
from dhsic.independence.data import (
    basis_of,
    estimated,
    full_kernel,
    full_labels,
    residual,
    thin_kernel,
    thin_labels,
)
from dhsic.independence.estimate import Asked, matrix_of
from dhsic.independence.forms import AbstractForm, Full
from dhsic.independence.moments import moments_permuted
from dhsic.independence.null import (
    p_of_gamma,
    p_of_normal,
    p_of_permutations,
    rounding_of,
    value_observed,
    values_permuted,
)
from dhsic.independence.result import TestResult
from dhsic.independence.tiled import PanelledWeights, PanelPairing, SlicedData
from dhsic.kernels.bandwidth import (
    MEDIAN_SAMPLES,
    AbstractBandwidth,
    DistanceStats,
    Grid,
    resolve_bandwidth,
)
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.labels import LabelParts
from dhsic.kernels.statistic import Statistic
from dhsic.kernels.table import check_reach, resolve_kernel
from dhsic.lowrank.base import is_count
from dhsic.memory import available_bytes, human
from dhsic.sources.target import check_coded

METHODS = ("permutation", "gamma", "normal")


@dataclass(frozen=True)
class Draws:
    """Method of a test, and its permutations."""

    method: str
    n_permutations: int
    seed: int

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise InputError(
                f"method={self.method!r} is unknown; pass one of {', '.join(METHODS)}."
            )
        if not is_count(self.n_permutations):
            raise InputError(
                f"n_permutations={self.n_permutations!r}; pass a whole number >= 1, such as 1000."
            )
        if not (is_count(self.seed) or (self.seed == 0 and self.seed is not False)):
            raise InputError(f"random_state={self.seed!r}; pass a whole number >= 0.")


#: (m, m) matrices of float64 at the peak of a test that writes them out, besides one a width.
SQUARES = 6


@dataclass(frozen=True, eq=False)
class Question:
    """Labels, and how data are compared with them; `dhsic.independence.test` answers it.

    What follows from the labels alone is made once, for any number of data.

    Attributes
    ----------
    labels : LabelParts
        Of m samples.
    covariates : (m, q) array or None
        Linear effects to project out.
    kernel, policy : AbstractKernel, AbstractBandwidth
        Of the data.
    estimator : {"unbiased", "biased"}
        JMLR eq. 5 or eq. 4.
    draws : Draws
        Where p-values come from.

    Raises
    ------
    InputError
        Too few samples, or an estimator or bandwidths that the method cannot do.
    """

    labels: LabelParts
    covariates: Any
    kernel: AbstractKernel
    policy: AbstractBandwidth
    estimator: str
    draws: Draws

    def __post_init__(self) -> None:
        check_estimator(self.estimator, self.labels.n_samples)
        method = self.draws.method
        if method == "normal" and self.estimator != "unbiased":
            raise InputError(
                f"method='normal' is about the unbiased estimator, and estimator="
                f"{self.estimator!r}; pass estimator='unbiased', or method='permutation'."
            )
        if method != "permutation" and isinstance(self.policy, Grid) and self.kernel.has_bandwidth:
            raise InputError(
                f"Of {len(self.policy.sigmas)} bandwidths the one with the largest HSIC is taken, "
                f"which method={method!r} knows nothing of; pass one of them, or "
                "method='permutation'."
            )

    @cached_property
    def Q(self) -> Float:
        """Basis of what is taken out of the labels."""
        return basis_of(self.covariates, self.labels.n_samples)

    @cached_property
    def C(self) -> AbstractForm:
        """Residual labels."""
        L = thin_labels(self.labels)
        if L is None:
            self._check_room()
        return residual(full_labels(self.labels) if L is None else L, self.Q)

    @cached_property
    def W(self) -> PanelledWeights:
        """Weights of the unbiased estimator, written out a panel at a time."""
        return PanelledWeights.of(self.labels, "unbiased", self.covariates)

    def K(self, X: Float, sigma: float) -> AbstractForm:
        """Kernel of X (m, d); where C is full a thin one would not help."""
        K = None if isinstance(self.C, Full) else thin_kernel(self.kernel, X, sigma)
        if K is not None:
            return K
        self._check_room()
        return full_kernel(self.kernel, X, sigma)

    def sigmas(self, X: Float) -> tuple[float, ...]:
        """Widths of the kernel of X (m, d), one or those that are to be tried."""
        if not self.kernel.has_bandwidth:
            return (1.0,)
        if isinstance(self.policy, Grid):
            return self.policy.sigmas
        few = X[:: -(-len(X) // MEDIAN_SAMPLES)]  # as `dhsic.hsic` takes them
        known = DistanceStats(self.kernel, None, Statistic.of(few @ few.T))
        return (self.policy(known, X.shape[1]),)

    def _check_room(self) -> None:
        m = self.labels.n_samples
        widths = len(self.policy.sigmas) if isinstance(self.policy, Grid) else 1
        needed, left = (SQUARES + widths) * 8 * m * m, available_bytes()
        if needed > left:
            raise MemoryBudgetError(
                f"Kernel matrices of {m:,} x {m:,} samples take {human(needed)}, and there are "
                f"{human(left)}. Test on fewer samples, or on fewer features at a time (one needs "
                "no such matrix), or pass method='normal'."
            )


def answer(question: Question, X: Float) -> TestResult:
    """Test of X (m, d) by the method that was asked for."""
    if question.kernel.has_bandwidth:
        X = X - X.mean(axis=0)  # distances keep their digits
    check_reach(question.kernel, float(np.einsum("ij,ij->i", X, X).max()))
    return _ANSWERS[question.draws.method](question, X, question.sigmas(X))


def _by_permutation(question: Question, X: Float, sigmas: tuple[float, ...]) -> TestResult:
    """By the largest HSIC of all widths, in the data and in every permutation."""
    C, rounding, forms = question.C, 0.0, []
    for sigma in sigmas:
        A = estimated(question.K(X, sigma), question.estimator)
        rounding = max(rounding, rounding_of(C, A))
        forms.append(A.projected(question.Q))
    observed = [value_observed(C, A) for A in forms]
    n = question.draws.n_permutations
    drawn = values_permuted(C, forms, n, question.draws.seed).max(axis=0)
    best = int(np.argmax(observed))
    p_value = p_of_permutations(observed[best], drawn, rounding)
    null = float(drawn.mean()), float(drawn.var())
    return TestResult(observed[best], p_value, "permutation", len(X), n, *null, sigmas[best])


def _by_gamma(question: Question, X: Float, sigmas: tuple[float, ...]) -> TestResult:
    """By the moments of all permutations."""
    (sigma,), C = sigmas, question.C
    A = estimated(question.K(X, sigma), question.estimator)
    rounding = rounding_of(C, A)
    A = A.projected(question.Q)
    observed, null = value_observed(C, A), moments_permuted(C, A)
    p_value = p_of_gamma(observed, null, rounding)
    return TestResult(observed, p_value, "gamma", len(X), 0, null.mean, null.variance, sigma)


def _by_theorem_5(question: Question, X: Float, sigmas: tuple[float, ...]) -> TestResult:
    """By the standard error of HSIC_1."""
    (sigma,) = sigmas
    data = SlicedData(X, centred=question.kernel.has_bandwidth)
    row_sums, smoothed = PanelPairing(question.kernel, data, question.W).influence(sigma)
    observed, variance = float(row_sums.sum()), variance_of_hsic(row_sums, smoothed)
    p_value = p_of_normal(observed, variance)
    return TestResult(observed, p_value, "normal", len(X), 0, 0.0, variance, sigma)


_ANSWERS = {"permutation": _by_permutation, "gamma": _by_gamma, "normal": _by_theorem_5}


def hsic_test(
    X: Any,
    Y: Any,
    *,
    kernel: str | AbstractKernel = "gaussian",
    label_kernel: str = "auto",
    bandwidth: object = "median",
    estimator: str = "unbiased",
    covariates: Any = None,
    method: str = "permutation",
    n_permutations: int = 1000,
    random_state: int = 0,
    by_position: bool = False,
) -> TestResult:
    """Test whether X and Y are independent, by their HSIC.

    A small p-value says that they are not; which dependence is seen is a matter of the kernels,
    and the Gaussian sees every kind (JMLR 2.3). Take ``"permutation"`` unless it is too slow.

    Parameters
    ----------
    X : (m, d) or (m,) array
        Data, used as they are (standardise them first if their scales differ).
    Y : (m,) or (m, t) array
        Labels; (m, m) for ``label_kernel="precomputed"``.
    kernel, label_kernel, bandwidth, estimator, covariates
        As of `dhsic.hsic`. Of a list of bandwidths that with the largest HSIC is taken, anew in
        every permutation, so that the choice costs no validity; ``method="permutation"`` only.
    method : {"permutation", "gamma", "normal"}
        ``"permutation"``: the part of random permutations of the labels in which HSIC is as
        large. Right for every number of samples; the p-value is at least
        ``1 / (1 + n_permutations)``. With covariates it is the residuals of the labels that are
        permuted, and projected again (Freedman and Lane, 1983), which is about right from a few
        tens of samples on. What covariates explain linearly is taken out of real labels, and of the
        features of all others; what they explain nonlinearly counts as dependence.
        ``"gamma"``: a gamma distribution with mean, variance and skewness of all permutations
        (Gretton et al., 2008; Kazi-Aoual et al., 1995), in closed form: no permutation is drawn,
        and a p-value may be as small as it is. From 50 samples on p-values are about right down to
        0.001, and within a factor of two at 0.0001; of classes of genotypes, whose HSIC takes few
        values, within a factor of two throughout.
        ``"normal"``: HSIC_1 over its standard error (JMLR Theorem 5, eq. 15), which is normal
        where X and Y *depend* on each other. Where they do not, HSIC_1 varies by less, O(1/m)
        against O(1/sqrt(m)): the test is conservative, and mostly weaker. It is for the size of
        a dependence, ``result.interval()``, rather than for its existence.
    n_permutations : int
        How many are drawn.
    random_state : int
        Seed of the permutations.
    by_position : bool
        Rows of `Y` and `covariates` are in the order of X, whatever they are called.

    Returns
    -------
    TestResult
        Statistic, p-value and what they come from.

    Raises
    ------
    InputError
        As of `dhsic.hsic`; data that do not vary, an unknown method, no permutations.
    MemoryBudgetError
        Matrices of all pairs of samples are needed and do not fit. Labels and data of few features
        need none.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.independence import hsic_test
    >>> x = np.linspace(-1, 1, 50)
    >>> print(hsic_test(x, x**2))
    HSIC = 0.02872, p = 0.000999 (permutation of 1,000; 50 samples, sigma = 1.33)
    >>> hsic_test(x, np.tile([0, 1], 25)).p_value > 0.5
    True
    """
    chosen = resolve_kernel(kernel)
    asked = Asked.of(X, Y, chosen, label_kernel, estimator, covariates, by_position=by_position)
    check_coded(X, Y=asked.Y, covariates=asked.covariates)
    policy, draws = resolve_bandwidth(bandwidth), Draws(method, n_permutations, random_state)
    question = Question(asked.labels(), asked.covariates, asked.kernel, policy, estimator, draws)
    values = matrix_of(X, question.labels.n_samples)
    if not np.ptp(values, axis=0).any():
        raise InputError(
            f"X does not vary over its {len(values)} samples: nothing depends on it. Check which "
            "column was passed."
        )
    return answer(question, values)

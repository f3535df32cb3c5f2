"""Tests of independence of two sets of columns: what they find, and where p-values come from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.stats import norm

from dhsic._typing import Float
from dhsic.criteria.null import (
    Moments,
    moments_permuted,
    p_of_gamma,
    p_of_normal,
    p_of_permutations,
    rounding_of,
    values_permuted,
)
from dhsic.errors import InputError, MemoryBudgetError
from dhsic.hsic import estimated, variance_of_hsic
from dhsic.independence.estimate import HsicSpec, check_seed, matched, tiled
from dhsic.joins.text import check_coded
from dhsic.kernels.bandwidth import DistanceStats, Grid, few_samples
from dhsic.kernels.base import AbstractKernel, dense_kernel, low_rank_kernel
from dhsic.kernels.statistic import Statistic
from dhsic.linalg.covariates import covariate_basis, nothing_left, regained
from dhsic.linalg.symmetric import DenseSymmetric, Symmetric
from dhsic.memory import available_bytes, human
from dhsic.validation import is_count

METHODS = ("permutation", "gamma", "normal")
#: (m, m) matrices of float64 at the peak of a test that writes them out, besides one a width.
SQUARES = 6
#: Part of the labels that is nothing.
NOTHING = 1e-12


@dataclass(frozen=True)
class TestResult:
    """What a test of independence found.

    Attributes
    ----------
    statistic : float
        HSIC.
    p_value : float
        Probability of a statistic as large if X and Y were independent.
    method : str
        Where that comes from: "permutation", "gamma" or "normal".
    n_samples : int
        m.
    n_permutations : int
        Permutations drawn, 0 by the other methods.
    null_mean, null_variance : float
        Of the statistic under independence: of the permutations drawn, or in closed form of all
        of them (``"gamma"``). For ``"normal"`` 0 and the variance of JMLR Theorem 5, which is
        that of HSIC_1 under dependence.
    sigma : float
        Width of the data kernel; 1 for a kernel that has none.
    """

    __test__: ClassVar[bool] = False  # pytest takes classes of this name for tests

    statistic: float
    p_value: float
    method: str
    n_samples: int
    n_permutations: int
    null_mean: float
    null_variance: float
    sigma: float

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Confidence interval of HSIC (JMLR Theorem 5); for X and Y that depend on each other.

        Parameters
        ----------
        level : float
            Probability that it holds HSIC, in (0, 1).

        Raises
        ------
        InputError
            A test by another method, or a level outside (0, 1).
        """
        if self.method != "normal":
            raise InputError(
                f"A test with method={self.method!r} knows HSIC under independence only, and "
                "gives no interval; pass method='normal'."
            )
        if isinstance(level, bool) or not 0 < level < 1:
            raise InputError(f"level={level!r}; pass a number between 0 and 1, such as 0.95.")
        reach = float(norm.ppf((1.0 + level) / 2.0)) * float(np.sqrt(self.null_variance))
        return self.statistic - reach, self.statistic + reach

    def __str__(self) -> str:
        drawn = f" of {self.n_permutations:,}" if self.n_permutations else ""
        return (
            f"HSIC = {self.statistic:.4g}, p = {self.p_value:.3g} ({self.method}{drawn}; "
            f"{self.n_samples:,} samples, sigma = {self.sigma:.3g})"
        )


@dataclass(frozen=True, eq=False)
class HsicTest:
    """A test of any data against the same labels, which are worked on once."""

    spec: HsicSpec
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
        check_seed(self.seed)
        estimator = self.spec.estimator
        if self.method == "normal" and estimator != "unbiased":
            raise InputError(
                f"method='normal' is about the unbiased estimator, and estimator="
                f"{estimator!r}; pass estimator='unbiased', or method='permutation'."
            )
        if self.method != "permutation" and self._grid and self.spec.kernel.has_bandwidth:
            raise InputError(
                f"Of {len(self._grid)} bandwidths the one with the largest HSIC is taken, "
                f"which method={self.method!r} knows nothing of; pass one of them, or "
                "method='permutation'."
            )

    def of(self, X: Float) -> TestResult:
        """Test of X (m, d)."""
        X = self.spec.centred(X)
        self.spec.check_overflow(np.einsum("ij,ij->i", X, X))
        sigmas = self._sigmas(X)
        return self._normal(X, *sigmas) if self.method == "normal" else self._permuted(X, sigmas)

    def _permuted(self, X: Float, sigmas: tuple[float, ...]) -> TestResult:
        """Result by the largest HSIC of all widths, against permutations or their moments."""
        C, rounding, forms = self.C, 0.0, []
        for sigma in sigmas:
            A = estimated(self._K(X, sigma), self.spec.estimator)
            rounding = max(rounding, rounding_of(C, A))
            forms.append(A.projected(self.Q))
        as_they_are, times = np.arange(len(X))[None, :], regained(self.Q)
        observed = [float(C.inner(as_they_are, [A])[0, 0]) for A in forms]
        best = int(np.argmax(observed))
        if self.method == "gamma":
            null, n = moments_permuted(C, forms[best]), 0
            null = Moments(times * null.mean, times**2 * null.variance, null.skewness)
            p_value = p_of_gamma(observed[best], null, rounding)
            mean, variance = null.mean, null.variance
        else:
            n = self.n_permutations
            drawn = times * values_permuted(C, forms, n, self.seed).max(axis=0)
            p_value = p_of_permutations(observed[best], drawn, rounding)
            mean, variance = float(drawn.mean()), float(drawn.var())
        found = observed[best], p_value, self.method, len(X), n, mean, variance
        return TestResult(*found, sigmas[best])

    def _normal(self, X: Float, sigma: float) -> TestResult:
        """Result by the standard error of HSIC_1 (JMLR Theorem 5)."""
        row_sums, smoothed = tiled(self.spec, X).influence(sigma)
        observed, variance = float(row_sums.sum()), variance_of_hsic(row_sums, smoothed)
        p_value = p_of_normal(observed, variance)
        return TestResult(observed, p_value, "normal", len(X), 0, 0.0, variance, sigma)

    @cached_property
    def Q(self) -> Float:
        """Basis of what is taken out of the labels."""
        return covariate_basis(self.spec.covariates, self.spec.labels.n_samples)

    @cached_property
    def C(self) -> Symmetric:
        """Residual labels, ``R L R``."""
        L: Symmetric | None = self.spec.labels.low_rank()
        if L is None:
            self._check_room()
            L = DenseSymmetric(self.spec.labels.L)
        C = L.projected(self.Q)
        if np.abs(C.diagonal).max() <= NOTHING * np.abs(L.diagonal).max():
            raise nothing_left()
        return C

    def _K(self, X: Float, sigma: float) -> Symmetric:
        """Kernel of X (m, d); where C is dense one of low rank would not help."""
        kernel = self.spec.kernel
        K = None if isinstance(self.C, DenseSymmetric) else low_rank_kernel(kernel, X, sigma)
        if K is not None:
            return K
        self._check_room()
        return dense_kernel(kernel, X, sigma)

    @property
    def _grid(self) -> tuple[float, ...]:
        """Widths that are to be tried, where the one with the largest HSIC is taken."""
        policy = self.spec.policy
        return policy.sigmas if isinstance(policy, Grid) else ()

    def _sigmas(self, X: Float) -> tuple[float, ...]:
        """Widths of the kernel of X (m, d), one or those that are to be tried."""
        if not self.spec.kernel.has_bandwidth:
            return (1.0,)
        if self._grid:
            return self._grid
        few = few_samples(X)
        known = DistanceStats(self.spec.kernel, None, Statistic.of(few @ few.T))
        return (self.spec.policy(known, X.shape[1]),)

    def _check_room(self) -> None:
        m = self.spec.labels.n_samples
        needed, left = (SQUARES + (len(self._grid) or 1)) * 8 * m * m, available_bytes()
        if needed > left:
            raise MemoryBudgetError(
                f"Kernel matrices of {m:,} x {m:,} samples take {human(needed)}, and there are "
                f"{human(left)}. Test on fewer samples, or on fewer features at a time (one needs "
                "no such matrix), or pass method='normal'."
            )


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
    labels, C = matched(X, Y, covariates, by_position=by_position)
    check_coded(X, Y=labels, covariates=C)
    spec = HsicSpec.of(labels, C, kernel, label_kernel, bandwidth, estimator)
    test = HsicTest(spec, method, n_permutations, random_state)
    values = spec.matrix_of(X)
    if not np.ptp(values, axis=0).any():
        raise InputError(
            f"X does not vary over its {len(values)} samples: nothing depends on it. Check which "
            "column was passed."
        )
    return test.of(values)

"""Test of independence of two sets of variables, with several methods for p-values."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtri

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
from dhsic.renamed import takes_former_names
from dhsic.validation import is_count

METHODS = ("permutation", "gamma", "normal")
#: Number of (m, m) float64 matrices at the memory peak of a dense test, plus one per width.
SQUARES = 6
#: Covariates explain the labels completely if they leave a smaller fraction unexplained.
NOTHING = 1e-12


@dataclass(frozen=True)
class TestResult:
    """Result of a test of independence.

    Attributes
    ----------
    statistic : float
        HSIC.
    p_value : float
        Probability of a statistic at least this large if X and Y were independent.
    method : str
        Method of the p-value: "permutation", "gamma" or "normal".
    n_samples : int
        Number of samples m.
    n_permutations : int
        Number of random permutations; 0 for the other methods.
    null_mean, null_variance : float
        Mean and variance of the statistic under independence: over the random permutations, or in
        closed form over all permutations (``"gamma"``). For ``"normal"``: 0, and the variance of
        HSIC_1 under dependence (JMLR Theorem 5).
    sigma : float
        Width of the data kernel; 1 for a kernel without a width.
    """

    __test__: ClassVar[bool] = False  # pytest would collect it by its name

    statistic: float
    p_value: float
    method: str
    n_samples: int
    n_permutations: int
    null_mean: float
    null_variance: float
    sigma: float

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Confidence interval of HSIC (JMLR Theorem 5), for X and Y that depend on each other.

        Parameters
        ----------
        level : float
            Probability that the interval contains HSIC, in (0, 1).

        Raises
        ------
        InputError
            If the test used another method, or the level is outside (0, 1).
        """
        if self.method != "normal":
            raise InputError(
                f"A test with method={self.method!r} has no confidence interval, because it only "
                "describes HSIC under independence; pass method='normal'."
            )
        if isinstance(level, bool) or not 0 < level < 1:
            raise InputError(
                f"level={level!r} is out of range. Pass a number between 0 and 1, such as 0.95."
            )
        reach = float(ndtri((1.0 + level) / 2.0)) * float(np.sqrt(self.null_variance))
        return self.statistic - reach, self.statistic + reach

    def __str__(self) -> str:
        of_permutations = f", {self.n_permutations:,} draws" if self.n_permutations else ""
        return (
            f"HSIC = {self.statistic:.4g}, p = {self.p_value:.3g} ({self.method}{of_permutations}; "
            f"{self.n_samples:,} samples, sigma = {self.sigma:.3g})"
        )


@dataclass(frozen=True, eq=False)
class HsicTest:
    """Test of independence for several data sets and the same labels, which are processed once."""

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
                f"n_permutations={self.n_permutations!r} is invalid. Pass a whole number >= 1, "
                "such as 1000."
            )
        check_seed(self.seed)
        statistic = self.spec.statistic
        if self.method == "normal" and statistic != "unbiased":
            raise InputError(
                f"method='normal' needs the unbiased estimator, but statistic={statistic!r}; pass "
                "statistic='unbiased', or method='permutation'."
            )
        if self.method != "permutation" and self._grid and self.spec.kernel.has_bandwidth:
            raise InputError(
                f"method={self.method!r} does not account for the choice among "
                f"{len(self._grid)} bandwidths; pass one bandwidth, or method='permutation'."
            )

    def of(self, X: Float) -> TestResult:
        """Test X (m, d) against the labels."""
        X = self.spec.centred(X)
        self.spec.check_overflow(np.einsum("ij,ij->i", X, X))
        sigmas = self._sigmas(X)
        return self._normal(X, *sigmas) if self.method == "normal" else self._permuted(X, sigmas)

    def _permuted(self, X: Float, sigmas: tuple[float, ...]) -> TestResult:
        """Test the largest HSIC over all widths, by permutations or their moments."""
        C, rounding, forms = self.C, 0.0, []
        for sigma in sigmas:
            A = estimated(self._K(X, sigma), self.spec.statistic)
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
            permuted = times * values_permuted(C, forms, n, self.seed).max(axis=0)
            p_value = p_of_permutations(observed[best], permuted, rounding)
            mean, variance = float(permuted.mean()), float(permuted.var())
        results = observed[best], p_value, self.method, len(X), n, mean, variance
        return TestResult(*results, sigmas[best])

    def _normal(self, X: Float, sigma: float) -> TestResult:
        """Test HSIC_1 with its standard error (JMLR Theorem 5)."""
        row_sums, smoothed = tiled(self.spec, X).influence(sigma)
        observed, variance = float(row_sums.sum()), variance_of_hsic(row_sums, smoothed)
        p_value = p_of_normal(observed, variance)
        return TestResult(observed, p_value, "normal", len(X), 0, 0.0, variance, sigma)

    @cached_property
    def Q(self) -> Float:
        """Orthonormal basis (m, q) of the mean and covariates, which are removed from labels."""
        return covariate_basis(self.spec.covariates, self.spec.labels.n_samples)

    @cached_property
    def C(self) -> Symmetric:
        """Residual label matrix ``R L R``, where R projects out the mean and the covariates."""
        L: Symmetric | None = self.spec.labels.low_rank()
        if L is None:
            self._check_room()
            L = DenseSymmetric(self.spec.labels.L)
        C = L.projected(self.Q)
        if np.abs(C.diagonal).max() <= NOTHING * np.abs(L.diagonal).max():
            raise nothing_left()
        return C

    def _K(self, X: Float, sigma: float) -> Symmetric:
        """Compute the kernel matrix of X (m, d), in low rank if possible and if C has low rank."""
        kernel = self.spec.kernel
        K = None if isinstance(self.C, DenseSymmetric) else low_rank_kernel(kernel, X, sigma)
        if K is not None:
            return K
        self._check_room()
        return dense_kernel(kernel, X, sigma)

    @property
    def _grid(self) -> tuple[float, ...]:
        """Candidate widths of the kernel; the one with the largest HSIC is used."""
        policy = self.spec.policy
        return policy.sigmas if isinstance(policy, Grid) else ()

    def _sigmas(self, X: Float) -> tuple[float, ...]:
        """Widths of the kernel on X (m, d): a single one, or all candidates."""
        if not self.spec.kernel.has_bandwidth:
            return (1.0,)
        if self._grid:
            return self._grid
        few = few_samples(X)
        stats = DistanceStats(self.spec.kernel, None, Statistic.of(few @ few.T))
        return (self.spec.policy(stats, X.shape[1]),)

    def _check_room(self) -> None:
        m = self.spec.labels.n_samples
        needed, free = (SQUARES + (len(self._grid) or 1)) * 8 * m * m, available_bytes()
        if needed > free:
            raise MemoryBudgetError(
                f"Kernel matrices of {m:,} x {m:,} samples need {human(needed)}, but only "
                f"{human(free)} are available. Test on fewer samples, or on fewer features at a "
                "time (a single feature needs no such matrix), or pass method='normal'."
            )


@takes_former_names
def hsic_test(
    X: Any,
    Y: Any,
    *,
    kernel: str | AbstractKernel = "gaussian",
    label_kernel: str = "auto",
    bandwidth: object = "median",
    statistic: str = "unbiased",
    covariates: Any = None,
    method: str = "permutation",
    n_permutations: int = 1000,
    random_state: int = 0,
    by_position: bool = False,
) -> TestResult:
    """Test whether X and Y are independent, by their HSIC.

    A small p-value is evidence of dependence. The kernels determine which dependence is detected;
    the Gaussian kernel detects every kind (JMLR 2.3). Use ``"permutation"`` unless it is too slow.

    Parameters
    ----------
    X : (m, d) or (m,) array
        Data, used as they are (standardise them first if their scales differ).
    Y : (m,) or (m, t) array
        Labels; (m, m) for ``label_kernel="precomputed"``.
    kernel, label_kernel, bandwidth, estimator, covariates
        See `dhsic.hsic`. In a list of bandwidths, the one with the largest HSIC is used. It is
        chosen again in every permutation, so the test stays valid. A list needs
        ``method="permutation"``.
    method : {"permutation", "gamma", "normal"}
        ``"permutation"``: the fraction of random permutations of the labels with an HSIC at least
        as large. Valid for any number of samples; the p-value is at least
        ``1 / (1 + n_permutations)``. With covariates the residuals of the labels are permuted and
        projected again (Freedman and Lane, 1983), which is approximately valid from a few tens of
        samples on. Linear effects of covariates are removed from real labels, and from the kernel
        features of other labels; their nonlinear effects count as dependence.
        ``"gamma"``: a gamma distribution with the mean, variance and skewness of all permutations
        (Gretton et al., 2008; Kazi-Aoual et al., 1995), in closed form: no permutations are drawn,
        and p-values have no lower limit. From 50 samples on p-values are approximately right down
        to 0.001, and within a factor of two at 0.0001; for classes and genotypes, whose HSIC takes
        few values, they are within a factor of two throughout.
        ``"normal"``: HSIC_1 over its standard error (JMLR Theorem 5, eq. 15), which is normal if X
        and Y *depend* on each other. If they do not, HSIC_1 varies less, O(1/m) instead of
        O(1/sqrt(m)): the test is conservative, and mostly less powerful. Use it to estimate the
        strength of a dependence, ``result.interval()``, rather than to detect one.
    n_permutations : int
        Number of random permutations.
    random_state : int
        Seed of the permutations.
    by_position : bool
        Match rows of `Y` and `covariates` to rows of X by position instead of by name.

    Returns
    -------
    TestResult
        Statistic, p-value, and the parameters of the test.

    Raises
    ------
    InputError
        Like `dhsic.hsic`; or if the data do not vary, or the method or number of permutations is
        invalid.
    MemoryBudgetError
        If matrices of all pairs of samples are needed and do not fit. Data of few features
        do not need them.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.independence import hsic_test
    >>> x = np.linspace(-1, 1, 50)
    >>> print(hsic_test(x, x**2))
    HSIC = 0.02872, p = 0.000999 (permutation, 1,000 draws; 50 samples, sigma = 1.33)
    >>> hsic_test(x, np.tile([0, 1], 25)).p_value > 0.5
    True
    """
    labels, C = matched(X, Y, covariates, by_position=by_position)
    check_coded(X, Y=labels, covariates=C)
    spec = HsicSpec.of(labels, C, kernel, label_kernel, bandwidth, statistic)
    test = HsicTest(spec, method, n_permutations, random_state)
    values = spec.matrix_of(X)
    if not np.ptp(values, axis=0).any():
        raise InputError(
            f"X is constant over its {len(values)} samples, so nothing depends on it. Check that "
            "the correct column was passed."
        )
    return test.of(values)

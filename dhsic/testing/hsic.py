"""The test of X and Y as they are given."""

from __future__ import annotations

from typing import Any

import numpy as np

from dhsic.errors import InputError
from dhsic.estimate import Asked, matrix_of
from dhsic.kernels.bandwidth import resolve_bandwidth
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.choosing import resolve_kernel
from dhsic.sources.target import check_coded
from dhsic.testing.answers import answer
from dhsic.testing.draws import Draws
from dhsic.testing.question import Question
from dhsic.testing.result import TestResult


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
    >>> from dhsic.testing import hsic_test
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

"""Tests of single features of a source, and of all of them together."""

# ruff: noqa: PT028  # `test_features` is no test of pytest's, and has defaults

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import false_discovery_control

from dhsic._typing import Array, Float, Index
from dhsic.kernels.bandwidth import resolve_bandwidth
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.choosing import resolve_kernel
from dhsic.sources.opening import open_source
from dhsic.sources.target import Joined, as_covariates, as_labels, check_coded, count_labels
from dhsic.testing.answers import answer
from dhsic.testing.columns import columns_of
from dhsic.testing.draws import Draws
from dhsic.testing.places import features_at, rows_at
from dhsic.testing.question import Question
from dhsic.testing.result import TestResult
from dhsic.testing.rows import covariates_of, labels_of


@dataclass(frozen=True, eq=False, repr=False)
class FeatureTests:
    """What tests of single features, and of all of them together, found.

    Attributes
    ----------
    features : (n,) int64
        Which, by their position in X.
    names : (n,) array of str or None
        Their names, where X has any.
    statistics, p_values, sigmas : (n,) float64
        HSIC of every feature alone, its p-value and its width.
    adjusted : (n,) float64
        p-values after Benjamini and Hochberg: features at or below 0.05 hold at most about 5%
        that do not depend on Y.
    together : TestResult
        The test of all of them as one set.
    """

    features: Index
    names: Array | None
    statistics: Float
    p_values: Float
    adjusted: Float
    sigmas: Float
    together: TestResult

    def __str__(self) -> str:
        names = [str(j) for j in (self.features if self.names is None else self.names)]
        width = max(7, *map(len, names))
        lines = [f"{'feature':<{width}}  {'HSIC':>10}  {'p':>9}  {'adjusted':>9}"]
        values = zip(names, self.statistics, self.p_values, self.adjusted, strict=True)
        lines += [f"{name:<{width}}  {h:10.4g}  {p:9.3g}  {q:9.3g}" for name, h, p, q in values]
        return "\n".join([*lines, f"together: {self.together}"])

    __repr__ = __str__

    def to_dataframe(self) -> pd.DataFrame:
        """A row for each feature, by its position in X."""
        columns = {} if self.names is None else {"name": self.names}
        values = {name: getattr(self, name) for name in ("statistics", "p_values", "adjusted")}
        index = pd.Index(self.features, name="feature")
        return pd.DataFrame({**columns, **values, "sigma": self.sigmas}, index=index)


def test_features(
    X: Any,
    Y: Any,
    features: Any = None,
    *,
    rows: Any = None,
    standardize: bool | str = "auto",
    missing: str = "mean",
    kernel: str | AbstractKernel = "gaussian",
    label_kernel: str = "auto",
    bandwidth: object = "median",
    estimator: str = "unbiased",
    covariates: Any = None,
    method: str = "permutation",
    n_permutations: int = 1000,
    random_state: int = 0,
    sample_dim: str | int | None = None,
    variable: str | None = None,
    missing_code: Any = "auto",
    by_position: bool = False,
) -> FeatureTests:
    """Test features one by one, and together, for independence of Y.

    p-values of features that were selected on the same samples are too small; select on some
    samples and test on the others, which `rows` names.

    Parameters
    ----------
    X : (m, d) array or store
        Whatever `dhsic.open_source` reads; of a store the features asked for alone are read.
    Y : (m,) or (m, t) array, or str
        Labels of all samples, or the name of the variable of X that holds them.
    features : (n,) array, optional
        Positions or names of features, or a mask (d,) such as ``model.support_``; all by default.
        Those asked for are held in memory, (m, n) float64.
    rows : (m',) array, optional
        Positions of the samples to test on, or a mask (m,); all by default.
    standardize : "auto" or bool
        To unit deviation over the samples tested on, as of `BAHSIC`; to zero mean in any case.
    missing : {"mean", "error"}
        Missing values become the mean of their feature, or are refused.
    kernel, label_kernel, bandwidth, estimator, covariates, method, n_permutations, random_state
        As of `hsic_test`; covariates are those of all samples. Every feature meets the same
        permutations.
    sample_dim, variable, missing_code
        As of `dhsic.open_source`.
    by_position : bool
        Rows of `Y` and `covariates` are in the order of X, whatever they are called.

    Returns
    -------
    FeatureTests
        Arrays along `features`, and the test of the set. A feature that does not vary has
        p-value 1 and no width (NaN).

    Raises
    ------
    InputError
        As of `hsic_test`; features or rows that X does not have.
    DataError
        A chunk of a store is missing or damaged.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.testing import test_features
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 3))
    >>> found = test_features(X, X[:, 1] ** 2, n_permutations=199)
    >>> np.flatnonzero(found.adjusted < 0.05)
    array([1])
    """
    labels = as_labels(Y, X)
    n_labels = count_labels(Y, labels, by_position=by_position)
    source = open_source(
        X,
        variable=variable,
        sample_dim=sample_dim,
        n_samples=n_labels,
        missing_code=missing_code,
    )
    joined = Joined.of(source, X, by_position=by_position, Y=Y, covariates=covariates)
    which, taken = features_at(features, source), rows_at(rows, source.n_samples)
    chosen, policy = resolve_kernel(kernel), resolve_bandwidth(bandwidth)
    labels = joined.take("Y", labels)
    C = covariates_of(joined.take("covariates", as_covariates(covariates)), source.n_samples, taken)
    check_coded(X, Y=labels if taken is None else labels[taken], covariates=C)
    question = Question(
        labels_of(labels, label_kernel, taken, C),
        C,
        chosen,
        policy,
        estimator,
        Draws(method, n_permutations, random_state),
    )
    Z, constant = columns_of(
        source, which, taken, missing, standardize=standardize, has_bandwidth=chosen.has_bandwidth
    )
    together = answer(question, Z)
    alone = [
        replace(together, statistic=0.0, p_value=1.0, sigma=np.nan)
        if still
        else answer(question, Z[:, [k]])
        for k, still in enumerate(constant)
    ]
    names = source.feature_names()
    p_values = np.array([test.p_value for test in alone])
    return FeatureTests(
        which,
        None if names is None else np.asarray(names)[which],
        np.array([test.statistic for test in alone]),
        p_values,
        np.asarray(false_discovery_control(p_values)),
        np.array([test.sigma for test in alone]),
        together,
    )


test_features.__test__ = False  # type: ignore[attr-defined]  # pytest takes it for a test

"""What users call: selectors in scikit-learn's manner, and `select` for stores and datasets."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import xarray as xr
from sklearn.base import BaseEstimator
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from dhsic._typing import Array, Mask
from dhsic.errors import InputError
from dhsic.given import as_array
from dhsic.parameters import Parameters
from dhsic.results import ranking, to_dataset
from dhsic.run import Outcome, Run
from dhsic.runtime.choosing import choose_runtime
from dhsic.sources.arrays import ArraySource, Names
from dhsic.sources.base import AbstractSource
from dhsic.sources.inmemory import check_in_memory, check_turned
from dhsic.sources.opening import open_source
from dhsic.sources.taking import take_features
from dhsic.sources.target import as_labels, check_names


class _Selector(SelectorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """What all selectors share: reading X, running, and the fitted attributes."""

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        covariates: Any = None,
        sample_dim: str | int | None = None,
        variable: str | None = None,
    ) -> Self:
        """Rank the features of X by the dependence of y on them.

        Parameters
        ----------
        X : (m, d) array or store
            NumPy array, dask array, `xarray.DataArray` or `Dataset`, `zarr.Array`, or the path
            or URL of a plain Zarr array or of a VCF Zarr store.
        y : (m,) or (m, t) array, or str
            Labels, one row a sample; (m, m) for ``label_kernel="precomputed"``; or the name of
            the variable of X that holds them. Where y and X both name their samples, the names
            must be in one order.
        covariates : (m, q) array, optional
            Linear effects to take out of the labels (age, sex, principal components).
        sample_dim : str or int, optional
            Name or axis of the samples where X does not tell.
        variable : str, optional
            Which variable of a dataset or group holds the data.

        Returns
        -------
        self

        Raises
        ------
        InputError, DataError, CheckpointError, MemoryBudgetError
            See `dhsic.errors`; each says what to do.
        """
        if y is None:
            raise InputError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target "
                "y is None. Pass one label a sample."
            )
        labels = as_labels(y, X)
        source = self._open(X, len(labels), sample_dim, variable)
        check_names(source, X, y=y, covariates=covariates)
        count = self._count(source.n_features)
        runtime = choose_runtime(self.runtime)
        run = Run(
            source,
            labels,
            self._parameters(),
            runtime,
            covariates=None if covariates is None else as_array(covariates, "covariates"),
            checkpoint=self.checkpoint,
            progress=self.progress,
            memory=self.memory,
        )
        try:
            self._keep(run.execute(), count)
        finally:
            if runtime is not self.runtime:
                runtime.close()
        return self

    def _open(
        self, X: Any, n_labels: int, sample_dim: str | int | None, variable: str | None
    ) -> AbstractSource:
        if sample_dim is None and _is_array_like(X):
            matrix = self._validated(X, variable)
            check_turned(matrix.shape, n_labels)
            known = Names(features=getattr(self, "feature_names_in_", None))
            return ArraySource(matrix, names=known)
        source = open_source(X, variable=variable, sample_dim=sample_dim, n_samples=n_labels)
        self.n_features_in_ = source.n_features
        names = source.feature_names()
        if names is not None:
            self.feature_names_in_ = np.asarray(names, dtype=object)
        return source

    def _validated(self, X: Any, variable: str | None) -> Array:
        """X as scikit-learn takes it; what NumPy would spoil or refuse gets a sentence."""
        check_in_memory(X, variable)
        try:
            return np.asarray(validate_data(self, X, ensure_all_finite=False))
        except ValueError as error:
            raise InputError(
                f"X cannot be read: {str(error).splitlines()[0].rstrip('.:')}. Pass a matrix of "
                "numbers, samples as rows."
            ) from error

    @abstractmethod
    def _parameters(self) -> Parameters:
        """Parameters of the run that `fit` makes."""

    def _count(self, d: int) -> int:
        return how_many(self.n_features_to_select, d)

    def _keep(self, outcome: Outcome, count: int) -> None:
        self.ranking_ = ranking(outcome.order)
        self.support_ = self.ranking_ <= count
        self.result_ = to_dataset(outcome, count)
        self.scores_ = self.result_["score"].to_numpy()
        self.n_features_ = int(self.support_.sum())
        self.n_iter_ = outcome.state.round

    def _get_support_mask(self) -> Mask:
        check_is_fitted(self)
        return np.asarray(self.support_)

    def transform(self, X: Any) -> Any:
        """Selected features of X, in their original order; lazy input stays lazy."""
        check_is_fitted(self)
        if _is_array_like(X):
            return super().transform(X)
        return take_features(X, np.flatnonzero(self.support_), self.n_features_in_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.target_tags.two_d_labels = True
        tags.input_tags.allow_nan = self.missing == "mean"
        return tags


class BAHSIC(_Selector):
    r"""Backward elimination with HSIC (Song et al. 2012, JMLR 13, Algorithm 1).

    Starting from all features, each round removes those without which the rest depends most on
    the labels, until none is left; the last to leave is the best.

    Parameters
    ----------
    n_features_to_select : int, float or None
        How many to select: a count, a fraction of all, or half of them (None). It only cuts the
        ranking, which always covers all features.
    step : float or int
        Removed per round: a fraction of the features left, or a count.
    kernel : {"gaussian", "polynomial", "linear"} or kernel object
        Kernel on the data; ``"polynomial"`` is ``(<x, x'> + 1)^2``.
    bandwidth : "dimension", "median", float or sequence of floats
        Sigma of ``exp(-sigma ||x - x'||^2)``: ``1/(2|S|)`` for |S| features left, the median
        rule, a fixed number, or the one of a grid that maximises HSIC (JMLR 4.1). Kernels that
        have no width refuse any but the default.
    label_kernel : str
        See `dhsic.kernels.labels.label_matrix`.
    estimator : {"unbiased", "biased"}
        JMLR eq. 5 or eq. 4.
    approx : {"auto", "exact", "lowrank", "direct"}
        How candidates are scored: by the kernel's expansion, exact in its result (``"exact"``);
        in linear time, by low-rank factors (``"lowrank"``); the one or the other by their cost
        (``"auto"``: exact where a round takes seconds); or by the definition (``"direct"``).
        Low rank comes with a certificate in every round, see `tolerance`.
    tolerance : float
        Part of the features leaving in a round that low rank may get wrong. Where its estimated
        error is larger, more of the kernel matrix is computed; the history has the estimate
        (``round_cut_error``). Has no effect on exact rounds.
    standardize : bool
        Scale features to zero mean and unit standard deviation.
    missing : {"mean", "error"}
        Missing values become the mean of their feature, or are refused.
    checkpoint : path, optional
        Keep the state here after every round; a run that finds it goes on from there. The folder
        that it is in is made where it is not there, if the one above is.
    dtype : {"float32", "float64"}
        Of the large matrix products; what stays undecided is computed in float64 anyway.
    progress : "auto", bool or callable
        Progress bar, or a function called with a mapping after every round.
    random_state : int
        Seed of random draws: landmarks and samples of low rank; exact rounds make none.
    runtime : {"auto", "threads", "dask"} or runtime object
        Where tasks run; ``"auto"`` takes the active Dask client if there is one.
    memory : int, optional
        Most bytes the run may promise to need; what the machine has by default.

    Attributes
    ----------
    ranking_ : (d,) int
        1 is the best; a permutation of 1..d.
    support_ : (d,) bool
        The selected features.
    scores_ : (d,) float
        By how much HSIC falls without the feature, in the round it left; NaN where constant.
        Comparable within a round.
    result_ : xarray.Dataset
        All of this with the history of rounds; see `dhsic.results`.

    Examples
    --------
    >>> import numpy as np, dhsic
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 30))
    >>> y = (X[:, 3] * X[:, 7] > 0).astype(int)   # neither feature tells anything alone
    >>> model = dhsic.BAHSIC(n_features_to_select=2, kernel="polynomial").fit(X, y)
    >>> model.get_support(indices=True).tolist()
    [3, 7]
    """

    def __init__(
        self,
        n_features_to_select: int | float | None = 50,
        *,
        step: float | int = 0.1,
        kernel: Any = "gaussian",
        bandwidth: Any = "dimension",
        label_kernel: str = "auto",
        estimator: str = "unbiased",
        approx: str = "auto",
        tolerance: float = 0.02,
        standardize: bool = True,
        missing: str = "mean",
        checkpoint: str | Path | None = None,
        dtype: Any = "float32",
        progress: Any = "auto",
        random_state: Any = 0,
        runtime: Any = "auto",
        memory: int | None = None,
    ) -> None:
        self.n_features_to_select = n_features_to_select
        self.step = step
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.label_kernel = label_kernel
        self.estimator = estimator
        self.approx = approx
        self.tolerance = tolerance
        self.standardize = standardize
        self.missing = missing
        self.checkpoint = checkpoint
        self.dtype = dtype
        self.progress = progress
        self.random_state = random_state
        self.runtime = runtime
        self.memory = memory

    def _parameters(self) -> Parameters:
        return Parameters(
            step=self.step,
            kernel=self.kernel,
            bandwidth=self.bandwidth,
            label_kernel=self.label_kernel,
            estimator=self.estimator,
            approx=self.approx,
            tolerance=self.tolerance,
            standardize=self.standardize,
            missing=self.missing,
            dtype=self.dtype,
            random_state=self.random_state,
        )


class LinearHSIC(_Selector):
    """Ranking by the linear kernel's HSIC, one pass over the data (JMLR 5.1.1).

    ``score_j = x_j' W x_j``: backward and forward selection with the linear kernel agree and
    need no loop. Parameters as of `BAHSIC`.

    Examples
    --------
    >>> import numpy as np, dhsic
    >>> X = np.random.default_rng(0).standard_normal((100, 20))
    >>> dhsic.LinearHSIC(1).fit(X, X[:, 4] > 0).get_support(indices=True).tolist()
    [4]
    """

    def __init__(
        self,
        n_features_to_select: int | float | None = 50,
        *,
        label_kernel: str = "auto",
        estimator: str = "unbiased",
        standardize: bool = True,
        missing: str = "mean",
        checkpoint: str | Path | None = None,
        progress: Any = "auto",
        runtime: Any = "auto",
        memory: int | None = None,
    ) -> None:
        self.n_features_to_select = n_features_to_select
        self.label_kernel = label_kernel
        self.estimator = estimator
        self.standardize = standardize
        self.missing = missing
        self.checkpoint = checkpoint
        self.progress = progress
        self.runtime = runtime
        self.memory = memory

    def _parameters(self) -> Parameters:
        return Parameters(
            step=None,
            kernel="linear",
            label_kernel=self.label_kernel,
            estimator=self.estimator,
            standardize=self.standardize,
            missing=self.missing,
        )


def how_many(n_features_to_select: Any, d: int) -> int:
    """Number of features to select of d.

    Raises
    ------
    InputError
        Neither a count >= 1, a fraction in (0, 1), nor None.
    """
    n = n_features_to_select
    if n is None:
        return max(1, d // 2)
    whole = isinstance(n, (int, np.integer)) and not isinstance(n, (bool, np.bool_))
    if whole and n >= 1:
        if n > d:
            warnings.warn(
                f"n_features_to_select={n} exceeds the {d} features there are; all are selected.",
                stacklevel=4,
            )
        return min(int(n), d)
    if isinstance(n, (float, np.floating)) and 0 < n < 1:
        return max(1, int(n * d))
    raise InputError(
        f"n_features_to_select={n!r}; pass a count >= 1, a fraction in (0, 1) or None for half."
    )


def _is_array_like(X: Any) -> bool:
    """Whether scikit-learn's validation may see it: it would load anything lazy."""
    lazy = (str, Path, xr.DataArray, xr.Dataset, AbstractSource)
    module = type(X).__module__.split(".")[0]
    return not isinstance(X, lazy) and module not in ("dask", "zarr")


def select(
    data: Any,
    target: Any,
    *,
    method: str = "bahsic",
    n_features_to_select: int | float | None = 50,
    covariates: Any = None,
    sample_dim: str | int | None = None,
    variable: str | None = None,
    **parameters: Any,
) -> xr.Dataset:
    """Select features of a store or dataset; the result as a Dataset.

    Parameters
    ----------
    data : path, URL, Dataset, DataArray or array
        As for `BAHSIC.fit`; an open `AbstractSource` passes too.
    target : str or array
        Labels, or the name of the variable of `data` that holds them.
    method : {"bahsic", "linear"}
        `BAHSIC` or `LinearHSIC`.
    n_features_to_select, **parameters
        Passed to it.
    covariates : array, optional
        As for `BAHSIC.fit`.
    sample_dim, variable
        As for `BAHSIC.fit`.

    Returns
    -------
    xarray.Dataset
        See `dhsic.results`.
    """
    methods: Mapping[str, Any] = {"bahsic": BAHSIC, "linear": LinearHSIC}
    if method not in methods:
        raise InputError(f"method={method!r} is unknown; pass one of {', '.join(methods)}.")
    known = methods[method]._get_param_names()
    unknown = sorted(set(parameters) - set(known))
    if unknown:
        raise InputError(
            f"{', '.join(unknown)}: no parameter of method {method!r}; it has {', '.join(known)}."
        )
    model = methods[method](n_features_to_select, **parameters)
    model.fit(data, target, covariates=covariates, sample_dim=sample_dim, variable=variable)
    result: xr.Dataset = model.result_
    return result

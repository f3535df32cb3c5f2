"""Backward elimination, for users."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dhsic.fitting import Selector
from dhsic.parameters import Parameters
from dhsic.runs.elimination import Elimination


class BAHSIC(Selector):
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
        (``"auto"``: exact where a round takes seconds and samples are no more than 6,000, with
        kernels and labels that low rank knows); or by the definition (``"direct"``). Low rank
        comes with a certificate in every round, see `tolerance`; ``round_engine`` in the result
        says which it was. The choice goes by sizes alone, and is the same on every machine.
    tolerance : float
        Part of the features leaving in a round that low rank may get wrong. Where its estimated
        error is larger, more of the kernel matrix is computed; the history has the estimate
        (``round_cut_error``). Has no effect on exact rounds.
    standardize : "auto" or bool
        Scale features to unit standard deviation; they are centred in any case. ``"auto"`` leaves
        dosages (data of nothing but 0, 1, 2 and missing values) as they are, where rare variants
        would drown the others, and scales everything else. The result says which.
    missing : {"mean", "error"}
        Missing values become the mean of their feature, or are refused.
    stability : int
        How many random halves of the samples to select from besides: what part of them selects a
        feature says how far it can be trusted. Each takes as long as a run over half the samples.
    checkpoint : path or URL, optional
        Keep the state here after every round; a run that finds it goes on from there. The folder
        that it is in is made where it is not there, if the one above is. A URL of an object
        store, such as ``s3://bucket/run.dhsic``, needs ``dhsic[cloud]``, and keys in the
        environment.
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
    stability_ : (d,) float
        Part of the halves that select the feature; only with `stability`.
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

    _run = Elimination
    takes_groups = True

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
        standardize: bool | str = "auto",
        missing: str = "mean",
        stability: int = 0,
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
        self.stability = stability
        self.checkpoint = checkpoint
        self.dtype = dtype
        self.progress = progress
        self.random_state = random_state
        self.runtime = runtime
        self.memory = memory

    def parameters(self) -> Parameters:
        """What identifies the run that `fit` makes, besides the data."""
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

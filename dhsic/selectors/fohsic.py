"""Forward selection, for users."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dhsic.fitting import Selector
from dhsic.runs.forward import Forward
from dhsic.runs.forward_parameters import ForwardParameters


class FOHSIC(Selector):
    r"""Forward selection with HSIC (Song et al. 2012, JMLR 13, Algorithm 2).

    Starting from none, each round adds the features with which those chosen so far depend most
    on the labels. Cheaper than `BAHSIC` for a few features of many, and blind to features that
    say something only together (XOR): the first of them has nothing to show. Take it where
    features are expected to say something alone, and redundant ones are to be left out.

    Parameters
    ----------
    n_features_to_select : int, float or None
        How many to select: a count, a fraction of all, or half of them (None). The round that
        reaches it ranks all that is left by the same scores.
    step : int or float
        Added per round: a count, or a fraction of the features not chosen yet (the paper's gamma).
    strategy : {"forward", "floating"}
        Algorithm 2; or, after every addition, features chosen before leave again as long as what
        is left has a larger HSIC than any set of that size had (sequential floating selection,
        Pudil, Novovicova, Kittler 1994), one feature a round.
    kernel, label_kernel, estimator, standardize, missing, dtype
        As of `BAHSIC`.
    stability, checkpoint, progress, runtime, memory
        As of `BAHSIC`.
    bandwidth : "dimension", "median", float or sequence of floats
        As of `BAHSIC`, for one feature more than are chosen: ``1/(2(|S|+1))``. With none chosen
        the median is that of a normal feature, and a grid is searched for the largest HSIC of a
        single feature.
    approx : {"auto", "exact", "lowrank", "direct"}
        How candidates are scored: by an expansion, exact in its result; in linear time, with K of
        the features chosen in low rank (gaussian kernel); or by the definition. ``"auto"`` is exact
        up to 6,000 samples and low rank above; ``round_cut_error`` in the result estimates how
        likely each choice is another than by definition.
    random_state : int
        Seed of the landmarks of low rank.

    Attributes
    ----------
    ranking_ : (d,) int
        1 is the best; a permutation of 1..d.
    support_ : (d,) bool
        The selected features.
    scores_ : (d,) float
        By how much HSIC rose with the feature, in the round it joined; NaN where constant.
    result_ : xarray.Dataset
        All of this with the history of rounds; see `dhsic.results`.

    Examples
    --------
    >>> import numpy as np, dhsic
    >>> X = np.random.default_rng(0).standard_normal((200, 30))
    >>> y = X[:, 3] ** 2 + X[:, 7]
    >>> dhsic.FOHSIC(2).fit(X, y).get_support(indices=True).tolist()
    [3, 7]
    """

    _run = Forward
    takes_groups = True

    def __init__(
        self,
        n_features_to_select: int | float | None = 50,
        *,
        step: float | int = 1,
        strategy: str = "forward",
        kernel: Any = "gaussian",
        bandwidth: Any = "dimension",
        label_kernel: str = "auto",
        estimator: str = "unbiased",
        approx: str = "auto",
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
        self.strategy = strategy
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.label_kernel = label_kernel
        self.estimator = estimator
        self.approx = approx
        self.standardize = standardize
        self.missing = missing
        self.stability = stability
        self.checkpoint = checkpoint
        self.dtype = dtype
        self.progress = progress
        self.random_state = random_state
        self.runtime = runtime
        self.memory = memory

    def parameters(self) -> ForwardParameters:
        """What identifies the run that `fit` makes, besides the data."""
        return ForwardParameters(
            n_features_to_select=self.n_features_to_select,
            step=self.step,
            strategy=self.strategy,
            kernel=self.kernel,
            bandwidth=self.bandwidth,
            label_kernel=self.label_kernel,
            estimator=self.estimator,
            approx=self.approx,
            standardize=self.standardize,
            missing=self.missing,
            dtype=self.dtype,
            random_state=self.random_state,
        )

"""Rankings in one pass by the relatives of HSIC, for users."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dhsic.fitting import Selector
from dhsic.runs.once import Once, OnceParameters


class OnePass(Selector):
    r"""Ranking by a criterion of one feature at a time: the relatives of HSIC (JMLR section 6).

    One read of the data at any width. Features that say something only together are not seen;
    take it for a first look, to compare with, or where one of these is what a field reports.

    Parameters
    ----------
    n_features_to_select : int, float or None
        As of `BAHSIC`.
    criterion : str
        ``"pearson"`` (eq. 21), ``"centroid"``, ``"t"`` (eq. 24), ``"snr"``, ``"moderated-t"`` and
        ``"b"`` (Smyth 2004; eq. 25), ``"shrunken-centroid"`` (eq. 28), ``"mmd"`` (eq. 26),
        ``"kta"`` (6.4), ``"qmi"`` (eq. 30), ``"ridge"`` (eq. 29); see `dhsic.relatives`.
    standardize : "auto" or bool
        To unit deviation; ``"auto"`` does, but for the moderated t and B statistics, whose prior
        compares the variances of features.
    bandwidth : "dimension", "median" or float
        Sigma of the kernel on one feature (mmd, kta, qmi): 1/2, the median rule for each, or a
        number.
    label_kernel : str
        Of kta; as of `BAHSIC`.
    penalty : float
        Lambda of ridge.
    centroid_weight : float
        Lambda of centroid, the weight of the positive class.
    proportion : float
        Part of the features that are supposed to differ (b).
    missing, stability, checkpoint, progress, random_state, runtime, memory
        As of `BAHSIC`.

    Attributes
    ----------
    scores_ : (d,) float
        The criterion: larger is more relevant. Where it has a sign, `result_` has it as
        ``statistic``.
    ranking_, support_, result_
        As of `BAHSIC`.

    Examples
    --------
    >>> import numpy as np, dhsic
    >>> X = np.random.default_rng(0).standard_normal((100, 20))
    >>> dhsic.OnePass(1, criterion="t").fit(X, X[:, 4] > 0).get_support(indices=True).tolist()
    [4]
    """

    _run = Once

    def __init__(
        self,
        n_features_to_select: int | float | None = 50,
        *,
        criterion: str = "pearson",
        standardize: Any = "auto",
        missing: str = "mean",
        bandwidth: Any = "dimension",
        label_kernel: str = "auto",
        penalty: float = 1.0,
        centroid_weight: float = 0.5,
        proportion: float = 0.01,
        stability: int = 0,
        checkpoint: str | Path | None = None,
        progress: Any = "auto",
        random_state: Any = 0,
        runtime: Any = "auto",
        memory: int | None = None,
    ) -> None:
        self.n_features_to_select = n_features_to_select
        self.criterion = criterion
        self.standardize = standardize
        self.missing = missing
        self.bandwidth = bandwidth
        self.label_kernel = label_kernel
        self.penalty = penalty
        self.centroid_weight = centroid_weight
        self.proportion = proportion
        self.stability = stability
        self.checkpoint = checkpoint
        self.progress = progress
        self.random_state = random_state
        self.runtime = runtime
        self.memory = memory

    def parameters(self) -> OnceParameters:
        """What identifies the run that `fit` makes, besides the data."""
        return OnceParameters(
            criterion=self.criterion,
            standardize=self.standardize,
            missing=self.missing,
            bandwidth=self.bandwidth,
            label_kernel=self.label_kernel,
            penalty=self.penalty,
            centroid_weight=self.centroid_weight,
            proportion=self.proportion,
        )

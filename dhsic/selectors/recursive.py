"""Recursive feature elimination with support vectors, for users."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dhsic.fitting import Selector
from dhsic.runs.recursive import Recursive, RecursiveParameters


class SVMRFE(Selector):
    r"""Recursive feature elimination with support vectors (Guyon et al. 2002; JMLR 6.8).

    Each round solves a support vector machine on the surviving features and removes those without
    which its margin term ``1/2 alpha' (K o y y') alpha`` (eq. 31) decreases least, alpha held: HSIC
    with a conformal kernel. It looks at samples close to the boundary between classes only; take it
    to compare with, or where a machine is what the features are for.

    Parameters
    ----------
    n_features_to_select : int, float or None
        As of `BAHSIC`.
    penalty : float
        C of the machine.
    kernel : {"linear", "gaussian", "polynomial"} or kernel object
        Of the machine. With the linear kernel the criterion is ``w_j^2 / 2``.
    step, bandwidth, standardize, missing, approx, dtype
        As of `BAHSIC`; low rank is not to be had.
    stability, checkpoint, progress, random_state, runtime, memory
        As of `BAHSIC`.

    Notes
    -----
    Labels are classes; more than two take a machine for each against the rest, and their terms add
    up. The machine is scikit-learn's `SVC`, on the m x m kernel matrix.

    Examples
    --------
    >>> import numpy as np, dhsic
    >>> X = np.random.default_rng(0).standard_normal((100, 20))
    >>> dhsic.SVMRFE(1).fit(X, X[:, 4] > 0).get_support(indices=True).tolist()
    [4]
    """

    _run = Recursive

    def __init__(
        self,
        n_features_to_select: int | float | None = 50,
        *,
        step: float | int = 0.1,
        penalty: float = 1.0,
        kernel: Any = "linear",
        bandwidth: Any = "dimension",
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
        self.penalty = penalty
        self.kernel = kernel
        self.bandwidth = bandwidth
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

    def parameters(self) -> RecursiveParameters:
        """What identifies the run that `fit` makes, besides the data."""
        return RecursiveParameters(
            step=self.step,
            penalty=self.penalty,
            kernel=self.kernel,
            bandwidth=self.bandwidth,
            approx=self.approx,
            standardize=self.standardize,
            missing=self.missing,
            dtype=self.dtype,
        )

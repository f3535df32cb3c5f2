"""The linear kernel's one pass, for users."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dhsic.selectors.bahsic import Elimination
from dhsic.selectors.base import Selector
from dhsic.selectors.parameters import Parameters


class LinearHSIC(Selector):
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

    _run = Elimination

    def __init__(
        self,
        n_features_to_select: int | float | None = 50,
        *,
        label_kernel: str = "auto",
        estimator: str = "unbiased",
        standardize: bool | str = "auto",
        missing: str = "mean",
        stability: int = 0,
        checkpoint: str | Path | None = None,
        progress: Any = "auto",
        random_state: Any = 0,
        runtime: Any = "auto",
        memory: int | None = None,
    ) -> None:
        self.n_features_to_select = n_features_to_select
        self.label_kernel = label_kernel
        self.estimator = estimator
        self.standardize = standardize
        self.missing = missing
        self.stability = stability
        self.checkpoint = checkpoint
        self.progress = progress
        self.random_state = random_state
        self.runtime = runtime
        self.memory = memory

    def parameters(self) -> Parameters:
        return Parameters(
            step=None,
            kernel="linear",
            label_kernel=self.label_kernel,
            estimator=self.estimator,
            standardize=self.standardize,
            missing=self.missing,
        )

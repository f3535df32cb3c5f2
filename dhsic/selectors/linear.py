"""The linear kernel's one pass, for users."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dhsic.selectors.bahsic import Elimination
from dhsic.selectors.rounds import KernelSelector


@dataclass(eq=False, repr=False, kw_only=True)
class LinearHSIC(KernelSelector):
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
    _method = "bahsic"
    _alone = True

    step: None = field(default=None, init=False)
    kernel: str = field(default="linear", init=False)
    bandwidth: str = field(default="dimension", init=False)
    approx: str = field(default="auto", init=False)
    tolerance: float = field(default=0.02, init=False)
    dtype: str = field(default="float32", init=False)

    def _check_rounds(self) -> None: ...

    def _besides(self) -> dict[str, Any]:
        return {}

    def described(self) -> str:
        return f"linear kernel in one pass, {self.estimator} HSIC,"

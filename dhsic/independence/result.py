"""What a test of independence found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dhsic.errors import InputError
from dhsic.independence.null import normal_interval


@dataclass(frozen=True)
class TestResult:
    """What a test of independence found.

    Attributes
    ----------
    statistic : float
        HSIC.
    p_value : float
        Probability of a statistic as large if X and Y were independent.
    method : str
        Where that comes from: "permutation", "gamma" or "normal".
    n_samples : int
        m.
    n_permutations : int
        Permutations drawn, 0 by the other methods.
    null_mean, null_variance : float
        Of the statistic under independence: of the permutations drawn, or in closed form of all
        of them (``"gamma"``). For ``"normal"`` 0 and the variance of JMLR Theorem 5, which is
        that of HSIC_1 under dependence.
    sigma : float
        Width of the data kernel; 1 for a kernel that has none.
    """

    __test__: ClassVar[bool] = False  # pytest takes classes of this name for tests

    statistic: float
    p_value: float
    method: str
    n_samples: int
    n_permutations: int
    null_mean: float
    null_variance: float
    sigma: float

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Confidence interval of HSIC (JMLR Theorem 5); for X and Y that depend on each other.

        Parameters
        ----------
        level : float
            Probability that it holds HSIC, in (0, 1).

        Raises
        ------
        InputError
            A test by another method, or a level outside (0, 1).
        """
        if self.method != "normal":
            raise InputError(
                f"A test with method={self.method!r} knows HSIC under independence only, and "
                "gives no interval; pass method='normal'."
            )
        if isinstance(level, bool) or not 0 < level < 1:
            raise InputError(f"level={level!r}; pass a number between 0 and 1, such as 0.95.")
        return normal_interval(self.statistic, self.null_variance, level)

    def __str__(self) -> str:
        drawn = f" of {self.n_permutations:,}" if self.n_permutations else ""
        return (
            f"HSIC = {self.statistic:.4g}, p = {self.p_value:.3g} ({self.method}{drawn}; "
            f"{self.n_samples:,} samples, sigma = {self.sigma:.3g})"
        )

"""The normal distribution of HSIC_1 where X and Y depend on each other (JMLR Theorem 5)."""

from __future__ import annotations

import numpy as np
from scipy.stats import norm


def p_of_normal(observed: float, variance: float) -> float:
    """Upper tail about 0."""
    if variance <= 0.0:
        return 1.0 if observed <= 0.0 else 0.0
    return float(norm.sf(observed / np.sqrt(variance)))


def normal_interval(observed: float, variance: float, level: float) -> tuple[float, float]:
    """Interval that holds HSIC with probability `level`."""
    reach = float(norm.ppf((1.0 + level) / 2.0)) * float(np.sqrt(variance))
    return observed - reach, observed + reach

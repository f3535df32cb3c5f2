"""HSIC under independence as a gamma distribution."""

from __future__ import annotations

import numpy as np
from scipy.stats import pearson3

from dhsic.independence.moments import Moments


def p_of_gamma(observed: float, null: Moments, rounding: float) -> float:
    """Tail of a gamma distribution, moved, with three moments of the statistic.

    ``m HSIC_0`` is about gamma under independence (Gretton et al., 2008, who take its mean and
    variance), and HSIC_1 is about HSIC_0 moved. Their tail is too light, and the third moment
    mends that: Pearson's distribution of type III, as Kazi-Aoual et al. (1995) fit to permutations.

    A handful of samples may have a negative skewness. The distribution would end then, and what is
    larger would have p-value 0; it counts as none.

    Parameters
    ----------
    observed : float
        The statistic.
    null : Moments
        Its moments.
    rounding : float
        See `dhsic.independence.permutation.rounding_of`.
    """
    spread = float(np.sqrt(null.variance))
    if spread <= rounding:  # every permutation is as large
        return 1.0
    return float(pearson3.sf((observed - null.mean) / spread, max(null.skewness, 0.0)))

r"""Odds that a feature differs between classes (Smyth 2004, section 5; JMLR 6.2, B-statistic).

A part `proportion` of the features differs; their differences have a variance ``v_0`` times the
residual variance. With ``v = 1/m_+ + 1/m_-``, moderated t and its f degrees of freedom,

    ``B = log(proportion / (1 - proportion)) - log(r) / 2
    + (1 + f) / 2 log((t^2 + f) / (t^2 / r + f))``,  ``r = (v + v_0) / v``,

and ``v_0`` is told from the largest of the ``|t|`` by what they exceed their expectation by.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import t as student

from dhsic._typing import Float

#: Deviations of differences that differ, in those of the data, that are thought possible.
DEVIATIONS = (0.1, 4.0)


def log_odds(t: Float, degrees: float, v: float, v0: float, proportion: float) -> Float:
    """B for moderated t, (s,); infinite `degrees` are its limit."""
    r = (v + v0) / v
    square = np.square(t)
    if np.isinf(degrees):
        evidence = square * (1 - 1 / r) / 2
    else:
        evidence = (1 + degrees) / 2 * np.log((square + degrees) / (square / r + degrees))
    return np.asarray(np.log(proportion / (1 - proportion)) - np.log(r) / 2 + evidence)


def spread_of_differences(
    t: Float, degrees: float, v: float, proportion: float, prior_variance: float
) -> float:
    """``v_0`` (limma's ``tmixture``): the mean over the largest ``|t|``, within bounds.

    The r-th largest of s is compared with the quantile that it would be at if a part `proportion`
    of the features had ``t sqrt(1 + v_0 / v)`` for t.
    """
    s = len(t)
    n = int(np.ceil(proportion / 2 * s))
    p = max(n / s, proportion)
    top = np.sort(np.abs(t))[::-1][:n]
    null = 2 * student.sf(top, degrees)
    target = ((np.arange(1, n + 1) - 0.5) / s - (1 - p) * null) / p
    above = target > null
    v0 = np.zeros(n)
    v0[above] = v * (np.square(top[above] / student.isf(target[above] / 2, degrees)) - 1)
    low, high = np.square(DEVIATIONS) / prior_variance
    return float(np.clip(v0, low, high).mean())

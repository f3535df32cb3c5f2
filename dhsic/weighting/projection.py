r"""Projection onto a box with a budget: ``0 <= w <= 1``, ``1'w <= b`` (CCM eq. 17).

The nearest point of that set to v is ``clip(v - tau, 0, 1)``, with ``tau = 0`` where the budget
leaves room and else the root of ``s(tau) = 1' clip(v - tau, 0, 1) = b``. That sum falls with tau,
linearly between the edges ``v_j - 1`` and ``v_j``: the edges around the root are found by bisection
over their sorted list and the root in closed form, as Duchi et al. (2008) do without upper bounds.
"""

from __future__ import annotations

import numpy as np

from dhsic._typing import Float


def project_budget(v: Float, budget: float) -> Float:
    """Nearest point to v with entries from 0 to 1 and a sum of at most `budget`; (n,), new.

    Parameters
    ----------
    v : (n,) float64
        Finite.
    budget : float
        Above 0.

    Examples
    --------
    >>> project_budget(np.array([2.0, 0.5, 0.25]), 1.5)
    array([1.   , 0.375, 0.125])
    """
    w = v.clip(0.0, 1.0)
    if w.sum() <= budget:
        return w
    return (v - _root(v, budget)).clip(0.0, 1.0)


def _root(v: Float, budget: float) -> float:
    """Tau with ``1' clip(v - tau, 0, 1) = budget``; the sum exceeds the budget at tau = 0."""
    edges = np.unique(np.concatenate([v, v - 1.0]))
    first, last = 0, len(edges) - 1  # above the budget, or on it, at the first; not at the last
    while last - first > 1:
        middle = (first + last) // 2
        if (v - edges[middle]).clip(0.0, 1.0).sum() >= budget:
            first = middle
        else:
            last = middle
    low, high = edges[first], edges[last]
    within = (v >= high) & (v - 1.0 <= low)  # neither 0 nor 1 between the two edges
    full = v - 1.0 >= high
    if not within.any():
        return float(low)
    return float((v[within].sum() + full.sum() - budget) / within.sum())

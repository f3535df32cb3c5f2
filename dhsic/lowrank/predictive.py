"""How many directions of a factor are structure: those that predict rows it was not made from."""

from __future__ import annotations

import numpy as np

from dhsic.lowrank.base import Factor
from dhsic.lowrank.rows import BaseRows

#: Residual on those rows, relative to the least, that fewer directions may have.
AS_GOOD = 1.01


def predictive(factor: Factor, rows: BaseRows) -> Factor:
    """Its leading directions, as many as predict rows that it was not made from."""
    every = np.arange(rows.landmarks.n_landmarks)
    R = rows.part(every, slice(None))
    at = rows.rows
    R[every, at] = 0.0
    left = [float(np.vdot(R, R))]
    for f, weight in zip(factor.F.T, factor.weights, strict=True):
        own = weight * f[at] * f[at]
        R -= np.outer(weight * f[at], f)
        R[every, at] += own
        left.append(float(np.vdot(R, R)))
    kept = int(np.argmax(np.array(left) <= AS_GOOD * min(left)))
    return Factor(factor.F[:, :kept], factor.weights[:kept], factor.error)

"""How many directions of a factor are structure: those that predict rows it was not made from."""

from __future__ import annotations

import numpy as np

from dhsic._typing import Float
from dhsic.lowrank.base import Factor
from dhsic.lowrank.rows import BaseRows

#: Residual on those rows, relative to the least, that fewer directions may have.
AS_GOOD = 1.01
#: Samples that are looked at at a time: what is left of them stays in the cache.
STRIP = 1024


def predictive(factor: Factor, rows: BaseRows) -> Factor:
    """Its leading directions, as many as predict rows that it was not made from."""
    left = sum(_residuals(factor, rows, a) for a in range(0, rows.landmarks.n_samples, STRIP))
    kept = int(np.argmax(left <= AS_GOOD * np.min(left)))
    return Factor(factor.F[:, :kept], factor.weights[:kept], factor.error)


def _residuals(factor: Factor, rows: BaseRows, start: int) -> Float:
    """Squares of what 0, 1, ... directions leave of some samples' part of the rows, (r + 1,)."""
    samples = slice(start, start + STRIP)
    R = rows.part(np.arange(rows.landmarks.n_landmarks), samples)
    f = np.ascontiguousarray(factor.F[samples].T)  # (r, s)
    at = factor.F[rows.rows].T  # (r, n)
    own = np.flatnonzero((rows.rows >= start) & (rows.rows < start + R.shape[1]))
    itself = own, rows.rows[own] - start  # a row and its own sample: the diagonal is not predicted
    R[itself] = 0.0
    left, product = [float(np.vdot(R, R))], np.empty_like(R)
    for k, weight in enumerate(factor.weights):
        np.multiply((weight * at[k])[:, None], f[k], out=product)
        product[itself] = 0.0
        R -= product
        left.append(float(np.vdot(R, R)))
    return np.array(left)

"""Genotypes as stored: codes 0, 1, 2 and -1 for missing, used without being standardised.

A function of such a feature has one value per code, so sums of functions follow from sums over
``g``, ``g^2`` and the indicator of missing: what is done per entry is a cast and a square.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dhsic._typing import Array, Float
from dhsic.sources.scaling import Scaling

#: Codes besides the missing one.
CODES = (0, 1, 2)
MISSING = -1


@dataclass(frozen=True, slots=True)
class Codes:
    """A tile of genotypes.

    Attributes
    ----------
    g, squares : (c, m) float32
        Codes, 0 where missing, and their squares.
    missing : (c, m) float32 or None
        1 where missing; None where nothing is.
    """

    g: Array
    squares: Array
    missing: Array | None

    @staticmethod
    def of(raw: Array, missing_code: int | None) -> Codes | None:
        """Codes of stored values, (c, m); None where they are something else."""
        if raw.dtype.itemsize != 1 or raw.dtype.kind not in "iu" or not raw.size:
            return None
        least, most = int(raw.min()), int(raw.max())
        has_missing = least == MISSING == missing_code
        if most > CODES[-1] or (least < 0 and not has_missing):
            return None
        g = raw.astype(np.float32)
        if not has_missing:
            return Codes(g, g * g, None)
        np.maximum(g, 0, out=g)
        return Codes(g, g * g, (raw == MISSING).astype(np.float32))

    def sums(self, Y: Array) -> Float:
        """``1_l' Y`` for the codes l = 0, 1, 2 and missing: (4, c, k) float64; Y is (m, k)."""
        first = (self.g @ Y).astype(np.float64)
        second = (self.squares @ Y).astype(np.float64)
        out = np.zeros((4, *first.shape))
        out[2] = (second - first) / 2
        out[1] = first - 2 * out[2]
        if self.missing is not None:
            out[3] = self.missing @ Y
        out[0] = Y.sum(axis=0, dtype=np.float64) - out[1] - out[2] - out[3]
        return out

    def counts(self) -> Float:
        """How often each code occurs, and missing, (4, c) float64: whole numbers."""
        return np.rint(self.sums(np.ones((self.g.shape[1], 1), dtype=np.float32))[..., 0])

    def filled(self, means: Float) -> Array:
        """Codes with the mean of the feature in place of missing ones, (c, m) float32."""
        if self.missing is None:
            return self.g
        return self.g + self.missing * means.astype(np.float32)[:, None]


def code_values(scaling: Scaling) -> Float:
    """What the codes 0, 1, 2 and missing are once standardised, (4, c)."""
    values = [(code - scaling.shift) * scaling.scale for code in CODES]
    return np.stack([*values, scaling.fill])


def scaling_of(counts: Float, *, standardize: bool, centre: bool) -> Scaling:
    """Scaling of features from how often each code occurs, (4, c); as `measure` finds it."""
    n = counts[:3].sum(axis=0)
    m = counts.sum(axis=0)
    codes = np.array(CODES, dtype=np.float64)[:, None]
    present = np.maximum(n, 1)
    mean = (codes * counts[:3]).sum(axis=0) / present
    away = codes - mean  # (3, c)
    varies = (counts[:3] > 0).sum(axis=0) > 1
    std = np.where(varies, np.sqrt((counts[:3] * away**2).sum(axis=0) / m), 0.0)
    alive = np.where(varies, 1.0, 0.0)
    scale = np.divide(alive, std, out=alive.copy(), where=varies) if standardize else alive
    shift = mean if standardize or centre else np.zeros_like(mean)
    fill = (mean - shift) * scale
    values = (codes - shift) * scale
    values = np.where(counts[:3] > 0, values, 0.0)
    peak = np.maximum(np.abs(values).max(axis=0), np.abs(fill) * (counts[3] > 0))
    fourth = ((counts[:3] * values**4).sum(axis=0) + counts[3] * fill**4) / m
    levels = (counts[:3] > 0).sum(axis=0)
    is_level = (codes == mean) & (counts[:3] > 0)
    levels = levels + ((counts[3] > 0) & ~is_level.any(axis=0))
    kind: Any = np.uint8
    return Scaling(
        shift,
        scale,
        fill,
        mean,
        std,
        counts[3].astype(np.int64),
        peak,
        fourth,
        levels.astype(kind),
    )

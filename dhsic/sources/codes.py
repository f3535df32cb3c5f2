"""Genotypes as stored: codes 0, 1, 2 and -1 for missing, used without being standardised.

A function of such a feature has one value per code, so sums of functions follow from sums over
``g``, ``g^2`` and the indicator of missing: what is done per entry is a cast and a square.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.sources.scaling import Scaling

#: Codes besides the missing one.
CODES = (0, 1, 2)
MISSING = -1


#: Entries that are cast at a time, so that they stay in the cache, and features of them at least: a
#: product of fewer would wait for Y.
AT_A_TIME, LEAST_ROWS = 1 << 18, 64


@dataclass(frozen=True, slots=True)
class Codes:
    """Genotypes as stored, known to be codes.

    Attributes
    ----------
    raw : (c, m) int8
        Codes.
    has_missing : bool
        Whether a value is missing.
    """

    raw: Array
    has_missing: bool

    @staticmethod
    def of(raw: Array, missing_code: int | None) -> Codes | None:
        """Codes of stored values, (c, m); None where they are something else."""
        if raw.dtype.itemsize != 1 or raw.dtype.kind not in "iu" or not raw.size:
            return None
        if missing_code in CODES:
            return None
        least, most = int(raw.min()), int(raw.max())
        has_missing = least == MISSING == missing_code
        if most > CODES[-1] or (least < 0 and not has_missing):
            return None
        return Codes(raw, has_missing)

    def sums(self, Y: Array) -> Float:
        """``1_l' Y`` for the codes l = 0, 1, 2 and missing: (4, c, k) float64; Y is (m, k).

        An indicator of one of q codes is a polynomial in g of degree q - 1.
        """
        one, two, three = self._powers(Y)
        out = np.empty((4, *one.shape))
        if self.has_missing:
            out[1] = one + (two - three) / 2
            out[2] = (three - one) / 6
            out[3] = (3 * two - 2 * one - three) / 6
        else:
            out[1] = 2 * one - two
            out[2] = (two - one) / 2
            out[3] = 0.0
        out[0] = Y.sum(axis=0, dtype=np.float64) - out[1:].sum(axis=0)
        return out

    def _powers(self, Y: Array) -> Float:
        """``(g^p)' Y`` for p = 1, 2, 3, (3, c, k) float64; the third only where it is needed."""
        c, m = self.raw.shape
        sums = np.zeros((3, c, Y.shape[1]))
        rows = max(LEAST_ROWS, AT_A_TIME // m)
        width = min(max(AT_A_TIME // rows, 1), m)
        g, power = np.empty((2, min(rows, c), width), dtype=Y.dtype)
        for a, b in product(range(0, c, rows), range(0, m, width)):
            part, y = self.raw[a : a + rows, b : b + width], Y[b : b + width]
            some, other = (of[: part.shape[0], : part.shape[1]] for of in (g, power))
            np.copyto(some, part)
            sums[0, a : a + rows] += some @ y
            np.multiply(some, some, out=other)
            sums[1, a : a + rows] += other @ y
            if self.has_missing:
                np.multiply(some, other, out=other)
                sums[2, a : a + rows] += other @ y
        return sums

    def some(self, samples: Index | slice) -> Codes:
        """Those of some samples."""
        return Codes(self.raw[:, samples], self.has_missing)

    def counts(self) -> Float:
        """How often each code occurs, and missing, (4, c) float64: whole numbers."""
        return np.rint(self.sums(np.ones((self.raw.shape[1], 1), dtype=np.float32))[..., 0])

    def filled(self, means: Float) -> Array:
        """Codes with the mean of the feature in place of missing ones, (c, m) float32."""
        g = self.raw.astype(np.float32)
        if self.has_missing:
            np.copyto(g, means.astype(np.float32)[:, None], where=self.raw == MISSING)
        return g


def code_values(scaling: Scaling) -> Float:
    """What the codes 0, 1, 2 and missing are once standardised, (4, c)."""
    values = [(code - scaling.mean) * scaling.scale for code in CODES]
    return np.stack([*values, np.zeros_like(scaling.mean)])


def scaling_of(counts: Float, *, standardize: bool) -> Scaling:
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
    values = away * scale
    values = np.where(counts[:3] > 0, values, 0.0)
    peak = np.abs(values).max(axis=0)
    fourth = (counts[:3] * values**4).sum(axis=0) / m
    levels = (counts[:3] > 0).sum(axis=0)
    is_level = (codes == mean) & (counts[:3] > 0)
    levels = levels + ((counts[3] > 0) & ~is_level.any(axis=0))
    kind: Any = np.uint8
    return Scaling(
        scale,
        mean,
        std,
        counts[3].astype(np.int64),
        peak,
        fourth,
        levels.astype(kind),
        np.zeros(len(mean), dtype=np.int64),
    )

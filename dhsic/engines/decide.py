"""From gains with error bounds to the features that leave, and in which order.

Exact ties are real: duplicated columns, flipped alleles. Gains within `TIE` of the largest
magnitude of the round count as equal and go by feature index, so the order does not hang on
the last bit of a sum.
"""

from __future__ import annotations

import numpy as np

from dhsic._typing import Float, Index, Mask

#: Gains closer than this, relative to the largest magnitude in the round, are ties.
TIE = 1e-10


def tie_width(gains: Float) -> float:
    """Absolute width of a tie."""
    return TIE * float(np.abs(gains).max(initial=0.0))


def undecided(gains: Float, errors: Float, n: int) -> Mask:
    """Features whose place among the n largest is open within the error bounds, (d,)."""
    low, high = gains - errors, gains + errors
    out = np.zeros(len(gains), dtype=bool)
    n = min(n, len(gains))
    threshold = np.partition(low, len(low) - n)[len(low) - n]
    candidates = np.flatnonzero(high >= threshold)
    by_gain = candidates[np.argsort(-gains[candidates], kind="stable")]
    low, high = low[by_gain], high[by_gain]
    # Sorted by gain, intervals overlap where a later one reaches above this one's lower end or
    # an earlier one reaches below this one's upper end.
    later = np.maximum.accumulate(high[::-1])[::-1]
    earlier = np.minimum.accumulate(low)
    out[by_gain[:-1]] |= later[1:] > low[:-1]
    out[by_gain[1:]] |= earlier[:-1] < high[1:]
    return out


def largest(gains: Float, n: int, tie: float) -> Index:
    """Positions of the n largest gains, the largest first; ties by position."""
    by_gain = np.argsort(-gains, kind="stable")
    falls = -np.diff(gains[by_gain])
    group = np.concatenate([[0], np.cumsum(falls > tie)])  # equal within a chain of ties
    ordered = by_gain[np.lexsort((by_gain, group))]
    return ordered[:n].astype(np.int64)

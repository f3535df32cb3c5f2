"""Positions, ascending, as they travel: a run of them as its ends, others as a mask in bits.

That is a bit for each position that they lie between, and runs of the mask shrink further: up to
64 times less than the positions themselves.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from dhsic._typing import Index


def packed(positions: Index) -> Any:
    """What travels of them, (n,) int64; as they are where they do not ascend.

    Examples
    --------
    >>> packed(np.arange(5, 9))
    (5, 9)
    >>> unpacked(packed(np.array([2, 3, 5]))), unpacked(packed(np.array([3, 2])))
    (array([2, 3, 5]), array([3, 2]))
    """
    n = positions.size
    if not n or positions.dtype != np.int64 or (n > 1 and np.diff(positions).min() < 1):
        return positions
    first, last = int(positions[0]), int(positions[-1])
    if last - first == n - 1:
        return first, last + 1
    if last - first >= 64 * n:
        return positions
    mask = np.zeros(last - first + 1, dtype=bool)
    mask[positions - first] = True
    return first, mask.size, zlib.compress(np.packbits(mask).tobytes(), 1)


def unpacked(what: Any) -> Index:
    """The positions again."""
    if isinstance(what, np.ndarray):
        return what
    if len(what) == 2:
        return np.arange(*what)
    first, size, bits = what
    mask = np.unpackbits(np.frombuffer(zlib.decompress(bits), dtype=np.uint8), count=size)
    found: Index = first + np.flatnonzero(mask)
    return found

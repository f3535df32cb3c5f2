"""Codes beside short scales: 8 and 9 for no answer, beside answers from 1 to 5.

Surveys write one digit for "refused", "unknown" and "missing" where answers take one digit, and
two where they take two. Such a code is told by the gap before it: all other values are consecutive
whole numbers from 0 or 1 on. Counts may leave gaps too, at their upper end, where values get rare;
so the last value of the scale must not be rare itself.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from dhsic._typing import Float, Index

#: Codes of one digit; the first one is a value unless another code stands beside it.
DIGITS = (7.0, 8.0, 9.0)
SEVEN = DIGITS[0]
#: Largest value of a short scale, and the least step from it to a code.
LONGEST, GAP = 7, 2
#: Codes from which on they are many, and the fewest samples of the last value of a scale.
MANY, FEWEST = 3, 3
#: Share of samples that have the last value of a scale, or codes, at least.
POPULATED = 0.05
#: Samples of the last value per code, at most, where the gap is the least.
PER_CODE = 4


def codes_beside_scale(levels: Float, counts: Index, codes: Collection[float] = DIGITS) -> Index:
    """Positions of values that are codes beside a short scale; empty where there is none.

    Parameters
    ----------
    levels, counts : (k,) array
        Distinct values, ascending, and the number of samples that have each.
    codes : collection of float
        Numbers that may be codes.

    Examples
    --------
    >>> codes_beside_scale(np.array([1.0, 2, 9]), np.array([70, 70, 10]))
    array([2])
    >>> codes_beside_scale(np.arange(1.0, 10), np.full(9, 20)).size
    0
    """
    none = np.empty(0, dtype=np.int64)
    if levels.size < 3 or levels[0] not in (0, 1):
        return none
    steps = np.diff(levels)
    n_scale = 1 + int(np.argmax(steps != 1)) if (steps != 1).any() else levels.size
    scale, beyond = levels[:n_scale], levels[n_scale:]
    if n_scale < 2 or not beyond.size or scale[-1] > LONGEST or beyond[0] - scale[-1] < GAP:
        return none
    gap = int(beyond[0] - scale[-1])
    are_codes = np.isin(beyond, [*codes]).all() and (beyond != SEVEN).any()
    is_near = gap == GAP and beyond[0] == SEVEN
    if not are_codes or is_near or _is_tail(counts, n_scale, gap, from_zero=scale[0] == 0):
        return none
    return np.arange(n_scale, levels.size)


def _is_tail(counts: Index, n_scale: int, gap: int, *, from_zero: bool) -> bool:
    """Whether values get rare before what may be codes, as the largest of counts do."""
    of_scale, n_codes = counts[:n_scale], counts[n_scale:].sum()
    n, n_last = of_scale.sum(), of_scale[-1]
    if n_codes >= n:
        return True
    if n_scale == 2:
        return bool(n_last < FEWEST)
    if gap == GAP and PER_CODE * n_codes < n_last:
        return True
    if n_codes < MANY:  # counts begin at 0, and their largest ones are rarer than others
        return bool(n_last < max(FEWEST, n / ((1 if from_zero else 2) * n_scale)))
    share = POPULATED * n
    return bool(n_last < max(FEWEST, share) and n_codes <= max(n_last, share))

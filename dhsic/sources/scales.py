"""Missing-value codes of short scales, such as 8 and 9 for no answer if answers are 1 to 5.

Surveys code "refused", "unknown" and "missing" by the highest numbers with the same number of
digits as the answers: 7, 8 and 9 for one digit, 97, 98 and 99 for two. A gap below a code shows
that it is one: all other values are consecutive whole numbers that start at 0 or 1. Counts may also
have gaps, at their upper end, where values are rare. Numbers above a gap are therefore codes only
if the last value before the gap is not rare.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from dhsic._typing import Float, Index

#: Codes with one digit. The first one is a code only if one of the others occurs, too.
DIGITS = (7.0, 8.0, 9.0)
SEVEN = DIGITS[0]
#: Maximum last value of a short scale; and minimum difference between it and the first code.
LONGEST, GAP = 7, 2
#: Codes are frequent from this number of samples on; and minimum number of samples with the last
#: value of the scale.
MANY, FEWEST = 3, 3
#: Minimum share of the samples with the last value of the scale, or with frequent codes, for these
#: not to count as rare.
POPULATED = 0.05
#: Maximum ratio of samples with the last value to samples with codes, if the gap is the smallest.
PER_CODE = 4


def codes_beside_scale(levels: Float, counts: Index, codes: Collection[float] = DIGITS) -> Index:
    """Return the positions in `levels` of missing-value codes above a short scale.

    Parameters
    ----------
    levels, counts : (k,) array
        Distinct values, ascending, and the number of samples with each value.
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
    """Whether the numbers above a gap may be rare large counts instead of codes.

    `counts` (k,) contains the number of samples with each value. The first `n_scale` values form
    the scale, which starts at 0 if `from_zero` is True. The next value is `gap` above the scale.
    """
    scale_counts, n_codes = counts[:n_scale], counts[n_scale:].sum()
    n, n_last = scale_counts.sum(), scale_counts[-1]
    if n_codes >= n:
        return True
    if n_scale == 2:
        return bool(n_last < FEWEST)
    if gap == GAP and PER_CODE * n_codes < n_last:
        return True
    if n_codes < MANY:  # values that start at 0 may be counts, whose largest values are rare
        return bool(n_last < max(FEWEST, n / ((1 if from_zero else 2) * n_scale)))
    share = POPULATED * n
    return bool(n_last < max(FEWEST, share) and n_codes <= max(n_last, share))

"""Numbers that stand for missing values in continuous features: -999, 999, 9999 and the like.

Taken for values they lie far outside all others and decide the ranking. They are looked for in the
pass that measures features, at no cost: the largest and the smallest value of each feature are at
hand, and only where one of them is a code are the others looked at. A value is taken for a code if
it is one of `CODES`, and lies further from all others than these lie from each other. Large values
of heavy tails seldom do, and never again and again, so data are refused where a code is so in two
features or more, and twice or more in one of them; or, negative beside others that are not, twice
in a single one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dhsic._typing import Array, Float, Index, Mask
from dhsic.errors import DataError
from dhsic.sources import AbstractSource

#: Numbers that are written for missing values. 9 and -1 are none here: too many values are.
CODES = np.array([-99999, -9999, -999, -99, -9, 99, 999, 9999, 99999], dtype=np.float64)
#: Codes so near to ordinary values that they are ones only where a tenth of the features has them.
NEAR, MANY = 100.0, 10
#: Features that are named.
MOST_NAMED = 3


class Sentinels(NamedTuple):
    """Codes of features, how often they occur, and the next value inwards, (c,) each; else 0."""

    codes: Float
    n: Index
    nearest: Float


def found_in(raw: Array, mask: Mask | None, most: Array, least: Array) -> Sentinels:
    """Codes in stored values (c, m), of which `most` and `least` (c,) are the extremes."""
    c = len(raw)
    found = Sentinels(np.zeros(c), np.zeros(c, dtype=np.int64), np.zeros(c))
    for extreme, other in ((least, most), (most, least)):
        for j in np.flatnonzero(np.isin(extreme, CODES) & (extreme != other)):
            is_code = raw[j] == extreme[j]
            is_other = ~is_code if mask is None else ~(is_code | mask[j])
            others = raw[j][is_other].astype(np.float64)
            low, high, code = others.min(), others.max(), float(extreme[j])
            nearest = low if code < low else high
            if abs(code - nearest) > high - low > 0:
                found.codes[j], found.n[j], found.nearest[j] = code, is_code.sum(), nearest
    return found


def refuse_sentinels(found: Sentinels, source: AbstractSource) -> None:
    """Refuse data with codes for missing values, unless it was said what is missing.

    Raises
    ------
    DataError
        The same code in several features; the message names it, features, how often, and what to
        do.
    """
    if source.keeps_codes:
        return
    coded, d = found.codes != 0, len(found.codes)
    certain = {
        code: at
        for code in np.unique(found.codes[coded]).tolist()
        for at in [np.flatnonzero(found.codes == code)]
        if _is_certain(code, found.n[at], found.nearest[at], d)
    }
    if not certain:
        return
    code, at = max(certain.items(), key=lambda item: int(found.n[item[1]].sum()))
    names = source.feature_names()
    told = "; ".join(
        f"{names[j] if names is not None else f'feature {j}'}: {found.n[j]:,}, others "
        f"{'from' if code < 0 else 'to'} {found.nearest[j]:.6g}"
        for j in at[:MOST_NAMED].tolist()
    )
    more = f"; and {at.size - MOST_NAMED:,} more" if at.size > MOST_NAMED else ""
    all_codes = [int(each) for each in certain]
    said = str(all_codes[0]) if len(all_codes) == 1 else str(all_codes)
    raise DataError(
        f"{int(found.n[at].sum()):,} values of {at.size:,} feature{'s' * (at.size > 1)} are "
        f"{int(code)}, which many programs write for missing values, far from all others there "
        f"({told}{more}). Pass missing_code={said} if they are missing; missing_code=None takes "
        "every number for a value."
    )


def _is_certain(code: float, n: Index, nearest: Float, d: int) -> bool:
    """Whether a code that some of d features have, n (k,) times each, stands for missing values."""
    again = n >= 2
    if abs(code) < NEAR and MANY * n.size < d:
        return False
    if code <= -NEAR and (again & (nearest >= 0)).any():
        return True
    return bool(n.size > 1 and again.any())

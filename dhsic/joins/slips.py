"""Slips among labels: a height of 1530 or 1.84 among those around 170.

One to three values at the ends of a column are slips if they lie extremely far from all others, and
these have no heavy tails: of incomes, counts and other quantities that span orders of magnitude the
largest may lie anywhere. Positive values are compared as logarithms too, in which such quantities
span little. They are told and not refused, for an outlier may be real.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.errors import warn
from dhsic.joins.text import as_numbers

#: Samples, and distinct values, from which on slips are looked for; slips at an end, and in all.
FEWEST, FEWEST_LEVELS = 30, 10
AT_AN_END, MOST = 2, 3
#: Range of the other values over that of their quartiles, up to which these have no heavy tails:
#: of positive values, and of those of either sign.
LIGHT, LIGHT_SIGNED = 8.0, 5.0
#: Distance from all other values over the range of these: above and below positive values, and of
#: values of either sign; and the distance over the range of logarithms.
ABOVE, BELOW, OF_SIGNED, OF_LOGS = 5.0, 1.0, 10.0, 2.0


def warn_of_slips(
    what: str,
    values: Array,
    names: Array | None,
    remedy: Callable[[list[str]], str] | None = None,
) -> None:
    """Warn of labels (m,), called `what`, that lie extremely far from all others.

    `names` (m,) are those of the samples, if they have any; `remedy` is how to leave values out.
    """
    numbers = as_numbers(values) if values.ndim == 1 and values.dtype.kind in "if" else None
    at = np.empty(0, dtype=np.int64) if numbers is None else slips_in(numbers)
    if numbers is None or not at.size:
        return
    others = np.delete(numbers, at)
    called = (f"sample {i}" if names is None else f"{str(names[i])!r}" for i in at.tolist())
    texts = [f"{value:.12g}" for value in numbers[at].tolist()]
    listed = ", ".join(f"{text} of {name}" for text, name in zip(texts, called, strict=True))
    how = "" if remedy is None else f": {remedy(texts)}"
    one = at.size == 1
    warn(
        f"{at.size} value{'s' * (not one)} of {what} {'lies' if one else 'lie'} extremely far from "
        f"all others: {listed}. The others go from {np.nanmin(others):.6g} to "
        f"{np.nanmax(others):.6g}. If {'it is a slip' if one else 'they are slips'}, mend "
        f"{'it' if one else 'them'}, or leave {'that sample' if one else 'those samples'} out"
        f"{how}."
    )


def slips_in(numbers: Float) -> Index:
    """Positions of up to three numbers extremely far from all others; NaN are passed over.

    >>> heights = np.arange(150.0, 200)
    >>> slips_in(np.append(heights, [1530, 1.84])), slips_in(np.append(heights, 250)).size
    (array([50, 51]), 0)
    """
    finite = np.flatnonzero(np.isfinite(numbers))
    order = finite[np.argsort(numbers[finite], kind="stable")]
    ascending, n = numbers[order], order.size
    if n < FEWEST or len(np.unique(ascending)) < FEWEST_LEVELS:
        return np.empty(0, dtype=np.int64)
    ways = [
        (low, high)
        for low in range(AT_AN_END + 1)
        for high in range(AT_AN_END + 1)
        if 0 < low + high <= MOST
    ]
    for low, high in sorted(ways, key=sum):
        if _are_slips(ascending, low, high):
            return np.sort(np.concatenate([order[:low], order[n - high :]]))
    return np.empty(0, dtype=np.int64)


def _are_slips(ascending: Float, low: int, high: int) -> bool:
    """Whether the first `low` and the last `high` values lie extremely far from those between."""
    n = ascending.size
    between = ascending[low : n - high]
    least, most = between[0], between[-1]
    span = most - least
    quartiles, is_positive = np.percentile(between, [25, 75]), ascending[0] > 0
    most_of_quartiles = LIGHT if is_positive else LIGHT_SIGNED
    if not 0 < span <= most_of_quartiles * (quartiles[1] - quartiles[0]):
        return False
    below = least - ascending[low - 1] if low else np.inf
    above = ascending[n - high] - most if high else np.inf
    if not is_positive:
        return bool(min(below, above) > OF_SIGNED * span)
    logs = np.log(ascending)
    span_of_logs = np.log(most) - np.log(least)
    log_below = np.log(least) - logs[low - 1] if low else np.inf
    log_above = logs[n - high] - np.log(most) if high else np.inf
    is_far = below > BELOW * span and above > ABOVE * span
    return bool(is_far and min(log_below, log_above) > OF_LOGS * span_of_logs)

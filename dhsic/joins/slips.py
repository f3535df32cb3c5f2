"""Probable typing errors in labels: a height of 1530 or 1.84 among heights around 170.

The smallest or largest values of a column, up to three in total, are probable errors if they lie
extremely far from all others, and if the others have no heavy tails. In incomes, counts and other
quantities that span orders of magnitude, the largest values may lie anywhere. Positive values must
therefore be far away on the logarithmic scale, too, on which such quantities span little. The
result is a warning, not an error, because an outlier may be real.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.errors import warn
from dhsic.joins.text import as_numbers

#: Minimum number of samples, and of distinct values, to search for errors.
FEWEST, FEWEST_LEVELS = 30, 10
#: Maximum number of errors at one end of a column, and at both ends together.
AT_AN_END, MOST = 2, 3
#: Maximum range of the other values, in interquartile ranges, at which they have no heavy tails:
#: for positive values, and for values of both signs.
LIGHT, LIGHT_SIGNED = 8.0, 5.0
#: Minimum distance of an error from all other values, as a multiple of the range of these: above
#: and below positive values; for values of both signs; and for logarithms.
ABOVE, BELOW, OF_SIGNED, OF_LOGS = 5.0, 1.0, 10.0, 2.0


def warn_of_slips(
    what: str,
    values: Array,
    names: Array | None,
    remedy: Callable[[list[str]], str] | None = None,
) -> None:
    """Warn of labels that lie extremely far from all others.

    Parameters
    ----------
    what : str
        Name of the labels in the warning.
    values : (m,)
        Labels. No warning is given unless they are numbers.
    names : (m,), optional
        Names of the samples.
    remedy : callable, optional
        Takes the values as texts, and returns how to exclude them, for instance command-line
        options.
    """
    numbers = as_numbers(values) if values.ndim == 1 and values.dtype.kind in "if" else None
    at = np.empty(0, dtype=np.int64) if numbers is None else slips_in(numbers)
    if numbers is None or not at.size:
        return
    ordinary = np.delete(numbers, at)
    samples = (f"sample {i}" if names is None else f"{str(names[i])!r}" for i in at.tolist())
    texts = [f"{value:.12g}" for value in numbers[at].tolist()]
    listed = ", ".join(f"{text} of {name}" for text, name in zip(texts, samples, strict=True))
    how = "" if remedy is None else f": {remedy(texts)}"
    is_single = at.size == 1
    warn(
        f"{at.size} value{'s' * (not is_single)} of {what} {'lies' if is_single else 'lie'} "
        f"extremely far from all others: {listed}. The others go from {np.nanmin(ordinary):.6g} to "
        f"{np.nanmax(ordinary):.6g}. If {'it is a slip' if is_single else 'they are slips'}, mend "
        f"{'it' if is_single else 'them'}, or leave "
        f"{'that sample' if is_single else 'those samples'} out{how}."
    )


def slips_in(numbers: Float) -> Index:
    """Positions of up to three numbers that lie extremely far from all others; NaN are ignored.

    >>> heights = np.arange(150.0, 200)
    >>> slips_in(np.append(heights, [1530, 1.84])), slips_in(np.append(heights, 250)).size
    (array([50, 51]), 0)
    """
    finite = np.flatnonzero(np.isfinite(numbers))
    order = finite[np.argsort(numbers[finite], kind="stable")]
    ascending, n = numbers[order], order.size
    if n < FEWEST or len(np.unique(ascending)) < FEWEST_LEVELS:
        return np.empty(0, dtype=np.int64)
    end_counts = [
        (low, high)
        for low in range(AT_AN_END + 1)
        for high in range(AT_AN_END + 1)
        if 0 < low + high <= MOST
    ]
    for low, high in sorted(end_counts, key=sum):
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
    max_ratio = LIGHT if is_positive else LIGHT_SIGNED
    if not 0 < span <= max_ratio * (quartiles[1] - quartiles[0]):
        return False
    below = least - ascending[low - 1] if low else np.inf
    above = ascending[n - high] - most if high else np.inf
    if not is_positive:
        return bool(min(below, above) > OF_SIGNED * span)
    logs = np.log(ascending)
    log_span = np.log(most) - np.log(least)
    log_below = np.log(least) - logs[low - 1] if low else np.inf
    log_above = logs[n - high] - np.log(most) if high else np.inf
    is_far = below > BELOW * span and above > ABOVE * span
    return bool(is_far and min(log_below, log_above) > OF_LOGS * log_span)

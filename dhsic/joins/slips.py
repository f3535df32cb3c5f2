"""Probable typing errors in labels: a height of 1530 or 1.84 among heights around 170.

The smallest or largest values of a column, up to three in total or four equal ones, are probable
errors if they lie extremely far from all others, and if the others have no heavy tails. In incomes,
counts and other quantities that span orders of magnitude, the largest values may lie anywhere.
Positive values must therefore be far away on the logarithmic scale, too. The result is a warning,
not an error, because an outlier may be real. A larger group is reported if it may be in another
unit (`dhsic.joins.units`). Two groups of values with a wide gap between them, such as ages and
years of birth, are reported, too.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.errors import warn
from dhsic.joins.text import as_numbers
from dhsic.joins.units import other_unit
from dhsic.sources.ids import abbreviate

#: Minimum number of samples, and of distinct values, to search for errors.
FEWEST, FEWEST_LEVELS = 30, 10
#: Maximum number of errors at one end of a column, at both ends together, and of equal errors; more
#: equal values are probably a code (`dhsic.joins.text.repeated_extreme`).
AT_AN_END, MOST, MOST_EQUAL = 2, 3, 4
#: Maximum range of the other values, in interquartile ranges, at which they have no heavy tails:
#: for positive values, and for values of both signs.
LIGHT, LIGHT_SIGNED = 8.0, 5.0
#: Minimum distance of an error from all other values, as a multiple of the range of these: above
#: and below positive values; for values of both signs; and for logarithms.
ABOVE, BELOW, OF_SIGNED, OF_LOGS = 5.0, 1.0, 10.0, 2.0
#: Ratios of units and of lost decimal points of single errors; maximum number of values that a
#: warning lists, and of those that its remedy excludes.
UNITS, MOST_SHOWN, MOST_EXCLUDED = (100.0, 1000.0, 1e6), 5, 20
#: Minimum gap between two groups of labels, as a multiple of the larger range; and minimum number
#: of different values in each, and as a share of the samples.
APART, FEWEST_APART, FEWEST_SHARE = 1.5, 5, 0.05
#: Factor by which values in another unit may be beyond the range of the others.
BEYOND = 1.5


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
    if numbers is None:
        return
    at = slips_in(numbers)
    if not at.size:
        if groups := _groups_apart(numbers):
            warn(
                f"The values of {what} form two groups, {groups}, with a wide gap between them. If "
                "they are in two units, or are ages and years of birth, convert all to the same "
                "quantity and unit."
            )
        return
    ordinary = np.delete(numbers, at)
    samples = (f"sample {i}" if names is None else f"{str(names[i])!r}" for i in at.tolist())
    texts = [f"{value:.12g}" for value in numbers[at].tolist()]
    pairs = zip(texts, samples, strict=True)
    listed = abbreviate((f"{text} of {name}" for text, name in pairs), MOST_SHOWN)
    distinct = [repr(value).removesuffix(".0") for value in dict.fromkeys(numbers[at].tolist())]
    is_told = remedy is not None and len(distinct) <= MOST_EXCLUDED
    how = f": {remedy(distinct)}" if remedy is not None and is_told else ""
    lies, them, it_is, those = "s lie", "them", "they are slips", "those samples"
    if at.size == 1:
        lies, them, it_is, those = " lies", "it", "it is a slip", "that sample"
    warn(
        f"{at.size} value{lies.replace(' ', f' of {what} ', 1)} extremely far from all others: "
        f"{listed}. The others go from {np.nanmin(ordinary):.6g} to {np.nanmax(ordinary):.6g}."
        f"{_said_of_units(numbers, at)} If {it_is}, mend {them}, or leave {those} out"
        f"{how}."
    )


def _said_of_units(numbers: Float, at: Index) -> str:
    """Return a sentence if the numbers at indices `at` may be in another unit; otherwise ""."""
    values, others = numbers[at], np.delete(numbers, at)
    others = others[np.isfinite(others)]
    if min(others.min(), values.min()) <= 0:
        return ""
    unit = other_unit(numbers, is_named=True)
    if unit is not None and unit.shift:
        return f" To write all in one unit, {unit.remedy}."
    how, ratio = "Divided", unit.ratio if unit else _ratio_of_units(values, others)
    if not ratio or values.max() < others.min():
        how, ratio = "Multiplied", ratio or _ratio_of_units(1 / values, 1 / others)
    if not ratio:
        return ""
    it = "it lies" if values.size == 1 else "they lie"
    return f" {how} by {ratio:,.7g}, {it} among the others, so the unit may differ."


def slips_in(numbers: Float) -> Index:
    """Positions of numbers that lie extremely far from all others; NaN are ignored.

    They are up to three numbers, up to four equal ones, or a group that may be in another unit.

    >>> heights = np.arange(150.0, 200)
    >>> slips_in(np.append(heights, [1530, 1.84])), slips_in(np.append(heights, 250)).size
    (array([50, 51]), 0)
    >>> slips_in(np.append(heights, [1e6] * 4))
    array([50, 51, 52, 53])
    >>> slips_in(np.append(heights, np.arange(160_000.0, 164_000, 1000)))
    array([50, 51, 52, 53])
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
    n_equal = [int((ascending == ascending[end]).sum()) for end in (0, -1)]
    end_counts += [
        (low, high) for low, high in ((n_equal[0], 0), (0, n_equal[1])) if low + high <= MOST_EQUAL
    ]
    for low, high in sorted(end_counts, key=sum):
        if _are_slips(ascending, low, high):
            return np.sort(np.concatenate([order[:low], order[n - high :]]))
    unit = other_unit(numbers, is_named=True)
    if unit is None:
        return np.empty(0, dtype=np.int64)
    n_low = n - unit.n_above
    return np.sort(order[:n_low] if n_low < unit.n_above else order[n_low:])


def _groups_apart(numbers: Float) -> str:
    """Describe two groups of numbers with a wide gap between them; "" if there are none.

    >>> ages = np.arange(20.0, 80)
    >>> _groups_apart(np.append(ages, 2020 - ages[:20])), _groups_apart(ages)
    ('20 to 79 (60 samples) and 1981 to 2000 (20)', '')
    """
    ascending = np.sort(numbers[np.isfinite(numbers)])
    if len(np.unique(ascending)) < FEWEST_LEVELS or ascending[0] <= 0:
        return ""
    at = int(np.argmax(np.diff(ascending))) + 1
    low, high = ascending[:at], ascending[at:]
    few = min(len(np.unique(low)), len(np.unique(high)))
    if few < max(FEWEST_APART, FEWEST_SHARE * ascending.size) or not _are_apart(low, high):
        return ""
    return (
        f"{low[0]:.6g} to {low[-1]:.6g} ({low.size:,} samples) and {high[0]:.6g} to "
        f"{high[-1]:.6g} ({high.size:,})"
    )


def _are_apart(low: Float, high: Float) -> bool:
    """Whether the gap between two groups is wide, on the linear and on the logarithmic scale."""
    gaps = high[0] - low[-1], np.log(high[0] / low[-1])
    spans = (max(np.ptp(f(low)), np.ptp(f(high))) for f in (np.asarray, np.log))
    return bool(all(gap >= APART * span for gap, span in zip(gaps, spans, strict=True)))


def _ratio_of_units(values: Float, others: Float) -> float:
    """Find the ratio of two units that brings values into the range of others; 0 if none does."""
    least, most = others.min() / BEYOND, others.max() * BEYOND
    low, high = np.percentile(others, [5, 95])
    for ratio in UNITS:
        part = values / ratio
        if least <= part.min() and part.max() <= most and low <= np.median(part) <= high:
            return ratio
    return 0.0


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

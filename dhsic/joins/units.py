"""Columns without a common scale: two units in one column, and dates as numbers.

If a height is in cm for some samples and in m for others, the values form two clusters, and a
ranking finds who recorded them. Two units are recognised only if they are unmistakable: the
clusters are apart, differ by the ratio of two units, and have the same distribution otherwise.
Dates are recognised by their digits (20240131), or by the name of the feature and the day numbers
of spreadsheets (44562).
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from dhsic._typing import Float

#: Ratios of units: powers of ten; of times (days and weeks, months and years, ...); pounds and
#: kilograms, inches and cm; and concentrations by weight and by number of molecules, of glucose,
#: cholesterol, triglycerides and creatinine.
RATIOS = (
    *(10.0, 100.0, 1000.0, 1e6, 7.0, 12.0, 24.0, 30.44, 60.0, 365.25, 2.2046, 2.54),
    *(18.02, 38.67, 88.57, 88.42),
)
#: Units that differ by a ratio and a shift: Fahrenheit and Celsius, and HbA1c in mmol/mol and in
#: percent; and the maximum distance of medians, in standard deviations.
WITH_SHIFT, MOST_OFF_SHIFTED = ((1.8, 32.0), (10.929, -23.5)), 1.0
#: Minimum number of samples; of different values in each unit, of one of many features and of a
#: column that the user names; and of values of a cluster that is not small.
FEWEST_SAMPLES, FEWEST, FEWEST_OF_NAMED, FEW = 20, 5, 3, 10
#: Minimum gap between the clusters of logarithms, relative to the larger range of a cluster, of one
#: of many features and of a column that the user names; and a gap that needs less other evidence.
#: In images, one feature in 1,000 has a gap of 0.7 between bright and dark values.
GAP, GAP_OF_NAMED, WIDE_GAP = 0.8, 0.5, 1.5
#: Maximum ratio of the spreads of clusters, and of large clusters beside a wide gap.
SPREADS, SPREADS_WIDE = 1.6, 2.0
#: Maximum distance of the ratio of medians from the ratio of units: in standard errors of the
#: logarithm; at most, in one of many features; and always accepted, in standard deviations,
#: because sites differ.
ERRORS, MOST_OFF, SITES = 2.5, 0.1, 0.2
#: Maximum Kolmogorov-Smirnov distance of the distributions in one unit, times the root of the
#: harmonic size (2% of columns in two units exceed it by chance), and always accepted.
DISTANCE, DISTANCE_OF_SITES = 1.52, 0.12
#: Minimum ratio of numbers below 1,000 to others whose points separated thousands.
APART_OF_THOUSANDS = 20
#: Names of features that are dates; days of spreadsheets from 1954 to 2064; and digits of a date.
DATE = re.compile(r".*(date|datum|dob|birth).*", re.IGNORECASE)
FIRST_DAY, LAST_DAY = 20_000, 60_000
COMPACT = re.compile(r"(19|20)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])")


class OtherUnit(NamedTuple):
    """Two units in a column: values above `limit` are about `ratio` times the others plus `shift`.

    `n_above` is the number of these values; `lower` and `upper` (2,) are the smallest and the
    largest value of each group.
    """

    ratio: float
    limit: float
    n_above: int
    lower: Float
    upper: Float
    shift: float = 0.0

    @property
    def sentence(self) -> str:
        """Message on the two units, to be appended to the name of the feature."""
        ends = [f"{low:.6g} to {high:.6g}" for low, high in (self.upper, self.lower)]
        differ = f"that differ by a factor of about {self.ratio:g}" if not self.shift else "apart"
        return (
            f"has two groups of values {differ}: {self.n_above:,} from {ends[0]}, the others from "
            f"{ends[1]}, so some may be in another unit. Convert all to one unit: {self.remedy}."
        )

    @property
    def remedy(self) -> str:
        """Advice on how to convert the lower values to the unit of the higher ones."""
        added = f" and {'add' if self.shift > 0 else 'subtract'} {abs(self.shift):g}"
        return (
            f"multiply values below {self.limit:.3g} by {self.ratio:g}{added if self.shift else ''}"
        )


def other_unit(x: Float, *, is_named: bool = False) -> OtherUnit | None:
    """Find the values of a column x (m,) that are in another unit; None if there are none.

    With `is_named`, the user named this column. It is not one of many features, so less evidence
    is needed.

    >>> heights = np.array([151, 163, 158, 174, 169, 182, 177, 166, 190, 171.0])
    >>> other_unit(np.append(heights, heights / 100 + 0.01)).ratio
    100.0
    >>> other_unit(np.append(heights, heights + 9)), other_unit(np.append(heights, heights * 50))
    (None, None)
    """
    ascending = np.sort(x[np.isfinite(x)])
    if ascending.size < FEWEST_SAMPLES or ascending[0] <= 0:
        return None
    logs = np.log(ascending)
    at = int(np.argmax(np.diff(logs))) + 1
    low, high = logs[:at], logs[at:]
    min_gap, fewest = (GAP_OF_NAMED, FEWEST_OF_NAMED) if is_named else (GAP, FEWEST)
    if min(np.unique(low).size, np.unique(high).size) < fewest:
        return None
    gap = (high[0] - low[-1]) / max(np.ptp(low), np.ptp(high))
    are_thousands = _are_thousands(ascending[:at], ascending[at:])
    if gap < min_gap and not are_thousands:
        return None
    ratio, shift = 1000.0, 0.0
    if not are_thousands:
        ratio = _ratio_of(low, high, is_wide=bool(gap >= WIDE_GAP), is_named=is_named)
    if other := _with_shift(ascending[:at], ascending[at:]):
        ratio, shift = other
    if not ratio:
        return None
    limit = float(np.exp((low[-1] + high[0]) / 2))
    return OtherUnit(ratio, limit, high.size, ascending[[0, at - 1]], ascending[[at, -1]], shift)


def _are_thousands(low: Float, high: Float) -> bool:
    """Whether sorted values `low` have points that separated thousands, and `high` are below 1,000.

    A spreadsheet that reads 1.280 as a decimal number writes 1.28, beside 818 for less than 1,000.

    >>> _are_thousands(np.array([1.004, 1.28, 2.324]), np.array([272.0, 818.0, 996.0]))
    True
    >>> _are_thousands(np.array([1.004, 1.28, 2.324]), np.array([272.5, 818.0, 996.0]))
    False
    """
    thousands = 1000 * low
    are_whole = (
        np.abs(thousands - np.rint(thousands)).max() < 1e-6 and (high == np.rint(high)).all()
    )
    has_three_digits = bool((np.abs(100 * low - np.rint(100 * low)) > 1e-6).any())
    are_apart = (
        low[0] >= 1 and high[0] >= max(100, APART_OF_THOUSANDS * low[-1]) and high[-1] < 1000
    )
    return bool(are_whole and are_apart and has_three_digits)


def _with_shift(low: Float, high: Float) -> tuple[float, float] | None:
    """Find two units, by ratio and shift, that explain two sorted groups; None if none do.

    >>> celsius = np.linspace(35.5, 40, 30)
    >>> _with_shift(celsius, 1.8 * celsius + 32), _with_shift(celsius, 3 * celsius)
    ((1.8, 32.0), None)
    """
    if min(low.size, high.size) < FEW:
        return None
    for ratio, shift in WITH_SHIFT:
        same = ratio * low + shift
        off, spreads = abs(np.median(same) - np.median(high)) / high.std(), same.std() / high.std()
        are_near = off <= MOST_OFF_SHIFTED and max(spreads, 1 / spreads) <= SPREADS
        if are_near and _are_alike(same, high):
            return ratio, shift
    return None


def _ratio_of(low: Float, high: Float, *, is_wide: bool, is_named: bool) -> float:
    """Find the ratio of two units that explains two sorted clusters of logarithms; 0 if none does.

    A small cluster needs a wide gap. In a column that the user named, it may have a smaller spread.
    """
    few, many = (low, high) if low.size < high.size else (high, low)
    is_small, spreads = few.size < FEW, few.std() / many.std()
    ratio, off, allowed = _nearest_ratio(low, high)
    if off > (allowed if is_named else min(MOST_OFF, allowed)):
        return 0.0
    if is_small and is_named:
        return ratio if is_wide and spreads <= SPREADS_WIDE else 0.0
    if max(spreads, 1 / spreads) > (SPREADS if is_small or not is_wide else SPREADS_WIDE):
        return 0.0
    return ratio if is_wide or (not is_small and _are_alike(low + np.log(ratio), high)) else 0.0


def _are_alike(a: Float, b: Float) -> bool:
    """Whether sorted values (n,) and (k,) may have the same distribution."""
    both = np.concatenate([a, b])
    shares = (np.searchsorted(part, both, side="right") / part.size for part in (a, b))
    distance = float(np.abs(np.subtract(*shares)).max())
    by_chance = DISTANCE * float(np.sqrt(1 / a.size + 1 / b.size))
    return distance <= max(by_chance, DISTANCE_OF_SITES)


def _nearest_ratio(low: Float, high: Float) -> tuple[float, float, float]:
    """Find the ratio of units that is nearest to the ratio of the medians of two clusters.

    Also return its distance and the largest distance that is allowed. The clusters and the
    distances are logarithms. The standard error of a median is 1.25 times that of a mean.
    """
    spread = float(np.concatenate([low - low.mean(), high - high.mean()]).std())
    apart = float(np.median(high) - np.median(low))
    ratio = min(RATIOS, key=lambda each: abs(apart - np.log(each)))
    error = 1.25 * float(np.sqrt(1 / low.size + 1 / high.size))
    return ratio, abs(apart - float(np.log(ratio))), spread * max(ERRORS * error, SITES)


def are_compact_dates(x: Float) -> bool:
    """Whether all values of a feature (m,) are dates without separators.

    >>> are_compact_dates(np.array([20240131, 20231105, 19991231, 20240229.0, np.nan]))
    True
    >>> are_compact_dates(np.array([20240131, 20231105, 20241931, 20240229.0]))
    False
    """
    values = x[np.isfinite(x)]
    if values.size < FEWEST - 1 or values.min() < 19e6 or values.max() >= 21e6:
        return False
    texts = {f"{value:.0f}" for value in values.tolist()}
    is_whole = bool((values == np.floor(values)).all())
    return is_whole and len(texts) >= FEWEST - 1 and all(map(COMPACT.fullmatch, texts))


def are_days(name: str, x: Float) -> bool:
    """Whether the values of a feature are the day numbers of spreadsheets, and its name fits.

    >>> days = np.array([44562, 44570, 44601.5, 45002])
    >>> are_days("visit_date", days), are_days("income", days)
    (True, False)
    """
    values = x[np.isfinite(x)]
    is_near = values.size > 1 and values.min() >= FIRST_DAY and values.max() <= LAST_DAY
    return bool(is_near and values.min() < values.max()) and DATE.fullmatch(name) is not None


def about_dates(name: str, x: Float) -> str:
    """Return the end of a sentence on a feature x (m,) that contains dates; otherwise ""."""
    if are_compact_dates(x):
        return (
            f"contains dates written as numbers, such as {np.nanmin(x):.0f}. As numbers, they "
            "would have 10,000 days per year. Convert them to numbers of days."
        )
    if are_days(name, x):
        return (
            f"contains dates as numbers of days, such as {np.nanmin(x):.6g}, as in spreadsheets. "
            "They may only show when a sample was taken."
        )
    return ""

"""Values of a feature that are not on one scale: two units in one column, and dates as numbers.

A height in cm for some samples and in m for others has two clusters, and the feature tells who
wrote the values. It is recognised only if it is unmistakable: the clusters are far apart, have the
same relative spread, and differ by the ratio of two units. Dates are recognised by their digits
(20240131), or by the name of the feature and numbers of days as in spreadsheets (44562).
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from dhsic._typing import Float

#: Ratios of units: powers of ten; pounds and kilograms; and concentrations by weight and by number
#: of molecules, of glucose, cholesterol, triglycerides and creatinine.
RATIOS = (10.0, 100.0, 1000.0, 1e6, 2.2046, 18.02, 38.67, 88.57, 88.42)
#: Minimum number of samples, and of different values in each unit.
FEWEST_SAMPLES, FEWEST = 20, 5
#: Minimum gap between the clusters of logarithms, relative to the larger range of a cluster; and
#: maximum ratio of their spreads. In images, pixels have gaps of up to 1.1 between bright and dark.
GAP, SPREADS = 1.5, 2.0
#: Maximum distance of the ratio of medians from the ratio of units: in standard errors of the
#: logarithm, and at most.
ERRORS, MOST_OFF = 2.5, 0.1
#: Names of features that are dates; days of spreadsheets from 1954 to 2064; and digits of a date.
DATE = re.compile(r".*(date|datum|dob|birth).*", re.IGNORECASE)
FIRST_DAY, LAST_DAY = 20_000, 60_000
COMPACT = re.compile(r"(19|20)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])")


class OtherUnit(NamedTuple):
    """Values above `limit`, which are about `ratio` times the others; ends of both, (2,)."""

    ratio: float
    limit: float
    n_above: int
    lower: Float
    upper: Float

    @property
    def sentence(self) -> str:
        """End of a sentence that begins with the feature."""
        ends = [f"{low:.6g} to {high:.6g}" for low, high in (self.upper, self.lower)]
        return (
            f"has two groups of values that differ by a factor of about {self.ratio:g}: "
            f"{self.n_above:,} from {ends[0]}, the others from {ends[1]}, so a part may be in "
            f"another unit. Write all in one unit: multiply values below {self.limit:.3g} by "
            f"{self.ratio:g}."
        )


def other_unit(x: Float) -> OtherUnit | None:
    """Find the values of a feature x (m,) that are in another unit; None if there are none.

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
    if min(np.unique(low).size, np.unique(high).size) < FEWEST:
        return None
    gap, range_of_logs = high[0] - low[-1], max(np.ptp(low), np.ptp(high))
    less, more = sorted((float(low.std()), float(high.std())))
    if gap < GAP * range_of_logs or more > SPREADS * less:
        return None
    error = 1.25 * np.sqrt(low.var() / low.size + high.var() / high.size)  # of medians
    apart = np.median(high) - np.median(low)
    off = {ratio: abs(apart - np.log(ratio)) for ratio in RATIOS}
    ratio = min(off, key=off.__getitem__)
    if off[ratio] > min(MOST_OFF, ERRORS * error):
        return None
    limit = float(np.exp((low[-1] + high[0]) / 2))
    return OtherUnit(ratio, limit, high.size, ascending[[0, at - 1]], ascending[[at, -1]])


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
    """Whether the values of a feature are dates as in spreadsheets, according to its name too.

    >>> days = np.array([44562, 44570, 44601.5, 45002])
    >>> are_days("visit_date", days), are_days("income", days)
    (True, False)
    """
    values = x[np.isfinite(x)]
    is_near = values.size > 1 and values.min() >= FIRST_DAY and values.max() <= LAST_DAY
    return bool(is_near and values.min() < values.max()) and DATE.fullmatch(name) is not None


def about_dates(name: str, x: Float) -> str:
    """Return the end of a sentence on a feature x (m,) of dates; "" for other features."""
    if are_compact_dates(x):
        return (
            f"has dates written as numbers, such as {np.nanmin(x):.0f}, but a year does not have "
            "10,000 days. Convert them to numbers of days."
        )
    if are_days(name, x):
        return (
            f"has dates as spreadsheets write them, numbers of days such as {np.nanmin(x):.6g}. "
            "They may only tell when a sample was taken."
        )
    return ""

"""Codes for missing values that many features share, such as -1 in counts or 255 in bytes.

A single feature does not show whether its smallest or largest number is a code. Many features that
share this number do. Three kinds of codes are recognised:

- All negative numbers of the matrix are equal (-1, -9, -128, -0.1).
- One number is farther from all other values than these are from each other (9 or 2 beside values
  from 0 to 1, 255 beside counts).
- The limit of an integer type (255, 65535) occurs in nearly all features. The numbers next to it do
  not occur, or they are not more frequent where the limit is frequent. In images, on the other
  hand, pixels with many saturated values also have many values next to the limit.

The pass that measures features makes one record per feature (`ENDS`) of its smallest or its largest
number, called its end. In most features, a few samples show that there is no code. Only the others
are examined completely. A record does not depend on other features, so it is the same for every
division of the matrix into blocks.

Zeros are recorded, too. They mean missing values if all other values of a feature are far from 0.
Log-transformed counts are an exception: the value of one count is far from 0, although zeros are
not missing. That value is about the same in all features, while the means of features differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dhsic._typing import Array, Float, Index, Mask

#: Record of one end of a feature. `value` is the number at the end, and `n` how often it occurs.
#: `nearest` is the next value inwards, and `mean` the mean of all other values. `n_near` is the
#: number of values next to the limit of a type (`LIMIT`), or at the end of a scale
#: (`ABOVE_SCALE`). It is 1 for zeros that are far from all other values (`ZEROS`), and for a
#: negative number that most samples have (`NEGATIVE`).
ENDS = np.dtype(
    [
        *(("kind", "u1"), ("value", "f8"), ("nearest", "f8")),
        *(("mean", "f4"), ("n", "i4"), ("n_near", "i4")),
    ]
)
#: Kinds of records: none; several negative numbers; one negative number; zeros; a number far from
#: all others; the limit of a type; a positive code for missing values near other values, or a far
#: number that occurs once; the number above a short scale (`dhsic.sources.scale_codes`).
NONE, MIXED, NEGATIVE, ZEROS, FAR, LIMIT, CODE, ABOVE_SCALE = range(8)
#: Number of first samples that show, for most features, that there is no code; larger number of
#: samples for the other features; and minimum number of occurrences of a code in a feature.
QUICK, SAMPLE, REPEATED = 16, 128, 2
#: Limits of types (other limits are far from all values). And width of the range of numbers that
#: count as next to a limit, as a share of the limit.
LIMITS, NEXT = (127.0, 255.0, 32767.0, 65535.0, -128.0, -32768.0), 1 / 128
#: Integer features up to this value are dosages or presence.
MOST_COPIES = 2
#: A scale of whole numbers from -1 to at most 5 has no codes.
UNSURE, LAST_OF_SCALE = -1.0, 5
#: With fewer distinct whole numbers, a far number is `FEW_TIMES` their range away.
LEVELS, FEW_TIMES = 10, 5
#: Zeros are far from values with a mean of `DEVIATIONS` standard deviations, if the smallest value
#: is half a deviation from 0.
DEVIATIONS, CLOSEST = 3.0, 0.5
#: A code must occur in one of `MANY` features, and at least in `FEWEST`. The limit of a type may be
#: absent in one of `MANY` features.
MANY, FEWEST = 10, 3
#: Rank correlation of the number of codes with the mean of other values, below which codes are
#: values; and rounding of counts. Logarithms of counts plus a constant are negative where the count
#: is 0, most often in features with small counts.
FOLLOWS, ROUNDING = -0.6, 1e-3
#: Maximum share of samples with the limit of a type; and minimum number of limits in all features,
#: if the next value is farther away than a share `WIDE` of the limit, or nearer.
OFTEN_THERE, ENOUGH, WIDE, ENOUGH_NEAR = 0.25, 10, 1 / 16, 1000
#: Number of features for a comparison of frequencies; minimum ratio of variance to mean of the
#: numbers of values next to the limit; and maximum rank correlation with them.
COMPARED, UNEQUAL, UNRELATED = 30, 4.0, 0.3
#: Maximum spread of the smallest values above zero, relative to the spread of the means, in
#: log-transformed counts; and number of features for this comparison.
FLOOR, FEWEST_FLOORS = 0.5, 8


class SharedCode(NamedTuple):
    """Code for missing values that many features share, and the positions (k,) of the features.

    If `is_certain` is True, the code causes an error, otherwise a warning.
    """

    value: float
    features: Index
    kind: int
    is_certain: bool = True


def ends_in(
    raw: Array, mask: Mask | None, most: Array, least: Array, codes: tuple[int, ...]
) -> Array:
    """Record an extreme value of each feature: stored values (c, m), records of `ENDS` (c,).

    `most` and `least` (c,) are the extremes of the features. `codes` are positive numbers that are
    common codes for missing values.
    """
    ends = np.zeros(len(raw), ENDS)
    are_dosages = (raw.dtype.kind != "f") & (least >= 0) & (most <= MOST_COPIES)
    varies = (least < most) & ~are_dosages
    negative = np.flatnonzero(varies & (least < 0))
    if negative.size:
        _record_negative(raw, mask, negative, most, least, ends)
        mixed = np.flatnonzero(ends["kind"] == MIXED)
        _record_far(raw, mask, mixed, (least, most), ends, is_upper=False)
        _record_limits(raw, mask, _of(LIMITS, least, mixed, ends), least, ends)
    others = np.flatnonzero(varies & (ends["kind"] <= MIXED))
    _record_far(raw, mask, others, (most, least), ends, is_upper=True)
    _record_limits(raw, mask, _of(LIMITS, most, others, ends), most, ends)
    with_codes = _of(codes, most, others, ends)
    if with_codes.size:
        n = (_rows(raw, with_codes) == most[with_codes, None]).sum(axis=1)
        ends["kind"][with_codes], ends["value"][with_codes] = CODE, most[with_codes]
        ends["n"][with_codes] = n
    has_zeros = varies & (least == 0) & (ends["kind"] == NONE)
    _record_zeros(raw, mask, np.flatnonzero(has_zeros), ends)
    return ends


def _of(numbers: Sequence[float], end: Array, at: Index, ends: Array) -> Index:
    """Select the features among `at` that have an `end` in `numbers` but no record yet."""
    at = at[(np.abs(end[at] / 1.0) >= min(map(abs, numbers))) & (ends["kind"][at] <= MIXED)]
    return np.asarray(at[np.isin(end[at], numbers)])


def _rows(values: Array, at: Index) -> Array:
    """Return the rows `at` (ascending) of `values`; if these are all rows, do not copy them."""
    return values if at.size == len(values) else values[at]


def _n_present(raw: Array, mask: Mask | None, at: Index) -> Index:
    """Count the non-missing values of each of the features `at`."""
    n = np.full(at.size, raw.shape[1])
    return n if mask is None else n - mask[at].sum(axis=1)


def _record_negative(
    raw: Array, mask: Mask | None, at: Index, most: Array, least: Array, ends: Array
) -> None:
    """Record, for features `at` with negative values, whether these are all the same number."""
    ends["kind"][at] = MIXED
    for n in (QUICK, SAMPLE, raw.shape[1]):
        values = _rows(raw[:, :n], at)
        if mask is not None:
            values = np.where(mask[at, :n], most[at, None], values)
        at_end = values == least[at, None]
        is_open = ~((values < 0) & ~at_end).any(axis=1)
        if n == QUICK:  # -1, 0 and 1, or a short scale
            are_whole = (values == np.floor(values)).all(axis=1)
            is_scale = (least[at] == UNSURE) & (most[at] <= LAST_OF_SCALE) & are_whole
            ends["kind"][at[is_scale & is_open]] = NONE
            is_open &= ~is_scale
        at, values, at_end = at[is_open], values[is_open], at_end[is_open]
        if not at.size:
            return
    ends["kind"][at] = NONE
    nearest = np.where(at_end, most[at, None], values).min(axis=1)
    has_levels = ((values > nearest[:, None]) & (values < most[at, None])).any(axis=1)
    at, at_end, values = at[has_levels], at_end[has_levels], values[has_levels]
    n_present, n_ends = _n_present(raw, mask, at), at_end.sum(axis=1)
    totals = np.where(at_end, 0, values).sum(axis=1, dtype=np.float64)
    totals -= (raw.shape[1] - n_present) * most[at].astype(np.float64)
    ends["kind"][at], ends["value"][at], ends["n"][at] = NEGATIVE, least[at], n_ends
    ends["nearest"][at], ends["mean"][at] = nearest[has_levels], totals / (n_present - n_ends)
    ends["n_near"][at] = 2 * n_ends >= n_present


def _record_far(
    raw: Array,
    mask: Mask | None,
    at: Index,
    extremes: tuple[Array, Array],
    ends: Array,
    *,
    is_upper: bool,
) -> None:
    """Record the features among `at` with a repeated number at one end, far from other values.

    `extremes` are the numbers at this end and at the other end, (c,) each. `is_upper` means that
    this end is the maximum.
    """
    end, other = extremes
    middle = end / 2 + other / 2
    middle = (np.floor(middle) if raw.dtype.kind != "f" else middle).astype(raw.dtype)
    for n in (QUICK, SAMPLE, raw.shape[1]):
        if not at.size:
            return
        values, half, last = _rows(raw[:, :n], at), middle[at, None], end[at, None]
        inside = (
            (values > half) & (values < last) if is_upper else (values < half) & (values > last)
        )
        at = at[~inside.any(axis=1)]
    n_ends = (_rows(raw, at) == end[at, None]).sum(axis=1)
    once = at[(n_ends < REPEATED) & (ends["kind"][at] == NONE)]
    ends["kind"][once], ends["value"][once], ends["n"][once] = CODE, end[once], 1
    is_code = (n_ends >= REPEATED) & (2 * n_ends < _n_present(raw, mask, at))
    at, n_ends = at[is_code], n_ends[is_code]
    rows = raw[at].astype(np.float64)
    is_end = rows == end[at, None]
    if mask is not None:
        is_end |= mask[at]
    rows = np.where(is_end, other[at, None], rows)
    nearest = rows.max(axis=1) if is_upper else rows.min(axis=1)
    are_far = _are_far(rows, end[at].astype(np.float64), nearest)
    at, n_ends, nearest = at[are_far], n_ends[are_far], nearest[are_far]
    ends["kind"][at], ends["value"][at], ends["n"][at] = FAR, end[at], n_ends
    ends["nearest"][at] = nearest


def _are_far(others: Float, end: Float, nearest: Float) -> Mask:
    """Mask (c,) of the features with an end (c,) that is far from the other values (c, m).

    The distance must exceed the range of the other values. If a feature has few distinct values,
    these must in addition be near each other, unlike doses of 0, 1, 10 and 100. `nearest` (c,)
    are the values closest to the end.
    """
    if not others.size:
        return np.zeros(len(others), dtype=bool)
    ordered = np.sort(others, axis=1)
    gaps, ranges = np.diff(ordered, axis=1), ordered[:, -1] - ordered[:, 0]
    n_levels, distances = 1 + (gaps > 0).sum(axis=1), np.abs(end - nearest)
    is_even = gaps.max(axis=1, initial=0.0) <= ranges / 2
    are_near = (n_levels > 2) & is_even & (distances > FEW_TIMES * ranges)
    return np.asarray((distances > ranges) & ((n_levels >= LEVELS) | are_near))


def _record_limits(raw: Array, mask: Mask | None, at: Index, end: Array, ends: Array) -> None:
    """Record the features among `at` with an `end` (c,) that is the limit of an integer type."""
    if raw.dtype.kind == "f" and at.size:
        some = raw[at, :SAMPLE]
        at = at[((some == np.floor(some)) | np.isnan(some)).all(axis=1)]
    for value in np.unique(end[at]).tolist():
        these = at[end[at] == value]
        rows = _rows(raw, these)
        n_ends = (rows == value).sum(axis=1)
        is_rare = 2 * n_ends < _n_present(raw, mask, these)
        these, rows, n_ends = these[is_rare], rows[is_rare], n_ends[is_rare]
        width = int(max(2, NEXT * abs(value)))
        low, high = (value - width, value - 1) if value > 0 else (value + 1, value + width)
        n_near = ((rows >= low) & (rows <= high)).sum(axis=1)
        nearest = np.full(these.size, high if value > 0 else low, dtype=np.float64)
        far = np.flatnonzero(n_near == 0)
        missing = None if mask is None else mask[these[far]]
        nearest[far], is_apart = _nearest(rows[far], missing, value)
        n_near[far] = ~is_apart
        ends["kind"][these], ends["value"][these], ends["n"][these] = LIMIT, value, n_ends
        ends["nearest"][these], ends["n_near"][these] = nearest, n_near


def _nearest(rows: Array, mask: Mask | None, end: float) -> tuple[Float, Mask]:
    """Return the value of each row closest to a limit, (k,), and whether it is far from it, (k,).

    A distance is far if it exceeds twice the unit of the feature. The unit is the greatest common
    divisor of the differences between values.
    """
    sign = 1.0 if end > 0 else -1.0
    excluded = rows == end if mask is None else mask | (rows == end)
    others = np.where(excluded, -np.inf, sign * rows)
    nearest = others.max(axis=1, initial=-np.inf)
    steps = nearest[:, None] - others[:, :SAMPLE]
    units = np.gcd.reduce(np.where(np.isfinite(steps), steps, 0).astype(np.int64), axis=1)
    return sign * nearest, sign * end - nearest > 2 * units


def _record_zeros(raw: Array, mask: Mask | None, at: Index, ends: Array) -> None:
    """Record the features `at`, which have minimum 0, and whether 0 is far from other values."""
    ends["kind"][at], step = ZEROS, max(1, raw.shape[1] // SAMPLE)
    for samples in (slice(QUICK), slice(None, None, step)):
        values = _rows(raw[:, samples], at).astype(np.float64)
        is_other = values != 0
        if mask is not None:
            is_other &= ~mask[at, samples]
            values[~is_other] = 0.0
        n_others = np.maximum(is_other.sum(axis=1), 1)
        mean = values.sum(axis=1) / n_others
        std = np.sqrt(np.maximum(np.vecdot(values, values) / n_others - mean**2, 0.0))
        is_last = samples.stop is None
        chosen = mean > (DEVIATIONS if is_last else DEVIATIONS - 1) * std
        chosen &= (2 * n_others > values.shape[1]) | (not is_last)
        at, values, mean, std = at[chosen], values[chosen], mean[chosen], std[chosen]
        if not at.size:
            return
    has_levels = (np.diff(np.sort(values, axis=1), axis=1) > 0).sum(axis=1) >= LEVELS
    at, mean, std = at[has_levels], mean[has_levels], std[has_levels]
    rows = raw[at]
    others = rows > 0 if mask is None else (rows > 0) & ~mask[at]
    nearest = np.where(others, rows, np.inf).min(axis=1)
    is_far = nearest > CLOSEST * std
    ends["n"][at], ends["n_near"][at] = (rows == 0).sum(axis=1), is_far
    ends["nearest"][at], ends["mean"][at] = nearest, mean


def shared_code(ends: Array, m: int) -> SharedCode | None:
    """Find a number that means a missing value in many features; None if there is none.

    Features have m samples.

    Parameters
    ----------
    ends : (d,) array of `ENDS`
        Records of all features.
    """
    for find in (_only_negative, _farthest, _limit_of_type):
        found = find(ends, m)
        if found is not None:
            return found._replace(features=features_with(ends, [found.value]))
    return None


def features_with(ends: Array, codes: Sequence[float]) -> Index:
    """Return the features with a recorded end in `codes`, whether near other values or far."""
    is_number = ~np.isin(ends["kind"], (NONE, MIXED, ZEROS, ABOVE_SCALE))
    return np.flatnonzero(is_number & np.isin(ends["value"], codes))


def _most_frequent(ends: Array, kind: int) -> tuple[float, Index]:
    """Return the most frequent end among records of a kind, and the features with this end."""
    at = np.flatnonzero(ends["kind"] == kind)
    if not at.size:
        return 0.0, at
    values, counts = np.unique(ends["value"][at], return_counts=True)
    value = float(values[counts.argmax()])
    return value, at[ends["value"][at] == value]


def _only_negative(ends: Array, _: int) -> SharedCode | None:
    value, at = _most_frequent(ends, NEGATIVE)
    n_others = int(np.isin(ends["kind"], (MIXED, NEGATIVE)).sum()) - at.size
    n_mostly = int(ends["n_near"][at].sum())
    is_shared = at.size >= FEWEST and ends.size <= MANY * at.size
    if not is_shared or MANY * max(n_others, n_mostly) > at.size:
        return None
    if _are_log_counts(value, ends["nearest"][at]):
        return None
    if at.size >= COMPARED and _rank_correlation(ends["n"][at], ends["mean"][at]) < FOLLOWS:
        return None
    return SharedCode(value, at, NEGATIVE)


def _are_log_counts(least: float, nearest: Float) -> bool:
    """Whether nearly all values (k,) are logarithms of a count plus a constant.

    `least` is the logarithm of the constant, and thus the value for a count of 0.

    >>> _are_log_counts(-1.0, np.log2(np.array([1.5, 1.5, 2.5])))
    True
    >>> _are_log_counts(-1.0, np.array([0.0, 1.0, 3.0]))
    False
    """
    of_counts = log_counts(least, nearest).sum(axis=1)
    return bool((MANY * of_counts >= (MANY - 1) * nearest.size).any())


def log_counts(least: float | Float, nearest: Float) -> Mask:
    """Mask (3, k) of values that are logarithms of a count plus a constant.

    The rows are for base 2, e and 10. `least` is the logarithm of the constant. The mask is False
    for whole numbers, because they are rarely logarithms.
    """
    bases = np.array([2.0, np.e, 10.0])[:, None]
    counts = bases ** np.minimum(nearest, 30.0) - bases ** np.minimum(least, 30.0)
    are_whole = np.abs(counts - np.rint(counts)) < ROUNDING
    return np.asarray(are_whole & (nearest != np.floor(nearest)))


def _farthest(ends: Array, _: int) -> SharedCode | None:
    value, at = _most_frequent(ends, FAR)
    n_all = int((ends["kind"] == FAR).sum())
    is_shared = at.size >= FEWEST and ends.size <= MANY * at.size and n_all <= 2 * at.size
    return SharedCode(value, at, FAR) if is_shared else None


def _limit_of_type(ends: Array, m: int) -> SharedCode | None:
    value, _ = _most_frequent(ends, LIMIT)
    at = features_with(ends, [value])
    n, n_near = ends["n"][at].astype(np.float64), ends["n_near"][at].astype(np.float64)
    is_shared = at.size >= FEWEST and (MANY - 1) * ends.size <= MANY * at.size
    if not is_shared or np.median(n) > OFTEN_THERE * m or n.sum() < ENOUGH:
        return None
    if not n_near.any():
        distance = np.abs(ends["nearest"][at] - value).min()
        is_enough = n.sum() >= (ENOUGH if distance > WIDE * abs(value) else ENOUGH_NEAR)
        return SharedCode(value, at, LIMIT) if is_enough else None
    is_unequal = at.size >= COMPARED and n_near.var() > UNEQUAL * n_near.mean()
    if is_unequal and abs(_rank_correlation(n, n_near)) < UNRELATED:
        return SharedCode(value, at, LIMIT, is_certain=False)
    return None


def _rank_correlation(x: Array, y: Array) -> float:
    """Return Spearman's rank correlation of two sequences; 0 if one of them is constant."""
    ranks = [
        (np.searchsorted(ordered, v, "left") + np.searchsorted(ordered, v, "right")) / 2.0
        for v in (x, y)
        for ordered in [np.sort(v)]
    ]
    a, b = (rank - rank.mean() for rank in ranks)
    size = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / size if size else 0.0


def are_one_count(ends: Array, at: Index) -> bool:
    """Whether the features `at` are log-transformed counts, judging by their smallest values.

    The smallest value above 0 is then the logarithm for a count of 1. It varies less between
    features than the mean does.
    """
    if at.size < FEWEST_FLOORS:
        return False
    spreads = [np.subtract(*np.quantile(ends[of][at], (0.75, 0.25))) for of in ("nearest", "mean")]
    return bool(spreads[0] <= FLOOR * spreads[1])

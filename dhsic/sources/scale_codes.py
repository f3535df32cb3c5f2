"""Codes for missing values above short scales, such as 7 for no answer if answers are 1 to 5.

In a single feature, a 7 beside values from 1 to 5 may be an ordinary value. If many features have
values from 1 to 5 and the number 7, and hardly any feature has a 6, then 7 is a code. A scale is a
sequence of values without gaps, in steps of 1 or 1/2 (0, 0.5 and 1 for genotypes). Fractions from 0
to 1, or from 0 to 2, are also a scale if the code is 1 above it, such as 3 for imputed dosages.

First the largest value of each feature is recorded (`dhsic.sources.shared_codes.ENDS`). The record
of a feature does not depend on other features. Then the records of all features are compared.
"""

from __future__ import annotations

import numpy as np

from dhsic._typing import Array, Float, Index, Mask
from dhsic.sources.shared_codes import (
    ABOVE_SCALE,
    ENOUGH,
    FEWEST,
    MANY,
    NONE,
    REPEATED,
    SAMPLE,
    ZEROS,
    SharedCode,
)

#: First values of a scale, and its minimum number of values.
FIRST, SHORTEST = (-1.0, 0.0, 1.0), 3
#: Maximum code. Zeros are far from all other values (`ZEROS`) only if these are larger.
HIGHEST = 19
#: Minimum distance between a code and a scale, in steps of the scale.
STEPS = 2
#: Codes beside fractions from 0 to 1, and from 0 to 2.
BESIDE_FRACTIONS = (2.0, 3.0)
#: Minimum number of values of all features with a code, in which a rare value of a scale would
#: occur; and maximum share of features that have values between the scale and the code.
VALUES, FEW = 1000, 1 / 20
#: Last value of a scale and number above it, in steps, in series of doses (0, 1, 2, 4) and in
#: series like that of Fibonacci (1, 2, 3, 5); and maximum share of codes there.
SERIES, RARE = ((2.0, 4.0), (3.0, 5.0)), 0.1


def record_scales(raw: Array, mask: Mask | None, most: Array, least: Array, ends: Array) -> None:
    """Record, in `ends` (c,), the features in which the largest value lies above a scale.

    `raw` (c, m) contains the stored values, `most` and `least` (c,) their extremes. In a record,
    `n` is the number of samples with the largest value, and `mean` is the step of the scale. If
    other values are less than `STEPS` steps below the largest value, it is not a code, and `n`
    is 0.
    """
    if raw.dtype.kind == "b":
        return
    is_open = (ends["kind"] == NONE) | ((ends["kind"] == ZEROS) & (ends["n"] == 0))
    in_range = (least >= FIRST[0]) & (least <= FIRST[-1]) & (most <= HIGHEST)
    shortest = STEPS if raw.dtype.kind == "f" else STEPS + SHORTEST - 1  # genotypes are shorter
    at = np.flatnonzero(is_open & in_range & (most >= least + shortest) & (most == np.floor(most)))
    at, steps = _steps(raw[:, :SAMPLE], at, most, least, None if mask is None else mask[:, :SAMPLE])
    for n in (SAMPLE, raw.shape[1]):
        values = raw[at, :n]
        low = (most[at] - STEPS * steps).astype(raw.dtype)[:, None]
        between = (values > low) & (values < most[at, None])
        if mask is not None:
            between &= ~mask[at, :n]
        is_taken = between.any(axis=1)
        _record(ends, at[is_taken], most, steps[is_taken])
        at, steps = at[~is_taken], steps[~is_taken]
    n_codes = (raw[at] == most[at, None]).sum(axis=1)
    n_present = raw.shape[1] - (0 if mask is None else mask[at].sum(axis=1))
    is_code = (n_codes >= REPEATED) & (2 * n_codes < n_present)
    at, steps, n_codes = at[is_code], steps[is_code], n_codes[is_code]
    rows = raw[at] if mask is None else np.where(mask[at], least[at, None], raw[at])
    last, n_last = _last(rows, most[at], least[at], steps)
    is_scale = n_last > 0
    _record(ends, at[is_scale], most, steps[is_scale])
    ends["nearest"][at], ends["n"][at], ends["n_near"][at] = last, n_codes, n_last
    ends["n"][at[~is_scale]] = 0


def _record(ends: Array, at: Index, most: Array, steps: Float) -> None:
    """Record the largest value of the features `at`; `nearest` is the value one step below."""
    ends["kind"][at], ends["value"][at], ends["mean"][at] = ABOVE_SCALE, most[at], steps
    ends["nearest"][at] = most[at] - steps


def _steps(
    head: Array, at: Index, most: Array, least: Array, mask: Mask | None
) -> tuple[Index, Float]:
    """Return the features among `at` that look like a scale, and the steps of the scales.

    Only the first values, `head`, are examined.
    """
    if head.dtype.kind != "f":
        return at, np.ones(at.size)
    values = head[at] if mask is None else np.where(mask[at], most[at, None], head[at])
    are_whole = (values == np.floor(values)).all(axis=1)
    are_halves = (2 * values == np.floor(2 * values)).all(axis=1) & np.isin(least[at], FIRST)
    may_be_fractions = np.isin(most[at], BESIDE_FRACTIONS) & (least[at] >= 0) & (least[at] < 1)
    chosen = are_halves | (may_be_fractions & ~are_whole)
    return at[chosen], np.where(are_whole, 1.0, 0.5)[chosen]


def _last(rows: Array, most: Array, least: Array, steps: Float) -> tuple[Float, Index]:
    """Return the last value of each scale, (k,), and its number of samples, (k,).

    `rows` (k, m) contains the values of k features, and `most` (k,) the code above each scale. The
    number of samples is 0 if the values below the code are not a scale.
    """
    last = np.where(rows < most[:, None], rows, least[:, None]).max(axis=1)
    n_values = np.rint((last - least) / steps).astype(np.int64) + 1
    n_found = np.zeros(n_values.shape, dtype=np.int64)
    n_on_steps = (rows == most[:, None]).sum(axis=1)
    for k in range(n_values.max(initial=0)):
        value = (least + k * steps).astype(rows.dtype)[:, None]
        n = np.where(k < n_values, (rows == value).sum(axis=1), 0)
        n_found, n_on_steps = n_found + (n > 0), n_on_steps + n
    n_last = (rows == last[:, None]).sum(axis=1)
    is_scale = (n_on_steps == rows.shape[1]) & (n_found == n_values) & (n_values >= SHORTEST)
    are_fractions = (n_on_steps < rows.shape[1]) & np.isin(most, BESIDE_FRACTIONS)
    n_last = np.where(is_scale, n_last, np.where(are_fractions, rows.shape[1], 0))
    return np.where(are_fractions, most - 1.0, last), n_last


def code_above_scales(ends: Array, m: int) -> SharedCode | None:
    """Find a missing-value code above the scales of many features; None if there is none.

    These features must have the same scale, and hardly any may have values between the end of the
    scale and the code. Features have m samples.

    Parameters
    ----------
    ends : (d,) array of `ENDS`
        Records of all features.
    """
    at = np.flatnonzero((ends["kind"] == ABOVE_SCALE) & (ends["n"] > 0))
    if at.size < FEWEST:
        return None
    pairs = np.column_stack([ends["value"][at], ends["nearest"][at]])
    distinct, counts = np.unique(pairs, axis=0, return_counts=True)
    code, last = distinct[counts.argmax()].tolist()
    same = at[(pairs == (code, last)).all(axis=1)]
    features = at[(pairs[:, 0] == code) & (pairs[:, 1] <= last)]
    is_between = (ends["kind"] == ABOVE_SCALE) & (ends["value"] > last) & (ends["value"] <= code)
    n_others = int(is_between.sum()) - features.size
    is_shared = same.size >= FEWEST and ends.size <= MANY * features.size
    is_shared &= 2 * same.size > features.size and m * features.size >= VALUES
    if not is_shared or n_others > FEW * features.size:
        return None
    n_codes, step = int(ends["n"][features].sum()), float(ends["mean"][same[0]])
    if min(n_codes, ends["n_near"][same].sum()) < ENOUGH:
        return None
    if (last / step, code / step) in SERIES and n_codes > RARE * m * features.size:
        return None
    return SharedCode(code, features, ABOVE_SCALE)

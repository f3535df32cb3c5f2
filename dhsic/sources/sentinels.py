"""Numbers that stand for missing values in continuous features: -999, 999, 9999 and the like.

Taken for values they lie far outside all others and decide the ranking. They are looked for in the
pass that measures features, at no cost: the largest and the smallest value of each feature are at
hand, and only where one of them is a code are the others looked at. A value is taken for a code if
it is one of `CODES`, and lies further from all values that are no codes than these lie from each
other: surveys write several (77, 88 and 99 for refused, unknown and missing), none of which is far
from the next. Large values of heavy tails seldom do, and never again and again, so data are refused
where a code is so in two features or more, and twice or more in one of them; or, negative beside
others that are not, twice in a single one. What else stands apart again and again is told.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dhsic._typing import Array, Float, Index, Mask
from dhsic.errors import DataError, warn
from dhsic.sources import AbstractSource
from dhsic.sources.ids import abbreviate

#: Numbers of two to five digits that are written for missing values: 77, 88, 97, 98, 99, 777, ...
POSITIVE = tuple(
    int(first * (n - 1) + last)
    for n in range(2, 6)
    for first, last in ("77", "88", "97", "98", "99")
)
#: Those that stand beside -9, and are values where they are alone.
BESIDE_9 = (-8, -7)
#: Numbers that programs fill arrays with where nothing was measured: of logs of wells and weather
#: (-999.25, 999.9), of NetCDF (9.97e36), and the limits of types.
FILLS = (
    *(-999.25, -99.9, -99.99, -999.9, -999.99, -9999.9, 999.9, 9999.9, 9.969209968386869e36),
    *(1e20, 1e30, -3.4028234663852886e38, 3.4028234663852886e38),
    *(-1.7976931348623157e308, 1.7976931348623157e308),
    *(-32768, 32767, -2147483648, 2147483647),
)
#: Numbers that are written for missing values. 9 and -1 are none here: too many values are.
CODES = np.array(
    sorted((*(-code for code in POSITIVE), -9, *BESIDE_9, *POSITIVE, *FILLS)), np.float64
)
#: Codes so near to ordinary values that they are ones only where a tenth of the features has them.
NEAR, MANY = 100.0, 10
#: Least distance of a code from other values, as a part of the code.
DISTANCE = 0.1
#: Bit of zeros that are the least values; those far below all others, which may be missing, are
#: counted. Samples that are looked at first.
ZERO, HEAD = 1 << CODES.size, 256
#: Largest whole number of features whose zeros are values in any case: dosages, and presence.
DOSAGE = 2
#: Features with zeros near to others from which on, if they are the more, zeros are values in all:
#: of expression, zeros are what was not seen.
ORDINARY_ZEROS = 20
#: The largest code that is certain where all other values are 0 or more: -9 and -1 may be values.
BELOW_ALL = -77.0
#: Bit of codes that are told and not refused: they stand apart from others, less than far from all.
#: With no other bit it is that of -1, least whole number of a scale that goes on from 1 to so much.
LONE, LEAST, FEWEST_STEPS = np.int64(-(2**63)), -1.0, 3
#: How often a number occurs at least that stands alone at an end of a scale of so many others.
OFTEN, SCALE = 3, 10
#: Gap between such a number and all others, over the largest and the middle gap between these.
OF_LARGEST, OF_MIDDLE = 2, 10
#: Features that are named.
MOST_NAMED = 3


class Sentinels(NamedTuple):
    """Codes of features, (c,) each.

    Those of `CODES` as bits, how often they occur, and the next value inwards; else 0.
    """

    codes: Index
    n: Index
    nearest: Float


def found_in(raw: Array, mask: Mask | None, most: Array, least: Array) -> Sentinels:
    """Codes in stored values (c, m), of which `most` and `least` (c,) are the extremes."""
    c = len(raw)
    sentinels = Sentinels(np.zeros(c, np.int64), np.zeros(c, np.int64), np.zeros(c))
    with np.errstate(over="ignore"):  # limits of doubles are none of single precision
        known = CODES.astype(raw.dtype).astype(np.float64) if raw.dtype.kind == "f" else CODES
    may_be = (np.isin(least, known) | np.isin(most, known)) & (least != most)
    for j in np.flatnonzero(may_be):
        values = (raw[j] if mask is None else raw[j][~mask[j]]).astype(np.float64)
        codes, counts = np.unique(values[np.isin(values, known)], return_counts=True)
        others = values[~np.isin(values, known)]
        if 2 * others.size < values.size or not others.size:
            continue
        low, high = others.min(), others.max()
        with np.errstate(over="ignore"):
            beyond = np.maximum(low - codes, codes - high)
        are_codes = (beyond > high - low) & (beyond > DISTANCE * np.abs(codes))
        are_codes |= (codes <= BELOW_ALL) & (low >= 0)
        are_codes &= high > low
        is_lone = not are_codes.any()
        if is_lone:
            are_codes = _lone(codes, counts, others)
        if are_codes.any():
            codes, counts = codes[are_codes], counts[are_codes]
            sentinels.codes[j] = (1 << np.searchsorted(known, codes)).sum()
            sentinels.codes[j] |= LONE if is_lone else 0
            sentinels.n[j] = counts.sum()
            sentinels.nearest[j] = low if codes[counts.argmax()] < low else high
    _find_least(raw, mask, np.flatnonzero((least == LEAST) & (most >= FEWEST_STEPS)), sentinels)
    may_be_counts = (most > DOSAGE) | (raw.dtype.kind == "f")
    with_zeros = np.flatnonzero((least == 0) & (most > 0) & may_be_counts)
    sentinels.codes[with_zeros] |= ZERO
    for j in _with_zeros_apart(raw, with_zeros):
        values = (raw[j] if mask is None else raw[j][~mask[j]]).astype(np.float64)
        n, others = int((values == 0).sum()), np.unique(values[values != 0])
        if sentinels.codes[j] == ZERO and OFTEN <= n < values.size / 2 and is_apart(0, others):
            sentinels.n[j], sentinels.nearest[j] = n, others[0]
    return sentinels


def _lone(codes: Float, counts: Index, others: Float) -> Mask:
    """Which codes of a feature, with their counts, stand alone at an end of its other values."""
    is_often = counts >= OFTEN
    scale = np.unique(others) if is_often.any() else others[:0]
    are_apart = np.array([is_apart(code, scale) for code in codes.tolist()], dtype=bool)
    return np.asarray(is_often & are_apart)


def _find_least(raw: Array, mask: Mask | None, at: Index, sentinels: Sentinels) -> None:
    """Mark features, of those at `at`, in which -1 stands alone below all other values."""
    for j in _with_least_apart(raw, at):
        values = (raw[j] if mask is None else raw[j][~mask[j]]).astype(np.float64)
        n, others = int((values == LEAST).sum()), np.unique(values[values != LEAST])
        if not sentinels.codes[j] and OFTEN <= n < values.size / 2 and _is_below(others):
            sentinels.codes[j], sentinels.n[j], sentinels.nearest[j] = LONE, n, others[0]


def _with_least_apart(raw: Array, at: Index) -> Index:
    """Features, of those at `at`, without values between -1 and 1 among the first samples."""
    head = raw[at, :HEAD].astype(np.float64)
    return np.asarray(at[~((head > LEAST) & (head < 1)).any(axis=1)])


def _is_below(scale: Array) -> bool:
    """Whether -1 lies below a scale, sorted: of many values, or of whole numbers from 1 on."""
    if scale.size >= SCALE:
        return is_apart(LEAST, scale)
    return scale.size >= FEWEST_STEPS and scale[0] == 1 and bool((np.diff(scale) == 1).all())


def _with_zeros_apart(raw: Array, at: Index) -> Index:
    """Features, of those at `at`, that may have zeros far below others, by the first samples."""
    head = raw[at, :HEAD].astype(np.float64)
    gaps = np.diff(np.sort(np.where(head > 0, head, np.nan), axis=1), axis=1, prepend=0.0)
    largest = np.nan_to_num(gaps[:, 1:]).max(axis=1, initial=0.0)
    is_apart_there = (gaps[:, 0] > OF_LARGEST * largest) & (largest > 0)
    return np.asarray(at[is_apart_there])


def is_apart(code: float, scale: Array) -> bool:
    """Whether a number lies beyond a scale, sorted, further than its steps from each other.

    >>> is_apart(0, np.arange(90.0, 200)), is_apart(0, np.arange(1.0, 200))
    (True, False)
    """
    if scale.size < SCALE:
        return False
    gap, gaps = max(code - scale[-1], scale[0] - code), np.diff(scale)
    return bool(gap > OF_LARGEST * gaps.max() and gap > OF_MIDDLE * np.median(gaps))


def refuse_sentinels(found: Sentinels, source: AbstractSource) -> None:
    """Refuse data with codes for missing values, unless it was said what is missing.

    Zeros that may be missing are told by a warning.

    Raises
    ------
    DataError
        The same code in several features; the message names all codes, features, how often, and
        what to do.
    """
    if source.keeps_codes:
        return
    _warn_of_zeros(found, source)
    coded, d = np.flatnonzero((found.codes >= 0) & (found.codes & ~ZERO != 0)), found.codes.size
    every, found = found, Sentinels(found.codes[coded], found.n[coded], found.nearest[coded])
    has = (found.codes[:, None] >> np.arange(CODES.size)) & 1 == 1  # (features, codes)
    is_certain = np.array([_is_certain(k, has[:, k], found, d) for k in range(CODES.size)])
    if not is_certain.any():
        _warn_of_lone(every, source)
        return
    beside = has[has[:, is_certain].any(axis=1)].any(axis=0)
    again = has[found.n >= 2].any(axis=0) & (np.abs(CODES) >= NEAR)
    is_code = is_certain | beside | again
    codes = CODES[is_code].tolist()
    at = np.flatnonzero(has[:, is_code].any(axis=1))
    names = source.feature_names()
    told = "; ".join(
        f"{f'feature {coded[j]}' if names is None else names[coded[j]]}: {found.n[j]:,}, "
        f"others {'from' if CODES[has[j].argmax()] < found.nearest[j] else 'to'} "
        f"{found.nearest[j]:.6g}"
        for j in at[:MOST_NAMED].tolist()
    )
    more = f"; and {at.size - MOST_NAMED:,} more" if at.size > MOST_NAMED else ""
    listed, said = " or ".join(map(written, codes)), ", ".join(map(written, codes))
    said = said if len(codes) == 1 else f"[{said}]"
    raise DataError(
        f"{int(found.n[at].sum()):,} values of {at.size:,} feature{'s' * (at.size > 1)} are "
        f"{listed}, which many programs write for missing values, far from all others there "
        f"({told}{more}). Pass missing_code={said} if they are missing; missing_code=None takes "
        "every number for a value."
    )


def written(code: float) -> str:
    """A code with all of its digits.

    >>> written(-9.0), written(-999.25)
    ('-9', '-999.25')
    """
    return str(int(code)) if code == int(code) and abs(code) < 1e15 else repr(float(code))


def in_both_precisions(codes: Sequence[float]) -> Float:
    """Codes as doubles have them, and as single precision rounds them."""
    exact = np.array(codes, dtype=np.float64)
    with np.errstate(over="ignore"):
        single = exact.astype(np.float32)
    return np.concatenate([exact, single[np.isfinite(single)]])


def _warn_of_zeros(found: Sentinels, source: AbstractSource) -> None:
    """Name features with zeros far below all other values, such as a blood pressure of 0."""
    has_zeros = found.codes == ZERO
    at = np.flatnonzero(has_zeros & (found.n > 0))
    if not at.size or has_zeros.sum() - at.size >= max(ORDINARY_ZEROS, at.size):
        return
    called = _called(source, at)
    listed = abbreviate(
        (
            f"{name}: {found.n[j]:,}, others from {found.nearest[j]:.6g}"
            for name, j in zip(called, at.tolist(), strict=True)
        ),
        MOST_NAMED,
    )
    remedy = f"na=['{called[0]}=0']" if source.read_as else "write NaN there"
    warn(
        f"Zeros lie far below all other values of {at.size:,} feature{'s' * (at.size > 1)} "
        f"({listed}). If they stand for missing values there, {remedy} "
        f"{'says so of a column' if source.read_as else 'instead'}; else nothing is to be done.",
    )


def _called(source: AbstractSource, at: Index) -> list[str]:
    """Names of features, or their places."""
    names = source.feature_names()
    return [str(j) if names is None else str(names[j]) for j in at.tolist()]


def _warn_of_lone(found: Sentinels, source: AbstractSource) -> None:
    """Name features in which a code stands apart again and again, and which are not refused."""
    has_code = (found.codes & ~ZERO) != 0
    at = np.flatnonzero(has_code & ((found.n >= OFTEN) | ((found.codes > 0) & (found.n > 1))))
    if not at.size:
        return
    bits = found.codes[at] & ~LONE & ~np.int64(ZERO)
    codes = [CODES[int(of).bit_length() - 1] if of else LEAST for of in bits.tolist()]
    called = _called(source, at)
    listed = abbreviate(
        (
            f"{name}: {written(code)} {found.n[j]:,} times, others "
            f"{'from' if code < found.nearest[j] else 'to'} {found.nearest[j]:.6g}"
            for name, code, j in zip(called, codes, at.tolist(), strict=True)
        ),
        MOST_NAMED,
    )
    remedy = f"na=['{called[0]}={written(codes[0])}']" if source.read_as else "write NaN there"
    warn(
        f"Codes that many programs write for missing values stand apart from all other values of "
        f"{at.size:,} feature{'s' * (at.size > 1)} ({listed}). If they are missing there, {remedy} "
        f"{'says so of a column' if source.read_as else 'instead'}; else nothing is to be done.",
    )


def _is_certain(k: int, has_code: Mask, found: Sentinels, d: int) -> bool:
    """Whether a code that some of d features have, of those with any, is one of missing values."""
    code, n_features = float(CODES[k]), int(has_code.sum())
    if not n_features or code in BESIDE_9:
        return False
    again = found.n[has_code] >= 2
    if code <= BELOW_ALL and (again & (found.nearest[has_code] >= 0)).any():
        return True
    if abs(code) < NEAR and MANY * n_features < d:
        return False
    return bool(n_features > 1 and again.any())

"""Numbers that mean missing values in continuous features: -999, 999, 9999 and the like.

If such codes are treated as values, they are far outside all other values and decide the ranking.
The pass that computes means and variances detects them at almost no cost. It knows the largest and
the smallest value of each feature, and examines other values only if one of these two is a code. A
value is a code if it is in `CODES`, and if it is farther from all other values than these are from
each other. Further codes do not count as other values, because surveys use several codes that are
close to each other (77, 88 and 99 for refused, unknown and missing).

Large values of heavy tails rarely look like this, and hardly ever repeatedly. An error is therefore
raised in these cases:

- A code occurs in at least two features, and at least twice in one of them.
- A negative code occurs twice in a feature without other negative values.
- A tenth of the features have 8 or 9 above a short scale (`dhsic.sources.scales`).
- Many features share a code of any value (`dhsic.sources.shared_codes`,
  `dhsic.sources.scale_codes`).

Other whole numbers cause a warning if they are the largest or smallest value of a feature, occur
repeatedly, and are far from all other values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dhsic._typing import Array, Float, Index, Mask
from dhsic.errors import DataError, warn
from dhsic.sources import AbstractSource
from dhsic.sources.ids import abbreviate
from dhsic.sources.scale_codes import code_above_scales, record_scales
from dhsic.sources.scales import DIGITS, LONGEST, codes_beside_scale
from dhsic.sources.shared_codes import (
    ABOVE_SCALE,
    FAR,
    FEWEST,
    LIMIT,
    NEGATIVE,
    ZEROS,
    SharedCode,
    are_one_count,
    ends_in,
    features_with,
    log_counts,
    shared_code,
)

#: Codes of two to five digits for missing values: 77, 88, 97, 98, 99, 777, ...
POSITIVE = tuple(
    int(first * (n - 1) + last)
    for n in range(2, 6)
    for first, last in ("77", "88", "97", "98", "99")
)
#: Codes that occur beside -9; without -9 they are values.
BESIDE_9 = (-8, -7)
#: Fill values that programs write if nothing was measured: well logs and weather data (-999.25,
#: 999.9), NetCDF (9.97e36), and the limits of types.
FILLS = (
    *(-999.25, -99.9, -99.99, -999.9, -999.99, -9999.9, 999.9, 9999.9, 9.969209968386869e36),
    *(1e20, 1e30, -3.4028234663852886e38, 3.4028234663852886e38),
    *(-1.7976931348623157e308, 1.7976931348623157e308),
    *(-32768, 32767, -2147483648, 2147483647),
)
#: All codes for missing values, sorted. 9 and -1 are not included, because they are often values.
CODES = np.array(
    sorted((*(-code for code in POSITIVE), -9, *BESIDE_9, *POSITIVE, *FILLS)), np.float64
)
#: Codes smaller than `NEAR` in magnitude are close to ordinary values. They are codes only if at
#: least one in `MANY` features has them.
NEAR, MANY = 100.0, 10
#: Minimum distance of a code from other values, as a share of the code.
DISTANCE = 0.1
#: Bit that marks features whose smallest value is 0 (zeros are counted if they are far below all
#: other values and may mean missing); and number of samples that are examined first.
ZERO, HEAD = 1 << CODES.size, 256
#: Integer features up to this value are dosages or presence, so their zeros are always values.
DOSAGE = 2
#: Minimum number of features with zeros near other values. If they are also the majority, all zeros
#: are values: in expression data, zero means not detected.
ORDINARY_ZEROS = 20
#: Largest code that is certain if all other values are at least 0: -9 and -1 may be values.
BELOW_ALL = -77.0
#: Bit of codes that cause a warning instead of an error, because they are separated from other
#: values, but not far from them. Without another bit it means the code -1, below a scale of whole
#: numbers from 1 to at least `FEWEST_STEPS`.
LONE, LEAST, FEWEST_STEPS = np.int64(-(2**63)), -1.0, 3
#: Bits of features with codes next to a short scale. Lower bits mark which of `DIGITS` occur.
ON_SCALE = LONE | np.int64(ZERO)
#: Minimum number of occurrences of a number beyond one end of a scale, and minimum number of
#: distinct values of the scale.
OFTEN, SCALE = 3, 10
#: Minimum gap between such a number and all others, relative to their largest and median gap.
OF_LARGEST, OF_MIDDLE = 2, 10
#: Share of the first samples with the largest value of a scale, below which it is a tail.
RARE = 0.02
#: Maximum number of features that a message names, and that it lists in an option.
MOST_NAMED, MOST_LISTED = 3, 10


class Sentinels(NamedTuple):
    """Possible codes for missing values in each of c features; all fields have shape (c,).

    `codes` contains bits. Bit k means that ``CODES[k]`` occurs in the feature; higher bits (`ZERO`,
    `LONE`) mark other kinds of codes. `n` is the number of values that equal one of the codes, and
    `nearest` the closest other value. All three are 0 without codes. `ends` are records of an
    extreme value of each feature, which may be a code if many features share it
    (`dhsic.sources.shared_codes.ENDS`).
    """

    codes: Index
    n: Index
    nearest: Float
    ends: Array

    def take(self, at: Index) -> Sentinels:
        """Select the codes of some features."""
        return Sentinels(self.codes[at], self.n[at], self.nearest[at], self.ends[at])


def found_in(raw: Array, mask: Mask | None, most: Array, least: Array) -> Sentinels:
    """Find possible codes for missing values in stored values (c, m).

    `most` and `least` (c,) are the largest and the smallest value of each feature.
    """
    c = len(raw)
    ends = ends_in(raw, mask, most, least, POSITIVE)
    record_scales(raw, mask, most, least, ends)
    sentinels = Sentinels(np.zeros(c, np.int64), np.zeros(c, np.int64), np.zeros(c), ends)
    with np.errstate(over="ignore"):  # limits of float64 overflow in float32
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
    _find_beside_scales(raw, mask, most, least, sentinels)
    _find_repeated(raw, mask, sentinels)
    may_be_counts = (most > DOSAGE) | (raw.dtype.kind == "f")
    with_zeros = np.flatnonzero((least == 0) & (most > 0) & may_be_counts)
    sentinels.codes[with_zeros[sentinels.codes[with_zeros] == 0]] = ZERO
    for j in _with_zeros_apart(raw, with_zeros):
        values = (raw[j] if mask is None else raw[j][~mask[j]]).astype(np.float64)
        n, others = int((values == 0).sum()), np.unique(values[values != 0])
        if sentinels.codes[j] == ZERO and OFTEN <= n < values.size / 2 and is_apart(0, others):
            sentinels.n[j], sentinels.nearest[j] = n, others[0]
    return sentinels


def _lone(codes: Float, counts: Index, others: Float) -> Mask:
    """Mask of the `codes` of a feature that occur often and are far from its other values."""
    is_often = counts >= OFTEN
    scale = np.unique(others) if is_often.any() else others[:0]
    are_apart = np.array([is_apart(code, scale) for code in codes.tolist()], dtype=bool)
    return np.asarray(is_often & are_apart)


def _find_least(raw: Array, mask: Mask | None, at: Index, sentinels: Sentinels) -> None:
    """Mark in `sentinels` the features among `at` in which -1 is far below all other values."""
    for j in _with_least_apart(raw, at):
        values = (raw[j] if mask is None else raw[j][~mask[j]]).astype(np.float64)
        n, others = int((values == LEAST).sum()), np.unique(values[values != LEAST])
        is_often = OFTEN <= n < values.size / 2 and not log_counts(LEAST, others[:1]).any()
        if not sentinels.codes[j] and is_often and _is_below(others):
            sentinels.codes[j], sentinels.n[j], sentinels.nearest[j] = LONE, n, others[0]


def _find_repeated(raw: Array, mask: Mask | None, sentinels: Sentinels) -> None:
    """Mark the features that have a repeated whole number at one end, far from other values."""
    ends = sentinels.ends
    is_far = (ends["kind"] == FAR) | ((ends["kind"] == NEGATIVE) & (ends["n_near"] == 0))
    is_far &= ends["n"] >= OFTEN
    of_counts = log_counts(ends["value"], ends["nearest"]).any(axis=0) & (ends["kind"] == NEGATIVE)
    at = np.flatnonzero(is_far & ~of_counts & (sentinels.codes == 0))
    at = at[[_may_be_code(value) for value in ends["value"][at].tolist()]]
    head = raw[at, :HEAD].astype(np.float64)
    if mask is not None:
        head[mask[at, :HEAD]] = np.nan
    for j in at[_are_apart_there(head, ends[at])]:
        values = (raw[j] if mask is None else raw[j][~mask[j]]).astype(np.float64)
        code = ends["value"][j]
        scale = np.unique(values[values != code])
        if ends["kind"][j] == NEGATIVE:
            scale = scale[: max(SCALE, scale.size // 2)]
        if is_apart(code, scale):
            sentinels.codes[j], sentinels.n[j] = LONE, ends["n"][j]
            sentinels.nearest[j] = ends["nearest"][j]


def _may_be_code(value: float) -> bool:
    """Whether a number is whole or has only nines as digits, like most codes.

    >>> _may_be_code(500.0), _may_be_code(-99.9), _may_be_code(98.6)
    (True, True, False)
    """
    return value.is_integer() or {*str(abs(value))} == {*"9."}


def _are_apart_there(head: Float, ends: Array) -> Mask:
    """Mask (c,) of the features with an extreme value that is far from the other values.

    `ends` (c,) contains the extreme values. Their distances are compared with the gaps between the
    first values, `head` (c, n), of the features. If only the extreme value is negative, only gaps
    below the median count.
    """
    others = np.sort(np.where(head == ends["value"][:, None], np.nan, head), axis=1)
    gaps = np.nan_to_num(np.diff(others, axis=1))
    is_lower = np.arange(gaps.shape[1]) < (~np.isnan(others)).sum(axis=1)[:, None] // 2
    gaps[(ends["kind"] == NEGATIVE)[:, None] & ~is_lower] = 0.0
    return np.asarray(
        np.abs(ends["value"] - ends["nearest"]) > OF_LARGEST * gaps.max(axis=1, initial=0.0)
    )


def _find_beside_scales(
    raw: Array, mask: Mask | None, most: Array, least: Array, sentinels: Sentinels
) -> None:
    """Mark the features in which codes (`DIGITS`) occur at least twice above a short scale.

    `most` and `least` (c,) are the largest and the smallest value of each feature.
    """
    at = np.flatnonzero(np.isin(most, DIGITS) & np.isin(least, (0, 1)) & (sentinels.codes == 0))
    for j in _with_whole_numbers(raw, at):
        values = (raw[j] if mask is None else raw[j][~mask[j]]).astype(np.float64)
        levels, counts = np.unique(values, return_counts=True)
        places = codes_beside_scale(levels, counts)
        if counts[places].sum() > 1:
            bits = sum(1 << DIGITS.index(code) for code in levels[places].tolist())
            sentinels.codes[j], sentinels.n[j] = ON_SCALE | bits, counts[places].sum()
            sentinels.nearest[j] = levels[places[0] - 1]


def _with_whole_numbers(raw: Array, at: Index) -> Index:
    """Select the features in `at` that look like a short scale in the first samples.

    Their values are whole numbers, and the largest value below the codes is not rare. The largest
    value of a count would be rare.
    """
    head = raw[at, :HEAD].astype(np.float64)
    present, is_code = ~np.isnan(head), np.isin(head, DIGITS[1:])
    are_whole = (~present | (head == np.floor(head))).all(axis=1)
    on_scale = np.where(present & ~is_code & (head <= LONGEST), head, -np.inf)
    n_last = (on_scale == on_scale.max(axis=1, initial=0)[:, None]).sum(axis=1)
    is_populated = (n_last >= RARE * head.shape[1]) | (is_code.sum(axis=1) > n_last)
    return np.asarray(at[are_whole & is_populated])


def _with_least_apart(raw: Array, at: Index) -> Index:
    """Select the features in `at` without values between -1 and 1 in the first samples."""
    head = raw[at, :HEAD].astype(np.float64)
    return np.asarray(at[~((head > LEAST) & (head < 1)).any(axis=1)])


def _is_below(scale: Array) -> bool:
    """Whether -1 is far below sorted values, or the values are whole numbers 1, 2, 3 and so on."""
    if scale.size >= SCALE:
        return is_apart(LEAST, scale)
    return scale.size >= FEWEST_STEPS and scale[0] == 1 and bool((np.diff(scale) == 1).all())


def _with_zeros_apart(raw: Array, at: Index) -> Index:
    """Select the features in `at` with positive values far above 0 in the first samples."""
    head = raw[at, :HEAD].astype(np.float64)
    gaps = np.diff(np.sort(np.where(head > 0, head, np.nan), axis=1), axis=1, prepend=0.0)
    largest = np.nan_to_num(gaps[:, 1:]).max(axis=1, initial=0.0)
    is_apart_there = (gaps[:, 0] > OF_LARGEST * largest) & (largest > 0)
    return np.asarray(at[is_apart_there])


def is_apart(code: float, scale: Array) -> bool:
    """Whether a number is outside the range of sorted distinct values, farther than their gaps.

    >>> is_apart(0, np.arange(90.0, 200)), is_apart(0, np.arange(1.0, 200))
    (True, False)
    """
    if scale.size < SCALE:
        return False
    gap, gaps = max(code - scale[-1], scale[0] - code), np.diff(scale)
    return bool(gap > OF_LARGEST * gaps.max() and gap > OF_MIDDLE * np.median(gaps))


def refuse_sentinels(found: Sentinels, source: AbstractSource) -> None:
    """Raise an error for codes for missing values, unless the caller declared missing codes.

    Zeros that may mean missing values cause only a warning.

    Raises
    ------
    DataError
        Several features have the same code. The message lists codes, features and counts, and says
        how to declare the codes.
    """
    if source.keeps_codes:
        return
    _warn_of_zeros(found, source)
    coded, d = np.flatnonzero((found.codes >= 0) & (found.codes & ~ZERO != 0)), found.codes.size
    every, found = found, found.take(coded)
    has = (found.codes[:, None] >> np.arange(CODES.size)) & 1 == 1  # (features, codes)
    is_certain = np.array([_is_certain(k, has[:, k], found, d) for k in range(CODES.size)])
    if not is_certain.any():
        _refuse_beside_scales(every, source)
        shared = shared_code(every.ends, source.n_samples)
        shared = shared or code_above_scales(every.ends, source.n_samples)
        if shared is not None:
            _refuse_shared(shared, every, source)
        _warn_of_lone(every, source)
        return
    beside = has[has[:, is_certain].any(axis=1)].any(axis=0)
    again = has[found.n >= 2].any(axis=0) & (np.abs(CODES) >= NEAR)
    is_code = is_certain | beside | again
    codes = CODES[is_code].tolist()
    at = np.flatnonzero(has[:, is_code].any(axis=1))
    names = source.feature_names()
    examples = "; ".join(
        f"{f'feature {coded[j]}' if names is None else names[coded[j]]}: {found.n[j]:,}, "
        f"others at {'least' if CODES[has[j].argmax()] < found.nearest[j] else 'most'} "
        f"{found.nearest[j]:.6g}"
        for j in at[:MOST_NAMED].tolist()
    )
    more = f"; and {at.size - MOST_NAMED:,} more" if at.size > MOST_NAMED else ""
    listed, option = " or ".join(map(written, codes)), ", ".join(map(written, codes))
    option = option if len(codes) == 1 else f"[{option}]"
    near = np.setdiff1d(features_with(every.ends, codes), coded[at])
    beside_values = (
        f"{int(every.ends['n'][near].sum()):,} values of {near.size:,} other features are "
        f"{listed}, too. "
        if near.size
        else ""
    )
    raise DataError(
        f"{int(found.n[at].sum()):,} values of {at.size:,} feature{'s' * (at.size > 1)} are "
        f"{listed}, which many programs write for missing values. All other values of the "
        f"feature{'s' * (at.size > 1)} are far from them ({examples}{more}). {beside_values}If "
        f"they are missing, pass missing_code={option}. If they are real values, pass "
        "missing_code=None."
    )


def _refuse_shared(shared: SharedCode, found: Sentinels, source: AbstractSource) -> None:
    """Raise DataError for a code that many features share; only warn if it is not certain."""
    ends, d = found.ends[shared.features], found.ends.size
    code = written(_in_precision_of(source, shared.value))
    side = "least" if shared.value < ends["nearest"][0] else "most"
    named = source.feature_names() is not None
    listed = "; ".join(
        f"{'' if named else 'feature '}{name}: {end['n']:,}"
        + (f", others at {side} {end['nearest']:.6g}" if shared.is_certain else "")
        for name, end in zip(_called(source, shared.features[:MOST_NAMED]), ends, strict=False)
    )
    more = f"; and {ends.size - MOST_NAMED:,} more" if ends.size > MOST_NAMED else ""
    is_limit = f"{code} is an end of the range of an integer type, and "
    why = {
        NEGATIVE: "All other values of these features are at least 0",
        FAR: f"All other values of these features are far from {code}, and near each other",
        ABOVE_SCALE: "Nearly all other values of these features are on a scale that ends before "
        f"{code}, with a gap between the scale and {code}",
        LIMIT: is_limit
        + (
            "the numbers next to it do not occur"
            if shared.is_certain
            else "it is not more frequent in features with more values next to it"
        ),
    }[shared.kind]
    said = (
        f"{int(ends['n'].sum()):,} values of {ends.size:,} of {d:,} features are {code} "
        f"({listed}{more}). {why}. So {code} looks like a code for missing values. If it is, pass "
        f"missing_code={code}. If it is a real value, pass missing_code=None."
    )
    if shared.is_certain:
        raise DataError(said)
    warn(said)


def _refuse_beside_scales(found: Sentinels, source: AbstractSource) -> None:
    """Raise DataError if at least a tenth of the features have codes above a short scale."""
    at = np.flatnonzero((found.codes & ON_SCALE) == ON_SCALE)
    if at.size < 2 or MANY * at.size < found.codes.size:
        return
    codes = sorted({code for j in at.tolist() for code in _digits(found.codes[j])})
    called = _called(source, at)
    listed = "; ".join(
        f"{name}: {found.n[j]:,}, others to {found.nearest[j]:.6g}"
        for name, j in zip(called[:MOST_NAMED], at.tolist(), strict=False)
    )
    more = f"; and {at.size - MOST_NAMED:,} more" if at.size > MOST_NAMED else ""
    texts = [written(code) for code in codes]
    option = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    of_column = (
        f" If other features have values of {' or '.join(texts)}, declare the codes by column: "
        f"dhsic.open_source(X, na=['{called[0]}={texts[0]}'])."
        if source.read_as
        else ""
    )
    raise DataError(
        f"{int(found.n[at].sum()):,} values of {at.size:,} features are {' or '.join(texts)}, "
        "which surveys write for missing answers. All other values of these features are "
        f"consecutive small whole numbers ({listed}{more}). If they are missing, pass "
        f"missing_code={option}. If they are real values, pass missing_code=None.{of_column}"
    )


def _digits(bits: np.int64) -> list[float]:
    """Return the codes above a short scale (some of `DIGITS`) that the bits of a feature mark."""
    return [code for k, code in enumerate(DIGITS) if int(bits & ~ON_SCALE) >> k & 1]


def _code_of(found: Sentinels, j: int) -> float:
    """Return one of the codes that are marked for feature j."""
    bits, end = found.codes[j], found.ends[j]
    if bits == LONE and end["kind"] in (FAR, NEGATIVE):
        return float(end["value"])
    if bits & ON_SCALE == ON_SCALE:
        return _digits(bits)[-1]
    code_bits = int(bits & ~LONE & ~np.int64(ZERO))
    return float(CODES[code_bits.bit_length() - 1]) if code_bits else LEAST


def written(code: float) -> str:
    """Format a code as text with all its digits.

    >>> written(-9.0), written(-999.25)
    ('-9', '-999.25')
    """
    return str(int(code)) if code == int(code) and abs(code) < 1e15 else repr(float(code))


def _in_precision_of(source: AbstractSource, value: float) -> float:
    """Return the shortest decimal number that equals `value` in the precision of the data."""
    return float(str(np.float32(value))) if np.dtype(source.dtype) == np.float32 else value


def in_both_precisions(codes: Sequence[float]) -> Float:
    """Return the codes, followed by the codes rounded to single precision."""
    exact = np.array(codes, dtype=np.float64)
    with np.errstate(over="ignore"):
        single = exact.astype(np.float32)
    return np.concatenate([exact, single[np.isfinite(single)]])


def _warn_of_zeros(found: Sentinels, source: AbstractSource) -> None:
    """Warn of features with zeros far below all other values, such as a blood pressure of 0."""
    has_zeros, is_far = found.codes == ZERO, found.ends["n_near"] > 0
    is_far &= (found.ends["kind"] == ZEROS) & (found.ends["n"] >= OFTEN)
    is_far &= is_far.sum() >= max(FEWEST, is_far.size / MANY)
    at = np.flatnonzero(has_zeros & ((found.n > 0) | is_far))
    if not at.size or has_zeros.sum() - at.size >= max(ORDINARY_ZEROS, at.size):
        return
    if are_one_count(found.ends, at):
        return
    called = _called(source, at)
    are_most = 2 * at.size >= has_zeros.size
    remedy = _remedy(source, called, [0.0] * at.size, for_all=are_most)
    n = np.where(found.n > 0, found.n, found.ends["n"])[at]
    nearest = np.where(found.n > 0, found.nearest, found.ends["nearest"])[at]
    listed = abbreviate(
        (
            f"{name}: {n_zeros:,} zeros, others at least {least:.6g}"
            for name, n_zeros, least in zip(called, n.tolist(), nearest.tolist(), strict=True)
        ),
        MOST_NAMED,
    )
    warn(
        f"In {at.size:,} feature{'s' * (at.size > 1)}, zeros lie far below all other values "
        f"({listed}). If these zeros mean missing values, {remedy}; otherwise ignore this "
        "warning.",
    )


def _remedy(
    source: AbstractSource, called: Sequence[str], codes: Sequence[float], *, for_all: bool
) -> str:
    """Return advice on how to declare `codes` as missing in the features `called`.

    `codes` contains one code for each of these features. If `for_all` is True and the codes are
    equal, the advice declares the code for all features of the source.
    """
    if for_all and len(called) > 1 and len(set(codes)) == 1:
        return f"pass missing_code={written(codes[0])}, for all features"
    if not source.read_as:
        return "write NaN there"
    pairs = [
        f"{name}={written(code)}"
        for name, code in zip(called[:MOST_LISTED], codes[:MOST_LISTED], strict=True)
    ]
    more = ", and so on" if len(called) > MOST_LISTED else ""
    return f"pass na={pairs!r}{more}"


def _called(source: AbstractSource, at: Index) -> list[str]:
    """Return the names of the features `at`, or their positions if they have no names."""
    names = source.feature_names()
    return [str(j) if names is None else str(names[j]) for j in at.tolist()]


def _warn_of_lone(found: Sentinels, source: AbstractSource) -> None:
    """Warn of features with a repeated code far from all other values, if no error was raised."""
    has_code = (found.codes & ~ZERO) != 0
    at = np.flatnonzero(has_code & ((found.n >= OFTEN) | ((found.codes > 0) & (found.n > 1))))
    if not at.size:
        return
    codes = [_code_of(found, j) for j in at.tolist()]
    # A negative number that is near other values in more features is a value, not a shared code.
    # So is a number of many features that were not refused, if their values are fractions.
    is_negative, is_end = (np.isin(found.ends["kind"], of) for of in ([NEGATIVE], [NEGATIVE, FAR]))
    n_alike = {code: (is_end & (found.ends["value"] == code)).sum() for code in {*codes}}
    n_near = {code: (is_negative & (found.ends["value"] == code)).sum() for code in {*codes}}
    n_shared = max(FEWEST, found.codes.size / MANY)
    at = np.array(
        [
            j
            for j, code in zip(at.tolist(), codes, strict=True)
            if n_near[code] <= 2 * codes.count(code)
            and (n_alike[code] < n_shared or not log_counts(code, found.nearest[[j]]).any())
        ],
        dtype=np.int64,
    )
    if not at.size:
        return
    codes = [_code_of(found, j) for j in at.tolist()]
    called = _called(source, at)
    listed = abbreviate(
        (
            f"{name}: {written(code)} {found.n[j]:,} times, others "
            f"at {'least' if code < found.nearest[j] else 'most'} {found.nearest[j]:.6g}"
            for name, code, j in zip(called, codes, at.tolist(), strict=True)
        ),
        MOST_NAMED,
    )
    near = np.setdiff1d(features_with(found.ends, codes), at)
    beside = (
        f" In {near.size:,} other feature{'s' * (near.size > 1)}, the same code is near other "
        f"values ({int(found.ends['n'][near].sum()):,} times)."
        if near.size
        else ""
    )
    every = [*called, *_called(source, near)]
    every_code = [*codes, *found.ends["value"][near].tolist()]
    for_all = MANY * len(every) >= found.codes.size
    remedy = _remedy(source, every, every_code, for_all=for_all)
    are_known = np.isin(codes, [*CODES, *DIGITS, LEAST]).all()
    what = (
        "codes that many programs write for missing values"
        if are_known
        else "a repeated number, which may be a code for missing values"
    )
    warn(
        f"{at.size:,} feature{'s' * (at.size > 1)} "
        f"{'contain' if at.size > 1 else 'contains'} {what}, far from all other values ({listed})."
        f"{beside} If they mean missing values, "
        f"{remedy}; otherwise ignore this warning.",
    )


def _is_certain(k: int, has_code: Mask, found: Sentinels, d: int) -> bool:
    """Whether ``CODES[k]`` certainly means a missing value.

    `has_code` is the mask of the features in `found` that have this code. `d` is the number of all
    features, with and without codes.
    """
    code, n_features = float(CODES[k]), int(has_code.sum())
    if not n_features or code in BESIDE_9:
        return False
    is_repeated = found.n[has_code] >= 2
    if code <= BELOW_ALL and (is_repeated & (found.nearest[has_code] >= 0)).any():
        return True
    if abs(code) < NEAR and MANY * n_features < d:
        return False
    return bool(n_features > 1 and is_repeated.any())

"""Scaling: mean and standard deviation of every feature, and standardisation of stored values.

Means and deviations are computed in one pass, in float64. Missing values become the mean of their
feature. Constant features are marked and never used. Standard deviations are population standard
deviations (divisor n), as in section 3 of the paper in JMLR.

Genotypes g (`Codes` 0, 1, 2, and -1 for missing) can be used as stored, without standardisation. A
function of such a feature has one value per code, so sums of functions follow from sums of g, of
its square and of the indicator of missing calls. Only a cast and a square are computed per entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import product
from operator import attrgetter
from typing import Any, Literal

import numpy as np

from dhsic._typing import Array, Float, Index, Mask
from dhsic.errors import InputError
from dhsic.namespace import Move, cast, host, like, namespace_of, slices, take
from dhsic.sources import AbstractSource
from dhsic.sources.sentinels import Sentinels, found_in, refuse_sentinels
from dhsic.sources.shared_codes import ENDS
from dhsic.sources.views import checksums
from dhsic.sources.wide_ranges import warn_of_spikes
from dhsic.validation import ROUNDING

#: Scaling of features: to unit standard deviation (True), none (False), or by presence. Scaling by
#: presence concerns features in which more than half of the samples have the same value, such as 0.
#: If a share q of the samples has other values, the feature is scaled to the standard deviation
#: ``sqrt(4 q (1 - q))``. Other features are scaled to 1. With unit deviation, a word in one percent
#: of the texts would have values ten deviations from its mean, and a thousand such words would
#: dominate a kernel matrix. With scaling by presence, the weight of a word is the variance of its
#: presence, for any unit and origin of its values.
PRESENCE: Literal["presence"] = "presence"
Scale = bool | Literal["presence"]

#: Features with at most this many distinct values are few-valued.
MOST_LEVELS = 8
#: Number of leading values whose distinct count can already exceed `MOST_LEVELS`.
PROBE = 64
#: Bytes of float64 values that are measured at a time, and minimum number of features. The parts
#: are small enough for the cache, and their number is small, because threads wait between calls.
CACHE_BYTES, FEWEST_ROWS = 1 << 22, 16
#: Dtypes of stored values that are sent to a device unconverted.
SENT = tuple(np.dtype(name) for name in ("int8", "uint8", "float32", "float64"))
#: Maximum ratio of mean to standard deviation for which standardising in float32 is accurate.
FAR_FROM_ZERO = 16.0
#: Standard deviations from 1 / RANGE to RANGE can be used as divisors in float32; with RANGE_WIDE,
#: their squares are in the range of float64.
RANGE, RANGE_WIDE = 1e30, 1e140
#: Maximum scaled value whose powers do not overflow; and minimum for the largest scaled value of
#: the data, below which the powers of sigma would overflow.
LARGEST_MAX_ABS, SMALLEST_MAX_ABS = 1e15, 1e-4


@dataclass(frozen=True, slots=True)
class Scaling:
    """Scaling and moments of d features, computed in one pass; each attribute has shape (d,).

    Attributes
    ----------
    scale : float64
        Factor of the scaled values ``(x - mean) * scale``, which are 0 if missing. Features are
        always centred, and scaled according to `Scale`. The factor of a constant feature is 0.
    mean, std : float64
        Mean of the non-missing values, and standard deviation after missing values are replaced by
        the mean. `std` is NaN if its square or its inverse exceeds the range of floating-point
        numbers.
    n_missing : int64
        Number of missing values.
    max_abs, fourth_moment : float64
        Largest magnitude and mean fourth power of the scaled feature.
    n_levels : uint8
        Number of distinct values, including the mean if it replaces missing values. The number is
        0 if there are more than 8 values.
    checksum : int64
        Checksum of the stored values, see `dhsic.sources.views`; 0 if not computed.
    codes, n_coded, nearest : int64, int64, float64
        Possible codes for missing values, as bits (`dhsic.sources.sentinels`); the number of values
        that equal one of these codes; and the nearest other value. All are 0 without such codes.
    ends : array of `dhsic.sources.shared_codes.ENDS`
        Extreme value of the feature, which may be a code for missing values in many features.
    """

    scale: Float
    mean: Float
    std: Float
    n_missing: Index
    max_abs: Float
    fourth_moment: Float
    n_levels: Array
    checksum: Index
    codes: Index
    n_coded: Index
    nearest: Float
    ends: Array

    @property
    def constant(self) -> Mask:
        """Mask of the features that do not vary, (d,)."""
        return np.equal(self.std, 0.0)

    def take(self, which: Any) -> Scaling:
        """Select the scaling of the features `which`, an index or mask."""
        return Scaling(*(known[which] for known in _KNOWN(self)))

    @staticmethod
    def join(parts: Sequence[Scaling]) -> Scaling:
        """Concatenate the scaling of consecutive blocks."""
        return Scaling(
            *(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(Scaling))
        )

    def check(
        self,
        missing: str,
        source: AbstractSource,
        *,
        standardize: Scale,
        has_bandwidth: bool,
        n_samples: int,
        codes_checked: bool = False,
    ) -> None:
        """Raise InputError for data that cannot be ranked.

        The reasons are: undeclared codes for missing values (unless `codes_checked` is True,
        because an earlier check was made); missing values, if `missing` is "error"; values with
        powers that overflow, or that are too small for a kernel with a bandwidth; and constant
        features only. `n_samples` is the number of samples from which the scaling was computed.
        """
        if not codes_checked:
            refuse_sentinels(Sentinels(self.codes, self.n_coded, self.nearest, self.ends), source)
            warn_of_spikes(self, n_samples, source.feature_names)
        n = int((self.n_missing > 0).sum())
        if missing == "error" and n:
            raise InputError(
                f"{int(self.n_missing.sum())} values are missing in {n} features (first: feature "
                f"{int(np.flatnonzero(self.n_missing)[0])}), but missing='error' does not allow "
                "missing values. Fill them in, or pass missing='mean'."
            )
        beyond = np.flatnonzero(~np.isfinite(self.std) | ~(self.max_abs < LARGEST_MAX_ABS))
        if beyond.size:
            first, names = beyond[0], source.feature_names()
            called = f"feature {first}" if names is None else f"feature {str(names[first])!r}"
            raise InputError(
                f"{beyond.size} features (first: {called}, with mean {self.mean[first]:.3g}) have "
                "values so large, or vary so little, that their squares exceed the range of "
                "floating-point numbers. If a value is an error, correct it or write NaN there. "
                "Otherwise rescale the features, "
                + (
                    "or take logarithms."
                    if standardize
                    else "take logarithms, or pass standardize=True."
                )
            )
        highest = float(self.max_abs.max())
        if has_bandwidth and 0 < highest < SMALLEST_MAX_ABS:
            raise InputError(
                f"No feature differs from its mean by more than {highest:.3g}, so sigma would "
                "exceed the range of floating-point numbers. Pass standardize=True, or rescale "
                "the data."
            )
        if (self.n_missing == n_samples).all():
            raise InputError(
                f"None of the {self.constant.size} features has a value in any sample, so there "
                "is nothing to rank. Check which matrix is read, and which samples are selected."
            )
        if self.constant.all():
            raise InputError(
                f"All {self.constant.size} features are constant across the samples, so there is "
                "nothing to rank. Check which axis has the samples, and which samples are "
                "selected."
            )


_KNOWN = attrgetter(*(f.name for f in fields(Scaling)))  # faster than a look-up of each


def of_presence(n_alike: Array, n_present: Array) -> Float:
    """Return the standard deviation (c,) of each feature after `PRESENCE` scaling.

    `n_alike` (c,) is the number, or total weight, of samples with the most frequent value.
    `n_present` (c,) is the number, or total weight, of all samples with a value.
    """
    q = 1.0 - n_alike / np.where(n_present > 0, n_present, 1)
    return np.where(q < 0.5, np.sqrt(4.0 * q * (1.0 - q)), 1.0)


def count_alike(raw: Array, mask: Mask | None) -> Index:
    """Count the samples with the majority value of each feature: values (c, m), counts (c,).

    If a feature has no majority value, the count is at most half of its values.
    """
    # With a majority value, two neighbours on the circle of samples are equal if none is missing.
    is_candidate = (raw[:, 1:] == raw[:, :-1]).any(axis=1) | (raw[:, 0] == raw[:, -1])
    n_present = np.full(len(raw), raw.shape[1])
    if mask is not None:
        n_present -= mask.sum(axis=1)
        is_candidate |= n_present < raw.shape[1]
        raw = np.where(mask, np.nan, raw)  # NaN is sorted last
    values, middle = raw[is_candidate], n_present[is_candidate, None] // 2
    ordered = np.partition(values, np.unique(middle), axis=1)
    n_alike = np.zeros(len(raw), dtype=np.int64)
    n_alike[is_candidate] = (values == np.take_along_axis(ordered, middle, axis=1)).sum(axis=1)
    return n_alike


def weight_alike(raw: Array, mask: Mask | None, p: Float) -> Float:
    """Return the total weight of the samples that have the weighted median of each feature, (c,).

    If a value has more than half of the weight, it is the median. The values `raw` are (c, m), and
    the weights p (m,) sum to 1.
    """
    present = np.broadcast_to(p, raw.shape) if mask is None else np.where(mask, 0.0, p)
    order = np.argsort(raw, axis=1)
    below = np.cumsum(np.take_along_axis(present, order, axis=1), axis=1)
    middle = (below < below[:, -1:] / 2).sum(axis=1, keepdims=True)
    median = np.take_along_axis(raw, np.take_along_axis(order, middle, axis=1), axis=1)
    return np.asarray(np.vecdot(raw == median, present))


def missing_mask(raw: Array, missing_code: int | None) -> Mask | None:
    """Return the mask of missing values (c, m); None if no value is missing."""
    if raw.dtype.kind == "f":
        mask = np.isnan(raw)
    elif missing_code is not None:
        mask = raw == missing_code
    else:
        return None
    return mask if mask.any() else None


def measure(
    raw: Array, missing_code: int | None, *, standardize: Scale, p: Float | None = None
) -> tuple[Scaling, Float]:
    """Compute the scaling of stored values (c, m), one feature per row, and scale the values.

    Returns the scaling and the centred and scaled values, (c, m) float64. `standardize` selects the
    `Scale`. With sample weights p (m,), which sum to 1, means and deviations are weighted.
    """
    Z = np.empty(raw.shape)
    rows = max(FEWEST_ROWS, CACHE_BYTES // max(1, Z[:1].nbytes))
    parts = [slice(a, a + rows) for a in range(0, max(1, len(raw)), rows)]
    with np.errstate(over="ignore", invalid="ignore"):  # marked by a `std` of NaN
        scalings = [_measure(raw[k], missing_code, Z[k], standardize, p) for k in parts]
    return Scaling.join(scalings), Z


def _measure(
    raw: Array, missing_code: int | None, Z: Float, standardize: Scale, p: Float | None
) -> Scaling:
    """Compute the scaling of features `raw` (c, m), and write the scaled values to Z (c, m)."""
    Z[...] = raw
    mask = missing_mask(raw, missing_code)
    m = Z.shape[1]
    n_missing = np.zeros(len(Z), dtype=np.int64) if mask is None else mask.sum(axis=1)
    if mask is not None:
        Z[mask] = 0.0
    if p is None:
        mean = np.asarray(Z.sum(axis=1) / np.maximum(m - n_missing, 1))
    else:
        present = np.ones(len(Z)) if mask is None else ~mask @ p
        mean = Z @ p / np.where(present > 0, present, 1.0)
    most, least = _extremes(raw, mask)
    varies = _varies(raw, mask, most, least)
    Z -= mean[:, None]
    if mask is not None:
        Z[mask] = 0.0
    std = np.sqrt(np.vecdot(Z, Z) / m if p is None else np.square(Z) @ p)
    std[~varies] = 0.0
    narrowest = RANGE if raw.dtype == np.float32 else RANGE_WIDE
    std[varies & ~((std > 1 / narrowest) & (std < narrowest))] = np.nan
    alive = np.where(std > 0, 1.0, 0.0)
    scale = np.divide(alive, std, out=alive.copy(), where=(std > 0)) if standardize else alive
    if standardize == PRESENCE:
        if p is None:
            scale *= of_presence(count_alike(raw, mask), m - n_missing)
        else:
            scale *= of_presence(weight_alike(raw, mask, p), present)
    if standardize:
        Z *= scale[:, None]
    else:
        Z[~varies] = 0.0
    squares = Z * Z
    max_abs = np.sqrt(squares.max(axis=1, initial=0.0))
    fourth_moment = np.vecdot(squares, squares) / m
    levels = count_levels(raw, mask, mean)
    moments = scale, mean, std, n_missing, max_abs, fourth_moment, levels
    return Scaling(*moments, checksums(raw), *found_in(raw, mask, most, least))


def standardise(
    raw: Array, missing_code: int | None, scaling: Scaling, dtype: Any, moved: Move | None = None
) -> Array:
    """Scale the stored values (c, m) of a block; the result is (c, m) in `dtype`.

    float32 results are computed in float32 if rounding has no relevant effect. This is so if the
    stored values are exact in float32 and their mean is less than `FAR_FROM_ZERO` deviations from
    0. If `moved` is given, it copies the stored values to a device, which computes the result.
    """
    offset = np.abs(scaling.mean * scaling.scale).max(initial=0.0)
    narrow = (raw.dtype.itemsize <= 2 or raw.dtype == np.float32) and offset < FAR_FROM_ZERO
    work = np.dtype(dtype) if narrow else np.dtype(np.float64)
    mean, scale = (known.astype(work)[:, None] for known in (scaling.mean, scaling.scale))
    some_missing = bool(scaling.n_missing.any())
    if moved is not None:
        if raw.dtype not in SENT:
            return moved(standardise(raw, missing_code, scaling, dtype))
        there = moved(raw)
        scaled = cast((cast(there, work) - moved(mean)) * moved(scale), dtype)
        none = like(there, np.zeros(1, dtype=dtype))
        return replaced(scaled, none, there, missing_code) if some_missing else scaled
    mask = missing_mask(raw, missing_code) if some_missing else None
    values = raw if raw.dtype == work else raw.astype(work)
    Z = np.subtract(values, mean, order="C")
    Z *= scale
    if mask is not None:
        Z[mask] = 0.0
    return np.asarray(Z, dtype=dtype)


def replaced(values: Array, others: Any, raw: Array, missing_code: int | None) -> Array:
    """Replace `values` by `others` where `raw` is missing; all arrays are on a device."""
    xp = namespace_of(raw)
    if xp.isdtype(raw.dtype, "real floating"):
        missing = xp.isnan(raw)
    elif missing_code is not None:
        missing = raw == missing_code
    else:
        return values
    new: Array = xp.where(missing, others, values)
    return new


def _extremes(raw: Array, mask: Mask | None) -> tuple[Array, Array]:
    """Return the largest and the smallest non-missing value of each feature, (c,) each."""
    if mask is not None:
        first = np.argmin(mask, axis=1)  # the first value present
        raw = np.where(mask, raw[np.arange(len(raw)), first][:, None], raw)
    return raw.max(axis=1), raw.min(axis=1)


def _varies(raw: Array, mask: Mask | None, most: Array, least: Array) -> Mask:
    """Mask (c,) of the features with values that differ by more than rounding errors."""
    varies: Mask = most != least
    if mask is not None:
        varies &= ~mask.all(axis=1)
    if raw.dtype != np.float64 or not varies.any():
        return varies
    rounding = ROUNDING * np.spacing(np.maximum(np.abs(most), np.abs(least)))
    is_whole = (most % 1 == 0) & (least % 1 == 0)  # integers have no rounding error
    is_distinct: Mask = is_whole | ~(most - least <= rounding)
    return varies & is_distinct


def count_levels(raw: Array, mask: Mask | None, mean: Float) -> Array:
    """Count the distinct values in each row of `raw` (c, m); 0 if there are over `MOST_LEVELS`.

    Missing values count as the `mean` (c,), which replaces them. The result has shape (c,).
    """
    out = np.zeros(len(raw), dtype=np.uint8)
    probe = np.sort(raw[:, :PROBE], axis=1)
    changes = probe[:, 1:] != probe[:, :-1]
    if mask is not None:
        changes &= ~np.isnan(probe[:, 1:])  # each NaN differs from the next
    few = np.flatnonzero(changes.sum(axis=1) < MOST_LEVELS + 1)
    values: Array = raw if few.size == len(raw) else raw[few]
    # Values not yet counted as a level; missing values are a level if no other value is the mean.
    open_ = np.ones(values.shape, dtype=bool)
    if mask is not None:
        open_ &= ~(mask if few.size == len(raw) else mask[few])
    filled = np.asarray(~open_.all(axis=1))
    n_seen = np.zeros(few.size, dtype=np.int64)
    while few.size:
        is_open = np.asarray(open_.any(axis=1)) & (n_seen <= MOST_LEVELS)
        if not is_open.all():
            n = n_seen[~is_open] + filled[~is_open]
            out[few[~is_open]] = np.where(n <= MOST_LEVELS, n, 0)
            few, values, open_ = few[is_open], values[is_open], open_[is_open]
            n_seen, filled = n_seen[is_open], filled[is_open]
            continue
        level = values[np.arange(few.size), np.argmax(open_, axis=1)]
        open_ &= values != level[:, None]
        filled &= level != mean[few]
        n_seen += 1
    return out


#: Genotype codes: numbers of alleles; `MISSING` is the code of a missing call.
COUNTS = (0, 1, 2)
MISSING = -1
#: Number of samples that a device sums in float32.
STRIP = 4096
#: Bytes that are cast at a time, so that they stay in the cache, and minimum number of features:
#: with fewer, a product would be limited by the reading of Y.
AT_A_TIME, LEAST_ROWS = 1 << 20, 64


@dataclass(frozen=True, slots=True)
class Codes:
    """Stored genotypes (c, m) that contain only 0, 1, 2 and the missing code."""

    raw: Array  # (c, m) int8
    has_missing: bool

    @staticmethod
    def of(raw: Array, missing_code: int | None) -> Codes | None:
        """Return stored values (c, m) as codes; None if they contain other values."""
        if raw.dtype.itemsize != 1 or raw.dtype.kind not in "iu" or not raw.size:
            return None
        if missing_code in COUNTS:
            return None
        least, most = int(raw.min()), int(raw.max())
        has_missing = least == MISSING == missing_code
        if most > COUNTS[-1] or (least < 0 and not has_missing):
            return None
        return Codes(raw, has_missing)

    @property
    def _is_here(self) -> bool:
        """Whether the codes are in host memory."""
        raw: Any = self.raw
        return isinstance(raw, np.ndarray)

    def on(self, moved: Move) -> Codes:
        """Copy the codes to a device; `sums` and `filled` of the copy are computed there."""
        return Codes(moved(self.raw), self.has_missing)

    def sums(self, Y: Array) -> Float:
        """Sum the rows of Y (m, k) over the samples with code 0, 1, 2 and missing.

        The result (4, c, k) is a NumPy array of float64 for the c features. Y must be in the same
        memory as the codes (host or device). The sums are linear combinations of the products
        ``g^p Y`` with powers of the genotypes g, because the indicator of one of q codes is a
        polynomial in g of degree q - 1.
        """
        here = self._is_here
        one, two, three = self._powers(Y) if here else self._powers_there(Y)
        out = np.empty((4, *one.shape))
        if self.has_missing:
            out[1] = one + (two - three) / 2
            out[2] = (three - one) / 6
            out[3] = (3 * two - 2 * one - three) / 6
        else:
            out[1] = 2 * one - two
            out[2] = (two - one) / 2
            out[3] = 0.0
        total = Y.sum(axis=0, dtype=np.float64) if here else _sum_there(Y)
        out[0] = total - out[1:].sum(axis=0)
        return out

    def _powers_there(self, Y: Array) -> Float:
        """Compute `_powers` on a device, which adds up strips of samples in float32."""
        xp, (c, m) = namespace_of(Y), self.raw.shape
        sums = np.zeros((3, c, Y.shape[1]))
        for samples in slices(m, STRIP):
            g = power = xp.astype(self.raw[:, samples], Y.dtype)
            for p in range(3 if self.has_missing else 2):
                sums[p] += host(power @ Y[samples, :])
                power = power * g
        return sums

    def _powers(self, Y: Array) -> Float:
        """Multiply powers of g (c, m) by Y (m, k): ``g^p Y`` for p = 1, 2 and 3, (3, c, k) float64.

        The product for p = 3 is left 0 if no code is missing, because it is not needed.
        """
        c, m = self.raw.shape
        sums = np.zeros((3, c, Y.shape[1]))
        at_a_time = AT_A_TIME // Y.dtype.itemsize
        rows = max(LEAST_ROWS, at_a_time // m)
        width = min(max(at_a_time // rows, 1), m)
        g, power = np.empty((2, min(rows, c), width), dtype=Y.dtype)
        for a, b in product(range(0, c, rows), range(0, m, width)):
            part, y = self.raw[a : a + rows, b : b + width], Y[b : b + width]
            some, other = (of[: part.shape[0], : part.shape[1]] for of in (g, power))
            np.copyto(some, part)
            sums[0, a : a + rows] += some @ y
            np.multiply(some, some, out=other)
            sums[1, a : a + rows] += other @ y
            if self.has_missing:
                np.multiply(some, other, out=other)
                sums[2, a : a + rows] += other @ y
        return sums

    def take_samples(self, samples: Index | slice) -> Codes:
        """Select the codes of some samples."""
        if self._is_here or isinstance(samples, slice):
            return Codes(self.raw[:, samples], self.has_missing)
        return Codes(take(self.raw, samples, axis=1), self.has_missing)

    def counts(self) -> Float:
        """Number of samples with code 0, 1, 2 and missing, (4, c), as float64."""
        ones = np.ones((self.raw.shape[1], 1), dtype=np.float32)
        return np.rint(self.sums(like(self.raw, ones))[..., 0])

    def filled(self, means: Float) -> Array:
        """Return genotypes (c, m) in float32; missing ones become the feature's mean (c,)."""
        g = cast(self.raw, np.float32)
        if not self.has_missing:
            return g
        means_there = like(self.raw, means.astype(np.float32)[:, None])
        if self._is_here:
            np.copyto(g, means_there, where=self.raw == MISSING)
            return g
        return replaced(g, means_there, self.raw, MISSING)


def _sum_there(Y: Array) -> Float:
    """Sum the columns of Y (m, k), which is on a device; return the sums (k,) on the host."""
    return host(namespace_of(Y).sum(cast(Y, np.float64), axis=0))


def code_values(scaling: Scaling) -> Float:
    """Return the standardised values of the codes 0, 1, 2 and missing, (4, c)."""
    values = [(code - scaling.mean) * scaling.scale for code in COUNTS]
    return np.stack([*values, np.zeros_like(scaling.mean)])


def scaling_of(counts: Float, *, standardize: Scale) -> Scaling:
    """Compute the scaling, as in `measure`, from counts (4, c) of codes 0, 1, 2 and missing."""
    n = counts[:3].sum(axis=0)
    m = counts.sum(axis=0)
    codes = np.array(COUNTS, dtype=np.float64)[:, None]
    present = np.maximum(n, 1)
    mean = (codes * counts[:3]).sum(axis=0) / present
    away = codes - mean  # (3, c)
    n_codes = (counts[:3] > 0).sum(axis=0)
    varies = n_codes > 1
    std = np.where(varies, np.sqrt((counts[:3] * away**2).sum(axis=0) / m), 0.0)
    alive = np.where(varies, 1.0, 0.0)
    scale = np.divide(alive, std, out=alive.copy(), where=varies) if standardize else alive
    if standardize == PRESENCE:
        scale *= of_presence(counts[:3].max(axis=0), n)
    values = away * scale
    values = np.where(counts[:3] > 0, values, 0.0)
    is_level = (codes == mean) & (counts[:3] > 0)
    levels = n_codes + ((counts[3] > 0) & ~is_level.any(axis=0))
    kind: Any = np.uint8
    return Scaling(
        scale,
        mean,
        std,
        n_missing=counts[3].astype(np.int64),
        max_abs=np.abs(values).max(axis=0),
        fourth_moment=(counts[:3] * values**4).sum(axis=0) / m,
        n_levels=levels.astype(kind),
        checksum=np.zeros(len(mean), dtype=np.int64),
        codes=np.zeros(len(mean), dtype=np.int64),
        n_coded=np.zeros(len(mean), dtype=np.int64),
        nearest=np.zeros(len(mean)),
        ends=np.zeros(len(mean), dtype=ENDS),
    )

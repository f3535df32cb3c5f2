"""Features to be scored, and quantities that criteria share between runs.

Several runs score the same features, each for its own target. Quantities that do not depend on the
target are computed once: indicators of the levels of features with few values, squares, median
distances. The other quantities are mostly products with a few vectors, the *directions* of a run,
such as class indicators, labels, or a factor of the label kernel matrix. Features are multiplied by
the directions of all runs at once (`dhsic.linalg.directions`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.engines.levels import level_indicators
from dhsic.errors import InputError
from dhsic.kernels.bandwidth import (
    MEDIAN_SAMPLES,
    AbstractBandwidth,
    Dimension,
    Fixed,
    Median,
    resolve_bandwidth,
)
from dhsic.linalg.directions import Directions

#: Maximum number of entries of indicators in memory at a time.
ENTRIES = 1 << 20
#: Maximum number of distinct values of a feature for which pairs are counted by value.
FEW_VALUES = 64


@dataclass(frozen=True, slots=True)
class Levels:
    """Levels (distinct values) of c features with q levels each.

    `which` (c,) are the positions of the features. `values` (q, c) are the values of the levels,
    and `counts` (c, q) the numbers of samples. `along` (c, q, k) are the sums of the label
    directions over these samples. `sampled` (c, q) are the counts in a subset of the samples that
    is used for medians. Samples with a missing value belong to no level; `absent` (c, k) are the
    sums of the directions over them.
    """

    which: Index
    values: Float
    counts: Float
    along: Float
    sampled: Float
    absent: Float | None = None

    def take(self, which: Index) -> Levels:
        """Select some of the features; their positions are renumbered from 0."""
        absent = None if self.absent is None else self.absent[which]
        by_level = self.values[:, which], self.counts[which], self.along[which]
        return Levels(np.arange(which.size), *by_level, self.sampled[which], absent)


@dataclass(frozen=True, eq=False)
class Features:
    """Features of a tile, with quantities that several criteria need.

    Attributes
    ----------
    X : (c, m) float64
        One feature per row, with mean 0; missing values are 0 (the mean). It is (c, 0) if features
        are represented by their levels only.
    n_levels : (c,)
        Number of distinct values of each feature; 0 if there are many.
    directions : Directions
        Directions of all runs.
    coded : Levels or None
        Levels of all features, if they are genotype codes; else None.
    missing : (c, m) bool or None
        Mask of missing values; None if no value is missing.
    coded_missing : tuple of (c, k) and (c,) arrays, or None
        Value of `missing_sums`, if features are genotype codes; else None.
    variance_ratios : (c, 2, t) or None
        Variance of products with the residual labels of related samples, see
        `dhsic.linalg.residual_covariance.variance_ratios`; None for other labels.
    """

    X: Float
    n_levels: Array
    directions: Directions
    coded: Levels | None = None
    missing: Array | None = None
    coded_missing: tuple[Float, Float] | None = None
    variance_ratios: Float | None = None

    @cached_property
    def missing_sums(self) -> tuple[Float, Float] | None:
        """Sums of the label directions over samples without a value, (c, k), and their number.

        Both are per feature; the number is (c,). The result is None if no value is missing.
        """
        if self.missing is None:
            return self.coded_missing
        return self.directions.times(self.missing.astype(np.float64)), self.missing.sum(axis=1)

    @cached_property
    def along(self) -> Float:
        """Products of the features with the k label directions, (c, k)."""
        return self.directions.times(self.X)

    @cached_property
    def squares_along(self) -> Float:
        """Products of the squared values of the features with the k label directions, (c, k)."""
        return self.directions.times(self.squares)

    @cached_property
    def squares(self) -> Float:
        """Squares of the feature values, (c, m)."""
        return np.square(self.X)

    @cached_property
    def sizes(self) -> Float:
        """Sums of squares ``x'x`` of each feature, (c,)."""
        return np.asarray(np.vecdot(self.X, self.X))

    @cached_property
    def largest(self) -> Float:
        """Largest absolute value of each feature, (c,)."""
        return np.asarray(np.sqrt(self.squares.max(axis=1, initial=0.0)))

    @cached_property
    def levels(self) -> list[Levels]:
        """Levels of the features with few values, grouped by number of levels."""
        if self.coded is not None:
            return [self.coded]
        batches, stride = [], -(-self.X.shape[1] // MEDIAN_SAMPLES)
        for q in np.unique(self.n_levels[self.n_levels > 0]).tolist():
            same = np.flatnonzero(self.n_levels == q)
            rows = max(1, ENTRIES // (q * self.X.shape[1]))
            for a in range(0, same.size, rows):
                which = same[a : a + rows]
                values, at = level_indicators(self.X[which], q)
                if self.missing is not None:
                    at *= ~self.missing[which]
                along = self.directions.times(at.reshape(-1, at.shape[2]))
                along = along.reshape(*values.shape, -1).transpose(1, 0, 2)
                counts = at.sum(axis=2).T
                sampled = counts if stride == 1 else at[:, :, ::stride].sum(axis=2).T
                batches.append(Levels(which, values, counts, along, sampled))
        return batches

    @cached_property
    def median_squares(self) -> Float:
        """Median squared distance between samples for each feature that varies, (c,)."""
        if self.coded is not None:
            return medians_of_levels(self.coded.values.T, self.coded.sampled)
        stride = -(-self.X.shape[1] // MEDIAN_SAMPLES)
        if self.missing is None:
            return np.array([median_square(x[::stride]) for x in self.X])
        each = zip(self.X, self.missing, strict=True)
        return np.array([median_square(x[::stride][~mask[::stride]]) for x, mask in each])

    def widths(self, policy: AbstractBandwidth) -> Float:
        """Sigma for each feature, (c,), by a bandwidth policy from `resolve_width`."""
        if isinstance(policy, Fixed):
            return np.full(len(self.n_levels), policy.sigma)
        if isinstance(policy, Dimension):
            return np.full(len(self.n_levels), 0.5)
        return 0.5 / self.median_squares


def resolve_width(bandwidth: object) -> AbstractBandwidth:
    """Return the bandwidth policy for the kernel on one feature; raises an error for a grid."""
    policy = resolve_bandwidth(bandwidth)
    if not isinstance(policy, Dimension | Fixed | Median):
        raise InputError(
            f"bandwidth={bandwidth!r} is a grid, but scores of features with different widths are "
            "not comparable; pass 'dimension', 'median' or one positive number."
        )
    return policy


def median_square(x: Float) -> float:
    """Median squared distance between values of x (m,), over pairs i < j.

    If most distances are 0, the median of the positive distances is returned. Pairs are not
    enumerated. In sorted order the values within t of a value are its neighbours, so they can be
    counted by bisection. If there are few distinct values, pairs are counted by value.
    """
    s = np.sort(x)
    places = np.flatnonzero(np.concatenate([[True], s[1:] != s[:-1]]))
    if places.size <= FEW_VALUES:
        return _median_of_levels(s[places], np.diff(np.append(places, len(s))))
    n, equal = len(s) * (len(s) - 1) // 2, _n_within(s, 0.0)
    middle = _median(s, 0, n)
    return middle if middle > 0 else _median(s, equal, n)


def _median_of_levels(values: Float, counts: Index) -> float:
    """Median squared distance (see `median_square`), from distinct values and counts, (q,)."""
    if len(values) == 1:
        return 1.0  # all values are equal
    D = np.square(np.subtract.outer(values, values)).ravel()
    order = np.argsort(D, kind="stable")
    pairs = (np.outer(counts, counts) - np.diag(counts)).ravel()  # each pair counts twice
    up_to = np.cumsum(pairs[order]) // 2
    equal, n = int(np.dot(counts, counts - 1)) // 2, int(up_to[-1])

    def median(first: int) -> float:
        middle = [first + (n - first - 1) // 2, first + (n - first) // 2]
        return float(D[order[np.searchsorted(up_to, middle, side="right")]].mean())

    return median(0) or median(equal)


def medians_of_levels(values: Float, counts: Float) -> Float:
    """Median squared distances (see `median_square`) of c features with q levels each: (c,)."""
    i, j = np.triu_indices(values.shape[1], 1)
    D = np.square(values[:, i] - values[:, j])
    order = np.argsort(D, axis=1, kind="stable")
    D = np.take_along_axis(D, order, axis=1)
    equal = (counts * (counts - 1)).sum(axis=1) / 2
    pairs = np.take_along_axis(counts[:, i] * counts[:, j], order, axis=1)
    up_to = equal[:, None] + np.cumsum(pairs, axis=1)

    def at(place: Float) -> Float:
        number = (up_to <= place[:, None]).sum(axis=1, keepdims=True)
        distances = np.take_along_axis(D, np.minimum(number, i.size - 1), axis=1)[:, 0]
        return np.where(place < equal, 0.0, distances)

    def median(first: Float) -> Float:
        n = up_to[:, -1] - first
        return (at(first + (n - 1) // 2) + at(first + n // 2)) / 2

    middle, of_positive = median(np.zeros_like(equal)), median(equal)
    middle = np.where(middle > 0, middle, of_positive)
    return np.where(middle > 0, middle, 1.0)


def _median(s: Float, first: int, end: int) -> float:
    """Median squared distance over the pairs with ranks `first` to ``end - 1``.

    s are sorted values. Their pairs are ranked by distance, from 0.
    """
    low, high = first + (end - first - 1) // 2, first + (end - first) // 2
    below = _distance(s, low)
    above = below if low == high else _distance(s, high)
    return (below**2 + above**2) / 2


def _distance(s: Float, k: int) -> float:
    """Distance of rank k among all pairs of sorted values s.

    Ranks are ascending, from 0. The distance is found by bisection.
    """
    low, high = 0.0, float(s[-1] - s[0])
    if _n_within(s, low) > k:
        return 0.0
    while low < (middle := (low + high) / 2) < high:
        n = _n_within(s, middle)
        low, high = (low, middle) if n > k else (middle, high)
        if n == k + 1:
            break
    to = _ends(s, high)
    return float((s[to] - s).max())


def _n_within(s: Float, t: float) -> int:
    """Number of pairs of sorted values s that differ by at most t."""
    return int((_ends(s, t) - np.arange(len(s))).sum())


def _ends(s: Float, t: float) -> Index:
    """Position of the last value within t of each value.

    s are sorted values.
    """
    return np.searchsorted(s, s + t, side="right") - 1

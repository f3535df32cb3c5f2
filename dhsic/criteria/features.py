"""Features that are judged, and what criteria make of them for all runs at once.

Several runs judge the same features, for a target each. What hangs on no target is made once:
where each value of a few-valued feature is, squares, median distances. What does is mostly a
product with a few vectors, the *directions* of a run: class indicators, labels, a factor of their
kernel matrix. Those of all runs are multiplied together (`dhsic.linalg.directions`).
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

#: Entries of indicators at a time.
ENTRIES = 1 << 20
#: Features of up to so many values have their pairs counted.
FEW_VALUES = 64


@dataclass(frozen=True, slots=True)
class Levels:
    """Some features of q values each.

    `which` they are, their `values` (q, c), `counts` of them (c, q), and sums of directions over
    the samples of each, `along` (c, q, k); `sampled` counts those that medians are taken of.
    Samples that are left out, as their value is missing, are of no level: `absent` (c, k) are the
    sums over them.
    """

    which: Index
    values: Float
    counts: Float
    along: Float
    sampled: Float
    absent: Float | None = None

    def take(self, which: Index) -> Levels:
        """Some of the features, numbered from 0."""
        absent = None if self.absent is None else self.absent[which]
        by_level = self.values[:, which], self.counts[which], self.along[which]
        return Levels(np.arange(which.size), *by_level, self.sampled[which], absent)


@dataclass(frozen=True, eq=False)
class Features:
    """Features of a tile.

    Attributes
    ----------
    X : (c, m) float64
        A feature a row, of mean 0; missing values are 0, the mean, not told apart. (c, 0) where
        they are known by their levels alone.
    n_levels : (c,)
        Distinct values of each, 0 for many.
    directions : Directions
        Of the runs that judge them.
    coded : Levels or None
        All of them, where they are genotypes that are judged as they are stored.
    missing : (c, m) bool or None
        Where values are missing; None where none is.
    coded_missing : tuple of (c, k) and (c,) arrays, or None
        `missing_sums` of genotypes that are judged as they are stored.
    """

    X: Float
    n_levels: Array
    directions: Directions
    coded: Levels | None = None
    missing: Array | None = None
    coded_missing: tuple[Float, Float] | None = None

    @cached_property
    def missing_sums(self) -> tuple[Float, Float] | None:
        """Sums of the directions over the missing samples, (c, k), and how many these are, (c,)."""
        if self.missing is None:
            return self.coded_missing
        return self.directions.times(self.missing.astype(np.float64)), self.missing.sum(axis=1)

    @cached_property
    def along(self) -> Float:
        """Products with the directions, (c, k)."""
        return self.directions.times(self.X)

    @cached_property
    def squares_along(self) -> Float:
        """Products of squares, (c, k)."""
        return self.directions.times(self.squares)

    @cached_property
    def squares(self) -> Float:
        """Squares of the values, (c, m)."""
        return np.square(self.X)

    @cached_property
    def sizes(self) -> Float:
        """``x'x``, (c,)."""
        return np.asarray(np.vecdot(self.X, self.X))

    @cached_property
    def largest(self) -> Float:
        """Largest magnitude of each, (c,)."""
        return np.asarray(np.sqrt(self.squares.max(axis=1, initial=0.0)))

    @cached_property
    def levels(self) -> list[Levels]:
        """Those of few values, some at a time."""
        if self.coded is not None:
            return [self.coded]
        found, stride = [], -(-self.X.shape[1] // MEDIAN_SAMPLES)
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
                found.append(Levels(which, values, counts, along, sampled))
        return found

    @cached_property
    def median_squares(self) -> Float:
        """Median squared distance of samples, (c,), each of which varies."""
        if self.coded is not None:
            return medians_of_levels(self.coded.values.T, self.coded.sampled)
        stride = -(-self.X.shape[1] // MEDIAN_SAMPLES)
        if self.missing is None:
            return np.array([median_square(x[::stride]) for x in self.X])
        each = zip(self.X, self.missing, strict=True)
        return np.array([median_square(x[::stride][~mask[::stride]]) for x, mask in each])

    def widths(self, policy: AbstractBandwidth) -> Float:
        """Sigma of each, (c,), by what `resolve_width` returned."""
        if isinstance(policy, Fixed):
            return np.full(len(self.n_levels), policy.sigma)
        if isinstance(policy, Dimension):
            return np.full(len(self.n_levels), 0.5)
        return 0.5 / self.median_squares


def resolve_width(bandwidth: object) -> AbstractBandwidth:
    """Policy for the width of the kernel on one feature; a grid is refused."""
    policy = resolve_bandwidth(bandwidth)
    if not isinstance(policy, Dimension | Fixed | Median):
        raise InputError(
            f"bandwidth={bandwidth!r} is a choice among widths, and scores of features under "
            "different widths do not compare; pass 'dimension', 'median' or one positive number."
        )
    return policy


def median_square(x: Float) -> float:
    """Median squared distance of pairs i < j of x, (m,); of the positive ones where most are 0.

    On a line pairs need not be written out: those within t of a value lie next to it in order, and
    those of few values are counted.
    """
    s = np.sort(x)
    places = np.flatnonzero(np.concatenate([[True], s[1:] != s[:-1]]))
    if places.size <= FEW_VALUES:
        return _median_of_levels(s[places], np.diff(np.append(places, len(s))))
    n, equal = len(s) * (len(s) - 1) // 2, _n_within(s, 0.0)
    middle = _median(s, 0, n)
    return middle if middle > 0 else _median(s, equal, n)


def _median_of_levels(values: Float, counts: Index) -> float:
    """Median square from values and how often each occurs, (q,)."""
    if len(values) == 1:
        return 1.0  # the samples that were taken are all alike
    D = np.square(np.subtract.outer(values, values)).ravel()
    order = np.argsort(D, kind="stable")
    pairs = (np.outer(counts, counts) - np.diag(counts)).ravel()  # each pair i, i' twice
    up_to = np.cumsum(pairs[order]) // 2
    equal, n = int(np.dot(counts, counts - 1)) // 2, int(up_to[-1])

    def median(first: int) -> float:
        middle = [first + (n - first - 1) // 2, first + (n - first) // 2]
        return float(D[order[np.searchsorted(up_to, middle, side="right")]].mean())

    return median(0) or median(equal)


def medians_of_levels(values: Float, counts: Float) -> Float:
    """Median squared distances, as of `median_square`, of features of q levels (c, q): (c,)."""
    i, j = np.triu_indices(values.shape[1], 1)
    D = np.square(values[:, i] - values[:, j])
    order = np.argsort(D, axis=1, kind="stable")
    D = np.take_along_axis(D, order, axis=1)
    equal = (counts * (counts - 1)).sum(axis=1) / 2
    pairs = np.take_along_axis(counts[:, i] * counts[:, j], order, axis=1)
    up_to = equal[:, None] + np.cumsum(pairs, axis=1)

    def at(place: Float) -> Float:
        number = (up_to <= place[:, None]).sum(axis=1, keepdims=True)
        found = np.take_along_axis(D, np.minimum(number, i.size - 1), axis=1)[:, 0]
        return np.where(place < equal, 0.0, found)

    def median(first: Float) -> Float:
        n = up_to[:, -1] - first
        return (at(first + (n - 1) // 2) + at(first + n // 2)) / 2

    middle, of_positive = median(np.zeros_like(equal)), median(equal)
    middle = np.where(middle > 0, middle, of_positive)
    return np.where(middle > 0, middle, 1.0)


def _median(s: Float, first: int, end: int) -> float:
    """Median of the squared distances from place `first` to before `end`, in ascending order."""
    low, high = first + (end - first - 1) // 2, first + (end - first) // 2
    below = _distance(s, low)
    above = below if low == high else _distance(s, high)
    return (below**2 + above**2) / 2


def _distance(s: Float, k: int) -> float:
    """Distance of sorted values at place k from 0, in ascending order, by bisection."""
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
    """Pairs of sorted values at most t apart."""
    return int((_ends(s, t) - np.arange(len(s))).sum())


def _ends(s: Float, t: float) -> Index:
    """For each of the sorted values, the place of the last one that is at most t above it."""
    return np.searchsorted(s, s + t, side="right") - 1

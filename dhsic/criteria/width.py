"""The width of the kernel on one feature, by the policies of JMLR 4.1 with ``|S| = 1``."""

from __future__ import annotations

import numpy as np

from dhsic._typing import Float, Index
from dhsic.errors import InputError
from dhsic.kernels.bandwidth import (
    MEDIAN_SAMPLES,
    AbstractBandwidth,
    Dimension,
    Fixed,
    Median,
    resolve_bandwidth,
)

#: Features of up to so many values have their pairs counted.
FEW_VALUES = 64


def resolve_width(bandwidth: object) -> AbstractBandwidth:
    """Policy for the width of the kernel on one feature.

    Raises
    ------
    InputError
        A grid, or what `resolve_bandwidth` refuses.
    """
    policy = resolve_bandwidth(bandwidth)
    if not isinstance(policy, Dimension | Fixed | Median):
        raise InputError(
            f"bandwidth={bandwidth!r} is a choice among widths, and scores of features under "
            "different widths do not compare; pass 'dimension', 'median' or one positive number."
        )
    return policy


def widths_of(X: Float, policy: AbstractBandwidth) -> Float:
    """Sigma of every feature (c, m) that varies, (c,), by what `resolve_width` returned."""
    if isinstance(policy, Fixed):
        return np.full(len(X), policy.sigma)
    if isinstance(policy, Dimension):
        return np.full(len(X), 0.5)
    stride = -(-X.shape[1] // MEDIAN_SAMPLES)
    return np.array([0.5 / median_square(x[::stride]) for x in X])


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
    """The same from values and how often each occurs, (q,)."""
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

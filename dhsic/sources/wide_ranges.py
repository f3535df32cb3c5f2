"""Features with extreme outliers: scaling makes all their other values nearly equal.

Rank tests sort centred values. If one value of a feature is 1e20, the mean is about 1e18, and
subtracting the mean loses the differences between all other values to rounding. Such features are
recognised by the gaps between their values, and tests use the ranks of their stored values.

Scores that use values, such as HSIC of standardised features, cannot use ranks, so a warning names
the features. They are recognised by their moments: the mean fourth power of a feature with only two
distinct values follows from its largest value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dhsic._typing import Array, Float, Index, Mask
from dhsic.errors import warn
from dhsic.linalg.rank_basis import dense_ranks
from dhsic.sources.ids import abbreviate

#: Number of values of a feature that are compared, and the share of their gaps that may be smaller
#: than `RESOLVED` times the largest value without loss of order.
PROBE, SMALL = 64, 0.1
RESOLVED = 2.0**-33
#: Features cause a warning if their moments deviate by less than this, relatively, from the moments
#: of two distinct numbers. The other values then differ by less than about a millionth of their
#: distance from the outlier.
ALIKE = 1e-12
#: Maximum number of features that a warning names.
MOST_NAMED = 3


def with_order(Z: Float, raw: Array, mask: Mask | None, scaling: Any) -> Float:
    """Use scaled ranks for features that lose the order of their values by scaling.

    Parameters
    ----------
    Z : (c, m) float64
        Scaled values. Such features are replaced in place by scaled ranks of the stored values.
    raw : (c, m)
        Stored values.
    mask : (c, m) bool or None
        Mask of missing values; None if no value is missing.
    scaling : dhsic.sources.scaling.Scaling
        Scaling of the features.
    """
    if raw.dtype.kind == "f" and Z.shape[1]:
        for j in _without_resolution(raw, scaling).tolist():
            present = np.ones(Z.shape[1], dtype=bool) if mask is None else ~mask[j]
            ranks = dense_ranks(raw[j, present].astype(np.float64))
            Z[j, present] = (ranks - ranks.mean()) / max(float(ranks.std()), 1.0)
    return Z


def _without_resolution(raw: Array, scaling: Any) -> Index:
    """Return the features that lose the order of their values by scaling; `raw` is (c, m).

    The gaps between their values are too small in comparison with the largest value.
    """
    values = raw[:, :: -(-raw.shape[1] // PROBE)].astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        gaps = np.diff(np.sort(values, axis=1), axis=1)
        largest = np.abs(scaling.mean) + scaling.max_abs / scaling.scale
    gaps = np.sort(np.where(gaps > 0, gaps, np.inf), axis=1)
    n_gaps = np.isfinite(gaps).sum(axis=1)
    small = gaps[np.arange(len(gaps)), (SMALL * n_gaps).astype(np.int64)]
    return np.flatnonzero((small < RESOLVED * largest) & (scaling.std > 0))


def warn_of_spikes(scaling: Any, n_samples: int, names_of: Callable[[], Array | None]) -> None:
    """Warn of features with outliers so extreme that scaling makes other values nearly equal.

    Parameters
    ----------
    scaling : dhsic.sources.scaling.Scaling
        Scaling of all features, measured on `n_samples` samples.
    names_of : callable
        Function that returns the names of the features, (d,) str, or None. It is only called if
        there is a warning.
    """
    share_present = 1.0 - scaling.n_missing / n_samples
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = np.square(scaling.std * scaling.scale)
        square = np.square(scaling.max_abs) / variance * share_present
        p = 1.0 / (1.0 + square)  # share of the far values
        both = p * (1.0 - p)
        kurtosis = scaling.fourth_moment / np.square(variance) * share_present
        apart = np.abs(kurtosis * both / (1.0 - 3.0 * both) - 1.0)
        far = scaling.mean + np.copysign(scaling.max_abs / scaling.scale, scaling.mean)
    is_told = (scaling.codes != 0) & (scaling.n_coded > 1)  # as a code for missing values
    at = np.flatnonzero((apart < ALIKE) & (p < 0.5) & (scaling.n_levels == 0) & ~is_told)
    if not at.size:
        return
    names = names_of()
    n_far = np.rint(p[at] * share_present[at] * n_samples).astype(np.int64)
    listed = abbreviate(
        (
            f"{f'feature {j}' if names is None else names[j]}: {far[j]:.6g}, "
            + ("once" if n == 1 else f"{n:,} times")
            for j, n in zip(at.tolist(), n_far.tolist(), strict=True)
        ),
        MOST_NAMED,
    )
    several = at.size > 1
    warn(
        f"{at.size:,} feature{'s contain' if several else ' contains'} a value more than a million "
        f"times as far from the other values as these are from each other ({listed}). After "
        "scaling, the other values are nearly equal, so scores that use values hardly depend on "
        "them. Rank tests are not affected. If this value is an error, correct it or write NaN "
        "there. If it is real, take logarithms or ranks of the feature."
    )

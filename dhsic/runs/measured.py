"""Checks of what the first pass over the features found."""

from __future__ import annotations

import numpy as np

from dhsic.errors import InputError
from dhsic.sources.scaling import Scaling

#: Values of features up to here, as scaled, have powers that are numbers.
LARGEST_PEAK = 1e15
#: Data all below this ask for a sigma whose powers are none.
SMALLEST_PEAK = 1e-4


def check_measured(
    scaling: Scaling, *, missing: str, standardize: bool, has_bandwidth: bool
) -> None:
    """Refuse data that nothing can be ranked by.

    Parameters
    ----------
    missing : {"mean", "error"}
        What is to be done about missing values.
    standardize : bool
        Whether features are scaled to unit deviation.
    has_bandwidth : bool
        Whether the kernel on the data has a width.

    Raises
    ------
    InputError
        Missing values that are to be an error, values beyond numbers, or only constant features.
    """
    n = int((scaling.n_missing > 0).sum())
    if missing == "error" and n:
        first = int(np.flatnonzero(scaling.n_missing)[0])
        raise InputError(
            f"{int(scaling.n_missing.sum())} values are missing in {n} features (first: "
            f"feature {first}) and missing='error'; fill them in, or pass missing='mean'."
        )
    _check_range(scaling, standardize=standardize, has_bandwidth=has_bandwidth)
    if scaling.constant.all():
        raise InputError(
            f"All {scaling.constant.size} features are constant over the samples; there is "
            "nothing to rank. Check the orientation and the choice of samples."
        )


def _check_range(scaling: Scaling, *, standardize: bool, has_bandwidth: bool) -> None:
    """Refuse features whose squares or products no number holds."""
    beyond = np.flatnonzero(~np.isfinite(scaling.std) | ~(scaling.peak < LARGEST_PEAK))
    if beyond.size:
        raise InputError(
            f"{beyond.size} features (first: feature {beyond[0]}, of mean "
            f"{scaling.mean[beyond[0]]:.3g}) hold values so large, or vary by so little, that "
            "squares leave the range of floating-point numbers. Rescale them, take logarithms"
            + ("." if standardize else ", or pass standardize=True.")
        )
    highest = float(scaling.peak.max())
    if has_bandwidth and 0 < highest < SMALLEST_PEAK:
        raise InputError(
            f"No feature is further than {highest:.3g} from its mean, which asks for a sigma "
            "beyond numbers. Pass standardize=True, or rescale the data."
        )

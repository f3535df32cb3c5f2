"""Real-valued targets: numbers from labels, their rank scores, and residuals given covariates."""

from __future__ import annotations

import numpy as np

from dhsic._typing import Array, Float
from dhsic.errors import InputError, warn
from dhsic.kernels.bandwidth import few_samples, sigma_of_median
from dhsic.kernels.label_parts import RealTargets, label_distances
from dhsic.kernels.ordinal import ORDINAL, SCORE_KERNELS, rank_scores
from dhsic.linalg.covariates import covariate_basis
from dhsic.linalg.weighted_samples import weighted_basis
from dhsic.validation import LARGEST, ROUNDING, is_numeral

#: Standard deviation of residuals, relative to the target's, up to which covariates explain the
#: target completely.
EXPLAINED = 1e-8
#: Standard deviation of residuals, relative to the target's, up to which they may be rounding
#: errors, of 32-bit numbers or three decimals.
ROUNDED = 1e-3
#: Share of the variance that covariates leave from which a warning is given; and minimum number of
#: samples per covariate for it.
LITTLE, OF_A_COVARIATE = 0.02, 3
#: Maximum number of levels that an error lists.
MOST_LISTED = 30


def as_real(column: Array) -> Float | None:
    """Convert a column to float64; None if it contains names or booleans."""
    if column.dtype.kind == "b":
        return None
    if column.dtype.kind == "O" and not all(is_numeral(v) for v in column if isinstance(v, str)):
        return None
    try:
        return column.astype(np.float64)
    except (TypeError, ValueError):
        return None


def real_targets(
    Y: Array, kernel: str, covariates: Array | None, p: Float | None = None
) -> RealTargets:
    """Create the label kernel with this name, for all real targets Y (m, t) together.

    With weights p (m,) of the samples, which sum to 1, ranks, residuals and the median distance are
    weighted. The weighted median is estimated from two independent draws of samples.
    """
    values = _numbers(Y, kernel)
    _check_numbers(values)
    if kernel in SCORE_KERNELS:
        values = np.column_stack([rank_scores(column, p) for column in values.T])
    values = _lifted(values, kernel)
    if covariates is not None:
        values = _residuals(values, covariates, p)
    if values.shape[1] > 1:
        centred = values - np.average(values, axis=0, weights=p)
        spread = centred.std(axis=0) if p is None else np.sqrt(p @ np.square(centred))
        values = centred / spread
    if kernel == "linear":
        return RealTargets(values, None, name=kernel)
    subsample = few_samples(values)
    D = label_distances(subsample, subsample)
    if p is None:
        sigma = sigma_of_median(D[np.triu_indices_from(D, k=1)])
    else:
        some = few_samples(p)
        sigma = sigma_of_median(D.ravel(), np.outer(some, some).ravel())
    return RealTargets(values, sigma, name=kernel)


def _numbers(Y: Array, kernel: str) -> Float:
    """Convert targets (m, t) to numbers for a label kernel."""
    columns = [as_real(column) for column in Y.T]
    numeric = [column for column in columns if column is not None]
    if len(numeric) == len(columns):
        return np.column_stack(numeric)
    if kernel == ORDINAL:
        raise _without_order(Y[:, columns.index(None)])
    raise InputError(
        f"label_kernel={kernel!r} needs numbers, but y contains {str(Y.flat[0])!r}; pass numbers, "
        "or label_kernel='auto' for class names."
    )


def _check_numbers(values: Float) -> None:
    """Reject targets (m, t) that are constant or have squares that overflow."""
    largest = np.abs(values).max(axis=0)
    if largest.max() > LARGEST:
        raise InputError(
            f"Labels are as large as {largest.max():.3g}, whose powers overflow; rescale them, for "
            "instance y / y.std(), or use logarithms."
        )
    constant = np.ptp(values, axis=0) <= ROUNDING * np.spacing(largest)
    if constant.any():
        t = int(np.argmax(constant))
        raise InputError(
            f"Target {t} is constant ({float(values[0, t])!r}), so nothing depends on it; leave "
            "it out."
        )


def _without_order(column: Array) -> InputError:
    """Error for ordinal labels (m,) that are text, because the order of their levels is unknown."""
    names = ", ".join(sorted({repr(str(name)) for name in column.tolist()})[:MOST_LISTED])
    return InputError(
        f"label_kernel='ordinal' needs an order, but text has no order (y contains {names}). Sort "
        "these levels from the lowest to the highest, and pass pandas.Categorical(y, "
        f"categories=[{names}], ordered=True) (CLI: --order LOWEST,...,HIGHEST)."
    )


def _lifted(values: Float, kernel: str) -> Float:
    """Scale targets with squares that would underflow to a range of about 1, by a power of two."""
    ranges = np.ptp(values, axis=0)
    exponents = np.where(ranges < 1 / LARGEST, -np.frexp(ranges)[1], 0)
    if not exponents.any():
        return values
    if kernel == "linear" and len(ranges) == 1:  # all other kernels are free of scale
        warn(
            f"Labels differ by at most {ranges[0]:.3g}, whose square underflows. They are "
            f"multiplied by 2**{exponents[0]}, and HSIC with the linear label kernel is reported "
            "for the multiplied labels.",
        )
    return np.asarray(np.ldexp(values, exponents))


def _residuals(values: Float, covariates: Array, p: Float | None) -> Float:
    """Residuals of the targets (m, t) from a linear regression on the covariates, weighted by p."""
    centred = values - np.average(values, axis=0, weights=p)
    if p is None:
        Q = covariate_basis(covariates, len(values))
        remainder = centred - Q @ (Q.T @ centred)
    else:
        Q, root = weighted_basis(covariates, p), np.sqrt(p)[:, None]
        remainder = centred - Q @ (Q.T @ (root * centred)) / root
    lost = remainder.std(axis=0) <= EXPLAINED * centred.std(axis=0)
    if lost.any():
        raise InputError(
            f"The covariates explain target {int(np.argmax(lost))} completely, so there is "
            "nothing left to predict. Leave out the covariate that determines the target."
        )
    shares = np.square(remainder.std(axis=0) / centred.std(axis=0))
    t, m = int(np.argmin(shares)), len(values)
    if shares[t] <= LITTLE and m >= OF_A_COVARIATE * (1 + covariates.reshape(m, -1).shape[1]):
        why = "the rest may be rounding error" if shares[t] <= ROUNDED**2 else "little is left"
        warn(
            f"The covariates explain all but {shares[t]:.1g} of the variance of target {t}; {why}. "
            "If a covariate equals the labels, or is the labels in another form, leave it out."
        )
    return np.asarray(remainder)

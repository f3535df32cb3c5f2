r"""Kernels on real labels (JMLR 5.2.3).

``linear`` ``<y, y'>``, and ``gaussian`` ``exp(-s ||y - y'||^2)`` (JMLR eq. 20) with
``s = 1 / (2 w^2)``, w the median distance between labels.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np

from dhsic._typing import Array, Float
from dhsic.covariates import covariate_basis
from dhsic.errors import InputError
from dhsic.given import LARGEST
from dhsic.kernels.bandwidth import MEDIAN_SAMPLES, median_sigma

#: Units in the last place of the largest value by which equal numbers differ when computed twice.
ROUNDING = 4
#: Part of a target's deviation that is none.
EXPLAINED = 1e-8


@dataclass(frozen=True)
class RealTargets:
    """Real targets that share a kernel; `values` (m, t), `sigma` None for the linear kernel."""

    values: Float
    sigma: float | None

    @property
    def name(self) -> str:
        """The kernel, one of `dhsic.kernels.labels.REAL_KERNELS`."""
        return "linear" if self.sigma is None else "gaussian"

    @property
    def centred(self) -> RealTargets:
        """With mean 0, which HSIC does not know and the linear kernel would lose digits to."""
        return replace(self, values=self.values - self.values.mean(axis=0))

    def tile(self, rows: slice, columns: slice) -> Float:
        """Part of L."""
        if self.sigma is None:
            return np.asarray(self.values[rows] @ self.values[columns].T)
        return np.exp(-self.sigma * label_distances(self.values[rows], self.values[columns]))


def as_real(column: Array) -> Float | None:
    """Values as float64, or None where they are names."""
    if column.dtype.kind == "b":
        return None
    try:
        return column.astype(np.float64)
    except (TypeError, ValueError):
        return None


def real_targets(Y: Array, kernel: str, covariates: Array | None) -> RealTargets:
    """Real targets (m, t) under one kernel; errors as of `dhsic.kernels.labels`."""
    columns = [as_real(Y[:, t]) for t in range(Y.shape[1])]
    known = [c for c in columns if c is not None]
    if len(known) < len(columns):
        raise InputError(
            f"label_kernel={kernel!r} takes numbers and y holds {str(Y.flat[0])!r}; pass numbers, "
            "or label_kernel='auto' for class names."
        )
    values = np.column_stack(known)  # (m, t)
    largest = np.abs(values).max(axis=0)
    if largest.max() > LARGEST:
        raise InputError(
            f"Labels reach {largest.max():.3g}, whose powers no number holds; rescale them, for "
            "instance y / y.std(), or take logarithms."
        )
    constant = np.ptp(values, axis=0) <= ROUNDING * np.spacing(largest)
    if constant.any():
        t = int(np.argmax(constant))
        raise InputError(
            f"Target {t} is constant ({float(values[0, t])!r}): nothing depends on it; leave it "
            "out."
        )
    values = _lifted(values, kernel)
    if covariates is not None:
        values = _residuals(values, covariates)
    if values.shape[1] > 1:
        centred = values - values.mean(axis=0)
        values = centred / centred.std(axis=0)
    if kernel == "linear":
        return RealTargets(values, None)
    some = values[:: -(-len(values) // MEDIAN_SAMPLES)]  # as `every_so_many` takes them
    return RealTargets(values, median_sigma(label_distances(some, some)))


def _lifted(values: Float, kernel: str) -> Float:
    """Targets whose squares are no numbers, times a power of two that makes them about 1."""
    apart = np.ptp(values, axis=0)
    exponents = np.where(apart < 1 / LARGEST, -np.frexp(apart)[1], 0)
    if not exponents.any():
        return values
    if kernel == "linear" and len(apart) == 1:  # all others are of no scale
        warnings.warn(
            f"Labels differ by {apart[0]:.3g} at most, whose square is no number; they are taken "
            f"times 2**{exponents[0]}, and so HSIC with the linear label kernel is that of these.",
            stacklevel=2,
        )
    return np.asarray(np.ldexp(values, exponents))


def _residuals(values: Float, covariates: Array) -> Float:
    """What a linear regression on ``[1, C]`` leaves of the targets, (m, t)."""
    Q = covariate_basis(covariates, len(values))
    centred = values - values.mean(axis=0)
    left = centred - Q @ (Q.T @ centred)
    gone = left.std(axis=0) <= EXPLAINED * centred.std(axis=0)
    if gone.any():
        raise InputError(
            f"The covariates explain target {int(np.argmax(gone))} altogether: nothing is left of "
            "it to select for. Leave out the covariate that it follows from."
        )
    return np.asarray(left)


def label_distances(rows: Float, columns: Float) -> Float:
    """Squared distances (r, c), by differences: exact zeros where labels are equal."""
    D = np.zeros((len(rows), len(columns)))
    for ours, theirs in zip(rows.T, columns.T, strict=True):
        delta = np.subtract.outer(ours, theirs)
        delta *= delta
        D += delta
    return D

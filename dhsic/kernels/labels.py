"""Labels as they are given, read into label kernels (`dhsic.kernels.label_kernels`).

Classes or real values, one target or several; refused where nothing could depend on them.
"""

from __future__ import annotations

import warnings

import numpy as np

from dhsic._typing import Array, Float
from dhsic.errors import InputError
from dhsic.kernels.bandwidth import MEDIAN_SAMPLES, sigma_of_median
from dhsic.kernels.label_kernels import (
    ClassTarget,
    GivenMatrix,
    LabelMatrix,
    LabelPart,
    RealTargets,
    label_distances,
)
from dhsic.linalg.covariates import covariate_basis
from dhsic.validation import (
    LARGEST,
    as_array,
    as_numbers,
    check_symmetric,
    refuse_dtype,
    refuse_wide,
)

#: Units in the last place of the largest value by which equal numbers differ when computed twice.
ROUNDING = 4
#: Part of a target's deviation that is none.
EXPLAINED = 1e-8
#: Whole-numbered labels with more distinct values than this are taken for measurements.
MOST_CLASSES = 50

CLASS_KERNELS = ("binary", "balanced", "multiclass", "one-vs-rest")
REAL_KERNELS = ("linear", "gaussian")
#: The data are their own labels: their kernel matrix over all features.
SELF = "self"
LABEL_KERNELS = ("auto", *CLASS_KERNELS, *REAL_KERNELS, "precomputed", SELF)


def label_matrix(
    y: Array, label_kernel: str = "auto", covariates: Array | None = None
) -> LabelMatrix:
    """L for the labels y.

    Parameters
    ----------
    y : (m,) or (m, t) array
        Class names or numbers, or real values; (m, m) for ``label_kernel="precomputed"``.
    label_kernel : str
        One of `LABEL_KERNELS`. ``"auto"`` takes eq. 17 for two classes, eq. 18 for more and
        eq. 20 for real values. Strings and booleans are classes; so are whole numbers with at
        most 50 distinct values, each held by two samples or more. With several targets the real
        ones (standardised) share one kernel and every class target has its own; L is their sum.
    covariates : (m, q) array, optional
        Real targets are replaced by what a linear regression on them leaves: the Gaussian kernel
        of a target that follows a covariate would hold it nonlinearly, where no projection of L
        finds it.

    Returns
    -------
    LabelMatrix
        L, as the sum of its parts.

    Raises
    ------
    InputError
        One class, a constant target, NaN, an unknown kernel, or labels that do not fit it.
    """
    if label_kernel not in LABEL_KERNELS:
        raise InputError(
            f"label_kernel={label_kernel!r} is unknown; pass one of {', '.join(LABEL_KERNELS)}."
        )
    if label_kernel == SELF:
        raise InputError(
            "label_kernel='self' takes the data for labels, which BAHSIC and FOHSIC can; here pass "
            "Y and one of the others."
        )
    if label_kernel == "precomputed":
        L = _precomputed(y)
        return LabelMatrix((GivenMatrix(L),), len(L), 1)
    Y = _columns(y)
    parts: list[LabelPart] = []
    real = []
    for t in range(Y.shape[1]):
        kernel = auto_kernel(Y[:, t]) if label_kernel == "auto" else label_kernel
        if kernel in REAL_KERNELS:
            real.append(t)
        else:
            parts.append(_class_target(Y[:, t], kernel))
    if real:
        kernel = "gaussian" if label_kernel == "auto" else label_kernel
        parts.append(_real_targets(Y[:, real], kernel, covariates))
    return LabelMatrix(tuple(parts), *Y.shape)


def _columns(y: Array) -> Array:
    """Y as (m, t); refuse what is empty, missing or infinite."""
    Y = as_array(y, "y")
    if Y.dtype.kind in "cmMV":
        refuse_dtype(Y.dtype, "y")
    refuse_wide(Y, "y")
    if Y.dtype.kind == "T":  # text of any width, which NumPy compares and casts in part only
        Y = Y.astype(object)
    if Y.ndim == 1:
        Y = Y[:, None]
    if Y.ndim != 2 or Y.shape[0] == 0 or Y.shape[1] == 0:
        raise InputError(f"y has shape {np.shape(y)}; pass (m,) or (m, t) with one row a sample.")
    if Y.dtype.kind in "OSU":
        missing = np.array([[_is_missing(value) for value in row] for row in Y.T])
    else:
        missing = ~np.isfinite(Y.T) if Y.dtype.kind == "f" else np.zeros(Y.T.shape, dtype=bool)
    for where in map(np.flatnonzero, missing):
        if where.size:
            raise InputError(
                f"{where.size} of {len(Y)} labels are missing or not finite (first at sample "
                f"{where[0]}); drop those samples (CLI: --drop-missing) or fill them in."
            )
    return Y


def _is_missing(value: object) -> bool:
    if isinstance(value, float):
        return not np.isfinite(value)
    try:
        return value is None or bool(value in ("", b"") or value != value)
    except TypeError:  # pandas.NA is neither true nor false
        return True


def auto_kernel(column: Array) -> str:
    """Label kernel that ``"auto"`` takes for one target, (m,) without missing values."""
    values = None if column.dtype.kind in "SUT" else _as_real(column)
    if values is None:
        return "balanced" if len(np.unique(column.astype(str))) <= 2 else "multiclass"
    distinct, counts = np.unique(values, return_counts=True)
    whole = bool(np.all(distinct == np.floor(distinct)))
    if len(distinct) == 2:
        return "balanced"
    if whole and len(distinct) <= MOST_CLASSES and (counts >= 2).all():
        return "multiclass"
    return "gaussian"


def _class_target(column: Array, kernel: str) -> ClassTarget:
    if kernel not in CLASS_KERNELS:
        raise InputError(f"label_kernel={kernel!r} is no class kernel.")
    keys = column.astype(str) if column.dtype.kind in "OSUT" else column
    names, codes = np.unique(keys, return_inverse=True)
    m, n = len(codes), len(names)
    if n == 1:
        raise InputError(
            f"All {m} labels are {names[0].item()!r}: one class has nothing to depend on; pass "
            "labels of at least two classes."
        )
    if n == m and m > 2:
        raise InputError(
            f"Every one of the {m} samples is a class of its own ({names[0].item()!r}, "
            f"{names[1].item()!r}, ...). Pass labels that samples share, not names of samples; "
            "with real values pass label_kernel='gaussian' or 'linear'."
        )
    if kernel in ("binary", "balanced") and n != 2:
        raise InputError(
            f"label_kernel={kernel!r} takes two classes and y has {n}; pass 'multiclass' or "
            "'one-vs-rest'."
        )
    return ClassTarget.of(codes, kernel)


def _as_real(column: Array) -> Float | None:
    """Values as float64, or None where they are names."""
    if column.dtype.kind == "b":
        return None
    try:
        return column.astype(np.float64)
    except (TypeError, ValueError):
        return None


def _real_targets(Y: Array, kernel: str, covariates: Array | None) -> RealTargets:
    """Real targets (m, t) under one kernel."""
    columns = [_as_real(Y[:, t]) for t in range(Y.shape[1])]
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
    some = values[:: -(-len(values) // MEDIAN_SAMPLES)]
    D = label_distances(some, some)
    return RealTargets(values, sigma_of_median(D[np.triu_indices_from(D, k=1)]))


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


def _precomputed(L: Array) -> Float:
    L = as_numbers(L, "the precomputed L")
    if L.ndim != 2 or L.shape[0] != L.shape[1]:
        raise InputError(f"A precomputed L has shape {L.shape}; pass (m, m), one row a sample.")
    check_symmetric(L, "The precomputed L", "L")
    return L

r"""Kernels on labels: the matrix L (JMLR 5.2).

Classes with ``m_y`` samples each:

============== ============================================ ===========================
``binary``      ``l(y, y') = y y'``, y in {-1, +1}           JMLR eq. 16
``balanced``    ``y y' / (m_y m_y')``                        JMLR eq. 17
``multiclass``  ``delta(y, y') / m_y``                       JMLR eq. 18
``one-vs-rest`` ``<psi(y), psi(y')>``                        JMLR eq. 19, ICML eq. 9
============== ============================================ ===========================

Real values: ``linear`` ``<y, y'>`` and ``gaussian`` ``exp(-s ||y - y'||^2)`` (JMLR eq. 20) with
``s = 1 / (2 w^2)``, w the median distance between labels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dhsic._typing import Array, Float
from dhsic.errors import InputError
from dhsic.given import LARGEST, as_array, as_numbers, refuse_dtype
from dhsic.kernels.bandwidth import every_so_many, median_sigma

#: Whole-numbered labels with more distinct values than this are taken for measurements.
MOST_CLASSES = 50

CLASS_KERNELS = ("binary", "balanced", "multiclass", "one-vs-rest")
REAL_KERNELS = ("linear", "gaussian")
LABEL_KERNELS = ("auto", *CLASS_KERNELS, *REAL_KERNELS, "precomputed")


@dataclass(frozen=True, slots=True)
class Labels:
    """The label matrix and how it came about.

    Attributes
    ----------
    L : (m, m) float64
        Label kernel matrix.
    description : str
        Which kernels on which targets, for people to read.
    n_targets : int
        Number of target columns.
    """

    L: Float
    description: str
    n_targets: int


def label_matrix(y: Array, label_kernel: str = "auto") -> Labels:
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

    Returns
    -------
    Labels
        L and its description.

    Raises
    ------
    InputError
        One class, a constant target, NaN, an unknown kernel, or labels that do not fit it.
    """
    if label_kernel not in LABEL_KERNELS:
        raise InputError(
            f"label_kernel={label_kernel!r} is unknown; pass one of {', '.join(LABEL_KERNELS)}."
        )
    if label_kernel == "precomputed":
        return _precomputed(y)
    Y = _columns(y)
    parts: list[tuple[Float, str]] = []
    real = []
    for t in range(Y.shape[1]):
        kernel = auto_kernel(Y[:, t]) if label_kernel == "auto" else label_kernel
        if kernel in REAL_KERNELS:
            real.append(t)
        else:
            parts.append((_class_matrix(Y[:, t], kernel), kernel))
    if real:
        kernel = "gaussian" if label_kernel == "auto" else label_kernel
        parts.append((_real_matrix(Y[:, real], kernel), kernel))
    L = parts[0][0]
    for other, _ in parts[1:]:
        L = L + other
    return Labels(L, " + ".join(name for _, name in parts), Y.shape[1])


def _columns(y: Array) -> Array:
    """Y as (m, t); refuse what is empty, missing or infinite."""
    Y = as_array(y, "y")
    if Y.dtype.kind in "cmMV":
        refuse_dtype(Y.dtype, "y")
    if Y.dtype.kind == "T":  # text of any width, which NumPy compares and casts in part only
        Y = Y.astype(object)
    if Y.ndim == 1:
        Y = Y[:, None]
    if Y.ndim != 2 or Y.shape[0] == 0 or Y.shape[1] == 0:
        raise InputError(f"y has shape {np.shape(y)}; pass (m,) or (m, t) with one row a sample.")
    for t in range(Y.shape[1]):
        bad = (
            np.array([_is_missing(v) for v in Y[:, t]])
            if Y.dtype.kind in "OSU"
            else (~np.isfinite(Y[:, t]) if Y.dtype.kind == "f" else np.zeros(len(Y), dtype=bool))
        )
        if bad.any():
            where = np.flatnonzero(bad)
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


def _as_real(column: Array) -> Float | None:
    """Values as float64, or None where they are names."""
    if column.dtype.kind == "b":
        return None
    try:
        return column.astype(np.float64)
    except (TypeError, ValueError):
        return None


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


def _class_matrix(column: Array, kernel: str) -> Float:
    if kernel not in CLASS_KERNELS:
        raise InputError(f"label_kernel={kernel!r} is no class kernel.")
    keys = column.astype(str) if column.dtype.kind in "OSUT" else column
    names, codes = np.unique(keys, return_inverse=True)
    sizes = np.bincount(codes).astype(np.float64)  # m_y
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
    return _CLASS_MATRIX[kernel](codes, sizes)


def _binary(codes: Array, sizes: Float) -> Float:
    """Eq. 16."""
    del sizes
    y = 2.0 * codes - 1.0
    return np.outer(y, y)


def _balanced(codes: Array, sizes: Float) -> Float:
    """Eq. 17."""
    y = (2.0 * codes - 1.0) / sizes[codes]
    return np.outer(y, y)


def _multiclass(codes: Array, sizes: Float) -> Float:
    """Eq. 18 with ``c_y = 1 / m_y``."""
    return np.where(codes[:, None] == codes[None, :], 1.0 / sizes[codes][:, None], 0.0)


def _one_vs_rest(codes: Array, sizes: Float) -> Float:
    """Eq. 19."""
    m = sizes.sum()
    psi = np.diag(m / (sizes * (m - sizes))) - 1.0 / (m - sizes)  # row y is psi(y)
    return np.asarray((psi @ psi.T)[np.ix_(codes, codes)])


_CLASS_MATRIX: dict[str, Callable[[Array, Float], Float]] = {
    "binary": _binary,
    "balanced": _balanced,
    "multiclass": _multiclass,
    "one-vs-rest": _one_vs_rest,
}


def _real_matrix(Y: Array, kernel: str) -> Float:
    columns = [_as_real(Y[:, t]) for t in range(Y.shape[1])]
    known = [c for c in columns if c is not None]
    if len(known) < len(columns):
        raise InputError(
            f"label_kernel={kernel!r} takes numbers and y holds {str(Y.flat[0])!r}; pass numbers, "
            "or label_kernel='auto' for class names."
        )
    values = np.column_stack(known)  # (m, t)
    largest = float(np.abs(values).max())
    if largest > LARGEST:
        raise InputError(
            f"Labels reach {largest:.3g}, whose powers no number holds; rescale them, for instance "
            "y / y.std(), or take logarithms."
        )
    spread = values.std(axis=0)
    if (spread <= 1e-12 * np.abs(values).max(axis=0)).any():
        t = int(np.argmin(spread))
        raise InputError(
            f"Target {t} is constant ({float(values[0, t])!r}): nothing depends on it; leave it "
            "out."
        )
    if values.shape[1] > 1:
        values = (values - values.mean(axis=0)) / spread
    inner = values @ values.T
    if kernel == "linear":
        return np.asarray(inner)
    D = _distances(values)
    return np.asarray(np.exp(-median_sigma(every_so_many(D)) * D))


def _distances(values: Float) -> Float:
    """Squared distances, by differences: exact zeros where labels are equal."""
    D = np.zeros((len(values), len(values)))
    for column in values.T:
        delta = np.subtract.outer(column, column)
        delta *= delta
        D += delta
    return D


def _precomputed(L: Array) -> Labels:
    L = as_numbers(L, "the precomputed L")
    if L.ndim != 2 or L.shape[0] != L.shape[1]:
        raise InputError(f"A precomputed L has shape {L.shape}; pass (m, m), one row a sample.")
    worst = float(np.abs(L - L.T).max())
    if worst > 1e-8 * max(float(np.abs(L).max()), 1e-300):
        raise InputError(
            f"The precomputed L is not symmetric (largest difference {worst:.3g}); "
            "pass (L + L') / 2."
        )
    return Labels(L, "precomputed", 1)

r"""Kernels on labels: the matrix L (JMLR 5.2).

Classes with ``m_y`` samples each:

============== ============================================ ===========================
``binary``      ``l(y, y') = y y'``, y in {-1, +1}           JMLR eq. 16
``balanced``    ``y y' / (m_y m_y')``                        JMLR eq. 17
``multiclass``  ``delta(y, y') / m_y``                       JMLR eq. 18
``one-vs-rest`` ``<psi(y), psi(y')>``                        JMLR eq. 19, ICML eq. 9
============== ============================================ ===========================

The targets are read once, into parts that state a kernel without writing it out (`label_parts`);
L is their sum, here as a matrix, in `dhsic.kernels.label_factors` as a product of thin ones.

Kernels on real labels (JMLR 5.2.3).

``linear`` ``<y, y'>``, and ``gaussian`` ``exp(-s ||y - y'||^2)`` (JMLR eq. 20) with
``s = 1 / (2 w^2)``, w the median distance between labels.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dhsic._typing import Array, Float
from dhsic.errors import InputError
from dhsic.kernels.bandwidth import MEDIAN_SAMPLES, median_sigma
from dhsic.linalg.covariates import covariate_basis
from dhsic.validation import LARGEST, as_array, as_numbers, refuse_dtype, refuse_wide

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


#: Whole-numbered labels with more distinct values than this are taken for measurements.
MOST_CLASSES = 50

CLASS_KERNELS = ("binary", "balanced", "multiclass", "one-vs-rest")
REAL_KERNELS = ("linear", "gaussian")
#: The data are their own labels: their kernel matrix over all features.
SELF = "self"
LABEL_KERNELS = ("auto", *CLASS_KERNELS, *REAL_KERNELS, "precomputed", SELF)


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


@dataclass(frozen=True)
class ClassTarget:
    """A target of n classes: ``L_ij = table[class of i, class of j]``, of rank g.

    Attributes
    ----------
    codes : (m,) integers
        Class of each sample.
    maps : (n, g) float64 or None
        A row for each class, ``table = maps diag(weights) maps'``; None for unit vectors.
    weights : (g,) float64
        See `maps`.
    name : str
        The kernel, one of `CLASS_KERNELS`.
    """

    codes: Array
    maps: Float | None
    weights: Float
    name: str

    @cached_property
    def table(self) -> Float:
        """Kernel between classes, (n, n)."""
        if self.maps is None:
            return np.diag(self.weights)
        return np.asarray((self.maps * self.weights) @ self.maps.T)

    def tile(self, rows: slice, columns: slice) -> Float:
        """Part of L."""
        return np.asarray(self.table[np.ix_(self.codes[rows], self.codes[columns])])


@dataclass(frozen=True)
class GivenMatrix:
    """L as the caller computed it, (m, m)."""

    L: Float
    name: str = "precomputed"

    def tile(self, rows: slice, columns: slice) -> Float:
        """Part of L."""
        return self.L[rows, columns]


LabelPart = ClassTarget | RealTargets | GivenMatrix


@dataclass(frozen=True, slots=True)
class LabelParts:
    """What L is the sum of.

    Attributes
    ----------
    parts : tuple of LabelPart
        Class targets in their order, then the real ones.
    n_samples, n_targets : int
        m, and the number of target columns.
    """

    parts: tuple[LabelPart, ...]
    n_samples: int
    n_targets: int

    @property
    def description(self) -> str:
        """Which kernels on which targets, for people to read."""
        return " + ".join(part.name for part in self.parts)

    @property
    def centred(self) -> LabelParts:
        """With real targets of mean 0: the same to HSIC, and to what else centres L."""
        parts = (part.centred if isinstance(part, RealTargets) else part for part in self.parts)
        return replace(self, parts=tuple(parts))

    def tile(self, rows: slice, columns: slice) -> Float:
        """Part of L, not to be written to."""
        L = self.parts[0].tile(rows, columns)
        for part in self.parts[1:]:
            L = L + part.tile(rows, columns)
        return L


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
    labels = label_parts(y, label_kernel)
    everyone = slice(0, labels.n_samples)
    return Labels(labels.tile(everyone, everyone), labels.description, labels.n_targets)


def label_parts(
    y: Array, label_kernel: str = "auto", covariates: Array | None = None
) -> LabelParts:
    """Read the labels and settle their kernels; parameters and errors as of `label_matrix`.

    With covariates (m, q) real targets are replaced by what a linear regression on them leaves:
    the Gaussian kernel of a target that follows a covariate would hold it nonlinearly, where no
    projection of L finds it.
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
        return LabelParts((GivenMatrix(L),), len(L), 1)
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
        parts.append(real_targets(Y[:, real], kernel, covariates))
    return LabelParts(tuple(parts), *Y.shape)


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


def auto_kernel(column: Array) -> str:
    """Label kernel that ``"auto"`` takes for one target, (m,) without missing values."""
    values = None if column.dtype.kind in "SUT" else as_real(column)
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
    maps, weights = _CLASS_MAPS[kernel](sizes)
    return ClassTarget(codes, maps, weights, kernel)


def _one_vs_rest(sizes: Float) -> tuple[Float | None, Float]:
    """Eq. 19."""
    m = sizes.sum()
    psi = np.diag(m / (sizes * (m - sizes))) - 1.0 / (m - sizes)  # row y is psi(y)
    return psi, np.ones(len(sizes))


_SIGNS = np.array([[-1.0], [1.0]])
_CLASS_MAPS: dict[str, Callable[[Float], tuple[Float | None, Float]]] = {
    "binary": lambda _: (_SIGNS, np.ones(1)),  # eq. 16
    "balanced": lambda sizes: (_SIGNS / sizes[:, None], np.ones(1)),  # eq. 17
    "multiclass": lambda sizes: (None, 1.0 / sizes),  # eq. 18 with c_y = 1 / m_y
    "one-vs-rest": _one_vs_rest,
}


def _precomputed(L: Array) -> Float:
    L = as_numbers(L, "the precomputed L")
    if L.ndim != 2 or L.shape[0] != L.shape[1]:
        raise InputError(f"A precomputed L has shape {L.shape}; pass (m, m), one row a sample.")
    worst = float(np.abs(L - L.T).max())
    if worst > 1e-8 * max(float(np.abs(L).max()), 1e-300):
        raise InputError(
            f"The precomputed L is not symmetric (largest difference {worst:.3g}); "
            "pass (L + L') / 2."
        )
    return L

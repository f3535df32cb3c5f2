r"""Kernels on labels: the matrix L (JMLR 5.2), tile by tile or of low rank.

Labels are classes with ``m_y`` samples each, or real values (JMLR 5.2.3), one target or several;
they are refused where nothing could depend on them:

============== ============================================ ===========================
``binary``      ``l(y, y') = y y'``, y in {-1, +1}           JMLR eq. 16
``balanced``    ``y y' / (m_y m_y')``                        JMLR eq. 17
``multiclass``  ``delta(y, y') / m_y``                       JMLR eq. 18
``one-vs-rest`` ``<psi(y), psi(y')>``                        JMLR eq. 19, ICML eq. 9
``linear``      ``<y, y'>``
``gaussian``    ``exp(-s ||y - y'||^2)``, ``s = 1 / (2 w^2)``  JMLR eq. 20
``mixed``       ``multiclass`` + ``gaussian``                  of whole numbers
============== ============================================ ===========================

w is the median distance between labels. L is a sum of such parts (`dhsic.kernels.label_parts`).

Whole numbers may name classes (digits 0 to 9, people 1 to 40) or be measured (ages, scores from 0
to 30, counts), and nothing in them says which. Of classes a Gaussian kernel on the numbers sees
little, and of an age a class kernel sees little: each age is a class of its own, with nothing in
common with the next. So such labels have both kernels (``mixed``), scaled to the same norm, by
which features that depend on the classes or on the numbers are found, at the price of about as
much noise again. Three to five classes that are counted from 0 or 1 without a gap have the class
kernel alone, which loses little where they are a scale.

As a product, ``L = B diag(weights) B'``, L is never (m, m). Two classes have rank 1 (JMLR eq. 16
and 17), n classes rank n (eq. 18 and 19), the linear kernel on t targets rank t: exact. The
Gaussian kernel on labels (eq. 20) has full rank in theory and a handful of directions in fact,
since values on a line lie close together: incomplete Cholesky decomposition with pivoting (JMLR
2.6.2) finds 20 to 30 at a relative error of 1e-10, in O(m r) memory.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from dhsic._typing import Array, Float
from dhsic.errors import InputError
from dhsic.kernels.bandwidth import few_samples, sigma_of_median
from dhsic.kernels.base import COMPLETE
from dhsic.kernels.label_parts import (
    MOST_DIRECTIONS,
    ClassTarget,
    GivenMatrix,
    LabelPart,
    MixedTarget,
    RealTargets,
    TargetPart,
    label_distances,
    mean_direction,
    scaled_alike,
)
from dhsic.linalg.covariates import covariate_basis
from dhsic.linalg.symmetric import LowRankSymmetric
from dhsic.validation import (
    LARGEST,
    ROUNDING,
    as_array,
    as_numbers,
    check_symmetric,
    is_numeral,
    refuse_dtype,
    refuse_wide,
)

#: Part of a target's deviation that is none.
EXPLAINED = 1e-8
#: Whole-numbered labels with more distinct values than this are taken for measurements.
MOST_CLASSES = 50
#: Classes that are counted from 0 or 1 without a gap, at most, and are no measurements.
FEW_CLASSES = 5
#: Samples of a class in the mean, at least, where numbers may be those of classes.
OF_A_CLASS = 2
#: The same where they are surely classes, of which some have one sample.
OF_COUNTED = 4

CLASS_KERNELS = ("binary", "balanced", "multiclass", "one-vs-rest")
REAL_KERNELS = ("linear", "gaussian")
#: The data are their own labels: their kernel matrix over all features.
SELF = "self"
#: Of whole numbers that may name classes or be measured.
MIXED = "mixed"
LABEL_KERNELS = ("auto", *CLASS_KERNELS, *REAL_KERNELS, MIXED, "precomputed", SELF)

#: Mean of the diagonal that may be missing.
TOLERANCE = 1e-10
#: Directions up to which products with them are faster than to look up permuted entries.
FEW_DIRECTIONS = 64


@dataclass(frozen=True)
class LabelMatrix:
    """The label matrix L as the sum of its parts: class targets in their order, then real ones."""

    parts: tuple[LabelPart, ...]
    n_samples: int
    n_targets: int

    @property
    def description(self) -> str:
        """Which kernels on which targets, for people to read."""
        return " + ".join(part.name for part in self.parts)

    @property
    def centred(self) -> LabelMatrix:
        """With real targets of mean 0, to which the linear kernel would lose digits."""
        return self._with(lambda part: part.centred)

    @property
    def linear(self) -> LabelMatrix:
        """With real targets by the linear kernel; several targets are scaled alike again."""
        found = self._with(lambda part: part.linear)
        targets = [part for part in found.parts if not isinstance(part, GivenMatrix)]
        if len(targets) < 2:
            return found
        return replace(found, parts=tuple(scaled_alike(targets, mean_direction(self.n_samples))))

    @property
    def readings(self) -> tuple[LabelMatrix, ...]:
        """Itself; of whole numbers that may be either also classes and numbers alone."""
        if len(self.parts) == 1 and isinstance(part := self.parts[0], MixedTarget):
            return self, replace(self, parts=(part.classes,)), replace(self, parts=(part.numbers,))
        return (self,)

    def _with(self, of: Callable[[RealTargets | MixedTarget], TargetPart]) -> LabelMatrix:
        """With others for targets that are numbers."""
        parts = (
            of(part) if isinstance(part, RealTargets | MixedTarget) else part for part in self.parts
        )
        return replace(self, parts=tuple(parts))

    @property
    def L(self) -> Float:
        """L written out, (m, m), not to be written to."""
        return self.tile(slice(0, self.n_samples), slice(0, self.n_samples))

    def tile(self, rows: slice, columns: slice) -> Float:
        """Part of L, not to be written to."""
        return reduce(np.add, (part.tile(rows, columns) for part in self.parts))

    def factor(
        self, *, tolerance: float = TOLERANCE, max_rank: int = MOST_DIRECTIONS
    ) -> LowRankSymmetric:
        """L of low rank; refused of more than 2,000 classes and given L of over 5,000 samples.

        Of a Gaussian L, `tolerance` is the part of the trace that may be missing and `max_rank` the
        most directions; where they do not reach the tolerance, `error` says so. It is the part of
        the trace that is missing, of a given L of the sum of its eigenvalues' sizes; no entry of a
        Gaussian L is off by more than m times as much. Weights are negative only where a given L is
        indefinite.
        """
        found = [part.factor(tolerance, max_rank) for part in self.parts]
        missing = sum(left for _, _, left in found)
        size = sum(float(np.einsum("ij,ij,j->", B, B, np.abs(w))) for B, w, _ in found)
        error = missing / (missing + size) if missing + size else 0.0
        B = np.column_stack([B for B, _, _ in found])
        return LowRankSymmetric.of(B, np.concatenate([w for _, w, _ in found]), error)

    def low_rank(
        self, tolerance: float = COMPLETE, most: int = FEW_DIRECTIONS
    ) -> LowRankSymmetric | None:
        """L but for a part `tolerance` of its trace, rounding by default.

        None where `most` directions do not do, where classes have more than 64, and of a given L.
        """
        for part in self.parts:
            classes = part.classes if isinstance(part, MixedTarget) else part
            few = isinstance(classes, ClassTarget) and len(classes.weights) <= FEW_DIRECTIONS
            if not (few or isinstance(part, RealTargets)):
                return None
        L = self.factor(tolerance=tolerance, max_rank=most)
        return None if L.error > tolerance or L.rank > most else L


def label_matrix(
    y: Array, label_kernel: str = "auto", covariates: Array | None = None
) -> LabelMatrix:
    """L for the labels y, as the sum of its parts.

    Parameters
    ----------
    y : (m,) or (m, t) array
        Class names or numbers, or real values; (m, m) for ``label_kernel="precomputed"``.
    label_kernel : str
        One of `LABEL_KERNELS`. ``"auto"`` takes eq. 17 for two classes, eq. 18 for more, eq. 20
        for real values, and for whole numbers that may be either the sum of both (``"mixed"``):
        those of 3 to 50 distinct values, each held by two samples or more in the mean. Strings,
        booleans and 3 to 5 numbers counted from 0 or 1 without a gap are classes. Of several
        targets every one has its kernel, L is their sum, and they are scaled alike; but where all
        are real values, or places that hardly any samples share, these (standardised) share one.
    covariates : (m, q) array, optional
        Real targets are replaced by what a linear regression on them leaves: the Gaussian kernel
        of a target that follows a covariate would hold it nonlinearly, where no projection of L
        finds it.

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
        L = as_numbers(y, "the precomputed L")
        if L.ndim != 2 or L.shape[0] != L.shape[1]:
            raise InputError(f"A precomputed L has shape {L.shape}; pass (m, m), one row a sample.")
        check_symmetric(L, "The precomputed L", "L")
        return LabelMatrix((GivenMatrix(L),), len(L), 1)
    Y = _columns(y)
    kernels = target_kernels(Y, label_kernel)
    if all(kernel in REAL_KERNELS for kernel in kernels):
        return LabelMatrix((_real_targets(Y, kernels[0], covariates),), *Y.shape)
    Q = covariate_basis(covariates, len(Y))
    order = sorted(range(len(kernels)), key=lambda t: kernels[t] in REAL_KERNELS)
    parts = [_target(Y[:, t], kernels[t], covariates, Q) for t in order]
    return LabelMatrix(tuple(parts if len(parts) < 2 else scaled_alike(parts, Q)), *Y.shape)


def joint_labels(each: Sequence[LabelMatrix], covariates: Array | None = None) -> LabelMatrix:
    """Label matrix of several targets together, scaled alike, from that of each."""
    m = each[0].n_samples
    parts = [part for L in each for part in L.parts if not isinstance(part, GivenMatrix)]
    parts = scaled_alike(parts, covariate_basis(covariates, m))
    return LabelMatrix(tuple(parts), m, sum(L.n_targets for L in each))


def _target(column: Array, kernel: str, covariates: Array | None, Q: Float) -> TargetPart:
    """Kernel of a name on one target of several, (m,)."""
    if kernel in REAL_KERNELS:
        return _real_targets(column[:, None], kernel, covariates)
    if kernel != MIXED:
        return _class_target(column, kernel)
    numbers = _real_targets(column[:, None], "gaussian", covariates)
    return MixedTarget.of(_class_target(column, "multiclass"), numbers, Q)


def _columns(y: Array) -> Array:
    """Y as (m, t); refuse what is empty, missing or infinite."""
    Y = as_array(y, "y")
    if Y.dtype.kind in "cmMV":
        refuse_dtype(Y.dtype, "y")
    refuse_wide(Y, "y")
    if Y.dtype.kind == "T":  # text of any width, which NumPy compares and casts in part only
        Y = Y.astype(object)
    Y = Y[:, None] if Y.ndim == 1 else Y
    if Y.ndim != 2 or Y.shape[0] == 0 or Y.shape[1] == 0:
        raise InputError(f"y has shape {np.shape(y)}; pass (m,) or (m, t) with one row a sample.")
    if Y.dtype.kind in "OSU":
        missing = np.array([[_is_missing(value) for value in row] for row in Y.T])
    else:
        missing = ~np.isfinite(Y.T) if Y.dtype.kind == "f" else np.zeros(Y.T.shape, dtype=bool)
    for t, where in enumerate(map(np.flatnonzero, missing)):
        if where.size and Y.dtype.kind == "f" and np.isinf(Y[where, t]).all():
            raise InputError(
                f"{where.size} of {len(Y)} labels are not finite: they are infinite (first at "
                f"sample {where[0]}), as a pseudotime of scanpy's dpt is for cells that are not "
                "connected to the root; drop those samples, keep = numpy.isfinite(y) (CLI: "
                f"{_codes(Y[where, t])}--drop-missing)."
            )
        if where.size:
            raise InputError(
                f"{where.size} of {len(Y)} labels are missing or not finite (first at sample "
                f"{where[0]}); drop those samples (CLI: {_codes(Y[where, t])}--drop-missing) or "
                "fill them in."
            )
    return Y


def _codes(values: Array) -> str:
    """How the command line is told that infinite labels are missing."""
    infinite = values[np.isinf(values)] if values.dtype.kind == "f" else values[:0]
    return "".join(f"--na {value:g} " for value in np.unique(infinite))


def _is_missing(value: object) -> bool:
    if isinstance(value, float):
        return not np.isfinite(value)
    try:
        return value is None or bool(value in ("", b"") or value != value)
    except TypeError:  # pandas.NA is neither true nor false
        return True


def target_kernels(Y: Array, label_kernel: str = "auto") -> list[str]:
    """Label kernel of each target, (m, t) without missing values."""
    if label_kernel not in ("auto", MIXED):
        return [label_kernel] * Y.shape[1]
    kernels = [auto_kernel(column, label_kernel) for column in Y.T]
    return ["gaussian"] * len(kernels) if _are_places(Y, kernels) else kernels


def auto_kernel(column: Array, label_kernel: str = "auto") -> str:
    """Label kernel that ``"auto"`` or ``"mixed"`` takes for one target, (m,), none missing."""
    values = None if column.dtype.kind in "SUT" else _as_real(column)
    if values is None:
        return "balanced" if len(np.unique(column.astype(str))) <= 2 else "multiclass"
    distinct, counts = np.unique(values, return_counts=True)
    n, least = len(distinct), distinct[0]
    if n == 2:
        return "balanced"
    if (distinct != np.floor(distinct)).any() or n == len(values):
        return "gaussian"
    if label_kernel == MIXED and n > 2:
        return MIXED
    if n > MOST_CLASSES or OF_A_CLASS * n > len(values):
        return "gaussian"
    is_counted = n <= FEW_CLASSES and least in (0, 1) and distinct[-1] - least == n - 1
    are_shared = counts.min() >= 2 or len(values) >= OF_COUNTED * n
    return "multiclass" if n == 1 or (is_counted and are_shared) else MIXED


def may_be_classes(column: Array) -> bool:
    """Whether a target (m,) is of classes, or of whole numbers that may name some."""
    return auto_kernel(column) in (*CLASS_KERNELS, MIXED)


def _are_places(Y: Array, kernels: list[str]) -> bool:
    """Whether columns of whole numbers are coordinates: most rows (m, t) differ, as on a grid."""
    alike = len({kernel == "multiclass" for kernel in kernels}) == 1 and "balanced" not in kernels
    if len(kernels) < 2 or Y.dtype.kind not in "iuf" or not alike or (np.floor(Y) != Y).any():
        return False
    return 2 * len(np.unique(Y, axis=0)) > len(Y)


def named_classes(y: Array) -> Array:
    """Labels (m,) or (m, t) in which classes that are numbers are text: they stay classes.

    Of some of the samples a class may have one, and would be taken for a measurement.
    """
    if y.dtype.kind not in "iufO":
        return y
    columns = [y] if y.ndim == 1 else list(y.T)
    kernels = target_kernels(np.column_stack(columns))
    found = [
        np.array([f"class {value}" for value in column], dtype=object)
        if kernel == "multiclass"
        else column
        for column, kernel in zip(columns, kernels, strict=True)
    ]
    if all(map(operator.is_, found, columns)):
        return y
    return found[0] if y.ndim == 1 else np.column_stack([c.astype(object) for c in found])


def _class_target(column: Array, kernel: str) -> ClassTarget:
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
    if column.dtype.kind == "O" and not all(is_numeral(v) for v in column if isinstance(v, str)):
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
    some = few_samples(values)
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

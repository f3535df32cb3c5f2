r"""Kernels on labels: the label matrix L (JMLR 5.2), tile by tile or in low rank.

Labels are classes with ``m_y`` samples each, or real values (JMLR 5.2.3), with one or several
targets; constant labels raise an InputError:

============== ============================================ ===========================
``binary``      ``l(y, y') = y y'``, y in {-1, +1}           JMLR eq. 16
``balanced``    ``y y' / (m_y m_y')``                        JMLR eq. 17
``multiclass``  ``delta(y, y') / m_y``                       JMLR eq. 18
``one-vs-rest`` ``<psi(y), psi(y')>``                        JMLR eq. 19, ICML eq. 9
``linear``      ``<y, y'>``
``gaussian``    ``exp(-s ||y - y'||^2)``, ``s = 1 / (2 w^2)``  JMLR eq. 20
``mixed``       ``multiclass`` + ``gaussian``                  for integers
``ordinal``     ``gaussian`` on rank scores of levels        `dhsic.kernels.ordinal`
``rank``        ``gaussian`` on rank scores of numbers       `dhsic.kernels.ordinal`
``log-rank``    scores of censored times                      `dhsic.kernels.censored`
============== ============================================ ===========================

w is the median distance between labels. L is a sum of such parts (`dhsic.kernels.label_parts`).

Integer labels may be class codes (digits 0 to 9, people 1 to 40) or measurements (ages, scores from
0 to 30, counts), and their values do not show which. A Gaussian kernel has little power for class
codes, and a class kernel has little power for ages, because it treats every age as a separate
class. Such labels therefore have both kernels (``mixed``), scaled to the same norm. This detects
dependence of either kind, with about twice the noise. Three to five classes numbered from 0 or 1
without a gap have only the class kernel, which loses little power if they are ordinal.

In low rank, ``L = B diag(weights) B'``, no (m, m) matrix is formed. Two classes have rank 1 (JMLR
eq. 16 and 17), n classes rank n (eq. 18 and 19), and the linear kernel on t targets rank t; these
are exact. The Gaussian kernel on labels (eq. 20) has full rank in theory and low numerical rank in
practice, because values on a line lie close together: incomplete Cholesky decomposition with
pivoting (JMLR 2.6.2) needs 20 to 30 directions for a relative error of 1e-10, in O(m r) memory.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from dhsic._typing import Array, Float
from dhsic.errors import InputError
from dhsic.kernels.base import COMPLETE
from dhsic.kernels.censored import LOG_RANK, N_WEIGHTS, CensoredTarget
from dhsic.kernels.label_parts import (
    MOST_DIRECTIONS,
    ClassTarget,
    GivenMatrix,
    LabelPart,
    MixedTarget,
    RealTargets,
    TargetPart,
    mean_direction,
    scaled_alike,
)
from dhsic.kernels.ordinal import ORDINAL, RANK, is_ordinal
from dhsic.kernels.real_labels import as_real, real_targets
from dhsic.kernels.risk_sets import is_censored
from dhsic.linalg.covariates import covariate_basis
from dhsic.linalg.symmetric import LowRankSymmetric
from dhsic.linalg.weighted_samples import weighted_basis
from dhsic.validation import (
    as_array,
    as_numbers,
    check_symmetric,
    refuse_dtype,
    refuse_wide,
)

#: Integer labels with more distinct values than this are treated as measurements.
MOST_CLASSES = 50
#: Largest number of classes, numbered from 0 or 1 without a gap, that are not measurements.
FEW_CLASSES = 5
#: Minimum mean number of samples per distinct value for integers that may be class codes.
OF_A_CLASS = 2
#: Minimum mean number of samples per class for numbered classes if a class has a single sample.
OF_COUNTED = 4

CLASS_KERNELS = ("binary", "balanced", "multiclass", "one-vs-rest")
REAL_KERNELS = ("linear", "gaussian", RANK)
#: Label kernel of unsupervised selection: the kernel matrix of the data over all features.
SELF = "self"
#: Label kernel of integers that may be class codes or measurements.
MIXED = "mixed"
LABEL_KERNELS = ("auto", *CLASS_KERNELS, *REAL_KERNELS, ORDINAL, MIXED, "precomputed", SELF)

#: Largest relative error of the trace of a low-rank L.
TOLERANCE = 1e-10
#: Largest rank at which products with directions are faster than indexing permuted entries.
FEW_DIRECTIONS = 64


@dataclass(frozen=True)
class LabelMatrix:
    """Label matrix L (m, m): the sum of the kernel matrices of class targets, then real targets."""

    parts: tuple[LabelPart, ...]
    n_samples: int
    n_targets: int

    @property
    def description(self) -> str:
        """Names of the kernels of all targets, joined by plus signs."""
        return " + ".join(part.name for part in self.parts)

    @property
    def centred(self) -> LabelMatrix:
        """Return a copy with real targets shifted to mean 0.

        The linear kernel then loses no digits.
        """
        return self._with(lambda part: part.centred)

    @property
    def linear(self) -> LabelMatrix:
        """Return a copy with the linear kernel on real targets.

        Several targets are scaled alike again.
        """
        with_linear = self._with(lambda part: part.linear)
        targets = [part for part in with_linear.parts if not isinstance(part, GivenMatrix)]
        if len(targets) < 2:
            return with_linear
        return replace(
            with_linear, parts=tuple(scaled_alike(targets, mean_direction(self.n_samples)))
        )

    @property
    def readings(self) -> tuple[LabelMatrix, ...]:
        """Possible interpretations of the labels, as label matrices.

        The first is the label matrix itself. Mixed labels also have the label matrices of the
        classes and of the numbers.
        """
        if len(self.parts) == 1 and isinstance(part := self.parts[0], MixedTarget):
            return self, replace(self, parts=(part.classes,)), replace(self, parts=(part.numbers,))
        return (self,)

    def _with(self, of: Callable[[RealTargets | MixedTarget], TargetPart]) -> LabelMatrix:
        """Return a copy in which every numeric target is replaced by `of(target)`."""
        parts = (
            of(part) if isinstance(part, RealTargets | MixedTarget) else part for part in self.parts
        )
        return replace(self, parts=tuple(parts))

    @property
    def L(self) -> Float:
        """Label matrix as a dense, read-only array (m, m)."""
        return self.tile(slice(0, self.n_samples), slice(0, self.n_samples))

    def tile(self, rows: slice, columns: slice) -> Float:
        """Entries of the label matrix at `rows` and `columns`, read-only."""
        return reduce(np.add, (part.tile(rows, columns) for part in self.parts))

    def factor(
        self, *, tolerance: float = TOLERANCE, max_rank: int = MOST_DIRECTIONS
    ) -> LowRankSymmetric:
        """Factor L into ``B diag(weights) B'``.

        A Gaussian L is approximated: the decomposition stops when the missing fraction of the trace
        is at most `tolerance`, or at `max_rank` directions. The `error` of the result is the
        missing fraction of the trace (for a precomputed L, of the sum of its absolute eigenvalues);
        entries of a Gaussian L have errors of at most m times `error`. Weights are negative only
        for an indefinite precomputed L. Raises InputError for more than 2,000 classes, or for a
        precomputed L with more than 5,000 samples.
        """
        factors = [part.factor(tolerance, max_rank) for part in self.parts]
        missing = sum(loss for _, _, loss in factors)
        size = sum(float(np.einsum("ij,ij,j->", B, B, np.abs(w))) for B, w, _ in factors)
        error = missing / (missing + size) if missing + size else 0.0
        B = np.column_stack([B for B, _, _ in factors])
        return LowRankSymmetric.of(B, np.concatenate([w for _, w, _ in factors]), error)

    def low_rank(
        self, tolerance: float = COMPLETE, most: int = FEW_DIRECTIONS
    ) -> LowRankSymmetric | None:
        """Factor the label matrix up to a fraction `tolerance` of its trace.

        By default it is complete up to rounding errors. Returns None if it needs more than `most`
        directions, for more than 64 classes, and for a precomputed label matrix.
        """
        for part in self.parts:
            classes = part.classes if isinstance(part, MixedTarget) else part
            few = isinstance(classes, ClassTarget) and len(classes.weights) <= FEW_DIRECTIONS
            if not (few or isinstance(part, RealTargets)):
                return None
        L = self.factor(tolerance=tolerance, max_rank=most)
        return None if L.error > tolerance or L.rank > most else L


def label_matrix(
    y: Array,
    label_kernel: str = "auto",
    covariates: Array | None = None,
    p: Float | None = None,
) -> LabelMatrix:
    """Compute the label matrix L of the labels y, as the sum of its parts.

    Parameters
    ----------
    y : (m,) or (m, t) array
        Class names or numbers, or real values; L itself, (m, m), if ``label_kernel="precomputed"``.
    label_kernel : str
        One of `LABEL_KERNELS`. Censored times, of type `dhsic.kernels.risk_sets.CENSORED`, have the
        kernel of `dhsic.kernels.censored`, or only its first score with ``"linear"``. For other
        labels ``"auto"`` uses eq. 17 for two classes, eq. 18 for more, eq. 20
        for real values, and the sum of eq. 18 and 20 (``"mixed"``) for integers that may be either:
        3 to 50 distinct values with a mean of at least two samples each. Strings, booleans and 3
        to 5 integers from 0 or 1 without a gap are classes. Ordered categories have the kernel
        ``"ordinal"`` on rank scores of their levels, and ``"rank"`` is the same for numbers with
        heavy tails. If there are several targets, each has
        its own kernel and L is their sum, scaled alike. Targets that are all real, or coordinates
        that few samples share, are standardised and have one joint kernel.
    covariates : (m, q) array, optional
        Real targets are replaced by their residuals from a linear regression on these. Otherwise,
        if a target depends on a covariate, its Gaussian kernel would contain nonlinear functions of
        the covariate, which a projection of L could not remove.
    p : (m,) array, optional
        Weights of the samples, which sum to 1: sizes of classes, ranks, medians and regressions are
        weighted.

    Raises
    ------
    InputError
        One class, a constant target, NaN, an unknown kernel, labels that do not fit it, or censored
        times with weights.
    """
    if label_kernel not in LABEL_KERNELS:
        raise InputError(
            f"label_kernel={label_kernel!r} is unknown; pass one of {', '.join(LABEL_KERNELS)}."
        )
    if label_kernel == SELF:
        raise InputError(
            "label_kernel='self' uses the data as labels, which only BAHSIC and FOHSIC support; "
            "here pass Y and another label kernel."
        )
    if label_kernel == "precomputed":
        L = as_numbers(y, "the precomputed L")
        if L.ndim != 2 or L.shape[0] != L.shape[1]:
            raise InputError(
                f"A precomputed L has shape {L.shape}; pass (m, m), one row per sample."
            )
        check_symmetric(L, "The precomputed L", "L")
        return LabelMatrix((GivenMatrix(L),), len(L), 1)
    if is_censored(as_array(y, "y")):
        if p is not None:
            raise InputError(
                "Times to an event (event=) do not support sample_weight (CLI: --weights). Leave "
                "the weights out."
            )
        return _of_censored(np.ravel(y), label_kernel, covariates)
    Y = _columns(y)
    kernels = target_kernels(Y, label_kernel)
    if all(kernel in REAL_KERNELS for kernel in kernels):
        return LabelMatrix((real_targets(Y, kernels[0], covariates, p),), *Y.shape)
    Q = covariate_basis(covariates, len(Y)) if p is None else weighted_basis(covariates, p)
    order = sorted(range(len(kernels)), key=lambda t: kernels[t] in (*REAL_KERNELS, ORDINAL))
    parts = [_target(Y[:, t], kernels[t], covariates, Q, p) for t in order]
    return LabelMatrix(tuple(parts if len(parts) < 2 else scaled_alike(parts, Q, p)), *Y.shape)


def _of_censored(y: Array, label_kernel: str, covariates: Array | None) -> LabelMatrix:
    """Label matrix of censored times (m,).

    It contains all log-rank scores, or only the first one for "linear".
    """
    if label_kernel not in ("auto", "linear", "gaussian"):
        raise InputError(
            f"label_kernel={label_kernel!r} does not apply to censored times; pass 'auto', or "
            "'linear' for effects on proportional hazards only."
        )
    n_weights = 1 if label_kernel == "linear" else N_WEIGHTS
    target = CensoredTarget.of(y, covariates, n_weights=n_weights)
    return LabelMatrix((target,), len(y), 1)


def joint_labels(each: Sequence[LabelMatrix], covariates: Array | None = None) -> LabelMatrix:
    """Add the label matrices of several targets, after scaling all of them to the same norm."""
    m = each[0].n_samples
    parts = [part for L in each for part in L.parts if not isinstance(part, GivenMatrix)]
    parts = scaled_alike(parts, covariate_basis(covariates, m))
    return LabelMatrix(tuple(parts), m, sum(L.n_targets for L in each))


def _target(
    column: Array, kernel: str, covariates: Array | None, Q: Float, p: Float | None
) -> TargetPart:
    """Create the label kernel with this name for one target, `column` (m,).

    p (m,) are weights of the samples, if any. Q (m, q + 1) is the basis of ``[1, covariates]``, or
    of ``sqrt(p) [1, covariates]`` with weights.
    """
    if kernel in (*REAL_KERNELS, ORDINAL):
        return real_targets(column[:, None], kernel, covariates, p)
    if kernel != MIXED:
        return _class_target(column, kernel, p)
    numbers = real_targets(column[:, None], "gaussian", covariates, p)
    return MixedTarget.of(_class_target(column, "multiclass", p), numbers, Q, p)


def _columns(y: Array) -> Array:
    """Return labels y as (m, t); raises InputError for missing, infinite or no labels."""
    Y = as_array(y, "y")
    if Y.dtype.kind in "cmMV":
        refuse_dtype(Y.dtype, "y")
    refuse_wide(Y, "y")
    if Y.dtype.kind == "T":  # variable-width strings, which NumPy compares and casts only in part
        Y = Y.astype(object)
    Y = Y[:, None] if Y.ndim == 1 else Y
    if Y.ndim != 2 or Y.shape[0] == 0 or Y.shape[1] == 0:
        raise InputError(
            f"y has shape {np.shape(y)}; pass (m,) or (m, t), with one row per sample."
        )
    if Y.dtype.kind in "OSU":
        missing = np.array([[_is_missing(value) for value in row] for row in Y.T])
    else:
        missing = ~np.isfinite(Y.T) if Y.dtype.kind == "f" else np.zeros(Y.T.shape, dtype=bool)
    for t, where in enumerate(map(np.flatnonzero, missing)):
        if where.size and Y.dtype.kind == "f" and np.isinf(Y[where, t]).all():
            raise InputError(
                f"{where.size} of {len(Y)} labels are not finite, but infinite (first at sample "
                f"{where[0]}). For example, the pseudotime of scanpy's dpt is infinite for cells "
                "that are not connected to the root. Drop those samples, keep = numpy.isfinite(y) "
                f"(CLI: {_codes(Y[where, t])}--drop-missing)."
            )
        if where.size:
            raise InputError(
                f"{where.size} of {len(Y)} labels are missing or not finite (first at sample "
                f"{where[0]}); drop those samples (CLI: {_codes(Y[where, t])}--drop-missing) or "
                "fill them in."
            )
    return Y


def _codes(values: Array) -> str:
    """Command-line options that declare the infinite `values` as missing."""
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
    """Choose the label kernel of each target of Y (m, t), which has no missing values."""
    if label_kernel == ORDINAL:
        return ["balanced" if _are_two_names(column) else ORDINAL for column in Y.T]
    if label_kernel not in ("auto", MIXED):
        return [label_kernel] * Y.shape[1]
    kernels = [auto_kernel(column, label_kernel) for column in Y.T]
    return ["gaussian"] * len(kernels) if _are_places(Y, kernels) else kernels


def _are_two_names(column: Array) -> bool:
    """Whether a target (m,) has two values, as booleans or text; their order does not matter."""
    return as_real(column) is None and len({*map(str, column.tolist())}) == 2


def auto_kernel(column: Array, label_kernel: str = "auto") -> str:
    """Choose the kernel of one target (m,) without missing values, for "auto" or "mixed"."""
    if is_censored(column):
        return LOG_RANK
    if is_ordinal(column):
        return ORDINAL if len({*column.tolist()}) > 2 else "balanced"
    values = None if column.dtype.kind in "SUT" else as_real(column)
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
    """Whether a target (m,) consists of classes, levels, or integers that may be class codes."""
    return auto_kernel(column) in (*CLASS_KERNELS, MIXED, ORDINAL)


def _are_places(Y: Array, kernels: list[str]) -> bool:
    """Whether integer targets (m, t) are coordinates on a grid.

    They are if most rows are distinct.
    """
    alike = len({kernel == "multiclass" for kernel in kernels}) == 1 and "balanced" not in kernels
    if len(kernels) < 2 or Y.dtype.kind not in "iuf" or not alike or (np.floor(Y) != Y).any():
        return False
    return 2 * len(np.unique(Y, axis=0)) > len(Y)


def named_classes(y: Array) -> Array:
    """Convert class codes in labels (m,) or (m, t) to text, so that they remain classes.

    In a subset of the samples a class may have only one sample. As a number, it would look like a
    measurement.
    """
    if y.dtype.kind not in "iufO":
        return y
    columns = [y] if y.ndim == 1 else list(y.T)
    kernels = target_kernels(np.column_stack(columns))
    converted = [
        np.array([f"class {value}" for value in column], dtype=object)
        if kernel == "multiclass"
        else column
        for column, kernel in zip(columns, kernels, strict=True)
    ]
    if all(map(operator.is_, converted, columns)):
        return y
    return converted[0] if y.ndim == 1 else np.column_stack([c.astype(object) for c in converted])


def _class_target(column: Array, kernel: str, p: Float | None) -> ClassTarget:
    keys = column.astype(str) if column.dtype.kind in "OSUT" else column
    names, codes = np.unique(keys, return_inverse=True)
    m, n = len(codes), len(names)
    if n == 1:
        is_missing = str(names[0]) in ("-9", "-9.0")
        raise InputError(
            f"All {m} labels are {names[0].item()!r}"
            f"{', which PLINK writes for missing values' * is_missing}, so nothing can depend on "
            f"them; pass labels of at least two classes{' (CLI: --labels)' * is_missing}."
        )
    if n == m and m > 2:
        raise InputError(
            f"Each of the {m} samples is its own class ({names[0].item()!r}, "
            f"{names[1].item()!r}, ...). Pass labels shared by several samples, not sample names; "
            "for real values pass label_kernel='gaussian' or 'linear'."
        )
    if kernel in ("binary", "balanced") and n != 2:
        raise InputError(
            f"label_kernel={kernel!r} needs two classes, but y has {n}; pass 'multiclass' or "
            "'one-vs-rest'."
        )
    return ClassTarget.of(codes, kernel, p)

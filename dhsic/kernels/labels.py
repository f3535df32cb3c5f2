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
============== ============================================ ===========================

w is the median distance between labels. L is a sum of such parts, each of which states its kernel
without writing it out.

As a product, ``L = B diag(weights) B'``, L is never (m, m). Two classes have rank 1 (JMLR eq. 16
and 17), n classes rank n (eq. 18 and 19), the linear kernel on t targets rank t: exact. The
Gaussian kernel on labels (eq. 20) has full rank in theory and a handful of directions in fact,
since values on a line lie close together: incomplete Cholesky decomposition with pivoting (JMLR
2.6.2) finds 20 to 30 at a relative error of 1e-10, in O(m r) memory.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, reduce

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.errors import InputError
from dhsic.kernels.bandwidth import few_samples, sigma_of_median
from dhsic.kernels.base import COMPLETE
from dhsic.linalg import pivoted_cholesky
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
#: Samples of a class in the mean, at least, where some classes have but one.
OF_A_CLASS = 4

CLASS_KERNELS = ("binary", "balanced", "multiclass", "one-vs-rest")
REAL_KERNELS = ("linear", "gaussian")
#: The data are their own labels: their kernel matrix over all features.
SELF = "self"
LABEL_KERNELS = ("auto", *CLASS_KERNELS, *REAL_KERNELS, "precomputed", SELF)

#: Samples up to which a given matrix is decomposed, and directions that a factor may have.
MOST_DECOMPOSED, MOST_DIRECTIONS = 5000, 2000
#: Mean of the diagonal that may be missing.
TOLERANCE = 1e-10
#: Directions up to which products with them are faster than to look up permuted entries.
FEW_DIRECTIONS = 64

#: Directions (m, g) of a part, their weights (g,) and what is missing, in units of its trace.
PartFactor = tuple[Float, Float, float]


@dataclass(frozen=True)
class ClassTarget:
    """A target of n classes: ``L_ij = table[class of i, class of j]``, of rank g.

    `codes` (m,) are the classes of the samples and ``table = maps diag(weights) maps'``, `maps`
    (n, g) with a row for each class, None for unit vectors.
    """

    codes: Array
    maps: Float | None
    weights: Float
    name: str

    @staticmethod
    def of(codes: Array, kernel: str) -> ClassTarget:
        """Class kernel of a name: eq. 16 to 19, or one of criteria, which judge by classes."""
        sizes = np.bincount(codes).astype(np.float64)  # m_y
        m, ones = sizes.sum(), np.ones(len(sizes))
        if kernel in ("binary", "balanced"):  # eq. 16 and 17
            signs = np.array([[-1.0], [1.0]])
            maps = signs if kernel == "binary" else signs / sizes[:, None]
            return ClassTarget(codes, maps, np.ones(1), kernel)
        if kernel == "one-vs-rest":  # eq. 19; row y is psi(y)
            psi = np.diag(m / (sizes * (m - sizes))) - 1.0 / (m - sizes)
            return ClassTarget(codes, psi, ones, kernel)
        # eq. 18 with c_y = 1 / m_y, or 1; JMLR 6.5
        weights = {"multiclass": 1.0 / sizes, "delta": ones, "centroids": sizes**-2.0}[kernel]
        return ClassTarget(codes, None, weights, kernel)

    @cached_property
    def table(self) -> Float:
        """Kernel between classes, (n, n)."""
        if self.maps is None:
            return np.diag(self.weights)
        return np.asarray((self.maps * self.weights) @ self.maps.T)

    def tile(self, rows: slice, columns: slice) -> Float:
        return np.asarray(self.table[np.ix_(self.codes[rows], self.codes[columns])])

    def factor(self, tolerance: float, max_rank: int) -> PartFactor:
        """The row of its class for every sample."""
        n = len(self.weights)
        if n > MOST_DIRECTIONS:
            raise InputError(
                f"The labels have {n} classes, and methods of low rank take up to "
                f"{MOST_DIRECTIONS}; pass method='blockwise' or 'exact', or fewer classes."
            )
        maps = np.eye(n) if self.maps is None else self.maps
        return maps[self.codes], self.weights, 0.0


@dataclass(frozen=True)
class RealTargets:
    """Real targets that share a kernel; `values` (m, t), `sigma` None for the linear kernel."""

    values: Float
    sigma: float | None

    @property
    def name(self) -> str:
        return "linear" if self.sigma is None else "gaussian"

    def tile(self, rows: slice, columns: slice) -> Float:
        if self.sigma is None:
            return np.asarray(self.values[rows] @ self.values[columns].T)
        return np.exp(-self.sigma * label_distances(self.values[rows], self.values[columns]))

    def factor(self, tolerance: float, max_rank: int) -> PartFactor:
        """The values; of a Gaussian the worst sample is the next pivot."""
        m, t = self.values.shape
        if self.sigma is None:
            return self.values, np.ones(t), 0.0

        G, _, missing = pivoted_cholesky(
            lambda p: self.tile(slice(None), slice(p, p + 1))[:, 0],
            np.ones(m),
            rank=min(m, max_rank),
            tolerance=tolerance,
        )
        return np.ascontiguousarray(G.T), np.ones(len(G)), float(missing.sum())


@dataclass(frozen=True)
class GivenMatrix:
    """L as the caller computed it, `matrix` (m, m)."""

    matrix: Float
    name: str = "precomputed"

    def tile(self, rows: slice, columns: slice) -> Float:
        return self.matrix[rows, columns]

    def factor(self, tolerance: float, max_rank: int) -> PartFactor:
        """Eigenvectors whose eigenvalues are more than rounding."""
        L, m = self.matrix, len(self.matrix)
        if m > MOST_DECOMPOSED:
            raise InputError(
                f"A precomputed L of {m} samples takes too long to decompose (up to "
                f"{MOST_DECOMPOSED}); pass the labels and a label_kernel, or method='exact'."
            )
        values, vectors = np.linalg.eigh((L + L.T) / 2)
        sizes = np.abs(values)
        kept = sizes > 1e-14 * max(float(sizes.max()), 1e-300)
        return vectors[:, kept], values[kept], float(sizes[~kept].sum())


#: States a kernel on some targets, part of L by part; `factor` has the limits of the whole.
LabelPart = ClassTarget | RealTargets | GivenMatrix


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
        return self._with(lambda real: replace(real, values=real.values - real.values.mean(axis=0)))

    @property
    def linear(self) -> LabelMatrix:
        """With real targets by the linear kernel, of unit trace where another one was asked for."""
        return self._with(
            lambda real: real if real.sigma is None else RealTargets(_unit(real.values), None)
        )

    def _with(self, of: Callable[[RealTargets], RealTargets]) -> LabelMatrix:
        """With others for its real targets."""
        parts = (of(part) if isinstance(part, RealTargets) else part for part in self.parts)
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
            few = isinstance(part, ClassTarget) and len(part.weights) <= FEW_DIRECTIONS
            if not (few or isinstance(part, RealTargets)):
                return None
        L = self.factor(tolerance=tolerance, max_rank=most)
        return None if L.error > tolerance or L.rank > most else L


def label_distances(rows: Float, columns: Float) -> Float:
    """Squared distances (r, c), by differences: exact zeros where labels are equal."""
    D = np.zeros((len(rows), len(columns)))
    for ours, theirs in zip(rows.T, columns.T, strict=True):
        delta = np.subtract.outer(ours, theirs)
        delta *= delta
        D += delta
    return D


def label_matrix(
    y: Array, label_kernel: str = "auto", covariates: Array | None = None
) -> LabelMatrix:
    """L for the labels y, as the sum of its parts.

    Parameters
    ----------
    y : (m,) or (m, t) array
        Class names or numbers, or real values; (m, m) for ``label_kernel="precomputed"``.
    label_kernel : str
        One of `LABEL_KERNELS`. ``"auto"`` takes eq. 17 for two classes, eq. 18 for more and
        eq. 20 for real values. Strings and booleans are classes; so are whole numbers with at
        most 50 distinct values, each held by two samples or more, or counted from 0 or 1 and held
        by four samples in the mean. With several targets the real
        ones (standardised) share one kernel and every class target has its own; L is their sum.
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


def auto_kernel(column: Array) -> str:
    """Label kernel that ``"auto"`` takes for one target, (m,) without missing values."""
    values = None if column.dtype.kind in "SUT" else _as_real(column)
    if values is None:
        return "balanced" if len(np.unique(column.astype(str))) <= 2 else "multiclass"
    distinct, counts = np.unique(values, return_counts=True)
    if len(distinct) == 2:
        return "balanced"
    return "multiclass" if _are_numbered(distinct, counts) else "gaussian"


def _are_numbered(distinct: Float, counts: Index) -> bool:
    """Whether numbers, ascending, and how many samples have each, look like those of classes.

    They are whole and few, and shared: one that a single sample has is a measurement, unless they
    are counted from 0 or 1, most of them there, as classes are of which one is rare.
    """
    n, least, most = len(distinct), distinct[0], distinct[-1]
    if n > MOST_CLASSES or (distinct != np.floor(distinct)).any():
        return False
    is_counted = least in (0, 1) and most < 2 * n
    return bool(counts.min() >= 2 or (is_counted and counts.sum() >= OF_A_CLASS * n))


def named_classes(y: Array) -> Array:
    """Labels (m,) or (m, t) in which classes that are numbers are text: they stay classes.

    Of some of the samples a class may have one, and would be taken for a measurement.
    """
    if y.dtype.kind not in "iufO":
        return y
    columns = [y] if y.ndim == 1 else list(y.T)
    found = [
        np.array([f"class {value}" for value in column], dtype=object)
        if auto_kernel(column) == "multiclass"
        else column
        for column in columns
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


def _unit(values: Float) -> Float:
    """Targets of mean 0 and norm 1."""
    centred = values - values.mean(axis=0)
    return np.asarray(centred / np.linalg.norm(centred, axis=0))


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

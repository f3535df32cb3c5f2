r"""Parts of the label matrix L: kernels on one or several targets (columns of the labels).

L is the sum of its parts. A part computes its kernel tile by tile, or in low rank, as ``B
diag(weights) B'`` with few directions B. If there are several parts, they are *scaled alike*: each
is divided by the norm of its centred matrix ``R L R``, because this norm determines the variance of
HSIC under independence. ``R = I - Q Q'`` projects out Q (m, q), a basis of the mean and the
covariates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dhsic._typing import Array, Float
from dhsic.errors import InputError
from dhsic.linalg import pivoted_cholesky
from dhsic.linalg.rank_basis import dense_ranks

#: Maximum number of samples of a given matrix that is decomposed, and of directions of a factor.
MOST_DECOMPOSED, MOST_DIRECTIONS = 5000, 2000
#: Eigenvalues below this fraction of the largest eigenvalue are rounding errors.
ROUNDING = 1e-14
#: Fraction of the trace of a Gaussian kernel that may be missing when its norm is computed; and
#: fraction of a norm that counts as 0.
ROUGHLY, NOTHING = 1e-6, 1e-6

#: Directions (m, g) of a part, their weights (g,), and the part of its trace that they miss.
PartFactor = tuple[Float, Float, float]


@dataclass(frozen=True)
class ClassTarget:
    """Target with n classes: ``L_ij = table[class of i, class of j]``, of rank g.

    `codes` (m,) are the class numbers of the samples, and ``table = maps diag(weights) maps'``.
    `maps` (n, g) has a row per class; None means unit vectors.
    """

    codes: Array
    maps: Float | None
    weights: Float
    name: str

    @staticmethod
    def of(codes: Array, kernel: str, p: Float | None = None) -> ClassTarget:
        """Create the class kernel with this name.

        The name is one of JMLR eq. 16 to 19, or one that criteria use. With weights p (m,) of the
        samples, the size of a class is a sum of weights.
        """
        sizes = np.bincount(codes, p).astype(np.float64)  # m_y
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
        """Kernel values between the classes, (n, n)."""
        if self.maps is None:
            return np.diag(self.weights)
        return np.asarray((self.maps * self.weights) @ self.maps.T)

    def tile(self, rows: slice, columns: slice) -> Float:
        return np.asarray(self.table[np.ix_(self.codes[rows], self.codes[columns])])

    def factor(self, tolerance: float, max_rank: int) -> PartFactor:
        """Low-rank form ``B diag(weights) B'`` of the label matrix.

        Each row of B is the row of `maps` for the class of the sample.
        """
        n = len(self.weights)
        if n > MOST_DIRECTIONS:
            raise InputError(
                f"The labels have {n} classes, but low-rank methods support at most "
                f"{MOST_DIRECTIONS}; pass fewer classes. There is no limit for dhsic.hsic with "
                "method='blockwise' or 'exact', and for BAHSIC with solver='exact' and "
                "rerank=False."
            )
        maps = np.eye(n) if self.maps is None else self.maps
        return maps[self.codes], self.weights, 0.0

    def norm(self, Q: Float) -> float:
        """Norm ``||R L R||`` of the label matrix L, computed from sums over the classes.

        R is ``I - Q Q'``, which removes the mean and the covariates (basis Q).
        """
        n = len(self.table)
        along = np.stack([np.bincount(self.codes, column, minlength=n) for column in Q.T])
        inner = np.diag(np.bincount(self.codes, minlength=n)) - along.T @ along
        return _norm_of(inner @ self.table)

    def times(self, scale: float) -> ClassTarget:
        """Return a copy with the label matrix multiplied by `scale`."""
        return replace(self, weights=self.weights * scale)


@dataclass(frozen=True)
class RealTargets:
    """Real targets, `values` (m, t), with one common kernel, Gaussian or linear.

    `sigma` is None for the linear kernel. L is the kernel matrix times `scale`, and `name` is the
    label kernel.
    """

    values: Float
    sigma: float | None
    scale: float = 1.0
    name: str = "linear"

    @property
    def centred(self) -> RealTargets:
        """Return a copy with centred values, which makes the linear kernel more precise.

        Targets are not changed if the differences of their values would be lost.
        """
        values = self.values - self.values.mean(axis=0)
        for t, (before, after) in enumerate(zip(self.values.T, values.T, strict=True)):
            if np.unique(after).size < dense_ranks(before).max() + 1:
                values[:, t] = before
        return replace(self, values=values)

    @property
    def linear(self) -> RealTargets:
        """Return a copy with the linear kernel.

        If the kernel was not linear, targets are scaled to unit norm.
        """
        if self.sigma is None:
            return self
        centred = self.centred.values
        return RealTargets(np.asarray(centred / np.linalg.norm(centred, axis=0)), None)

    def tile(self, rows: slice, columns: slice) -> Float:
        ours, theirs = self.values[rows], self.values[columns]
        if self.sigma is None:
            return np.asarray(self.scale * (ours @ theirs.T))
        return np.asarray(self.scale * np.exp(-self.sigma * label_distances(ours, theirs)))

    def factor(self, tolerance: float, max_rank: int) -> PartFactor:
        """Low-rank form of the label matrix.

        The values are the directions of the linear kernel. The Gaussian kernel is decomposed by
        pivoted Cholesky.
        """
        m, t = self.values.shape
        if self.sigma is None:
            return self.values, np.full(t, self.scale), 0.0
        G, _, missing = pivoted_cholesky(
            lambda p: self.times(1.0 / self.scale).tile(slice(None), slice(p, p + 1))[:, 0],
            np.ones(m),
            rank=min(m, max_rank),
            tolerance=tolerance,
        )
        missed = self.scale * float(missing.sum())
        return np.ascontiguousarray(G.T), np.full(len(G), self.scale), missed

    def norm(self, Q: Float) -> float:
        """Norm ``||R L R||`` of the label matrix L, after R removes the mean and the covariates.

        Q is their orthonormal basis; R is ``I - Q Q'``.
        """
        return _norm_of_factor(self.factor(ROUGHLY, MOST_DIRECTIONS), Q)

    def times(self, scale: float) -> RealTargets:
        """Return a copy with the label matrix multiplied by `scale`."""
        return replace(self, scale=self.scale * scale)


@dataclass(frozen=True)
class MixedTarget:
    """Target of whole numbers that may be classes or measurements: the sum of two kernels.

    The kernel on numbers is scaled to the norm of the kernel on classes.
    """

    classes: ClassTarget
    numbers: RealTargets

    @staticmethod
    def of(
        classes: ClassTarget, numbers: RealTargets, Q: Float, p: Float | None = None
    ) -> MixedTarget:
        """Create the sum; both kernels get the norm of the class kernel without Q.

        Q (m, q) is a basis of the mean and the covariates C. With weights p (m,) of the samples, it
        is a basis of ``sqrt(p) [1, C]``.
        """
        norms = _norm_left(classes, Q, p) / _norm_left(numbers, Q, p)
        return MixedTarget(classes, numbers.times(norms))

    @property
    def name(self) -> str:
        return f"{self.classes.name} + {self.numbers.name}"

    @property
    def centred(self) -> MixedTarget:
        return replace(self, numbers=self.numbers.centred)

    @property
    def linear(self) -> MixedTarget:
        """Return a copy with the linear kernel on the numbers."""
        return MixedTarget.of(
            self.classes, self.numbers.linear, mean_direction(len(self.classes.codes))
        )

    def tile(self, rows: slice, columns: slice) -> Float:
        return np.asarray(self.classes.tile(rows, columns) + self.numbers.tile(rows, columns))

    def factor(self, tolerance: float, max_rank: int) -> PartFactor:
        """Low-rank form of the label matrices of classes and numbers, without dependent directions.

        The directions of the numbers are usually in the span of the directions of the classes,
        unless covariates were regressed out of the numbers.
        """
        B, w, _ = self.classes.factor(tolerance, max_rank)
        F, v, missing = self.numbers.factor(tolerance, max_rank)
        both = np.column_stack([B * np.sqrt(w), F * np.sqrt(v)])
        values, vectors = np.linalg.eigh(both.T @ both)
        significant = values > ROUNDING * values[-1]
        return both @ vectors[:, significant][:, ::-1], np.ones(int(significant.sum())), missing

    def norm(self, Q: Float) -> float:
        """Norm ``||R L R||`` of the label matrix L, after R removes the mean and the covariates.

        Q is their orthonormal basis; R is ``I - Q Q'``.
        """
        return _norm_of_factor(self.factor(ROUGHLY, MOST_DIRECTIONS), Q)

    def times(self, scale: float) -> MixedTarget:
        """Return a copy with the label matrix multiplied by `scale`."""
        return MixedTarget(self.classes.times(scale), self.numbers.times(scale))


@dataclass(frozen=True)
class GivenMatrix:
    """Precomputed label matrix L, given as `matrix` (m, m)."""

    matrix: Float
    name: str = "precomputed"

    def tile(self, rows: slice, columns: slice) -> Float:
        return self.matrix[rows, columns]

    def factor(self, tolerance: float, max_rank: int) -> PartFactor:
        """Low-rank form of the label matrix, from eigenvectors above rounding errors."""
        L, m = self.matrix, len(self.matrix)
        if m > MOST_DECOMPOSED:
            raise InputError(
                f"A precomputed L of {m} samples is too large to decompose (the limit is "
                f"{MOST_DECOMPOSED}); pass the labels and another label_kernel. There is no limit "
                "for dhsic.hsic with method='exact', and for selectors with solver='exact'."
            )
        values, vectors = np.linalg.eigh((L + L.T) / 2)
        sizes = np.abs(values)
        significant = sizes > ROUNDING * max(float(sizes.max()), 1e-300)
        return vectors[:, significant], values[significant], float(sizes[~significant].sum())


#: A part of L that is a kernel on some of the targets.
TargetPart = ClassTarget | RealTargets | MixedTarget
#: A part of L, including a precomputed matrix.
LabelPart = TargetPart | GivenMatrix


def scaled_alike(parts: list[TargetPart], Q: Float, p: Float | None = None) -> list[TargetPart]:
    """Scale label kernels (`parts`) to norm 1 after the basis Q is projected out.

    Q is an orthonormal basis of the mean and the covariates. With weights p (m,) of the samples,
    the weighted norm is 1.
    """
    return [part.times(1.0 / _norm_left(part, Q, p)) for part in parts]


def _norm_left(part: TargetPart, Q: Float, p: Float | None = None) -> float:
    """Norm of the label kernel `part` after the basis Q is projected out.

    Q is an orthonormal basis of the mean and the covariates. If this norm is 0, only the mean is
    projected out.
    """
    if p is None:
        norm, before = part.norm(Q), part.norm(mean_direction(len(Q)))
    else:
        B, w, missing = part.factor(ROUGHLY, MOST_DIRECTIONS)
        factor = np.sqrt(p)[:, None] * B, w, missing
        norm, before = _norm_of_factor(factor, Q), _norm_of_factor(factor, np.sqrt(p)[:, None])
    return norm if norm > NOTHING * before else before


def mean_direction(m: int) -> Float:
    """Direction ``1 / sqrt(m)`` of the mean over m samples, (m, 1)."""
    return np.full((m, 1), m**-0.5)


def label_distances(rows: Float, columns: Float) -> Float:
    """Squared distances (r, c) of labels.

    They are computed from differences, so they are 0 for equal labels.
    """
    D = np.zeros((len(rows), len(columns)))
    for ours, theirs in zip(rows.T, columns.T, strict=True):
        delta = np.subtract.outer(ours, theirs)
        delta *= delta
        D += delta
    return D


def _norm_of(product: Float) -> float:
    """Norm of a symmetric matrix, from a product ``S T`` with the same nonzero eigenvalues."""
    return float(np.sqrt(max(float(np.vdot(product, product.T)), 0.0)))


def _norm_of_factor(factor: PartFactor, Q: Float) -> float:
    """Norm ``||R B diag(w) B' R||`` with ``R = I - Q Q'``, for directions B with weights w."""
    B, w, _ = factor
    B = B - Q @ (Q.T @ B)
    return _norm_of((B.T @ B) * w)

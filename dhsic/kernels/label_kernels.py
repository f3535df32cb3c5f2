r"""Kernels on labels: the matrix L (JMLR 5.2), tile by tile or of low rank.

Classes with ``m_y`` samples each, and real labels (JMLR 5.2.3):

============== ============================================ ===========================
``binary``      ``l(y, y') = y y'``, y in {-1, +1}           JMLR eq. 16
``balanced``    ``y y' / (m_y m_y')``                        JMLR eq. 17
``multiclass``  ``delta(y, y') / m_y``                       JMLR eq. 18
``one-vs-rest`` ``<psi(y), psi(y')>``                        JMLR eq. 19, ICML eq. 9
``linear``      ``<y, y'>``
``gaussian``    ``exp(-s ||y - y'||^2)``, ``s = 1 / (2 w^2)``  JMLR eq. 20
============== ============================================ ===========================

w is the median distance between labels. L is a sum of such parts, each of which states its kernel
without writing it out (`dhsic.kernels.labels` reads them).

As a product, ``L = B diag(weights) B'``, L is never (m, m). Two classes have rank 1 (JMLR eq. 16
and 17), n classes rank n (eq. 18 and 19), the linear kernel on t targets rank t: exact. The
Gaussian kernel on labels (eq. 20) has full rank in theory and a handful of directions in fact,
since values on a line lie close together: incomplete Cholesky decomposition with pivoting (JMLR
2.6.2) finds 20 to 30 at a relative error of 1e-10, in O(m r) memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dhsic._typing import Array, Float
from dhsic.errors import InputError
from dhsic.linalg.pivoted_cholesky import pivoted_cholesky
from dhsic.linalg.symmetric import LowRankSymmetric

#: A given matrix of up to so many samples is decomposed.
MOST_DECOMPOSED = 5000
#: Directions that a factor may have.
MOST_DIRECTIONS = 2000
#: Mean of the diagonal that may be missing.
TOLERANCE = 1e-10
#: Part of its trace that a matrix of low rank may leave out where all of it is wanted: rounding.
COMPLETE = 1e-13
#: Directions up to which products with them are faster than to look up permuted entries.
FEW_DIRECTIONS = 64

#: Directions (m, g) of a part, their weights (g,) and what is missing, in units of its trace.
PartFactor = tuple[Float, Float, float]


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
    """

    codes: Array
    maps: Float | None
    weights: Float
    name: str

    @staticmethod
    def of(codes: Array, kernel: str) -> ClassTarget:
        """Class kernel of a name: eq. 16 to 19, or one of criteria, which judge by classes."""
        sizes = np.bincount(codes).astype(np.float64)  # m_y
        m, signs, one = sizes.sum(), np.array([[-1.0], [1.0]]), np.ones(1)
        if kernel == "binary":  # eq. 16
            return ClassTarget(codes, signs, one, kernel)
        if kernel == "balanced":  # eq. 17
            return ClassTarget(codes, signs / sizes[:, None], one, kernel)
        if kernel == "multiclass":  # eq. 18 with c_y = 1 / m_y
            return ClassTarget(codes, None, 1.0 / sizes, kernel)
        if kernel == "delta":
            return ClassTarget(codes, None, np.ones(len(sizes)), kernel)
        if kernel == "centroids":  # JMLR 6.5
            return ClassTarget(codes, None, sizes**-2.0, kernel)
        psi = np.diag(m / (sizes * (m - sizes))) - 1.0 / (m - sizes)  # eq. 19; row y is psi(y)
        return ClassTarget(codes, psi, np.ones(len(sizes)), kernel)

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
        """The kernel."""
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

        def row(p: int) -> Float:
            return self.tile(slice(None), slice(p, p + 1))[:, 0]

        rank = min(m, max_rank)
        G, _, missing = pivoted_cholesky(row, np.ones(m), rank=rank, tolerance=tolerance)
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
    """The label matrix L as the sum of its parts.

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
    def centred(self) -> LabelMatrix:
        """With real targets of mean 0: the same to HSIC, and to what else centres L.

        The linear kernel would lose digits to the mean.
        """
        parts = (
            replace(part, values=part.values - part.values.mean(axis=0))
            if isinstance(part, RealTargets)
            else part
            for part in self.parts
        )
        return replace(self, parts=tuple(parts))

    @property
    def L(self) -> Float:
        """L written out, (m, m), not to be written to."""
        return self.tile(slice(0, self.n_samples), slice(0, self.n_samples))

    def tile(self, rows: slice, columns: slice) -> Float:
        """Part of L, not to be written to."""
        L = self.parts[0].tile(rows, columns)
        for part in self.parts[1:]:
            L = L + part.tile(rows, columns)
        return L

    def factor(
        self, *, tolerance: float = TOLERANCE, max_rank: int = MOST_DIRECTIONS
    ) -> LowRankSymmetric:
        """L of low rank.

        Parameters
        ----------
        tolerance : float
            Part of the trace of a Gaussian L that may be missing.
        max_rank : int
            Most directions of a Gaussian L; where they do not reach the tolerance, `error` says so.

        Returns
        -------
        LowRankSymmetric
            Weights are negative only where a given L is indefinite. The error is the part of the
            trace that is missing, of a given L of the sum of its eigenvalues' sizes; no entry of a
            Gaussian L is off by more than m times as much.

        Raises
        ------
        InputError
            A given L of more than 5,000 samples; more than 2,000 classes.
        """
        found = [part.factor(tolerance, max_rank) for part in self.parts]
        missing = sum(left for _, _, left in found)
        size = sum(float(np.einsum("ij,ij,j->", B, B, np.abs(w))) for B, w, _ in found)
        error = missing / (missing + size) if missing + size else 0.0
        B = np.column_stack([B for B, _, _ in found])
        return LowRankSymmetric.of(B, np.concatenate([w for _, w, _ in found]), error)

    def low_rank(self) -> LowRankSymmetric | None:
        """L but for rounding where it has up to 64 directions; else None.

        Classes and real values may have few. A given L is not searched: that takes long.
        """
        for part in self.parts:
            few = isinstance(part, ClassTarget) and len(part.weights) <= FEW_DIRECTIONS
            if not (few or isinstance(part, RealTargets)):
                return None
        L = self.factor(tolerance=COMPLETE, max_rank=FEW_DIRECTIONS)
        return None if L.error > COMPLETE or L.rank > FEW_DIRECTIONS else L


def label_distances(rows: Float, columns: Float) -> Float:
    """Squared distances (r, c), by differences: exact zeros where labels are equal."""
    D = np.zeros((len(rows), len(columns)))
    for ours, theirs in zip(rows.T, columns.T, strict=True):
        delta = np.subtract.outer(ours, theirs)
        delta *= delta
        D += delta
    return D

r"""Symmetric (m, m) matrices: kernels K and L, weights W, and their products ``A = W o K``.

Two representations share an interface. It provides the diagonal, row sums, quadratic forms, inner
products under permutations, projections, and the powers for moments of permutations
(`dhsic.criteria.null`):

- `DenseSymmetric` stores all entries, for labels with many classes or data with many features.
- `LowRankSymmetric` stores directions, ``F diag(w) F'``, and a separate diagonal. None of its
  operations forms an (m, m) matrix.

The diagonal is separate for two reasons. The diagonals of kernels are known exactly, even if all
other entries are approximations. And the diagonal is 0 for the unbiased estimator. With
``B = F diag(w) F'`` the matrix is ``A = B + Diag(diagonal - own)``, where ``own`` is the diagonal
of B.

`LowRankSymmetric.hadamard` computes the elementwise product ``A = W o K``. Off the diagonal, let
``W = U M U'`` and ``K = F diag(w) F'``. Then ``A = Z Theta Z'`` off the diagonal, where row i of Z
is the Kronecker product of rows i of U and F, and ``Theta = M kron diag(w)``. The n = q r columns
of Z are nearly dependent, so they are compressed. With ``Z = Q R`` and ``R Theta R' = V T V'``,
only the few large T are kept. The directions

    ``Q V = Z (Theta R' V T^{-1})``

need neither Q nor an inverse of R, which may be singular. Z is therefore computed twice in strips
of samples, once for R and once for the result, and is never in memory as a whole.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dhsic._typing import Float, Index
from dhsic.errors import InputError
from dhsic.linalg.quadratic import LowRankQuadratic

#: Number of rows of a dense matrix that are indexed at a time, so that they stay in the cache, and
#: that are multiplied at a time; and of rows of a product of directions computed at a time.
GATHERED, MULTIPLIED, WRITTEN = 64, 256, 64
#: Maximum entries of Z in memory at a time (16 MiB). A strip has at least `LEAST_ROWS` n rows,
#: because each strip decomposes the triangle R again.
STRIP_ENTRIES = 1 << 21
LEAST_ROWS = 2
#: Eigenvalues are rounding errors below this fraction of the largest eigenvalue times their number.
ROUNDING = float(np.finfo(np.float64).eps)


class Symmetric(ABC):
    """Symmetric (m, m) matrix A in float64."""

    #: Diagonal of A, (m,).
    diagonal: Float

    @property
    def n_samples(self) -> int:
        """Number of samples m."""
        return len(self.diagonal)

    @property
    @abstractmethod
    def row_sums(self) -> Float:
        """Row sums of this matrix, (m,)."""

    @property
    @abstractmethod
    def norm(self) -> float:
        """Frobenius norm of this matrix."""

    @abstractmethod
    def cubic_sums(self) -> tuple[float, float, float]:
        """Compute ``sum_ij A_ij^3``, ``sum_ij A_ii A_ij^2`` and ``tr A^3`` of this matrix A."""

    @abstractmethod
    def quadratic(self, Z: Float) -> Float:
        """Compute ``z' A z`` with this matrix A for each column z of Z (m, n): (n,)."""

    @abstractmethod
    def to_dense(self) -> Float:
        """Return all entries of the matrix, (m, m); do not write to the array."""

    @abstractmethod
    def changed(self, scale: float, diagonal: Float, less: float = 0.0) -> Symmetric:
        """Return `scale` times this matrix with a new `diagonal` (m,), minus `less` times H.

        H is the centring matrix ``I - 1 1' / m``.
        """

    @abstractmethod
    def projected(self, Q: Float) -> Symmetric:
        """Return ``R A R`` of this matrix A with ``R = I - Q Q'``.

        Q (m, p) has orthonormal columns.
        """

    @abstractmethod
    def of_samples(self, rows: Index) -> Symmetric:
        """Return the submatrix (n, n) of the samples `rows` (n,)."""

    @abstractmethod
    def inner(self, permutations: Index, others: Sequence[Symmetric]) -> Float:
        """Compute inner products of permutations of this matrix with other matrices: (others, n).

        They are ``<C[p, p], A>``, where C is this matrix, p is a row of `permutations` (n, m), and
        A is one of the other matrices.
        """

    @property
    @abstractmethod
    def bytes_permuted(self) -> int:
        """Number of bytes that `inner` needs per permutation."""


class DenseSymmetric(Symmetric):
    """Symmetric matrix that stores all entries, `matrix` (m, m) float64."""

    def __init__(self, matrix: Float) -> None:
        self.matrix = matrix
        self.diagonal = np.asarray(np.diagonal(matrix))

    @property
    def row_sums(self) -> Float:
        return np.asarray(self.matrix.sum(axis=1))

    @property
    def norm(self) -> float:
        return float(np.linalg.norm(self.matrix))

    def tile(self, rows: slice, columns: slice) -> Float:
        """Return a part of the matrix; do not write to the array."""
        return self.matrix[rows, columns]

    def times(self, x: Float) -> Float:
        """Multiply this matrix A by a vector: ``A x``, (m,)."""
        return np.asarray(self.matrix @ x)

    def cubic_sums(self) -> tuple[float, float, float]:
        """Compute the cubic sums; ``tr A^3 = <A^2, A>`` from the lower triangle takes O(m^3)."""
        A, trace = self.matrix, 0.0
        for a in range(0, len(A), MULTIPLIED):
            b = min(a + MULTIPLIED, len(A))
            product = A[a:b] @ A[:, :b]
            trace += 2.0 * float(np.einsum("ij,ij->", product[:, :a], A[a:b, :a]))
            trace += float(np.einsum("ij,ij->", product[:, a:], A[a:b, a:b]))
        squares = float(self.diagonal @ np.einsum("ij,ij->i", A, A))
        return float(np.einsum("ij,ij,ij->", A, A, A)), squares, trace

    def quadratic(self, Z: Float) -> Float:
        return np.asarray(np.einsum("ij,ij->j", Z, self.matrix @ Z))

    def to_dense(self) -> Float:
        return self.matrix

    def changed(self, scale: float, diagonal: Float, less: float = 0.0) -> DenseSymmetric:
        A = self.matrix * scale
        np.fill_diagonal(A, diagonal)
        if less:
            A += less / len(A)
            A[np.diag_indices_from(A)] -= less
        return DenseSymmetric(A)

    def projected(self, Q: Float) -> DenseSymmetric:
        A = self.matrix - Q @ (Q.T @ self.matrix)
        A -= (A @ Q) @ Q.T
        return DenseSymmetric((A + A.T) / 2)

    def of_samples(self, rows: Index) -> DenseSymmetric:
        return DenseSymmetric(self.matrix[np.ix_(rows, rows)])

    def inner(self, permutations: Index, others: Sequence[Symmetric]) -> Float:
        """Compute inner products of permutations of this matrix with others, by triangles."""
        matrices = [A.to_dense() for A in others]
        values = np.zeros((len(others), len(permutations)))
        for k, p in enumerate(permutations):
            for a in range(0, len(p), GATHERED):
                b = min(a + GATHERED, len(p))
                C = np.take(self.matrix[p[a:b]], p[:b], axis=1)
                for i, A in enumerate(matrices):
                    below = np.einsum("ij,ij->", C[:, :a], A[a:b, :a])
                    values[i, k] += 2.0 * below + np.einsum("ij,ij->", C[:, a:], A[a:b, a:b])
        return values

    @property
    def bytes_permuted(self) -> int:
        """Number of bytes for one permutation: `inner` processes one at a time."""
        return 8 * len(self.matrix)


@dataclass(frozen=True, eq=False)
class LowRankSymmetric(Symmetric):
    """Low-rank matrix: ``F diag(weights) F'`` off the diagonal, and an exact diagonal, (m,).

    F (m, r) has one row per sample; r may be 0. Its rows are contiguous, except that `hadamard`
    returns contiguous columns. `weights` are (r,), or, for the unbiased estimator, a symmetric
    (r, r) matrix; the result then only supports sums and products. `error` is the relative error of
    the low-rank form as measured when it was created, infinite if unknown.
    """

    F: Float
    weights: Float
    diagonal: Float
    error: float = 0.0
    #: Whether the columns of F are orthogonal and have mean square 1.
    is_orthogonal: bool = False
    #: Row sums ``A 1``, (m,), if they are known more precisely than from the directions.
    sums: Float | None = None

    @staticmethod
    def of(F: Float, weights: Float, error: float = 0.0) -> LowRankSymmetric:
        """Create ``F diag(weights) F'`` with the diagonal of this product."""
        return LowRankSymmetric(F, weights, diagonal_of_product(F, weights), error)

    @property
    def rank(self) -> int:
        """Number of columns r of the low-rank factor F."""
        return int(self.F.shape[1])

    @cached_property
    def own(self) -> Float:
        """Diagonal of the low-rank product ``F diag(weights) F'``, (m,)."""
        return diagonal_of_product(self.F, self.weights)

    @property
    def diagonal_residual(self) -> Float:
        """Exact diagonal minus the diagonal of the product ``F diag(weights) F'``, (m,)."""
        return self.diagonal - self.own

    @property
    def core(self) -> Float:
        """Weights as a matrix (r, r), which is diagonal if `weights` are (r,)."""
        return self.weights if self.weights.ndim == 2 else np.diag(self.weights)

    @cached_property
    def row_sums(self) -> Float:
        return self.across + self.diagonal if self.sums is None else self.sums

    @property
    def across(self) -> Float:
        """Row sums of this matrix without its diagonal, computed from the directions, (m,)."""
        return np.asarray((self.weights * self.F.sum(axis=0)) @ self.F.T - self.own)

    @cached_property
    def norm(self) -> float:
        if self.is_orthogonal:
            square = float(self.weights @ self.weights) * self.n_samples**2
        else:
            MS = self.core @ (self.F.T @ self.F)
            square = float(np.vdot(MS.T, MS))
        off = max(square - float(self.own @ self.own), 0.0)
        return float(np.sqrt(off + float(self.diagonal @ self.diagonal)))

    def rows(self, which: Index) -> Float:
        """Compute the rows of A, with the exact diagonal, for samples `which` (n,): (n, m)."""
        A = _weighted(self.F[which], self.weights) @ self.F.T
        A[np.arange(len(which)), which] = self.diagonal[which]
        return np.asarray(A)

    def times(self, x: Float) -> Float:
        """Multiply this matrix A by a vector: ``A x``, (m,)."""
        return self.F @ (self.core @ (self.F.T @ x)) + self.diagonal_residual * x

    def cubic_sums(self) -> tuple[float, float, float]:
        """Compute the cubic sums from ``A = B + D``, with ``B = F diag(w) F'`` and D diagonal.

        This takes O(m r^2). The cubes of entries take O(m r^3) in addition, by inner products of
        three directions, or O(m^2 r), by single entries.
        """
        F, w, own, D = self.F, self.weights, self.own, self.diagonal_residual
        between = (F.T @ F) * w
        squares = np.einsum("ia,ia->i", F @ (w[:, None] * between), F)  # diagonal of B^2
        trace = float(np.vdot((between @ between).T, between))
        trace += float(D @ (3.0 * squares + D * (3.0 * own + D)))
        cubes = 0.0
        if self.rank**2 < len(F):
            for weight, f in zip(w, F.T, strict=True):
                cubes += weight * float(w @ np.square((F * f[:, None]).T @ F) @ w)
        else:
            for a in range(0, len(F), WRITTEN):
                rows = (F[a : a + WRITTEN] * w) @ F.T
                cubes += float(np.vdot(np.square(rows), rows))
        cubes += float((self.diagonal**3 - own**3).sum())
        return cubes, float(self.diagonal @ (squares + D * (2.0 * own + D))), trace

    def quadratic(self, Z: Float) -> Float:
        products = self.F.T @ Z
        products *= products
        values = self.weights @ products
        diagonal_rest = self.diagonal_residual
        return np.asarray(values + diagonal_rest @ np.square(Z) if diagonal_rest.any() else values)

    def to_dense(self) -> Float:
        return self.rows(np.arange(self.n_samples))

    def changed(self, scale: float, diagonal: Float, less: float = 0.0) -> LowRankSymmetric:
        """Return ``scale A`` with a new `diagonal` (m,), minus `less` times ``I - 1 1' / m``.

        If `less` is not 0, the result has an additional direction, a vector of ones.
        """
        F, weights, m = self.F, scale * self.weights, self.n_samples
        if less:
            F, weights = np.column_stack([F, np.ones(m)]), np.append(weights, less / m)
            diagonal = diagonal + (less / m - less)
        return LowRankSymmetric(F, weights, diagonal)

    def projected(self, Q: Float) -> LowRankSymmetric:
        """Return ``R A R`` with ``R = I - Q Q'``, for Q (m, p) with orthonormal columns.

        Let D be `diagonal_residual`. Then ``R D R = D + [Q, D Q] N [Q, D Q]'``, so the result has
        2 p additional directions, computed from the eigenvectors of N (2 p, 2 p).
        """
        q, extra = Q.shape[1], self.diagonal_residual
        F, weights = self.F - Q @ (Q.T @ self.F), self.weights
        if not extra.any():
            return LowRankSymmetric.of(F, weights)
        DQ = extra[:, None] * Q
        N = np.block([[Q.T @ DQ, -np.eye(q)], [-np.eye(q), np.zeros((q, q))]])
        values, vectors = np.linalg.eigh((N + N.T) / 2)
        F = np.column_stack([F, np.column_stack([Q, DQ]) @ vectors])
        weights = np.concatenate([weights, values])
        return LowRankSymmetric(F, weights, diagonal_of_product(F, weights) + extra)

    def of_samples(self, rows: Index) -> LowRankSymmetric:
        return LowRankSymmetric(self.F[rows], self.weights, self.diagonal[rows], self.error)

    def leading(self, part: float) -> LowRankSymmetric:
        """Approximate the matrix by the minimum number of orthogonal directions.

        The omitted part of the trace is at most `part` times the norm. The result is the matrix
        itself if any weight is negative, if weights are a matrix, or if the exact diagonal differs
        from the diagonal of the product.
        """
        if self.weights.ndim != 1 or (self.weights < 0).any() or self.diagonal_residual.any():
            return self
        B = self.F * np.sqrt(self.weights)
        values, vectors = np.linalg.eigh(B.T @ B)
        missing = np.cumsum(np.maximum(values, 0.0))  # values are ascending
        selected = vectors[:, missing > part * float(np.linalg.norm(values))][:, ::-1]
        if selected.shape[1] == self.rank:
            return self
        return LowRankSymmetric.of(B @ selected, np.ones(selected.shape[1]), self.error)

    def inner(self, permutations: Index, others: Sequence[Symmetric]) -> Float:
        """Compute inner products of permutations of this matrix with others, by quadratic forms."""
        n, m = permutations.shape
        Z = self.F[permutations.T].reshape(m, -1)  # columns are ordered by permutation
        values = [A.quadratic(Z).reshape(n, -1) @ self.weights for A in others]
        extra = self.diagonal_residual
        if extra.any():
            permuted = extra[permutations]
            values = [v + permuted @ A.diagonal for v, A in zip(values, others, strict=True)]
        return np.array(values)

    @property
    def bytes_permuted(self) -> int:
        """Number of bytes of the permuted directions, for one permutation."""
        return self.F.nbytes

    def hadamard_sums(self, K: LowRankSymmetric) -> Float:
        """Row sums of the elementwise product of this matrix and K, (m,), as in JMLR 2.6.3."""
        weighted = K.F * K.weights
        between = self.core @ (self.F.T @ weighted)  # (q, r)
        sums = np.einsum("ij,ij->i", self.F @ between, K.F)
        own = np.einsum("ij,ij->i", weighted, K.F)
        return np.asarray(sums - self.own * own + self.diagonal * K.diagonal)

    def hadamard(
        self, K: LowRankSymmetric, *, rank: int | None = None, tolerance: float = 0.0
    ) -> LowRankSymmetric:
        """Compute the elementwise product ``W o K`` in orthogonal directions; W is this matrix.

        Directions are in descending order of their weights. Their number is the minimum that loses
        at most a fraction `tolerance` of ``||Z Theta Z'||_F``, but at most `rank`. The `error` of
        the result is the lost fraction. The computation takes O(m (q r)^2).
        """
        m = self.n_samples
        if len(K.F) != m or K.n_samples != m:
            raise InputError(
                f"W has {m} samples, the factor {len(K.F)} and the diagonal "
                f"{K.n_samples}; pass all three of the same samples."
            )
        Theta = np.kron(self.core, np.diag(K.weights))  # (n, n)
        R = np.zeros((0, len(Theta)))  # triangle R of Z = Q R, (n, n) or fewer rows
        if len(Theta):
            for _, Z in _strips(self.F, K.F):
                R = np.asarray(np.linalg.qr(np.concatenate([R, Z]), mode="r"))
        T, V, missing = _compress(R @ Theta @ R.T, rank, tolerance)
        mix = (Theta @ (R.T @ V)) * (np.sqrt(m) / T)  # (n, kept)
        Y = np.empty((len(T), m))
        for samples, Z in _strips(self.F, K.F):
            np.matmul(mix.T, Z.T, out=Y[:, samples])
        return LowRankSymmetric(Y.T, T / m, self.diagonal * K.diagonal, missing, is_orthogonal=True)

    def form(self, scale: float, dtype: Any) -> LowRankQuadratic:
        """Create the quadratic forms of this matrix, divided by `scale`, in a dtype."""
        Y = np.ascontiguousarray(self.F.T, dtype=dtype)
        theta = self.weights / scale
        # Rounding directions to the dtype changes the diagonal of their product, so it is
        # computed from the rounded directions.
        correction = self.diagonal / scale - diagonal_of_product(Y.T, theta)
        return LowRankQuadratic(Y, theta, correction.astype(dtype))


def diagonal_of_product(F: Float, weights: Float) -> Float:
    """Compute the diagonal of ``F diag(weights) F'``, (m,) float64.

    F is (m, r), and `weights` are (r,) or (r, r). Contiguous columns of F are summed one by one.
    """
    if F.flags.f_contiguous and weights.ndim == 1:
        own = np.zeros(len(F))
        for f, weight in zip(F.T, weights, strict=True):
            own += weight * np.square(f, dtype=np.float64)
        return own
    return np.asarray(np.einsum("ij,ij->i", _weighted(F, weights), F))


def _weighted(F: Float, weights: Float) -> Float:
    return F * weights if weights.ndim == 1 else F @ weights


def products_of(U: Float, F: Float) -> Float:
    """Compute the Kronecker products of the rows of U (s, q) and F (s, r): Z (s, q r)."""
    return (U[:, :, None] * F[:, None, :]).reshape(len(U), U.shape[1] * F.shape[1])


def compression(
    gram: Float, Theta: Float, rank: int | None, tolerance: float
) -> tuple[Float, Float, float]:
    """Compress ``Z Theta Z'`` to ``P diag(T) P'`` with ``P = Z mix``, from the Gram matrix ``Z'Z``.

    Z is (m, n), and Theta is (n, n). Returns `mix` (n, k) and T (k,) for k directions, and the lost
    fraction of the norm. Columns of Z are scaled to equal norm. Directions smaller than the square
    root of the rounding error are lost, a fraction of about 1e-8 of A. P is orthonormal to the
    precision of A, because its directions are large in ``Z Theta Z'``, too.
    """
    sizes = np.sqrt(np.diagonal(gram))
    sizes[sizes == 0] = 1.0
    values, V = np.linalg.eigh(gram / np.multiply.outer(sizes, sizes))
    positive = values > ROUNDING * len(values) * values.max(initial=0.0)
    R = np.sqrt(values[positive])[:, None] * (V[:, positive].T * sizes)  # Z'Z = R'R
    T, rotation, missing = _compress(R @ Theta @ R.T, rank, tolerance)
    return (Theta @ (R.T @ rotation)) / T, T, missing


def _strips(U: Float, F: Float) -> Iterator[tuple[slice, Float]]:
    """Yield slices of s samples with their rows of the result of `products_of`, (s, q r).

    A slice is a range of samples.
    """
    m, n = len(U), U.shape[1] * F.shape[1]
    rows = max(STRIP_ENTRIES // max(n, 1), LEAST_ROWS * n)
    for a in range(0, m, rows):
        samples = slice(a, min(a + rows, m))
        Z = U[samples, :, None] * F[samples, None, :]
        yield samples, Z.reshape(len(Z), n)


def _compress(core: Float, rank: int | None, tolerance: float) -> tuple[Float, Float, float]:
    """Compute leading eigenvalues and eigenvectors of `core` (n, n).

    Returns the eigenvalues, the eigenvectors, and the lost fraction of the norm.
    """
    values, V = np.linalg.eigh((core + core.T) / 2)
    order = np.argsort(-np.abs(values), kind="stable")
    values, V = values[order], V[:, order]
    # squared loss if the first 0, 1, ... eigenvalues are kept
    lost = np.append(np.cumsum(np.square(values)[::-1])[::-1], 0.0)
    total = lost[0]
    n_kept = int(np.argmax(lost <= tolerance**2 * total))
    sizes = np.abs(values)
    n_kept = min(n_kept, int((sizes > ROUNDING * len(values) * sizes.max(initial=0.0)).sum()))
    if rank is not None:
        n_kept = min(n_kept, rank)
    missing = float(np.sqrt(lost[n_kept] / total)) if total > 0 else 0.0
    return values[:n_kept], V[:, :n_kept], missing

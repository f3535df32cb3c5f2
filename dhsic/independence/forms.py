"""A symmetric matrix in a form that permutations of it are cheap in: what `thin` and `full` share.

Besides sums, products and projections a form knows the powers that moments of permutations are
made of (`dhsic.independence.moments`).

A matrix with all of its entries: labels of many classes, data of many features.

A matrix of few directions and a diagonal: nothing it does takes an (m, m) matrix.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dhsic._typing import Float, Index


class AbstractForm(ABC):
    """A symmetric (m, m) matrix A."""

    @property
    @abstractmethod
    def diagonal(self) -> Float:
        """Diagonal, (m,)."""

    @property
    @abstractmethod
    def bytes_permuted(self) -> int:
        """Memory that a permutation of it takes while it is compared."""

    @property
    def square(self) -> float:
        """``||A||_F^2``."""
        return float(self.row_squares().sum())

    @abstractmethod
    def sums(self) -> Float:
        """``A 1``, (m,)."""

    @abstractmethod
    def row_squares(self) -> Float:
        """Diagonal of ``A^2``, (m,)."""

    @abstractmethod
    def cubes(self) -> float:
        """``sum_ij A_ij^3``."""

    @abstractmethod
    def cubed_trace(self) -> float:
        """``tr A^3``."""

    @abstractmethod
    def quadratic(self, Z: Float) -> Float:
        """``z' A z`` for the columns of Z (m, n): (n,)."""

    @abstractmethod
    def whole(self) -> Float:
        """The matrix itself, (m, m), not to be written to."""

    @abstractmethod
    def changed(self, scale: float, diagonal: Float) -> AbstractForm:
        """Multiplied by `scale`, `diagonal` (m,) in place of its own."""

    @abstractmethod
    def projected(self, Q: Float) -> AbstractForm:
        """``R A R`` with ``R = I - Q Q'``."""

    @abstractmethod
    def less(self, c: float) -> AbstractForm:
        """``A - c H`` with ``H = I - 1 1' / m``."""

    @abstractmethod
    def inner(self, permutations: Index, others: Sequence[AbstractForm]) -> Float:
        """``<C[p, p], A>`` for others A and rows p of `permutations` (n, m): (others, n)."""


#: Rows that are looked up at a time: they stay in the cache.
GATHERED = 64
#: Rows that are multiplied at a time.
MULTIPLIED = 256


@dataclass(frozen=True, eq=False)
class Full(AbstractForm):
    """All of it, `matrix` (m, m) float64."""

    matrix: Float

    @property
    def diagonal(self) -> Float:
        return np.asarray(np.diagonal(self.matrix))

    @property
    def bytes_permuted(self) -> int:
        """The permutation: entries are looked up, a permutation at a time."""
        return 8 * len(self.matrix)

    def sums(self) -> Float:
        return np.asarray(self.matrix.sum(axis=1))

    def row_squares(self) -> Float:
        """Sums of squares."""
        return np.asarray(np.einsum("ij,ij->i", self.matrix, self.matrix))

    def cubes(self) -> float:
        """Entry by entry."""
        return float(np.einsum("ij,ij,ij->", self.matrix, self.matrix, self.matrix))

    def cubed_trace(self) -> float:
        """``<A^2, A>``, of both the lower triangle: O(m^3), half a product of matrices."""
        A, total = self.matrix, 0.0
        for a in range(0, len(A), MULTIPLIED):
            b = min(a + MULTIPLIED, len(A))
            product = A[a:b] @ A[:, :b]
            total += 2.0 * float(np.einsum("ij,ij->", product[:, :a], A[a:b, :a]))
            total += float(np.einsum("ij,ij->", product[:, a:], A[a:b, a:b]))
        return total

    def quadratic(self, Z: Float) -> Float:
        """One product, (m, m) by (m, n)."""
        return np.asarray(np.einsum("ij,ij->j", Z, self.matrix @ Z))

    def whole(self) -> Float:
        """As it is."""
        return self.matrix

    def changed(self, scale: float, diagonal: Float) -> Full:
        """A new matrix."""
        A = self.matrix * scale
        np.fill_diagonal(A, diagonal)
        return Full(A)

    def projected(self, Q: Float) -> Full:
        """From the left, then from the right."""
        A = self.matrix - Q @ (Q.T @ self.matrix)
        A -= (A @ Q) @ Q.T
        return Full((A + A.T) / 2)

    def less(self, c: float) -> Full:
        """A new matrix."""
        A = self.matrix + c / len(self.matrix)
        A[np.diag_indices_from(A)] -= c
        return Full(A)

    def inner(self, permutations: Index, others: Sequence[AbstractForm]) -> Float:
        """Rows of C as they are, their entries looked up in the lower triangle."""
        matrices = [A.whole() for A in others]
        values = np.zeros((len(others), len(permutations)))
        for k, p in enumerate(permutations):
            for a in range(0, len(p), GATHERED):
                b = min(a + GATHERED, len(p))
                C = np.take(self.matrix[p[a:b]], p[:b], axis=1)
                for i, A in enumerate(matrices):
                    left = np.einsum("ij,ij->", C[:, :a], A[a:b, :a])
                    values[i, k] += 2.0 * left + np.einsum("ij,ij->", C[:, a:], A[a:b, a:b])
        return values


#: Rows that are written out at a time.
ROWS = 64


@dataclass(frozen=True, eq=False)
class Thin(AbstractForm):
    """``F diag(weights) F' + Diag(rest)``.

    Attributes
    ----------
    F : (m, r) float64
        Directions.
    weights : (r,) float64
        Their weights.
    rest : (m,) float64
        What the diagonal has besides.
    """

    F: Float
    weights: Float
    rest: Float

    @cached_property
    def _own(self) -> Float:
        """Diagonal of ``B = F diag(weights) F'``."""
        return np.asarray(np.square(self.F) @ self.weights)

    @cached_property
    def _between(self) -> Float:
        """``F' F diag(weights)``, (r, r)."""
        return np.asarray((self.F.T @ self.F) * self.weights)

    @cached_property
    def _own_squares(self) -> Float:
        """Diagonal of ``B^2``."""
        M = self.weights[:, None] * self._between
        return np.asarray(np.einsum("ia,ia->i", self.F @ M, self.F))

    @property
    def diagonal(self) -> Float:
        return self._own + self.rest

    @property
    def bytes_permuted(self) -> int:
        """All directions."""
        return self.F.nbytes

    def sums(self) -> Float:
        return np.asarray(self.F @ (self.weights * self.F.sum(axis=0)) + self.rest)

    def row_squares(self) -> Float:
        """O(m r^2)."""
        return self._own_squares + self.rest * (2.0 * self._own + self.rest)

    def cubes(self) -> float:
        """From inner products of three directions, O(m r^3), or entry by entry, O(m^2 r)."""
        m, r = self.F.shape
        own = self._cubes_of_triples() if r * r < m else self._cubes_of_entries()
        return own + float((self.diagonal**3 - self._own**3).sum())

    def _cubes_of_triples(self) -> float:
        total = 0.0
        for weight, f in zip(self.weights, self.F.T, strict=True):
            triples = (self.F * f[:, None]).T @ self.F
            total += weight * float(self.weights @ np.square(triples) @ self.weights)
        return total

    def _cubes_of_entries(self) -> float:
        total = 0.0
        for a in range(0, len(self.F), ROWS):
            rows = (self.F[a : a + ROWS] * self.weights) @ self.F.T
            total += float(np.vdot(np.square(rows), rows))
        return total

    def cubed_trace(self) -> float:
        """``(B + D)^3`` expanded, D the diagonal besides: O(m r^2)."""
        M, D = self._between, self.rest
        own = float(np.vdot((M @ M).T, M))
        return own + float(D @ (3.0 * self._own_squares + D * (3.0 * self._own + D)))

    def quadratic(self, Z: Float) -> Float:
        """O(m r) a column."""
        products = self.F.T @ Z
        products *= products
        values = self.weights @ products
        if self.rest.any():
            values += self.rest @ np.square(Z)
        return np.asarray(values)

    def whole(self) -> Float:
        """Written out."""
        A = (self.F * self.weights) @ self.F.T
        A[np.diag_indices_from(A)] += self.rest
        return np.asarray(A)

    def changed(self, scale: float, diagonal: Float) -> Thin:
        """The same directions."""
        return Thin(self.F, scale * self.weights, diagonal - scale * self._own)

    def projected(self, Q: Float) -> Thin:
        """``R D R = D + [Q, D Q] N [Q, D Q]'`` for a diagonal D; N is diagonalised."""
        q = Q.shape[1]
        F = self.F - Q @ (Q.T @ self.F)
        if not self.rest.any():
            return Thin(F, self.weights, self.rest)
        DQ = self.rest[:, None] * Q
        N = np.block([[Q.T @ DQ, -np.eye(q)], [-np.eye(q), np.zeros((q, q))]])
        values, vectors = np.linalg.eigh((N + N.T) / 2)
        more = np.column_stack([Q, DQ]) @ vectors
        return Thin(np.column_stack([F, more]), np.concatenate([self.weights, values]), self.rest)

    def less(self, c: float) -> Thin:
        """One direction more."""
        m = len(self.F)
        F = np.column_stack([self.F, np.ones(m)])
        return Thin(F, np.append(self.weights, c / m), self.rest - c)

    def inner(self, permutations: Index, others: Sequence[AbstractForm]) -> Float:
        """Quadratic forms of the permuted directions, all of them at once."""
        n, m = permutations.shape
        Z = self.F[permutations.T].reshape(m, -1)  # permutation by permutation
        values = [A.quadratic(Z).reshape(n, -1) @ self.weights for A in others]
        if self.rest.any():
            values = [
                v + self.rest[permutations] @ A.diagonal
                for v, A in zip(values, others, strict=True)
            ]
        return np.array(values)

"""A matrix with all of its entries: labels of many classes, data of many features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dhsic._typing import Float, Index
from dhsic.independence.forms import AbstractForm

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
        """Diagonal, (m,)."""
        return np.asarray(np.diagonal(self.matrix))

    @property
    def bytes_permuted(self) -> int:
        """The permutation: entries are looked up, a permutation at a time."""
        return 8 * len(self.matrix)

    def sums(self) -> Float:
        """``A 1``, (m,)."""
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

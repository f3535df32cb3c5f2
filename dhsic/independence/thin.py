"""A matrix of few directions and a diagonal: nothing it does takes an (m, m) matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dhsic._typing import Float, Index
from dhsic.independence.forms import AbstractForm

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
        """Diagonal, (m,)."""
        return self._own + self.rest

    @property
    def bytes_permuted(self) -> int:
        """All directions."""
        return self.F.nbytes

    def sums(self) -> Float:
        """``A 1``, (m,)."""
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

"""A symmetric matrix in a form that permutations of it are cheap in: what `thin` and `full` share.

Besides sums, products and projections a form knows the powers that moments of permutations are
made of (`dhsic.independence.moments`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

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

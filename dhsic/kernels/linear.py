"""The linear kernel ``k(x, x') = <x, x'>`` (JMLR 5.1.1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dhsic._typing import Array, Float
from dhsic.kernels.base import AbstractKernel, Expansion, Term
from dhsic.namespace import namespace_of, zeros


def _functions(X: Array) -> Iterator[Array]:
    yield X


def _magnitudes(peak: Float, fourth: Float) -> list[Float]:
    del peak
    return [np.sqrt(fourth)]


@dataclass(frozen=True)
class Linear(AbstractKernel):
    """``K = G``: scores add over features, one pass ranks them all."""

    name: ClassVar[str] = "linear"
    is_additive: ClassVar[bool] = True

    @property
    def exact_order(self) -> int | None:
        """One term is exact."""
        return 1

    def gram(self, inner: Float, rows: Float, columns: Float, sigma: float) -> Float:
        """``K = G``."""
        del rows, columns, sigma
        K: Float = namespace_of(inner).asarray(inner, copy=True)
        return K

    def loss(
        self, inner: Float, rows: Float, columns: Float, x: Float, y: Float, sigma: float
    ) -> Float:
        """``-x y'``."""
        del inner, rows, columns, sigma
        return -(x[:, None] * y[None, :])

    def base(self, key: int, inner: Float, rows: Float, columns: Float, sigma: float) -> Float:
        """All ones: A is W itself."""
        del key, inner, sigma
        return zeros((rows.shape[0], columns.shape[0]), like=rows) + 1

    def addition(self) -> Expansion:
        """``x' W x``."""
        return Expansion((Term(1, 1.0),), _functions, _magnitudes)

    def expansion(self, order: int, sigma: float) -> Expansion:
        """``-x' W x``."""
        del order, sigma
        return Expansion((Term(1, -1.0),), _functions, _magnitudes)

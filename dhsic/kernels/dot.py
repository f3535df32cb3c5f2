"""Powers of inner products: the linear kernel ``<x, x'>`` (JMLR 5.1.1) and polynomial kernels.

The polynomial kernel is ``k(x, x') = (<x, x'> + a)^b`` (JMLR 5.1.2). Adding or removing feature j
changes ``<x, x'>`` by a product, so the binomial series is exact after b terms.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import comb
from typing import ClassVar

import numpy as np

from dhsic._typing import Array, Float
from dhsic.errors import InputError
from dhsic.kernels.base import AbstractKernel, Expansion, PowerSeries, Product, Term
from dhsic.namespace import namespace_of
from dhsic.validation import is_number


@dataclass(frozen=True)
class Linear(AbstractKernel):
    """Linear kernel: K are the inner products; scores are additive over features.

    So one pass over the data ranks all features.
    """

    name: ClassVar[str] = "linear"
    is_additive: ClassVar[bool] = True
    scored_by = "series"
    low_rank: ClassVar[bool] = True

    @property
    def exact_order(self) -> int:
        return 1

    def gram(self, inner: Float, rows: Float, columns: Float, sigma: float) -> Float:
        return namespace_of(inner).asarray(inner, copy=True)

    def decrement(
        self, inner: Float, rows: Float, columns: Float, x: Float, y: Float, sigma: float
    ) -> Float:
        return -(x[:, None] * y[None, :])

    def base(self, key: int, inner: Float, rows: Float, columns: Float, sigma: float) -> Float:
        """Return a matrix of ones, because the expansion of this kernel uses W itself.

        W are the label weights.
        """
        return namespace_of(inner).ones_like(inner)

    def addition(self) -> Expansion:
        return _binomial(1, 1)

    def expansion(self, order: int, sigma: float) -> Expansion:
        return _binomial(1, -1)


@dataclass(frozen=True)
class Polynomial(AbstractKernel):
    """The polynomial kernel ``(G + offset)^degree``: interactions of up to `degree` features.

    Parameters
    ----------
    degree : int
        Power b, at least 1.
    offset : float
        Constant a, at least 0; if it is positive, the kernel includes lower degrees.
    """

    name: ClassVar[str] = "polynomial"
    scored_by = "series"
    low_rank: ClassVar[bool] = True
    degree: int = 2
    offset: float = 1.0

    def __post_init__(self) -> None:
        if not (is_number(self.degree) and self.degree >= 1 and self.degree % 1 == 0):
            raise InputError(f"Polynomial degree={self.degree!r}; pass a whole number >= 1.")
        if not (is_number(self.offset) and self.offset >= 0):
            raise InputError(f"Polynomial offset={self.offset!r}; pass a number >= 0.")

    @property
    def exact_order(self) -> int:
        return self.degree

    @property
    def power(self) -> tuple[int, float]:
        return int(self.degree), float(self.offset)

    def gram(self, inner: Float, rows: Float, columns: Float, sigma: float) -> Float:
        return self.base(0, inner, rows, columns, sigma)

    def decrement(
        self, inner: Float, rows: Float, columns: Float, x: Float, y: Float, sigma: float
    ) -> Float:
        r"""Compute a tile of the change of the kernel matrix without a feature, ``v^b - u^b``.

        With ``u = G + a`` and ``v = u - x y'``, it is ``-x y' sum_k v^k u^(b-1-k)``. G are the
        inner products, and x and y the values of the feature at the samples of rows and columns.
        """
        t = x[:, None] * y[None, :]
        u = inner + float(self.offset)
        v = u - t
        total = namespace_of(u).zeros_like(u)
        for k in range(self.degree):
            total += v**k * u ** (self.degree - 1 - k)
        return -t * total

    def base(self, key: int, inner: Float, rows: Float, columns: Float, sigma: float) -> Float:
        return (inner + float(self.offset)) ** (self.degree - key)

    def addition(self) -> Expansion:
        return _binomial(self.degree, 1)

    def expansion(self, order: int, sigma: float) -> Expansion:
        return _binomial(self.degree, -1)

    def power_series(self, order: int, sigma: float) -> PowerSeries:
        terms = self.expansion(order, sigma).terms  # term p is the product of x^p with itself
        products = [Product(t.base, t.coefficient, p, p) for p, t in enumerate(terms, start=1)]
        return PowerSeries(tuple(products))


def _binomial(b: int, sign: int) -> Expansion:
    """Expansion ``(u + sign x x')^b - u^b = sum_p sign^p C(b, p) u^(b-p) (x x')^p``.

    u is the offset plus the inner products, and C(b, p) a binomial coefficient. Base matrix p is
    ``u^(b-p)``.
    """

    def functions(X: Array) -> Iterator[Array]:
        return (X**p if p > 1 else X for p in range(1, b + 1))

    def magnitudes(max_abs: Float, fourth_moment: Float) -> list[Float]:
        moments = [np.sqrt(fourth_moment)]  # mean of x^(2p) is at most mean(x^4) max_abs^(2p-4)
        moments += [fourth_moment * max_abs ** (2 * p - 4) for p in range(2, b + 1)]
        return [comb(b, p) * moment for p, moment in enumerate(moments, start=1)]

    terms = tuple(Term(p, float(sign**p * comb(b, p))) for p in range(1, b + 1))
    return Expansion(terms, functions, magnitudes)

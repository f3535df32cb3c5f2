r"""Kernels that change with a feature through its pairs of levels alone.

    ``K(S \ j) - K(S) = base o (F(x_i, x_i') + constant)``

with F a function of two values that is 0 where they are equal. There is no series, and none is
needed where features have few values: see `dhsic.engines.levels`.

The delta kernel for categories: in how many features two samples agree (JMLR 5.2, on data).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dhsic._typing import Float
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.statistic import AbstractSums, Agreements
from dhsic.namespace import cast, namespace_of


class AbstractLevelKernel(AbstractKernel):
    """`factor` is F as a function of ``(x_i - x_i')^2``, and `exponent` bounds it."""

    scored_by = "levels"

    @abstractmethod
    def factor(self, squared_difference: Float, sigma: float) -> Float:
        """F, an array like `squared_difference`."""

    @abstractmethod
    def exponent(self, max_abs: Float, sigma: float) -> Float:
        """Largest logarithm of F for features of these largest magnitudes, (c,)."""


@dataclass(frozen=True)
class Delta(AbstractLevelKernel):
    """``k(x, x') = sum_j 1[x_j = x'_j]``: scores add over features, one pass ranks them all.

    For categories whose numbers are names: blood groups, alleles, codes of any kind. Scaling does
    not matter, order does not, only which values are equal. A feature is worth
    ``sum_l 1_l' W 1_l`` over its categories l, whatever the others are.

    Notes
    -----
    Missing values, filled in with the mean, are a category of their own; where the mean happens to
    be a category, they join that one. Values that differ in the last places are different: round
    measurements, or take another kernel, as for features with many values this one sees only who
    shares them.
    """

    name: ClassVar[str] = "delta"
    is_additive: ClassVar[bool] = True
    is_of_categories: ClassVar[bool] = True
    sums: ClassVar[AbstractSums] = Agreements()
    constant: ClassVar[float] = -1.0

    def gram(self, inner: Float, rows: Float, columns: Float, sigma: float) -> Float:
        K: Float = namespace_of(inner).asarray(inner, copy=True)
        return K

    def decrement(
        self, inner: Float, rows: Float, columns: Float, x: Float, y: Float, sigma: float
    ) -> Float:
        return -cast(x[:, None] == y[None, :], np.float64)

    def increment(
        self, inner: Float, rows: Float, columns: Float, x: Float, y: Float, sigma: float
    ) -> Float:
        return -self.decrement(inner, rows, columns, x, y, sigma)

    def base(self, key: int, inner: Float, rows: Float, columns: Float, sigma: float) -> Float:
        """All ones: A is W itself."""
        ones: Float = namespace_of(inner).ones_like(inner)
        return ones

    def factor(self, squared_difference: Float, sigma: float) -> Float:
        """``1[x != y]``, the decrement but for the constant -1."""
        return cast(squared_difference != 0, np.float64)

    def exponent(self, max_abs: Float, sigma: float) -> Float:
        return np.zeros_like(max_abs)

r"""Kernels that change by a function of two levels (values) if a feature is removed.

    ``K(S \ j) - K(S) = base o (F(x_i, x_i') + constant)``

with F (`factor`) a function of two values that is 0 if they are equal. These kernels have no
series; features with few distinct values do not need one, see `dhsic.engines.levels`.

`AbstractProduct` is the exponential of a sum of distances over features, so it is a product over
features like the Gaussian; `LaplaceL1` uses absolute differences. `Delta`, for categories, counts
the features in which two samples are equal (JMLR 5.2, on data).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dhsic._typing import Float
from dhsic.errors import InputError
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.statistic import AbstractSums, in_strips
from dhsic.linalg.quadratic import Each
from dhsic.namespace import cast, namespace_of


class AbstractLevels(AbstractKernel):
    """Kernel scored by pairs of levels; subclasses define `factor`, `exponent` and `increment`.

    A kernel that is not a product over features also defines `base`, which is ``decrement / (factor
    + constant)``, and `constant`, which is ``decrement / base`` for two equal values.
    """

    scored_by = "levels"

    @abstractmethod
    def factor(self, squared_difference: Float, sigma: float) -> Float: ...

    @abstractmethod
    def exponent(self, max_abs: Float, sigma: float) -> Float: ...

    @abstractmethod
    def increment(
        self, inner: Float, rows: Float, columns: Float, x: Float, y: Float, sigma: float
    ) -> Float: ...


class AbstractProduct(AbstractLevels):
    """``exp(-sigma sum_j r(x_j - x'_j))``: a product over features, with a custom distance r.

    Features with few distinct values are scored exactly and fast, by their levels. Other features
    need an exponential for every pair of samples. Subclasses define r (`distance`), and `sums`,
    which add up r over features.
    """

    has_bandwidth: ClassVar[bool] = True
    is_product: ClassVar[bool] = True
    #: Name of the terms that `sums` adds up, for messages.
    summed: ClassVar[str]

    @abstractmethod
    def distance(self, difference: Float) -> Float:
        """Distance r of two values from their difference, as a new array.

        It must be even, 0 at 0, increase with the absolute difference, and not depend on sigma.
        """

    def gram(self, inner: Float, rows: Float, columns: Float, sigma: float) -> Float:
        """Compute a tile of the kernel matrix, ``exp(-sigma inner)``.

        `inner` are sums over features of the distances r between two values. `rows` and `columns`
        must be 0, the distance of a sample from itself.
        """
        xp = namespace_of(inner)
        if xp.any(rows != 0) or xp.any(columns != 0):
            raise InputError(
                f"The {self.name} kernel is a function of {self.summed}, and cannot be computed "
                "from inner products; use kernel='laplace', which can."
            )
        return xp.exp(-float(sigma) * xp.where(inner > 0, inner, xp.zeros_like(inner)))

    def decrement(
        self, inner: Float, rows: Float, columns: Float, x: Float, y: Float, sigma: float
    ) -> Float:
        """Compute ``K o (exp(sigma r) - 1)``, the change of the kernel matrix K without a feature.

        r are the distances between its values. If ``sigma r >= 1``, it is computed as the
        difference of two kernels.
        """
        xp = namespace_of(inner)
        r = self.distance(x[:, None] - y[None, :])
        t = float(sigma) * r
        K = self.gram(inner, rows, columns, sigma)
        little = K * xp.expm1(xp.minimum(t, xp.ones_like(t)))
        without = self.gram(inner - r, rows, columns, sigma)
        return xp.where(t < 1, little, without - K)

    def increment(
        self, inner: Float, rows: Float, columns: Float, x: Float, y: Float, sigma: float
    ) -> Float:
        """Compute ``K o (exp(-sigma r) - 1)``, the change of the kernel matrix K with a feature.

        r are the distances between its values.
        """
        t = float(sigma) * self.distance(x[:, None] - y[None, :])
        return self.gram(inner, rows, columns, sigma) * namespace_of(inner).expm1(-t)

    def factor(self, squared_difference: Float, sigma: float) -> Float:
        xp = namespace_of(squared_difference)
        return xp.expm1(float(sigma) * self.distance(xp.sqrt(squared_difference)))

    def exponent(self, max_abs: Float, sigma: float) -> Float:
        """Bound ``sigma r(2 max_abs)`` on the logarithm of ``1 + factor``, (c,).

        The function r is the distance of two values; those of a feature differ by at most ``2
        max_abs``.
        """
        return float(sigma) * self.distance(np.asarray(2.0 * max_abs))


@dataclass(frozen=True)
class AbsoluteDifferences(AbstractSums):
    """L1 distances ``sum_j |x_ij - x_i'j|``; they take about 1 ns per pair and feature."""

    def add(self, upper: Float, Z: Float) -> None:
        self._change(upper, Z, 1.0, map)

    def take_away(self, upper: Float, Z: Float, each: Each) -> None:
        self._change(upper, Z, -1.0, each)

    def _change(self, upper: Float, Z: Float, sign: float, each: Each) -> None:
        from scipy.spatial.distance import cdist  # imported here because it loads slowly

        samples = np.ascontiguousarray(Z.T, dtype=np.float64)

        def change(columns: slice) -> None:
            b = columns.stop
            upper[:b, columns] += sign * cdist(samples[columns], samples[:b], "cityblock").T

        in_strips(len(samples), each, change)


@dataclass(frozen=True)
class LaplaceL1(AbstractProduct):
    """``exp(-sigma sum_j |x_j - x'_j|)``: a kernel of the L1 distance, a product over features.

    Its statistic, the L1 distances, cannot be computed by matrix products. So use it for genotypes,
    or for thousands of features, not for millions. With the default bandwidth, ``sigma = 1 /
    (2 |S|)``, the exponent of standardised data is about 1/2; with ``"median"`` it is 1/2 at the
    median L1 distance.
    """

    name: ClassVar[str] = "laplace-l1"
    sums: ClassVar[AbstractSums] = AbsoluteDifferences()
    summed: ClassVar[str] = "absolute differences"

    def distance(self, difference: Float) -> Float:
        return namespace_of(difference).abs(difference)


@dataclass(frozen=True)
class Agreements(AbstractSums):
    """Number of features in which two samples are equal, ``sum_j 1[x_ij = x_i'j]``."""

    def add(self, upper: Float, Z: Float) -> None:
        for z in Z:
            upper += np.equal.outer(z, z)

    def take_away(self, upper: Float, Z: Float, each: Each) -> None:
        for z in Z:
            upper -= np.equal.outer(z, z)


@dataclass(frozen=True)
class Delta(AbstractLevels):
    """``k(x, x') = sum_j 1[x_j = x'_j]``: additive over features, so one pass ranks all of them.

    Use it for categories that are coded as numbers, for example blood groups or alleles. Only
    equality of values matters, not their scale or order. The score of a feature is
    ``sum_l 1_l' W 1_l`` over its categories l, independent of other features.

    Notes
    -----
    Missing values are replaced by the mean and are a separate category, unless the mean equals a
    category by chance. Values that differ in the last digits are different categories: round
    measurements, or use another kernel, because this one only detects exact matches.
    """

    name: ClassVar[str] = "delta"
    is_additive: ClassVar[bool] = True
    is_of_categories: ClassVar[bool] = True
    sums: ClassVar[AbstractSums] = Agreements()
    constant: ClassVar[float] = -1.0

    def gram(self, inner: Float, rows: Float, columns: Float, sigma: float) -> Float:
        return namespace_of(inner).asarray(inner, copy=True)

    def decrement(
        self, inner: Float, rows: Float, columns: Float, x: Float, y: Float, sigma: float
    ) -> Float:
        return -cast(x[:, None] == y[None, :], np.float64)

    def increment(
        self, inner: Float, rows: Float, columns: Float, x: Float, y: Float, sigma: float
    ) -> Float:
        return -self.decrement(inner, rows, columns, x, y, sigma)

    def base(self, key: int, inner: Float, rows: Float, columns: Float, sigma: float) -> Float:
        """Return a matrix of ones, because the expansion of this kernel uses W itself.

        W are the label weights.
        """
        return namespace_of(inner).ones_like(inner)

    def factor(self, squared_difference: Float, sigma: float) -> Float:
        """Indicator ``1[x != y]``, which is the decrement without the constant -1."""
        return cast(squared_difference != 0, np.float64)

    def exponent(self, max_abs: Float, sigma: float) -> Float:
        return np.zeros_like(max_abs)

r"""Kernels that change with a feature through its pairs of levels alone.

    ``K(S \ j) - K(S) = base o (F(x_i, x_i') + constant)``

with F (`factor`) a function of two values that is 0 where they are equal. There is no series, and
none is needed where features have few values: see `dhsic.engines.levels`.

`AbstractProduct` is the exponential of a sum of distances, each of one feature, so a product over
features like the Gaussian; `LaplaceL1` takes absolute differences. `Delta`, for categories, says in
how many features two samples agree (JMLR 5.2, on data).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.spatial.distance import cdist

from dhsic._typing import Float
from dhsic.errors import InputError
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.statistic import AbstractSums, in_strips
from dhsic.linalg.quadratic import Each
from dhsic.namespace import cast, namespace_of


class AbstractLevels(AbstractKernel):
    """A kernel scored by pairs of levels: it gives `factor`, `exponent` and `increment`.

    Where it is no product over features it gives `base` too, ``decrement / (factor + constant)``,
    and `constant`, what the decrement is over the base where two values are equal.
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
    """``exp(-sigma sum_j r(x_j - x'_j))``: a product over features, of a distance of its own.

    Few-valued features are scored exactly and fast, by their levels; others take an exponential
    for every pair of samples. A kernel of this kind gives `apart`, and `sums` that add it up.
    """

    has_bandwidth: ClassVar[bool] = True
    is_product: ClassVar[bool] = True
    #: What `sums` adds up, for people.
    summed: ClassVar[str]

    @abstractmethod
    def apart(self, difference: Float) -> Float:
        """``r(difference)``, a new array: 0 at 0, growing to both sides alike, without sigma."""

    def gram(self, inner: Float, rows: Float, columns: Float, sigma: float) -> Float:
        """``exp(-sigma inner)``, `inner` the sums of r; those of a sample with itself are 0."""
        xp = namespace_of(inner)
        if xp.any(rows != 0) or xp.any(columns != 0):
            raise InputError(
                f"The {self.name} kernel is one of {self.summed}, and what it got is no sum "
                "of these; take kernel='laplace', which is one of inner products."
            )
        return xp.exp(-float(sigma) * xp.where(inner > 0, inner, xp.zeros_like(inner)))

    def decrement(
        self, inner: Float, rows: Float, columns: Float, x: Float, y: Float, sigma: float
    ) -> Float:
        """``K o (exp(sigma r) - 1)``; where that is large, the difference itself."""
        xp = namespace_of(inner)
        r = self.apart(x[:, None] - y[None, :])
        t = float(sigma) * r
        K = self.gram(inner, rows, columns, sigma)
        little = K * xp.expm1(xp.minimum(t, xp.ones_like(t)))
        without = self.gram(inner - r, rows, columns, sigma)
        return xp.where(t < 1, little, without - K)

    def increment(
        self, inner: Float, rows: Float, columns: Float, x: Float, y: Float, sigma: float
    ) -> Float:
        """``K o (exp(-sigma r) - 1)``."""
        t = float(sigma) * self.apart(x[:, None] - y[None, :])
        return self.gram(inner, rows, columns, sigma) * namespace_of(inner).expm1(-t)

    def factor(self, squared_difference: Float, sigma: float) -> Float:
        xp = namespace_of(squared_difference)
        return xp.expm1(float(sigma) * self.apart(xp.sqrt(squared_difference)))

    def exponent(self, max_abs: Float, sigma: float) -> Float:
        """``sigma r(2 max_abs)``: no two values of a feature are further apart."""
        return float(sigma) * self.apart(np.asarray(2.0 * max_abs))


@dataclass(frozen=True)
class AbsoluteDifferences(AbstractSums):
    """``sum_j |x_ij - x_i'j|``, the L1 distance: about 1 ns a pair and feature, without BLAS."""

    def add(self, upper: Float, Z: Float) -> None:
        self._change(upper, Z, 1.0, map)

    def take_away(self, upper: Float, Z: Float, each: Each) -> None:
        self._change(upper, Z, -1.0, each)

    def _change(self, upper: Float, Z: Float, sign: float, each: Each) -> None:
        samples = np.ascontiguousarray(Z.T, dtype=np.float64)

        def change(columns: slice) -> None:
            b = columns.stop
            upper[:b, columns] += sign * cdist(samples[columns], samples[:b], "cityblock").T

        in_strips(len(samples), each, change)


@dataclass(frozen=True)
class LaplaceL1(AbstractProduct):
    """``exp(-sigma sum_j |x_j - x'_j|)``: a product over features, of the L1 distance.

    Its statistic are the L1 distances, which no matrix product gives, so it is for thousands of
    features, or for genotypes, rather than for millions. With the default policy,
    ``sigma = 1 / (2 |S|)``, the exponent of standardised data is about 1/2; the median policy makes
    it 1/2 at the median L1 distance.
    """

    name: ClassVar[str] = "laplace-l1"
    sums: ClassVar[AbstractSums] = AbsoluteDifferences()
    summed: ClassVar[str] = "absolute differences"

    def apart(self, difference: Float) -> Float:
        return namespace_of(difference).abs(difference)


@dataclass(frozen=True)
class Agreements(AbstractSums):
    """``sum_j 1[x_ij = x_i'j]``: in how many features samples agree."""

    def add(self, upper: Float, Z: Float) -> None:
        for z in Z:
            upper += np.equal.outer(z, z)

    def take_away(self, upper: Float, Z: Float, each: Each) -> None:
        for z in Z:
            upper -= np.equal.outer(z, z)


@dataclass(frozen=True)
class Delta(AbstractLevels):
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
        """All ones: A is W itself."""
        return namespace_of(inner).ones_like(inner)

    def factor(self, squared_difference: Float, sigma: float) -> Float:
        """``1[x != y]``, the decrement but for the constant -1."""
        return cast(squared_difference != 0, np.float64)

    def exponent(self, max_abs: Float, sigma: float) -> Float:
        return np.zeros_like(max_abs)

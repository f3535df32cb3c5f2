r"""Interface of kernels on data: Gram matrix, decrement, and properties for fast scoring.

All of them are functions of one statistic that is additive over features (`sums`): mostly the
inner products ``G = X X'`` of the standardised data; for other kernels G below stands for other
distances, or for counts. Removing feature j with column x changes the Gram matrix by

    ``decrement = K(S \ j) - K(S)``                                         (m, m)

and HSIC by ``<W, decrement>``. Where that function of ``(x_i, x_i')`` is (nearly) a short sum of
symmetric products ``f(x_i) f(x_i')`` times a matrix that does not depend on j, the kernel provides
an `Expansion`: then quadratic forms, half of a matrix product each, score a block of features.

Arrays may be of any namespace of the array API standard, all of one call of the same and on the
same device; those that describe features (`magnitudes`, `remainder`) are NumPy's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, ClassVar, Self, final

import numpy as np

from dhsic._typing import Array, Float
from dhsic.errors import InputError
from dhsic.kernels.statistic import AbstractSums, InnerProducts
from dhsic.linalg import pivoted_cholesky
from dhsic.linalg.symmetric import DenseSymmetric, LowRankSymmetric

#: Side of the tiles on whose diagonals the diagonal of a kernel matrix is computed.
DIAGONAL_TILE = 64
#: Maximum number of directions tried for a kernel on data.
DIRECTIONS = 256
#: Fraction of its trace that a complete low-rank matrix may lack: rounding error.
COMPLETE = 1e-13


@dataclass(frozen=True, slots=True)
class Term:
    """One summand ``coefficient f(x)' A f(x)`` with ``A = W o base``, see `AbstractKernel.base`.

    A `linear` term is ``coefficient f(x)' A 1``, which only needs the row sums of A.
    """

    base: int
    coefficient: float
    linear: bool = False


@dataclass(frozen=True, slots=True)
class Expansion:
    r"""``<W, K(S \ j) - K(S)>`` as a sum of terms, for all features of a block at once.

    Attributes
    ----------
    terms : tuple of Term
        The summands.
    functions : callable
        ``functions(X)``, X (c, m) with a feature a row, gives f(X) for every term in turn, like
        X. An array is valid until the next one is asked for.
    magnitudes : callable
        ``magnitudes(max_abs, fourth_moment)``: per term, a bound on ``|coefficient| ||f||^2 / m``,
        or on ``|coefficient| ||f|| / sqrt(m)`` where it is linear, (c,); ``max_i |x_i|`` and
        ``mean_i x_i^4`` are given. It is the scale of the term's rounding.
    remainder : callable or None
        ``remainder(max_abs, fourth_moment)``: a bound on the neglected part divided by
        ``m ||A||_F``, (c,). None where the expansion is exact.
    """

    terms: tuple[Term, ...]
    functions: Callable[[Array], Iterator[Array]]
    magnitudes: Callable[[Float, Float], list[Float]]
    remainder: Callable[[Float, Float], Float] | None = None

    @property
    def n_forms(self) -> int:
        """Number of quadratic forms per feature; each takes half of a matrix product."""
        return sum(not t.linear for t in self.terms)


@dataclass(frozen=True, slots=True)
class Product:
    """One summand ``coefficient (x^a)' A x^b`` with ``A = W o base``, for powers of a feature."""

    base: int
    coefficient: float
    a: int
    b: int


@dataclass(frozen=True, slots=True)
class PowerSeries:
    r"""``<W, K(S \ j) - K(S)>`` as a sum of products of powers, which do not depend on sigma.

    Attributes
    ----------
    products : tuple of Product
        The summands.
    of_differences : bool
        Every entry is a function of ``x_i - x_i'``, so that diagonals of A do not matter.
    neglected : callable or None
        ``neglected(max_abs, fourth_moment)`` estimates the root mean square of the remainder over
        pairs of samples, (c,). None if the series is exact.
    """

    products: tuple[Product, ...]
    of_differences: bool = False
    neglected: Callable[[Float, Float], Float] | None = None


class AbstractKernel(ABC):
    """A kernel on data; `sigma` is ignored by kernels without a bandwidth.

    User-defined kernels need a `name`, `gram` and `decrement`; they are scored by the definition,
    never in low rank. A kernel that is not a function of inner products also needs `sums` and
    `increment`. The other attributes make scoring faster; engines use no further ones.
    """

    name: ClassVar[str]
    has_bandwidth: ClassVar[bool] = False
    is_of_categories: ClassVar[bool] = False
    #: Whether HSIC is a sum over features, so that no loop is needed (JMLR 5.1.1).
    is_additive: ClassVar[bool] = False
    #: Method that scores features faster than the definition, a key of
    #: `dhsic.engines.exact_scoring.FAMILIES`: an `expansion` that is exact or bounds its remainder;
    #: one whose remainder follows from distances (`dhsic.kernels.radial`); pairs of levels
    #: (`dhsic.kernels.levels.AbstractLevels`); or the full matrix (`dhsic.kernels.ridge`).
    scored_by: ClassVar[str] = "definition"
    #: Whether low rank supports it: terms of its expansion have low-rank factors.
    low_rank: ClassVar[bool] = False
    #: Whether it is a product over features, like ``exp(-sigma sum_j r(x_j, x'_j))``; see `factor`.
    is_product: ClassVar[bool] = False
    #: Whether it is ``exp(-sigma D)``: the mean of ``cos(sqrt(2 sigma) w' (x - x'))`` over normal
    #: w.
    has_normal_frequencies: ClassVar[bool] = False
    #: Statistic that is summed over features for every pair of samples; may be a property.
    sums: ClassVar[AbstractSums] = InnerProducts()
    #: Constant that the decrement contains in addition to `factor`, times the base.
    constant: ClassVar[float] = 0.0

    @classmethod
    def of(cls, kernel: AbstractKernel) -> Self:
        """Return the kernel as an instance of this class, which `scored_by` implies."""
        assert isinstance(kernel, cls), f"{kernel.name} is of another family"
        return kernel

    @property
    def exact_order(self) -> int | None:
        """Order at which the expansion is exact; None for an infinite series, or none."""
        return None

    @property
    def power(self) -> tuple[int, float] | None:
        """Degree b and offset a if ``K = (G + a)^b``; else None."""
        return None

    @property
    def of_inner_products(self) -> bool:
        """Whether entries are functions of single inner products; other kernels are bounded."""
        return isinstance(self.sums, InnerProducts) and self.scored_by != "matrix"

    @abstractmethod
    def gram(self, inner: Float, rows: Float, columns: Float, sigma: float) -> Float:
        """Part of K, (r, c), a new array.

        `inner` (r, c) is the part of G, the sum by `sums`, mostly ``X X'``; `rows` (r,) and
        `columns` (c,) are the diagonal of G there.
        """

    @abstractmethod
    def decrement(
        self, inner: Float, rows: Float, columns: Float, x: Float, y: Float, sigma: float
    ) -> Float:
        r"""Part of ``K(S \ j) - K(S)``, (r, c), without cancellation.

        `inner`, `rows` and `columns` are those of `gram`; x (r,) and y (c,) are values of feature j
        there.
        """

    def increment(
        self, inner: Float, rows: Float, columns: Float, x: Float, y: Float, sigma: float
    ) -> Float:
        """Part of ``K(S + j) - K(S)``, (r, c); arguments are those of `decrement`, for S without j.

        This implementation is for kernels of inner products; those with other `sums` override it.
        """
        larger: Float = inner + x[:, None] * y[None, :]
        return -self.decrement(larger, rows + x * x, columns + y * y, x, y, sigma)

    def decrement_of(
        self,
        inner: Float,
        rows: Float,
        columns: Float,
        part: Float,
        part_rows: Float,
        part_columns: Float,
        sigma: float,
    ) -> Float:
        r"""Part of ``K(S \ g) - K(S)`` for a group g of features, (r, c).

        `inner`, `rows` and `columns` are those of `gram`; `part`, `part_rows` and `part_columns`
        are the same sums over the features of g alone.
        """
        without = self.gram(inner - part, rows - part_rows, columns - part_columns, sigma)
        without -= self.gram(inner, rows, columns, sigma)
        return without

    def base(self, key: int, inner: Float, rows: Float, columns: Float, sigma: float) -> Float:
        """Part of base matrix `key` of the expansion, (r, c), a new array; K by default."""
        return self.gram(inner, rows, columns, sigma)

    @final
    def part(
        self, key: int | None, inner: Float, rows: Float, columns: Float, sigma: float
    ) -> Float:
        """Part of base matrix `key`, or of K if it is None; arguments are those of `gram`."""
        if key is None:
            return self.gram(inner, rows, columns, sigma)
        return self.base(key, inner, rows, columns, sigma)

    @final
    def diagonal(self, key: int | None, norms: Float, sigma: float) -> Float:
        """Diagonal of base matrix `key`, or of K if it is None; `norms` (m,): diagonal of G."""
        if self.is_product:
            return np.ones_like(norms)  # exp(0): the distance of a sample from itself is 0
        diagonal = np.empty_like(norms)
        for a in range(0, len(norms), DIAGONAL_TILE):
            n = norms[a : a + DIAGONAL_TILE]
            tile = np.repeat(n[:, None], len(n), axis=1)
            diagonal[a : a + DIAGONAL_TILE] = np.diagonal(self.part(key, tile, n, n, sigma))
        return diagonal

    def expansion(self, order: int, sigma: float) -> Expansion:
        """Terms up to `order`; raises an error for kernels without a series."""
        raise InputError(
            f"The {self.name} kernel has no expansion of order {order}; score it by levels, or by "
            "the definition (solver='direct')."
        )

    def power_series(self, order: int, sigma: float) -> PowerSeries:
        """Series up to `order` in powers of a feature, for kernels that support low rank."""
        raise InputError(
            f"The {self.name} kernel has no series of powers; low rank knows none for it."
        )

    def addition(self) -> Expansion | None:
        """``<W, K(S + j) - K(S)>`` as an exact sum of terms; None if it needs a series."""
        return None

    def factor(self, squared_difference: Float, sigma: float) -> Float:
        r"""``K(S \ j) / K(S) - 1`` of a product, as a function of ``(x_i - x_i')^2``.

        At minus sigma it must be ``K(S + j) / K(S) - 1``, by which features are added: K is
        ``exp(-sigma sum_j r(x_j, x'_j))`` in form, ``factor = exp(sigma r) - 1``, and what is
        summed does not depend on sigma. Such a kernel has an exact expansion on few-valued
        features: functions on q levels are spanned by q - 1 indicators besides the constant.
        """
        raise NotImplementedError(
            f"The {self.name} kernel is a product over features, or scored by levels: give its "
            "factor."
        )

    def exponent(self, max_abs: Float, sigma: float) -> Float:
        """Bound on the logarithm of `factor` for features with these largest magnitudes, (c,)."""
        raise NotImplementedError(
            f"The {self.name} kernel is a product over features, or scored by levels: give its "
            "exponent."
        )

    def parameters(self) -> dict[str, float]:
        """Parameters that identify the kernel besides its name: fields, which are numbers."""
        instance: Any = self
        attrs = (
            {f.name: getattr(self, f.name) for f in fields(instance)}
            if is_dataclass(instance)
            else {}
        )
        try:
            return {name: float(value) for name, value in attrs.items()}
        except (TypeError, ValueError) as error:
            raise InputError(
                f"The {self.name} kernel's fields are {attrs}, and runs are told apart by numbers; "
                "make each of them one, or write a parameters() that gives numbers."
            ) from error


def dense_kernel(kernel: AbstractKernel, X: Float, sigma: float) -> DenseSymmetric:
    """Dense K of data in memory."""
    inner = X @ X.T
    norms = np.diagonal(inner).copy()
    return DenseSymmetric(kernel.gram(inner, norms, norms, sigma))


def low_rank_kernel(kernel: AbstractKernel, X: Float, sigma: float) -> LowRankSymmetric | None:
    """K if up to 256 directions, and m / 4, are complete up to rounding errors; else None.

    Every sample may be a pivot, so that no direction is missed.
    """
    norms = np.einsum("ij,ij->i", X, X)

    def row(p: int) -> Float:
        return kernel.gram((X @ X[p])[:, None], norms, norms[p : p + 1], sigma)[:, 0]

    diagonal = kernel.diagonal(None, norms, sigma)
    most = min(DIRECTIONS, len(X) // 4)
    G, _, missing = pivoted_cholesky(row, diagonal, rank=most, tolerance=COMPLETE)
    if missing.sum() > COMPLETE * diagonal.sum():
        return None
    return LowRankSymmetric(np.ascontiguousarray(G.T), np.ones(len(G)), diagonal)

r"""Interface of kernels on data: kernel matrix, decrement, and properties for fast scoring.

Each kernel is a function of a statistic G that is additive over features (`sums`). Usually G
contains the inner products ``G = X X'`` of the standardised data. Some kernels use other distances,
or counts. Removing feature j with column x changes the kernel matrix K by

    ``decrement = K(S \ j) - K(S)``                                         (m, m)

and HSIC by ``<W, decrement>``, where W (m, m) are weights from the labels. If the decrement, a
function of ``(x_i, x_i')``, is (nearly) a short sum of symmetric products ``f(x_i) f(x_i')`` times
a matrix that does not depend on j, the kernel provides an `Expansion`. A block of features is then
scored by quadratic forms, and each costs half a matrix product. ``A o B`` is the entrywise product.

Arrays may come from any library of the array API standard. In one call, all of them are from the
same library and on the same device. Arrays of feature statistics (`magnitudes`, `remainder`) are
NumPy's.
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

#: Side of the square tiles in which the diagonal of a kernel matrix is computed.
DIAGONAL_TILE = 64
#: Maximum number of directions tried for a kernel on data.
DIRECTIONS = 256
#: Fraction of the trace that a complete low-rank matrix may miss, because of rounding errors.
COMPLETE = 1e-13


@dataclass(frozen=True, slots=True)
class Term:
    """One term ``coefficient f(x)' A f(x)`` of an `Expansion`, with ``A = W o base``.

    W (m, m) are label weights, ``o`` is the entrywise product, and `base` is the key of a base
    matrix, see `AbstractKernel.base`. A `linear` term is ``coefficient f(x)' A 1``, which needs
    only the row sums of A.
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
        ``functions(X)``, for X (c, m) with one row per feature, yields f(X) of every term in turn,
        (c, m). An array is valid until the next one is computed.
    magnitudes : callable
        ``magnitudes(max_abs, fourth_moment)``: for each term, a bound on ``|coefficient| ||f||^2 /
        m``, (c,), or on ``|coefficient| ||f|| / sqrt(m)`` if the term is linear, from ``max_i
        |x_i|`` and ``mean_i x_i^4``. Rounding errors of the term are proportional to it.
    remainder : callable or None
        ``remainder(max_abs, fourth_moment)``: a bound on the neglected part divided by
        ``m ||A||_F``, (c,). None if the expansion is exact.
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
    """One term ``coefficient (x^a)' A x^b`` of a `PowerSeries`; `Term` defines A."""

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
        Whether every entry is a function of ``x_i - x_i'``, so that the diagonal of A does not
        matter.
    neglected : callable or None
        ``neglected(max_abs, fourth_moment)`` estimates the root mean square of the remainder over
        pairs of samples, (c,). None if the series is exact.
    """

    products: tuple[Product, ...]
    of_differences: bool = False
    neglected: Callable[[Float, Float], Float] | None = None


class AbstractKernel(ABC):
    """A kernel on data; kernels without a bandwidth ignore `sigma`.

    User-defined kernels need a `name`, `gram` and `decrement`. They are scored by the definition of
    HSIC, and never in low rank. A kernel that is not a function of inner products also needs `sums`
    and `increment`. The other attributes make scoring faster; engines use only the attributes here.
    """

    name: ClassVar[str]
    has_bandwidth: ClassVar[bool] = False
    is_of_categories: ClassVar[bool] = False
    #: Whether HSIC is a sum over features, so that one round is enough (JMLR 5.1.1).
    is_additive: ClassVar[bool] = False
    #: Method that scores features faster than the definition, a key of
    #: `dhsic.engines.exact_scoring.FAMILIES`. "series": an `expansion` that is exact or bounds its
    #: remainder; "taylor": one whose remainder follows from distances (`dhsic.kernels.radial`);
    #: "levels": pairs of levels (`dhsic.kernels.levels.AbstractLevels`); "matrix": the full matrix
    #: (`dhsic.kernels.ridge`).
    scored_by: ClassVar[str] = "definition"
    #: Whether low rank is supported, because the terms of the expansion have low-rank factors.
    low_rank: ClassVar[bool] = False
    #: Whether K is a product over features, like ``exp(-sigma sum_j r(x_j, x'_j))``; see `factor`.
    is_product: ClassVar[bool] = False
    #: Whether K is ``exp(-sigma D)``, which is the mean of ``cos(sqrt(2 sigma) w' (x - x'))`` over
    #: normal w.
    has_normal_frequencies: ClassVar[bool] = False
    #: Statistic that is summed over features for every pair of samples; may be a property.
    sums: ClassVar[AbstractSums] = InnerProducts()
    #: Constant c for which the decrement is ``base o (factor + c)``.
    constant: ClassVar[float] = 0.0

    @classmethod
    def of(cls, kernel: AbstractKernel) -> Self:
        """Return `kernel` unchanged; AssertionError if it is not an instance of this class."""
        assert isinstance(kernel, cls), f"{kernel.name} is of another family"
        return kernel

    @property
    def exact_order(self) -> int | None:
        """Order at which the expansion is exact; None if there is no such order."""
        return None

    @property
    def power(self) -> tuple[int, float] | None:
        """Degree b and offset a of a polynomial kernel ``(G + a)^b``; None for other kernels.

        G are the inner products of samples.
        """
        return None

    @property
    def of_inner_products(self) -> bool:
        """Whether each entry of the kernel matrix is a function of inner products.

        The values of other kernels are bounded.
        """
        return isinstance(self.sums, InnerProducts) and self.scored_by != "matrix"

    @abstractmethod
    def gram(self, inner: Float, rows: Float, columns: Float, sigma: float) -> Float:
        """Compute a part of K, (r, c), as a new array.

        `inner` (r, c) is the same part of G, the statistic summed by `sums` (usually ``X X'``).
        `rows` (r,) and `columns` (c,) are entries of the diagonal of G, for the samples of the rows
        and of the columns.
        """

    @abstractmethod
    def decrement(
        self, inner: Float, rows: Float, columns: Float, x: Float, y: Float, sigma: float
    ) -> Float:
        r"""Compute a tile of ``K(S \ j) - K(S)``, (r, c), without cancellation.

        K(S) is the kernel matrix of the features S. `inner`, `rows` and `columns` are as in `gram`,
        for S; x (r,) and y (c,) are the values of feature j at the samples of rows and columns.
        """

    def increment(
        self, inner: Float, rows: Float, columns: Float, x: Float, y: Float, sigma: float
    ) -> Float:
        """Compute a tile of ``K(S + j) - K(S)``, (r, c), for features S without j.

        K(S) is the kernel matrix of the features S. Arguments are as in `decrement`. This
        implementation is for kernels of inner products; kernels with other `sums` override it.
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
        r"""Compute a tile of ``K(S \ g) - K(S)`` for a group g of features, (r, c).

        K(S) is the kernel matrix of the features S. `inner`, `rows` and `columns` are as in `gram`;
        `part`, `part_rows` and `part_columns` are the corresponding sums over the features of g
        only.
        """
        without = self.gram(inner - part, rows - part_rows, columns - part_columns, sigma)
        without -= self.gram(inner, rows, columns, sigma)
        return without

    def base(self, key: int, inner: Float, rows: Float, columns: Float, sigma: float) -> Float:
        """Compute a tile of base matrix `key`, (r, c), as a new array.

        Base matrices are the terms of the kernel's series; by default there is one, the kernel
        matrix. Arguments are as in `gram`.
        """
        return self.gram(inner, rows, columns, sigma)

    @final
    def part(
        self, key: int | None, inner: Float, rows: Float, columns: Float, sigma: float
    ) -> Float:
        """Compute a tile of the term `key` of the kernel's series, or of the kernel matrix if None.

        The other arguments are as in `gram`.
        """
        if key is None:
            return self.gram(inner, rows, columns, sigma)
        return self.base(key, inner, rows, columns, sigma)

    @final
    def diagonal(self, key: int | None, norms: Float, sigma: float) -> Float:
        """Diagonal (m,) of the term `key` of the kernel's series, or of the kernel matrix if None.

        `norms` is the diagonal of the inner products.
        """
        if self.is_product:
            return np.ones_like(norms)  # exp(0): the distance of a sample from itself is 0
        diagonal = np.empty_like(norms)
        for a in range(0, len(norms), DIAGONAL_TILE):
            n = norms[a : a + DIAGONAL_TILE]
            tile = np.repeat(n[:, None], len(n), axis=1)
            diagonal[a : a + DIAGONAL_TILE] = np.diagonal(self.part(key, tile, n, n, sigma))
        return diagonal

    def expansion(self, order: int, sigma: float) -> Expansion:
        """Expansion with the terms up to `order`; raises an error for kernels without a series."""
        raise InputError(
            f"The {self.name} kernel has no series of order {order}. Pass solver='direct', which "
            "computes scores by the definition."
        )

    def power_series(self, order: int, sigma: float) -> PowerSeries:
        """Series in powers of a feature up to `order`, for kernels that support low rank."""
        raise InputError(
            f"The {self.name} kernel has no series of powers, so low rank does not support it."
        )

    def addition(self) -> Expansion | None:
        """Exact expansion of ``<W, K(S + j) - K(S)>`` as a sum of terms; None if there is none.

        It is the change of HSIC if feature j is added to S; W are label weights, and K(S) is the
        kernel matrix of the features S.
        """
        return None

    def factor(self, squared_difference: Float, sigma: float) -> Float:
        r"""Ratio ``K(S \ j) / K(S) - 1`` of a product over features, from ``(x_i - x_i')^2``.

        With minus sigma it must be ``K(S + j) / K(S) - 1``, for features that are added. This
        requires that K has the form ``exp(-sigma sum_j r(x_j, x'_j))``, ``factor = exp(sigma r) -
        1``, and r does not depend on sigma. Such a kernel has an exact expansion on features with
        few distinct values: functions on q levels are spanned by q - 1 indicators and the constant.
        """
        raise NotImplementedError(
            f"The {self.name} kernel is a product over features, or scored by levels: implement "
            "its factor."
        )

    def exponent(self, max_abs: Float, sigma: float) -> Float:
        """Bound on the logarithm of ``1 + factor``, (c,).

        That is the ratio of entries of the kernel matrix without and with a feature, for values up
        to `max_abs` in magnitude.
        """
        raise NotImplementedError(
            f"The {self.name} kernel is a product over features, or scored by levels: implement "
            "its exponent."
        )

    def parameters(self) -> dict[str, float]:
        """Parameters that, with its name, identify the kernel: its fields, as numbers."""
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
                f"The {self.name} kernel has the fields {attrs}, but runs are identified by "
                "numbers; make every field a number, or write a method parameters() that returns "
                "numbers."
            ) from error


def dense_kernel(kernel: AbstractKernel, X: Float, sigma: float) -> DenseSymmetric:
    """Kernel matrix K of data X (m, d) in memory, with all entries."""
    inner = X @ X.T
    norms = np.diagonal(inner).copy()
    return DenseSymmetric(kernel.gram(inner, norms, norms, sigma))


def low_rank_kernel(kernel: AbstractKernel, X: Float, sigma: float) -> LowRankSymmetric | None:
    """Kernel matrix K of data X (m, d) in low rank, complete up to rounding errors.

    Returns None if it needs more than 256 directions, or more than m / 4. All samples are
    candidates for pivots, so no direction is missed.
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

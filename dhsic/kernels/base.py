r"""A kernel on data states three facts: its Gram matrix, its loss, its expansion.

All of them are functions of one statistic that is additive over features, the inner products
``G = X X'`` of the standardised data. Removing feature j with column x changes the Gram matrix by

    ``loss = K(S \ j) - K(S)``                                              (m, m)

and HSIC by ``<W, loss>``. Where that function of ``(x_i, x_i')`` is (nearly) a short sum of
products ``left(x_i) right(x_i')`` times a matrix that does not depend on j, the kernel says so
by an `Expansion`: then one matrix product scores a whole block of features.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from dhsic._typing import Array, Float


@dataclass(frozen=True, slots=True)
class Term:
    """One summand ``sum_ab A_ab left(x_a) right(x_b)`` with ``A = W o base``.

    Attributes
    ----------
    base : int
        Which base matrix; see `AbstractKernel.base`.
    right_is_one : bool
        The right function is 1: the row sums of A do, no product is needed.
    """

    base: int
    right_is_one: bool = False


@dataclass(frozen=True, slots=True)
class Expansion:
    r"""``<W, K(S \ j) - K(S)>`` as a sum of terms, for all features of a block at once.

    Attributes
    ----------
    terms : tuple of Term
        The summands.
    lefts, rights : callable
        ``lefts(X)`` and ``rights(X)``, X (c, m) with a feature a row, give the functions of each
        side, lists of arrays like X in the order of the terms; None for a right function that
        is 1. Left functions are new arrays.
    magnitudes : callable
        ``magnitudes(peak, fourth)``: per term, the size of ``||left|| ||right|| / m``, (c,),
        where ``peak = max_i |x_i|`` and ``fourth = mean_i x_i^4``: the scale of its rounding.
    remainder : callable or None
        ``remainder(peak, fourth)``: a bound on the neglected part divided by ``m ||A||_F``,
        (c,). None where the expansion is exact.
    """

    terms: tuple[Term, ...]
    lefts: Callable[[Array], list[Array]]
    rights: Callable[[Array], list[Array | None]]
    magnitudes: Callable[[Float, Float], list[Float]]
    remainder: Callable[[Float, Float], Float] | None = None

    @property
    def n_products(self) -> int:
        """Matrix products that a block costs."""
        return sum(not t.right_is_one for t in self.terms)


class AbstractKernel(ABC):
    """A kernel on data; `sigma` is ignored by kernels that have no bandwidth."""

    name: ClassVar[str]
    has_bandwidth: ClassVar[bool] = False
    #: HSIC is a sum over features: no loop is needed (JMLR 5.1.1).
    is_additive: ClassVar[bool] = False

    @property
    @abstractmethod
    def exact_order(self) -> int | None:
        """Order at which the expansion is exact; None for an infinite series."""

    @abstractmethod
    def gram(self, inner: Float, rows: Float, columns: Float, sigma: float) -> Float:
        """Part of K, (r, c), a new array.

        `inner` (r, c) is that part of ``G = X X'``; `rows` (r,) and `columns` (c,) are the
        diagonal of G there.
        """

    @abstractmethod
    def loss(
        self, inner: Float, rows: Float, columns: Float, x: Float, y: Float, sigma: float
    ) -> Float:
        r"""Part of ``K(S \ j) - K(S)``, (r, c), without cancellation.

        `inner`, `rows` and `columns` as of `gram`; x (r,) and y (c,) are column j there.
        """

    def base(self, key: int, inner: Float, rows: Float, columns: Float, sigma: float) -> Float:
        """Part of base matrix `key` of the expansion, (r, c), a new array; K by default."""
        del key
        return self.gram(inner, rows, columns, sigma)

    @abstractmethod
    def expansion(self, order: int, sigma: float) -> Expansion:
        """Terms up to `order`."""

    def factor(self, squared_difference: Float, sigma: float) -> Float | None:
        r"""``K(S \ j) / K(S) - 1`` as a function of ``(x_i - x_i')^2``; None if not a product.

        A kernel that is a product over features has an exact expansion on few-valued features:
        functions on q levels are spanned by q - 1 indicators besides the constant.
        """
        del squared_difference, sigma
        return None

    def parameters(self) -> dict[str, float]:
        """What identifies the kernel besides its name."""
        return {}

r"""The Gaussian kernel ``k(x, x') = exp(-sigma ||x - x'||^2)`` (JMLR 5.1.3).

Removing feature j multiplies the kernel by ``exp(sigma (x - y)^2)``, where x and y are the values
of feature j in two samples. This is a sum of symmetric products with ``e(x) = exp(sigma x^2)``:

    ``exp(sigma (x - y)^2) = e(x) e(y) sum_q (-2 sigma x y)^q / q!``.

The term q = 0 is ``e(x) e(y) = 1 + (e(x) - 1) + (e(y) - 1) + (e(x) - 1) (e(y) - 1)``, where 1 is
the kernel itself. Only the last summand needs a matrix product, and it is about as large as the
term q = 2. The expansion of order P has the terms q <= P, and this summand if P >= 2.

Orders 2 and 3 compute this summand and the term q = 2 by one product. With ``u = sigma x^2`` and
``v = sigma y^2`` their sum is, up to third order in u and v, ``3 u v g(u) g(v)`` with ``g(u) =
1 + 5/6 u + 7/18 u^2``, and the remainder,

    ``(e^u - 1) (e^v - 1) + 2 u v e^(u + v) - 3 u v g(u) g(v) = u^2 v^2 / 6 + ...``,

is a power series with positive coefficients, so it is largest at ``u = v = U = sigma max|x|^2``,
and then at most ``U^4 (1/6 + U e^(2 U))``, term by term.

These functions depend on sigma, which changes in every round. There is also a series in powers of x
only, up to order P in sigma. With it, many rounds can use the same few numbers per feature:

    ``exp(sigma (x - y)^2) - 1 = sum_p sigma^p / p! sum_a C(2p, a) (-1)^a x^a y^(2p - a)``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from math import comb, factorial
from typing import ClassVar

import numpy as np

from dhsic._typing import Array, Float
from dhsic.kernels.base import AbstractKernel, Expansion, PowerSeries, Product, Term
from dhsic.namespace import into, namespace_of


def squared_distances(inner: Float, rows: Float, columns: Float) -> Float:
    """Squared distances ``D_ij = G_ii + G_jj - 2 G_ij``, at least 0: (r, c).

    `inner` (r, c), `rows` (r,) and `columns` (c,) are parts of G and its diagonal.
    """
    D = inner * -2.0
    D += rows[:, None]
    D += columns[None, :]
    return into(D, namespace_of(D).maximum, D, 0.0)


#: Lowest order that includes even powers; and highest order at which they share one product.
SECOND, TOGETHER = 2, 3
#: Coefficients of the polynomial g(u).
G = 1.0, 5 / 6, 7 / 18


@lru_cache(maxsize=256)
def _terms(order: int, sigma: float) -> tuple[Term, ...]:
    terms = [Term(0, 2.0, linear=True)]
    if order >= SECOND:
        terms.append(Term(0, 3.0 if order <= TOGETHER else 1.0))
    coefficient = 1.0
    for q in range(1, order + 1):
        coefficient *= -2 * sigma / q
        if not _is_together(q, order):
            terms.append(Term(0, coefficient))
    return tuple(terms)


def _is_together(q: int, order: int) -> bool:
    """Whether term q of the expansion is computed in the shared product of even powers."""
    return q == SECOND and order <= TOGETHER


@dataclass(frozen=True)
class Gaussian(AbstractKernel):
    """The Gaussian kernel ``exp(-sigma D)``: characteristic, so HSIC is 0 only at independence."""

    name: ClassVar[str] = "gaussian"
    has_bandwidth: ClassVar[bool] = True
    scored_by = "series"
    low_rank: ClassVar[bool] = True
    is_product: ClassVar[bool] = True
    has_normal_frequencies: ClassVar[bool] = True

    def gram(self, inner: Float, rows: Float, columns: Float, sigma: float) -> Float:
        """Compute a tile of ``exp(-sigma D)`` from squared distances D.

        Negative D (rounding errors) count as 0.
        """
        K = inner * (2 * sigma)
        K -= (sigma * rows)[:, None]
        K -= sigma * columns
        xp = namespace_of(K)
        return into(K, xp.exp, into(K, xp.minimum, K, 0.0))

    def decrement(
        self, inner: Float, rows: Float, columns: Float, x: Float, y: Float, sigma: float
    ) -> Float:
        """Compute the change of the kernel matrix K without a feature, (r, c).

        It is ``K o (exp(sigma delta^2) - 1)`` with the differences ``delta = x_i - y_i'`` of its
        values. If this is large, it is computed as ``exp(sigma (delta^2 - D)) - K``, with squared
        distances D, which is accurate even if K underflows.
        """
        t = x[:, None] - y[None, :]
        t *= t
        return self._without(squared_distances(inner, rows, columns), t, sigma)

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
        """Compute `decrement` for a group of features; ``delta^2`` is a sum over the group."""
        t = squared_distances(part, part_rows, part_columns)
        return self._without(squared_distances(inner, rows, columns), t, sigma)

    def _without(self, D: Float, t: Float, sigma: float) -> Float:
        """Compute ``exp(-sigma (D - t)) - exp(-sigma D)``; D and t are overwritten."""
        xp = namespace_of(D)
        t *= sigma
        exponent = D
        exponent *= -sigma
        K: Float = xp.exp(exponent)
        if xp.max(t) < 1:
            K *= into(t, xp.expm1, t)
            return K
        exponent += t
        without = into(exponent, xp.exp, into(exponent, xp.minimum, exponent, 0.0))
        return xp.where(t < 1, K * xp.expm1(xp.minimum(t, 1.0)), without - K)

    def factor(self, squared_difference: Float, sigma: float) -> Float:
        return namespace_of(squared_difference).expm1(sigma * squared_difference)

    def exponent(self, max_abs: Float, sigma: float) -> Float:
        """Bound ``4 sigma max_abs^2`` on the logarithm of ``1 + factor``, (c,).

        Two values of a feature differ by at most ``2 max_abs``.
        """
        return np.asarray(4 * sigma * max_abs**2)

    def expansion(self, order: int, sigma: float) -> Expansion:
        sigma = float(sigma)  # a NumPy number would convert float32 to float64
        return Expansion(
            _terms(order, sigma),
            partial(_functions, order=order, sigma=sigma),
            partial(_magnitudes, order, sigma),
            partial(_remainder, order, sigma),
        )

    def power_series(self, order: int, sigma: float) -> PowerSeries:
        products = [
            Product(0, sigma**p / factorial(p) * comb(2 * p, a) * (-1) ** a, a, 2 * p - a)
            for p in range(1, order + 1)
            for a in range(2 * p + 1)
        ]
        neglected = partial(_neglected, order + 1, sigma)
        return PowerSeries(tuple(products), of_differences=True, neglected=neglected)


def _neglected(p: int, sigma: float, max_abs: Float, fourth_moment: Float) -> Float:
    """Root mean square of term p of the series, ``(sigma delta^2)^p / p!``, (c,).

    If it is small, later terms are small too. ``mean delta^(4p)`` is about ``2^(2p) mean x^(4p)``,
    as for normal values. Moments of x above the fourth are assumed to be the geometric mean of
    their bounds by `max_abs`.
    """
    with np.errstate(over="ignore"):
        moment = fourth_moment ** ((p + 1) / 2) * max_abs ** (2 * p - 2)
        return np.asarray((2 * sigma) ** p / factorial(p) * np.sqrt(moment))


def _functions(X: Array, order: int, sigma: float) -> Iterator[Array]:
    """Yield the functions of the terms: ``e - 1`` (linear), even powers, then other ``e x^q``."""
    u = sigma * X
    u *= X
    f = namespace_of(u).expm1(u)
    yield f
    if order > TOGETHER:
        yield f
    elif order >= SECOND:
        g = u * G[2]
        g += G[1]
        g *= u
        g += G[0]
        g *= u
        yield g
    f += 1
    for q in range(1, order + 1):
        f *= X
        if not _is_together(q, order):
            yield f


def _magnitudes(order: int, sigma: float, max_abs: Float, fourth_moment: Float) -> list[Float]:
    """Magnitudes of the terms, see `Expansion`.

    The bounds use ``e <= exp(sigma max_abs^2)`` and ``e - 1 <= sigma x^2 e``.
    """
    with np.errstate(over="ignore"):
        U = sigma * max_abs * max_abs
        growth = np.exp(U)
        mean_square = np.sqrt(fourth_moment)  # upper bound of the mean of x^2
        sizes = [2 * sigma * mean_square * growth]
        if order >= SECOND:
            together = 3 * (G[0] + U * (G[1] + U * G[2])) ** 2
            largest = together if order <= TOGETHER else growth**2
            sizes.append(largest * sigma**2 * fourth_moment)
        sizes.append(2 * sigma * mean_square * growth**2)
        for q in range(2, order + 1):
            if not _is_together(q, order):
                first = (2 * sigma) ** q / factorial(q)
                sizes.append(first * fourth_moment * max_abs ** (2 * q - 4) * growth**2)
    return sizes


def _remainder(order: int, sigma: float, max_abs: Float, fourth_moment: Float) -> Float:
    """Bound on the remainder after order P, and on the error of the even terms, (c,).

    The remainder is ``sum_{q > P} (2 sigma)^q / q! ||e x^q||^2 / m``. With ``e^2 <= exp(2 sigma
    max_abs^2)``, it is at most its first term times the same exponential.
    """
    q = order + 1
    with np.errstate(over="ignore"):
        growth = np.exp(2 * sigma * max_abs * max_abs)
        first = (2 * sigma) ** q / factorial(q)
        bound = first * fourth_moment * max_abs ** (2 * q - 4) * growth**2
        if order < SECOND:
            bound = bound + sigma**2 * fourth_moment * growth
        elif order <= TOGETHER:
            U = sigma * max_abs * max_abs
            even_remainder = sigma**4 * fourth_moment * max_abs**4 * (1 / 6 + U * np.exp(2 * U))
            bound = bound + even_remainder
    return np.asarray(bound)

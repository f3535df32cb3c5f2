r"""The Gaussian kernel ``k(x, x') = exp(-sigma ||x - x'||^2)`` (JMLR 5.1.3).

Without feature j the kernel is multiplied by ``exp(sigma (x - y)^2)``, x and y the values of
feature j in two samples. As a function of y,

    ``exp(sigma (x - y)^2) = e(x) sum_b h_b(x) y^b``,   ``e(x) = exp(sigma x^2)``,
    ``h_0 = 1``,  ``h_1 = -2 sigma x``,  ``(b + 1) h_{b+1} = 2 sigma (h_{b-1} - x h_b)``.

With the products ``A x^b`` for b <= P at hand, every monomial ``f_ab x^a y^b`` with
min(a, b) <= P costs nothing more. A being symmetric, each goes to the product of its smaller
exponent: the left function of ``A x^b`` is ``f_bb x^b + 2 sum_{a > b} f_ab x^a``, that is
``2 e h_b`` less the monomials that belong elsewhere. What is neglected has both exponents
above P.

For many products the product form wins, ``e(x) e(y) sum_q (-2 sigma x y)^q / q!``: it needs one
product more for the q = 0 term, but its series converges in ``2 sigma x y``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import comb, factorial
from typing import ClassVar

import numpy as np

from dhsic._typing import Array, Float
from dhsic.kernels.base import AbstractKernel, Expansion, Term


def _coefficient(a: int, b: int) -> float:
    """Of ``x^a y^b`` in ``exp(sigma (x - y)^2)``, without ``sigma^((a + b) / 2)``."""
    n, odd = divmod(a + b, 2)
    return 0.0 if odd else (-1) ** a * comb(2 * n, a) / factorial(n)


def squared_distances(inner: Float, rows: Float, columns: Float) -> Float:
    """``D_ij = G_ii + G_jj - 2 G_ij``, not below 0; (r, c) from parts of G and its diagonal."""
    D = inner * -2.0
    D += rows[:, None]
    D += columns[None, :]
    return np.maximum(D, 0.0, out=D)


#: Up to this order the monomials, above it the product form.
MOST_MONOMIALS = 6


@lru_cache(maxsize=64)
def _terms(n_products: int) -> tuple[Term, ...]:
    return (Term(0, right_is_one=True), *(Term(0) for _ in range(n_products)))


@lru_cache(maxsize=64)
def _surplus(order: int) -> tuple[tuple[tuple[int, int, float], ...], ...]:
    """What ``2 e h_b`` has too much for b = 0..P: ``f_bb x^b`` once and, a < b, ``f_ab x^a`` twice.

    Each as (a, n, coefficient), to be multiplied by ``sigma^n``.
    """
    return tuple(
        tuple(
            (a, (a + b) // 2, (1 if a == b else 2) * _coefficient(a, b))
            for a in range(b + 1)
            if (a + b) % 2 == 0 and b > 0
        )
        for b in range(order + 1)
    )


@dataclass(frozen=True)
class Gaussian(AbstractKernel):
    """``exp(-sigma D)``: characteristic, so HSIC vanishes only at independence."""

    name: ClassVar[str] = "gaussian"
    has_bandwidth: ClassVar[bool] = True

    @property
    def exact_order(self) -> int | None:
        """The series is infinite."""
        return None

    def gram(self, inner: Float, rows: Float, columns: Float, sigma: float) -> Float:
        """``exp(-sigma D)``."""
        K = squared_distances(inner, rows, columns)
        K *= -sigma
        return np.exp(K, out=K)

    def loss(
        self, inner: Float, rows: Float, columns: Float, x: Float, y: Float, sigma: float
    ) -> Float:
        """``K o (exp(sigma delta^2) - 1)``; where that is large, ``exp(sigma (delta^2 - D)) - K``.

        The second form is right also where K is too small for a number.
        """
        t = np.subtract.outer(x, y)
        t *= t
        t *= sigma
        exponent = squared_distances(inner, rows, columns)
        exponent *= -sigma
        K = np.exp(exponent)
        if t.max(initial=0.0) < 1:
            return np.multiply(K, np.expm1(t, out=t), out=K)
        exponent += t
        without = np.exp(np.minimum(exponent, 0.0, out=exponent), out=exponent)
        return np.where(t < 1, K * np.expm1(np.minimum(t, 1.0)), without - K)

    def factor(self, squared_difference: Float, sigma: float) -> Float | None:
        """``exp(sigma delta^2) - 1``."""
        return np.expm1(sigma * squared_difference)

    def expansion(self, order: int, sigma: float) -> Expansion:
        """`order` products: of monomials, or for high orders of ``e x^q``."""
        monomial = order <= MOST_MONOMIALS

        def lefts(X: Array) -> list[Array]:
            return _monomial_lefts(X, order, sigma) if monomial else _form_lefts(X, order, sigma)

        def rights(X: Array) -> list[Array | None]:
            return _monomial_rights(X, order) if monomial else _form_rights(X, order, sigma)

        def magnitudes(peak: Float, fourth: Float) -> list[Float]:
            return _magnitudes(order, sigma, peak, fourth)

        def remainder(peak: Float, fourth: Float) -> Float:
            bound = _monomial_remainder if monomial else _product_remainder
            return bound(order, sigma, peak, fourth)

        return Expansion(_terms(order), lefts, rights, magnitudes, remainder)


def _monomial_rights(X: Array, order: int) -> list[Array | None]:
    """``x^b`` for b = 0..P."""
    powers: list[Array | None] = [None, X]
    power = X
    for _ in range(2, order + 1):
        power = power * X
        powers.append(power)
    return powers


def _monomial_lefts(X: Array, order: int, sigma: float) -> list[Array]:
    """``2 e h_b`` less the surplus, b = 0..P; ``e - 1`` stands for ``e h_0``."""
    squares = X * X
    left = squares * sigma
    np.expm1(left, out=left)
    left *= 2
    lefts = [left]
    previous, current = None, left + 2  # 2 e h_(b-1), 2 e h_b
    powers = [np.ones((), dtype=X.dtype), X, squares]
    for b, surplus in enumerate(_surplus(order)[1:], start=1):
        following = X * current
        if previous is not None:
            np.subtract(previous, following, out=following)
        following *= (2 if b > 1 else -2) * sigma / b
        previous, current = current, following
        if b == len(powers):
            powers.append(powers[b - 1] * X)
        left = current if b == order else current.copy()
        for a, n, coefficient in surplus:
            left -= coefficient * sigma**n * powers[a]
        lefts.append(left)
    return lefts


def _form_rights(X: Array, order: int, sigma: float) -> list[Array | None]:
    """``v_q = e x^q`` for q < P behind the 1; ``e - 1`` stands for ``v_0``."""
    e1 = np.expm1(sigma * (X * X))
    rights: list[Array | None] = [None, e1]
    v = e1 + 1
    for _ in range(1, order):
        v = v * X
        rights.append(v)
    return rights


def _form_lefts(X: Array, order: int, sigma: float) -> list[Array]:
    """``2 (e - 1)`` against 1, then ``(-2 sigma)^q / q! v_q`` against ``v_q``."""
    e1, *others = (v for v in _form_rights(X, order, sigma) if v is not None)
    lefts, coefficient = [2 * e1, e1], 1.0
    for q, v in enumerate(others, start=1):
        coefficient *= -2 * sigma / q
        lefts.append(coefficient * v)
    return lefts


def _magnitudes(order: int, sigma: float, peak: Float, fourth: Float) -> list[Float]:
    """The first term of each left function against ``x^b``, times ``exp(4 sigma peak^2)``."""
    with np.errstate(over="ignore"):
        growth = np.exp(4 * sigma * peak * peak)
        sizes = [2 * sigma * np.sqrt(fourth) * growth] * 2
        for b in range(2, order + 1):
            first = abs(_coefficient(b, b)) * sigma**b
            sizes.append(first * fourth * peak ** (2 * b - 4) * growth)
    return sizes[: order + 1]


def _product_remainder(order: int, sigma: float, peak: Float, fourth: Float) -> Float:
    """Bound on ``sum_{q >= P} (2 sigma)^q / q! ||e x^q||^2 / m``.

    ``e^2 <= exp(2 sigma peak^2)``, and the sum is at most its first term times as much again.
    """
    with np.errstate(over="ignore"):
        growth = np.exp(4 * sigma * peak * peak)
        first = (2 * sigma) ** order / factorial(order)
        return np.asarray(first * fourth * peak ** (2 * order - 4) * growth)


def _monomial_remainder(order: int, sigma: float, peak: Float, fourth: Float) -> Float:
    """Bound on ``sum_{a,b > P} |f_ab| ||x^a|| ||x^b|| / m`` by Cauchy-Schwarz.

    With ``||x^a|| <= peak^(a-P-1) ||x^(P+1)||`` the sum is at most its first term times
    ``1 + c (exp(4 sigma peak^2) - 1)``, since ``sum_a C(2n, a) <= 4^n`` and n! grows.
    """
    q = order + 1
    first = comb(2 * q, q) / factorial(q) * sigma**q
    c = 4.0**q / comb(2 * q, q)
    with np.errstate(over="ignore"):
        tail = 1 + c * np.expm1(4 * sigma * peak * peak)
        moment = fourth * peak ** (2 * q - 4) if q >= 2 else np.sqrt(fourth)
    return np.asarray(first * moment * tail)

r"""Radial kernels ``k(x, x') = kappa(z)``, ``z = sigma ||x - x'||^2`` (JMLR 5.1.3).

Their profiles kappa are completely monotone, ``(-1)^p kappa^(p) >= 0``, which makes them kernels in
any number of dimensions. Without feature j, z falls by ``t = sigma (x - y)^2``, x and y the values
of feature j in two samples, and Taylor's series about z has positive terms only,

    ``kappa(z - t) - kappa(z) = sum_p c_p(z) t^p``,    ``c_p = (-1)^p kappa^(p) / p!``.

Each ``(x - y)^(2p)`` falls into products ``x^a y^(2p-a)``: order p weighs a base matrix of its own,
``c_p(z)``, and takes ``2p - 1`` quadratic forms. What the series leaves out depends on how close
samples are, so it is bounded from the distances, see `dhsic.engines.spread`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from math import comb
from typing import ClassVar

import numpy as np

from dhsic._typing import Array, Float
from dhsic.kernels.base import AbstractKernel, Expansion, Term
from dhsic.kernels.gaussian import squared_distances
from dhsic.namespace import namespace_of

#: Squared distances below this part of the squared norms are none: what is left of a difference
#: of sums is rounding, and a profile that is steep at 0 would take it for a distance. So samples
#: nearer to each other than a millionth of their norms are equal.
EQUAL = 1e-12


class AbstractRadial(AbstractKernel):
    """Profile, fall and Taylor coefficients are all that a radial kernel says of itself."""

    has_bandwidth: ClassVar[bool] = True

    @abstractmethod
    def profile(self, z: Float) -> Float:
        """``kappa(z)``, a new array like z; z is not below 0."""

    @abstractmethod
    def fall(self, z: Float, t: Float) -> Float:
        """``kappa(z - t) - kappa(z)`` without cancellation, for ``0 <= t <= z``."""

    @abstractmethod
    def coefficient(self, order: int, z: Float) -> Float:
        """``c_p(z) = (-1)^p kappa^(p)(z) / p!``, at least 0 and falling, for z > 0."""

    @property
    def exact_order(self) -> int | None:
        """The series is infinite."""
        return None

    def scaled(self, inner: Float, rows: Float, columns: Float, sigma: float) -> Float:
        """Part of ``z = sigma D``, (r, c); 0 where samples are equal but for rounding."""
        D = squared_distances(inner, rows, columns)
        return _not_rounding(D, _rounding(rows, columns)) * float(sigma)

    def gram(self, inner: Float, rows: Float, columns: Float, sigma: float) -> Float:
        """``kappa(sigma D)``."""
        return self.profile(self.scaled(inner, rows, columns, sigma))

    def loss(
        self, inner: Float, rows: Float, columns: Float, x: Float, y: Float, sigma: float
    ) -> Float:
        """``kappa(z - t) - kappa(z)``; samples that only feature j tells apart fall to z = 0."""
        scale = float(sigma) ** 0.5
        t = (scale * x[:, None] - scale * y[None, :]) ** 2
        z = self.scaled(inner, rows, columns, sigma)
        return self.fall_of(z, t, float(sigma) * rows, float(sigma) * columns)

    def fall_of(self, z: Float, t: Float, rows: Float, columns: Float) -> Float:
        """`fall` where t, of a difference of values, may exceed z by rounding.

        `rows` and `columns` are scaled squared norms; what is left of z and is small beside them
        is nothing.
        """
        xp = namespace_of(z)
        rest = z - t
        least = 2 * EQUAL * max(float(xp.max(rows)), float(xp.max(columns)))
        if float(xp.min(rest)) <= least:  # else none of them is: the usual case, without a look
            rest = _not_rounding(rest, _rounding(rows, columns))
        return self.fall(z, z - rest)

    def base(self, key: int, inner: Float, rows: Float, columns: Float, sigma: float) -> Float:
        """K for 0, else ``c_p(z)`` for term p; 0 where samples are equal: no feature differs."""
        z = self.scaled(inner, rows, columns, sigma)
        if key == 0:
            return self.profile(z)
        xp = namespace_of(z)
        apart = z > 0
        c = self.coefficient(key, xp.where(apart, z, xp.ones_like(z)))
        base: Float = xp.where(apart, c, xp.zeros_like(z))
        return base

    def expansion(self, order: int, sigma: float) -> Expansion:
        """Terms up to ``t^order``; its remainder is not known from the feature alone."""

        def functions(X: Array) -> Iterator[Array]:
            return _functions(X, order, sigma)

        def magnitudes(peak: Float, fourth: Float) -> list[Float]:
            return _magnitudes(order, sigma, peak, fourth)

        return Expansion(_terms(order), functions, magnitudes, _unknown)


def _rounding(rows: Float, columns: Float) -> Float:
    """Squared distances up to here are rounding, (r, c)."""
    least: Float = EQUAL * (rows[:, None] + columns[None, :])
    return least


def _not_rounding(D: Float, least: Float) -> Float:
    xp = namespace_of(D)
    kept: Float = xp.where(least >= D, xp.zeros_like(D), D)
    return kept


def _unknown(peak: Float, fourth: Float) -> Float:
    del fourth
    return np.full(peak.shape, np.inf)


def _terms(order: int) -> tuple[Term, ...]:
    """Of ``(x - y)^(2p) = sum_a C(2p, a) (-1)^a x^a y^(2p-a)``, p = 1..order.

    The pair ``x^a``, ``x^(2p-a)`` is half the difference of the forms of its sum and difference.
    """
    terms = []
    for p in range(1, order + 1):
        terms.append(Term(p, 2.0, linear=True))
        terms.append(Term(p, float((-1) ** p * comb(2 * p, p))))
        for a in range(1, p):
            half = float((-1) ** a * comb(2 * p, a)) / 2
            terms += [Term(p, half), Term(p, -half)]
    return tuple(terms)


def _functions(X: Array, order: int, sigma: float) -> Iterator[Array]:
    """``u^(2p)`` against 1, ``u^p``, then ``f + g`` and ``f - g``; ``u = sqrt(sigma) x``."""
    xp = namespace_of(X)
    u = X * float(sigma) ** 0.5
    powers = [u, u]  # powers[n] is u^n
    for _ in range(2, 2 * order + 1):
        powers.append(powers[-1] * u)
    peak = xp.max(xp.abs(u), axis=1)
    fourth = xp.vecdot(u * u, u * u) / u.shape[1] if order > 1 else peak
    for p in range(1, order + 1):
        yield powers[2 * p]
        yield powers[p]
        for a in range(1, p):
            even = _balance(p, a, peak, fourth)[:, None]
            f, g = powers[a] * even, powers[2 * p - a] / even
            yield f + g
            yield f - g


def _balance(p: int, a: int, peak: Array, fourth: Array) -> Array:
    """Factor of ``u^a`` that makes it, by the bounds of `_magnitudes`, as large as ``u^(2p-a)``."""
    if a == 1:
        balance: Array = fourth**0.125 * peak ** (p - 1.5)
        return balance
    return peak ** float(p - a)


def _magnitudes(order: int, sigma: float, peak: Float, fourth: Float) -> list[Float]:
    """With a mean of ``x^(2n)`` of at most ``fourth peak^(2n-4)``, and for n = 1 its root."""
    spread = np.sqrt(fourth)
    sizes = []
    for p in range(1, order + 1):
        scale = float(sigma) ** p
        sizes.append(2 * scale * spread * peak ** (2 * p - 2))
        middle = spread if p == 1 else fourth * peak ** (2 * p - 4)
        sizes.append(comb(2 * p, p) * scale * middle)
        for a in range(1, p):
            norm = fourth**0.75 * peak ** (2 * p - 3) if a == 1 else fourth * peak ** (2 * p - 4)
            sizes += [comb(2 * p, a) / 2 * scale * 4 * norm] * 2
    return sizes

r"""Radial kernels ``k(x, x') = kappa(z)``, ``z = sigma ||x - x'||^2`` (JMLR 5.1.3).

Their profiles kappa are completely monotone, ``(-1)^p kappa^(p) >= 0``, so they are kernels in any
number of dimensions. Removing feature j decreases z by ``t = sigma (x - y)^2``, where x and y are
the values of feature j in two samples. Taylor's series about z has only positive terms,

    ``kappa(z - t) - kappa(z) = sum_p c_p(z) t^p``,    ``c_p = (-1)^p kappa^(p) / p!``.

Each ``(x - y)^(2p)`` is a sum of products ``x^a y^(2p-a)``: order p has its own base matrix,
``c_p(z)``, and takes ``2p - 1`` quadratic forms. The remainder of the series depends on how close
samples are, so it is bounded from the distances, see `dhsic.engines.scoring_problem`.

`Laplace` is an exponential of the distance, not of its square (JMLR 5.1.3); `InverseDistance` is
``1 / (||x - x'|| + eps)`` up to a factor (JMLR 9.2, "dis"); `RationalQuadratic` is
``(1 + sigma D / alpha)^(-alpha)``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from math import comb, factorial, prod
from typing import ClassVar

import numpy as np

from dhsic._typing import Array, Float
from dhsic.errors import InputError
from dhsic.kernels.base import AbstractKernel, Expansion, Term
from dhsic.kernels.gaussian import squared_distances
from dhsic.namespace import namespace_of
from dhsic.validation import is_number

#: Squared distances below this fraction of the squared norms count as 0: they are rounding errors,
#: which a profile that is steep at 0 would amplify. So samples count as equal if their distance is
#: less than a millionth of their norms.
EQUAL = 1e-12


class AbstractRadial(AbstractKernel):
    """Base class of radial kernels; subclasses define the profile and its Taylor coefficients."""

    has_bandwidth: ClassVar[bool] = True
    scored_by = "taylor"

    @abstractmethod
    def profile(self, z: Float) -> Float:
        """Compute ``kappa(z)`` for z >= 0, as a new array; ``kappa(0)`` must be 1."""

    @abstractmethod
    def change(self, z: Float, t: Float) -> Float:
        """Compute ``kappa(z - t) - kappa(z)`` without cancellation, for ``0 <= t <= z``."""

    @abstractmethod
    def coefficient(self, order: int, z: Float) -> Float:
        """Compute ``c_p(z) = (-1)^p kappa^(p)(z) / p!``, p = `order`, for z > 0.

        It is not negative, and decreases with z.
        """

    def scaled(self, inner: Float, rows: Float, columns: Float, sigma: float) -> Float:
        """Compute a tile of the scaled squared distances ``z = sigma D``, (r, c).

        An entry is 0 if samples are equal up to rounding.
        """
        D = squared_distances(inner, rows, columns)
        return _not_rounding(D, rows, columns) * float(sigma)

    def gram(self, inner: Float, rows: Float, columns: Float, sigma: float) -> Float:
        return self.profile(self.scaled(inner, rows, columns, sigma))

    def decrement(
        self, inner: Float, rows: Float, columns: Float, x: Float, y: Float, sigma: float
    ) -> Float:
        """Compute ``kappa(z - t) - kappa(z)``; z - t is 0 if samples differ only in feature j."""
        scale = float(sigma) ** 0.5
        t = (scale * x[:, None] - scale * y[None, :]) ** 2
        z = self.scaled(inner, rows, columns, sigma)
        return self.change_of(z, t, float(sigma) * rows, float(sigma) * columns)

    def change_of(self, z: Float, t: Float, rows: Float, columns: Float) -> Float:
        """Compute `change` for t that may exceed z because of rounding errors.

        `rows` and `columns` are squared norms times sigma; if ``z - t`` is small relative to them,
        it counts as 0.
        """
        xp = namespace_of(z)
        remaining = z - t
        least = 2 * EQUAL * max(float(xp.max(rows)), float(xp.max(columns)))
        if float(xp.min(remaining)) <= least:  # rare
            remaining = _not_rounding(remaining, rows, columns)
        return self.change(z, z - remaining)

    def base(self, key: int, inner: Float, rows: Float, columns: Float, sigma: float) -> Float:
        """Compute a tile of the kernel matrix for key 0, else of ``c_p(z)`` with p = `key`.

        ``c_p(z)`` are the coefficients of order p of the kernel's power series at scaled squared
        distances z, and 0 for equal samples.
        """
        z = self.scaled(inner, rows, columns, sigma)
        if key == 0:
            return self.profile(z)
        xp = namespace_of(z)
        differ = z > 0
        c = self.coefficient(key, xp.where(differ, z, xp.ones_like(z)))
        return xp.where(differ, c, xp.zeros_like(z))

    def expansion(self, order: int, sigma: float) -> Expansion:
        """Expansion up to ``t^order``; its remainder also depends on the distances of samples."""
        functions = partial(_functions, order=order, sigma=sigma)
        return Expansion(_terms(order), functions, partial(_magnitudes, order, sigma), _unknown)


def _not_rounding(D: Float, rows: Float, columns: Float) -> Float:
    """Set squared distances (r, c) to 0 if they are only rounding errors."""
    xp = namespace_of(D)
    least = EQUAL * (rows[:, None] + columns[None, :])
    return xp.where(least >= D, xp.zeros_like(D), D)


def _unknown(max_abs: Float, fourth_moment: Float) -> Float:
    del fourth_moment
    return np.full(max_abs.shape, np.inf)


def _roots(z: Float, t: Float) -> tuple[Float, Float, Float]:
    """Roots ``u = sqrt(2 z)``, ``v = sqrt(2 (z - t))``, and ``u - v = 2 t / (u + v)``."""
    xp = namespace_of(z)
    u, v = xp.sqrt(2.0 * z), xp.sqrt(2.0 * (z - t))
    return u, v, 2.0 * t / xp.where(u > 0, u + v, xp.ones_like(u))


def _terms(order: int) -> tuple[Term, ...]:
    """Terms of ``(x - y)^(2p) = sum_a C(2p, a) (-1)^a x^a y^(2p-a)``, p = 1..order.

    The product of ``x^a`` and ``x^(2p-a)`` is computed from the quadratic forms of their sum and
    their difference.
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
    """Yield the functions of the terms in order, for every p, with ``u = sqrt(sigma) x``.

    They are ``u^(2p)`` (linear), ``u^p``, then ``f + g`` and ``f - g`` for pairs of powers f, g.
    """
    xp = namespace_of(X)
    u = X * float(sigma) ** 0.5
    powers = [u, u]  # powers[n] is u^n
    for _ in range(2, 2 * order + 1):
        powers.append(powers[-1] * u)
    max_abs = xp.max(xp.abs(u), axis=1)
    fourth_moment = xp.vecdot(u * u, u * u) / u.shape[1] if order > 1 else max_abs
    for p in range(1, order + 1):
        yield powers[2 * p]
        yield powers[p]
        for a in range(1, p):
            # scales f and g so that both are about equally large, by the bounds of `_magnitudes`
            even = (
                fourth_moment**0.125 * max_abs ** (p - 1.5) if a == 1 else max_abs ** float(p - a)
            )
            f, g = powers[a] * even[:, None], powers[2 * p - a] / even[:, None]
            yield f + g
            yield f - g


def _magnitudes(order: int, sigma: float, max_abs: Float, fourth_moment: Float) -> list[Float]:
    """Magnitudes of the terms, from ``mean x^(2n) <= mean(x^4) max|x|^(2n-4)``.

    For n = 1 the bound is the square root of ``mean(x^4)``.
    """
    second_moment = np.sqrt(fourth_moment)
    sizes = []
    for p in range(1, order + 1):
        scale = float(sigma) ** p
        sizes.append(2 * scale * second_moment * max_abs ** (2 * p - 2))
        middle = second_moment if p == 1 else fourth_moment * max_abs ** (2 * p - 4)
        sizes.append(comb(2 * p, p) * scale * middle)
        for a in range(1, p):
            moment, power = (
                (fourth_moment**0.75, 2 * p - 3) if a == 1 else (fourth_moment, 2 * p - 4)
            )
            sizes += [comb(2 * p, a) / 2 * scale * 4 * (moment * max_abs**power)] * 2
    return sizes


@dataclass(frozen=True)
class Laplace(AbstractRadial):
    """``exp(-sqrt(2 sigma D))``, the paper's ``exp(-xi)``: characteristic, with heavy tails.

    As for the Gaussian, sigma is the coefficient of squared distances, so all bandwidth policies
    apply: with ``sigma = 1 / (2 w^2)`` the kernel is ``exp(-||x - x'|| / w)``, and the median
    policy sets w to the median distance. Use it for data with outliers, or for dependence with
    sharp edges, because it distinguishes both small and large distances.
    """

    name: ClassVar[str] = "laplace"

    def profile(self, z: Float) -> Float:
        xp = namespace_of(z)
        return xp.exp(-xp.sqrt(2.0 * z))

    def change(self, z: Float, t: Float) -> Float:
        """Compute ``exp(-u) (exp(u - v) - 1)``, or ``exp(-v) - exp(-u)`` if ``u - v >= 1``."""
        xp = namespace_of(z)
        u, v, gap = _roots(z, t)
        if xp.max(gap) < 1:
            return xp.exp(-u) * xp.expm1(gap)
        little = xp.exp(-u) * xp.expm1(xp.minimum(gap, xp.ones_like(gap)))
        return xp.where(gap < 1, little, xp.exp(-v) - xp.exp(-u))

    def coefficient(self, order: int, z: Float) -> Float:
        """Compute ``exp(-r) theta_{p-1}(r) / (p! r^(2p-1))``, with r = sqrt(2 z).

        theta are the reverse Bessel polynomials, ``theta_n = (2n - 1) theta_{n-1} + r^2
        theta_{n-2}``.
        """
        xp = namespace_of(z)
        r = xp.sqrt(2.0 * z)
        before, theta = r * 0.0 + 1.0, r * 0.0 + 1.0
        for n in range(1, order):
            after = r + 1.0 if n == 1 else (2 * n - 1) * theta + 2.0 * z * before
            before, theta = theta, after
        c: Float = xp.exp(-r) * theta / r
        for p in range(2, order + 1):
            c = c / (2.0 * p * z)
        return c


@lru_cache(maxsize=16)
def _root_series(order: int) -> tuple[float, ...]:
    """Coefficients b_1, ..., b_order of ``1 - sqrt(1 - y) = sum_n b_n y^n``; all are positive."""
    b = [0.5]
    for n in range(2, order + 1):
        b.append(b[-1] * (2 * n - 3) / (2 * n))
    return tuple(b)


@dataclass(frozen=True)
class InverseDistance(AbstractRadial):
    """``eps / (sqrt(2 sigma D) + eps)``: 1 at distance 0, the inverse distance at large distances.

    Parameters
    ----------
    eps : float
        Positive number. Distances below `eps` widths count as about equal. With a smaller `eps`,
        the kernel depends more on the closest pairs of samples.

    Notes
    -----
    The paper's ``1 / (||x - x'|| + eps)`` is this kernel at ``bandwidth=0.5``, divided by `eps`.
    The factor does not change the ranking. Without it HSIC would increase with the width, and
    widths of a grid could not be compared. With the other policies `eps` is in units of the width:
    ``eps / sqrt(2 sigma)``. The diagonal is 1, which the unbiased estimator ignores. Use it for few
    samples in clusters of very different sizes, because it treats all scales alike.
    """

    name: ClassVar[str] = "inverse-distance"
    eps: float = 0.1

    def __post_init__(self) -> None:
        if not (is_number(self.eps) and self.eps > 0):
            raise InputError(f"InverseDistance eps={self.eps!r}; pass a number > 0.")

    def profile(self, z: Float) -> Float:
        return self.eps / (namespace_of(z).sqrt(2.0 * z) + self.eps)

    def change(self, z: Float, t: Float) -> Float:
        """Compute ``eps (u - v) / ((u + eps) (v + eps))``."""
        u, v, gap = _roots(z, t)
        return self.eps * gap / ((u + self.eps) * (v + self.eps))

    def coefficient(self, order: int, z: Float) -> Float:
        """Compute the coefficient of ``y^p`` in ``kappa(z) / (1 - rho sum_n b_n y^n)``.

        It is divided by ``z^p``. With ``y = t / z``, ``rho = r / (r + eps)``, ``r = sqrt(2 z)``,
        this is the reciprocal of a series, which is computed term by term.
        """
        r = namespace_of(z).sqrt(2.0 * z)
        rho = r / (r + self.eps)
        b = _root_series(order)
        e = [rho * 0.0 + 1.0]
        for n in range(1, order + 1):
            e.append(rho * sum(b[k - 1] * e[n - k] for k in range(1, n + 1)))
        c: Float = self.eps / (r + self.eps) * e[order]
        for _ in range(order):
            c = c / z
        return c


@dataclass(frozen=True)
class RationalQuadratic(AbstractRadial):
    """Mixture of Gaussians with different widths; characteristic (in the family of JMLR 5.1.3).

    Parameters
    ----------
    alpha : float
        Positive number. With a smaller alpha, the widths differ more; for large alpha the kernel
        approaches the Gaussian.

    Notes
    -----
    Sigma has the same meaning and policies as for the Gaussian. Use this kernel if no single width
    fits, for example for nested clusters or outliers.
    """

    name: ClassVar[str] = "rational"
    alpha: float = 1.0

    def __post_init__(self) -> None:
        if not (is_number(self.alpha) and self.alpha > 0):
            raise InputError(f"RationalQuadratic alpha={self.alpha!r}; pass a number > 0.")

    def profile(self, z: Float) -> Float:
        return (1.0 + z / self.alpha) ** -self.alpha

    def change(self, z: Float, t: Float) -> Float:
        """Compute ``kappa(z) ((1 - s)^(-alpha) - 1)`` with ``s = t / (alpha + z)``."""
        xp = namespace_of(z)
        s = t / (self.alpha + z)
        return self.profile(z) * xp.expm1(-self.alpha * xp.log1p(-s))

    def coefficient(self, order: int, z: Float) -> Float:
        """Compute ``alpha (alpha + 1) ... / (p! alpha^p) (1 + z / alpha)^(-alpha-p)``."""
        rising = prod(self.alpha + k for k in range(order))
        first = rising / (factorial(order) * self.alpha**order)
        return first * (1.0 + z / self.alpha) ** (-self.alpha - order)

r"""One-dimensional kernels as short sums of products, built numerically.

Adding feature j multiplies a kernel that is a product over features by ``k(x, y)``, x and y the
values of the feature in two samples. With ``h(x) = k(x, 0) - 1`` it falls into

    ``k(x, y) - 1 = h(x) + h(y) + R(x, y)``,    ``R(x, y) = k(x, y) - k(x, 0) - k(0, y) + 1``,

and R is again positive definite: what k says beyond its values against 0. With few features
selected the width is narrow and a series in ``x y`` is long. So R is expanded on the range of the
data instead: its coefficients in products of Chebyshev polynomials are decomposed,

    ``R(x, y) = sum_q f_q(x) f_q(y)``,    ``f_q(x) = sqrt(mu_q) sum_n Q_nq T_n(x / range)``,

the largest mu first. All terms are squares, nothing cancels, and what a sum cut short leaves out of
``R(x, x)`` bounds what it leaves out anywhere: ``R_r(x, y)^2 <= R_r(x, x) R_r(y, y)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from dhsic._typing import Array, Float
from dhsic.kernels.base import AbstractKernel
from dhsic.namespace import moved, namespace_of

#: Degrees that are tried, the least that resolves the kernel is taken.
DEGREES = (8, 12, 16, 24, 32, 48, 64, 96, 144, 216)
#: Coefficients beyond the degree, over the largest, that count as none.
RESOLVED = 1e-14
#: Ranges come in steps of this factor, so that features share expansions.
STEP = 2**0.5
#: Points at which what is left out is looked at.
POINTS = 257


@dataclass(frozen=True, eq=False)
class Separable:
    """Expansion of R on ``[-range, range]``.

    Attributes
    ----------
    range : float
        Largest |x|.
    coefficients : (r, n) float64
        ``sqrt(mu_q) Q_nq``, the largest mu first.
    left : (r + 1,) float64
        Mean of ``R_q(x, x)`` over the range where the first q terms are kept.
    """

    range: float
    coefficients: Float
    left: Float

    def n_terms(self, tolerance: float) -> int:
        """Least number of terms that leaves no more than `tolerance` of R on average."""
        return int(np.argmax(self.left <= max(tolerance, float(self.left[-1]))))

    def functions(self, X: Array, n_terms: int) -> Array:
        """f_1, ..., f_r at X (c, m), in its dtype: (r, c, m)."""
        xp = namespace_of(X)
        n = self.coefficients.shape[1]
        t = X * (1.0 / self.range)
        polynomials = [xp.ones_like(t), t]
        for _ in range(2, n):
            polynomials.append(2.0 * t * polynomials[-1] - polynomials[-2])
        stacked = xp.reshape(xp.stack(polynomials[:n]), (n, -1))  # (n, c m)
        Q = self.coefficients[:n_terms].astype(str(X.dtype).split(".")[-1])
        product = _like(Q, X) @ stacked
        f: Array = xp.reshape(product, (n_terms, *X.shape))
        return f


def separable(kernel: AbstractKernel, sigma: float, max_abs: float) -> Separable | None:
    """Expansion for features of which no value is beyond `max_abs`; None where it would be long.

    Parameters
    ----------
    kernel : AbstractKernel
        One with a `factor`.
    sigma : float
        Its width.
    max_abs : float
        Largest |x|, positive.
    """
    exponent = np.ceil(np.log(max_abs) / np.log(STEP))
    return _separable(kernel, float(sigma), float(STEP**exponent))


@lru_cache(maxsize=512)
def _separable(kernel: AbstractKernel, sigma: float, wide: float) -> Separable | None:
    for n in DEGREES:
        C = _coefficients(kernel, sigma, wide, n)
        largest = np.abs(C).max()
        if np.abs(C[-2:]).max() <= RESOLVED * largest:
            return _decomposed(kernel, sigma, wide, C)
    return None


def beyond_zero(kernel: AbstractKernel, x: Array, y: Array, sigma: float) -> Array:
    """R(x, y), where both are arrays that broadcast."""
    together = _less_one(kernel, x - y, sigma)
    rest: Array = together - _less_one(kernel, x, sigma) - _less_one(kernel, y, sigma)
    return rest


def against_zero(kernel: AbstractKernel, x: Array, sigma: float) -> Array:
    """``h(x) = k(x, 0) - 1``."""
    return _less_one(kernel, x, sigma)


def _less_one(kernel: AbstractKernel, difference: Array, sigma: float) -> Array:
    """``k - 1`` of a difference: what removing it would do, with the sign of sigma turned."""
    return kernel.factor(difference * difference, -sigma)


def _coefficients(kernel: AbstractKernel, sigma: float, wide: float, n: int) -> Float:
    """Coefficients of R in ``T_i(x) T_j(y)``, (n, n), from its values at Chebyshev's points."""
    angles = np.pi * (np.arange(n) + 0.5) / n
    x = wide * np.cos(angles)
    values = beyond_zero(kernel, x[:, None], x[None, :], sigma)
    transform = 2.0 / n * np.cos(np.arange(n)[:, None] * angles[None, :])
    transform[0] *= 0.5
    C = transform @ values @ transform.T
    return np.asarray((C + C.T) / 2)


def _decomposed(kernel: AbstractKernel, sigma: float, wide: float, C: Float) -> Separable:
    mu, Q = np.linalg.eigh(C)
    order = np.argsort(-mu)
    kept = order[mu[order] > np.finfo(float).eps * mu[order[0]]]
    coefficients = np.sqrt(mu[kept])[:, None] * Q[:, kept].T
    x = np.linspace(-wide, wide, POINTS)
    polynomials = np.cos(np.arange(len(C))[:, None] * np.arccos(x / wide))
    parts = np.square(coefficients @ polynomials).mean(axis=1)  # mean of f_q^2
    whole = float(beyond_zero(kernel, x, x, sigma).mean())
    left = np.maximum(whole - np.concatenate([[0.0], np.cumsum(parts)]), 0.0)
    return Separable(wide, coefficients, np.minimum.accumulate(left))


def _like(a: Float, X: Any) -> Array:
    """The array in the namespace and on the device of X."""
    if isinstance(X, np.ndarray):
        return a
    return moved(a, namespace_of(X), X.device)

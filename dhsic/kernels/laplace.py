r"""The Laplace kernels: exponentials of a distance, not of its square (JMLR 5.1.3).

`Laplace` is that of the paper, radial. `LaplaceL1` takes the sum of absolute differences for the
distance instead, which makes it a product over features, like the Gaussian.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dhsic._typing import Float
from dhsic.errors import InputError
from dhsic.kernels.levelled import AbstractLevelled
from dhsic.kernels.radial import AbstractRadial
from dhsic.namespace import namespace_of


@dataclass(frozen=True)
class Laplace(AbstractRadial):
    """``exp(-sqrt(2 sigma D))``, the paper's ``exp(-xi)``: characteristic, with heavy tails.

    Sigma is, as of the Gaussian, the coefficient of squared distances, so every policy for the
    width has its meaning: at ``sigma = 1 / (2 w^2)`` the kernel is ``exp(-||x - x'|| / w)``, and
    the median policy takes the median distance for w. Take it where a few samples lie far out, or
    the dependence has edges: it keeps an eye on small distances and does not go flat at large ones.
    """

    name: ClassVar[str] = "laplace"

    def profile(self, z: Float) -> Float:
        """``exp(-sqrt(2 z))``."""
        xp = namespace_of(z)
        kappa: Float = xp.exp(-xp.sqrt(2.0 * z))
        return kappa

    def fall(self, z: Float, t: Float) -> Float:
        """``exp(-u) (exp(u - v) - 1)``, ``u - v = 2 t / (u + v)``; if large, ``exp(-v) - exp(-u)``.

        u and v are the roots of ``2 z`` and of ``2 (z - t)``.
        """
        xp = namespace_of(z)
        u, v = xp.sqrt(2.0 * z), xp.sqrt(2.0 * (z - t))
        gap = 2.0 * t / xp.where(u > 0, u + v, xp.ones_like(u))
        if xp.max(gap) < 1:
            fall: Float = xp.exp(-u) * xp.expm1(gap)
        else:
            little = xp.exp(-u) * xp.expm1(xp.minimum(gap, xp.ones_like(gap)))
            fall = xp.where(gap < 1, little, xp.exp(-v) - xp.exp(-u))
        return fall

    def coefficient(self, order: int, z: Float) -> Float:
        """``exp(-r) theta_{p-1}(r) / (p! r^(2p-1))``, r = sqrt(2 z), theta Bessel's polynomials.

        They are the reverse ones, ``theta_n = (2n - 1) theta_{n-1} + r^2 theta_{n-2}``.
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


@dataclass(frozen=True)
class LaplaceL1(AbstractLevelled):
    """``exp(-sigma sum_j |x_j - x'_j|)``: a product over features, of the L1 distance.

    Few-valued features are scored exactly and fast, by their levels; others take an exponential
    for every pair of samples. Its statistic are the L1 distances, which no matrix product gives,
    so it is for thousands of features, or for genotypes, rather than for millions. With the
    default policy, ``sigma = 1 / (2 |S|)``, the exponent of standardised data is about 1/2; the
    median policy makes it 1/2 at the median L1 distance.
    """

    name: ClassVar[str] = "laplace-l1"
    has_bandwidth: ClassVar[bool] = True

    def gram(self, inner: Float, rows: Float, columns: Float, sigma: float) -> Float:
        """``exp(-sigma inner)``, `inner` the L1 distances; those of a sample with itself are 0."""
        xp = namespace_of(inner)
        if xp.any(rows != 0) or xp.any(columns != 0):
            raise InputError(
                "The laplace-l1 kernel is one of absolute differences, and what it got is no sum "
                "of these; take kernel='laplace', which is one of inner products."
            )
        K: Float = xp.exp(-float(sigma) * xp.where(inner > 0, inner, xp.zeros_like(inner)))
        return K

    def loss(
        self, inner: Float, rows: Float, columns: Float, x: Float, y: Float, sigma: float
    ) -> Float:
        """``K o (exp(sigma |delta|) - 1)``; where that is large, the difference itself."""
        xp = namespace_of(inner)
        delta = xp.abs(x[:, None] - y[None, :])
        t = float(sigma) * delta
        K = self.gram(inner, rows, columns, sigma)
        little = K * xp.expm1(xp.minimum(t, xp.ones_like(t)))
        without = self.gram(inner - delta, rows, columns, sigma)
        change: Float = xp.where(t < 1, little, without - K)
        return change

    def gain(
        self, inner: Float, rows: Float, columns: Float, x: Float, y: Float, sigma: float
    ) -> Float:
        """``K o (exp(-sigma |delta|) - 1)``."""
        xp = namespace_of(inner)
        t = float(sigma) * xp.abs(x[:, None] - y[None, :])
        change: Float = self.gram(inner, rows, columns, sigma) * xp.expm1(-t)
        return change

    def factor(self, squared_difference: Float, sigma: float) -> Float:
        """``exp(sigma |delta|) - 1``."""
        xp = namespace_of(squared_difference)
        ratio: Float = xp.expm1(float(sigma) * xp.sqrt(squared_difference))
        return ratio

    def exponent(self, peak: Float, sigma: float) -> Float:
        """``2 sigma peak``: no two values of a feature are further apart."""
        return np.asarray(2.0 * sigma * peak)

r"""What all features together say of the variance of one (Smyth 2004, sections 4 and 6).

Residual variances ``s_j^2`` with f degrees of freedom are taken for draws ``s_0^2 F(f, f_0)``: each
feature has a variance of its own, and those vary about ``s_0^2`` as ``f_0`` degrees of freedom let
them. Mean and variance of ``log s_j^2`` give both (JMLR eq. 25). The paper prints the gamma
function where Smyth has its logarithmic derivatives, digamma psi and trigamma psi', the number of
samples m where he has degrees of freedom, and the moderated variance without its square; here

    ``psi'(f_0 / 2) = var_j(log s_j^2) - psi'(f / 2)``
    ``log s_0^2 = mean_j(log s_j^2) - psi(f/2) + log(f/2) + psi(f_0/2) - log(f_0/2)``
    ``moderated s_j^2 = (f_0 s_0^2 + f s_j^2) / (f_0 + f)``

Where variances vary no more than f degrees of freedom explain, ``f_0`` is infinite and ``s_0^2``
their mean, as in limma since 2017.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import digamma, polygamma

from dhsic._typing import Float

#: Part of the median variance below which a variance is taken for so much: logarithms exist.
LEAST = 1e-5
#: Where trigamma has this value or less, ``1 / x + 1 / 2`` is its inverse to the last digits.
FLAT = 1e-9


@dataclass(frozen=True, slots=True)
class Prior:
    """Prior of variances: ``s_0^2`` (`variance`) with ``f_0`` degrees of freedom."""

    degrees: float
    variance: float

    def moderated(self, variances: Float, degrees: float) -> Float:
        """``(f_0 s_0^2 + f s_j^2) / (f_0 + f)``, (s,)."""
        if np.isinf(self.degrees):
            return np.full(len(variances), self.variance)
        own = self.degrees * self.variance
        return np.asarray((own + degrees * variances) / (self.degrees + degrees))

    def total(self, degrees: float, n_features: int) -> float:
        """Degrees of freedom of a moderated t, no more than all features have together."""
        return min(self.degrees + degrees, degrees * n_features)


def fitted(variances: Float, degrees: float) -> Prior:
    """Prior from the variances of s features, not all 0, with `degrees` of freedom each."""
    middle = float(np.median(variances)) or 1.0  # most are 0: as limma
    s2 = np.maximum(variances, LEAST * middle)
    if len(s2) == 1:
        return Prior(0.0, float(s2[0]))  # nothing to borrow from
    e = np.log(s2) - digamma(degrees / 2) + np.log(degrees / 2)
    excess = float(e.var(ddof=1) - polygamma(1, degrees / 2))
    if excess <= 0:
        return Prior(np.inf, float(s2.mean()))
    half = inverse_trigamma(excess)
    return Prior(2 * half, float(np.exp(e.mean() + digamma(half) - np.log(half))))


def inverse_trigamma(y: float) -> float:
    """X with ``psi'(x) = y``, y > 0.

    Between the roots of ``1/x + 1/(2 x^2) = y`` and ``1/x + 1/x^2 = y``, for these bound psi'.

    >>> round(inverse_trigamma(float(polygamma(1, 3.5))), 9)
    3.5
    """
    if y < FLAT:
        return 1 / y + 0.5
    low, high = ((1 + np.sqrt(1 + 2 * a * y)) / (2 * y) for a in (1, 2))
    return float(brentq(lambda x: polygamma(1, x) - y, low * (1 - 1e-9), high, xtol=1e-14 * low))

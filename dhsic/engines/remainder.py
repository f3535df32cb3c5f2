r"""How samples are spread, as the series of a radial kernel sees it: what it leaves out, bounded.

The part ``R_P(z, t) = kappa(z - t) - sum_{p <= P} c_p(z) t^p`` of a completely monotone profile is
a power series in t from ``t^(P+1)`` on with positive coefficients that fall with z. Here
``t = sigma (x_i - x_i')^2`` is at most ``tau = min(c, z)``, ``c = 4 sigma max_abs^2``, so
``R_P(z, t) <= t R_P(z, tau) / tau``, and by Cauchy and Schwarz what the gain of a feature lacks is

    ``sum |W| R_P <= ||W o R_P(z, tau) / tau||_F (sum t^2)^(1/2)``,

where ``sum t^2 <= 8 sigma^2 m^2 mean(x^4)`` for centred features. The norm is taken from the sums
of ``W_ij^2`` over narrow ranges of z, for any c; it takes one pass over the pairs of samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dhsic._typing import Float, Index
from dhsic.kernels.radial import AbstractRadial
from dhsic.kernels.statistic import Statistic

#: Ranges of z in a factor of two, and how many of them there are below and above 1.
PER_OCTAVE, REACH = 16, 200 * 16
#: Values of c in a factor of two: features share bounds.
STEPS = 4
#: Rounding of a difference of profiles, which are 1 at 0.
ROUNDING = 1e-14


@dataclass(frozen=True, slots=True, eq=False)
class Remainder:
    """Sums of ``W_ij^2`` by ranges of ``z_ij``; equal samples are left out, they lack nothing.

    Attributes
    ----------
    low, high : (n,) float64
        Ends of the ranges that pairs lie in.
    squares : (n,) float64
        Sums of ``W_ij^2``.
    """

    kernel: AbstractRadial
    sigma: float
    n_samples: int
    low: Float
    high: Float
    squares: Float

    @staticmethod
    def of(
        kernel: AbstractRadial,
        sigma: float,
        W: Float,
        statistic: Statistic,
        each: Callable[..., Iterable[Any]],
    ) -> Remainder:
        """Of all pairs of samples, tile by tile."""
        norms = statistic.diagonal

        def count(place: tuple[slice, slice, Float]) -> Float:
            rows, columns, inner = place
            z = kernel.scaled(inner, norms[rows], norms[columns], sigma).ravel()
            squares = np.square(W[rows, columns]).ravel() * (1 if rows == columns else 2)
            apart = z > 0
            where = np.floor(PER_OCTAVE * np.log2(z[apart])).clip(-REACH, REACH) + REACH
            at = where.astype(np.int64)
            return np.asarray(
                np.bincount(at, weights=squares[apart], minlength=2 * REACH + 1),
                dtype=np.float64,
            )

        total = np.zeros(2 * REACH + 1)
        for part in each(count, statistic.tiles()):
            total += part
        kept = np.flatnonzero(total)
        low, high = _ends(kept)
        return Remainder(kernel, float(sigma), statistic.n_samples, low, high, total[kept])

    def norm(self, order: int) -> float:
        """Upper bound on ``||W o c_p||_F``, close."""
        with np.errstate(all="ignore"):
            c = self.kernel.coefficient(order, self.low)
            return float(np.nan_to_num(np.sqrt(self.squares @ c**2), nan=np.inf))

    def neglected(self, order: int, max_abs: Float, fourth_moment: Float) -> Float:
        """Bound on what order P leaves out of gains, (c,), of features of these sizes."""
        with np.errstate(all="ignore"):
            steps = np.ceil(STEPS * np.log2(4 * self.sigma * max_abs**2))
            values, place = np.unique(steps, return_inverse=True)
            norms = np.array([self._left(order, 2.0 ** (v / STEPS)) for v in values])
            size = self.sigma * np.sqrt(8 * fourth_moment) * self.n_samples
            return np.nan_to_num(norms[place] * size, nan=np.inf, posinf=np.inf)

    def _left(self, order: int, c: float) -> float:
        """``||W o R_P(z, tau) / tau||_F``, at the worst of every range.

        Terms fall with z, so where c is below a range its lower end is the worst; where tau is z
        itself, terms are least at the upper end.
        """
        kernel, low, high = self.kernel, self.low, self.high
        below = c < low
        tau, at = np.minimum(c, low), np.where(below, low, high)
        largest = kernel.profile(np.zeros_like(high)) - np.nan_to_num(kernel.profile(high))
        whole = np.where(below, kernel.change(low, tau), largest)
        terms = [np.nan_to_num(kernel.coefficient(p, at)) * tau**p for p in range(1, order + 1)]
        R = whole - np.sum(terms, axis=0) + ROUNDING
        after = kernel.coefficient(order + 1, low - tau) * tau ** (order + 1)  # Lagrange's form
        R = np.maximum(np.where(below, np.fmin(R, after), R), 0.0)
        return float(np.sqrt(self.squares @ (R / tau) ** 2))


def _ends(kept: Index) -> tuple[Float, Float]:
    """Ends of ranges by their numbers, a little apart for rounding; the outermost are open."""
    low = 2.0 ** ((kept - REACH) / PER_OCTAVE) * (1 - 1e-12)
    high = 2.0 ** ((kept - REACH + 1) / PER_OCTAVE) * (1 + 1e-12)
    low[kept == 0] = 0.0
    high[kept == 2 * REACH] = np.inf
    return low, high

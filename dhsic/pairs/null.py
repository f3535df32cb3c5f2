r"""How large the largest share is where there is nothing: family-wise and false-discovery rates.

A p-value of a share alone knows neither how many pairs were looked at, nor how they hang together,
nor how far labels and products are from normal. Permutations do: samples of the labels, once all
that is taken out of them is out, are permuted, and the largest share of all pairs is noted. With p
the smallest p-value of a permutation, ``x = -log(-log(1 - p))``; of n independent pairs, and p as
they should be, x follows Gumbel's law of location ``log n`` and scale 1 exactly. Linkage makes the
location less, heavy tails of products and labels make location and scale more; both are fitted.

The law says how many pairs of a permutation reach a share, ``rate = exp(-(x - location) / scale)``
(extremes come as a Poisson process), and that number grows with the number of pairs: so where some
pairs only were permuted, those of runs of features chosen at random, which keep their linkage, the
rate of all pairs is as many times larger as there are more of them. From it follow

- the family-wise p-value: ``1 - exp(-rate)``, the probability that any pair reaches the share;
- the false-discovery rate of the best k pairs: ``rate / k``, the pairs expected there over those
  found, made to rise along the list.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import gumbel_r

from dhsic._typing import Float

#: A fitted scale above this says that p-values are far from what normal labels would give.
HEAVY = 2.5
#: Deviation of x below which permutations are all alike.
SAME = 1e-6


@dataclass(frozen=True, slots=True)
class Null:
    """Law of the largest x of a permutation, and how many times more pairs there are in all."""

    location: float
    scale: float
    times: float

    @classmethod
    def of(cls, log_p: Float, times: float) -> Null:
        """Law fitted by likelihood to the smallest p-values of permutations, as logarithms."""
        x = _x(log_p)
        if float(x.std()) < SAME:  # hardly a pair is tested
            return cls(float(x.mean()), 1.0, times)
        location, scale = gumbel_r.fit(x)
        return cls(float(location), float(scale), times)

    def rate(self, log_p: Float) -> Float:
        """Pairs expected to reach p-values where there is nothing."""
        exponent = -(_x(log_p) - self.location) / self.scale
        return np.asarray(self.times * np.exp(np.minimum(exponent, 700.0)))

    def family_wise(self, log_p: Float) -> Float:
        """Probability that any pair reaches p-values where there is nothing."""
        return np.asarray(-np.expm1(-self.rate(log_p)))

    def false_discovery(self, log_p: Float) -> Float:
        """False-discovery rates of the best 1, 2, ... pairs; p-values ascend."""
        rates = np.minimum(self.rate(log_p) / np.arange(1, len(log_p) + 1), 1.0)
        return np.asarray(np.minimum.accumulate(rates[::-1])[::-1])

    def log_p_at(self, alpha: float) -> float:
        """Logarithm of the p-value whose family-wise one is `alpha`."""
        x = self.location - self.scale * np.log(-np.log1p(-alpha) / self.times)
        return float(np.log(-np.expm1(-np.exp(-x))))


def _x(log_p: Float) -> Float:
    """``-log(-log(1 - p))``; of the smallest p that is ``-log p``."""
    log_p = np.minimum(log_p, -1e-12)
    return np.asarray(-np.log(-np.log1p(-np.exp(log_p))))

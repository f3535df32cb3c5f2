r"""Tails of the test at several widths if one of two classes is rare.

HSIC of ranks is nearly a ratio of mixtures (`dhsic.criteria.rank_law`) if sums over samples are
nearly normal. If a class has few samples they are skewed, and the tail is heavier: with 4 of 100
samples p-values of 1e-4 occur 1.5 times as often as they should, with 24 of 500 1.3 times. So
members of such a class are sampled, and the logarithm of that factor is fitted to the samples by a
parabola.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dhsic._typing import Float
from dhsic.criteria.rare import sums_over

#: Squared skewness of labels divided by the samples, up to which no correction is made.
LEAST_SKEWNESS = 0.02
#: Number of draws, and of values in memory at once.
DRAWS, NUMBERS = 1_000_000, 4_000_000
#: p-value up to which frequencies are right, where the parabola begins, and p-value where it ends.
BEGIN, END = 0.05, 1e-5
#: p-values at which it is fitted.
LEVELS = np.array([0.02, 0.01, 5e-3, 2e-3, 1e-3, 5e-4, 2e-4, 1e-4])


def is_unbalanced(b: Float) -> bool:
    """Whether a direction of the labels (m,) is of two classes, of which one is rare."""
    values = np.unique(b.round(12))
    skewness = np.mean(b**3) / np.mean(b**2) ** 1.5
    return bool(values.size == 2 and skewness**2 / b.size > LEAST_SKEWNESS)


def drawn_sums(basis: Float, b: Float) -> Iterator[Float]:
    """Draw `DRAWS` products (R,) of functions with the permuted direction b, (n, R) in parts.

    Functions have mean 0, so the members of the rarer class decide. A permutation of the samples
    gives as many disjoint sets of members as fit: each of them is drawn at random.

    Parameters
    ----------
    basis : (R, m)
        Functions.
    b : (m,)
        Direction of two classes.
    """
    low, high = np.unique(b.round(12))
    is_high = b > (low + high) / 2
    k, m = int(min(is_high.sum(), (~is_high).sum())), b.size
    columns, n_sets = np.ascontiguousarray(basis.T), m // k
    rng = np.random.default_rng([m, k])
    height, n_drawn = max(1, NUMBERS // m), 0
    while n_drawn < DRAWS:
        orders = rng.permuted(np.tile(np.arange(m), (height, 1)), axis=1)
        members = orders[:, : n_sets * k].reshape(-1, k)[: DRAWS - n_drawn]
        n_drawn += len(members)
        yield (high - low) * sums_over(columns, members)


def tail_bend(log_p: Float) -> float:
    """Coefficient of the parabola, from logarithms of p-values of noise, (n,)."""
    frequency = np.array([np.mean(log_p <= np.log(level)) for level in LEVELS])
    fitted = frequency > 0
    if not fitted.any():
        return 0.0
    x = np.square(np.log(BEGIN) - np.log(LEVELS[fitted]))
    y = np.log(frequency[fitted] / LEVELS[fitted])
    weights = frequency[fitted] * log_p.size
    return float((weights * x) @ y / ((weights * x) @ x))


def along_parabola(log_p: Float, bend: float) -> Float:
    """Logarithm of the factor that corrects p-values, (c,)."""
    reach = np.clip(np.log(BEGIN) - log_p, 0.0, np.log(BEGIN / END))
    return np.asarray(bend * np.square(reach))

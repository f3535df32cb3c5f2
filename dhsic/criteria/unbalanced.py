r"""Correction of small p-values of the test at several widths if one of two classes is rare.

HSIC of ranks is nearly a ratio of mixtures (`dhsic.criteria.rank_law`) if sums over samples are
nearly normal. If a class has few samples, sums are skewed and the tail is heavier. With 4 of 100
samples in the class, p-values of 1e-4 occur 1.5 times as often as they should; with 24 of 500
samples, 1.3 times. To estimate this factor, members of such a class are drawn at random. The
logarithm of the factor is fitted by a parabola ``bend (log BEGIN - log p)^2``.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dhsic._typing import Float
from dhsic.criteria.rare import sums_over
from dhsic.namespace import slices

#: Maximum squared skewness of labels, divided by the number of samples, without a correction.
LEAST_SKEWNESS = 0.02
#: Number of draws, and maximum number of values in memory at a time.
DRAWS, NUMBERS = 1_000_000, 4_000_000
#: Maximum number of draws whose sums are in memory at a time; one permutation gives many draws.
DRAWS_AT_ONCE = 40_000
#: p-value below which the parabola is used, because larger ones are accurate; and p-value below
#: which the factor is constant.
BEGIN, END = 0.05, 1e-5
#: p-values at which the parabola is fitted.
LEVELS = np.array([0.02, 0.01, 5e-3, 2e-3, 1e-3, 5e-4, 2e-4, 1e-4])


def is_unbalanced(b: Float) -> bool:
    """Whether a direction of the labels b (m,) has a rare and a frequent value."""
    values = np.unique(b.round(12))
    skewness = np.mean(b**3) / np.mean(b**2) ** 1.5
    return bool(values.size == 2 and skewness**2 / b.size > LEAST_SKEWNESS)


def drawn_sums(basis: Float, b: Float) -> Iterator[Float]:
    """Yield products of R functions with random permutations of direction b, (n, R).

    There are `DRAWS` products in total. Functions have mean 0, so products are determined by the
    members of the rarer class. A random permutation of the samples is divided into disjoint sets of
    members; each set is one draw.

    Parameters
    ----------
    basis : (R, m)
        Functions of ranks.
    b : (m,)
        Direction of labels with two classes.
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
        for some in slices(len(members), DRAWS_AT_ONCE):
            yield (high - low) * sums_over(columns, members[some])


def tail_bend(log_p: Float) -> float:
    """Fit the coefficient of the parabola that corrects small p-values.

    `log_p` (n,) are log p-values of random draws under independence. The result is 0 if no draw has
    a p-value in `LEVELS`.
    """
    frequency = np.array([np.mean(log_p <= np.log(level)) for level in LEVELS])
    fitted = frequency > 0
    if not fitted.any():
        return 0.0
    x = np.square(np.log(BEGIN) - np.log(LEVELS[fitted]))
    y = np.log(frequency[fitted] / LEVELS[fitted])
    weights = frequency[fitted] * log_p.size
    return float((weights * x) @ y / ((weights * x) @ x))


def along_parabola(log_p: Float, bend: float) -> Float:
    """Logarithm of the correction factor of p-values, (c,).

    `log_p` (c,) are log p-values. `bend` is the coefficient of the parabola, see `tail_bend`.
    """
    reach = np.clip(np.log(BEGIN) - log_p, 0.0, np.log(BEGIN / END))
    return np.asarray(bend * np.square(reach))

"""HSIC under independence as a gamma distribution.

The normal distribution of HSIC_1 where X and Y depend on each other (JMLR Theorem 5).

HSIC of permuted labels, and the p-value that its values give.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from scipy.stats import norm, pearson3

from dhsic._typing import Float, Index
from dhsic.independence.moments import Moments
from dhsic.linalg.symmetric import Symmetric


def p_of_gamma(observed: float, null: Moments, rounding: float) -> float:
    """Tail of a gamma distribution, moved, with three moments of the statistic.

    ``m HSIC_0`` is about gamma under independence (Gretton et al., 2008, who take its mean and
    variance), and HSIC_1 is about HSIC_0 moved. Their tail is too light, and the third moment
    mends that: Pearson's distribution of type III, as Kazi-Aoual et al. (1995) fit to permutations.

    A handful of samples may have a negative skewness. The distribution would end then, and what is
    larger would have p-value 0; it counts as none.

    Parameters
    ----------
    observed : float
        The statistic.
    null : Moments
        Its moments.
    rounding : float
        See `dhsic.independence.null.rounding_of`.
    """
    spread = float(np.sqrt(null.variance))
    if spread <= rounding:  # every permutation is as large
        return 1.0
    return float(pearson3.sf((observed - null.mean) / spread, max(null.skewness, 0.0)))


def p_of_normal(observed: float, variance: float) -> float:
    """Upper tail about 0."""
    if variance <= 0.0:
        return 1.0 if observed <= 0.0 else 0.0
    return float(norm.sf(observed / np.sqrt(variance)))


def normal_interval(observed: float, variance: float, level: float) -> tuple[float, float]:
    """Interval that holds HSIC with probability `level`."""
    reach = float(norm.ppf((1.0 + level) / 2.0)) * float(np.sqrt(variance))
    return observed - reach, observed + reach


#: Size of the permutations that are in memory together.
BLOCK_BYTES = 32 * 2**20
#: Permuted values closer than this part of the largest one are equal.
TIE = 1e-9
#: Part of ``||C|| ||A||`` that is rounding.
ROUNDING = 64 * np.finfo(np.float64).eps


def value_observed(C: Symmetric, A: Symmetric) -> float:
    """``<C, A>``, HSIC itself."""
    nobody = np.arange(len(C.diagonal))[None, :]
    return float(C.inner(nobody, [A])[0, 0])


def values_permuted(
    C: Symmetric, forms: Sequence[Symmetric], n_permutations: int, seed: int
) -> Float:
    """``<P C P', A>`` for random permutations P, the same ones for every A.

    Parameters
    ----------
    C : Symmetric
        ``R L R`` of m samples.
    forms : sequence of Symmetric
        ``R A R``, one or several.
    n_permutations : int
        How many are drawn.
    seed : int
        Permutations are drawn one after the other, so that they do not depend on how many of
        them are worked on together.

    Returns
    -------
    (len(forms), n_permutations) float64
    """
    rng = np.random.default_rng(seed)
    m, at_once = len(C.diagonal), max(1, BLOCK_BYTES // max(1, C.bytes_permuted))
    blocks = [C.inner(P, forms) for P in _drawn(rng, m, n_permutations, at_once)]
    return np.concatenate(blocks, axis=1)


def _drawn(rng: np.random.Generator, m: int, n: int, at_once: int) -> Iterator[Index]:
    for a in range(0, n, at_once):
        yield np.stack([rng.permutation(m) for _ in range(min(at_once, n - a))])


def rounding_of(C: Symmetric, A: Symmetric) -> float:
    """Size below which ``<C, R A R>`` is rounding; A as it was before R was applied."""
    return float(ROUNDING * C.norm * A.norm)


def p_of_permutations(observed: float, drawn: Float, rounding: float) -> float:
    """``(1 + #{drawn >= observed}) / (1 + n)``: at most its level, whatever n is.

    The permutation that changes nothing is one of them, hence the ones. Values that differ by
    rounding are equal, which they often are for classes and genotypes.

    Parameters
    ----------
    observed : float
        ``<C, A>``.
    drawn : (n,) float64
        Its values under permutations.
    rounding : float
        See `rounding_of`.
    """
    tie = TIE * max(abs(observed), float(np.abs(drawn).max())) + rounding
    return float(1 + np.count_nonzero(drawn >= observed - tie)) / (1 + len(drawn))

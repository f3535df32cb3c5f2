"""The first three moments of HSIC over all permutations, in closed form."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dhsic.errors import InputError
from dhsic.independence.forms import AbstractForm
from dhsic.independence.patterns import coefficients, sums_over

#: Fewest samples that the moments are taken of.
FEWEST = 4


@dataclass(frozen=True, slots=True)
class Moments:
    """Mean, variance and skewness of a statistic under independence."""

    mean: float
    variance: float
    skewness: float


def moments_permuted(C: AbstractForm, A: AbstractForm) -> Moments:
    """Moments of ``<P C P', A>`` over all m! permutations.

    Rows of C and of A sum to 0. Their traces t make the mean, ``t_A t_C / (m-1)``: a multiple of
    ``H = I - 1 1' / m`` is the same in every permutation, and ``A - t_A / (m-1) H`` has no trace.
    What is left makes the central moments (`dhsic.independence.patterns`). The leading term of
    the variance is that of Gretton et al. (2008).

    A thin form costs O(m r^3), or O(m^2 r) if that is less, and a full one half a product of
    (m, m) matrices.

    Raises
    ------
    InputError
        Fewer than 4 samples.
    """
    m = len(C.diagonal)
    if m < FEWEST:
        raise InputError(
            f"The moments of permutations take {FEWEST} samples and there are {m}; collect more, "
            "or pass method='permutation'."
        )
    C, t_C, size_C = _without_trace(C)
    A, t_A, size_A = _without_trace(A)
    second, third = (
        float(sums_over(C, order) @ coefficients(order, m) @ sums_over(A, order))
        for order in (2, 3)
    )
    size, variance = size_C * size_A, max(second, 0.0)
    skewness = third / variance**1.5 if variance > 0.0 else 0.0
    return Moments(size * t_C * t_A / (m - 1), size**2 * variance, skewness)


def _without_trace(A: AbstractForm) -> tuple[AbstractForm, float, float]:
    """``A / ||A||`` less its part of H, its trace, and ``||A||``: cubes stay within range."""
    size = float(np.sqrt(max(A.square, 0.0))) or 1.0
    scaled = A.changed(1.0 / size, A.diagonal / size)
    trace = float(scaled.diagonal.sum())
    return scaled.less(trace / (len(A.diagonal) - 1)), trace, size

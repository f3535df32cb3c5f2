"""The first three moments of HSIC over all permutations, in closed form.

Moments of ``<P C P', A>`` over all permutations: which sums over C and A they are made of.

The q-th power of ``<P C P', A>`` is a sum over q pairs of indices, the edges of a graph. Its
2q ends fall together in some way, a partition of them into k samples; a random permutation takes k
samples to any k others, so that

    ``E <P C P', A>^q = sum_partitions (m-k)!/m! S(C) S(A)``,

S the sum of products of q entries over distinct samples. By Moebius inversion S is a sum over
samples, distinct or not, of the coarser partitions, each block of b cells counting
``(-1)^(b-1) (b-1)!``. Where rows sum to zero, and the diagonal too, few of those are not zero
themselves: of graphs in which every vertex has two ends, and not those of a loop alone. There are
two for q = 2 and five for q = 3, and their numbers of vertices and of loops tell them apart.
Kazi-Aoual, Hitier, Sabatier and Lebreton (1995) write such moments out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import factorial, perm, prod

import numpy as np

from dhsic._typing import Array, Float
from dhsic.errors import InputError
from dhsic.linalg.symmetric import Symmetric

#: The cell that each element is in, numbered in the order of their first elements.
Partition = tuple[int, ...]
#: Vertices and loops of the graphs whose sums are not zero, in the order of `sums_over`.
PATTERNS = {2: ((1, 2), (2, 0)), 3: ((1, 3), (2, 0), (2, 1), (2, 2), (3, 0))}


def sums_over(A: Symmetric, order: int) -> Float:
    """Sums over samples of products of 2 or 3 entries of A, (2,) or (5,)."""
    a = A.diagonal
    if order == 2:
        return np.array([a @ a, A.norm**2])
    squares = float(a @ A.row_squares())
    return np.array([(a**3).sum(), A.cubes(), squares, A.quadratic(a[:, None])[0], A.cubed_trace()])


def coefficients(order: int, m: int) -> Float:
    """N, with which ``E <P C P', A>^q = sums_over(C)' N sums_over(A)``.

    Parameters
    ----------
    order : {2, 3}
        q.
    m : int
        Samples.

    Returns
    -------
    (2, 2) or (5, 5) float64
        Exact but for the last cast.
    """
    terms = [N * Fraction(1, perm(m, k)) for k, N in _products(order).items() if k <= m]
    return np.asarray(sum(terms), dtype=np.float64)


@cache
def _products(order: int) -> dict[int, Array]:
    """For every k the sum of ``v v'`` over partitions into k samples; v makes S of `sums_over`."""
    found: dict[int, Array] = {}
    for cells in _partitions(2 * order):
        k = max(cells) + 1
        v = np.zeros(len(PATTERNS[order]), dtype=object)  # integers of any size
        for coarser in _partitions(k):
            pattern = _pattern([coarser[cell] for cell in cells])
            if pattern in PATTERNS[order]:
                v[PATTERNS[order].index(pattern)] += _moebius(coarser)
        found[k] = found.get(k, 0) + np.outer(v, v)
    return found


def _partitions(n: int, start: Partition = ()) -> Iterator[Partition]:
    """Every partition of n elements, by the cell that each element is in."""
    if len(start) == n:
        yield start
        return
    for cell in range(max(start, default=-1) + 2):
        yield from _partitions(n, (*start, cell))


def _moebius(cells: Partition) -> int:
    sizes = [cells.count(cell) for cell in set(cells)]
    return prod((-1) ** (b - 1) * factorial(b - 1) for b in sizes)


def _pattern(ends: list[int]) -> tuple[int, int] | None:
    """Vertices and loops of a graph, None where its sum is zero; ends are in pairs."""
    edges = list(zip(ends[::2], ends[1::2], strict=True))
    loops = [a for a, b in edges if a == b]
    alone = [v for v in ends if ends.count(v) == 1]  # a sum of rows
    alone += [v for v in loops if ends.count(v) == 2]  # a trace
    return None if alone else (len(set(ends)), len(loops))


#: Fewest samples that the moments are taken of.
FEWEST = 4


@dataclass(frozen=True, slots=True)
class Moments:
    """Mean, variance and skewness of a statistic under independence."""

    mean: float
    variance: float
    skewness: float


def moments_permuted(C: Symmetric, A: Symmetric) -> Moments:
    """Moments of ``<P C P', A>`` over all m! permutations.

    Rows of C and of A sum to 0. Their traces t make the mean, ``t_A t_C / (m-1)``: a multiple of
    ``H = I - 1 1' / m`` is the same in every permutation, and ``A - t_A / (m-1) H`` has no trace.
    What is left makes the central moments (`dhsic.independence.moments`). The leading term of
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


def _without_trace(A: Symmetric) -> tuple[Symmetric, float, float]:
    """``A / ||A||`` less its part of H, its trace, and ``||A||``: cubes stay within range."""
    size = A.norm or 1.0
    scaled = A.changed(1.0 / size, A.diagonal / size)
    trace = float(scaled.diagonal.sum())
    return scaled.less(trace / (len(A.diagonal) - 1)), trace, size

"""HSIC under independence: permuted values, their moments in closed form, and p-values.

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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import factorial, perm, prod
from typing import Any

import numpy as np
from scipy.special import gammaincc, gammaln, log_ndtr
from scipy.stats import norm, pearson3

from dhsic._typing import Array, Float
from dhsic.errors import InputError
from dhsic.linalg.symmetric import Symmetric

#: Memory of the permutations that are processed together.
BLOCK_BYTES = 32 * 2**20
#: Relative difference (to the largest) up to which permuted values are equal.
TIE = 1e-9
#: Fraction of ``||C|| ||A||`` that is rounding error.
ROUNDING = 64 * np.finfo(np.float64).eps
#: Skewness up to which a distribution counts as normal.
SKEWED = 1e-4
#: Minimum number of samples for the moments.
FEWEST = 4
#: Cell number of each element, numbered in the order of their first elements.
Partition = tuple[int, ...]
#: Vertices and loops of the graphs whose sums are not zero, in the order of `sums_over`.
PATTERNS = {2: ((1, 2), (2, 0)), 3: ((1, 3), (2, 0), (2, 1), (2, 2), (3, 0))}


def values_permuted(
    C: Symmetric, forms: Sequence[Symmetric], n_permutations: int, seed: int
) -> Float:
    """``<P C P', A>`` for random permutations P, the same ones for every A: (len(forms), n).

    C is ``R L R``, forms are ``R A R``. Permutations are drawn one after another, so that they do
    not depend on the number that is processed together.
    """
    rng = np.random.default_rng(seed)
    m, at_once = len(C.diagonal), max(1, BLOCK_BYTES // max(1, C.bytes_permuted))
    blocks = []
    for a in range(0, n_permutations, at_once):
        n = min(at_once, n_permutations - a)
        blocks.append(C.inner(np.stack([rng.permutation(m) for _ in range(n)]), forms))
    return np.concatenate(blocks, axis=1)


def rounding_of(C: Symmetric, A: Symmetric) -> float:
    """Size up to which ``<C, R A R>`` is rounding error; A is the matrix before projection."""
    return float(ROUNDING * C.norm * A.norm)


@dataclass(frozen=True, slots=True)
class Moments:
    """Mean, variance and skewness of a statistic under independence, or of several."""

    mean: Any
    variance: Any
    skewness: Any

    def scaled(self, by: Any) -> Moments:
        """Moments of the statistic times a factor, a number or (c,)."""
        return Moments(by * self.mean, by * by * self.variance, self.skewness)


@dataclass(frozen=True, eq=False)
class NullOf:
    """Quantities of C for moments with any A: ``||C||``, and the others of ``C / ||C||``."""

    n_samples: int
    size: float
    trace: float
    second: Float  # (2,), factors of the sums over A of order 2
    third: Float  # (5,), of order 3

    @staticmethod
    def of(C: Symmetric) -> NullOf:
        """Compute them for a C whose rows sum to 0."""
        m = len(C.diagonal)
        if m < FEWEST:
            raise InputError(
                f"The moments of permutations take {FEWEST} samples and there are {m}; collect "
                "more, or pass method='permutation'."
            )
        C, trace, size = _without_trace(C)
        times = (sums_over(C, order) @ coefficients(order, m) for order in (2, 3))
        return NullOf(m, size, trace, *times)

    def moments(self, trace: Any, second: Float, third: Float, size: float = 1.0) -> Moments:
        """Moments from the trace of A, and sums over A without trace, (..., 2) and (..., 5).

        The sums (see `sums_over`) are those of ``A / size``, so that their cubes do not overflow.
        """
        size *= self.size
        variance = np.maximum(second @ self.second, 0.0)
        cubed = np.asarray(variance**1.5)
        skewness = np.zeros_like(cubed)
        np.divide(third @ self.third, cubed, out=skewness, where=cubed > 0)
        mean = size * self.trace * trace / (self.n_samples - 1)
        return Moments(mean, size**2 * variance, skewness)


def moments_permuted(C: Symmetric, A: Symmetric) -> Moments:
    """Moments of ``<P C P', A>`` over all m! permutations.

    Rows of C and of A sum to 0. Their traces t determine the mean, ``t_A t_C / (m-1)``: a multiple
    of ``H = I - 1 1' / m`` is the same in every permutation, and ``A - t_A / (m-1) H`` has no
    trace; it determines the central moments. The variance has the leading term of Gretton et al.
    (2008). A low-rank matrix costs O(m r^3), or O(m^2 r) if that is less, and a dense one half
    a product of (m, m) matrices.
    """
    A, trace, size = _without_trace(A)
    second, third = (sums_over(A, order) for order in (2, 3))
    moments = NullOf.of(C).moments(trace, second, third, size)
    return Moments(float(moments.mean), float(moments.variance), float(moments.skewness))


def _without_trace(A: Symmetric) -> tuple[Symmetric, float, float]:
    """``A / ||A||`` minus its part of H, its trace, and ``||A||``; scaled, so cubes are finite."""
    size = A.norm or 1.0
    diagonal = A.diagonal / size
    trace = float(diagonal.sum())
    return A.changed(1.0 / size, diagonal, less=trace / (len(diagonal) - 1)), trace, size


def sums_over(A: Symmetric, order: int) -> Float:
    """Sums over samples of products of 2 or 3 entries of A, (2,) or (5,)."""
    a = A.diagonal
    if order == 2:
        return np.array([a @ a, A.norm**2])
    cubes, squares, trace = A.cubic_sums()
    return np.array([(a**3).sum(), cubes, squares, A.quadratic(a[:, None])[0], trace])


def coefficients(order: int, m: int) -> Float:
    """N, (2, 2) or (5, 5), with which ``E <P C P', A>^q = sums_over(C)' N sums_over(A)``.

    The order is q. Exact but for the last cast.
    """
    terms = [N * Fraction(1, perm(m, k)) for k, N in _products(order).items() if k <= m]
    return np.asarray(sum(terms), dtype=np.float64)


@cache
def _products(order: int) -> dict[int, Array]:
    """Sums of ``v v'`` over partitions into k samples, by k; v are Moebius coefficients."""
    products: dict[int, Array] = {}
    for cells in _partitions(2 * order):
        k = max(cells) + 1
        v = np.zeros(len(PATTERNS[order]), dtype=object)  # integers of any size
        for coarser in _partitions(k):
            pattern = _pattern([coarser[cell] for cell in cells])
            if pattern in PATTERNS[order]:
                sizes = [coarser.count(cell) for cell in set(coarser)]
                moebius = prod((-1) ** (b - 1) * factorial(b - 1) for b in sizes)
                v[PATTERNS[order].index(pattern)] += moebius
        products[k] = products.get(k, 0) + np.outer(v, v)
    return products


def _partitions(n: int, start: Partition = ()) -> Iterator[Partition]:
    """Generate every partition of n elements, by the cell number of each element."""
    if len(start) == n:
        yield start
        return
    for cell in range(max(start, default=-1) + 2):
        yield from _partitions(n, (*start, cell))


def _pattern(ends: list[int]) -> tuple[int, int] | None:
    """Vertices and loops of a graph; None if its sum is zero. Pairs of ends are edges."""
    edges = list(zip(ends[::2], ends[1::2], strict=True))
    loops = [a for a, b in edges if a == b]
    alone = [v for v in ends if ends.count(v) == 1]  # a sum of rows
    alone += [v for v in loops if ends.count(v) == 2]  # a trace
    return None if alone else (len(set(ends)), len(loops))


def p_of_permutations(observed: float, drawn: Float, rounding: float) -> float:
    """``(1 + #{drawn >= observed}) / (1 + n)``: a valid p-value for any n.

    The identity counts as one of the permutations, hence the ones. Values within `rounding_of` are
    equal, which is common for classes and genotypes.
    """
    tie = TIE * max(abs(observed), float(np.abs(drawn).max())) + rounding
    return float(1 + np.count_nonzero(drawn >= observed - tie)) / (1 + len(drawn))


def p_of_gamma(observed: float, null: Moments, rounding: float) -> float:
    """Tail of a shifted gamma distribution with three moments of the statistic: see `log_tail`."""
    std = float(np.sqrt(null.variance))
    if std <= rounding:  # every permutation is as large
        return 1.0
    return float(pearson3.sf((observed - null.mean) / std, max(null.skewness, 0.0)))


def log_tail(z: Float, skewness: Float) -> Float:
    """Logarithm of the upper tail of Pearson's distribution of type III at z, (c,) each.

    ``m HSIC_0`` is about gamma under independence (Gretton et al., 2008, who take its mean and
    variance), and HSIC_1 is about HSIC_0 moved. Their tail is too light, and the third moment
    mends that: Pearson's distribution of type III, as Kazi-Aoual et al. (1995) fit to permutations.

    A handful of samples may have a negative skewness. The distribution would end then, and what is
    larger would have p-value 0; it counts as none.
    """
    log_p = log_ndtr(-z)
    skewed = skewness > SKEWED
    if skewed.any():
        half = 2.0 / skewness[skewed]
        shape = half * half
        x = np.maximum(shape + half * z[skewed], 0.0)  # of a gamma distribution of this shape
        with np.errstate(divide="ignore"):
            tail = np.log(gammaincc(shape, x))
        far = np.isneginf(tail)  # below all numbers: the first terms of its continued fraction
        k, t = shape[far], x[far]
        tail[far] = k * np.log(t) - t - gammaln(k) - np.log(t + 1.0 - k)
        log_p[skewed] = tail
    return np.asarray(log_p)


def p_of_normal(observed: float, variance: float) -> float:
    """Upper tail of a normal distribution with mean 0."""
    if variance <= 0.0:
        return 1.0 if observed <= 0.0 else 0.0
    return float(norm.sf(observed / np.sqrt(variance)))

"""HSIC under independence: permuted values, their moments in closed form, and p-values.

The q-th power of ``<P C P', A>`` is a sum over q pairs of indices, the edges of a graph. Some of
the 2q ends of these edges may be the same sample. This defines a partition of the ends into k
samples. A random permutation maps k samples to any k others with equal probability, so that

    ``E <P C P', A>^q = sum_partitions (m-k)!/m! S(C) S(A)``,

where S is the sum of products of q entries over distinct samples. By Moebius inversion S is a sum
over samples, distinct or not, for the coarser partitions, in which a block of b cells has the
factor ``(-1)^(b-1) (b-1)!``. If the rows sum to 0, and the diagonal too, most of these sums are 0.
The others belong to graphs in which every vertex has two or more ends, and no vertex has only a
loop. There are two such sums for q = 2 and five for q = 3. They differ in the numbers of vertices
and loops. Kazi-Aoual, Hitier, Sabatier and Lebreton (1995) give such moments explicitly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import factorial, perm, prod
from typing import Any

import numpy as np
from scipy.special import gammaincc, gammaln, log_ndtr, ndtr

from dhsic._typing import Array, Float
from dhsic.errors import InputError
from dhsic.linalg.symmetric import Symmetric

#: Maximum bytes of the permutations that are processed together.
BLOCK_BYTES = 32 * 2**20
#: Maximum difference of permuted values, relative to the largest, at which they count as equal.
TIE = 1e-9
#: Rounding error of HSIC, as a fraction of ``||C|| ||A||``.
ROUNDING = 64 * np.finfo(np.float64).eps
#: Skewness up to which a distribution counts as normal.
SKEWED = 1e-4
#: The same for a single p-value, as in scipy.stats.pearson3, which loads slowly.
NORMAL_SKEWNESS = 1.6e-5
#: Minimum number of samples for the moments.
FEWEST = 4
#: Partition of elements: the cell number of each; cells are numbered by their first elements.
Partition = tuple[int, ...]
#: Numbers of vertices and loops of the graphs whose sums are not 0, in the order of `sums_over`.
PATTERNS = {2: ((1, 2), (2, 0)), 3: ((1, 3), (2, 0), (2, 1), (2, 2), (3, 0))}


def values_permuted(
    C: Symmetric, forms: Sequence[Symmetric], n_permutations: int, seed: int
) -> Float:
    """Compute HSIC of permuted labels, ``<P C P', A>``, for n random permutations P.

    The result is (len(forms), n). C is the label matrix after projection by R, which removes the
    mean and covariates. `forms` are several matrices A, which are projected to ``R A R``; all of
    them use the same permutations. Permutations are drawn one by one, so they do not depend on how
    many are processed together.
    """
    rng = np.random.default_rng(seed)
    m, at_once = len(C.diagonal), max(1, BLOCK_BYTES // max(1, C.bytes_permuted))
    blocks = []
    for a in range(0, n_permutations, at_once):
        n = min(at_once, n_permutations - a)
        blocks.append(C.inner(np.stack([rng.permutation(m) for _ in range(n)]), forms))
    return np.concatenate(blocks, axis=1)


def rounding_of(C: Symmetric, A: Symmetric) -> float:
    """Bound on the rounding error of HSIC, ``<C, R A R>``.

    C is the label matrix, and A the unprojected matrix of a feature; R removes the mean and
    covariates.
    """
    return float(ROUNDING * C.norm * A.norm)


@dataclass(frozen=True, slots=True)
class Moments:
    """Mean, variance and skewness of one or more statistics under independence."""

    mean: Any
    variance: Any
    skewness: Any

    def scaled(self, by: Any) -> Moments:
        """Return the moments of the statistic multiplied by a factor, a number or (c,)."""
        return Moments(by * self.mean, by * by * self.variance, self.skewness)


@dataclass(frozen=True, eq=False)
class NullOf:
    """Quantities of the label matrix C that determine the moments of HSIC with any matrix A.

    The quantities are ``

    C

    ``, and sums over ``C /

    C

    ``.
    """

    n_samples: int
    size: float
    trace: float
    second: Float  # (2,), factors of the sums over A of order 2
    third: Float  # (5,), factors of the sums over A of order 3

    @staticmethod
    def of(C: Symmetric) -> NullOf:
        """Compute the quantities of a label matrix C; its rows must sum to 0."""
        m = len(C.diagonal)
        if m < FEWEST:
            raise InputError(
                f"The moments of the permutation distribution need at least {FEWEST} samples, but "
                f"there are {m}; collect more, or pass method='permutation' to "
                "dhsic.test_features."
            )
        C, trace, size = _without_trace(C)
        times = (sums_over(C, order) @ coefficients(order, m) for order in (2, 3))
        return NullOf(m, size, trace, *times)

    def moments(self, trace: Any, second: Float, third: Float, size: float = 1.0) -> Moments:
        """Moments of HSIC, ``<C, A>``, from the trace of A, and sums over A.

        C is the label matrix, and A the matrix of a feature. The sums `second` (..., 2) and `third`
        (..., 5) are computed by `sums_over` for ``A / size`` after its trace is removed. With this
        scale their cubes do not overflow.
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

    The rows of C and of A sum to 0. Their traces t determine the mean, ``t_A t_C / (m-1)``, because
    a multiple of ``H = I - 1 1' / m`` does not change under permutations. The matrix ``A - t_A /
    (m-1) H``, which has trace 0, determines the central moments. Gretton et al. (2008) give the
    leading term of the variance. A low-rank matrix takes O(m r^3), or O(m^2 r) if that is less; a
    dense matrix takes half a product of (m, m) matrices.
    """
    A, trace, size = _without_trace(A)
    second, third = (sums_over(A, order) for order in (2, 3))
    moments = NullOf.of(C).moments(trace, second, third, size)
    return Moments(float(moments.mean), float(moments.variance), float(moments.skewness))


def _without_trace(A: Symmetric) -> tuple[Symmetric, float, float]:
    """Normalise A to ``A / ||A||`` minus a multiple of H, so that its trace is 0.

    H is the centring matrix ``I - 1 1' / m``. Returns this matrix, the trace of ``A / ||A||``, and
    ``||A||``. With this scale, cubes are finite.
    """
    size = A.norm or 1.0
    diagonal = A.diagonal / size
    trace = float(diagonal.sum())
    return A.changed(1.0 / size, diagonal, less=trace / (len(diagonal) - 1)), trace, size


def sums_over(A: Symmetric, order: int) -> Float:
    """Sums over samples of products of 2 or 3 entries of a matrix A (m, m): (2,) or (5,).

    The number of entries is `order`. Sums are in the order of `PATTERNS`.
    """
    a = A.diagonal
    if order == 2:
        return np.array([a @ a, A.norm**2])
    cubes, squares, trace = A.cubic_sums()
    return np.array([(a**3).sum(), cubes, squares, A.quadratic(a[:, None])[0], trace])


def coefficients(order: int, m: int) -> Float:
    """Matrix N of the quadratic form ``E <P C P', A>^q = sums_over(C)' N sums_over(A)``.

    The mean E is over all permutations P; C is the label matrix, and A the matrix of a feature. q
    is `order`, and N is (2, 2) or (5, 5). N is computed exactly, and converted to float64 at the
    end.
    """
    terms = [N * Fraction(1, perm(m, k)) for k, N in _products(order).items() if k <= m]
    return np.asarray(sum(terms), dtype=np.float64)


@cache
def _products(order: int) -> dict[int, Array]:
    """Sums of ``v v'`` over partitions into k samples, by k.

    The vectors v are the Moebius coefficients of the partitions.
    """
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
    """Yield every partition of n elements, as the cell number of each element."""
    if len(start) == n:
        yield start
        return
    for cell in range(max(start, default=-1) + 2):
        yield from _partitions(n, (*start, cell))


def _pattern(ends: list[int]) -> tuple[int, int] | None:
    """Numbers of vertices and of loops of a graph; None if its sum is 0.

    The edges of the graph are the successive pairs of `ends`.
    """
    edges = list(zip(ends[::2], ends[1::2], strict=True))
    loops = [a for a, b in edges if a == b]
    alone = [v for v in ends if ends.count(v) == 1]  # a sum of rows
    alone += [v for v in loops if ends.count(v) == 2]  # a trace
    return None if alone else (len(set(ends)), len(loops))


def p_of_permutations(observed: float, drawn: Float, rounding: float) -> float:
    """Permutation p-value ``(1 + #{drawn >= observed}) / (1 + n)``, which is valid for any n.

    1 is added because the identity is one of the permutations. Values that differ by at most
    `rounding` count as equal. Equal values are common for classes and genotypes.
    """
    tie = TIE * max(abs(observed), float(np.abs(drawn).max())) + rounding
    return float(1 + np.count_nonzero(drawn >= observed - tie)) / (1 + len(drawn))


def p_of_gamma(observed: float, null: Moments, rounding: float) -> float:
    """p-value from a shifted gamma distribution with the first three moments of the statistic.

    See `log_tail`.
    """
    std = float(np.sqrt(null.variance))
    if std <= rounding:  # all permutations have the same value
        return 1.0
    z = (observed - null.mean) / std
    if null.skewness < NORMAL_SKEWNESS:
        return float(ndtr(-z))
    half = 2.0 / null.skewness
    shape = half * half
    return float(gammaincc(shape, max(half * (z + shape / half), 0.0)))


def log_tail(z: Float, skewness: Float) -> Float:
    """Log upper tail probability of Pearson's distribution of type III at z, (c,).

    z and `skewness` are (c,). Under independence ``m HSIC_0`` is approximately gamma distributed
    (Gretton et al., 2008, who use its mean and variance), and HSIC_1 is approximately HSIC_0 plus a
    constant. The tail of this gamma distribution is too light. Matching the third moment too
    corrects this and gives Pearson's distribution of type III, which Kazi-Aoual et al. (1995) fit
    to permutations.

    With very few samples the skewness may be negative. The distribution would then have a maximum,
    and larger values would have p-value 0. Negative skewness is therefore replaced by 0.
    """
    log_p = log_ndtr(-z)
    skewed = skewness > SKEWED
    if skewed.any():
        half = 2.0 / skewness[skewed]
        shape = half * half
        x = np.maximum(shape + half * z[skewed], 0.0)  # quantile of a gamma with this shape
        with np.errstate(divide="ignore"):
            tail = np.log(gammaincc(shape, x))
        far = np.isneginf(tail)  # underflow: use the first terms of the continued fraction
        k, t = shape[far], x[far]
        tail[far] = k * np.log(t) - t - gammaln(k) - np.log(t + 1.0 - k)
        log_p[skewed] = tail
    return np.asarray(log_p)


def log_of_tail(tail: Float, rest: Float) -> Float:
    """Logarithm of a tail probability, accurate near 1; `rest` is 1 minus `tail`."""
    with np.errstate(divide="ignore"):
        of_tail, of_rest = np.log(tail), np.log1p(-rest)
    return np.where(of_tail < np.log(0.5), of_tail, of_rest)


def p_of_normal(observed: float, variance: float) -> float:
    """Upper tail probability at `observed` for a normal distribution with mean 0."""
    if variance <= 0.0:
        return 1.0 if observed <= 0.0 else 0.0
    return float(ndtr(-observed / np.sqrt(variance)))

r"""Project once: scores of many rounds from a few numbers a feature, taken in one pass.

In low rank the gain of a feature is a sum over few directions of ``A = W o K``. From round to round
K turns little: with V (m, k) the leading directions of A in one round, ``A_t ~ V M_t V'`` off the
diagonal in those that follow, ``M_t = V' A_t V``. A kernel's series in powers of x
(`dhsic.kernels.base.PowerSeries`) is a sum over products ``(x^a)' A_t x^b``, which are

    ``u_a' M_t u_b``,  ``u_a = V' x^a``,

and of the even powers once more, for what stands on the diagonal:

- Under a kernel of differences, such as the Gaussian, a sample with itself adds nothing. There
  ``(x^a)' A_t 1`` has the row sums of A_t, known better than its directions say, and what the
  diagonal of ``V M_t V'`` adds to products of others is taken back: ``c_t = A_t 1`` off the
  diagonal, and that diagonal, go with ``x^a``.
- Under others the diagonal of A_t stands in place of that of ``V M_t V'``: c_t is the difference.

Such a functional is used as far as it lies in the span of few, ``c_t' x^a ~ (B' c_t)' (B' x^a)``,
with B (m, n) orthonormal: c_t in the round of the projection, ones, and products of the leading
directions. M_t and ``B' c_t`` change from round to round, the numbers u and ``B' x^a`` do not: a
feature is read once for them, and again when it leaves. When half of the features have left they
are projected anew, which takes two passes in all; what the directions do not hold meanwhile counts
as error in the certificate of the round, like all else that low rank misses. So does the rounding
of the numbers, which are kept in half precision.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import mul
from typing import Any

import numpy as np

from dhsic._typing import Array, Float, Mask
from dhsic.accelerator import wanted_device
from dhsic.engines.question import FeatureStats
from dhsic.kernels.base import AbstractKernel, PowerSeries, Product
from dhsic.namespace import Movable, host, slices
from dhsic.passes import AbstractByTile, Cost, Tile, placed

#: Directions that features are projected on, for each base of the kernel, and those of them whose
#: products span what goes with even powers.
LEADING, MULTIPLIED = 16, 6
#: Rounding of gains that are computed from numbers in half precision, over their standard
#: deviation: half of it is seen on genotypes.
ROUNDED = 1e-3
#: Features are projected anew when one in so many is left.
ANEW = 2
#: Highest order of the series in powers: where features need more they are scored by their values.
HIGHEST_ORDER = 2
#: Numbers that are held however many they are for each feature, 32 MiB.
ALWAYS_HELD = 1 << 24
#: Samples that are summed in float32; sums over more are summed in float64.
SAMPLES = 4096
#: Features that are projected at a time, and scored: values and numbers stay in the cache.
PROJECTED, SCORED = 64, 2048
#: Time of products with so few directions, over what as many flops of a large one take.
NARROW = 2.0


@dataclass(frozen=True, slots=True)
class Numbers(Movable):
    """What is taken of a feature: ``D_p' x^p`` for some powers p."""

    directions: Array  # (n, m) float32, all of them, a row each
    #: A power, and the rows of `directions` that it goes with: the first, and after the last.
    parts: tuple[tuple[int, int, int], ...]

    @staticmethod
    def supposed(kernel: AbstractKernel, order: int, m: int) -> Numbers:
        """Numbers as they are where there are directions enough."""
        series, n_even = kernel.power_series(order, 1.0), 2 + MULTIPLIED * (MULTIPLIED + 1) // 2
        odd = {(x.base, p) for x in series.products for p in (x.a, x.b) if x.a and x.b}
        even = {(x.base, x.a + x.b) for x in series.products if on_diagonal(x, series)}
        n = len({base for base, _ in odd | even}) * (LEADING + n_even)
        parts = [(p, 0, LEADING) for _, p in odd] + [(p, 0, n_even) for _, p in even]
        return Numbers(np.broadcast_to(np.float32(0.0), (n, m)), tuple(parts))

    @property
    def n(self) -> int:
        """Numbers of a feature."""
        return sum(stop - start for _, start, stop in self.parts)

    def of_strip(self, x: Array, samples: slice) -> Float:
        """What some samples of standardised features, x (c, s), add to their numbers, (c, n)."""
        highest = max(p for p, _, _ in self.parts)
        powers = list(accumulate([x] * highest, mul))
        directions = self.directions[:, samples]
        found = [host(powers[p - 1] @ directions[a:b, :].T) for p, a, b in self.parts]
        return np.concatenate(found, axis=1, dtype=np.float64)

    def of_values(self, X: Array) -> Array:
        """Numbers of standardised features X (c, m), (c, n) float32."""
        strips = slices(X.shape[1], SAMPLES)
        return np.asarray(sum(self.of_strip(X[:, s], s) for s in strips), dtype=np.float32)


def in_half(numbers: Array) -> Array:
    """Numbers (c, n) in half precision, (c, n + 2) float16: relative to the largest of a feature.

    That is the float32 of the last two.

    >>> numbers = np.array([[3e9, 1e9 / 3], [0.0, -2e-9]])
    >>> np.allclose(from_half(in_half(numbers)), numbers, rtol=ROUNDED)
    True
    """
    largest = np.abs(numbers).max(axis=1, keepdims=True).astype(np.float32)
    largest[largest == 0.0] = 1.0
    halves = (numbers / largest).astype(np.float16)
    return np.concatenate([halves, largest.view(np.float16)], axis=1)


def from_half(kept: Array) -> Array:
    """The numbers, (c, n) float32."""
    largest = np.ascontiguousarray(kept[:, -2:]).view(np.float32)
    return kept[:, :-2].astype(np.float32) * largest


@dataclass(frozen=True, slots=True)
class Project(AbstractByTile):
    """Numbers of features, as of `in_half`."""

    numbers: Numbers
    device: str | None = field(default_factory=wanted_device)

    def by_tile(self, m: int) -> tuple[int | None, Callable[[Tile], Array]]:
        numbers, moved = placed(self.device, self.numbers)
        if moved is not None:
            return None, lambda tile: in_half(numbers.of_values(tile.values(np.float32, moved)))
        strips = slices(m, SAMPLES)
        return PROJECTED, lambda tile: in_half(self._of_tile(tile, strips))

    def _of_tile(self, tile: Tile, strips: list[slice]) -> Float:
        """Numbers of a few features, in float64: a strip of samples stays in the cache."""
        total = np.zeros((len(tile.raw), self.numbers.n))
        for samples in strips:
            x = tile.of_samples(samples).values(np.float32)
            total += self.numbers.of_strip(x, samples)
        return total

    def cost(self, m: int) -> Cost:
        n = self.numbers.n
        flops = NARROW * 2.0 * n * m
        return Cost(float32=flops, values=1.5 * m, columns=2 * (n + 2), state=4 * n * m)


class Projection:
    """Directions of one round, and what they say of features in those that follow."""

    def __init__(
        self,
        kernel: AbstractKernel,
        order: int,  # of the series in powers
        basis: Mapping[int, Float],  # T (n, r): functionals of slices, times that, are orthonormal
        n_directions: Mapping[int, int],  # P, of each base
    ) -> None:
        self.order, self.basis = order, basis
        self._places: dict[tuple[int, int], slice] = {}  # of P' x^p among the numbers
        self._even: dict[tuple[int, int], slice] = {}  # and of B' x^p
        self._parts = self._laid_out(kernel.power_series(order, 1.0), n_directions)

    def numbers(self, directions: Any) -> Numbers:
        """What is taken of every feature, by directions as of `stacked`."""
        return Numbers(directions, self._parts)

    def _laid_out(
        self, series: PowerSeries, n_directions: Mapping[int, int]
    ) -> tuple[tuple[int, int, int], ...]:
        """Numbers of a feature; their places are written down."""
        parts: list[tuple[int, int, int]] = []
        start = 0

        def lay(base: int, width: int, powers: set[int], places: dict[Any, slice]) -> None:
            nonlocal start
            for power in sorted(powers):
                n = sum(b - a for _, a, b in parts)
                places[base, power] = slice(n, n + width)
                parts.append((power, start, start + width))
            start += width

        for base in sorted(self.basis):
            mine = [product for product in series.products if product.base == base]
            odd = {p for x in mine for p in (x.a, x.b) if x.a and x.b}
            even = {x.a + x.b for x in mine if on_diagonal(x, series)}
            lay(base, n_directions[base], odd, self._places)
            lay(base, self.basis[base].shape[1], even, self._even)
        return tuple(parts)

    def scorer(
        self, series: PowerSeries, core: Mapping[int, Float], even: Mapping[int, Float]
    ) -> Callable[[Array], Float]:
        """Function of numbers, as kept, to gains (c,), by ``P' A P`` and ``B' c`` of a round."""
        forms = {base: np.linalg.eigh(matrix) for base, matrix in core.items()}
        places, evens = self._places, self._even

        def few(kept: Array) -> Float:
            numbers = from_half(kept)
            U = {
                (base, power): numbers[:, place].astype(np.float64) @ forms[base].eigenvectors
                for (base, power), place in places.items()
            }
            gains = np.zeros(len(numbers))
            for x in series.products:
                if x.a and x.b:
                    along = (U[x.base, x.a] * U[x.base, x.b]) @ forms[x.base].eigenvalues
                    gains += x.coefficient * along
                if on_diagonal(x, series):
                    gains += x.coefficient * (numbers[:, evens[x.base, x.a + x.b]] @ even[x.base])
            return gains

        def score(numbers: Array) -> Float:
            chunks = slices(len(numbers), SCORED)
            return np.concatenate([np.empty(0), *(few(numbers[some]) for some in chunks)])

        return score


def stacked(parts: Sequence[Array]) -> Array:
    """Directions, a row each, (n, m) float32, from what slices know of them."""
    return np.concatenate(parts, axis=1)


def numbers_of(kernel: AbstractKernel, order: int) -> int:
    """Numbers of a feature by the series up to `order`, at most."""
    return Numbers.supposed(kernel, order, 1).n


def highest_order(kernel: AbstractKernel, n_features: int, d: int) -> int:
    """Highest order that so many of d features are projected for: their numbers are to be held."""
    if kernel.exact_order is not None:
        return kernel.exact_order
    most = most_numbers(kernel, d)
    return max(p for p in range(1, HIGHEST_ORDER + 1) if numbers_of(kernel, p) * n_features <= most)


def most_numbers(kernel: AbstractKernel, d: int) -> int:
    """Numbers of all features that are held at a time, at most: by sizes alone."""
    return max(numbers_of(kernel, kernel.exact_order or 1) * d, ALWAYS_HELD)


def bytes_held(kernel: AbstractKernel, d: int) -> int:
    """Bytes of them, and of the largest of each feature."""
    return 2 * most_numbers(kernel, d) + 4 * d


def on_diagonal(x: Product, series: PowerSeries) -> bool:
    """Whether a product of powers has what goes with the even power that both make together."""
    return not (x.a and x.b) if series.of_differences else True


def enough(
    kernel: AbstractKernel, order: int, sigma: float, facts: FeatureStats, m: int, neglected: float
) -> Mask:
    """Whether the series in powers up to `order` will do for each feature, (c,).

    What is neglected stays, by estimate, below that part of ``2 sqrt(2) sigma ||A||_F``, the
    standard deviation of the gain of a feature that is independent of A.
    """
    series = kernel.power_series(order, sigma)
    if series.neglected is None:
        return np.ones(len(facts.max_abs), dtype=bool)
    allowed = neglected * 2 * np.sqrt(2) * sigma * np.minimum(1.0, np.sqrt(facts.fourth_moment))
    # Parts of pairs add up with random signs: the root of their number.
    missed = np.sqrt(m) * series.neglected(facts.max_abs, facts.fourth_moment)
    return np.asarray(missed <= allowed)

r"""Projections: scores of many rounds from a few numbers per feature, computed in one pass.

In low rank the gain of a feature is a sum over few directions of ``A = W o K``. K changes little
from round to round: with V (m, k) the leading directions of A in one round, ``A_t ~ V M_t V'`` off
the diagonal in the following rounds, ``M_t = V' A_t V``. A kernel's power series in x
(`dhsic.kernels.base.PowerSeries`) is a sum of products ``(x^a)' A_t x^b``, which are approximately

    ``u_a' M_t u_b``,  ``u_a = V' x^a``.

The diagonal needs a correction, a linear functional c_t of the even powers ``x^(a+b)``:

- For kernels of differences, such as the Gaussian, a pair of equal samples contributes nothing.
  There ``(x^a)' A_t 1`` uses the row sums of A_t, which are known more precisely than V gives them,
  and the diagonal of ``V M_t V'`` is subtracted from the other products: c_t are the off-diagonal
  row sums ``A_t 1`` for linear terms, and minus that diagonal for products.
- For other kernels the diagonal of A_t replaces that of ``V M_t V'``: c_t is the difference.

The functional is projected on a space of few dimensions, ``c_t' x^a ~ (B' c_t)' (B' x^a)``, with B
(m, n) an orthonormal basis of c_t in the round of the projection, ones, and products of the leading
directions. M_t and ``B' c_t`` change from round to round; the projections u and ``B' x^a`` of a
feature do not. So a feature is read once to compute them, and again when it leaves. When half of
the features have left they are projected again, so a run makes about two passes in all. The
certificate of a round includes errors of the projection, like all others of low rank, and rounding
errors of the stored numbers, which are in half precision.
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
from dhsic.engines.scoring_problem import FeatureStats
from dhsic.kernels.base import AbstractKernel, PowerSeries, Product
from dhsic.namespace import Movable, host, slices
from dhsic.passes import AbstractByTile, Cost, Tile, placed

#: Number of directions that features are projected on, per base matrix of the kernel; and number of
#: directions whose products span the functionals of even powers.
LEADING, MULTIPLIED = 16, 6
#: Rounding error of gains from half-precision numbers, relative to the standard deviation of gains
#: (the error for genotypes is half of it).
ROUNDED = 1e-3
#: Features are projected again when their number has been divided by this.
ANEW = 2
#: Highest order of the power series; features that need a higher one are scored by their values.
HIGHEST_ORDER = 2
#: Total of numbers that may always be held (32 MiB), whatever their number per feature.
ALWAYS_HELD = 1 << 24
#: Number of samples summed in float32; such sums are added in float64.
SAMPLES = 4096
#: Number of features projected, and scored, at a time: values and numbers stay in the cache.
PROJECTED, SCORED = 64, 2048
#: Time per flop of products with few directions, relative to large products.
NARROW = 2.0


@dataclass(frozen=True, slots=True)
class Numbers(Movable):
    """Definition of the numbers (projections) stored for each feature.

    For a feature x they are ``D_p' x^p`` for some powers p. The matrices D_p are selected from
    `directions`, the leading directions of label weights times kernel matrix.
    """

    directions: Array  # (n, m) float32, all directions as rows
    #: For each power p: p, the first row of its `directions`, and the row after the last.
    parts: tuple[tuple[int, int, int], ...]

    @staticmethod
    def supposed(kernel: AbstractKernel, order: int, m: int) -> Numbers:
        """Placeholder for a plan, which needs sizes only.

        It has the maximum number of directions, and all of them are 0.
        """
        series, n_even = kernel.power_series(order, 1.0), 2 + MULTIPLIED * (MULTIPLIED + 1) // 2
        odd = {(x.base, p) for x in series.products for p in (x.a, x.b) if x.a and x.b}
        even = {(x.base, x.a + x.b) for x in series.products if on_diagonal(x, series)}
        n = len({base for base, _ in odd | even}) * (LEADING + n_even)
        parts = [(p, 0, LEADING) for _, p in odd] + [(p, 0, n_even) for _, p in even]
        return Numbers(np.broadcast_to(np.float32(0.0), (n, m)), tuple(parts))

    @property
    def n(self) -> int:
        """Number of values stored per feature."""
        return sum(stop - start for _, start, stop in self.parts)

    def of_strip(self, x: Array, samples: slice) -> Float:
        """Contribution of some samples to the n numbers stored for each of c features, (c, n).

        x (c, s) are standardised values of the features at these samples.
        """
        highest = max(p for p, _, _ in self.parts)
        powers = list(accumulate([x] * highest, mul))
        directions = self.directions[:, samples]
        products = [host(powers[p - 1] @ directions[a:b, :].T) for p, a, b in self.parts]
        return np.concatenate(products, axis=1, dtype=np.float64)

    def of_values(self, X: Array) -> Array:
        """Compute the projections to store, (c, n) float32, from standardised features X (c, m)."""
        strips = slices(X.shape[1], SAMPLES)
        return np.asarray(sum(self.of_strip(X[:, s], s) for s in strips), dtype=np.float32)


def in_half(numbers: Array) -> Array:
    """Scale the numbers (c, n) of features, and convert them to half precision, (c, n + 2).

    Each row is divided by its largest number. The last two columns contain this largest number, as
    float32.

    >>> numbers = np.array([[3e9, 1e9 / 3], [0.0, -2e-9]])
    >>> np.allclose(from_half(in_half(numbers)), numbers, rtol=ROUNDED)
    True
    """
    largest = np.abs(numbers).max(axis=1, keepdims=True).astype(np.float32)
    largest[largest == 0.0] = 1.0
    halves = (numbers / largest).astype(np.float16)
    return np.concatenate([halves, largest.view(np.float16)], axis=1)


def from_half(kept: Array) -> Array:
    """Convert the half-precision numbers from `in_half` back to float32, (c, n)."""
    largest = np.ascontiguousarray(kept[:, -2:]).view(np.float32)
    return kept[:, :-2].astype(np.float32) * largest


@dataclass(frozen=True, slots=True)
class Project(AbstractByTile):
    """Pass that projects features; returns their numbers in half precision (see `in_half`)."""

    numbers: Numbers
    device: str | None = field(default_factory=wanted_device)

    def by_tile(self, m: int) -> tuple[int | None, Callable[[Tile], Array]]:
        numbers, move = placed(self.device, self.numbers)
        if move is not None:
            return None, lambda tile: in_half(numbers.of_values(tile.values(np.float32, move)))
        strips = slices(m, SAMPLES)
        return PROJECTED, lambda tile: in_half(self._of_tile(tile, strips))

    def _of_tile(self, tile: Tile, strips: list[slice]) -> Float:
        """Compute the n stored projections of the few features of a tile, (c, n) float64.

        They are summed over groups of samples that fit in the cache.
        """
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
    """Projection of the features on leading directions of the low-rank matrix ``A = W o K``.

    W are label weights, and K is the kernel matrix. The class defines the numbers stored for each
    feature and their positions. Gains (changes of HSIC) of later rounds are computed from these
    numbers, without reading the features again.
    """

    def __init__(
        self,
        kernel: AbstractKernel,
        order: int,  # order of the power series
        basis: Mapping[int, Float],  # T (n, r): functionals of slices times T are orthonormal
        n_directions: Mapping[int, int],  # number of directions per base
    ) -> None:
        self.order, self.basis = order, basis
        self._places: dict[tuple[int, int], slice] = {}  # positions of P' x^p in the numbers
        self._even: dict[tuple[int, int], slice] = {}  # positions of B' x^p in the numbers
        self._parts = self._laid_out(kernel.power_series(order, 1.0), n_directions)

    def numbers(self, directions: Any) -> Numbers:
        """Definition of the numbers (projections) stored for every feature.

        `directions` are those of all slices of the samples.
        """
        return Numbers(directions, self._parts)

    def _laid_out(
        self, series: PowerSeries, n_directions: Mapping[int, int]
    ) -> tuple[tuple[int, int, int], ...]:
        """Choose the order of a feature's numbers, store their positions, and return the parts."""
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
            own_products = [product for product in series.products if product.base == base]
            odd = {p for x in own_products for p in (x.a, x.b) if x.a and x.b}
            even = {x.a + x.b for x in own_products if on_diagonal(x, series)}
            lay(base, n_directions[base], odd, self._places)
            lay(base, self.basis[base].shape[1], even, self._even)
        return tuple(parts)

    def scorer(
        self, series: PowerSeries, core: Mapping[int, Float], even: Mapping[int, Float]
    ) -> Callable[[Array], Float]:
        """Create the function that computes gains (c,) from the numbers stored for each feature.

        The gain of a feature is the change of HSIC without it. By base matrix, `core` is ``P' A P``
        for the directions P of features, and `even` is ``B' c`` for the diagonal correction c (see
        the module docstring).
        """
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
            return np.concatenate([np.empty(0), *(few(numbers[chunk]) for chunk in chunks)])

        return score


def stacked(parts: Sequence[Array]) -> Array:
    """Concatenate the directions of all slices of the samples, (n, m) float32, one per row."""
    return np.concatenate(parts, axis=1)


def numbers_of(kernel: AbstractKernel, order: int) -> int:
    """Maximum number of values stored per feature for a power series up to `order`."""
    return Numbers.supposed(kernel, order, 1).n


def highest_order(kernel: AbstractKernel, n_features: int, d: int) -> int:
    """Highest order of the series for which the numbers of `n_features` may be kept in memory.

    d is the number of all features of the source; it determines the limit.
    """
    if kernel.exact_order is not None:
        return kernel.exact_order
    most = most_numbers(kernel, d)
    return max(p for p in range(1, HIGHEST_ORDER + 1) if numbers_of(kernel, p) * n_features <= most)


def most_numbers(kernel: AbstractKernel, d: int) -> int:
    """Maximum number of values in memory for projections of d features."""
    return max(numbers_of(kernel, kernel.exact_order or 1) * d, ALWAYS_HELD)


def bytes_held(kernel: AbstractKernel, d: int) -> int:
    """Maximum memory of the projections of d features in half precision, in bytes."""
    return 2 * most_numbers(kernel, d) + 4 * d


def on_diagonal(x: Product, series: PowerSeries) -> bool:
    """Whether a product ``x^a x^b`` needs the diagonal correction (see the module docstring)."""
    return not (x.a and x.b) if series.of_differences else True


def enough(
    kernel: AbstractKernel, order: int, sigma: float, facts: FeatureStats, m: int, neglected: float
) -> Mask:
    """Mask (c,) of the features for which the power series up to `order` is accurate enough.

    The estimated remainder must be at most `neglected` times ``2 sqrt(2) sigma ||A||_F``, the
    standard deviation of the change of HSIC by a feature that is independent of A, the label
    weights times the kernel matrix.
    """
    series = kernel.power_series(order, sigma)
    if series.neglected is None:
        return np.ones(len(facts.max_abs), dtype=bool)
    allowed = neglected * 2 * np.sqrt(2) * sigma * np.minimum(1.0, np.sqrt(facts.fourth_moment))
    # Remainders of pairs have random signs, so their sum grows like the root of their number.
    missed = np.sqrt(m) * series.neglected(facts.max_abs, facts.fourth_moment)
    return np.asarray(missed <= allowed)

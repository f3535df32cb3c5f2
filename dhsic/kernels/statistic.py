"""The statistic of the kernels on vectors: a sum over features, usually of inner products.

``G = sum_j x_j x_j'`` is accumulated block by block in float64. Only one triangle is computed,
which takes half the operations of a product. Removed features are subtracted. Matrices derived from
G are symmetric too. They are computed tile by tile over one triangle; each tile is small enough for
the CPU cache.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from dhsic._typing import Float, Index
from dhsic.linalg.quadratic import Each, add_products, subtract_products
from dhsic.namespace import slices

#: Number of rows of a tile, and maximum number of its columns: a float64 tile fits into the cache
#: of a core, and its rows are long because contiguous numbers are read fastest.
HEIGHT, WIDTH = 64, 1920

#: Number of columns of G from which features are subtracted at a time, and of rows for which a
#: kernel is computed: more than in a tile, because threads wait for each other between short calls.
#: It divides `WIDTH`.
STRIP = 192


def zero_upper(m: int) -> Float:
    """Allocate zeros (m, m) for a sum over features, in Fortran order.

    Only the upper triangle is used.
    """
    return np.zeros((m, m), order="F")


def packed(upper: Float) -> Float:
    """Pack the upper triangle column by column, (m (m + 1) / 2,), to halve the bytes to send."""
    return np.concatenate([upper[: i + 1, i] for i in range(len(upper))])


def add_packed(upper: Float, triangle: Float) -> None:
    """Add a packed triangle (see `packed`) to the upper triangle, in place."""
    start = 0
    for i in range(len(upper)):
        upper[: i + 1, i] += triangle[start : start + i + 1]
        start += i + 1


class AbstractSums(ABC):
    """Sum over features that a kernel needs for every pair of samples; it can be pickled.

    Kernels that are not functions of inner products define their own. The sum is accumulated once
    and removed features are subtracted, while sigma changes from round to round. So its terms must
    not depend on sigma, which may only multiply the sum, as in ``exp(-sigma sum)``. The methods of
    a kernel receive entries of the sum as `inner`, and its diagonal (0 for distances) as `rows` and
    `columns`.
    """

    @abstractmethod
    def add(self, upper: Float, Z: Float) -> None:
        """Add features, rows of Z (c, m), to the upper triangle (m, m) in place."""

    @abstractmethod
    def take_away(self, upper: Float, Z: Float, each: Each) -> None:
        """Subtract features Z (c, m) from the upper triangle; `each` may run strips in threads."""


@dataclass(frozen=True)
class InnerProducts(AbstractSums):
    """Inner products ``sum_j x_ij x_i'j``, computed by BLAS: the statistic of most kernels."""

    def add(self, upper: Float, Z: Float) -> None:
        add_products(upper, Z)

    def take_away(self, upper: Float, Z: Float, each: Each) -> None:
        in_strips(len(upper), each, partial(subtract_products, upper, Z))


def in_strips(m: int, each: Each, change: Callable[[slice], object]) -> None:
    """Call `change` on slices of the m columns, with at most `STRIP` columns each."""
    for _ in each(change, slices(m, STRIP)[::-1]):  # the longest columns first
        pass


@dataclass(frozen=True, slots=True)
class Statistic:
    """Inner products of samples, or another sum over the surviving features that a kernel needs.

    It is stored in the upper triangle of `upper` (m, m).
    """

    upper: Float

    @property
    def n_samples(self) -> int:
        """Number of samples m."""
        return len(self.upper)

    @property
    def diagonal(self) -> Float:
        """Diagonal of the statistic, (m,): for inner products, the squared norms of the samples."""
        return np.asarray(np.diagonal(self.upper))

    def tiles(self) -> Iterator[tuple[slice, slice, Float]]:
        """Yield tiles on and below the diagonal: rows, columns, and values in C order.

        Tiles on the diagonal are square.
        """
        lower = self.upper.T
        on_or_below = np.tri(min(HEIGHT, self.n_samples), dtype=bool)
        for rows in slices(self.n_samples, HEIGHT):
            for columns in slices(rows.start, WIDTH):
                yield rows, columns, lower[rows, columns]
            corner = lower[rows, rows]
            n = len(corner)
            yield rows, rows, np.where(on_or_below[:n, :n], corner, corner.T)

    def to_dense(self) -> Float:
        """Copy the statistic with both triangles to a new (m, m) array."""
        G = np.empty_like(self.upper, order="C")
        for rows, columns, inner in self.tiles():
            G[rows, columns] = inner
            G[columns, rows] = inner.T
        return G

    def rows(self, which: Index) -> Float:
        """Copy the rows `which` of the statistic to a new array, (r, m)."""
        out = np.empty((len(which), self.n_samples), dtype=self.upper.dtype)
        for row, i in zip(out, which.tolist(), strict=True):  # avoids copies of whole columns
            row[:i], row[i:] = self.upper[:i, i], self.upper[i, i:]
        return out

    @staticmethod
    def of(G: Float) -> Statistic:
        """Create the statistic from the full matrix G, (m, m)."""
        return Statistic(np.asfortranarray(G))

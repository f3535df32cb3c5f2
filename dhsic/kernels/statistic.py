"""The statistic of the kernels on vectors: mostly inner products, a sum over features.

``G = sum_j x_j x_j'`` is accumulated block by block in float64, one triangle at half the flops
of a product, and down-dated by the features that leave. What is derived from it is symmetric
too, so it is walked tile by tile through the upper triangle, each tile small enough for the
cache.
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

#: Rows of a tile, and its columns at most: it fits the cache of a core in float64, and its rows are
#: long, for numbers that lie side by side come fastest.
HEIGHT, WIDTH = 64, 1920

#: Columns of G that are down-dated at a time, and its rows that a kernel is made of: more than in a
#: tile, for threads wait for each other between short calls. A part of `WIDTH`.
STRIP = 192


def zero_upper(m: int) -> Float:
    """Room for G: (m, m), Fortran-ordered, of which the upper triangle is used."""
    return np.zeros((m, m), order="F")


def packed(upper: Float) -> Float:
    """Upper triangle column by column, (m (m + 1) / 2,): half as much to send."""
    return np.concatenate([upper[: i + 1, i] for i in range(len(upper))])


def add_packed(upper: Float, triangle: Float) -> None:
    """Add a packed triangle in place."""
    start = 0
    for i in range(len(upper)):
        upper[: i + 1, i] += triangle[start : start + i + 1]
        start += i + 1


class AbstractSums(ABC):
    """What a kernel sums over features for every two samples; a value, sent with tasks.

    A kernel that is no function of inner products has one of its own. The sum is accumulated once
    and features that leave are taken away from it while sigma moves from round to round: so what
    is added must not depend on sigma, which is the coefficient of the sum, ``exp(-sigma sum)``
    say. Kernels get parts of it as `inner`, and as `rows` and `columns` its diagonal, the sums of
    a sample with itself, which of distances is 0.
    """

    @abstractmethod
    def add(self, upper: Float, Z: Float) -> None:
        """Add features, rows of Z (c, m), to the upper triangle (m, m) in place."""

    @abstractmethod
    def take_away(self, upper: Float, Z: Float, each: Each) -> None:
        """Subtract features likewise, in strips of columns that `each` may share out."""


@dataclass(frozen=True)
class InnerProducts(AbstractSums):
    """``sum_j x_ij x_i'j``, by BLAS: the statistic of nearly every kernel."""

    def add(self, upper: Float, Z: Float) -> None:
        add_products(upper, Z)

    def take_away(self, upper: Float, Z: Float, each: Each) -> None:
        in_strips(len(upper), each, partial(subtract_products, upper, Z))


def in_strips(m: int, each: Each, change: Callable[[slice], object]) -> None:
    """Change m columns, some of them at a time."""
    for _ in each(change, slices(m, STRIP)[::-1]):  # the longest first
        pass


@dataclass(frozen=True, slots=True)
class Statistic:
    """G of the surviving features; only the upper triangle of `upper` (m, m) has a meaning."""

    upper: Float

    @property
    def n_samples(self) -> int:
        """Number of samples m."""
        return len(self.upper)

    @property
    def diagonal(self) -> Float:
        """Squared norms of the samples, (m,)."""
        return np.asarray(np.diagonal(self.upper))

    def tiles(self) -> Iterator[tuple[slice, slice, Float]]:
        """Rows, columns and values, C-ordered, of every tile on and below the diagonal.

        Those on it are square.
        """
        lower = self.upper.T
        on_or_below = np.tri(min(HEIGHT, self.n_samples), dtype=bool)
        for rows in slices(self.n_samples, HEIGHT):
            for columns in slices(rows.start, WIDTH):
                yield rows, columns, lower[rows, columns]
            corner = lower[rows, rows]
            n = len(corner)
            yield rows, rows, np.where(on_or_below[:n, :n], corner, corner.T)

    def whole(self) -> Float:
        """Both triangles, a new (m, m) array."""
        G = np.empty_like(self.upper, order="C")
        for rows, columns, inner in self.tiles():
            G[rows, columns] = inner
            G[columns, rows] = inner.T
        return G

    def rows(self, which: Index) -> Float:
        """Some rows, (r, m), new."""
        out = np.empty((len(which), self.n_samples), dtype=self.upper.dtype)
        for row, i in zip(out, which.tolist(), strict=True):  # what is not needed lies far apart
            row[:i], row[i:] = self.upper[:i, i], self.upper[i, i:]
        return out

    @staticmethod
    def of(G: Float) -> Statistic:
        """Statistic from all inner products, (m, m)."""
        return Statistic(np.asfortranarray(G))

"""The statistic of the kernels on vectors: inner products, a sum over features.

``G = sum_j x_j x_j'`` is accumulated block by block in float64, one triangle at half the flops
of a product, and down-dated by the features that leave. What is derived from it is symmetric
too, so it is walked tile by tile through the upper triangle, each tile small enough for the
cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg.blas import dsyrk

from dhsic._typing import Float

#: Side of a tile: three of them in float64 fit the second-level cache of a core.
TILE = 192


def zero_upper(m: int) -> Float:
    """Room for G: (m, m), Fortran-ordered, of which the upper triangle is used."""
    return np.zeros((m, m), order="F")


def add_features(upper: Float, Z: Float) -> Float:
    """Add ``Z' Z`` in place, upper triangle; Z is (c, m) float64, C-ordered."""
    return np.asarray(dsyrk(1.0, Z.T, beta=1.0, c=upper, overwrite_c=1))


def take_away(upper: Float, Z: Float, each: Callable[..., Iterable[Any]]) -> None:
    """Subtract ``Z' Z`` in place, upper triangle, in strips that `each` may share out."""
    m = len(upper)

    def strip(a: int) -> None:
        rows = slice(a, min(a + TILE, m))
        upper[rows, a:] -= Z[:, rows].T @ Z[:, a:]

    for _ in each(strip, range(0, m, TILE)):
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
        """Rows, columns and values of every tile on and above the diagonal."""
        m = self.n_samples
        edges = [slice(a, min(a + TILE, m)) for a in range(0, m, TILE)]
        for i, rows in enumerate(edges):
            corner = np.triu(self.upper[rows, rows])
            yield rows, rows, corner + np.triu(corner, 1).T
            for columns in edges[i + 1 :]:
                yield rows, columns, self.upper[rows, columns]

    def whole(self) -> Float:
        """Both triangles, a new (m, m) array."""
        G = np.empty_like(self.upper, order="C")
        for rows, columns, inner in self.tiles():
            G[rows, columns] = inner
            G[columns, rows] = inner.T
        return G

    @staticmethod
    def of(G: Float) -> Statistic:
        """Statistic from all inner products, (m, m)."""
        return Statistic(np.asfortranarray(G))

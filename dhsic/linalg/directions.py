"""Products of features with the directions of several runs, computed in one multiplication.

Each run multiplies the features by a few vectors, its *directions*: class indicators, labels, or
factors of a label kernel. Features are multiplied by the directions of all runs at once, because
reading the features dominates the time. The directions are in panels of a fixed width, so that a
run gets bitwise the same results as alone. Such narrow products are much faster if BLAS does not
copy the features first, as it does for products of a million terms or more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np

from dhsic._typing import Array, Float
from dhsic.namespace import Movable, at_a_time, host, slices

#: Number of directions per product; maximum number of its terms, and minimum number of features.
PANEL, TERMS, FEWEST = 8, 10**6, 4
#: For `Directions.alike`: maximum number of distinct rows, number of samples in the quick check,
#: and number of decimals that are compared.
ALIKE, PROBE, DIGITS = 8, 64, 12
#: Maximum number of samples for which sums of cubes of codes are exact in float32, with a margin.
MOST_SAMPLES = 1 << 16


@dataclass(frozen=True, slots=True)
class Directions(Movable):
    """Directions of several runs, as the columns of `panels`, each (m, `PANEL`).

    `places` contains, for each run, the slice of its columns.
    """

    panels: tuple[Array, ...]
    places: tuple[slice, ...]

    @staticmethod
    def of(each: Sequence[Float]) -> Directions:
        """Concatenate the label directions of several runs, (m, k) each.

        The last panel of columns is padded with zeros.
        """
        edges = [*accumulate((D.shape[1] for D in each), initial=0)]
        padded = np.zeros((len(each[0]), -(-edges[-1] // PANEL) * PANEL))
        padded[:, : edges[-1]] = np.concatenate(each, axis=1)
        panels = [padded[:, a : a + PANEL] for a in range(0, padded.shape[1], PANEL)]
        places = tuple(slice(a, b) for a, b in pairwise(edges))
        return Directions(tuple(np.ascontiguousarray(panel) for panel in panels), places)

    def times(self, X: Array) -> Float:
        """Multiply features X (c, m) by all k directions; return a NumPy array (c, k)."""
        c, m = X.shape
        rows = at_a_time(X, TERMS // PANEL) // m
        products = np.empty((c, PANEL * len(self.panels)))
        for block in slices(c, rows if FEWEST <= rows < c else max(1, c)):
            for number, panel in enumerate(self.panels):
                products[block, PANEL * number : PANEL * (number + 1)] = host(X[block, :] @ panel)
        return products

    def alike(self, place: slice) -> tuple[Array, Float] | None:
        """Factor the directions of a run as ``Z rows``, if they have few distinct rows.

        Z (m, n) is a float32 indicator matrix, and `rows` (n, k) are the distinct rows. There are
        few if labels are classes. If there are more than `ALIKE`, as for most real-valued labels,
        the result is None.
        """
        D = self.of_run(place)
        if len(D) > MOST_SAMPLES or len(np.unique(D[:PROBE], axis=0)) > ALIKE:
            return None
        _, first, of_row = np.unique(
            D.round(DIGITS), axis=0, return_index=True, return_inverse=True
        )
        if first.size > ALIKE:
            return None
        Z = (of_row.reshape(-1, 1) == np.arange(first.size)).astype(np.float32)
        return Z, D[first]

    def of_run(self, place: slice) -> Float:
        """Return the label directions of the run with the columns `place`, (m, k)."""
        return np.concatenate(self.panels, axis=1)[:, place]

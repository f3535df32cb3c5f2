"""Products of features with what several runs bring, all at once.

Several runs over the same features multiply them with a few vectors each, their *directions*: class
indicators, labels, factors of a label kernel. Those of all runs are multiplied together, in panels
of the same width however many there are, so that a run finds the bits that it finds alone; the time
is that of reading features. So few columns are faster by far where BLAS need not bring the features
into an order of its own first, which it does in products of a million terms and more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np

from dhsic._typing import Array, Float
from dhsic.namespace import Movable, at_a_time, host, slices

#: Directions of a product, terms of it at most, and features at least: fewer wait for directions.
PANEL, TERMS, FEWEST = 8, 10**6, 4
#: Different rows that count as few, samples of a quick look, and digits that are no rounding.
ALIKE, PROBE, DIGITS = 8, 64, 12
#: Samples of which float32 counts cubes of codes exactly, with room.
MOST_SAMPLES = 1 << 16


@dataclass(frozen=True, slots=True)
class Directions(Movable):
    """Directions of several runs, (m, PANEL) in each of the `panels`; `places` of each run."""

    panels: tuple[Array, ...]
    places: tuple[slice, ...]

    @staticmethod
    def of(each: Sequence[Float]) -> Directions:
        """Those of runs, (m, k) each, side by side."""
        edges = [*accumulate((D.shape[1] for D in each), initial=0)]
        whole = np.zeros((len(each[0]), -(-edges[-1] // PANEL) * PANEL))
        whole[:, : edges[-1]] = np.concatenate(each, axis=1)
        panels = [whole[:, a : a + PANEL] for a in range(0, whole.shape[1], PANEL)]
        places = tuple(slice(a, b) for a, b in pairwise(edges))
        return Directions(tuple(np.ascontiguousarray(panel) for panel in panels), places)

    def times(self, X: Array) -> Float:
        """Products (c, k) of rows X (c, m), NumPy's."""
        c, m = X.shape
        rows = at_a_time(X, TERMS // PANEL) // m
        found = np.empty((c, PANEL * len(self.panels)))
        for some in slices(c, rows if FEWEST <= rows < c else max(1, c)):
            for number, panel in enumerate(self.panels):
                found[some, PANEL * number : PANEL * (number + 1)] = host(X[some, :] @ panel)
        return found

    def alike(self, place: slice) -> tuple[Array, Float] | None:
        """Those of a run as ``Z rows``, Z (m, n) float32 saying which row each sample has.

        Of classes there are few rows; None where there are more than `ALIKE`, as of real labels.
        """
        D = self.some(place)
        if len(D) > MOST_SAMPLES or len(np.unique(D[:PROBE], axis=0)) > ALIKE:
            return None
        _, first, of_row = np.unique(
            D.round(DIGITS), axis=0, return_index=True, return_inverse=True
        )
        if first.size > ALIKE:
            return None
        Z = (of_row.reshape(-1, 1) == np.arange(first.size)).astype(np.float32)
        return Z, D[first]

    def some(self, place: slice) -> Float:
        """Those of a run, (m, k)."""
        return np.concatenate(self.panels, axis=1)[:, place]

"""Rows of a base matrix at the landmarks, computed from inner products where they are needed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.errors import InputError
from dhsic.kernels.base import AbstractKernel
from dhsic.lowrank.base import Landmarks

#: Bytes of the base matrix that are in memory at a time.
STRIP_BYTES = 1 << 24
#: Fewer samples than this at a time are not worth a call.
LEAST_STRIP = 64
#: Side of the tiles on whose diagonals the diagonal is computed.
DIAGONAL_TILE = 64


@dataclass(frozen=True, slots=True)
class BaseRows:
    """Rows of a base matrix at landmarks that are samples, computed where they are needed."""

    kernel: AbstractKernel
    sigma: float
    landmarks: Landmarks
    key: int = 0

    @property
    def rows(self) -> Index:
        """Which samples the landmarks are, (b,).

        Raises
        ------
        InputError
            They are random directions.
        """
        if self.landmarks.rows is None:
            raise InputError(
                f"These {self.landmarks.n_landmarks} landmarks are random directions of feature "
                "space, which serve random features only. Pass samples as landmarks, or "
                "RandomFeatures()."
            )
        return self.landmarks.rows

    def part(self, which: Index, columns: slice | Index) -> Float:
        """Base matrix between landmarks `which`, (s,), and samples `columns`: (s, t), new."""
        rows = self.rows[which]
        inner, norms = self.landmarks.inner, self.landmarks.norms
        some = inner[:, columns][which] if isinstance(columns, slice) else inner[which][:, columns]
        return self.kernel.base(self.key, some, norms[rows], norms[columns], self.sigma)

    def strips(self, which: Index) -> Iterator[tuple[slice, Float]]:
        """Columns and ``(s, t)`` parts of the rows of landmarks `which`, left to right."""
        m = self.landmarks.n_samples
        width = max(LEAST_STRIP, STRIP_BYTES // (8 * max(1, len(which))))
        for a in range(0, m, width):
            columns = slice(a, min(a + width, m))
            yield columns, self.part(which, columns)

    def among(self, which: Index) -> Float:
        """Base matrix among landmarks `which`, (s, s), symmetric to the last bit."""
        K = self.part(which, self.rows[which])
        return np.asarray((K + K.T) / 2)

    def diagonal(self, samples: Index | None = None) -> Float:
        """Base matrix of samples with themselves, all (m,) or some (s,)."""
        norms = self.landmarks.norms if samples is None else self.landmarks.norms[samples]
        diagonal = np.empty_like(norms)
        for a in range(0, len(norms), DIAGONAL_TILE):
            n = norms[a : a + DIAGONAL_TILE]
            tile = np.repeat(n[:, None], len(n), axis=1)
            diagonal[a : a + DIAGONAL_TILE] = np.diagonal(
                self.kernel.base(self.key, tile, n, n, self.sigma)
            )
        return diagonal


def signs(V: Array) -> Array:
    """Sign per column that makes its largest entry positive, (r,); V is (n, r)."""
    if V.shape[0] == 0:
        return np.ones(V.shape[1])
    largest = V[np.argmax(np.abs(V), axis=0), np.arange(V.shape[1])]
    return np.where(largest < 0, -1.0, 1.0)

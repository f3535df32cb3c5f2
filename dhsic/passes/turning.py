"""Rows of ``A = W o K`` that turns of the kernel are told on, as slices of the samples have them.

See `dhsic.engines.turns` for what they are for, `dhsic.lowrank.slices` for the slices.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.engines.turns import with_diagonal
from dhsic.kernels.base import AbstractKernel
from dhsic.linalg.symmetric import LowRankSymmetric
from dhsic.lowrank.slices import Slice


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Which rows slices are asked for.

    Attributes
    ----------
    which, samples : (r,) int64
        Landmarks, and which samples they are.
    norms : (r,) float64
        Their squared norms.
    W : LowRankSymmetric
        Rows of W there.
    """

    kernel: AbstractKernel
    sigma: float
    which: Index
    samples: Index
    norms: Float
    W: LowRankSymmetric


def twice(known: Slice, asked: Rows) -> tuple[Array, Float, Float]:
    """Rows of ``2 A`` at the samples of a slice, (r, s) float32; of A its sums, and its diagonal.

    The diagonal is 0 where it is in other slices.
    """
    itself = known.places(asked.samples)
    here = itself[0]
    A = (asked.W.F @ asked.W.core) @ known.W.F.T
    A[itself] = asked.W.diagonal[here]
    K = asked.kernel.part(None, known.inner[asked.which], asked.norms, known.norms, asked.sigma)
    A *= K
    own = np.zeros(len(asked.which))
    own[here] = A[itself]
    return (2.0 * A).astype(np.float32), A.sum(axis=1), own


def form_rows(parts: Iterable[tuple[Array, Float, Float]], rows: Index, m: int) -> Array:
    """Rows of ``B = 2 A - 2 diag(A 1)``, (r, m) float32, from what all slices say."""
    out, at = np.empty((len(rows), m), dtype=np.float32), 0
    sums, own = np.zeros((2, len(rows)))
    for part, more, found in parts:
        out[:, at : at + part.shape[1]] = part
        sums += more
        own += found
        at += part.shape[1]
    return with_diagonal(out, rows, own, sums)

"""Linear algebra shared by several packages.

This module contains the incomplete Cholesky decomposition with pivoting (JMLR 2.6.2; Fine and
Scheinberg, 2000). Each step selects the sample with the largest residual (the pivot) and adds the
direction that makes its row exact. The decomposition needs only the rows of the pivots and O(m r^2)
operations. The trace of the residual is known after every step.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dhsic._typing import Float, Index

#: Number of directions for which memory is allocated at first.
FIRST = 16


def pivoted_cholesky(
    row: Callable[[int], Float],
    diagonal: Float,
    *,
    rank: int,
    tolerance: float,
    among: Index | None = None,
    rounding: float = 0.0,
    room: int = FIRST,
) -> tuple[Float, Index, Float]:
    """Decompose a positive semidefinite matrix K (m, m) as ``K ~ G' G``.

    `row(p)` returns row p of K as a new array (m,), and `diagonal` (m,) is the diagonal of K. The
    decomposition stops at `rank` directions, or when the trace of the residual is at most
    `tolerance` times the trace of K. Pivots are chosen from the samples `among`, by default all.
    Samples with residuals up to `rounding` are not used as pivots. If `rounding` is positive,
    entries at earlier pivots are set to exactly 0. Memory is first allocated for `room` directions.

    Returns
    -------
    G : (r, m) float64
        Directions as rows, in the order of their pivots.
    pivots : (r,) int64
        Sample indices of the pivots.
    missing : (m,) float64
        Diagonal of ``K - G' G``.
    """
    G = np.empty((min(room, rank), len(diagonal)))
    missing, trace = diagonal.copy(), diagonal.sum()
    pivots: list[int] = []
    while len(pivots) < rank and missing.sum() > tolerance * trace:
        r = len(pivots)
        p = int(np.argmax(missing) if among is None else among[np.argmax(missing[among])])
        if missing[p] <= rounding:
            break
        if r == len(G):
            G = np.concatenate([G, np.empty((min(r, rank - r), len(diagonal)))])
        g = row(p)
        g -= G[:r, p] @ G[:r]
        if rounding:
            g[pivots], g[p] = 0.0, missing[p]
        g /= np.sqrt(missing[p])
        G[r] = g
        missing -= np.square(g, out=g)
        np.maximum(missing, 0.0, out=missing)
        missing[p] = 0.0
        pivots.append(p)
    return G[: len(pivots)], np.array(pivots, dtype=np.int64), missing

"""Linear algebra that several rooms share.

Here is the incomplete Cholesky decomposition with pivoting (JMLR 2.6.2; Fine and Scheinberg, 2000).
Each step takes the sample of which most is missing and adds the direction that completes its row.
It needs the rows of the pivots alone, O(m r^2) operations, and knows at every step the trace of
what is missing.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dhsic._typing import Float, Index

#: Directions that there is room for at first, where more are allowed.
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
    """``K ~ G' G`` of a positive semidefinite K.

    `row` gives row p of K, a new array (m,), and `diagonal` (m,) is that of K. At most `rank`
    directions are found, fewer where what is missing of the trace is at most a part `tolerance`.
    Pivots are `among` some samples, by default all. What is at most `rounding` is none: no pivot
    has less missing, and rows of earlier pivots are cleared of it; 0 takes rounding as it comes.
    Memory for `room` directions is asked for at once.

    Returns
    -------
    G : (r, m) float64
        Directions as rows, in the order of their pivots.
    pivots : (r,) int64
        The samples.
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

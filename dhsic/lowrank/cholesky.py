"""Landmarks as pivots of an incomplete Cholesky decomposition (`dhsic.linalg.pivoted_cholesky`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.linalg import solve_triangular

from dhsic._typing import Float, Index
from dhsic.linalg.pivoted_cholesky import pivoted_cholesky
from dhsic.lowrank.base import AbstractFactorizer, BaseRows, check_rank, check_tolerance
from dhsic.lowrank.residuals import HeldOut, estimated_error, held_positions

#: A pivot of which less than this part of the largest diagonal entry, times the number of
#: landmarks, is missing is complete but for rounding.
ROUNDING = 4 * np.finfo(np.float64).eps


@dataclass(frozen=True)
class Cholesky(AbstractFactorizer):
    """Greedy pivots among the landmarks until little of the trace is missing.

    The error is estimated from the missing diagonal d: the residual of samples i and j is at most
    ``sqrt(d_i d_j)``, and how much of that it is, is measured on landmarks that are no pivots or,
    where fewer than 16 are left, on the pivots left out one at a time.

    Parameters
    ----------
    rank : int, optional
        Most directions; by default as many as landmarks.
    tolerance : float
        Stop where the trace of the residual is at most this part of the trace of K. With 0 and
        all samples as landmarks K is reproduced to rounding.

    Raises
    ------
    InputError
        A parameter out of its range.
    """

    name: ClassVar[str] = "cholesky"
    rank: int | None = None
    tolerance: float = 1e-6

    def __post_init__(self) -> None:
        check_rank(self.rank, "Cholesky")
        check_tolerance(self.tolerance, "Cholesky")

    def _directions(self, rows: BaseRows, seed: int) -> tuple[Float, Float, float]:
        """A column of F per pivot, in their order; weights are 1."""
        b, m = rows.landmarks.inner.shape
        most = b if self.rank is None else min(self.rank, b)
        place = {int(sample): k for k, sample in enumerate(rows.rows)}
        diagonal = rows.diagonal()
        G, samples, missing = pivoted_cholesky(
            lambda p: rows.part(np.array([place[p]]), slice(0, m))[0],
            diagonal,
            rank=most,
            tolerance=self.tolerance,
            among=rows.rows,
            rounding=ROUNDING * b * diagonal.max(),
            room=most,  # memory is taken as directions are written
        )
        F, weights = np.ascontiguousarray(G.T), np.ones(len(G))
        pivots = np.array([place[int(sample)] for sample in samples], dtype=np.int64)
        held = _held_out(rows, F, pivots, diagonal, missing, seed)
        return F, weights, estimated_error(rows, F, weights, pivots, held, missing)


def _held_out(
    rows: BaseRows, F: Float, pivots: Index, diagonal: Float, missing: Float, seed: int
) -> HeldOut:
    """Landmarks that are no pivots or, where there are few, pivots each seen through the others.

    With ``K_bb = F_b F_b'`` for the pivots, what the others miss of pivot i is
    ``q_i / (q_i' q_i)``, ``q_i`` column i of the inverse of F_b.
    """
    unused = np.setdiff1d(np.arange(rows.landmarks.n_landmarks), pivots)
    which, are_unused = held_positions(unused, pivots, seed)
    if are_unused or len(which) == 0:
        return HeldOut(which, F[rows.rows[which]], missing[rows.rows[which]])
    place = {int(pivot): k for k, pivot in enumerate(pivots)}
    at = np.array([place[int(pivot)] for pivot in which])
    triangle = F[rows.rows[pivots]]
    inverse = solve_triangular(triangle, np.eye(len(pivots)), lower=True)[:, at].T  # (s, r)
    embedding = triangle[at] - inverse / np.einsum("ij,ij->i", inverse, inverse)[:, None]
    left = diagonal[rows.rows[which]] - np.einsum("ij,ij->i", embedding, embedding)
    return HeldOut(which, embedding, np.maximum(left, 0.0))

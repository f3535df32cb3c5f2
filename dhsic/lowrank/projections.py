r"""Projections of K onto landmarks: Nystrom's, and an incomplete Cholesky decomposition.

Both are ``K_mb K_bb^+ K_bm`` of some landmarks, the part of K that these samples span. `Nystrom`
takes those it is given, or a sample of them, and cuts the product to its leading directions: many
landmarks find the directions, few directions score. They are those of the singular value
decomposition of ``K_mb K_bb^{-1/2}``, whose b x b Gram matrix is summed over strips of samples, so
that besides F nothing of size m is held. `Cholesky` takes landmarks one by one, always the one of
which most is missing (`dhsic.linalg.pivoted_cholesky`).

A landmark i left out is seen through the others. With ``P = K_bb^{-1}`` what they miss of it,
``K_.i - K_.L K_LL^{-1} K_Li``, is ``K_.b P e_i / P_ii``, so leaving out each in turn costs no
further fit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.linalg import solve_triangular

from dhsic._typing import Float, Index
from dhsic.errors import InputError
from dhsic.linalg.pivoted_cholesky import pivoted_cholesky
from dhsic.lowrank.base import AbstractFactorizer, BaseRows, check_rank, check_tolerance, signs
from dhsic.lowrank.residuals import HeldOut, estimated_error
from dhsic.validation import is_count

#: A pivot of which less than this part of the largest diagonal entry, times the number of
#: landmarks, is missing is complete but for rounding.
ROUNDING = 4 * np.finfo(np.float64).eps


@dataclass(frozen=True)
class Nystrom(AbstractFactorizer):
    """Projection of K onto landmarks, cut to its leading directions.

    The error is estimated on landmarks that were not chosen or, where fewer than 16 are left, on
    the chosen ones left out one at a time. It takes the landmarks it is given for a fair sample
    of all samples.

    Parameters
    ----------
    n_landmarks : int, optional
        How many of the given landmarks to use; by default, and where fewer are given, all.
    rank : int, optional
        Directions to keep; by default all that are numerically there.
    sampling : {"uniform", "kmeans++", "leverage"}
        How they are chosen: evenly; each far in feature space from those before it (with
        probability proportional to its squared distance to the nearest); by ridge leverage
        scores, the larger the harder a sample is to predict from the others. Samples that are
        copies of chosen ones are not chosen by "kmeans++".
    tolerance : float
        Directions of K_bb with an eigenvalue below this part of the largest are left out: their
        inverses would blow up the rounding of a statistic that is summed over 10^6 features.

    Raises
    ------
    InputError
        A parameter out of its range.
    """

    name: ClassVar[str] = "nystrom"
    n_landmarks: int | None = None
    rank: int | None = None
    sampling: str = "uniform"
    tolerance: float = 1e-10

    def __post_init__(self) -> None:
        check_rank(self.rank, "Nystrom")
        check_tolerance(self.tolerance, "Nystrom")
        if self.n_landmarks is not None and not is_count(self.n_landmarks):
            raise InputError(
                f"Nystrom n_landmarks={self.n_landmarks!r}; pass a whole number >= 1, or None."
            )
        if self.sampling not in _SAMPLING:
            raise InputError(
                f"Nystrom sampling={self.sampling!r} is unknown; pass one of "
                f"{', '.join(map(repr, _SAMPLING))}."
            )

    def _directions(self, rows: BaseRows, seed: int) -> tuple[Float, Float, float]:
        """``F = K_mb K_bb^{-1/2}``, rotated to its leading directions; weights are 1."""
        used = self.chosen(rows, seed)
        values, V = np.linalg.eigh(rows.among(used))
        least = max(self.tolerance, len(V) * np.finfo(np.float64).eps) * max(values[-1], 0.0)
        kept = values > least
        roots = np.sqrt(values[kept])
        root, inverse_root = V[:, kept] * roots, V[:, kept] / roots  # K_bb = root root'
        rotation = self._rotation(rows, used, inverse_root)
        to_factor = inverse_root @ rotation  # (n, r)
        flips = signs(to_factor)
        to_factor, rotation = to_factor * flips, rotation * flips

        F = np.empty((rows.landmarks.n_samples, to_factor.shape[1]))
        for columns, K in rows.strips(used):
            np.matmul(K.T, to_factor, out=F[columns])

        def left_out(at: Index) -> Float:
            # P_ii with eigenvalues that are left out raised to the tolerance: large for copies,
            # of which the others miss nothing.
            with np.errstate(divide="ignore", invalid="ignore"):
                P = np.nan_to_num((V * V) @ (1 / np.maximum(values, least)), nan=np.inf)
            return np.asarray((root[at] - inverse_root[at] / P[at, None]) @ rotation)

        weights = np.ones(F.shape[1])
        sizes = np.maximum(rows.diagonal() - np.einsum("ij,ij->i", F, F), 0.0)
        held = HeldOut.of(rows, F, used, sizes, seed, left_out)
        return F, weights, estimated_error(rows, F, weights, used, held, sizes)

    def chosen(self, rows: BaseRows, seed: int) -> Index:
        """Positions of the landmarks that are used, ascending."""
        b = rows.landmarks.n_landmarks
        every = np.arange(b)
        if self.n_landmarks is None or self.n_landmarks >= b:
            return every
        rng = np.random.default_rng(seed)
        return np.sort(_SAMPLING[self.sampling](rows.among(every), self.n_landmarks, rng))

    def _rotation(self, rows: BaseRows, used: Index, inverse_root: Float) -> Float:
        """Leading right singular vectors of ``K_mb K_bb^{-1/2}``, (q, r)."""
        q = inverse_root.shape[1]
        if self.rank is None or self.rank >= q:
            return np.eye(q)
        gram = np.zeros((len(used), len(used)))  # K_bm K_mb
        for _, K in rows.strips(used):
            gram += K @ K.T
        core = inverse_root.T @ gram @ inverse_root
        _, V = np.linalg.eigh((core + core.T) / 2)
        return np.asarray(V[:, ::-1][:, : self.rank])


def _uniform(K: Float, n: int, rng: np.random.Generator) -> Index:
    """The first n of a permutation."""
    return rng.permutation(len(K))[:n]


def _far_apart(K: Float, n: int, rng: np.random.Generator) -> Index:
    """Each with probability proportional to ``min_l K_ii + K_ll - 2 K_il`` over those before it."""
    diagonal = np.diagonal(K)
    chosen = [int(rng.integers(len(K)))]
    nearest = np.full(len(K), np.inf)
    while len(chosen) < n:
        last = chosen[-1]
        nearest = np.minimum(nearest, diagonal + diagonal[last] - 2 * K[:, last])
        nearest = np.where(nearest > 1e-12 * diagonal.max(), nearest, 0.0)  # copies, but rounding
        nearest[chosen] = 0.0
        if not nearest.any():
            break
        chosen.append(int(rng.choice(len(K), p=nearest / nearest.sum())))
    return np.array(chosen, dtype=np.int64)


def _by_leverage(K: Float, n: int, rng: np.random.Generator) -> Index:
    """With ``(K (K + ridge)^{-1})_ii`` as odds; the ridge is the mean of what n directions miss."""
    values, V = np.linalg.eigh(K)
    values = np.maximum(values, 0.0)
    ridge = max(values[: len(K) - n].sum() / n, np.finfo(np.float64).tiny)
    odds = (V * V) @ (values / (values + ridge))
    waiting = rng.exponential(size=len(K)) / np.maximum(odds, np.finfo(np.float64).eps)
    return np.argsort(waiting, kind="stable")[:n]


_SAMPLING: dict[str, Callable[[Float, int, np.random.Generator], Index]] = {
    "uniform": _uniform,
    "kmeans++": _far_apart,
    "leverage": _by_leverage,
}


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

        def left_out(at: Index) -> Float:
            # K_bb = F_b F_b', a triangle: P_ii = q_i' q_i with q_i column i of its inverse.
            triangle = F[samples]
            inverse = solve_triangular(triangle, np.eye(len(pivots)), lower=True)[:, at].T  # (s, r)
            P = np.einsum("ij,ij->i", inverse, inverse)
            return np.asarray(triangle[at] - inverse / P[:, None])

        held = HeldOut.of(rows, F, pivots, missing, seed, left_out)
        return F, weights, estimated_error(rows, F, weights, pivots, held, missing)

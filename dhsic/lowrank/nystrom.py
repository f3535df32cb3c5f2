r"""Nystrom's factorizer: ``K ~ K_mb K_bb^+ K_bm``, the part of K that b samples span.

Many landmarks find the directions, few directions score: the leading `rank` directions of the
approximated K are those of the singular value decomposition of ``K_mb K_bb^{-1/2}``. Its b x b
Gram matrix is summed over strips of samples, so that besides F nothing of size m is held.

A landmark i left out is seen through the others. With ``P = K_bb^{-1}`` what they miss of it,
``K_.i - K_.L K_LL^{-1} K_Li``, is ``K_.b P e_i / P_ii``, so leaving out each in turn costs no
further fit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dhsic._typing import Float, Index
from dhsic.errors import InputError
from dhsic.lowrank.base import AbstractFactorizer, BaseRows, check_rank, check_tolerance
from dhsic.lowrank.landmarks import signs
from dhsic.lowrank.residuals import HeldOut, estimated_error, held_positions
from dhsic.validation import is_count


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
        used = self._choose(rows, seed)
        whitening = _Whitening.of(rows.among(used), self.tolerance)
        rotation = self._rotation(rows, used, whitening)
        to_factor = whitening.inverse_root @ rotation  # (n, r)
        to_factor = to_factor * signs(to_factor)
        rotation = rotation * signs(whitening.inverse_root @ rotation)

        F = np.empty((rows.landmarks.n_samples, to_factor.shape[1]))
        for columns, K in rows.strips(used):
            np.matmul(K.T, to_factor, out=F[columns])
        weights = np.ones(F.shape[1])
        sizes = np.maximum(rows.diagonal() - _squares(F), 0.0)
        held = _held_out(rows, F, used, whitening, rotation, sizes, seed)
        return F, weights, estimated_error(rows, F, weights, used, held, sizes)

    def _choose(self, rows: BaseRows, seed: int) -> Index:
        """Positions of the landmarks that are used, ascending."""
        b = rows.landmarks.n_landmarks
        every = np.arange(b)
        if self.n_landmarks is None or self.n_landmarks >= b:
            return every
        rng = np.random.default_rng(seed)
        return np.sort(_SAMPLING[self.sampling](rows.among(every), self.n_landmarks, rng))

    def _rotation(self, rows: BaseRows, used: Index, whitening: _Whitening) -> Float:
        """Leading right singular vectors of ``K_mb K_bb^{-1/2}``, (q, r)."""
        q = whitening.inverse_root.shape[1]
        if self.rank is None or self.rank >= q:
            return np.eye(q)
        gram = np.zeros((len(used), len(used)))  # K_bm K_mb
        for _, K in rows.strips(used):
            gram += K @ K.T
        core = whitening.inverse_root.T @ gram @ whitening.inverse_root
        _, V = np.linalg.eigh((core + core.T) / 2)
        return np.asarray(V[:, ::-1][:, : self.rank])


@dataclass(frozen=True, slots=True)
class _Whitening:
    """``K_bb = root root'`` and its inverse, on the directions that are numerically there.

    Attributes
    ----------
    root, inverse_root : (n, q) float64
        ``V lambda^{1/2}`` and ``V lambda^{-1/2}``.
    inverse_diagonal : (n,) float64
        ``P_ii`` with the other eigenvalues raised to the tolerance: large for copies, of which
        the others miss nothing.
    """

    root: Float
    inverse_root: Float
    inverse_diagonal: Float

    @staticmethod
    def of(K: Float, tolerance: float) -> _Whitening:
        """Decompose K, (n, n) symmetric; tolerance is relative to its largest eigenvalue."""
        values, V = np.linalg.eigh(K)
        least = max(tolerance, len(K) * np.finfo(np.float64).eps) * max(values[-1], 0.0)
        kept = values > least
        roots = np.sqrt(values[kept])
        with np.errstate(divide="ignore", invalid="ignore"):
            inverse_diagonal = np.nan_to_num((V * V) @ (1 / np.maximum(values, least)), nan=np.inf)
        return _Whitening(V[:, kept] * roots, V[:, kept] / roots, inverse_diagonal)


def _held_out(
    rows: BaseRows,
    F: Float,
    used: Index,
    whitening: _Whitening,
    rotation: Float,
    sizes: Float,
    seed: int,
) -> HeldOut:
    """Unused landmarks or, where there are few, used ones each seen through the others."""
    unused = np.setdiff1d(np.arange(rows.landmarks.n_landmarks), used)
    which, are_unused = held_positions(unused, used, seed)
    if are_unused:
        return HeldOut(which, F[rows.rows[which]], sizes[rows.rows[which]])
    at = np.searchsorted(used, which)
    missed = whitening.inverse_root[at] / whitening.inverse_diagonal[at, None]
    embedding = (whitening.root[at] - missed) @ rotation
    diagonal = rows.diagonal(rows.rows[which])
    return HeldOut(which, embedding, np.maximum(diagonal - _squares(embedding), 0.0))


def _squares(F: Float) -> Float:
    return np.asarray(np.einsum("ij,ij->i", F, F))


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

r"""Factorizers: projections onto landmarks, leading directions, random Fourier features.

`Nystrom` and `Cholesky` are ``K_mb K_bb^+ K_bm`` of some landmarks, the part of K that these
samples span. `Nystrom` takes those it is given, or a sample of them, and cuts the product to its
leading directions: many landmarks find the directions, few directions score. They are those of the
singular value decomposition of ``K_mb K_bb^{-1/2}``, whose b x b Gram matrix is summed over strips
of samples, so that besides F nothing of size m is held. `Cholesky` takes landmarks one by one,
always the one of which most is missing (`dhsic.linalg.pivoted_cholesky`).

A landmark i left out is seen through the others. With ``P = K_bb^{-1}`` what they miss of it,
``K_.i - K_.L K_LL^{-1} K_Li``, is ``K_.b P e_i / P_ii``, so leaving out each in turn costs no
further fit.

`Spectral` has the leading directions of K without its diagonal, by subspace iteration. Wide data
has a kernel of a few structured directions on a flat floor that sits on the diagonal, which off the
diagonal does not count. So the diagonal is free: it is filled with what the factor itself makes of
it. Starting from 0, each iteration finds better directions for the diagonal at hand and then the
best diagonal for those directions; neither step makes the error off the diagonal worse.

`RandomFeatures` are those of the Gaussian kernel (CCM 5.2; Rahimi and Recht, 2007):
``exp(-sigma ||x - y||^2)`` is the mean of ``2 cos(w'x + p) cos(w'y + p)`` over normal directions
w of variance ``2 sigma`` and even phases p. The landmarks are such directions of variance 1: the
statistic is again a sum over features, and sigma may change without another pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import solve_triangular

from dhsic._typing import Array, Float, Index, Mask
from dhsic.errors import InputError
from dhsic.linalg import pivoted_cholesky
from dhsic.lowrank.base import (
    MOST_HELD,
    AbstractFactorizer,
    BaseRows,
    HeldRows,
    estimated_error,
    relative,
)
from dhsic.validation import is_count, is_number

#: A pivot of which less than this part of the largest diagonal entry, times the number of
#: landmarks, is missing is complete but for rounding.
COMPLETE = 4 * np.finfo(np.float64).eps
#: Directions that are iterated besides those asked for: they make the iteration converge fast.
SURPLUS = 8
#: Iteration ends where eigenvalues change by less than this part of the largest.
CONVERGED = 1e-10
#: One landmark in so many is set aside to estimate the error.
ONE_IN = 10
#: Landmarks that a direction takes where it is to be extended: with fewer the directions fit the
#: landmarks and nobody else.
PER_DIRECTION = 4
#: A direction has values of about ``|lambda| / sqrt(n)`` at n landmarks; where those outside are
#: more than so many times as large, it is noise that the extension would blow up.
MOST_GROWTH = 2.0
#: Eigenvalues below this part of the largest are rounding.
ROUNDING = 1e-13
#: Samples whose squares are taken at a time.
SQUARED = 4096


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
    """

    name: ClassVar[str] = "nystrom"
    n_landmarks: int | None = None
    rank: int | None = None
    sampling: str = "uniform"
    tolerance: float = 1e-10

    def __post_init__(self) -> None:
        _check("Nystrom", self.rank, self.tolerance)
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
        flips = _signs(to_factor)
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
        held = HeldRows.of(rows, F, used, sizes, seed, left_out)
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
    "uniform": lambda K, n, rng: rng.permutation(len(K))[:n],
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
    """

    name: ClassVar[str] = "cholesky"
    rank: int | None = None
    tolerance: float = 1e-6

    def __post_init__(self) -> None:
        _check("Cholesky", self.rank, self.tolerance)

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
            rounding=COMPLETE * b * diagonal.max(),
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

        held = HeldRows.of(rows, F, pivots, missing, seed, left_out)
        return F, weights, estimated_error(rows, F, weights, pivots, held, missing)


@dataclass(frozen=True)
class Spectral(AbstractFactorizer):
    """Directions of the largest eigenvalues, by size, of K without its diagonal.

    Where the landmarks are all samples the error is measured. Otherwise one landmark in ten (at
    most 64) is set aside for it, the directions are those of the other landmarks, at most one for
    every four of them, and are extended to all samples by Nystrom's formula; a direction that
    grows outside the landmarks is noise and left out. Two or three landmarks are too few to find
    anything: the factor is empty and its error 1.

    Parameters
    ----------
    rank : int
        Most directions: with 5 of 2,000 genotypes of three populations the first tenth removed
        agreed to 0.99 with the exact engine's.
    n_iterations : int
        Most iterations.
    """

    name: ClassVar[str] = "spectral"
    rank: int = 5
    n_iterations: int = 30

    def __post_init__(self) -> None:
        if not is_count(self.rank):
            raise InputError(
                f"Spectral rank={self.rank!r}; pass a whole number >= 1, for instance 5."
            )
        if not is_count(self.n_iterations):
            raise InputError(
                f"Spectral n_iterations={self.n_iterations!r}; pass a whole number >= 1."
            )

    def _directions(self, rows: BaseRows, seed: int) -> tuple[Float, Float, float]:
        """``F = K_mb V |lambda|^{-1/2}``; weights are the signs of lambda."""
        m = rows.landmarks.n_samples
        found, held = self.extension(rows, m, seed)
        F = np.zeros((m, found.rank))
        for columns, K in rows.strips(found.used):
            F[columns] = found.over(K, *rows.itself(found.used, columns))
        steady = found.steady(np.einsum("ij,ij->j", F, F), m)
        F, weights = np.ascontiguousarray(F[:, steady]), found.weights[steady]
        ones = np.ones(m)
        out = HeldRows(held, F[rows.rows[held]], np.ones(len(held)))
        return F, weights, estimated_error(rows, F, weights, found.used, out, ones)

    def extension(self, rows: BaseRows, m: int, seed: int) -> tuple[Extension, Index]:
        """Directions of the landmarks, to be extended to all m samples; landmarks set aside."""
        rng, b = np.random.default_rng(seed), rows.landmarks.n_landmarks
        aside, order = 0 if b == m else min(MOST_HELD, -(-b // ONE_IN)), rng.permutation(b)
        used, held = np.sort(order[aside:]), np.sort(order[:aside])
        K = rows.among(used)
        np.fill_diagonal(K, 0.0)
        rank = self.rank if len(used) == m else min(self.rank, max(1, len(used) // PER_DIRECTION))
        values, V = _leading(K, rank, self.n_iterations, rng)
        kept = np.abs(values) > ROUNDING * np.abs(values).max(initial=0.0)
        return Extension(used, values[kept], V[:, kept]), held


@dataclass(frozen=True, slots=True, eq=False)
class Extension:
    """Directions of K among landmarks, ``V diag(values) V'``, which are extended to all samples.

    Attributes
    ----------
    used : (n,) int64
        Which of the landmarks these are.
    """

    used: Index
    values: Float
    V: Float

    @property
    def rank(self) -> int:
        """Number of directions r."""
        return len(self.values)

    @property
    def weights(self) -> Float:
        """Signs of the values, (r,)."""
        return np.sign(self.values)

    def over(self, K: Float, itself: Index, columns: Index) -> Float:
        """F (s, r) of samples, K (n, s) from the landmarks to them.

        Landmarks `itself` are the samples `columns`, and have rows ``V |values|^{1/2}``.
        """
        roots = np.sqrt(np.abs(self.values))
        if len(itself) == K.shape[1]:
            F = np.empty((K.shape[1], self.rank))
        else:
            F = K.T @ (self.V * (self.weights / roots))
        F[columns] = self.V[itself] * roots
        return F

    def steady(self, squares: Float, m: int) -> Mask:
        """Directions that do not grow outside of the landmarks, (r,); `squares` are those of F."""
        n, size = len(self.used), np.abs(self.values)
        if n == m:
            return np.ones(self.rank, dtype=bool)
        # of K_mb V, which is F but for the root of the size
        outside = np.sqrt(np.maximum(squares - size, 0.0) * size / (m - n))
        return np.asarray(outside * np.sqrt(n) < MOST_GROWTH * size)


def _leading(
    K: Float, rank: int, n_iterations: int, rng: np.random.Generator
) -> tuple[Float, Float]:
    """Eigenvalues (r,), the largest by size first, and eigenvectors (n, r).

    K is (n, n), symmetric, with a diagonal of zeros; the matrix meant is K with the diagonal that
    the result has.
    """
    n, r = len(K), min(rank, len(K))
    V, _ = np.linalg.qr(rng.standard_normal((n, min(n, rank + SURPLUS))))
    h, values = np.zeros(n), np.zeros(r)  # h is the diagonal
    for _ in range(n_iterations):
        V, _ = np.linalg.qr(K @ V + h[:, None] * V)
        core = V.T @ (K @ V + h[:, None] * V)
        every, rotation = np.linalg.eigh((core + core.T) / 2)
        order = np.argsort(-np.abs(every), kind="stable")
        before, values = values, every[order[:r]]
        V = V @ rotation[:, order]
        h = (V[:, :r] ** 2) @ values
        change = np.abs(values - before).max(initial=0.0)
        if change <= CONVERGED * np.abs(values).max(initial=0.0):
            break
    V = V[:, :r]
    return values, V * _signs(V)


@dataclass(frozen=True)
class RandomFeatures(AbstractFactorizer):
    """One cosine a landmark; the landmarks are standard normal directions of feature space.

    The error is that of a mean of b independent values, from their own variance over all pairs
    of samples; it falls as ``1 / sqrt(b)``, however simple K is. It is infinite where K drowns in
    it, and for b = 1.
    """

    name: ClassVar[str] = "random_features"

    def _directions(self, rows: BaseRows, seed: int) -> tuple[Float, Float, float]:
        """``F = sqrt(2 / b) cos(sqrt(2 sigma) inner' + phase)``; weights are 1."""
        kernel, landmarks = rows.kernel, rows.landmarks
        if not kernel.has_normal_frequencies:
            raise InputError(
                f"Random features are those of the Gaussian kernel, and kernel is {kernel.name!r}. "
                "Take the 'nystrom' or 'cholesky' factorizer, which any kernel has."
            )
        if landmarks.rows is not None:
            raise InputError(
                f"Random features need random directions and these {landmarks.n_landmarks} "
                "landmarks are samples. Pass inner products with random_directions(...) and "
                "rows=None, or take the 'nystrom' factorizer."
            )
        b = landmarks.n_landmarks
        phases = np.random.default_rng(seed).uniform(0.0, 2 * np.pi, size=b)
        F = np.multiply(landmarks.inner.T, np.sqrt(2 * rows.sigma), order="C")
        F += phases
        np.cos(F, out=F)
        F *= np.sqrt(2 / b)
        return F, np.ones(b), _sampling_error(F)


def _sampling_error(F: Float) -> float:
    """Standard error of the mean over features, relative to what it leaves of ``||F F'||``.

    With ``z_k = b F_ik F_jk`` for pair ij the mean is ``A_ij = sum_k z_k / b``, its variance
    ``(sum_k z_k^2 / b - A_ij^2) / (b - 1)``; both summed over all pairs i != j in O(m b^2).
    """
    b = F.shape[1]
    if b == 1:
        return float("inf")
    squares = np.zeros(b)  # sum_i F_ik^2
    own = fourths = 0.0  # sum_i A_ii^2, sum_ik F_ik^4
    for a in range(0, len(F), SQUARED):
        S = F[a : a + SQUARED] ** 2
        squares += S.sum(axis=0)
        own += float((S.sum(axis=1) ** 2).sum())
        fourths += float(np.vdot(S, S))
    G = F.T @ F
    total = float(np.vdot(G, G)) - own  # sum of A_ij^2
    variance = max((b * (float(squares @ squares) - fourths) - total) / (b - 1), 0.0)
    return relative(variance, total - variance)


def _check(factorizer: str, rank: object, tolerance: Any) -> None:
    """Refuse a rank that is no whole number from 1, unless None, or a tolerance outside [0, 1)."""
    if rank is not None and not is_count(rank):
        raise InputError(f"{factorizer} rank={rank!r}; pass a whole number >= 1.")
    if not (is_number(tolerance) and 0 <= float(tolerance) < 1):
        raise InputError(f"{factorizer} tolerance={tolerance!r}; pass a number from 0 to below 1.")


def _signs(V: Array) -> Array:
    """Sign per column that makes its largest entry positive, (r,); V is (n, r)."""
    if V.shape[0] == 0:
        return np.ones(V.shape[1])
    largest = V[np.argmax(np.abs(V), axis=0), np.arange(V.shape[1])]
    return np.where(largest < 0, -1.0, 1.0)

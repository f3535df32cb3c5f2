r"""Factorizers: projections onto landmarks, leading directions, random Fourier features.

`Nystrom` and `Cholesky` compute ``K_mb K_bb^+ K_bm``, the projection of K onto the span of b
landmarks. `Nystrom` uses all landmarks or a sample of them, and truncates the product to its
leading directions: many landmarks determine the directions, but only a few directions are used to
score features. The directions are computed from the singular value decomposition of
``K_mb K_bb^{-1/2}``. Its b x b Gram matrix is summed over strips of samples, so that F is the only
array of size m. `Cholesky` adds landmarks one by one, always the landmark with the largest residual
(`dhsic.linalg.pivoted_cholesky`).

Leave-one-out residuals of landmarks need no further fit. With ``P = K_bb^{-1}``, and L all
landmarks except i, they are ``K_.i - K_.L K_LL^{-1} K_Li = K_.b P e_i / P_ii``.

`Spectral` computes the leading directions of K without its diagonal, by subspace iteration. If
there are more features than samples, K is the sum of a few structured directions and a multiple of
the identity, which only changes the diagonal. The diagonal is therefore a free parameter, and is
set to the diagonal of the factor itself. It is initially 0. Each iteration improves the directions
for the current diagonal, and then computes the best diagonal for these directions. Neither step
increases the error off the diagonal.

`RandomFeatures` approximates the Gaussian kernel (CCM 5.2; Rahimi and Recht, 2007):
``exp(-sigma ||x - y||^2)`` is the mean of ``2 cos(w'x + p) cos(w'y + p)`` over normal directions
w of variance ``2 sigma`` and uniform phases p. The landmarks are directions with variance 1. The
inner products with them are sums over features, too, and sigma can change without another pass.
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

#: Maximum residual of a pivot that counts as rounding error, relative to the largest diagonal entry
#: times the number of landmarks.
COMPLETE = 4 * np.finfo(np.float64).eps
#: Number of extra directions in the subspace iteration, for faster convergence.
SURPLUS = 8
#: The iteration ends when eigenvalues change by less than this fraction of the largest.
CONVERGED = 1e-10
#: One landmark in `ONE_IN` is set aside to estimate the error.
ONE_IN = 10
#: Minimum number of landmarks per extended direction; with fewer, directions overfit the landmarks.
PER_DIRECTION = 4
#: A direction has values of about ``|lambda| / sqrt(n)`` at n landmarks. If its values at other
#: samples are larger by more than this factor, it is noise that the extension would amplify.
MOST_GROWTH = 2.0
#: Eigenvalues below this fraction of the largest eigenvalue are rounding errors.
ROUNDING = 1e-13
#: Number of samples whose squares are computed at a time.
SQUARED = 4096


@dataclass(frozen=True)
class Nystrom(AbstractFactorizer):
    """Projection of K onto landmarks, truncated to its leading directions.

    The error is estimated on landmarks that were not chosen. If there are fewer than 16, it is
    estimated on chosen landmarks, each predicted from the others. The estimate assumes that the
    landmarks are a random sample of all samples.

    Parameters
    ----------
    n_landmarks : int, optional
        Number of landmarks to use. Default: all.
    rank : int, optional
        Number of directions to keep. Default: all that are not numerically zero.
    sampling : {"uniform", "kmeans++", "leverage"}
        Method for choosing the landmarks. "uniform": uniformly at random. "kmeans++": with
        probability proportional to the squared distance, in feature space, to the nearest chosen
        landmark; duplicates of chosen landmarks are never chosen. "leverage": by ridge leverage
        scores, which are larger for samples that are harder to predict from the others.
    rtol : float
        Directions of K_bb with an eigenvalue below this fraction of the largest are dropped,
        because their inverses would amplify the rounding errors of a sum over 10^6 features.
    """

    name: ClassVar[str] = "nystrom"
    n_landmarks: int | None = None
    rank: int | None = None
    sampling: str = "uniform"
    rtol: float = 1e-10

    def __post_init__(self) -> None:
        _check("Nystrom", self.rank, self.rtol)
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
        """Compute ``F = K_mb K_bb^{-1/2}``, rotated to its leading directions; weights are 1."""
        used = self.chosen(rows, seed)
        values, V = np.linalg.eigh(rows.among(used))
        least = max(self.rtol, len(V) * np.finfo(np.float64).eps) * max(values[-1], 0.0)
        above = values > least
        roots = np.sqrt(values[above])
        root, inverse_root = V[:, above] * roots, V[:, above] / roots  # K_bb = root root'
        rotation = self._rotation(rows, used, inverse_root)
        to_factor = inverse_root @ rotation  # (n, r)
        flips = _signs(to_factor)
        to_factor, rotation = to_factor * flips, rotation * flips

        F = np.empty((rows.landmarks.n_samples, to_factor.shape[1]))
        for columns, K in rows.strips(used):
            np.matmul(K.T, to_factor, out=F[columns])

        def left_out(at: Index) -> Float:
            # P_ii with the dropped eigenvalues raised to rtol: it is large for duplicates,
            # which the other landmarks predict exactly.
            with np.errstate(divide="ignore", invalid="ignore"):
                P = np.nan_to_num((V * V) @ (1 / np.maximum(values, least)), nan=np.inf)
            return np.asarray((root[at] - inverse_root[at] / P[at, None]) @ rotation)

        weights = np.ones(F.shape[1])
        sizes = np.maximum(rows.diagonal() - np.einsum("ij,ij->i", F, F), 0.0)
        held_rows = HeldRows.of(rows, F, used, sizes, seed, left_out)
        return F, weights, estimated_error(rows, F, weights, used, held_rows, sizes)

    def chosen(self, rows: BaseRows, seed: int) -> Index:
        """Choose the landmarks to use; return their ascending positions."""
        b = rows.landmarks.n_landmarks
        every = np.arange(b)
        if self.n_landmarks is None or self.n_landmarks >= b:
            return every
        rng = np.random.default_rng(seed)
        return np.sort(_SAMPLING[self.sampling](rows.among(every), self.n_landmarks, rng))

    def _rotation(self, rows: BaseRows, used: Index, inverse_root: Float) -> Float:
        """Compute the leading right singular vectors of ``K_mb K_bb^{-1/2}``, (q, r)."""
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
    """Sample n rows one by one, preferably rows far from the rows already chosen ("kmeans++").

    The probability of row i is proportional to ``min_l K_ii + K_ll - 2 K_il``, over the rows l that
    are already chosen.
    """
    diagonal = np.diagonal(K)
    chosen = [int(rng.integers(len(K)))]
    nearest = np.full(len(K), np.inf)
    while len(chosen) < n:
        last = chosen[-1]
        nearest = np.minimum(nearest, diagonal + diagonal[last] - 2 * K[:, last])
        nearest = np.where(
            nearest > 1e-12 * diagonal.max(), nearest, 0.0
        )  # 0 for duplicates, up to rounding
        nearest[chosen] = 0.0
        if not nearest.any():
            break
        chosen.append(int(rng.choice(len(K), p=nearest / nearest.sum())))
    return np.array(chosen, dtype=np.int64)


def _by_leverage(K: Float, n: int, rng: np.random.Generator) -> Index:
    """Sample n rows with probabilities proportional to ridge leverage scores.

    The scores are ``(K (K + ridge)^{-1})_ii``. The ridge is the mean residual of the best
    approximation of rank n.
    """
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
    """Incomplete Cholesky decomposition: landmarks become pivots until the residual is small.

    Each pivot is the landmark with the largest residual. The error is estimated from the residual
    diagonal d: the residual of samples i and j is at most ``sqrt(d_i d_j)``. The ratio of the
    residual to this bound is measured on landmarks that are not pivots. If there are fewer than 16,
    it is measured on pivots, each predicted from the others.

    Parameters
    ----------
    rank : int, optional
        Maximum number of directions. Default: the number of landmarks.
    rtol : float
        The decomposition ends when the trace of the residual is at most this fraction of the trace
        of K. If it is 0 and all samples are landmarks, K is reproduced up to rounding.
    """

    name: ClassVar[str] = "cholesky"
    rank: int | None = None
    rtol: float = 1e-6

    def __post_init__(self) -> None:
        _check("Cholesky", self.rank, self.rtol)

    def _directions(self, rows: BaseRows, seed: int) -> tuple[Float, Float, float]:
        """Compute F with one column per pivot, in the order of the pivots; weights are 1."""
        b, m = rows.landmarks.inner.shape
        most = b if self.rank is None else min(self.rank, b)
        place = {int(sample): k for k, sample in enumerate(rows.rows)}
        diagonal = rows.diagonal()
        G, samples, missing = pivoted_cholesky(
            lambda p: rows.part(np.array([place[p]]), slice(0, m))[0],
            diagonal,
            rank=most,
            tolerance=self.rtol,
            among=rows.rows,
            rounding=COMPLETE * b * diagonal.max(),
            room=most,  # the system provides memory only when directions are written
        )
        F, weights = np.ascontiguousarray(G.T), np.ones(len(G))
        pivots = np.array([place[int(sample)] for sample in samples], dtype=np.int64)

        def left_out(at: Index) -> Float:
            # K_bb = F_b F_b', a triangle: P_ii = q_i' q_i with q_i column i of its inverse.
            triangle = F[samples]
            inverse = solve_triangular(triangle, np.eye(len(pivots)), lower=True)[:, at].T  # (s, r)
            P = np.einsum("ij,ij->i", inverse, inverse)
            return np.asarray(triangle[at] - inverse / P[:, None])

        held_rows = HeldRows.of(rows, F, pivots, missing, seed, left_out)
        return F, weights, estimated_error(rows, F, weights, pivots, held_rows, missing)


@dataclass(frozen=True)
class Spectral(AbstractFactorizer):
    """Eigenvectors of K without its diagonal, for the eigenvalues of largest absolute value.

    If all samples are landmarks, the error is measured. Otherwise one landmark in ten (at most 64)
    is held out to estimate it. The directions are computed from the other landmarks, at most one
    direction per four landmarks, and extended to all samples by Nystrom's formula. A direction with
    larger entries outside the landmarks is noise and is dropped. Two or three landmarks are too
    few: the factor is then empty and its error is 1.

    Parameters
    ----------
    rank : int
        Maximum number of directions. With 5, on 2,000 genotypes of three populations, the
        agreement with the exact engine was 0.99 for the first tenth of removed features.
    n_iterations : int
        Maximum number of iterations.
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
        """Compute ``F = K_mb V |lambda|^{-1/2}``; weights are the signs of lambda.

        V and lambda are eigenvectors and eigenvalues of the kernel matrix K among b landmarks; K_mb
        are its columns there.
        """
        m = rows.landmarks.n_samples
        directions, held_out = self.extension(rows, m, seed)
        F = np.zeros((m, directions.rank))
        for columns, K in rows.strips(directions.used):
            F[columns] = directions.over(K, *rows.itself(directions.used, columns))
        steady = directions.steady(np.einsum("ij,ij->j", F, F), m)
        F, weights = np.ascontiguousarray(F[:, steady]), directions.weights[steady]
        ones = np.ones(m)
        out = HeldRows(held_out, F[rows.rows[held_out]], np.ones(len(held_out)))
        return F, weights, estimated_error(rows, F, weights, directions.used, out, ones)

    def extension(self, rows: BaseRows, m: int, seed: int) -> tuple[Extension, Index]:
        """Compute the directions at the landmarks, which `Extension` extends to all m samples.

        Also returns the positions of the held-out landmarks.
        """
        rng, b = np.random.default_rng(seed), rows.landmarks.n_landmarks
        aside, order = 0 if b == m else min(MOST_HELD, -(-b // ONE_IN)), rng.permutation(b)
        used, held_out = np.sort(order[aside:]), np.sort(order[:aside])
        K = rows.among(used)
        np.fill_diagonal(K, 0.0)
        rank = self.rank if len(used) == m else min(self.rank, max(1, len(used) // PER_DIRECTION))
        values, V = _leading(K, rank, self.n_iterations, rng)
        nonzero = np.abs(values) > ROUNDING * np.abs(values).max(initial=0.0)
        return Extension(used, values[nonzero], V[:, nonzero]), held_out


@dataclass(frozen=True, slots=True, eq=False)
class Extension:
    """Leading eigenvectors V of the kernel matrix among n landmarks: ``V diag(values) V'``.

    The method `over` extends them to other samples by Nystrom's formula.

    Attributes
    ----------
    used : (n,) int64
        Positions of the n landmarks among all landmarks.
    """

    used: Index
    values: Float
    V: Float

    @property
    def rank(self) -> int:
        """Number of eigenvectors r that are extended to other samples."""
        return len(self.values)

    @property
    def weights(self) -> Float:
        """Signs of the eigenvalues, (r,)."""
        return np.sign(self.values)

    def over(self, K: Float, itself: Index, columns: Index) -> Float:
        """Extend the eigenvectors to s samples; return directions F (s, r).

        K (n, s) contains the kernel between the n landmarks (rows) and the samples (columns). Some
        samples are landmarks themselves: their positions are `columns` among the samples, and
        `itself` among the landmarks. Their rows of F are ``V |values|^{1/2}``.
        """
        roots = np.sqrt(np.abs(self.values))
        if len(itself) == K.shape[1]:
            F = np.empty((K.shape[1], self.rank))
        else:
            F = K.T @ (self.V * (self.weights / roots))
        F[columns] = self.V[itself] * roots
        return F

    def steady(self, squares: Float, m: int) -> Mask:
        """Mask (r,) of the directions that are not much larger outside the landmarks.

        Larger directions are noise. `squares` (r,) are the sums of squares of the columns of F over
        all m samples.
        """
        n, size = len(self.used), np.abs(self.values)
        if n == m:
            return np.ones(self.rank, dtype=bool)
        # root mean square of K_mb V at the other samples, from F times sqrt(size)
        outside = np.sqrt(np.maximum(squares - size, 0.0) * size / (m - n))
        return np.asarray(outside * np.sqrt(n) < MOST_GROWTH * size)


def _leading(
    K: Float, rank: int, n_iterations: int, rng: np.random.Generator
) -> tuple[Float, Float]:
    """Compute leading eigenvalues (r,), by descending magnitude, and eigenvectors (n, r).

    K (n, n) is symmetric with zeros on the diagonal. The decomposed matrix is K plus the diagonal
    of the low-rank result itself.
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
    """Random Fourier features: one cosine per landmark, which is a standard normal direction.

    The error is the standard error of a mean of b independent values, computed from the variance of
    the values over all pairs of samples. It decreases as ``1 / sqrt(b)``, even if K has few
    directions. It is reported as infinite if it exceeds the norm of K, or if b is 1.
    """

    name: ClassVar[str] = "random_features"

    def _directions(self, rows: BaseRows, seed: int) -> tuple[Float, Float, float]:
        """Compute ``F = sqrt(2 / b) cos(sqrt(2 sigma) inner' + phase)``; weights are 1."""
        kernel, landmarks = rows.kernel, rows.landmarks
        if not kernel.has_normal_frequencies:
            raise InputError(
                f"Random features need the Gaussian kernel, but kernel is {kernel.name!r}. Use the "
                "'nystrom' or 'cholesky' factorizer, which support any kernel."
            )
        if landmarks.rows is not None:
            raise InputError(
                f"Random features need random directions, but these {landmarks.n_landmarks} "
                "landmarks are samples. Pass inner products with random_directions(...) and "
                "rows=None, or use the 'nystrom' factorizer."
            )
        b = landmarks.n_landmarks
        phases = np.random.default_rng(seed).uniform(0.0, 2 * np.pi, size=b)
        F = np.multiply(landmarks.inner.T, np.sqrt(2 * rows.sigma), order="C")
        F += phases
        np.cos(F, out=F)
        F *= np.sqrt(2 / b)
        return F, np.ones(b), _sampling_error(F)


def _sampling_error(F: Float) -> float:
    """Estimate the standard error of the mean over random features, relative to ``||K||``.

    For a pair ij let ``z_k = b F_ik F_jk``. The mean is ``A_ij = sum_k z_k / b``, and its variance
    is ``(sum_k z_k^2 / b - A_ij^2) / (b - 1)``. Sums over all pairs i != j take O(m b^2).
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


def _check(factorizer: str, rank: object, rtol: Any) -> None:
    """Raise InputError unless rank is None or an integer >= 1, and rtol is in [0, 1)."""
    if rank is not None and not is_count(rank):
        raise InputError(f"{factorizer} rank={rank!r}; pass a whole number >= 1.")
    if not (is_number(rtol) and 0 <= float(rtol) < 1):
        raise InputError(f"{factorizer} rtol={rtol!r}; pass a number of at least 0 and below 1.")


def _signs(V: Array) -> Array:
    """Return the signs (r,) that make the largest entry of each column of V (n, r) positive."""
    if V.shape[0] == 0:
        return np.ones(V.shape[1])
    largest = V[np.argmax(np.abs(V), axis=0), np.arange(V.shape[1])]
    return np.where(largest < 0, -1.0, 1.0)

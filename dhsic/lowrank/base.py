r"""Interface of factorizers, which compute ``K ~ F diag(weights) F'`` from landmarks.

One pass over the data computes the inner products of all m samples with b *landmarks*, because they
are sums over features. No m x m matrix is ever formed. The factored matrix is a base matrix of the
kernel's expansion, or K itself for kernels with a bandwidth. Only entries off the diagonal are
approximated, because the diagonal of K is known exactly. Rows of a base matrix at the landmarks are
computed from inner products when they are needed.

The error of a factor is estimated from pairs of samples. If a pair includes a landmark of the fit,
its entry of K is known, so its residual is measured. For two other samples, the entry is known only
if one of them is *held out*: a landmark that the fit did not use. If the fit used all landmarks,
they are predicted by fits to the other landmarks (leave-one-out).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.errors import InputError
from dhsic.kernels.bandwidth import EQUAL
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.gaussian import squared_distances
from dhsic.linalg.symmetric import LowRankSymmetric

#: Bytes of a strip, the part of the base matrix that is in memory at a time.
STRIP_BYTES = 1 << 24
#: Least number of samples in a strip.
LEAST_STRIP = 64
#: Number of features whose random numbers come from one generator.
CHUNK = 1024
#: Maximum and minimum number of held-out rows: more do not improve the error estimate, fewer make
#: it inaccurate.
MOST_HELD, LEAST_HELD = 64, 16


@dataclass(frozen=True, slots=True)
class Landmarks:
    """Inner products of b landmarks with m samples, from which K is factored.

    `inner` (b, m) contains the inner products, summed over features, and `norms` (m,) the squared
    norms of the samples, both in float64. `rows` (b,) are the sample indices of the landmarks, or
    None if the landmarks are random directions of the feature space.
    """

    inner: Float
    norms: Float
    rows: Index | None

    def __post_init__(self) -> None:
        if self.inner.ndim != 2 or self.inner.shape[0] == 0 or self.inner.shape[1] == 0:
            raise InputError(
                f"The inner products have shape {self.inner.shape}; pass (b, m), one row per "
                "landmark and one column per sample, at least one of each."
            )
        if self.inner.dtype != np.float64 or self.norms.dtype != np.float64:
            raise InputError(
                f"The statistic is {self.inner.dtype} and its norms are {self.norms.dtype}; "
                "accumulate both in float64."
            )
        b, m = self.inner.shape
        if self.norms.shape != (m,):
            raise InputError(
                f"norms have shape {self.norms.shape}, but there are {m} samples; pass ({m},)."
            )
        if (rows := self.rows) is None:
            return
        if rows.shape != (b,) or rows.dtype.kind not in "iu":
            raise InputError(
                f"rows have shape {rows.shape} and dtype {rows.dtype}; pass ({b},) integers, the "
                "positions of the landmarks among the samples."
            )
        if rows.min() < 0 or rows.max() >= m or len(np.unique(rows)) < b:
            raise InputError(
                f"rows range from {rows.min()} to {rows.max()}, {len(np.unique(rows))} of them "
                f"different; pass {b} different positions from 0 to {m - 1}."
            )

    @property
    def samples(self) -> Index:
        """Sample indices of the landmarks, (b,).

        Raises
        ------
        InputError
            The landmarks are random directions.
        """
        if self.rows is None:
            raise InputError(
                f"These {self.n_landmarks} landmarks are random directions, which only work for "
                "random features. Pass samples as landmarks, or RandomFeatures()."
            )
        return self.rows

    @property
    def n_landmarks(self) -> int:
        """Number of landmarks b."""
        return int(self.inner.shape[0])

    @property
    def n_samples(self) -> int:
        """Number of samples m."""
        return int(self.inner.shape[1])


def uniform_rows(m: int, n: int, seed: int) -> Index:
    """Draw n of m samples uniformly without replacement; return ascending indices (n,)."""
    if not 1 <= n <= m:
        raise InputError(f"{n} landmarks of {m} samples; pass a number from 1 to {m}.")
    rng = np.random.default_rng(seed)
    return np.sort(rng.choice(m, size=n, replace=False, shuffle=False)).astype(np.int64)


def random_directions(seed: int, features: Index, n: int) -> Float:
    """Draw n standard normal directions of the feature space; return some of their entries.

    `features` (c,) are feature indices from 0, and the result is (n, c). An entry depends only on
    the seed, its direction and its feature, so it is the same for every division of the features
    into blocks, and for every larger n. Each chunk of `CHUNK` features has its own generator, so
    blocks within few chunks are cheap.
    """
    features = np.asarray(features, dtype=np.int64)
    chunks, offsets = np.divmod(features, CHUNK)
    directions = np.empty((n, len(features)))
    for chunk in np.unique(chunks):
        in_chunk = np.flatnonzero(chunks == chunk)
        key = np.array([seed, chunk], dtype=np.uint64)
        normal = np.random.Generator(np.random.Philox(key=key)).standard_normal((n, CHUNK))
        directions[:, in_chunk] = normal[:, offsets[in_chunk]]
    return directions


def landmark_statistic(X: Array, rows: Index) -> Landmarks:
    """Compute the inner products (`Landmarks`) of data X (m, d) with b of its samples.

    X is standardised; the indices of the b samples are `rows`.
    """
    X = np.asarray(X, dtype=np.float64)
    rows = np.asarray(rows, dtype=np.int64)
    return Landmarks(X[rows] @ X.T, np.einsum("ij,ij->i", X, X), rows)


@dataclass(frozen=True)
class LandmarkStats:
    """Statistics for the choice of a bandwidth, computed from landmarks.

    `value(sigma)` returns HSIC.
    """

    landmarks: Callable[[], Landmarks]
    value: Callable[[float], float]

    def pair_distances(self) -> Float:
        """Compute the squared distances of all pairs that include a landmark, each pair once."""
        statistic = self.landmarks()
        rows, norms = statistic.samples, statistic.norms
        D = squared_distances(statistic.inner, norms[rows], norms)
        D[EQUAL * norms.max() >= D] = 0.0
        is_landmark = np.zeros(len(norms), dtype=bool)
        is_landmark[rows] = True
        counted = ~is_landmark | (np.arange(len(norms)) > rows[:, None])
        return np.asarray(D[counted])

    def values(self, sigmas: Sequence[float]) -> list[float]:
        """Compute HSIC for each sigma from a low-rank factor."""
        return [self.value(sigma) for sigma in sigmas]


@dataclass(frozen=True, slots=True)
class BaseRows:
    """Rows of a base matrix at the landmarks (sampled samples).

    Base matrices are the (m, m) matrices in the series expansion of the kernel. `key` is the number
    of the base matrix, or None for the kernel matrix K itself.
    """

    kernel: AbstractKernel
    sigma: float
    landmarks: Landmarks
    key: int | None = 0

    @property
    def rows(self) -> Index:
        """Sample indices of the landmarks, (b,)."""
        return self.landmarks.samples

    def part(self, which: Index, columns: slice | Index) -> Float:
        """Compute the base matrix between s landmarks `which` and t samples `columns`: (s, t)."""
        rows = self.rows[which]
        inner, norms = self.landmarks.inner, self.landmarks.norms
        products = (
            inner[:, columns][which] if isinstance(columns, slice) else inner[which][:, columns]
        )
        return self.kernel.part(self.key, products, norms[rows], norms[columns], self.sigma)

    def strips(self, which: Index) -> Iterator[tuple[slice, Float]]:
        """Yield the rows of s landmarks `which` in strips: the columns, and the values (s, t)."""
        m = self.landmarks.n_samples
        width = max(LEAST_STRIP, STRIP_BYTES // (8 * max(1, len(which))))
        for a in range(0, m, width):
            columns = slice(a, min(a + width, m))
            yield columns, self.part(which, columns)

    def itself(self, which: Index, columns: slice) -> tuple[Index, Index]:
        """Return the row and column indices of the strip's entries on the matrix diagonal."""
        rows = self.rows[which]
        here = np.flatnonzero((rows >= columns.start) & (rows < columns.stop))
        return here, rows[here] - columns.start

    def among(self, which: Index) -> Float:
        """Compute the base matrix among landmarks `which`, (s, s), exactly symmetric."""
        K = self.part(which, self.rows[which])
        return np.asarray((K + K.T) / 2)

    def diagonal(self, samples: Index | None = None) -> Float:
        """Compute the diagonal of the base matrix, (m,), or its entries for `samples`, (s,)."""
        norms = self.landmarks.norms if samples is None else self.landmarks.norms[samples]
        return self.kernel.diagonal(self.key, norms, self.sigma)


class AbstractFactorizer(ABC):
    """Method and parameters for the low-rank factorization of a kernel matrix K (m, m).

    It also factors the other (m, m) matrices in the kernel's series expansion (base matrices).
    """

    name: ClassVar[str]

    @final
    def factor(
        self,
        kernel: AbstractKernel,
        sigma: float,
        landmarks: Landmarks,
        *,
        base: int | None = 0,
        seed: int = 0,
    ) -> LowRankSymmetric:
        """Factor a base matrix into ``F diag(weights) F'`` and its exact diagonal.

        `base` is the number of the base matrix, or None for K itself. Weights are 1, or -1 for
        negative directions of the spectral factorizer. The error of the result is an estimate of
        ``||K - F diag(weights) F'||_F / ||K||_F`` off the diagonal. The same input and seed give
        bitwise the same result.

        Raises
        ------
        InputError
            The factorizer does not support the kernel or the landmarks.
        """
        rows = BaseRows(kernel, sigma, landmarks, base)
        F, weights, error = self._directions(rows, seed)
        return LowRankSymmetric(F, weights, rows.diagonal(), error)

    @abstractmethod
    def _directions(self, rows: BaseRows, seed: int) -> tuple[Float, Float, float]:
        """Compute the factor F (m, r), its weights (r,) and its estimated relative error.

        Then ``F diag(weights) F'`` approximates the kernel matrix.
        """


@dataclass(frozen=True, slots=True)
class HeldRows:
    """Landmarks that a low-rank factor F did not use, on which the error of F is measured.

    `which` (s,) contains their positions among the landmarks, and `embedding` (s, r) the rows of F
    that the fit predicts for them. `sizes` (s,) are the expected sizes of their residuals, up to a
    common factor.
    """

    which: Index
    embedding: Float
    sizes: Float

    @staticmethod
    def of(
        rows: BaseRows,
        F: Float,
        used: Index,
        sizes: Float,
        seed: int,
        left_out: Callable[[Index], Float],
    ) -> HeldRows:
        """Choose at most `MOST_HELD` landmarks that the fit did not use.

        If fewer than `LEAST_HELD` are unused, used landmarks are chosen. F (m, r) is the factor of
        a positive definite K. `used` (n,) are the positions of the landmarks to which it was
        fitted, in any order, and `sizes` (m,) is the diagonal of the residual. The function
        `left_out` takes indices into `used`. It returns the rows of F for these landmarks, as
        predicted by the fit to the other used landmarks.
        """
        unused = np.setdiff1d(np.arange(rows.landmarks.n_landmarks), used)
        are_unused = len(unused) >= LEAST_HELD
        pool = unused if are_unused else used
        order = np.random.default_rng([seed, len(pool)]).permutation(len(pool))
        which = np.sort(pool[order[:MOST_HELD]])
        samples = rows.rows[which]
        if are_unused or not len(which):
            return HeldRows(which, F[samples], sizes[samples])
        by_number = np.argsort(used)
        embedding = left_out(by_number[np.searchsorted(used, which, sorter=by_number)])
        residual_diagonal = rows.diagonal(samples) - np.einsum("ij,ij->i", embedding, embedding)
        return HeldRows(which, embedding, np.maximum(residual_diagonal, 0.0))


def estimated_error(
    rows: BaseRows, F: Float, weights: Float, used: Index, held: HeldRows, sizes: Float
) -> float:
    """Estimate the relative error of a factor, off the diagonal, from the known entries of K.

    Let d_i be the expected size of the residuals of sample i. The sum of squared residuals over
    pairs of unused samples is assumed to be ``rho`` times the sum of ``d_i d_j``. The factor rho is
    measured on the held-out rows. For a factor of a positive definite K pass
    ``d_i = K_ii - f_i' f_i``, the diagonal of the residual. Then rho is at most 1, by Cauchy and
    Schwarz, and the estimate remains valid even if the used landmarks are the samples that are
    hardest to predict.

    F (m, r) and its `weights` are the factor, `used` (n,) are the positions of the landmarks that
    the fit used, and `sizes` (m,) are the expected sizes d_i.
    """
    outside = np.ones(len(F))
    outside[rows.rows[used]] = 0.0
    # A pair of a used landmark and another sample counts twice, for both orders:
    residual, total = _squares(rows, used, F[rows.rows[used]] * weights, F, 1.0 + outside)
    n_outside = outside.sum()
    if n_outside < 2:
        return relative(residual, total)
    if not len(held.which):
        return float("inf")
    held_residual, held_total = _squares(rows, held.which, held.embedding * weights, F, outside)
    d, at = sizes * outside, rows.rows[held.which]
    n_pairs = len(at) * n_outside - outside[at].sum()  # of two samples
    expected = float(held.sizes.sum() * d.sum() - held.sizes @ d[at])
    total += held_total * n_outside * (n_outside - 1) / max(n_pairs, 1.0)
    if expected > 0:
        residual += held_residual * float(d.sum() ** 2 - d @ d) / expected
    return relative(residual, float(total))


def measured_error(
    kernel: AbstractKernel,
    sigma: float,
    check: Landmarks,
    factor: LowRankSymmetric,
    base: int | None = 0,
) -> float:
    """Measure the relative error ``||K - F diag(weights) F'||_F / ||K||_F`` off the diagonal.

    Only the rows of K at the landmarks of `check` are used. The result is unbiased if none of them
    was a landmark of the factor, and exact if they are all samples.

    Raises
    ------
    InputError
        The landmarks of `check` are random directions, or `check` and `factor` have different
        numbers of samples.
    """
    if check.n_samples != len(factor.F):
        raise InputError(
            f"The factor has {len(factor.F)} samples, but the check has {check.n_samples}; pass "
            "the statistic of the same samples."
        )
    rows, every = BaseRows(kernel, sigma, check, base), np.arange(check.n_landmarks)
    embedding = factor.F[rows.rows] * factor.weights
    return relative(*_squares(rows, every, embedding, factor.F, np.ones(check.n_samples)))


def _squares(
    rows: BaseRows, which: Index, embedding: Float, F: Float, counted: Float
) -> tuple[float, float]:
    """Sum squared residuals, and squared entries, of s rows of K that F (m, r) approximates.

    K is the kernel matrix. The rows belong to the landmarks `which`. The product of `embedding` (s,
    r) and F' predicts them. `counted` (m,) are weights of the columns.
    """
    residual = total = 0.0
    for columns, K in rows.strips(which):
        K[diagonal := rows.itself(which, columns)] = 0.0
        total += float(np.einsum("ij,ij,j->", K, K, counted[columns]))
        R = np.subtract(K, embedding @ F[columns].T, out=K)
        R[diagonal] = 0.0
        residual += float(np.einsum("ij,ij,j->", R, R, counted[columns]))
    return residual, total


def relative(residual: float, total: float) -> float:
    """Return the relative error ``sqrt(residual / total)``; 0 or infinite if the total is 0.

    >>> relative(1.0, 4.0), relative(0.0, 0.0), relative(1.0, 0.0)
    (0.5, 0.0, inf)
    """
    if residual <= 0:
        return 0.0
    return float(np.sqrt(residual / total)) if total > 0 else float("inf")

r"""A factorizer turns inner products with b landmarks into ``K ~ F diag(weights) F'``.

The statistic is additive over features, so one pass over the data gives the inner products of all
m samples with b *landmarks*; no m x m matrix is ever formed. What is factored is a base matrix of
the kernel's expansion, K itself for kernels with a bandwidth. Only what is off the diagonal
counts: HSIC takes the diagonal from elsewhere.

Rows of a base matrix at the landmarks are computed from inner products where they are needed.
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

#: Bytes of the base matrix that are in memory at a time.
STRIP_BYTES = 1 << 24
#: Fewer samples than this at a time are not worth a call.
LEAST_STRIP = 64
#: Features whose random numbers come from one generator.
CHUNK = 1024


@dataclass(frozen=True, slots=True)
class Landmarks:
    """The additive statistic against b landmarks.

    `inner` (b, m) are inner products of landmark and sample, sums over features, and `norms` (m,)
    the squared norms of the samples, all float64. `rows` (b,) says which samples the landmarks are;
    None where they are random directions of feature space.
    """

    inner: Float
    norms: Float
    rows: Index | None

    def __post_init__(self) -> None:
        if self.inner.ndim != 2 or self.inner.shape[0] == 0 or self.inner.shape[1] == 0:
            raise InputError(
                f"The inner products have shape {self.inner.shape}; pass (b, m), one row a "
                "landmark and one column a sample, at least one of each."
            )
        if self.inner.dtype != np.float64 or self.norms.dtype != np.float64:
            raise InputError(
                f"The statistic is {self.inner.dtype} and its norms are {self.norms.dtype}; "
                "accumulate both in float64."
            )
        b, m = self.inner.shape
        if self.norms.shape != (m,):
            raise InputError(
                f"norms have shape {self.norms.shape} and there are {m} samples; pass ({m},)."
            )
        if (rows := self.rows) is None:
            return
        if rows.shape != (b,) or rows.dtype.kind not in "iu":
            raise InputError(
                f"rows have shape {rows.shape} and dtype {rows.dtype}; pass ({b},) integers, the "
                "sample that each landmark is."
            )
        if rows.min() < 0 or rows.max() >= m or len(np.unique(rows)) < b:
            raise InputError(
                f"Landmarks are {b} different samples of 0 to {m - 1}; rows hold {rows.min()} to "
                f"{rows.max()}, {len(np.unique(rows))} of them different."
            )

    @property
    def samples(self) -> Index:
        """Which samples the landmarks are, (b,); refused of random directions."""
        if self.rows is None:
            raise InputError(
                f"These {self.n_landmarks} landmarks are random directions of feature space, which "
                "serve random features only. Pass samples as landmarks, or RandomFeatures()."
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
    """`n` of `m` samples, every set as likely as another; (n,) ascending."""
    if not 1 <= n <= m:
        raise InputError(f"{n} landmarks of {m} samples; take from 1 to {m}.")
    rng = np.random.default_rng(seed)
    return np.sort(rng.choice(m, size=n, replace=False, shuffle=False)).astype(np.int64)


def random_directions(seed: int, features: Index, n: int) -> Float:
    """Entries of `n` standard normal directions at features of these numbers, from 0: (n, c).

    An entry depends on the seed, the number of its direction and the number of its feature alone,
    so any cut of the features into blocks, and any larger n, gives the same values. Each chunk of
    `CHUNK` features has a generator of its own: blocks that cover few chunks are the cheap ones.
    """
    features = np.asarray(features, dtype=np.int64)
    chunks, offsets = np.divmod(features, CHUNK)
    directions = np.empty((n, len(features)))
    for chunk in np.unique(chunks):
        here = np.flatnonzero(chunks == chunk)
        key = np.array([seed, chunk], dtype=np.uint64)
        normal = np.random.Generator(np.random.Philox(key=key)).standard_normal((n, CHUNK))
        directions[:, here] = normal[:, offsets[here]]
    return directions


def landmark_statistic(X: Array, rows: Index) -> Landmarks:
    """Statistic of data in memory, X (m, d) standardised, against some of its samples, (b,)."""
    X = np.asarray(X, dtype=np.float64)
    rows = np.asarray(rows, dtype=np.int64)
    return Landmarks(X[rows] @ X.T, np.einsum("ij,ij->i", X, X), rows)


@dataclass(frozen=True)
class LandmarkStats:
    """What policies for the width may ask, from landmarks; `value` is HSIC for a sigma."""

    landmarks: Callable[[], Landmarks]
    value: Callable[[float], float]

    def pair_distances(self) -> Float:
        """Distances of landmarks to all samples that come after them."""
        known = self.landmarks()
        rows, norms = known.samples, known.norms
        D = squared_distances(known.inner, norms[rows], norms)
        D[EQUAL * norms.max() >= D] = 0.0
        is_landmark = np.zeros(len(norms), dtype=bool)
        is_landmark[rows] = True
        counted = ~is_landmark | (np.arange(len(norms)) > rows[:, None])
        return np.asarray(D[counted])

    def values(self, sigmas: Sequence[float]) -> list[float]:
        """By the factor."""
        return [self.value(sigma) for sigma in sigmas]


@dataclass(frozen=True, slots=True)
class BaseRows:
    """Rows, at landmarks that are samples, of base matrix `key`, of K itself for None."""

    kernel: AbstractKernel
    sigma: float
    landmarks: Landmarks
    key: int | None = 0

    @property
    def rows(self) -> Index:
        """Which samples the landmarks are, (b,)."""
        return self.landmarks.samples

    def part(self, which: Index, columns: slice | Index) -> Float:
        """Base matrix between landmarks `which`, (s,), and samples `columns`: (s, t), new."""
        rows = self.rows[which]
        inner, norms = self.landmarks.inner, self.landmarks.norms
        some = inner[:, columns][which] if isinstance(columns, slice) else inner[which][:, columns]
        return self.kernel.part(self.key, some, norms[rows], norms[columns], self.sigma)

    def strips(self, which: Index) -> Iterator[tuple[slice, Float]]:
        """Columns and ``(s, t)`` parts of the rows of landmarks `which`, left to right."""
        m = self.landmarks.n_samples
        width = max(LEAST_STRIP, STRIP_BYTES // (8 * max(1, len(which))))
        for a in range(0, m, width):
            columns = slice(a, min(a + width, m))
            yield columns, self.part(which, columns)

    def itself(self, which: Index, columns: slice) -> tuple[Index, Index]:
        """Where, in that strip of the rows of landmarks `which`, row and column are one sample."""
        rows = self.rows[which]
        here = np.flatnonzero((rows >= columns.start) & (rows < columns.stop))
        return here, rows[here] - columns.start

    def among(self, which: Index) -> Float:
        """Base matrix among landmarks `which`, (s, s), symmetric to the last bit."""
        K = self.part(which, self.rows[which])
        return np.asarray((K + K.T) / 2)

    def diagonal(self, samples: Index | None = None) -> Float:
        """Base matrix of samples with themselves, all (m,) or some (s,)."""
        norms = self.landmarks.norms if samples is None else self.landmarks.norms[samples]
        return self.kernel.diagonal(self.key, norms, self.sigma)


class AbstractFactorizer(ABC):
    """Factors a base matrix of a kernel; a value with its parameters."""

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
        """``F diag(weights) F'`` with the true diagonal; the same bits for the same input and seed.

        What is factored is base matrix `base` of the expansion, K itself for None. Weights are 1,
        or -1 for negative directions of the spectral factorizer. The error is its own estimate of
        ``||K - F diag(weights) F'||_F / ||K||_F`` off the diagonal.

        Raises
        ------
        InputError
            A kernel or landmarks that the factorizer is not meant for.
        """
        rows = BaseRows(kernel, sigma, landmarks, base)
        F, weights, error = self._directions(rows, seed)
        return LowRankSymmetric(F, weights, rows.diagonal(), error)

    @abstractmethod
    def _directions(self, rows: BaseRows, seed: int) -> tuple[Float, Float, float]:
        """F (m, r), its weights and its error."""

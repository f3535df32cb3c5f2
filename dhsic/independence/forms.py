r"""Representations of W and K that compute ``<W, K>`` for any width of the data kernel.

HSIC is ``<W, K>`` with the kernel matrix K of the data and weights W (m, m) from the labels. There
are two forms with the same interface: tiles (all in memory, or one strip at a time), and matrices
of low rank.

If there are too many samples for an (m, m) matrix, the upper triangle is processed in strips; the
results are exact. A strip contains n rows of the upper triangle, (n, m - a) from row a on, and
needs 64 MiB. It has two tiles: the square on the diagonal, and the part to the right. Each strip
reads the data once, in groups of features that also need about 64 MiB. W is computed from the
labels for each tile, after one pass over L:

    ``R L R = L - Q P' - P Q' + Q N Q'``,  ``P = L Q``,  ``N = Q' P``,

where Q is an orthonormal basis of ``[1, covariates]``. The unbiased estimator additionally needs
only the diagonal of this matrix (see `dhsic.hsic`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dhsic._typing import Array, Float
from dhsic.errors import InputError
from dhsic.hsic import check_statistic
from dhsic.kernels.bandwidth import MEDIAN_SAMPLES, AbstractBandwidth, DistanceStats
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.labels import LabelMatrix
from dhsic.kernels.statistic import Statistic
from dhsic.linalg.covariates import covariate_basis
from dhsic.linalg.symmetric import DenseSymmetric, LowRankSymmetric
from dhsic.namespace import slices
from dhsic.validation import as_array, as_numbers

#: Size of a float64 strip; at most five of them are in memory.
STRIP_BYTES = 64 * 2**20
#: Minimum and maximum number of rows of a strip.
FEWEST, MOST = 16, 2048


@dataclass(frozen=True, eq=False)
class HsicForm(ABC):
    """HSIC as ``<W, K>``: label weights W (m, m) times the data kernel K, for every width."""

    kernel: AbstractKernel
    n_features: int

    @abstractmethod
    def values(self, sigmas: Sequence[float]) -> list[float]:
        """Return HSIC, ``<W, K>``, for every kernel width sigma.

        W are label weights, and K is the kernel matrix of the data.
        """

    @abstractmethod
    def influence(self, sigma: float) -> tuple[Float, Float]:
        """Return ``(W o K) 1`` and ``W Kt 1``, (m,) each, where Kt is K without its diagonal.

        W are the label weights, and K is the kernel matrix of the data.
        """

    @abstractmethod
    def sample(self) -> Statistic:
        """Inner products of all samples, or of the subset used for the median distance."""

    def pair_distances(self) -> Float:
        """Squared distances of the pairs of `sample`, (n,)."""
        return DistanceStats(self.kernel, None, self.sample()).pair_distances()

    def sigma(self, policy: AbstractBandwidth) -> float:
        """Choose the width of the kernel by a policy; 1 for kernels without a width."""
        return policy(self, self.n_features) if self.kernel.has_bandwidth else 1.0


@dataclass(frozen=True, eq=False)
class TiledHsic(HsicForm):
    """Exact HSIC, computed tile by tile from label weights W and inner products of the data."""

    W: DenseSymmetric | TiledWeights
    data: Statistic | SlicedData

    def values(self, sigmas: Sequence[float]) -> list[float]:
        """Return HSIC, ``<W, K>``, for every kernel width sigma, in one pass over the data."""
        totals, norms = [0.0] * len(sigmas), self.data.diagonal
        for rows, columns, inner in self.data.tiles():
            W = self.W.tile(rows, columns)
            for i, sigma in enumerate(sigmas):
                K = self.kernel.gram(inner, norms[rows], norms[columns], sigma)
                totals[i] += (1 if rows == columns else 2) * float(np.vdot(W, K))
        return totals

    def influence(self, sigma: float) -> tuple[Float, Float]:
        norms = self.data.diagonal
        row_sums, sums = np.zeros(len(norms)), np.zeros(len(norms))
        for rows, columns, inner in self.data.tiles():
            K = self.kernel.gram(inner, norms[rows], norms[columns], sigma)
            if rows == columns:
                np.fill_diagonal(K, 0.0)
            add_row_sums(sums, rows, columns, K)
            K *= self.W.tile(rows, columns)
            add_row_sums(row_sums, rows, columns, K)
        return row_sums, self.W.times(sums)

    def sample(self) -> Statistic:
        return self.data if isinstance(self.data, Statistic) else self.data.sample(MEDIAN_SAMPLES)


@dataclass(frozen=True, eq=False)
class LowRankHsic(HsicForm):
    """Approximate HSIC from low-rank label weights W and a low-rank kernel matrix K."""

    W: LowRankSymmetric
    factor: Callable[[float], LowRankSymmetric]  # K for a sigma
    few: Float  # (n, d), samples for the median distance

    def values(self, sigmas: Sequence[float]) -> list[float]:
        """Return HSIC, ``<W, K>``, for every sigma by JMLR Lemma 6 and 7.

        The diagonal of K is exact.
        """
        return [float(self.W.hadamard_sums(self.factor(sigma)).sum()) for sigma in sigmas]

    def influence(self, sigma: float) -> tuple[Float, Float]:
        """Compute the sums of `HsicForm.influence` in low rank (JMLR 2.6.3)."""
        K = self.factor(sigma)
        return self.W.hadamard_sums(K), self.W.times(K.across)

    def sample(self) -> Statistic:
        return Statistic.of(self.few @ self.few.T)


def strips(m: int) -> Iterator[tuple[slice, slice]]:
    """Yield rows and columns of the strips that cover the upper triangle of (m, m)."""
    height = int(np.clip(STRIP_BYTES // (8 * m), FEWEST, MOST))
    for rows in slices(m, height):
        yield rows, slice(rows.start, m)


def tiles(m: int) -> Iterator[tuple[slice, slice]]:
    """Yield rows and columns of both tiles of each strip: on the diagonal, and to the right."""
    for rows, columns in strips(m):
        yield rows, rows
        if rows.stop < columns.stop:
            yield rows, slice(rows.stop, columns.stop)


def add_row_sums(sums: Float, rows: slice, columns: slice, tile: Float) -> None:
    """Add the row sums of a tile of a symmetric matrix, and of its mirror image, to `sums`."""
    sums[rows] += tile.sum(axis=1)
    if rows != columns:
        sums[columns] += tile.sum(axis=0)


def add_product(products: Float, rows: slice, columns: slice, tile: Float, Q: Float) -> None:
    """Multiply a tile of a symmetric matrix, and its mirror image, by Q; add to `products`.

    Q and `products` are (m, ...).
    """
    products[rows] += tile @ Q[columns]
    if rows != columns:
        products[columns] += tile.T @ Q[rows]


@dataclass(frozen=True, eq=False)
class TiledWeights:
    """Label weights W (m, m), for which HSIC is ``<W, K>`` (JMLR eq.

    4 and 5), tile by tile.
    """

    labels: LabelMatrix
    Q: Float  # (m, q), a basis of ``[1, covariates]``
    P: Float  # (m, q), ``L Q``
    N: Float  # (q, q), ``Q' L Q``
    diagonal: Float  # (m,), diagonal of ``R L R``
    statistic: str

    @staticmethod
    def of(labels: LabelMatrix, statistic: str, covariates: Array | None) -> TiledWeights:
        """Compute all fields in one pass over L; raise the same errors as `dhsic.hsic.weights`."""
        m = labels.n_samples
        check_statistic(statistic, m)
        Q = covariate_basis(covariates, m)
        P, diagonal = np.zeros_like(Q), np.zeros(m)
        for rows, columns in tiles(m):
            L = labels.tile(rows, columns)
            if rows == columns:
                diagonal[rows] = np.diagonal(L)
            add_product(P, rows, columns, L, Q)
        N = Q.T @ P
        diagonal += np.einsum("ij,ij->i", Q @ N - 2.0 * P, Q)
        return TiledWeights(labels, Q, P, (N + N.T) / 2, diagonal, statistic)

    def tile(self, rows: slice, columns: slice) -> Float:
        """Compute a tile of the label weights W as a new array.

        `tiles` yields its `rows` and `columns`.
        """
        W = self.labels.tile(rows, columns) - self.Q[rows] @ self.P[columns].T
        W += (self.Q[rows] @ self.N - self.P[rows]) @ self.Q[columns].T
        m = self.labels.n_samples
        if self.statistic == "biased":
            W /= (m - 1) ** 2
            return np.asarray(W)
        W += self.diagonal[rows, None] / (m - 2)
        W += self.diagonal[columns] / (m - 2)
        W -= self.diagonal.sum() / ((m - 1) * (m - 2))
        W /= m * (m - 3)
        if rows == columns:
            np.fill_diagonal(W, 0.0)
        return np.asarray(W)

    def times(self, x: Float) -> Float:
        """Multiply the label weights W by a vector: ``W x``, (m,)."""
        product = np.zeros(len(x))
        for rows, columns in tiles(len(x)):
            add_product(product, rows, columns, self.tile(rows, columns), x)
        return product


class SlicedData:
    """Data (m, d) that are read in slices ``X[rows, features]``, never all at once.

    X is a NumPy array, memory map, dask array, zarr or HDF5 array, or xarray DataArray; rows are
    samples. If `centred`, the means of features are subtracted, which makes distances more precise.
    """

    def __init__(self, X: Any, *, centred: bool) -> None:
        self._X = X if hasattr(X, "chunks") and len(X.shape) == 2 else as_array(X, "X")
        self._X = self._X[:, None] if len(self._X.shape) == 1 else self._X
        if len(self._X.shape) != 2 or 0 in self._X.shape:
            raise InputError(
                f"X has shape {self._X.shape}; pass (m, d), with one row per sample and at least "
                "one feature."
            )
        self.n_samples, self.n_features = (int(n) for n in self._X.shape)
        self.means = np.zeros(self.n_features)
        self.diagonal = np.zeros(self.n_samples)  # squared norms of the samples
        for features in self._slices():
            x = self._read(slice(0, self.n_samples), features)
            if centred:
                self.means[features] = x.mean(axis=0)
                x -= self.means[features]
            self.diagonal += np.einsum("ij,ij->i", x, x)

    def tiles(self) -> Iterator[tuple[slice, slice, Float]]:
        """Yield tiles of the inner products ``X X'``, one strip at a time.

        A tile consists of rows, columns and values.
        """
        for rows, columns in strips(self.n_samples):
            n = rows.stop - rows.start
            G = np.zeros((n, columns.stop - columns.start))
            for features in self._slices():
                x = self._read(columns, features) - self.means[features]
                G += x[:n] @ x.T
            yield rows, rows, G[:, :n]
            if rows.stop < columns.stop:
                yield rows, slice(rows.stop, columns.stop), G[:, n:]

    def sample(self, most: int) -> Statistic:
        """Statistic of at most `most` equally spaced samples."""
        sampled_rows = slice(0, self.n_samples, -(-self.n_samples // most))
        n = len(range(*sampled_rows.indices(self.n_samples)))
        G = np.zeros((n, n))
        for features in self._slices():
            x = self._read(sampled_rows, features) - self.means[features]
            G += x @ x.T
        return Statistic.of(G)

    def _read(self, rows: slice, features: slice) -> Float:
        return as_numbers(self._X[rows, features], "X")

    def _slices(self) -> list[slice]:
        """Groups of features to read together: whole chunks if X is chunked."""
        chunks = getattr(self._X, "chunks", None)
        chunk = 1 if chunks is None else int(np.max(chunks[1]))
        most = int(np.clip(STRIP_BYTES // (8 * self.n_samples), FEWEST, MOST))
        return slices(self.n_features, chunk * max(1, most // chunk))

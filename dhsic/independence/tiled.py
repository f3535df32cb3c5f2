r"""HSIC for more samples than an (m, m) matrix has room for: K and W panel by panel, exact.

A panel is some rows of the upper triangle, (n, m - a) from row a on, with n chosen so that it
takes 64 MiB; its tiles are the part on the diagonal and the part beside it. The data are read once
a panel, as many features at a time as fill a panel too; W is written from the labels where it is
needed, from one pass over L beforehand:

    ``R L R = L - Q P' - P Q' + Q N Q'``,  ``P = L Q``,  ``N = Q' P``,

Q an orthonormal basis of ``[1, covariates]``. Its diagonal is all that the unbiased estimator
needs besides (`dhsic.hsic` says why).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dhsic._typing import Array, Float
from dhsic.errors import InputError
from dhsic.hsic import check_estimator
from dhsic.kernels.label_kernels import LabelMatrix
from dhsic.kernels.statistic import Statistic
from dhsic.linalg.covariates import covariate_basis
from dhsic.validation import as_array, as_numbers

#: Size of a panel of float64; five of them are in memory at most.
PANEL_BYTES = 64 * 2**20
#: Rows of a panel, at least and at most.
FEWEST, MOST = 16, 2048


def panels(m: int) -> Iterator[tuple[slice, slice]]:
    """Rows and columns of the panels that cover the upper triangle of (m, m)."""
    height = int(np.clip(PANEL_BYTES // (8 * m), FEWEST, MOST))
    for a in range(0, m, height):
        yield slice(a, min(a + height, m)), slice(a, m)


def tiles(m: int) -> Iterator[tuple[slice, slice]]:
    """Rows and columns of the tiles of the panels: on the diagonal, and right of it."""
    for rows, columns in panels(m):
        yield rows, rows
        if rows.stop < columns.stop:
            yield rows, slice(rows.stop, columns.stop)


def add_row_sums(sums: Float, rows: slice, columns: slice, tile: Float) -> None:
    """Add the row sums of a tile, and of its mirror image beside the diagonal, in place."""
    sums[rows] += tile.sum(axis=1)
    if rows != columns:
        sums[columns] += tile.sum(axis=0)


def add_product(products: Float, rows: slice, columns: slice, tile: Float, Q: Float) -> None:
    """Add the product of a tile, and of its mirror image, with Q (m, ...), in place."""
    products[rows] += tile @ Q[columns]
    if rows != columns:
        products[columns] += tile.T @ Q[rows]


@dataclass(frozen=True, eq=False)
class TiledWeights:
    """W of labels (JMLR eq. 4 and 5), written out where it is asked for.

    Attributes
    ----------
    labels : LabelMatrix
        The labels, which state L tile by tile.
    Q, P, N : (m, q), (m, q), (q, q) float64
        Basis of ``[1, covariates]``, ``L Q`` and ``Q' L Q``.
    diagonal : (m,) float64
        Of ``R L R``.
    estimator : str
        "unbiased" or "biased".
    """

    labels: LabelMatrix
    Q: Float
    P: Float
    N: Float
    diagonal: Float
    estimator: str

    @staticmethod
    def of(labels: LabelMatrix, estimator: str, covariates: Array | None) -> TiledWeights:
        """One pass over L; errors as of `dhsic.hsic.weights`."""
        m = labels.n_samples
        check_estimator(estimator, m)
        Q = covariate_basis(covariates, m)
        P, diagonal = np.zeros_like(Q), np.zeros(m)
        for rows, columns in tiles(m):
            L = labels.tile(rows, columns)
            if rows == columns:
                diagonal[rows] = np.diagonal(L)
            add_product(P, rows, columns, L, Q)
        N = Q.T @ P
        diagonal += np.einsum("ij,ij->i", Q @ N - 2.0 * P, Q)
        return TiledWeights(labels, Q, P, (N + N.T) / 2, diagonal, estimator)

    def tile(self, rows: slice, columns: slice) -> Float:
        """Part of W, a new array; `rows` and `columns` as of `tiles`."""
        W = self.labels.tile(rows, columns) - self.Q[rows] @ self.P[columns].T
        W += (self.Q[rows] @ self.N - self.P[rows]) @ self.Q[columns].T
        m = self.labels.n_samples
        if self.estimator == "biased":
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
        """``W x``, (m,)."""
        product = np.zeros(len(x))
        for rows, columns in tiles(len(x)):
            add_product(product, rows, columns, self.tile(rows, columns), x)
        return product


class SlicedData:
    """Data (m, d) that are read as ``X[rows, features]`` and never all at once.

    Parameters
    ----------
    X : array-like
        NumPy array, memory map, dask array, zarr or HDF5 array, xarray DataArray, samples first.
    centred : bool
        Whether features lose their means, for distances to keep their digits.

    Raises
    ------
    InputError
        X is no matrix, or holds what is no number.
    """

    def __init__(self, X: Any, *, centred: bool) -> None:
        self._X = X if hasattr(X, "chunks") and len(X.shape) == 2 else as_array(X, "X")
        self._X = self._X[:, None] if len(self._X.shape) == 1 else self._X
        if len(self._X.shape) != 2 or 0 in self._X.shape:
            raise InputError(
                f"X has shape {self._X.shape}; pass (m, d), one row a sample and one feature or "
                "more."
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
        """Rows, columns and values of the tiles of ``G = X X'``, a panel at a time."""
        for rows, columns in panels(self.n_samples):
            n = rows.stop - rows.start
            G = np.zeros((n, columns.stop - columns.start))
            for features in self._slices():
                x = self._read(columns, features) - self.means[features]
                G += x[:n] @ x.T
            yield rows, rows, G[:, :n]
            if rows.stop < columns.stop:
                yield rows, slice(rows.stop, columns.stop), G[:, n:]

    def sample(self, most: int) -> Statistic:
        """Statistic of every so-many-th sample, at most so many."""
        some = slice(0, self.n_samples, -(-self.n_samples // most))
        n = len(range(*some.indices(self.n_samples)))
        G = np.zeros((n, n))
        for features in self._slices():
            x = self._read(some, features) - self.means[features]
            G += x @ x.T
        return Statistic.of(G)

    def _read(self, rows: slice, features: slice) -> Float:
        return as_numbers(self._X[rows, features], "X")

    def _slices(self) -> Iterator[slice]:
        """Features that are read together: whole chunks where there are any."""
        chunks = getattr(self._X, "chunks", None)
        chunk = 1 if chunks is None else int(np.max(chunks[1]))
        most = int(np.clip(PANEL_BYTES // (8 * self.n_samples), FEWEST, MOST))
        width = chunk * max(1, most // chunk)
        for a in range(0, self.n_features, width):
            yield slice(a, min(a + width, self.n_features))

"""Sparse matrices: held by columns, and made dense a block of features at a time.

A block is the very matrix that ``toarray`` gives, to the bit: explicit zeros, indices in any order
and entries that are there twice, whose sum counts, change nothing. What is kept by rows is turned
once, in memory; what does not fit there is refused, with what to do.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from dhsic._typing import Array, Index
from dhsic.errors import DataError, InputError, MemoryBudgetError
from dhsic.memory import available_bytes, human
from dhsic.sources import AbstractStored, Names
from dhsic.sources.blocks import Block, check_dtype, check_finite, check_matrix, check_shape, run_of
from dhsic.sources.options import OpenOptions, refuse_variable

#: By columns, by rows.
CSC, CSR = "csc", "csr"
#: Copies of a matrix while it is turned: itself, and what comes of it.
TURNING = 2


class SparseSource(AbstractStored):
    """A sparse matrix (m, d) of this process, held by columns."""

    layout = "sparse"

    def __init__(
        self, columns: Any, *, missing_code: int | None = None, names: Names | None = None
    ) -> None:
        check_shape(columns.shape, "X")
        check_dtype(columns.dtype, "X")
        self.n_samples, self.n_features = map(int, columns.shape)
        self.dtype = np.dtype(columns.dtype)
        self.missing_code, self.names = missing_code, names or Names()
        self._parts = columns.data, columns.indices, columns.indptr
        self.client_bytes = sum(part.nbytes for part in self._parts)

    def read(self, block: Block, rows: Index | None = None) -> Array:
        return self.read_columns(block, np.arange(block.width), rows).T

    def read_columns(self, block: Block, local: Index, rows: Index | None = None) -> Array:
        data, indices, indptr = self._parts
        edges = indptr[block.start : block.stop + 1]
        entries = slice(int(edges[0]), int(edges[-1]))
        edges = edges - edges[0]
        values = dense_columns(data[entries], indices[entries], edges, self.n_samples, rows)
        values = values[run_of(local)]
        check_finite(values, block, rows, None, self.missing_code)
        return values


def dense_columns(
    data: Array, samples: Index, edges: Index, m: int, rows: Index | None = None
) -> Array:
    """Values of c features, (c, m) or (c, rows), of their entries one feature after the other.

    Parameters
    ----------
    data, samples : (n,) arrays
        Value and sample of each entry; those that are there twice add up.
    edges : (c + 1,) array
        Where the entries of each feature begin.
    m : int
        Number of samples.
    rows : array, optional
        Samples to return, in this order; all by default. Few of many ascending ones take memory
        for these alone.
    """
    c, place = len(edges) - 1, places_of(rows, m)
    if rows is not None and place is not None:
        samples = place[samples]
        is_kept = samples >= 0
        edges = np.append(0, np.cumsum(is_kept))[edges]
        data, samples, m, rows = data[is_kept], samples[is_kept], len(rows), None
    columns = sparse.csc_array((data, samples, edges), shape=(m, c))
    values: Array = columns.toarray(order="F").T
    return values if rows is None else np.take(values, rows, axis=1)


def places_of(rows: Index | None, m: int) -> Index | None:
    """Place of each of m samples among `rows`, -1 elsewhere; None where `rows` do not ascend."""
    if rows is None or not (np.diff(rows) > 0).all():
        return None
    place = np.full(m, -1, dtype=np.int64)
    place[rows] = np.arange(len(rows))
    return place


def is_sparse(X: Any) -> bool:
    """Whether it is a sparse matrix or array of scipy."""
    return bool(sparse.issparse(X))


def open_sparse(X: Any, options: OpenOptions) -> SparseSource:
    """Open a sparse matrix of scipy, samples first unless the options say otherwise."""
    refuse_variable(options.variable, X)
    check_matrix(X.shape, "X")
    axis = options.feature_axis(X.shape, None, "X", convention=1)
    return SparseSource(by_columns(X if axis == 1 else X.T), missing_code=options.code_of())


def by_columns(X: Any, what: str = "X") -> Any:
    """A sparse matrix of scipy by columns; itself where it is.

    Raises
    ------
    DataError
        Indices lead beyond it.
    MemoryBudgetError
        There is no room to turn it.
    """
    check_dtype(X.dtype, what)
    if X.format not in (CSC, CSR, "bsr", "coo"):
        X = X.tocoo()
    if X.format != CSC:
        n_bytes = TURNING * X.nnz * (X.dtype.itemsize + _widest(X))
        remedy = (
            f"pass {what}.tocsc(), made where there is room, or write it by columns: "
            "anndata's write_zarr of a csc_matrix"
        )
        check_room(n_bytes, f"To turn {what}, sparse by rows, into columns", remedy)
    if X.format == "coo":
        X = _columns_of(X)
    elif X.format != CSC:
        X = X.tocsr().tocsc()
    _check_indices(X, what)
    return X


def turned(columns: Any, feature_axis: int) -> Any:
    """A matrix by columns whose features lie along an axis: as it is, or transposed."""
    return columns if feature_axis == 1 else by_columns(columns.T)


def _widest(X: Any) -> int:
    """Bytes of an index."""
    indices = (getattr(X, name, None) for name in ("indices", "col"))
    return max(int(part.dtype.itemsize) for part in indices if part is not None)


def _columns_of(X: Any) -> Any:
    """Entries by column, in the order in which they came: sums of repeated ones are as they were.

    SciPy's own way adds them up after a sort that is not stable.
    """
    order = np.argsort(X.col, kind="stable")
    indptr = np.append(0, np.cumsum(np.bincount(X.col, minlength=X.shape[1])))
    return sparse.csc_array((X.data[order], X.row[order], indptr), shape=X.shape)


def _check_indices(X: Any, what: str) -> None:
    """Refuse indices that lead beyond the matrix, which SciPy would follow."""
    try:
        X.check_format(full_check=True)
    except ValueError as error:
        raise DataError(
            f"The sparse matrix {what} of shape {X.shape} is damaged ({error}). Make it, or write "
            "it, again."
        ) from error


def check_room(n_bytes: int, what: str, remedy: str) -> None:
    """Refuse what takes more memory than there is."""
    available = available_bytes()
    if n_bytes > available:
        raise MemoryBudgetError(
            f"{what} takes {human(n_bytes)}, and there are {human(available)}; {remedy}."
        )


def loaded(parts: tuple[Any, ...], shape: tuple[int, ...], kind: str, where: str) -> Any:
    """Sparse matrix by columns of data, indices and indptr that are stored, each a function.

    Each part is a pair: its bytes, and what reads it.

    Raises
    ------
    DataError
        The parts do not make a matrix of that shape.
    MemoryBudgetError
        There is no room for it.
    """
    copies = TURNING if kind == CSR else 1
    n_bytes = copies * sum(size for size, _ in parts)
    remedy = f"write it densely, which is read in parts: dhsic convert {where} OUT.zarr"
    check_room(n_bytes, f"{where}, sparse by {'rows' if kind == CSR else 'columns'},", remedy)
    data, indices, indptr = (read() for _, read in parts)
    if kind not in (CSR, CSC):
        raise InputError(f"{where} is {kind}; sparse matrices are read by rows or columns.")
    of_kind = sparse.csr_array if kind == CSR else sparse.csc_array
    try:
        matrix = of_kind((data, indices, indptr), shape=shape)
    except ValueError as error:
        raise DataError(
            f"{where} is no sparse matrix of shape {shape} ({error}); it is damaged: write it "
            "again, or restore it."
        ) from error
    _check_indices(matrix, where)
    return matrix if kind == CSC else by_columns(matrix, where)

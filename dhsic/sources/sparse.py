"""Sparse matrices, stored by columns and converted to dense blocks of features.

A block is bitwise equal to the columns of ``X.toarray()``, for any explicit zeros and any order of
indices. Repeated entries are summed. Matrices stored by rows are converted once, in memory. If
memory is not sufficient, an error says how to convert the matrix.
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

#: Formats: by columns, by rows.
CSC, CSR = "csc", "csr"
#: Copies of a matrix in memory during a conversion: the matrix and the result.
TURNING = 2


class SparseSource(AbstractStored):
    """Source of a sparse matrix (m, d) in the memory of this process, stored by columns."""

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
    """Convert sparse entries of c features to dense values, (c, m), or (c, n) for n `rows`.

    The entries must be in the order of features.

    Parameters
    ----------
    data, samples : (n,) arrays
        Value and sample of each entry; repeated entries are summed.
    edges : (c + 1,) array
        Position of the first entry of each feature, and the total number of entries.
    m : int
        Number of samples.
    rows : array, optional
        Samples to return, in this order; all by default. Ascending samples need less memory,
        because only their entries become dense.
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
    """Return the position of each of m samples in `rows`, (m,); -1 for other samples.

    The result is None if `rows` is None or not in ascending order.
    """
    if rows is None or not (np.diff(rows) > 0).all():
        return None
    place = np.full(m, -1, dtype=np.int64)
    place[rows] = np.arange(len(rows))
    return place


def is_sparse(X: Any) -> bool:
    """Whether X is a sparse matrix or array of scipy."""
    return bool(sparse.issparse(X))


def open_sparse(X: Any, options: OpenOptions) -> SparseSource:
    """Open a sparse SciPy matrix; its rows are samples unless the options say otherwise."""
    refuse_variable(options.variable, X)
    check_matrix(X.shape, "X")
    axis = options.feature_axis(X.shape, None, "X", convention=1)
    return SparseSource(by_columns(X if axis == 1 else X.T), missing_code=options.code_of())


def by_columns(X: Any, what: str = "X") -> Any:
    """Convert a sparse SciPy matrix to CSC format, unless it is already in CSC format.

    Raises
    ------
    DataError
        Indices exceed the shape.
    MemoryBudgetError
        There is not enough memory for the conversion.
    """
    check_dtype(X.dtype, what)
    if X.format not in (CSC, CSR, "bsr", "coo"):
        X = X.tocoo()
    if X.format != CSC:
        n_bytes = TURNING * X.nnz * (X.dtype.itemsize + _widest(X))
        remedy = (
            f"pass {what}.tocsc(), computed on a machine with more memory, or store the matrix "
            "by columns: anndata's write_zarr of a csc_matrix"
        )
        check_room(n_bytes, f"Converting {what} from sparse rows to sparse columns", remedy)
    if X.format == "coo":
        X = _columns_of(X)
    elif X.format != CSC:
        X = X.tocsr().tocsc()
    _check_indices(X, what)
    return X


def turned(columns: Any, feature_axis: int) -> Any:
    """Return a CSC matrix with samples first, transposed if features are on axis 0."""
    return columns if feature_axis == 1 else by_columns(columns.T)


def _widest(X: Any) -> int:
    """Return the number of bytes per index of a sparse matrix."""
    indices = (getattr(X, name, None) for name in ("indices", "col"))
    return max(int(part.dtype.itemsize) for part in indices if part is not None)


def _columns_of(X: Any) -> Any:
    """Convert a COO matrix to CSC by a stable sort of its entries.

    Repeated entries are then summed in their original order. SciPy's own conversion does not
    preserve this order.
    """
    order = np.argsort(X.col, kind="stable")
    indptr = np.append(0, np.cumsum(np.bincount(X.col, minlength=X.shape[1])))
    return sparse.csc_array((X.data[order], X.row[order], indptr), shape=X.shape)


def _check_indices(X: Any, what: str) -> None:
    """Raise DataError for indices beyond the shape of the matrix; SciPy does not check them."""
    try:
        X.check_format(full_check=True)
    except ValueError as error:
        raise DataError(
            f"The sparse matrix {what} of shape {X.shape} is damaged ({error}). Create or write "
            "it again."
        ) from error


def check_room(n_bytes: int, what: str, remedy: str) -> None:
    """Raise MemoryBudgetError if an operation needs more memory than is available."""
    available = available_bytes()
    if n_bytes > available:
        raise MemoryBudgetError(
            f"{what} needs {human(n_bytes)}, but only {human(available)} of memory are free; "
            f"{remedy}."
        )


def loaded(parts: tuple[Any, ...], shape: tuple[int, ...], kind: str, where: str) -> Any:
    """Read a stored sparse matrix into memory, in CSC format.

    `kind` is the stored format (CSR or CSC), and `where` the name of the matrix in messages. Each
    of the `parts` (data, indices, indptr) is a pair of the array's number of bytes and a function
    that reads the array.

    Raises
    ------
    DataError
        The parts are not a valid matrix of that shape.
    MemoryBudgetError
        The matrix does not fit into memory.
    """
    copies = TURNING if kind == CSR else 1
    n_bytes = copies * sum(size for size, _ in parts)
    remedy = f"write it as a dense matrix, which is read in parts: dhsic convert {where} OUT.zarr"
    check_room(
        n_bytes, f"Reading {where}, sparse by {'rows' if kind == CSR else 'columns'},", remedy
    )
    data, indices, indptr = (read() for _, read in parts)
    if kind not in (CSR, CSC):
        raise InputError(
            f"{where} is {kind}, but sparse matrices must be stored by rows (CSR) or columns "
            "(CSC). Write it again."
        )
    of_kind = sparse.csr_array if kind == CSR else sparse.csc_array
    try:
        matrix = of_kind((data, indices, indptr), shape=shape)
    except ValueError as error:
        raise DataError(
            f"{where} is not a valid sparse matrix of shape {shape} ({error}). It is damaged: "
            "write it again, or restore it."
        ) from error
    _check_indices(matrix, where)
    return matrix if kind == CSC else by_columns(matrix, where)

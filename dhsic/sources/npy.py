"""NumPy files: a matrix in a `.npy` file, which is read in blocks, or in a `.npz` file.

A `.npy` file is read by seeking, not by memory mapping. Pages of a mapped file count as used memory
once they are read, but memory estimates do not include them.
"""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from dhsic._typing import Array, Index
from dhsic.errors import DataError, DhsicError, InputError
from dhsic.sources import AbstractSource, AbstractStored, Names
from dhsic.sources.arrays import ArraySource
from dhsic.sources.blocks import Block, check_dtype, check_finite, check_shape, row_span, take_rows
from dhsic.sources.options import OpenOptions
from dhsic.sources.tables import check_room, refuse_parts

#: First bytes of a NumPy file.
NUMPY = b"\x93NUMPY"
#: Names of the arrays of a sparse matrix that SciPy wrote.
SPARSE = frozenset({"data", "indices", "indptr", "shape", "format"})


class NpySource(AbstractStored):
    """Source of a matrix in a `.npy` file, with features along axis 0 or 1."""

    def __init__(self, path: str, options: OpenOptions) -> None:
        self.path = str(Path(path).resolve())
        try:
            with Path(path).open("rb") as file:
                shape, is_fortran, dtype = _header(file)
                self._begin = file.tell()
                self._size = file.seek(0, 2)
        except FileNotFoundError as error:
            raise InputError(f"The array {path} does not exist. Check the path.") from error
        except (OSError, ValueError) as error:
            raise InputError(
                f"{path} is not a valid .npy file ({error}). Write it with numpy.save."
            ) from error
        check_dtype(dtype, path)
        check_shape(shape, path)
        if self._begin + dtype.itemsize * shape[0] * shape[1] > self._size:
            raise DataError(
                f"{path} is incomplete: its matrix should have {shape[0]:,} x {shape[1]:,} "
                "values. Copy it again."
            )
        self._axis = options.feature_axis(shape, None, path, convention=1)
        self._is_run = is_fortran == (self._axis == 1)  # values of a feature are contiguous
        self.n_features, self.n_samples = shape[self._axis], shape[1 - self._axis]
        self._stored, self.dtype = dtype, dtype.newbyteorder("=")
        self.missing_code, self.names = options.code_of(), Names()

    def read(self, block: Block, rows: Index | None = None) -> Array:
        span = row_span(rows, self.n_samples)
        values = np.empty((block.width, span.stop - span.start), self.dtype)
        with Path(self.path).open("rb") as file:
            if self._is_run:
                for i in range(block.width):
                    values[i] = self._run(file, block.start + i, span.start, values.shape[1])
            else:
                for i in range(values.shape[1]):
                    values[:, i] = self._run(file, span.start + i, block.start, block.width)
        values = np.ascontiguousarray(take_rows(values, rows, span))
        check_finite(values, block, rows, None, self.missing_code)
        return values.T

    def _run(self, file: Any, line: int, start: int, n: int) -> Array:
        """Read n values of one row of the file (number `line`), beginning at `start`.

        A row of the file is a feature or a sample, depending on the layout.
        """
        length = self.n_samples if self._is_run else self.n_features
        file.seek(self._begin + (line * length + start) * self._stored.itemsize)
        values: Array = np.fromfile(file, self._stored, n)
        if len(values) < n:
            raise DataError(f"{self.path} became shorter while it was read. Copy it again.")
        return values

    @property
    def layout(self) -> Any:
        return "npy", self._axis, self._is_run, self._begin


def _header(file: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read the header: shape, whether the order is Fortran's, and dtype.

    Afterwards the file position is the first value.
    """
    read = np.lib.format.read_array_header_1_0
    if np.lib.format.read_magic(file) != (1, 0):
        read = np.lib.format.read_array_header_2_0
    return read(file)


def open_npy(path: str, options: OpenOptions) -> AbstractSource:
    """Open a `.npy` file, whose values are read from disk block by block."""
    refuse_parts(path, options)
    return NpySource(path, options)


def open_npz(path: str, options: OpenOptions) -> AbstractSource:
    """Read the matrix in a `.npz` file, and arrays with one value per sample, into memory.

    Raises
    ------
    InputError
        The file contains no matrix, or it contains several and `variable` does not select one.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            headers = {}
            for item in archive.infolist():
                if not item.filename.endswith(".npy"):
                    continue
                with archive.open(item) as file:
                    headers[item.filename.removesuffix(".npy")] = _header(file)
        if {*headers} >= SPARSE:
            raise InputError(
                f"{path} contains a sparse SciPy matrix. Pass scipy.sparse.load_npz(path)."
            )
        numbers = {key: of[0] for key, of in headers.items() if of[2].kind in "biuf"}
        name = options.choose(numbers, path)
        shape, _, dtype = headers[name]
        check_shape(shape, f"{name} of {path}")
        check_room(2 * dtype.itemsize * shape[0] * shape[1], path, shape)
        with np.load(path, allow_pickle=False) as arrays:
            axis = options.feature_axis(shape, None, f"{name} of {path}", convention=1)
            along = [key for key, of in headers.items() if of[0] == (shape[1 - axis],)]
            coords = {key: arrays[key] for key in along if headers[key][2].kind in "biufUS"}
            matrix = arrays[name] if axis == 1 else arrays[name].T
    except FileNotFoundError as error:
        raise InputError(f"The array {path} does not exist. Check the path.") from error
    except DhsicError:
        raise
    except (OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(f"{path} is not a valid .npz file ({error}). Write it again.") from error
    return ArraySource(matrix, missing_code=options.code_of(), names=Names(sample_coords=coords))

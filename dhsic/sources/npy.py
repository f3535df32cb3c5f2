"""NumPy's files: a matrix in `.npy`, read where it lies; one of the arrays in `.npz`.

A `.npy` file is read by seeking, not mapped: pages that are mapped count as memory once they are
touched, in the end the whole file, and no promise has them.
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

#: How a file of NumPy begins.
NUMPY = b"\x93NUMPY"
#: Arrays of a sparse matrix that SciPy wrote.
SPARSE = frozenset({"data", "indices", "indptr", "shape", "format"})


class NpySource(AbstractStored):
    """A matrix in a `.npy` file, whose features lie along axis 0 or 1."""

    def __init__(self, path: str, options: OpenOptions) -> None:
        self.path = str(Path(path).resolve())
        try:
            with Path(path).open("rb") as file:
                shape, is_fortran, dtype = _header(file)
                self._begin = file.tell()
                self._size = file.seek(0, 2)
        except FileNotFoundError as error:
            raise InputError(f"There is no array at {path}. Check the path.") from error
        except (OSError, ValueError) as error:
            raise InputError(
                f"{path} is no .npy file ({error}). Write it by numpy.save."
            ) from error
        check_dtype(dtype, path)
        check_shape(shape, path)
        if self._begin + dtype.itemsize * shape[0] * shape[1] > self._size:
            raise DataError(
                f"{path} ends before its matrix of {shape[0]:,} x {shape[1]:,} does. Copy it again."
            )
        self._axis = options.feature_axis(shape, None, path, convention=1)
        self._is_run = is_fortran == (self._axis == 1)  # values of a feature follow each other
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
        """Values that follow each other, n from `start` of a feature, or of a sample."""
        length = self.n_samples if self._is_run else self.n_features
        file.seek(self._begin + (line * length + start) * self._stored.itemsize)
        values: Array = np.fromfile(file, self._stored, n)
        if len(values) < n:
            raise DataError(f"{self.path} was cut while it was read. Copy it again.")
        return values

    @property
    def layout(self) -> Any:
        return "npy", self._axis, self._is_run, self._begin


def _header(file: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, order and dtype of an array; the file stands where its values begin."""
    read = np.lib.format.read_array_header_1_0
    if np.lib.format.read_magic(file) != (1, 0):
        read = np.lib.format.read_array_header_2_0
    return read(file)


def open_npy(path: str, options: OpenOptions) -> AbstractSource:
    """Open a `.npy` file, which is read where it lies."""
    refuse_parts(path, options)
    return NpySource(path, options)


def open_npz(path: str, options: OpenOptions) -> AbstractSource:
    """Open the matrix of a `.npz` file, into memory; arrays of one value a sample come with it.

    Raises
    ------
    InputError
        It holds no matrix, or several, and `variable` says none of them.
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
                f"{path} holds a sparse matrix of SciPy. Pass scipy.sparse.load_npz(path)."
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
        raise InputError(f"There is no array at {path}. Check the path.") from error
    except DhsicError:
        raise
    except (OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(f"{path} is no .npz file ({error}). Write it again.") from error
    return ArraySource(matrix, missing_code=options.code_of(), names=Names(sample_coords=coords))

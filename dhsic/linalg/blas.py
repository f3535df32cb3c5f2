"""Symmetric updates in place, ``upper += alpha Z' Z``, by BLAS without the GIL.

The wrappers of `scipy.linalg.blas` hold the GIL while BLAS runs, so that two threads with a
statistic each take turns. The same routines are called here through the table that
`scipy.linalg.cython_blas` exports for such use; ctypes lets go of the GIL.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from scipy.linalg import cython_blas

from dhsic._typing import Array, Float


def _routine(name: str, n_arguments: int) -> Any:
    """Fortran routine `name`: all of its arguments are addresses."""
    get_name, get_pointer = (
        ctypes.pythonapi.PyCapsule_GetName,
        ctypes.pythonapi.PyCapsule_GetPointer,
    )
    get_name.argtypes, get_name.restype = [ctypes.py_object], ctypes.c_char_p
    get_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    get_pointer.restype = ctypes.c_void_p
    capsule = cython_blas.__pyx_capi__[name]
    prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * n_arguments)
    return prototype(get_pointer(capsule, get_name(capsule)))


_SYRK = {np.dtype(np.float64): _routine("dsyrk", 10), np.dtype(np.float32): _routine("ssyrk", 10)}
_ONES = {np.dtype(np.float64): ctypes.c_double(1.0), np.dtype(np.float32): ctypes.c_float(1.0)}
_DGEMM = _routine("dgemm", 13)
_ONE = ctypes.c_double(1.0)
_MINUS_ONE = ctypes.c_double(-1.0)
_UPPER, _PLAIN, _TRANSPOSED = (ctypes.c_char(letter) for letter in (b"U", b"N", b"T"))


def add_products(upper: Array, Z: Array) -> None:
    """Add ``Z' Z`` to the upper triangle.

    Parameters
    ----------
    upper : (m, m) float64 or float32, Fortran-ordered
        Changed in place.
    Z : (c, m) array of the same dtype, C-ordered
        Features as rows.
    """
    _check(upper, Z)
    c, m = (ctypes.c_int(n) for n in Z.shape)
    one = _ONES[Z.dtype]
    _SYRK[Z.dtype](
        *_at(_UPPER, _PLAIN, m, c, one), Z.ctypes.data, *_at(m, one), upper.ctypes.data, *_at(m)
    )


def subtract_products(upper: Float, Z: Float, columns: slice) -> None:
    """Subtract ``Z' Z`` in some columns, from the first row to the last of these columns."""
    _check(upper, Z)
    a, b = columns.start, columns.stop
    c, m = (ctypes.c_int(n) for n in Z.shape)
    rows, width = ctypes.c_int(b), ctypes.c_int(b - a)
    _DGEMM(
        *_at(_PLAIN, _TRANSPOSED, rows, width, c, _MINUS_ONE),
        Z.ctypes.data,
        *_at(m),
        Z[:, a:].ctypes.data,
        *_at(m, _ONE),
        upper[:, a:].ctypes.data,
        *_at(m),
    )


def _at(*values: Any) -> list[Any]:
    return [ctypes.byref(value) for value in values]


def _check(upper: Array, Z: Array) -> None:
    # What BLAS is handed are addresses: nothing else would notice a wrong shape or order.
    m = Z.shape[1]
    right = upper.shape == (m, m) and upper.flags.f_contiguous and Z.flags.c_contiguous
    if not (right and upper.dtype == Z.dtype and Z.dtype in _SYRK):
        raise ValueError(
            f"upper {upper.shape} {upper.dtype} and Z {Z.shape} {Z.dtype}: pass (m, m) in Fortran "
            "order and (c, m) in C order, both float64 or both float32."
        )

"""Quadratic forms ``x' A x`` of a symmetric matrix A, computed from one triangle of A.

This needs half of the operations of a matrix product. Let T be half of A on the diagonal, A below
and 0 above. Then ``x' A x = 2 x' T x``. T is stored in panels of columns. They are so wide that a
single BLAS call, ``X T`` with a triangle, is usually sufficient. Many short calls would each copy X
again, and threads would wait for each other between the calls.

A low-rank matrix stores its exact diagonal a (`dhsic.linalg.symmetric`), which replaces the
diagonal of the product of its directions, `own`:
``x' A x = sum_k theta_k (y_k' x)^2 + sum_i (a_i - own_i) x_i^2``. This takes 2 m R flops instead of
m^2.

This module also contains the symmetric updates ``upper += alpha Z' Z``. All BLAS calls release the
GIL. The wrappers of `scipy.linalg.blas` hold it while BLAS runs, so only one thread at a time could
compute. The same routines are therefore called through ctypes, which releases the GIL, with the
addresses that `scipy.linalg.cython_blas` exports for such use.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cython_blas

from dhsic._typing import Array, Float
from dhsic.namespace import Movable, cast, namespace_of, slices, zeros

#: Function with the signature of `map`, whose calls may run in parallel threads.
Each = Callable[..., Iterable[Any]]


def _routine(name: str, n_arguments: int) -> Any:
    """Return the BLAS routine `name`, a Fortran function; its arguments are addresses."""
    get_name = ctypes.pythonapi.PyCapsule_GetName
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_name.argtypes, get_name.restype = [ctypes.py_object], ctypes.c_char_p
    get_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    get_pointer.restype = ctypes.c_void_p
    capsule = cython_blas.__pyx_capi__[name]
    prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * n_arguments)
    return prototype(get_pointer(capsule, get_name(capsule)))


_SYRK = {np.dtype(np.float64): _routine("dsyrk", 10), np.dtype(np.float32): _routine("ssyrk", 10)}
_TRMM = {np.dtype(np.float64): _routine("dtrmm", 11), np.dtype(np.float32): _routine("strmm", 11)}
_ONES = {np.dtype(np.float64): ctypes.c_double(1.0), np.dtype(np.float32): ctypes.c_float(1.0)}
_DGEMM = _routine("dgemm", 13)
_ONE = ctypes.c_double(1.0)
_MINUS_ONE = ctypes.c_double(-1.0)
_UPPER, _PLAIN, _TRANSPOSED, _LEFT = (ctypes.c_char(letter) for letter in (b"U", b"N", b"T", b"L"))


def add_products(upper: Array, Z: Array) -> None:
    """Add ``Z' Z`` to the upper triangle of a matrix, in place.

    `upper` is (m, m) in Fortran order, and Z is (c, m) in C order. Both are float64 or float32.
    """
    _check(upper, Z)
    c, m = (ctypes.c_int(n) for n in Z.shape)
    one = _ONES[Z.dtype]
    _SYRK[Z.dtype](
        *_at(_UPPER, _PLAIN, m, c, one), Z.ctypes.data, *_at(m, one), upper.ctypes.data, *_at(m)
    )


def subtract_products(upper: Float, Z: Float, columns: slice) -> None:
    """Subtract ``Z' Z`` from some columns of an upper triangle, in place; Z is (c, m)."""
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


def times_lower(X: Array, lower: Array) -> None:
    """Overwrite X (c, n) with ``X T``, where T is the lower triangle of `lower`.

    `lower` has n columns and at least n rows. Both arrays are in C order and have the same dtype,
    float64 or float32; rows of `lower` may be strided. BLAS reads arrays by columns, so the call
    computes ``T' X'`` with an upper triangle.
    """
    n, size = X.shape[1], lower.itemsize
    is_valid = lower.shape[0] >= n == lower.shape[1] and lower.strides[1] == size
    is_valid &= lower.strides[0] >= n * size and X.flags.c_contiguous
    if not (is_valid and X.dtype == lower.dtype and X.dtype in _TRMM):
        raise ValueError(
            f"X {X.shape} {X.dtype} and lower {lower.shape} {lower.dtype}: pass (c, n) and at "
            "least (n, n), both in C order, both float64 or both float32."
        )
    rows, columns, stride = (ctypes.c_int(k) for k in (n, len(X), lower.strides[0] // size))
    _TRMM[X.dtype](
        *_at(_LEFT, _UPPER, _PLAIN, _PLAIN, rows, columns, _ONES[X.dtype]),
        lower.ctypes.data,
        *_at(stride),
        X.ctypes.data,
        *_at(rows),
    )


def _at(*values: Any) -> list[Any]:
    return [ctypes.byref(value) for value in values]


def _check(upper: Array, Z: Array) -> None:
    # BLAS receives only addresses, and would not detect a wrong shape or order.
    m = Z.shape[1]
    is_valid = upper.shape == (m, m) and upper.flags.f_contiguous and Z.flags.c_contiguous
    if not (is_valid and upper.dtype == Z.dtype and Z.dtype in _SYRK):
        raise ValueError(
            f"upper {upper.shape} {upper.dtype} and Z {Z.shape} {Z.dtype}: pass (m, m) in Fortran "
            "order and (c, m) in C order, both float64 or both float32."
        )


class WorkBuffer:
    """Work buffers that all rounds reuse, because new arrays cause slow page faults."""

    def __init__(self) -> None:
        self._arrays: dict[Any, Array] = {}

    def array(self, key: Any, shape: tuple[int, ...], dtype: Any = np.float64) -> Array:
        """Return the buffer with this key, shape and dtype; it contains values of its last use."""
        key = key, np.dtype(dtype)
        if key not in self._arrays or self._arrays[key].shape != shape:
            self._arrays[key] = np.empty(shape, dtype=dtype)
        return self._arrays[key]


#: Number of columns of a panel of T, and of a part of a panel. A part fits into the CPU cache; on a
#: GPU, it wastes few multiplications on the upper triangle.
PANEL, NARROW = 2048, 128


def form_flops(m: int) -> float:
    """Return the number of flops of a quadratic form x' A x from one triangle of A (m, m)."""
    return float(m * (m + 1))


def form_entries(m: int) -> int:
    """Return the number of entries of A (m, m) that `Quadratic` stores."""
    return sum((m - part.start) * (part.stop - part.start) for part in slices(m, PANEL))


@dataclass(frozen=True, slots=True)
class Quadratic(Movable):
    """Symmetric (m, m) matrix in the form for computing quadratic forms.

    Each of the `panels` contains columns a to b - 1 of T (see `Triangle`) from row a on, with shape
    (m - a, b - a).
    """

    panels: tuple[Array, ...]

    @staticmethod
    def of(A: Float, scale: float, dtype: Any) -> Quadratic:
        """Create the quadratic forms of ``A / scale`` in a dtype; A is (m, m)."""
        T = np.tril(A)
        T.ravel()[:: len(T) + 1] /= 2.0
        return Quadratic.of_triangle(T, scale, dtype)

    @staticmethod
    def of_triangle(
        T: Float, scale: float, dtype: Any, each: Each = map, room: WorkBuffer | None = None
    ) -> Quadratic:
        """Create the quadratic forms from ``T / scale``; T (m, m) is the matrix of a `Triangle`.

        Panels are views of T if neither the values nor the dtype change. Otherwise they are in
        buffers of `room`.
        """
        parts = [T[part.start :, part] for part in slices(len(T), PANEL)]
        if scale != 1.0 or T.dtype != dtype:
            room = room or WorkBuffer()
            panels = [room.array(number, part.shape, dtype) for number, part in enumerate(parts)]
            for part, panel in zip(parts, panels, strict=True):
                _scale(part, 1 / scale, panel, each)
            parts = panels
        return Quadratic(tuple(parts))

    def columns(self) -> Iterator[tuple[int, int, Array]]:
        """Yield groups of columns of the stored triangle T, each as a, b and ``T[a:, a:b]``."""
        start = 0
        for panel in self.panels:
            for part in slices(panel.shape[1], NARROW):
                yield start + part.start, start + part.stop, panel[part.start :, part]
            start += panel.shape[1]

    def forms(self, X: Array) -> Float:
        """Compute ``x' A x`` for every row x of X (c, m): (c,) float64.

        A is this matrix.
        """
        xp = namespace_of(X)
        out = zeros(X.shape[0], like=X)
        for a, b, product in self._products(X):
            out += xp.vecdot(X[:, a:b], product)
        return 2.0 * out

    def pairs(self, X: Array) -> Float:
        """Compute ``x_k' A x_l`` for all pairs of n vectors per feature, X (n, c, m): (n, n, c).

        A is this matrix, and T its stored triangle. ``x_k' T x_l`` contains the entries of A below
        the diagonal, and ``x_l' T x_k`` the entries above.
        """
        xp = namespace_of(X)
        n, c, m = X.shape
        out = zeros((n, n, c), like=X)
        for a, b, product in self._products(xp.reshape(X, (n * c, m))):
            out += xp.vecdot(X[:, None, :, a:b], xp.reshape(product, (1, n, c, b - a)))
        return out + xp.permute_dims(out, (1, 0, 2))

    def _products(self, X: Array) -> Iterator[tuple[int, int, Array]]:
        """Yield groups of columns of ``X T`` (c, m), each as a, b, and columns a to b - 1.

        T is the stored triangle of the matrix.
        """
        here, a = namespace_of(X) is np, 0
        for panel in self.panels if here else ():
            b = a + panel.shape[1]
            product = np.array(X[:, a:b], order="C")
            times_lower(product, panel)
            if b < X.shape[1]:
                product += X[:, b:] @ panel[b - a :]
            yield a, b, product
            a = b
        for a, b, part in () if here else self.columns():
            yield a, b, X[:, a:] @ part


def _scale(T: Float, factor: float, panel: Array, each: Each) -> None:
    """Write T times `factor` to `panel`; `each` may process blocks of rows in parallel."""

    def fill(rows: slice) -> None:
        columns = slice(0, min(rows.stop, T.shape[1]))
        np.multiply(T[rows, columns], factor, out=panel[rows, columns], casting="same_kind")

    for _ in each(fill, slices(len(T), NARROW)):
        pass


@dataclass(frozen=True, slots=True, eq=False)
class Triangle:
    """Triangle T of a symmetric (m, m) matrix A, from which `Quadratic` is created.

    T (m, m) is half of A on the diagonal, and A below. Above the diagonal it is 0 within the
    diagonal blocks of side `NARROW`. Other entries above the diagonal are never read.
    """

    T: Float
    row_sums: Float  # (m,), row sums of A
    norm: float  # ||A||_F

    def form(
        self, scale: float, dtype: Any, each: Each = map, room: WorkBuffer | None = None
    ) -> Quadratic:
        """Create the quadratic forms of ``A / scale`` in a dtype."""
        return Quadratic.of_triangle(self.T, scale, dtype, each, room)


@dataclass(frozen=True, slots=True)
class LowRankQuadratic(Movable):
    """Low-rank matrix ``A = Y' diag(theta) Y + Diag(correction)``, for quadratic forms.

    Y (R, m) contains directions in the working dtype and C order, with entries of about 1.
    `correction` (m,) is the exact diagonal of A minus the diagonal of the rounded
    ``Y' diag(theta) Y``.
    """

    Y: Array
    theta: Float
    correction: Array

    @property
    def row_sums(self) -> Float:
        """Row sums of the matrix, (m,) float64."""
        Y = cast(self.Y, np.float64)
        along = self.theta * namespace_of(Y).sum(Y, axis=1)
        return along @ Y + cast(self.correction, np.float64)

    def forms(self, X: Array) -> Float:
        """Compute ``x' A x`` for every row x of X (c, m): (c,) float64.

        A is this matrix.
        """
        xp = namespace_of(X)
        along = cast(X @ self.Y.T, np.float64)  # (c, R)
        own = cast(xp.square(X) @ self.correction, np.float64)
        return xp.square(along) @ self.theta + own

    def pairs(self, X: Array) -> Float:
        """Compute ``x_k' A x_l`` for all pairs of n vectors per feature, X (n, c, m): (n, n, c).

        A is this matrix.
        """
        n, c, m = X.shape
        xp = namespace_of(X)
        flat = xp.reshape(X, (n * c, m))
        along = xp.reshape(cast(flat @ self.Y.T, np.float64), (n, c, -1))
        out = zeros((n, n, c), like=X)
        for k in range(n):
            for l in range(k, n):  # noqa: E741  # the level, as in N_kl
                between = xp.vecdot(along[k, ...] * self.theta, along[l, ...])
                own = (X[k, ...] * X[l, ...]) @ self.correction
                out[k, l, :] = out[l, k, :] = between + cast(own, np.float64)
        return out


AnyQuadratic = Quadratic | LowRankQuadratic

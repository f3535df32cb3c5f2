"""Quadratic forms ``x' A x`` of a symmetric matrix: one triangle of it, half of a product.

With T equal to half of A on the diagonal, A below and nothing above, ``x' A x = 2 x' T x``. It
comes in panels of columns, so wide that mostly one call of BLAS, ``X T`` of a triangle, is all
there is to do: many short ones pack X anew each time, and threads take turns between them.

A matrix of low rank has a diagonal of its own (`dhsic.linalg.symmetric`). What the product of its
directions says of the diagonal is taken away and the true diagonal put in its place:
``x' A x = sum_k theta_k (y_k' x)^2 + sum_i (a_i - own_i) x_i^2``, 2 m R flops instead of m^2.

Symmetric updates in place, ``upper += alpha Z' Z``, are here too. All of this is by BLAS without
the GIL: the wrappers of `scipy.linalg.blas` hold the GIL while BLAS runs, so that two threads with
a statistic each take turns. The same routines are called through the table that
`scipy.linalg.cython_blas` exports for such use; ctypes lets go of the GIL.
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

#: As `map`: what threads may share out.
Each = Callable[..., Iterable[Any]]


def _routine(name: str, n_arguments: int) -> Any:
    """Fortran routine `name`: all of its arguments are addresses."""
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
    """Add ``Z' Z`` to the upper triangle, in place.

    `upper` is (m, m) in Fortran order, Z (c, m) in C order, both float64 or both float32.
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


def times_lower(X: Array, lower: Array) -> None:
    """Put ``X T`` in the place of X (c, n), T the lower triangle of `lower` (n or more, n).

    Both are in C order and of the same dtype, float64 or float32; rows of `lower` may lie apart.
    BLAS reads them by columns, so it is asked for ``T' X'`` of an upper triangle.
    """
    n, size = X.shape[1], lower.itemsize
    right = lower.shape[0] >= n == lower.shape[1] and lower.strides[1] == size
    right &= lower.strides[0] >= n * size and X.flags.c_contiguous
    if not (right and X.dtype == lower.dtype and X.dtype in _TRMM):
        raise ValueError(
            f"X {X.shape} {X.dtype} and lower {lower.shape} {lower.dtype}: pass (c, n) and at "
            "least (n, n), both in C order, both float64 or both float32."
        )
    rows, columns, apart = (ctypes.c_int(k) for k in (n, len(X), lower.strides[0] // size))
    _TRMM[X.dtype](
        *_at(_LEFT, _UPPER, _PLAIN, _PLAIN, rows, columns, _ONES[X.dtype]),
        lower.ctypes.data,
        *_at(apart),
        X.ctypes.data,
        *_at(rows),
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


class Room:
    """Arrays that one round after the other fills: pages of new ones take longer than that."""

    def __init__(self) -> None:
        self._arrays: dict[Any, Array] = {}

    def array(self, key: Any, shape: tuple[int, ...], dtype: Any = np.float64) -> Array:
        """The array of that key and dtype, with what was in it."""
        key = key, np.dtype(dtype)
        if key not in self._arrays or self._arrays[key].shape != shape:
            self._arrays[key] = np.empty(shape, dtype=dtype)
        return self._arrays[key]


#: Columns of a panel, in which half of the matrix is kept; and of a part of one, that stays in the
#: cache or, on a device, leaves little of the upper triangle to be multiplied.
PANEL, NARROW = 2048, 128


def form_flops(m: int) -> float:
    """Flops of a quadratic form x' A x, with one triangle of A."""
    return float(m * (m + 1))


def form_entries(m: int) -> int:
    """Numbers that are kept of A."""
    return sum((m - part.start) * (part.stop - part.start) for part in slices(m, PANEL))


@dataclass(frozen=True, slots=True)
class Quadratic(Movable):
    """A symmetric (m, m) matrix, ready for quadratic forms.

    Each of the `panels` is (m - a, b - a), the columns a..b of T from row a on, as of `Triangle`.
    """

    panels: tuple[Array, ...]

    @staticmethod
    def of(A: Float, scale: float, dtype: Any) -> Quadratic:
        """``A / scale``, cast to the dtype."""
        T = np.tril(A)
        T.ravel()[:: len(T) + 1] /= 2.0
        return Quadratic.of_triangle(T, scale, dtype)

    @staticmethod
    def of_triangle(
        T: Float, scale: float, dtype: Any, each: Each = map, room: Room | None = None
    ) -> Quadratic:
        """``T / scale``, cast to the dtype, in the room; a view of T where it is no other."""
        parts = [T[part.start :, part] for part in slices(len(T), PANEL)]
        if scale != 1.0 or T.dtype != dtype:
            room = room or Room()
            panels = [room.array(number, part.shape, dtype) for number, part in enumerate(parts)]
            for part, panel in zip(parts, panels, strict=True):
                _scale(part, 1 / scale, panel, each)
            parts = panels
        return Quadratic(tuple(parts))

    def columns(self) -> Iterator[tuple[int, int, Array]]:
        """First column of each part of T, the one after its last, and T there from the first on."""
        start = 0
        for panel in self.panels:
            for part in slices(panel.shape[1], NARROW):
                yield start + part.start, start + part.stop, panel[part.start :, part]
            start += panel.shape[1]

    def forms(self, X: Array) -> Float:
        """``x' A x`` of every row of X (c, m), float64 (c,)."""
        xp = namespace_of(X)
        out = zeros(X.shape[0], like=X)
        for a, b, product in self._products(X):
            out += xp.vecdot(X[:, a:b], product)
        return 2.0 * out

    def pairs(self, X: Array) -> Float:
        """``x_k' A x_l`` of the rows of X (n, c, m) with each other, float64 (n, n, c).

        ``x_k' T x_l`` holds the entries of A below the diagonal, ``x_l' T x_k`` those above.
        """
        xp = namespace_of(X)
        n, c, m = X.shape
        out = zeros((n, n, c), like=X)
        for a, b, product in self._products(xp.reshape(X, (n * c, m))):
            out += xp.vecdot(X[:, None, :, a:b], xp.reshape(product, (1, n, c, b - a)))
        return out + xp.permute_dims(out, (1, 0, 2))

    def _products(self, X: Array) -> Iterator[tuple[int, int, Array]]:
        """``X T`` (c, m), some of its columns a..b at a time."""
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
    """Write a panel of T, times a factor; rows that threads may share out."""

    def fill(rows: slice) -> None:
        left = slice(0, min(rows.stop, T.shape[1]))
        np.multiply(T[rows, left], factor, out=panel[rows, left], casting="same_kind")

    for _ in each(fill, slices(len(T), NARROW)):
        pass


@dataclass(frozen=True, slots=True, eq=False)
class Triangle:
    """A symmetric (m, m) matrix A as its quadratic forms take it.

    T (m, m) is half of A on the diagonal, A below, and next to the diagonal nothing above: zeros in
    squares of side `NARROW` on it. What else is above is never read.
    """

    T: Float
    row_sums: Float  # of A, (m,)
    norm: float  # ||A||_F

    def form(
        self, scale: float, dtype: Any, each: Each = map, room: Room | None = None
    ) -> Quadratic:
        """``A / scale`` for quadratic forms, in the dtype."""
        return Quadratic.of_triangle(self.T, scale, dtype, each, room)


@dataclass(frozen=True, slots=True)
class LowRankQuadratic(Movable):
    """``Y' diag(theta) Y + Diag(correction)``, ready for quadratic forms.

    Y (R, m) are directions in the working dtype, C-ordered, with entries of about 1; `correction`
    (m,) is the true diagonal of A less the one that Y, as rounded, has.
    """

    Y: Array
    theta: Float
    correction: Array

    @property
    def row_sums(self) -> Float:
        """Sums of its rows, (m,) float64."""
        Y = cast(self.Y, np.float64)
        along = self.theta * namespace_of(Y).sum(Y, axis=1)
        return along @ Y + cast(self.correction, np.float64)

    def forms(self, X: Array) -> Float:
        """As of `Quadratic`."""
        xp = namespace_of(X)
        along = cast(X @ self.Y.T, np.float64)  # (c, R)
        own = cast(xp.square(X) @ self.correction, np.float64)
        return xp.square(along) @ self.theta + own

    def pairs(self, X: Array) -> Float:
        """As of `Quadratic`."""
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

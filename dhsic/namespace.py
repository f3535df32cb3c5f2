"""Array namespaces: the same code runs on NumPy arrays and on arrays of a device.

Engines and kernels get functions from the namespace of an array (the array's library), and use only
functions of the array API standard. This module adds functions that the standard lacks. Some move
arrays to a device and back. Others reuse the memory of an operand, which makes NumPy faster because
data stay in the cache.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, Self

import numpy as np
from array_api_compat import (
    array_namespace,
    is_array_api_obj,
    is_cupy_array,
    is_torch_array,
    to_device,
)

from dhsic._typing import Array, Index, Mask

#: Number of entries that a device processes at a time (64 MiB in float32), so that it is kept busy.
DEVICE_ENTRIES = 1 << 24


#: Function that moves arrays to a device.
Move = Callable[[Array], Array]


def namespace_of(x: Any) -> Any:
    """Return the namespace of an array x: NumPy, or another library of the array API standard.

    >>> namespace_of(np.zeros(2)).__name__
    'numpy'
    """
    return np if isinstance(x, np.ndarray) else array_namespace(x)


def to_namespace(x: Any, xp: Any, device: Any = None) -> Array:
    """Copy an array to namespace `xp` (numpy, cupy, torch, ...), on one of its devices."""
    standard = namespace_of(xp.empty(0))  # cupy's and torch's own functions are not standard
    return standard.asarray(np.ascontiguousarray(host(x)), device=device, copy=True)


def host(x: Any) -> Array:
    """Convert an array to NumPy; wait for its device."""
    if isinstance(x, np.ndarray):
        return x
    if is_cupy_array(x) or is_torch_array(x):  # from_dlpack does not support these on a GPU
        return np.asarray(to_device(x, "cpu"))
    return np.asarray(np.from_dlpack(x, device="cpu"))


def like(there: Any, x: Array) -> Array:
    """Move a NumPy array x to the namespace and device of the array `there`."""
    if isinstance(there, np.ndarray):
        return x
    return to_namespace(x, namespace_of(there), there.device)


def zeros(shape: int | tuple[int, ...], like: Any) -> Array:
    """Zeros in float64, in the namespace and on the device of `like`."""
    if isinstance(like, np.ndarray):
        return np.zeros(shape)
    xp = namespace_of(like)
    return xp.zeros(shape, dtype=xp.float64, device=like.device)


def cast(x: Any, dtype: Any) -> Array:
    """Convert an array to a NumPy dtype; return the array itself if it has this dtype."""
    if isinstance(x, np.ndarray):
        return x.astype(dtype, copy=False)
    xp = namespace_of(x)
    return xp.astype(x, getattr(xp, np.dtype(dtype).name), copy=False)


class Movable:
    """A dataclass of numbers and arrays that can be moved to another namespace as a whole."""

    __slots__ = ()

    def on(self, xp: Any, device: Any = None) -> Self:
        """Return a copy in the namespace `xp`, on one of its devices."""
        mine: Any = self
        parts = {f.name: _moved_all(getattr(self, f.name), xp, device) for f in fields(mine)}
        new: Self = replace(mine, **parts)
        return new


def _moved_all(value: Any, xp: Any, device: Any) -> Any:
    """Copy a value with all arrays in it to `xp`; NumPy numbers become floats."""
    if isinstance(value, np.floating):
        return float(value)
    if is_array_api_obj(value):
        return to_namespace(value, xp, device)
    if isinstance(value, dict):
        return {key: _moved_all(each, xp, device) for key, each in value.items()}
    if isinstance(value, tuple):
        return tuple(_moved_all(each, xp, device) for each in value)
    return value.on(xp, device) if hasattr(value, "on") else value


def take(x: Any, which: Index | Mask, axis: int = 0) -> Array:
    """Select entries along an axis, as a new array; `which` contains indices, or is a mask."""
    xp = namespace_of(x)
    where = np.flatnonzero(which) if which.dtype == np.bool_ else which
    return xp.take(x, xp.asarray(where, device=x.device), axis=axis)


def into(out: Any, function: Any, *operands: Any) -> Array:
    """Return ``function(*operands)``; for NumPy, the result is written to `out`."""
    here = isinstance(out, np.ndarray)
    return function(*operands, out=out) if here else function(*operands)


def write(out: Any, mask: Any) -> None:
    """Write a mask to `out` (float64), as ones and zeros."""
    out[...] = mask if isinstance(out, np.ndarray) else cast(mask, np.float64)


def first_of(mask: Any) -> Array:
    """Return the index of the first True in each row of a mask (c, m), (c,)."""
    # NumPy stops at the first True; the standard only defines argmax for numbers.
    numbers = mask if isinstance(mask, np.ndarray) else cast(mask, np.uint8)
    return namespace_of(mask).argmax(numbers, axis=1)


def slices(n: int, width: int) -> list[slice]:
    """Split the range 0..n into slices of `width`; the last slice ends at n.

    >>> slices(5, 3)
    [slice(0, 3, None), slice(3, 5, None)]
    """
    return [slice(a, min(a + width, n)) for a in range(0, n, width)]


def at_a_time(x: Any, cached: int) -> int:
    """Return the number of entries to process at a time: `cached` on a CPU, more on a device."""
    return cached if isinstance(x, np.ndarray) else DEVICE_ENTRIES

"""What a matrix may hold: booleans, integers and floats, no infinity."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dhsic._typing import Array, Index, Mask
from dhsic.errors import DataError, InputError
from dhsic.sources.base import Block
from dhsic.validation import beyond_float, refuse_dtype

#: Says where a value is stored: (feature, sample) -> " in chunk 'c/0/0' of ...", or "".
Place = Callable[[int, int], str]


def in_memory(_feature: int, _sample: int) -> str:
    """A value in memory has no chunk to name."""
    return ""


def check_dtype(dtype: Any, what: str) -> None:
    """Refuse what is not a number on a line: complex, text, dates, objects."""
    if np.dtype(dtype).kind not in "biuf":
        refuse_dtype(dtype, what)


def check_shape(shape: tuple[int, ...], what: str) -> None:
    """Refuse what is not a matrix, or is an empty one."""
    check_matrix(shape, what)
    if 0 in shape:
        raise InputError(f"{what} has shape {shape}, so it is empty. Pass a matrix with values.")


def check_matrix(shape: tuple[int, ...], what: str) -> None:
    """Refuse what has not two axes."""
    if len(shape) != 2:
        raise InputError(
            f"{what} has shape {shape}; a matrix has two axes, samples and features. Reshape your "
            "data, or select other axes away; a single feature is X.reshape(-1, 1)."
        )


def check_finite(
    values: Array, block: Block, rows: Index | None, place: Place, missing_code: int | None = None
) -> None:
    """Refuse what float64 does not hold in features-first `values` (c, m).

    Infinities; integers of which it has not every digit, but for the one that means missing. NaN
    passes, it means missing.
    """
    if values.dtype.kind in "iu":
        wide: Mask = beyond_float(values)
        if missing_code is not None and wide.any():
            wide &= values != missing_code
        if wide.any():
            raise DataError(
                f"{first_bad(wide, values, block, rows, place)}; float64, in which features are "
                "compared, holds every integer to 2**53 only, and the digits beyond would be lost. "
                "Leave out what is a name and no number, or subtract an offset."
            )
    if values.dtype.kind != "f":
        return
    infinite = np.isinf(values)
    if infinite.any():
        raise DataError(
            f"{first_bad(infinite, values, block, rows, place)}; values are finite, and missing "
            "ones NaN. Mend what wrote it, or replace infinities by NaN."
        )


def first_bad(bad: Mask, values: Array, block: Block, rows: Index | None, place: Place) -> str:
    """Name the first bad value of a block, (c, m), as the start of a sentence."""
    c, i = (int(k) for k in np.argwhere(bad)[0])
    feature, sample = block.start + c, i if rows is None else int(rows[i])
    return f"Feature {feature} of sample {sample} is {values[c, i]}{place(feature, sample)}"

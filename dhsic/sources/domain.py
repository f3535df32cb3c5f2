"""What a matrix may hold: booleans, integers and floats, no infinity."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from dhsic._typing import Array, Index, Mask
from dhsic.errors import DataError, InputError
from dhsic.given import refuse_dtype
from dhsic.sources.base import AbstractSource, Block

#: Says where a value is stored: (feature, sample) -> " in chunk 'c/0/0' of ...", or "".
Place = Callable[[int, int], str]

#: Numbers that genotype tools write for a missing call, and what calls are otherwise: 0 to 2.
CODES = (-1, -9)
MOST_COPIES = 2
#: Features and samples that are looked at for such a code.
PROBE = (256, 4096)


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


def check_finite(values: Array, block: Block, rows: Index | None, place: Place) -> None:
    """Refuse infinities in features-first `values` (c, m); NaN passes, it means missing."""
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


def warn_of_codes(source: AbstractSource, rows: Index | None = None) -> None:
    """Warn where the first features look like genotypes whose missing calls count as values."""
    if source.missing_code is not None or np.dtype(source.dtype).kind not in "if":
        return
    taken = np.arange(source.n_samples, dtype=np.int64) if rows is None else rows
    values = source.read(source.blocks(PROBE[0])[0], taken[: PROBE[1]])
    outside = values[(values < 0) | (values > MOST_COPIES)]
    if outside.size == 0 or outside[0] not in CODES or values.max(initial=0) != MOST_COPIES:
        return
    code = int(outside[0])
    if (outside == code).all():
        warnings.warn(
            f"X holds 0 to {MOST_COPIES} and otherwise only {code}, which counts as a value here, "
            f"though genotypes often have {code} for missing. If it is missing, pass "
            + (
                f"dhsic.open_source(X, missing_code={code})."
                if values.dtype.kind == "i"
                else f"NaN instead: np.where(X == {code}, np.nan, X)."
            ),
            stacklevel=4,
        )

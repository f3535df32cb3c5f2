"""Blocks of features of a matrix, selection of samples, and checks of values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from dhsic._typing import Array, Index, Mask
from dhsic.errors import DataError, InputError
from dhsic.validation import WIDE, beyond_float, refuse_dtype


def run_of(local: Index) -> slice | Index:
    """Return ascending positions as a slice if they are contiguous, which avoids a copy."""
    if local.size and local[-1] - local[0] + 1 == local.size:
        return slice(int(local[0]), int(local[-1]) + 1)
    return local


@dataclass(frozen=True, slots=True)
class Block:
    """Features ``start:stop`` of a source, a whole number of chunks (or shards)."""

    index: int
    start: int
    stop: int

    @property
    def width(self) -> int:
        """Number c of features."""
        return self.stop - self.start


#: Maximum number of blocks of a matrix: each is a task, and a scheduler takes 1 ms per task.
MOST_BLOCKS = 10_000


def group_chunks(edges: Index, width: int) -> tuple[Block, ...]:
    """Group chunks with boundaries `edges` into blocks of at most `width` features.

    Chunks are never split, and a matrix has at most `MOST_BLOCKS` blocks. A block is therefore
    wider than `width` if chunks are wider, or if the matrix is very wide.

    Examples
    --------
    >>> [(b.start, b.stop) for b in group_chunks(np.array([0, 4, 8, 12, 14]), 9)]
    [(0, 8), (8, 14)]
    """
    n_chunks = len(edges) - 1
    fewest = -(-n_chunks // MOST_BLOCKS)
    blocks: list[Block] = []
    at = 0
    while at < n_chunks:
        fits = int(np.searchsorted(edges, edges[at] + width, side="right")) - 1
        to = min(max(fits, at + fewest), n_chunks)
        blocks.append(Block(len(blocks), int(edges[at]), int(edges[to])))
        at = to
    return tuple(blocks)


def even_blocks(n_features: int, width: int) -> tuple[Block, ...]:
    """Return blocks of `width` features for a matrix without chunks; the last may be narrower.

    >>> [(b.start, b.stop) for b in even_blocks(5, 2)]
    [(0, 2), (2, 4), (4, 5)]
    """
    edges = regular_edges(n_features, width).tolist()
    return tuple(Block(i, a, b) for i, (a, b) in enumerate(pairwise(edges)))


def regular_edges(size: int, chunk: int) -> Index:
    """Return the boundaries of chunks of equal size; the last chunk may be smaller."""
    return np.append(np.arange(0, size, chunk, dtype=np.int64), size)


def row_span(rows: Index | None, n_samples: int) -> slice:
    """Return the shortest range of samples that contains `rows`."""
    if rows is None:
        return slice(0, n_samples)
    return slice(int(rows.min()), int(rows.max()) + 1) if len(rows) else slice(0, 0)


def take_rows(values: Array, rows: Index | None, span: slice) -> Array:
    """Select `rows` from features-first values (c, m, ...), which cover the samples in `span`."""
    if rows is None or (rows.size == span.stop - span.start and (np.diff(rows) == 1).all()):
        return values  # all of them, in order
    selected: Array = np.take(values, rows - span.start, axis=1)
    return selected


#: Function that describes where a value is stored: (feature, sample) -> ", in chunk 'c/0/0' of
#: ...".
Place = Callable[[int, int], str]


def check_dtype(dtype: Any, what: str) -> None:
    """Refuse dtypes that are not real numbers: complex, text, dates, objects."""
    if np.dtype(dtype).kind not in "biuf":
        refuse_dtype(dtype, what)


def check_matrix(shape: tuple[int, ...], what: str) -> None:
    """Refuse arrays that do not have two axes."""
    if len(shape) != 2:
        raise InputError(
            f"{what} has shape {shape}, but a matrix has two axes, samples and features. Reshape "
            "your data, or select one element of the other axes; a single feature is "
            "X.reshape(-1, 1)."
        )


def check_shape(shape: tuple[int, ...], what: str) -> None:
    """Refuse arrays that are empty or do not have two axes."""
    check_matrix(shape, what)
    if 0 in shape:
        raise InputError(f"{what} has shape {shape}, so it is empty. Pass a matrix with values.")


def check_finite(
    values: Array, block: Block, rows: Index | None, place: Place | None, missing_code: int | None
) -> None:
    """Refuse features-first `values` (c, m) that are infinite or not exact in float64.

    Integers other than `missing_code` are refused if float64 does not represent all of their
    digits. NaN means missing and is accepted.
    """
    if values.dtype.kind in "iu" and values.dtype.itemsize == WIDE:
        wide: Mask = beyond_float(values)
        if missing_code is not None:
            wide &= values != missing_code
        why = (
            ". Digits would be lost, because features are compared in float64, which represents "
            "every integer only up to 2**53. If the feature is a name rather than a number, remove "
            "it; otherwise subtract an offset."
        )
        refuse_any(wide, values, block, rows, place, why)
    if values.dtype.kind == "f":
        why = (
            ". Values must be finite; missing values are NaN. Correct the program that wrote the "
            "data, or replace infinite values by NaN."
        )
        refuse_any(np.isinf(values), values, block, rows, place, why)


def refuse_any(
    bad: Mask, values: Array, block: Block, rows: Index | None, place: Place | None, why: str
) -> None:
    """Raise DataError for the first True in the mask `bad` (c, m) of values (c, m, ...) of a block.

    `why` is the end of the message.
    """
    if not bad.any():
        return
    c, i = (int(k) for k in np.argwhere(bad)[0])
    feature, sample = block.start + c, i if rows is None else int(rows[i])
    where = "" if place is None else place(feature, sample)
    raise DataError(f"Feature {feature} of sample {sample} is {values[c, i]}{where}{why}")

"""Blocks of features of a matrix, the samples that are read of them, and checks of their values."""

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
    """Positions, ascending, as a slice where they follow each other: it copies nothing."""
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
        """Number of features c."""
        return self.stop - self.start


#: Blocks in a matrix, at most: each is a task of every pass, and a scheduler spends 1 ms on one.
MOST_BLOCKS = 10_000


def group_chunks(edges: Index, width: int) -> tuple[Block, ...]:
    """Group chunks with boundaries `edges` into blocks of at most `width` features.

    A chunk is never cut, and a matrix never has more than `MOST_BLOCKS` blocks, so a block is
    wider than `width` where chunks are, or where the matrix is very wide.

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
    """Blocks of `width` features, the last one ragged, of what has no chunks.

    >>> [(b.start, b.stop) for b in even_blocks(5, 2)]
    [(0, 2), (2, 4), (4, 5)]
    """
    edges = regular_edges(n_features, width).tolist()
    return tuple(Block(i, a, b) for i, (a, b) in enumerate(pairwise(edges)))


def regular_edges(size: int, chunk: int) -> Index:
    """Boundaries of chunks of one size, the last one ragged."""
    return np.append(np.arange(0, size, chunk, dtype=np.int64), size)


def row_span(rows: Index | None, n_samples: int) -> slice:
    """The shortest range of samples that holds `rows`: what has to be read for them."""
    if rows is None:
        return slice(0, n_samples)
    return slice(int(rows.min()), int(rows.max()) + 1) if len(rows) else slice(0, 0)


def take_rows(values: Array, rows: Index | None, span: slice) -> Array:
    """Keep `rows` of features-first `values` (c, m, ...), which hold the samples of `span`."""
    if rows is None or (rows.size == span.stop - span.start and (np.diff(rows) == 1).all()):
        return values  # all of them, in order
    selected: Array = np.take(values, rows - span.start, axis=1)
    return selected


#: Says where a value is stored: (feature, sample) -> ", in chunk 'c/0/0' of ...".
Place = Callable[[int, int], str]


def check_dtype(dtype: Any, what: str) -> None:
    """Refuse what is not a number on a line: complex, text, dates, objects."""
    if np.dtype(dtype).kind not in "biuf":
        refuse_dtype(dtype, what)


def check_matrix(shape: tuple[int, ...], what: str) -> None:
    """Refuse what has not two axes."""
    if len(shape) != 2:
        raise InputError(
            f"{what} has shape {shape}; a matrix has two axes, samples and features. Reshape your "
            "data, or select other axes away; a single feature is X.reshape(-1, 1)."
        )


def check_shape(shape: tuple[int, ...], what: str) -> None:
    """Refuse what is not a matrix, or is an empty one."""
    check_matrix(shape, what)
    if 0 in shape:
        raise InputError(f"{what} has shape {shape}, so it is empty. Pass a matrix with values.")


def check_finite(
    values: Array, block: Block, rows: Index | None, place: Place | None, missing_code: int | None
) -> None:
    """Refuse what float64 does not hold in features-first `values` (c, m).

    Infinities; integers of which it has not every digit, but for the one that means missing. NaN
    passes, it means missing.
    """
    if values.dtype.kind in "iu" and values.dtype.itemsize == WIDE:
        wide: Mask = beyond_float(values)
        if missing_code is not None:
            wide &= values != missing_code
        why = (
            "; float64, in which features are compared, holds every integer to 2**53 only, and the "
            "digits beyond would be lost. Leave out what is a name and no number, or subtract an "
            "offset."
        )
        refuse_any(wide, values, block, rows, place, why)
    if values.dtype.kind == "f":
        why = (
            "; values are finite, and missing ones NaN. Mend what wrote it, or replace infinities "
            "by NaN."
        )
        refuse_any(np.isinf(values), values, block, rows, place, why)


def refuse_any(
    bad: Mask, values: Array, block: Block, rows: Index | None, place: Place | None, why: str
) -> None:
    """Refuse a block (c, m, ...) any values (c, m) of which are bad; the first one is named."""
    if not bad.any():
        return
    c, i = (int(k) for k in np.argwhere(bad)[0])
    feature, sample = block.start + c, i if rows is None else int(rows[i])
    where = "" if place is None else place(feature, sample)
    raise DataError(f"Feature {feature} of sample {sample} is {values[c, i]}{where}{why}")

"""Blocks of whole chunks."""

from __future__ import annotations

import numpy as np

from dhsic._typing import Array, Index
from dhsic.sources.base import Block

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
    starts = range(0, n_features, width)
    return tuple(Block(i, a, min(a + width, n_features)) for i, a in enumerate(starts))


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
    return values if rows is None else np.take(values, rows - span.start, axis=1)

"""Checksums of features: they tell data that changed since they were read, value for value.

Every feature has one, of its stored values in the order of the samples that take part. So they
depend neither on chunks, compression and the cut into blocks nor on where, or by whom, the feature
is read, and name what changed.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

import numpy as np

from dhsic._typing import Array, Index
from dhsic.errors import DataError
from dhsic.sources.base import AbstractSource, AbstractView, Block

#: Bytes of a word, and of values that are taken at a time, so that they stay in the cache.
WORD, CACHE_BYTES = 8, 1 << 19
#: Runs of features that a message names, at most.
MOST_NAMED = 3


def checksums(raw: Array) -> Index:
    """Checksum of every feature of stored values (c, m), (c,) int64, at 5 to 10 GB/s.

    ``sum_i a_i (x_i xor (x_i >> 32)) mod 2^64`` over words x_i of 64 bits, with odd random a_i:
    any change of one word shows, and changes of several go unseen once in 2^32 times at most.
    Words that follow each other bit for bit cannot stand for one another, as they could in a sum.

    Examples
    --------
    >>> before, after = checksums(np.array([[0, 1, 2, 1], [1, 0, 2, 1]], dtype=np.int8))
    >>> bool(before == after)
    False
    """
    c, m = raw.shape
    n_bytes = m * raw.dtype.itemsize
    n_words = -(-n_bytes // WORD)
    height = max(1, CACHE_BYTES // max(1, n_bytes))
    out = np.empty(c, dtype=np.uint64)
    for a in range(0, c, height):
        part = np.ascontiguousarray(raw[a : a + height])
        values = part.view(np.uint8).reshape(len(part), n_bytes)
        if n_bytes % WORD:
            padded = np.zeros((len(part), n_words * WORD), dtype=np.uint8)
            padded[:, :n_bytes] = values
            values = padded
        words = values.view(np.uint64)
        mixed = words >> np.uint64(32)
        mixed ^= words
        np.einsum("ij,j->i", mixed, _weights(n_words), out=out[a : a + height])
    return out.view(np.int64)


@lru_cache(maxsize=4)
def _weights(n: int) -> Array:
    """Odd numbers below 2^64, the same everywhere: NumPy keeps the stream of this generator."""
    drawn = np.asarray(np.random.PCG64(0).random_raw(n), dtype=np.uint64)
    return drawn | np.uint64(1)


class ChecksummedSource(AbstractView):
    """A source that is read again: what is read is compared with what the first pass read.

    Parameters
    ----------
    base : AbstractSource
        Where features are read.
    checksums : (d,) int64
        Of all of them, over `rows`.
    rows : (m,) int64 or None
        Samples that took part, all by default.
    """

    def __init__(self, base: AbstractSource, checksums: Index, rows: Index | None) -> None:
        super().__init__(base)
        self.checksums, self.rows = checksums, rows

    @staticmethod
    def over(source: AbstractSource, checksums: Index, rows: Index | None) -> AbstractSource:
        """The source with its checksums; as it is if it has some, or is in memory."""
        if source.in_memory or isinstance(source, ChecksummedSource):
            return source
        return ChecksummedSource(source, checksums, rows)

    def read(self, block: Block, rows: Index | None = None) -> Array:
        """Read a block, (m, c)."""
        return self.read_columns(block, np.arange(block.width), rows).T

    def read_columns(self, block: Block, local: Index, rows: Index | None = None) -> Array:
        features = block.start + local
        if rows is None:
            values = self.base.read_columns(block, local)
            self._compare(values if self.rows is None else values[:, self.rows], features)
            return values
        values = self.base.read_columns(block, local, self.rows)
        self._compare(values, features)
        is_same = self.rows is not None and np.array_equal(rows, self.rows)
        return values if is_same else np.take(values, self._places(rows), axis=1)

    def _places(self, rows: Index) -> Index:
        """Where samples are among those that took part."""
        if self.rows is None:
            return rows
        order = np.argsort(self.rows)
        found: Index = order[np.searchsorted(self.rows, rows, sorter=order)]
        return found

    def _compare(self, values: Array, features: Index) -> None:
        changed = features[checksums(values) != self.checksums[features]]
        if changed.size:
            raise DataError(
                f"The values of {named(changed)} are not those that the first pass of this run "
                "read: the data were changed while it ran, or come out differently each time that "
                "they are computed. Put them back (or write them to Zarr), then go on from the "
                "checkpoint; or start again."
            )

    def with_pieces(self, blocks: tuple[Block, ...], arrays: tuple[Array, ...]) -> AbstractSource:
        base = self.base.with_pieces(blocks, arrays)
        return ChecksummedSource(base, self.checksums, self.rows)


def named(features: Index) -> str:
    """Features, ascending, in a few words.

    >>> named(np.array([3, 4, 5, 9]))
    '4 features (3 to 5, 9)'
    """
    edges = [0, *(np.flatnonzero(np.diff(features) > 1) + 1).tolist(), len(features)]
    runs = [
        str(features[a]) if b - a == 1 else f"{features[a]} to {features[b - 1]}"
        for a, b in pairwise(edges[: MOST_NAMED + 1])
    ]
    if len(edges) - 1 > len(runs):
        runs.append("...")
    plural = "" if len(features) == 1 else "s"
    return f"{len(features)} feature{plural} ({', '.join(runs)})"

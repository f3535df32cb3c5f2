"""A source: m samples x d features that can be read a block of features at a time.

Whatever the storage (NumPy, dask, xarray, Zarr, VCF Zarr), the rest of dhsic sees samples as
rows, features as columns, one code for what is missing, and blocks made of whole chunks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dhsic._typing import Array, Index


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
        """Number of features c in the block."""
        return self.stop - self.start


class AbstractSource(ABC):
    """A matrix of ``n_samples`` x ``n_features`` read in blocks of features.

    Attributes
    ----------
    n_samples, n_features : int
        Shape of the matrix, m and d.
    dtype : numpy.dtype
        What `read` returns: the stored dtype, never widened.
    missing_code : int or None
        The integer that stands for a missing value in what `read` returns; None where integers
        have no such code. In floating data NaN is missing, whatever this says.
    client_bytes : int
        Bytes that would travel from this process for a worker to read the source: 0 when the
        source opens itself again from a path or URL.
    in_memory : bool
        True when `read` costs no decoding.
    ploidy : int or None
        Alleles of a full call, where values count alleles other than the reference.
    """

    n_samples: int
    n_features: int
    dtype: Any
    missing_code: int | None = None
    client_bytes: int = 0
    in_memory: bool = False
    ploidy: int | None = None

    @abstractmethod
    def blocks(self, width: int) -> tuple[Block, ...]:
        """Cut the features into blocks of about `width`, whole chunks (or shards) each.

        The cut depends on the storage layout and `width` alone, never on the machine, so that
        every runtime sums in the same order.
        """

    @abstractmethod
    def read(self, block: Block, rows: Index | None = None) -> Array:
        """Read a block: (m, c), Fortran-ordered (a feature is contiguous), in the stored dtype.

        Parameters
        ----------
        block : Block
            Which features.
        rows : (m',) int array, optional
            Samples to keep, in this order; all by default.

        Raises
        ------
        DataError
            A chunk is missing, does not decode, or holds a value outside the domain. The
            message names the array and the chunk.
        """

    def read_columns(self, block: Block, local: Index, rows: Index | None = None) -> Array:
        """Read some features of a block: (c', m), features first, C-ordered.

        By default the block is read and they are taken from it.

        Parameters
        ----------
        local : (c',) int array
            Which, by their position in the block, ascending.
        """
        values: Array = self.read(block, rows).T[run_of(local)]
        return values

    def stored_width(self, block: Block) -> int:
        """Features that are read from storage for a block."""
        return block.width

    @abstractmethod
    def fingerprint(self) -> str:
        """Hex digest of shape, dtype, layout, names and a sample of the data."""

    def feature_names(self) -> Array | None:
        """Names of the features, an object array (d,), or None where the store has none."""
        return None

    def sample_names(self) -> Array | None:
        """Names of the samples, an object array (m,), or None."""
        return None

    def feature_coords(self) -> Mapping[str, Array]:
        """Coordinates of the features that travel to the result, each (d,)."""
        return {}

    def pieces(self, blocks: tuple[Block, ...]) -> tuple[Any, ...] | None:
        """Lazy blocks (dask arrays, (m, c) each) that a cluster should compute, or None.

        A source that is itself a graph on the cluster answers with its parts; the runtime
        hands them, computed, to `with_pieces` on the worker.
        """
        del blocks
        return None

    def with_pieces(self, blocks: tuple[Block, ...], arrays: tuple[Array, ...]) -> AbstractSource:
        """Return a source that reads `blocks` from arrays already at hand."""
        raise TypeError(f"{type(self).__name__} has no lazy pieces: {len(blocks)}, {len(arrays)}")

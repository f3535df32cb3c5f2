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
    chunk_bytes : int
        Bytes of a stored chunk once decoded, with what of it lies beyond the matrix; 0 without.
    in_memory : bool
        True when `read` costs no decoding.
    dosages : bool
        Whether the format says that values are copies of an allele; where it says nothing they
        are looked at, see `dhsic.sources.values`.
    keeps_codes : bool
        Whether no number but `missing_code` stands for a missing value, by the format or the
        caller; elsewhere values are looked at.
    n_features_filtered : int
        Features that the store has besides, and that are left out.
    ploidy : int or None
        Alleles of a full call, where values count alleles other than the reference.
    """

    n_samples: int
    n_features: int
    dtype: Any
    missing_code: int | None = None
    client_bytes: int = 0
    chunk_bytes: int = 0
    in_memory: bool = False
    dosages: bool = False
    keeps_codes: bool = False
    n_features_filtered: int = 0
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

    def of_features(self, values: Array) -> Array:
        """Of one value for each stored feature, those of the features here: all of them."""
        return values

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


class AbstractView(AbstractSource):
    """A source that reads another one, `base`; what a subclass does not change is as there."""

    def __init__(self, base: AbstractSource) -> None:
        self.base = base
        self.n_samples, self.n_features = base.n_samples, base.n_features
        self.dtype, self.missing_code = base.dtype, base.missing_code
        self.client_bytes, self.chunk_bytes = base.client_bytes, base.chunk_bytes
        self.in_memory, self.dosages = base.in_memory, base.dosages
        self.keeps_codes, self.ploidy = base.keeps_codes, base.ploidy
        self.n_features_filtered = base.n_features_filtered

    def blocks(self, width: int) -> tuple[Block, ...]:
        """Blocks of the base."""
        return self.base.blocks(width)

    def stored_width(self, block: Block) -> int:
        """Features that are read from storage for a block."""
        return self.base.stored_width(block)

    def fingerprint(self) -> str:
        """Hex digest of the base."""
        return self.base.fingerprint()

    def feature_names(self) -> Array | None:
        """Names of the features, or None."""
        return self.base.feature_names()

    def sample_names(self) -> Array | None:
        """Names of the samples, or None."""
        return self.base.sample_names()

    def feature_coords(self) -> Mapping[str, Array]:
        """Coordinates of the features."""
        return self.base.feature_coords()

    def of_features(self, values: Array) -> Array:
        """Of one value for each stored feature, those of the features here."""
        return self.base.of_features(values)

    def pieces(self, blocks: tuple[Block, ...]) -> tuple[Any, ...] | None:
        """Lazy blocks of the base."""
        return self.base.pieces(blocks)

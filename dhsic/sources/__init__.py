"""Sources: matrices of m samples x d features that are read in blocks of features.

Whatever the storage (NumPy, dask, xarray, Zarr, VCF Zarr), the rest of dhsic sees samples as rows,
features as columns, one code for missing values, and blocks of whole chunks. Values are booleans,
integers or floats without infinities. A fingerprint identifies a matrix without reading all of it.
"""

from __future__ import annotations

import hashlib
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from dhsic import notebook
from dhsic._typing import Array, Index
from dhsic.memory import human
from dhsic.sources.blocks import Block, even_blocks, group_chunks, regular_edges, run_of
from dhsic.sources.chunked import ChunkedArray
from dhsic.sources.columns import NAME, Column
from dhsic.sources.sexes import DosagesOnX, Sexes

#: Default name of the feature dimension of results.
FEATURES = "features"
#: Names of the coordinates with the chromosome and the position of each feature.
PLACES = ("variant_contig", "variant_position")
#: Levels of a source whose features are all numbers.
NO_LEVELS: Mapping[int, tuple[str, ...]] = {}
#: Number of features per block of a fingerprint if storage has no chunks.
GRAIN = 256
#: Maximum chunks that a fingerprint reads, and the maximum features and samples of each.
FINGERPRINT_CHUNKS, FINGERPRINT_FEATURES, FINGERPRINT_SAMPLES = 8, 4096, 4096


@dataclass(frozen=True, slots=True, eq=False)
class Names:
    """Names and coordinates of the features (d,) and samples (m,) of a matrix, if known.

    Each field is an array, or a function that reads the array on demand. `key` returns the arrays
    that a fingerprint uses instead of the names. `check` validates the stored names without keeping
    them, because names of many features would need much memory. `columns` are feature names (key
    ``feature``) and coordinates that can be read for a subset of features. `sample_coords` (m,) are
    labels and covariates that are stored with the matrix. If one of them is an ordered category,
    `levels` has the names of its levels, lowest first. `dim` is the name of the feature dimension,
    also in results.
    """

    features: Array | Callable[[], Array | None] | None = None
    samples: Array | Callable[[], Array | None] | None = None
    coords: Mapping[str, Array] | Callable[[], Mapping[str, Array]] = field(default_factory=dict)
    key: Callable[[], tuple[Array | None, ...]] | None = None
    check: Callable[[], object] | None = None
    columns: Mapping[str, Column] | Callable[[], Mapping[str, Column]] | None = None
    sample_coords: Mapping[str, Array] | Callable[[], Mapping[str, Array]] = field(
        default_factory=dict
    )
    levels: Mapping[str, Sequence[str]] = field(default_factory=dict)
    dim: str = FEATURES


class AbstractSource(ABC):
    """A matrix of ``n_samples`` x ``n_features`` read in blocks of features.

    Attributes
    ----------
    n_samples, n_features : int
        Shape of the matrix, m and d.
    dtype : numpy.dtype
        Dtype of the arrays that `read` returns: the stored dtype, never widened.
    missing_code : int or None
        Integer that means a missing value in the arrays that `read` returns; None if there is
        none. In floating-point data, NaN is always missing.
    client_bytes : int
        Bytes of the source that this process must send to each worker: 0 if workers open a path or
        URL themselves.
    chunk_bytes : int
        Bytes of a decoded chunk, including any part beyond the matrix; 0 without chunks. Without
        chunks, `read` accepts any range of features.
    in_memory : bool
        Whether the values are in memory, so that `read` decodes nothing.
    dosages : bool
        Whether the format declares that values count alleles; if not, the values are inspected,
        see `dhsic.sources.values`.
    keeps_codes : bool
        Whether the format or the caller declares that no number except `missing_code` means a
        missing value; if not, the values are inspected.
    n_features_filtered : int
        Number of stored features that the source excludes.
    left_out : tuple of (str, int)
        Reason (``pass_only`` or ``other_types``) and number of features that opening excluded, in
        addition to `not_features`.
    ploidy : int or None
        Number of alleles of a full call, if values count non-reference alleles.
    counted : str
        Description of the alleles that dosages count, if the format calls them something else.
    names : Names
        Names of features and samples, and feature coordinates that are copied to the result.
    chunked : ChunkedArray or None
        Array of a Zarr store that contains the matrix; None for other storage.
    not_features : tuple of str
        Columns of a table that the caller excluded from the features.
    row_numbers : bool
        Whether the sample names are only row numbers, written by the program that made the table.
    read_as : str
        Description of how a text table was parsed (separator, header, orientation).
    hint : str
        Advice to users before they select features, a sentence; "" for none.
    levels : mapping of int to tuple of str
        Names of the levels of categorical features, by position, see `dhsic.sources.categories`;
        empty if all features are numbers.
    on_x : DosagesOnX or None
        Features on chromosome X, if dosages are 0 or 2 for the single copy of males; None without
        such features, or if calls are stored per allele copy.
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
    left_out: tuple[tuple[str, int], ...] = ()
    ploidy: int | None = None
    counted: str = ""
    names: Names = Names()
    chunked: ChunkedArray | None = None
    not_features: tuple[str, ...] = ()
    row_numbers: bool = False
    read_as: str = ""
    hint: str = ""
    levels: Mapping[int, tuple[str, ...]] = NO_LEVELS
    on_x: DosagesOnX | None = None

    def sexes(self) -> Sexes | None:
        """Return the sexes of all samples; None if neither sexes nor dosages on X are stored."""
        return None if self.on_x is None else self.on_x.sexes_of(self)

    def sex_linked_features(self) -> Index:
        """Return ascending positions of features on chromosomes that may be haploid in one sex.

        No calls are read. If the result is empty, `haploid_features` returns no features either.
        """
        return np.empty(0, dtype=np.int64) if self.on_x is None else self.on_x.positions

    def haploid_features(self) -> Index:
        """Return ascending positions of features that are haploid in only some samples (X, Z).

        Their dosages count a haploid call twice; `allele_counts` counts it once.
        """
        none = np.empty(0, dtype=np.int64)
        return none if self.on_x is None else self.on_x.haploid_features(self)

    def imputed_features(self, block: Block, local: Index) -> Array | None:
        """Return a mask (c,): True for features with dosages that may be fractions (imputed).

        `local` (c,) are the positions of the features in the block. The result is None if no
        feature has such dosages.
        """
        del block
        is_imputed = self.dosages and np.dtype(self.dtype).kind == "f"
        return np.ones(local.size, dtype=bool) if is_imputed else None

    def allele_counts(
        self, block: Block, local: Index, rows: Index | None = None
    ) -> tuple[Array, Array]:
        """Return the numbers (c,) of alternative alleles and of all alleles in non-missing calls.

        `local` (c,) are the positions of features in the block; all must be in `haploid_features`.
        If `rows` are given, only these samples are counted.
        """
        if self.on_x is None:
            raise TypeError(f"{type(self).__name__} has no haploid calls")
        return self.on_x.allele_counts(self, block, local, rows)

    def diploid_genotypes(self, block: Block, local: Index, rows: Index | None = None) -> Array:
        """Return the numbers (c, 3) of diploid calls with 0, 1 and 2 alternative alleles.

        `local` (c,) are the positions of features in the block; all must be in `haploid_features`.
        If `rows` are given, only these samples are counted.
        """
        if self.on_x is None:
            raise TypeError(f"{type(self).__name__} has no haploid calls")
        return self.on_x.genotypes_of_females(self, block, local, rows)

    @abstractmethod
    def blocks(self, width: int) -> tuple[Block, ...]:
        """Partition the features into blocks of whole chunks (or shards), about `width` wide.

        The partition depends on the storage layout and `width` alone, never on the machine, so
        that every runtime sums in the same order.
        """

    @abstractmethod
    def read(self, block: Block, rows: Index | None = None) -> Array:
        """Read the values (m, c) of a block in the stored dtype, Fortran-ordered.

        If `rows` are given, only these samples are read, in this order.

        Raises
        ------
        DataError
            A chunk is missing, cannot be decoded, or contains an invalid value. The message names
            the array and the chunk.
        """

    def read_columns(self, block: Block, local: Index, rows: Index | None = None) -> Array:
        """Read the values (c', m) of some features of a block, C-ordered.

        `local` are the ascending positions of the features in the block. By default, the whole
        block is read and the features are selected from it.
        """
        values: Array = self.read(block, rows).T[run_of(local)]
        return values

    def scaling_of(self, features: Index) -> Any:
        """Return the stored scaling of some features; TypeError if the source stores none."""
        raise TypeError(f"The scaling of {features.size} features is not known.")

    def stored_width(self, block: Block) -> int:
        """Return the number of features that are read from storage for a block."""
        return block.width

    def stored_samples(self, rows: Index) -> int:
        """Return the number of samples that must be read from storage to get `rows`.

        By default, all samples must be read.
        """
        del rows
        return self.n_samples

    def unchecked(self) -> AbstractSource:
        """Return a source that does not verify checksums.

        To verify a checksum, the values of all samples must be read.
        """
        return self

    def of_features(self, values: Array) -> Array:
        """Select the values of this source's features from values of all stored features.

        A filtered source contains only some of the stored features.
        """
        return values

    @abstractmethod
    def fingerprint(self, n_chunks: int = FINGERPRINT_CHUNKS) -> str:
        """Return a hex digest of shape, dtype, layout, names and the values of some chunks.

        `n_chunks` is the maximum number of chunks that are read.
        """

    @final
    def feature_names(self) -> Array | None:
        """Return the names of the features, an object array (d,); None if the store has none."""
        value_or_reader = self.names.features
        return value_or_reader() if callable(value_or_reader) else value_or_reader

    @final
    def check_names(self) -> None:
        """Read all feature names once, so that unreadable names raise an error now."""
        if self.names.check is not None:
            self.names.check()
            return
        for _ in self.name_parts():
            pass

    @final
    def sample_names(self) -> Array | None:
        """Return the names of the samples, an object array (m,); None if there are none."""
        value_or_reader = self.names.samples
        return value_or_reader() if callable(value_or_reader) else value_or_reader

    @final
    def feature_coords(self) -> Mapping[str, Array]:
        """Return the coordinates (d,) of the features that are copied to the result, by name."""
        value_or_reader = self.names.coords
        return value_or_reader() if callable(value_or_reader) else value_or_reader

    @final
    def sample_coords(self) -> Mapping[str, Array]:
        """Return the labels and covariates (m,) that are stored with the matrix, by name."""
        value_or_reader = self.names.sample_coords
        return value_or_reader() if callable(value_or_reader) else value_or_reader

    @final
    def feature_columns(self) -> Mapping[str, Column] | None:
        """Return feature names (key ``feature``) and coordinates as columns that are read in parts.

        The result is None for data in memory.
        """
        value_or_reader = self.names.columns
        return value_or_reader() if callable(value_or_reader) else value_or_reader

    @final
    def feature_places(self) -> Mapping[str, Array]:
        """Return the chromosomes and positions (d,) of the features, if the data contain them."""
        columns = self.feature_columns()
        if columns is None:
            coords = self.feature_coords()
            return {name: np.asarray(coords[name]) for name in PLACES if name in coords}
        every = slice(0, self.n_features)
        return {name: columns[name].read(every) for name in PLACES if name in columns}

    @final
    def name_parts(self) -> Iterator[Array]:
        """Yield the names of the features in parts; nothing if the store has none."""
        columns = self.feature_columns()
        if columns is not None:
            yield from columns[NAME].parts() if NAME in columns else ()
            return
        names = self.feature_names()
        if names is not None:
            yield names

    @final
    def _facts(self) -> dict[str, str]:
        """Return properties that are known without reading values, as texts for `repr`."""
        chunk = f"chunks of {human(self.chunk_bytes)}" if self.chunk_bytes else ""
        code = "NaN" if np.dtype(self.dtype).kind == "f" else self.missing_code
        n_out = self.n_features_filtered
        return {
            "samples": f"{self.n_samples:,}",
            "features": f"{self.n_features:,}",
            "values": str(self.dtype),
            "missing": "" if code is None else str(code),
            "genotypes": "" if self.ploidy is None else f"of {self.ploidy} alleles",
            "excluded": f"{n_out:,} features" if n_out else "",
            "in": "memory" if self.in_memory else chunk,
        }

    @final
    def __repr__(self) -> str:
        facts = ", ".join(f"{name} {value}" for name, value in self._facts().items() if value)
        return f"<{type(self).__name__}: {facts}>"

    @final
    def _repr_html_(self) -> str:
        return notebook.page(notebook.facts(self._facts(), type(self).__name__))

    def pieces(self, blocks: tuple[Block, ...]) -> tuple[Any, ...] | None:
        """Return lazy blocks (dask arrays, (m, c) each) for a cluster to compute; None by default.

        A source that is itself a Dask graph returns its parts. The runtime computes the parts and
        passes the arrays to `with_pieces` on the worker.
        """
        del blocks
        return None

    def with_pieces(self, blocks: tuple[Block, ...], arrays: tuple[Array, ...]) -> AbstractSource:
        """Return a source that reads `blocks` from these computed arrays."""
        raise TypeError(f"{type(self).__name__} has no lazy pieces: {len(blocks)}, {len(arrays)}")


class AbstractStored(AbstractSource):
    """Source with blocks that end at chunk boundaries, or with equal blocks if it has no chunks."""

    @property
    def edges(self) -> Index | None:
        """Boundaries of chunks along the features; None without chunks."""
        return None

    @property
    @abstractmethod
    def layout(self) -> Any:
        """Description of the storage layout; its repr is part of the `fingerprint`."""

    @final
    def blocks(self, width: int) -> tuple[Block, ...]:
        edges = self.edges
        return even_blocks(self.n_features, width) if edges is None else group_chunks(edges, width)

    @final
    def fingerprint(self, n_chunks: int = FINGERPRINT_CHUNKS) -> str:
        edges = self.edges
        edges = regular_edges(self.n_features, GRAIN) if edges is None else edges
        return fingerprint(self, edges, self.layout, n_chunks)


def fingerprint(
    source: AbstractSource, edges: Index, layout: Any, n_chunks: int = FINGERPRINT_CHUNKS
) -> str:
    """Return a digest of shape, dtype, layout, names, and checksums of up to `n_chunks` chunks.

    `edges` are the boundaries of chunks along the features; the repr of `layout` describes all
    other properties of the storage.
    """
    shape = (source.n_samples, source.n_features)
    digest = hashlib.sha256(repr((shape, str(source.dtype), source.missing_code, layout)).encode())
    key = source.names.key
    known = key() if key else (source.sample_names(),)
    for parts in (*([] if key else [source.name_parts()]), *((part,) for part in known)):
        _digest(digest, parts)
    chosen = np.unique(np.linspace(0, len(edges) - 2, n_chunks).astype(np.int64))
    is_tall = source.n_samples > FINGERPRINT_SAMPLES
    rows = np.arange(FINGERPRINT_SAMPLES, dtype=np.int64) if is_tall else None
    for index in chosen:
        start, stop = int(edges[index]), int(edges[index + 1])
        block = Block(int(index), start, min(stop, start + FINGERPRINT_FEATURES))
        values: Any = source.read(block, rows).T  # C-ordered, so its bytes are in order
        digest.update(zlib.crc32(values).to_bytes(4, "big"))
    return digest.hexdigest()


def _digest(digest: Any, names: Iterable[Array | None]) -> None:
    """Add names, which come in parts, to a digest.

    The digest is the same for any division of the names into parts.
    """
    ahead = b""
    for part in names:
        if part is None:
            break
        is_text = part.dtype.kind not in "biuf"
        digest.update(ahead)
        digest.update("\0".join(map(str, part)).encode() if is_text else part.tobytes())
        ahead = b"\0"
    if not ahead:
        digest.update(b"-")

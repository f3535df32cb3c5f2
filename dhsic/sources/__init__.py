"""A source: m samples x d features that can be read a block of features at a time.

Whatever the storage (NumPy, dask, xarray, Zarr, VCF Zarr), the rest of dhsic sees samples as
rows, features as columns, one code for what is missing, and blocks made of whole chunks. It may
hold booleans, integers and floats, no infinity; a fingerprint tells one matrix from another
without reading the whole of it.
"""

from __future__ import annotations

import hashlib
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from dhsic import notebook
from dhsic._typing import Array, Index
from dhsic.memory import human
from dhsic.sources.blocks import Block, even_blocks, group_chunks, regular_edges, run_of
from dhsic.sources.chunked import ChunkedArray
from dhsic.sources.columns import NAME, Column

#: Dimension of results along the features, by default.
FEATURES = "features"
#: Features that a fingerprint takes together where storage has no chunks.
GRAIN = 256
#: Chunks that a fingerprint reads, and features and samples of each at most.
FINGERPRINT_CHUNKS, FINGERPRINT_FEATURES, FINGERPRINT_SAMPLES = 8, 4096, 4096


@dataclass(frozen=True, slots=True, eq=False)
class Names:
    """Names of features (d,) and samples (m,), and coordinates of either, where known.

    Each is an array, or a function that reads it when it is asked for. `key` gives what a
    fingerprint takes for the names, by default the names themselves. `check` reads what features
    are named by and keeps none of it, where names of many would stay in memory for a while.
    `columns` gives names (as ``feature``) and coordinates that can be read for some features alone.
    `sample_coords` (m,) are what a table has of its samples besides the matrix: labels, covariates.
    `dim` is what the features lie along, where results are to lie along it too.
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
    dim: str = FEATURES


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
    counted : str
        Which alleles those are, for people, where the format's own names for them differ.
    names : Names
        Names of features and samples, and coordinates of features that travel to the result.
    chunked : ChunkedArray or None
        The array of a Zarr store that is read, if it is one.
    not_features : tuple of str
        Columns of a table that are no features, as whoever opened it said.
    read_as : str
        How a table of text was understood (separator, header, orientation), for people.
    hint : str
        What users should know before features are selected from it, a sentence; "" for nothing.
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
    counted: str = ""
    names: Names = Names()
    chunked: ChunkedArray | None = None
    not_features: tuple[str, ...] = ()
    read_as: str = ""
    hint: str = ""

    def haploid_features(self) -> Index:
        """Features of chromosomes on which some samples have one copy and others more, ascending.

        Their dosages count a haploid call twice; `allele_counts` counts it once.
        """
        return np.empty(0, dtype=np.int64)

    def allele_counts(
        self, block: Block, local: Index, rows: Index | None = None
    ) -> tuple[Array, Array]:
        """Alternative alleles, and all alleles, of the calls that are there, (c,) each.

        Of columns `local` (c,) of a block, which are among `haploid_features`, and samples `rows`.
        """
        raise TypeError(f"{type(self).__name__} has no haploid calls")

    def diploid_genotypes(self, block: Block, local: Index, rows: Index | None = None) -> Array:
        """Calls of two copies with 0, 1 and 2 alternative alleles, (c, 3).

        Of columns `local` (c,) of a block, which are among `haploid_features`, and samples `rows`.
        """
        raise TypeError(f"{type(self).__name__} has no haploid calls")

    @abstractmethod
    def blocks(self, width: int) -> tuple[Block, ...]:
        """Cut the features into blocks of about `width`, whole chunks (or shards) each.

        The cut depends on the storage layout and `width` alone, never on the machine, so that
        every runtime sums in the same order.
        """

    @abstractmethod
    def read(self, block: Block, rows: Index | None = None) -> Array:
        """Read a block: (m, c), Fortran-ordered (a feature is contiguous), in the stored dtype.

        Only the samples `rows`, in this order; all by default.

        Raises
        ------
        DataError
            A chunk is missing, does not decode, or holds a value outside the domain. The
            message names the array and the chunk.
        """

    def read_columns(self, block: Block, local: Index, rows: Index | None = None) -> Array:
        """Read some features of a block, by their position in it, ascending: (c', m), C-ordered.

        By default the block is read and they are taken from it.
        """
        values: Array = self.read(block, rows).T[run_of(local)]
        return values

    def scaling_of(self, features: Index) -> Any:
        """How features are scaled, where that goes with the source."""
        raise TypeError(f"Nothing is known of how {features.size} features are scaled.")

    def stored_width(self, block: Block) -> int:
        """Features that are read from storage for a block."""
        return block.width

    def stored_samples(self, rows: Index) -> int:
        """Samples that are read from storage for some: all, where chunks span them."""
        del rows
        return self.n_samples

    def unchecked(self) -> AbstractSource:
        """Source to read some samples of at a time, which are not compared with what was read."""
        return self

    def of_features(self, values: Array) -> Array:
        """Of one value for each stored feature, those of the features here: all of them."""
        return values

    @abstractmethod
    def fingerprint(self) -> str:
        """Hex digest of shape, dtype, layout, names and a sample of the data."""

    @final
    def feature_names(self) -> Array | None:
        """Names of the features, an object array (d,), or None where the store has none."""
        given = self.names.features
        return given() if callable(given) else given

    @final
    def check_names(self) -> None:
        """Read the names of the features and keep none: what cannot be read is refused now."""
        if self.names.check is not None:
            self.names.check()
            return
        for _ in self.name_parts():
            pass

    @final
    def sample_names(self) -> Array | None:
        """Names of the samples, an object array (m,), or None."""
        given = self.names.samples
        return given() if callable(given) else given

    @final
    def feature_coords(self) -> Mapping[str, Array]:
        """Coordinates of the features that travel to the result, each (d,)."""
        given = self.names.coords
        return given() if callable(given) else given

    @final
    def sample_coords(self) -> Mapping[str, Array]:
        """What a table says of its samples besides the matrix, (m,) each."""
        given = self.names.sample_coords
        return given() if callable(given) else given

    @final
    def feature_columns(self) -> Mapping[str, Column] | None:
        """Names, as ``feature``, and coordinates by columns; None where they are known at once."""
        given = self.names.columns
        return given() if callable(given) else given

    @final
    def name_parts(self) -> Iterator[Array]:
        """Names of the features, some at a time; nothing where the store has none."""
        columns = self.feature_columns()
        if columns is not None:
            yield from columns[NAME].parts() if NAME in columns else ()
            return
        names = self.feature_names()
        if names is not None:
            yield names

    @final
    def _facts(self) -> dict[str, str]:
        """What is known without reading, for people."""
        chunk = f"chunks of {human(self.chunk_bytes)}" if self.chunk_bytes else ""
        code = "NaN" if np.dtype(self.dtype).kind == "f" else self.missing_code
        n_out = self.n_features_filtered
        return {
            "samples": f"{self.n_samples:,}",
            "features": f"{self.n_features:,}",
            "values": str(self.dtype),
            "missing": "" if code is None else str(code),
            "genotypes": "" if self.ploidy is None else f"of {self.ploidy} alleles",
            "left out": f"{n_out:,} features" if n_out else "",
            "in": "memory" if self.in_memory else chunk,
        }

    @final
    def __repr__(self) -> str:
        told = ", ".join(f"{name} {value}" for name, value in self._facts().items() if value)
        return f"<{type(self).__name__}: {told}>"

    @final
    def _repr_html_(self) -> str:
        return notebook.page(notebook.facts(self._facts(), type(self).__name__))

    def pieces(self, blocks: tuple[Block, ...]) -> tuple[Any, ...] | None:
        """Lazy blocks (dask arrays, (m, c) each) that a cluster should compute, or None.

        A source that is itself a graph on the cluster answers with its parts; the runtime
        hands them, computed, to `with_pieces` on the worker.
        """
        del blocks
        return None

    def with_pieces(self, blocks: tuple[Block, ...], arrays: tuple[Array, ...]) -> AbstractSource:
        """The source that reads `blocks` from arrays already at hand."""
        raise TypeError(f"{type(self).__name__} has no lazy pieces: {len(blocks)}, {len(arrays)}")


class AbstractStored(AbstractSource):
    """A source that is cut where its storage is: at `edges`, or evenly where that has no chunks."""

    @property
    def edges(self) -> Index | None:
        """Boundaries of chunks along the features, None without."""
        return None

    @property
    @abstractmethod
    def layout(self) -> Any:
        """What tells it from others of the same shape and values, for `fingerprint`."""

    @final
    def blocks(self, width: int) -> tuple[Block, ...]:
        edges = self.edges
        return even_blocks(self.n_features, width) if edges is None else group_chunks(edges, width)

    @final
    def fingerprint(self) -> str:
        edges = self.edges
        edges = regular_edges(self.n_features, GRAIN) if edges is None else edges
        return fingerprint(self, edges, self.layout)


def fingerprint(source: AbstractSource, edges: Index, layout: Any) -> str:
    """Digest shape, dtype, layout, names, and checksums of up to eight chunks.

    Chunks end at `edges` along the features; whatever else tells stores apart is in the repr of
    `layout`.
    """
    shape = (source.n_samples, source.n_features)
    digest = hashlib.sha256(repr((shape, str(source.dtype), source.missing_code, layout)).encode())
    key = source.names.key
    known = key() if key else (source.sample_names(),)
    for parts in (*([] if key else [source.name_parts()]), *((part,) for part in known)):
        _digest(digest, parts)
    chosen = np.unique(np.linspace(0, len(edges) - 2, FINGERPRINT_CHUNKS).astype(np.int64))
    is_tall = source.n_samples > FINGERPRINT_SAMPLES
    rows = np.arange(FINGERPRINT_SAMPLES, dtype=np.int64) if is_tall else None
    for index in chosen:
        start, stop = int(edges[index]), int(edges[index + 1])
        block = Block(int(index), start, min(stop, start + FINGERPRINT_FEATURES))
        values: Any = source.read(block, rows).T  # C-ordered, so its bytes are in order
        digest.update(zlib.crc32(values).to_bytes(4, "big"))
    return digest.hexdigest()


def _digest(digest: Any, names: Iterable[Array | None]) -> None:
    """Take in names that come in parts, as if at once."""
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

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
from itertools import pairwise
from typing import TYPE_CHECKING, Any, final

import numpy as np

from dhsic import notebook
from dhsic._typing import Array, Index, Mask
from dhsic.errors import DataError, InputError
from dhsic.memory import human
from dhsic.sources.columns import NAME, Column
from dhsic.validation import WIDE, beyond_float, refuse_dtype

if TYPE_CHECKING:
    from dhsic.sources.zarr import ChunkedArray

#: Dimension of results along the features, by default.
FEATURES = "features"
#: Features that a fingerprint takes together where storage has no chunks.
GRAIN = 256
#: Chunks that a fingerprint reads, and features and samples of each at most.
FINGERPRINT_CHUNKS, FINGERPRINT_FEATURES, FINGERPRINT_SAMPLES = 8, 4096, 4096


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
    taken: Array = np.take(values, rows - span.start, axis=1)
    return taken


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

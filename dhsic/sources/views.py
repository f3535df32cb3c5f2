"""Views of a source: subsets of features, and recoded, checked or permuted values.

Every feature has a checksum of its stored values, in the order of the used samples. The checksum
does not depend on chunks, compression, blocks, or the machine that reads the feature. A changed
checksum therefore shows that the values of a feature have changed since they were first read.
"""

from __future__ import annotations

import hashlib
import zlib
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from functools import lru_cache
from itertools import pairwise
from typing import Any, final

import numpy as np

from dhsic._typing import Array, Index
from dhsic.errors import DataError, InputError
from dhsic.sources import FINGERPRINT_CHUNKS, AbstractSource, Names
from dhsic.sources.blocks import Block
from dhsic.sources.columns import NAME, Column
from dhsic.sources.sexes import Sexes

#: Name of the coordinate with the positions of features in the store.
STORED = "stored_feature"
#: Bytes of a word; and bytes of values processed at a time, small enough for the cache, and large
#: because threads wait for each other between calls.
WORD, CACHE_BYTES = 8, 1 << 22
#: Maximum number of runs of features that a message lists.
MOST_NAMED = 3


class AbstractView(AbstractSource):
    """View of another source, `base`, which executes all methods that are not overridden."""

    def __init__(self, base: AbstractSource) -> None:
        self.base = base
        for name in AbstractSource.__annotations__:
            setattr(self, name, getattr(base, name))

    def base_block(self, block: Block) -> Block:
        """Return the block of `base` that contains a block of this view."""
        return block

    def blocks(self, width: int) -> tuple[Block, ...]:
        return self.base.blocks(width)

    @final
    def read(self, block: Block, rows: Index | None = None) -> Array:
        return self.read_columns(block, np.arange(block.width), rows).T

    @abstractmethod
    def read_columns(self, block: Block, local: Index, rows: Index | None = None) -> Array: ...

    @final
    def stored_width(self, block: Block) -> int:
        return self.base.stored_width(self.base_block(block))

    @final
    def stored_samples(self, rows: Index) -> int:
        return self.base.stored_samples(rows)

    def imputed_features(self, block: Block, local: Index) -> Array | None:
        return self.base.imputed_features(self.base_block(block), local)

    def unchecked(self) -> AbstractSource:
        base = self.base.unchecked()
        if base is self.base:
            return self
        view = copy(self)
        view.base = base
        return view

    @final
    def sexes(self) -> Sexes | None:
        return self.base.sexes()

    def sex_linked_features(self) -> Index:
        return self.base.sex_linked_features()

    def haploid_features(self) -> Index:
        return self.base.haploid_features()

    def allele_counts(
        self, block: Block, local: Index, rows: Index | None = None
    ) -> tuple[Array, Array]:
        return self.base.allele_counts(block, local, rows)

    def diploid_genotypes(self, block: Block, local: Index, rows: Index | None = None) -> Array:
        return self.base.diploid_genotypes(block, local, rows)

    def fingerprint(self, n_chunks: int = FINGERPRINT_CHUNKS) -> str:
        return self.base.fingerprint(n_chunks)

    def of_features(self, values: Array) -> Array:
        return self.base.of_features(values)

    @final
    def pieces(self, blocks: tuple[Block, ...]) -> tuple[Any, ...] | None:
        return self.base.pieces(tuple(map(self.base_block, blocks)))

    @final
    def with_pieces(self, blocks: tuple[Block, ...], arrays: tuple[Array, ...]) -> AbstractSource:
        view, base = copy(self), self.base.with_pieces(tuple(map(self.base_block, blocks)), arrays)
        view.base, view.in_memory, view.client_bytes = base, base.in_memory, base.client_bytes
        return view


class SubsetSource(AbstractView):
    """View of some features of another source, renumbered from 0.

    `features` are their ascending positions. A block contains the selected features of one block of
    the other source. The features between them are also read from storage, and dropped.
    """

    features: Index

    def __init__(self, base: AbstractSource, features: Index) -> None:
        features, d = np.asarray(features, dtype=np.int64), base.n_features
        if features.ndim != 1 or features.size == 0:
            raise InputError(
                f"features have shape {features.shape}; pass at least one position, in ascending "
                "order."
            )
        if features[0] < 0 or features[-1] >= d or (np.diff(features) <= 0).any():
            raise InputError(
                f"features must be positions from 0 to {d - 1} in ascending order without "
                f"repetition; these begin with {features[:5].tolist()} and end with "
                f"{features[-1]}."
            )
        if isinstance(base, SubsetSource):
            features = base.features[features]
        super().__init__(base.base if isinstance(base, SubsetSource) else base)
        self.left_out, self.not_features = base.left_out, base.not_features
        self.features, self.n_features = features, features.size
        self.n_features_filtered = self.base.n_features - features.size
        if levels := self.base.levels:
            places = enumerate(features.tolist())
            self.levels = {place: levels[j] for place, j in places if j in levels}
        base_names = self.base.names
        self.names = Names(
            self._names,
            base_names.samples,
            self._coords,
            check=self.base.check_names,
            columns=base_names.columns and self._columns,
            sample_coords=base_names.sample_coords,
            levels=base_names.levels,
            dim=base_names.dim,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _of, (self.base, packed(self.features))

    def base_block(self, block: Block) -> Block:
        first, last = self.features[block.start], self.features[block.stop - 1]
        return Block(block.index, int(first), int(last) + 1)

    def blocks(self, width: int) -> tuple[Block, ...]:
        stored = self.base.blocks(width)
        starts = np.searchsorted(self.features, [block.start for block in stored])
        stops = np.searchsorted(self.features, [block.stop for block in stored])
        nonempty = np.flatnonzero(stops > starts)
        return tuple(Block(i, int(starts[k]), int(stops[k])) for i, k in enumerate(nonempty))

    def read_columns(self, block: Block, local: Index, rows: Index | None = None) -> Array:
        around = self.base_block(block)
        local_positions = self.features[block.start + local] - around.start
        return self.base.read_columns(around, local_positions, rows)

    def imputed_features(self, block: Block, local: Index) -> Array | None:
        around = self.base_block(block)
        return self.base.imputed_features(around, self.features[block.start + local] - around.start)

    def sex_linked_features(self) -> Index:
        return np.flatnonzero(np.isin(self.features, self.base.sex_linked_features()))

    def haploid_features(self) -> Index:
        possible = self.sex_linked_features()
        if not possible.size:  # sexes are not inferred, so there are no warnings about them
            return possible
        return np.flatnonzero(np.isin(self.features, self.base.haploid_features()))

    def allele_counts(
        self, block: Block, local: Index, rows: Index | None = None
    ) -> tuple[Array, Array]:
        around = self.base_block(block)
        return self.base.allele_counts(
            around, self.features[block.start + local] - around.start, rows
        )

    def diploid_genotypes(self, block: Block, local: Index, rows: Index | None = None) -> Array:
        around = self.base_block(block)
        return self.base.diploid_genotypes(
            around, self.features[block.start + local] - around.start, rows
        )

    def _names(self) -> Array | None:
        names = self.base.feature_names()
        return None if names is None else names[self.features]

    def _coords(self) -> dict[str, Array]:
        coords = {STORED: np.arange(self.base.n_features), **self.base.feature_coords()}
        return {name: values[self.features] for name, values in coords.items()}

    def _columns(self) -> dict[str, Column]:
        columns = self.base.feature_columns() or {}
        stored = Column(self.n_features, np.dtype(np.int64), self.features.__getitem__)
        return {STORED: stored, **{name: of.of(self.features) for name, of in columns.items()}}

    def fingerprint(self, n_chunks: int = FINGERPRINT_CHUNKS) -> str:
        digest = hashlib.sha256(self.base.fingerprint(n_chunks).encode())
        digest.update(self.features.tobytes())
        return digest.hexdigest()

    def of_features(self, values: Array) -> Array:
        selected: Array = values[self.features]
        return selected


def whole_of(source: AbstractSource) -> AbstractSource:
    """Return the innermost source of nested views, which has all features of the store."""
    while isinstance(source, AbstractView):
        source = source.base
    return source


def described(source: AbstractSource) -> Mapping[str, Column]:
    """Return the coordinates of the features, and their names (``feature``), as columns."""
    columns = source.feature_columns()
    if columns is not None:
        return columns
    known, names = dict(source.feature_coords()), source.feature_names()
    if names is not None:
        known[NAME] = names
    return {
        name: Column(source.n_features, np.asarray(values).dtype, np.asarray(values).__getitem__)
        for name, values in known.items()
    }


def stored_positions(source: AbstractSource) -> Index:
    """Return the position of each feature of a source in the underlying store, (d,)."""
    return source.of_features(np.arange(source.n_features + source.n_features_filtered))


def _of(base: AbstractSource, features: Any) -> SubsetSource:
    return SubsetSource(base, unpacked(features))


class ScaledSource(AbstractView):
    """View of a source that also carries the `Scaling` of its features."""

    def __init__(self, base: AbstractSource, scaling: Any) -> None:
        super().__init__(base)
        self.scaling = scaling

    def read_columns(self, block: Block, local: Index, rows: Index | None = None) -> Array:
        return self.base.read_columns(block, local, rows)

    def scaling_of(self, features: Index) -> Any:
        return self.scaling.take(features)


class RecodedSource(AbstractView):
    """View in which values equal to one of `codes` are missing.

    In floats they become NaN. In integers they become the missing code of the view, which is
    `code`, or else the missing code of `base`, or else the first of `codes`.
    """

    def __init__(
        self, base: AbstractSource, codes: Sequence[float], code: int | None = None
    ) -> None:
        super().__init__(base)
        self._codes = tuple(codes)
        own = base.missing_code if code is None else code
        self.missing_code = int(self._codes[0]) if own is None else own

    def read_columns(self, block: Block, local: Index, rows: Index | None = None) -> Array:
        raw = self.base.read_columns(block, local, rows)
        fill = np.nan if self.dtype.kind == "f" else self.missing_code
        codes = np.asarray(self._codes, dtype=raw.dtype if raw.dtype.kind == "f" else None)
        return np.where(np.isin(raw, codes), np.asarray(fill, dtype=self.dtype), raw)

    def fingerprint(self, n_chunks: int = FINGERPRINT_CHUNKS) -> str:
        return f"{self.base.fingerprint(n_chunks)}-{','.join(map(str, self._codes))}-{self.dtype}"


def checksums(raw: Array) -> Index:
    """Return the checksums (c,) int64 of features with stored values (c, m), at 5 to 10 GB/s.

    The checksum is ``sum_i a_i (x_i xor (x_i >> 32)) mod 2^64`` over the 64-bit words x_i of a
    feature, with random odd numbers a_i. It detects any change of a single word. It misses changes
    of several words with a probability of at most 2^-32. Unlike a plain sum, it also detects
    permutations of words.

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
    """Return n random odd 64-bit numbers, the same on all machines and in all versions."""
    drawn = np.asarray(np.random.PCG64(0).random_raw(n), dtype=np.uint64)
    return drawn | np.uint64(1)


class ChecksummedSource(AbstractView):
    """View that compares the values of every read with the checksums of the first pass.

    `checksums` (d,) are the checksums of all features over the samples `rows` (None: all samples).
    """

    def __init__(self, base: AbstractSource, checksums: Index, rows: Index | None) -> None:
        super().__init__(base)
        self.checksums, self.rows = checksums, rows

    @staticmethod
    def over(source: AbstractSource, checksums: Index, rows: Index | None) -> AbstractSource:
        """Return a checked view; return sources in memory and checked views unchanged."""
        if source.in_memory or isinstance(source, ChecksummedSource):
            return source
        return ChecksummedSource(source, checksums, rows)

    def unchecked(self) -> AbstractSource:
        return self.base

    def read_columns(self, block: Block, local: Index, rows: Index | None = None) -> Array:
        features = block.start + local
        if rows is None:
            values = self.base.read_columns(block, local)
            self._compare(values if self.rows is None else values[:, self.rows], features)
            return values
        values = self.base.read_columns(block, local, self.rows)
        self._compare(values, features)
        if self.rows is None:
            return np.take(values, rows, axis=1)
        if np.array_equal(rows, self.rows):
            return values
        order = np.argsort(self.rows)
        return np.take(values, order[np.searchsorted(self.rows, rows, sorter=order)], axis=1)

    def _compare(self, values: Array, features: Index) -> None:
        changed = features[checksums(values) != self.checksums[features]]
        if changed.size:
            raise DataError(
                f"The values of {describe_features(changed)} differ from those in the first pass "
                "of this run. The data changed during the run, or they are computed "
                "differently each time. Restore the data (or write them to Zarr) and resume from "
                "the checkpoint, or start again."
            )


def describe_features(features: Index) -> str:
    """Describe features in a few words, by their number and their ascending positions.

    >>> describe_features(np.array([3, 4, 5, 9]))
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


class ShadowedSource(AbstractView):
    """The features of a source, followed by `n_copies` copies with permuted samples (shadows).

    A shadow has the values of its feature, but is independent of the labels. All features of a copy
    have the same random permutation (`seed`), so their shadows have the same dependences between
    each other.

    Only the samples `rows` are permuted, by default all samples. Features have no names. The blocks
    of the source are repeated for each copy.
    """

    def __init__(
        self, base: AbstractSource, n_copies: int, seed: int, rows: Index | None = None
    ) -> None:
        super().__init__(base)
        self._made_of = base, n_copies, seed, rows
        self.n_real, self.n_copies = base.n_features, n_copies
        self.n_features = (1 + n_copies) * self.n_real
        self.names, self.ploidy = Names(), None
        rng, samples = (
            np.random.default_rng(seed),
            np.arange(base.n_samples) if rows is None else rows,
        )
        self.places = np.tile(np.arange(base.n_samples), (1 + n_copies, 1))  # (1 + n_copies, m)
        for places in self.places[1:]:
            places[samples] = rng.permutation(samples)

    def __reduce__(self) -> tuple[Any, ...]:
        _, *arguments = self._made_of
        return ShadowedSource, (self.base, *arguments)

    def base_block(self, block: Block) -> Block:
        before = self._copy(block) * self.n_real
        return Block(block.index, block.start - before, block.stop - before)

    def blocks(self, width: int) -> tuple[Block, ...]:
        stored = self.base.blocks(width)
        result: list[Block] = []
        for before in range(0, self.n_features, self.n_real):
            for block in stored:
                result.append(Block(len(result), before + block.start, before + block.stop))
        return tuple(result)

    def read_columns(self, block: Block, local: Index, rows: Index | None = None) -> Array:
        around, copy = self.base_block(block), self._copy(block)
        if not copy:
            return self.base.read_columns(around, local, rows)
        places = self.places[copy] if rows is None else self.places[copy][rows]
        ascending = None if rows is None else np.sort(places)
        values = self.base.read_columns(around, local, ascending)
        order = places if ascending is None else np.searchsorted(ascending, places)
        permuted: Array = np.take(values, order, axis=1)
        return permuted

    def fingerprint(self, n_chunks: int = FINGERPRINT_CHUNKS) -> str:
        digest = hashlib.sha256(self.base.fingerprint(n_chunks).encode())
        digest.update(self.places.tobytes())
        return digest.hexdigest()

    def _copy(self, block: Block) -> int:
        """Return the number of the copy that a block belongs to; 0 for the original features."""
        return block.start // self.n_real


def packed(positions: Index) -> Any:
    """Compress ascending positions (n,) int64 for transfer; return other arrays unchanged.

    Contiguous positions become the start and stop of their range. Other positions become a
    compressed bit mask over their range, which is up to 64 times smaller than the positions.

    Examples
    --------
    >>> packed(np.arange(5, 9))
    (5, 9)
    >>> unpacked(packed(np.array([2, 3, 5]))), unpacked(packed(np.array([3, 2])))
    (array([2, 3, 5]), array([3, 2]))
    """
    n = positions.size
    if not n or positions.dtype != np.int64 or (n > 1 and np.diff(positions).min() < 1):
        return positions
    first, last = int(positions[0]), int(positions[-1])
    if last - first == n - 1:
        return first, last + 1
    if last - first >= 64 * n:
        return positions
    mask = np.zeros(last - first + 1, dtype=bool)
    mask[positions - first] = True
    return first, mask.size, zlib.compress(np.packbits(mask).tobytes(), 1)


def unpacked(what: Any) -> Index:
    """Restore the positions that `packed` compressed."""
    if isinstance(what, np.ndarray):
        return what
    if len(what) == 2:
        return np.arange(*what)
    first, size, bits = what
    mask = np.unpackbits(np.frombuffer(zlib.decompress(bits), dtype=np.uint8), count=size)
    numbers: Index = first + np.flatnonzero(mask)
    return numbers

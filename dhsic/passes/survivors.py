"""Surviving features: where and in which format they are stored.

Values that are among at most four consecutive integers are stored modulo 4 (`Form`), four to a
byte. Decoding needs the minimum of the values, which encoding returns. Packing takes 0.15 ns per
value and unpacking 0.2 ns, less than reading four times the bytes from shared memory.

The last bits of sums depend on how features are divided into jobs. Features that cannot be stored
separately (no shared folder, a full disk) are read from the original blocks, but in the jobs that
would read them from separate storage (`RecutSource`). All runs over the same data therefore sum in
the same order.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, final

import numpy as np

from dhsic._typing import Array, Index
from dhsic.accelerator import wanted_device
from dhsic.passes import AbstractPass, Tile
from dhsic.runtime.cores import usable_cores
from dhsic.sources import FINGERPRINT_CHUNKS, AbstractSource
from dhsic.sources.blocks import Block, even_blocks, row_span, run_of
from dhsic.sources.imputed import join_masks
from dhsic.sources.views import ChecksummedSource

#: Number of consecutive integers that two bits can encode; also the number of values per byte.
LEVELS = 4
#: Multiplier that moves the two low bits of each of the four bytes of a word into its highest byte.
GATHER = np.uint32(1 << 24 | 1 << 18 | 1 << 12 | 1 << 6)
LOW_BITS = np.uint32(0x03030303)
#: Number of values packed or unpacked at a time: they stay in the cache.
TILE_VALUES = 1 << 19

#: Maximum bytes of survivors that a cluster may transfer to the client process.
HOME_BYTES = 128 << 20
#: Number of samples from which on survivors are not transferred: sums over so many are kept in
#: slices (`dhsic.lowrank.slices`) on workers.
HOME_SAMPLES = 1 << 15
#: Flops of one local thread that take no longer than the response time of a cluster.
HOME_FLOPS = 2e9

#: Minimum and maximum of some values.
Span = tuple[int, int]


class Location(Enum):
    """Place where surviving features are stored."""

    MEMORY, HOME, SCRATCH, STORED = "memory", "memory of this process", "scratch", "the store"


def belong_home(m: int, n_features: int, n_bytes: int, n_workers: int) -> bool:
    """Whether features should move from the cluster to the client process.

    They should if this process scores them as fast as the cluster.
    """
    if m >= HOME_SAMPLES or wanted_device() is not None:  # the workers have the device
        return False
    n_here = usable_cores()
    quick = 2.0 * m**2 * n_features <= HOME_FLOPS * n_here
    return n_bytes <= HOME_BYTES and (quick or n_here >= n_workers)


@dataclass(frozen=True, slots=True)
class Form:
    """Storage format of the values of features, (c, m), which may be packed."""

    n_samples: int
    dtype: Any  # dtype of the values
    packed: bool = False  # two bits per value, (c, ceil(m / 4)) uint8; else the values themselves
    lowest: int = 0  # minimum of the values, if packed

    @property
    def kept_dtype(self) -> Any:
        """Dtype of the stored array."""
        return np.dtype(np.uint8) if self.packed else np.dtype(self.dtype)

    @property
    def length(self) -> int:
        """Length of the stored array per feature."""
        return -(-self.n_samples // LEVELS) if self.packed else self.n_samples

    @property
    def bytes_per_feature(self) -> int:
        """Stored bytes per feature."""
        return int(self.length * self.kept_dtype.itemsize)

    def encode(self, values: Array) -> tuple[Array, Span]:
        """Encode values (c, m); return the stored array, and the range of values if packed."""
        if not self.packed:
            return values, (0, 0)
        return pack(values), (int(values.min()), int(values.max()))

    def covering(self, spans: Iterable[Span]) -> Form | None:
        """Return the storage format for values in all ranges `spans`; None if too wide to pack."""
        total_span: Span | None = None
        for span in spans:
            total_span = span if total_span is None else enclosing_span([total_span, span])
            if self.packed and not fits(total_span):
                return None
        return self if total_span is None else replace(self, lowest=total_span[0])

    def decode_rows(self, kept: Array, rows: Index | None) -> Array:
        """Decode stored values at the sample indices `rows` (None: all): (c, m), C-ordered."""
        if rows is None:
            return self.decode(kept)
        span, each = row_span(rows, self.n_samples), LEVELS if self.packed else 1
        first, last = span.start // each, -(-span.stop // each)
        start = first * each
        part = replace(self, n_samples=min(last * each, self.n_samples) - start)
        values: Array = np.take(part.decode(kept[:, first:last]), rows - start, axis=1)
        return values

    def decode(self, kept: Array) -> Array:
        """Decode stored values of all samples: (c, m), C-ordered."""
        if not self.packed:
            return kept
        codes = np.arange(256)[:, None] >> np.arange(0, 8, 2)  # (256, 4); only used modulo 4
        table = self.lowest + (codes - self.lowest) % LEVELS
        words = table.astype(self.dtype).view(np.uint32).ravel()
        out = np.empty(kept.shape, dtype=np.uint32)
        for a, b in _tiles(len(kept), LEVELS * self.length):
            np.take(words, kept[a:b], out=out[a:b], mode="clip")  # faster than words[kept]
        return np.ascontiguousarray(out.view(self.dtype)[:, : self.n_samples])


def forms(n_samples: int, dtype: Any) -> tuple[Form, ...]:
    """Storage formats to try for values of this dtype, the smallest first."""
    plain = Form(n_samples, np.dtype(dtype))
    is_short = np.dtype(dtype) in (np.dtype(np.int8), np.dtype(np.uint8))
    return (replace(plain, packed=True), plain) if is_short else (plain,)


def enclosing_span(spans: Iterable[Span]) -> Span:
    """Smallest range that contains all given ranges."""
    low, high = zip(*spans, strict=True)
    return min(low), max(high)


def fits(span: Span) -> bool:
    """Whether two bits can encode all integers in a range."""
    return span[1] - span[0] < LEVELS


def pack(values: Array) -> Array:
    """Pack int8 or uint8 values (c, m) modulo 4 into (c, ceil(m / 4)) uint8, lowest bits first.

    >>> pack(np.array([[0, 1, 2, -1, 1]], dtype=np.int8))
    array([[228,   1]], dtype=uint8)
    """
    c, m = values.shape
    length = -(-m // LEVELS)
    out = np.empty((c, length), dtype=np.uint8)
    for a, b in _tiles(c, LEVELS * length):
        padded = np.zeros((b - a, LEVELS * length), dtype=np.uint8)
        padded[:, :m] = values[a:b].view(np.uint8)
        words = padded.view("<u4")
        words &= LOW_BITS
        words *= GATHER
        words >>= 24
        out[a:b] = words
    return out


def _tiles(c: int, length: int) -> Iterator[tuple[int, int]]:
    """Split c rows of `length` values into ranges of rows that fit into the CPU cache."""
    step = max(1, TILE_VALUES // max(1, length))
    for a in range(0, c, step):
        yield a, min(a + step, c)


@dataclass(frozen=True, slots=True)
class Gather(AbstractPass):
    """Pass that returns values as stored, (c, m)."""

    def over(self, blocks: Iterator[Tile], m: int) -> Array:
        parts = [block.raw for block in blocks]
        return np.concatenate(parts) if len(parts) > 1 else parts[0]


@dataclass(frozen=True, slots=True)
class Encode(AbstractPass):
    """Pass that returns encoded features, (c, length), and the range of their values."""

    form: Form

    def over(self, blocks: Iterator[Tile], m: int) -> tuple[Array, Span]:
        parts, spans = zip(*(self.form.encode(block.raw) for block in blocks), strict=True)
        return np.concatenate(parts), enclosing_span(spans)


@dataclass(frozen=True, slots=True)
class Extremes(AbstractPass):
    """Pass that returns the minimum and maximum of the stored values."""

    def over(self, blocks: Iterator[Tile], m: int) -> Span:
        return enclosing_span((int(b.raw.min()), int(b.raw.max())) for b in blocks if b.raw.size)


class AbstractSurvivors(AbstractSource):
    """Source that contains some features of another source, numbered from 0."""

    #: Mask (s,) of the features that are dosages and may be fractions; None if there are none.
    imputed: Array | None = None

    @final
    def imputed_features(self, block: Block, local: Index) -> Array | None:
        return _some(self.imputed, block.start + local)

    @abstractmethod
    def columns(self, at: Index, rows: Index | None = None) -> Array:
        """Read features at positions `at`, ascending, of the samples `rows`: (c, m), C-ordered."""

    @final
    def read(self, block: Block, rows: Index | None = None) -> Array:
        return self.read_columns(block, np.arange(block.width), rows).T

    @final
    def read_columns(self, block: Block, local: Index, rows: Index | None = None) -> Array:
        return self.columns(block.start + local, rows)

    @final
    def fingerprint(self, n_chunks: int = FINGERPRINT_CHUNKS) -> str:
        """Raise an error: only whole sources have fingerprints."""
        raise TypeError(
            "A part of a source has no fingerprint. Use the fingerprint of the whole source."
        )


def imputed_among(source: AbstractSource, features: Index) -> Array | None:
    """Mask (s,) of features that are imputed dosages and may be fractions.

    `features` (s,) are the features to look up. Returns None if the source has no imputed dosages.
    """
    blocks = source.blocks(max(1, source.n_features))
    masks = [source.imputed_features(b, np.arange(b.width)) for b in blocks]
    return _some(join_masks(masks, [b.width for b in blocks]), features)


def _some(imputed: Array | None, which: Index) -> Array | None:
    """Entries `which` of a mask; None if there is no mask."""
    return None if imputed is None else np.asarray(imputed[which])


class MemorySource(AbstractSurvivors):
    """Source of s features in memory, an array (s, length) in the format `form`."""

    in_memory = True

    def __init__(
        self, kept: Array, form: Form, missing_code: int | None, imputed: Array | None = None
    ) -> None:
        self.n_features, self.n_samples = len(kept), form.n_samples
        self.imputed = imputed
        self.dtype, self.missing_code = form.dtype, missing_code
        self.client_bytes = kept.nbytes
        self.form = form
        self._kept = kept

    def blocks(self, width: int) -> tuple[Block, ...]:
        return even_blocks(self.n_features, width)

    def columns(self, at: Index, rows: Index | None = None) -> Array:
        return self.form.decode_rows(self._kept[run_of(at)], rows)

    def marked(self, missing_code: int | None) -> MemorySource:
        """Return a source of the same features in the same memory, with another missing code."""
        return MemorySource(self._kept, self.form, missing_code, self.imputed)

    def only(self, at: Index) -> MemorySource:
        """Return a source of the features at positions `at`, ascending, in the same memory.

        Values move to the front, a few at a time, without extra memory. This source becomes empty.
        """
        stored = self._kept
        step = max(1, TILE_VALUES // max(1, self.form.length))
        for a in range(0, at.size, step):
            batch = at[a : a + step]
            stored[a : a + batch.size] = stored[batch]
        self._kept = stored[:0]
        if stored.flags.owndata:  # return unused memory
            stored.resize((at.size, self.form.length), refcheck=False)
        imputed = _some(self.imputed, at)
        return MemorySource(stored[: at.size], self.form, self.missing_code, imputed)

    def in_common(self) -> SharedSource:
        """Return a source of the same features in the same memory, for one of several runs."""
        every = np.arange(len(self._kept))
        return SharedSource(self._kept, self.form, self.missing_code, every, self.imputed)


class SharedSource(MemorySource):
    """Source of the features at positions `places` of an array that several runs share."""

    def __init__(
        self,
        kept: Array,
        form: Form,
        missing_code: int | None,
        places: Index,
        imputed: Array | None,
    ) -> None:
        super().__init__(kept, form, missing_code, imputed)
        self.n_features, self._places = places.size, places

    def columns(self, at: Index, rows: Index | None = None) -> Array:
        return self.form.decode_rows(self._kept[run_of(self._places[at])], rows)

    def in_common(self) -> SharedSource:
        return self

    def only(self, at: Index) -> SharedSource:
        """Return a source of the features at positions `at`, ascending; no values are moved."""
        places, imputed = self._places[at], _some(self.imputed, at)
        return SharedSource(self._kept, self.form, self.missing_code, places, imputed)


class RecutSource(AbstractSurvivors):
    """Source of some features of another source, divided into new blocks.

    `features` (s,) are ascending. Their values stay where the other source, `base`, stores them.
    Each new block has about `width` features. Neighbouring new blocks read from the same stored
    block, so each thread caches the last stored block.
    """

    def __init__(
        self, base: AbstractSource, features: Index, width: int, imputed: Array | None = None
    ) -> None:
        self.imputed = imputed
        self.base, self.features, self.width = base, features, width
        self.n_features, self.n_samples = features.size, base.n_samples
        self.dtype, self.missing_code = base.dtype, base.missing_code
        self.client_bytes, self.in_memory = base.client_bytes, base.in_memory
        self.chunk_bytes = base.chunk_bytes
        self._blocks = base.blocks(width)
        self._stops = np.array([block.stop for block in self._blocks])
        self._last = threading.local()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_last"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _last=threading.local())

    def take(self, which: Index) -> RecutSource:
        """Return a source of some of these features, by their numbers in this source."""
        imputed = _some(self.imputed, which)
        return RecutSource(self.base, self.features[which], self.width, imputed)

    def checked(self, checksum: Index, rows: Index | None) -> RecutSource:
        """Return a source of the same features that verifies checksums.

        See `ChecksummedSource`.
        """
        base = ChecksummedSource.over(self.base, checksum, rows)
        return RecutSource(base, self.features, self.width, self.imputed)

    def blocks(self, width: int) -> tuple[Block, ...]:
        return even_blocks(self.n_features, width)

    def stored_width(self, block: Block) -> int:
        return sum(b.width for b in self._lie_in(self.features[block.start : block.stop]))

    def stored_samples(self, rows: Index) -> int:
        return self.base.stored_samples(rows)

    def unchecked(self) -> AbstractSource:
        other = copy(self)
        other.base = self.base.unchecked()
        return other

    def columns(self, at: Index, rows: Index | None = None) -> Array:
        features = self.features[at]
        m = self.n_samples if rows is None else len(rows)
        out = np.empty((features.size, m), dtype=self.dtype)
        for stored in self._lie_in(features):
            a, b = np.searchsorted(features, [stored.start, stored.stop])
            out[a:b] = self._some_of(stored, features[a:b] - stored.start, rows)
        return out

    def _lie_in(self, wanted: Index) -> tuple[Block, ...]:
        numbers = np.unique(np.searchsorted(self._stops, wanted, side="right"))
        return tuple(self._blocks[i] for i in numbers)

    def _some_of(self, block: Block, local: Index, rows: Index | None) -> Array:
        if self.in_memory:
            return self.base.read_columns(block, local, rows)
        which = block, None if rows is None else rows.tobytes()
        if getattr(self._last, "which", None) != which:
            self._last.which, self._last.values = which, self.base.read(block, rows).T
        values: Array = self._last.values[run_of(local)]
        return values

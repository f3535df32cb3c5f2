"""Survivors: where they belong, and how they are kept, packed or not.

Values that take at most four consecutive integers are kept modulo 4 (`Form`), four to a byte, so
the least of them is needed to read them and not to write them: it is found on the way. Packing
costs 0.15 ns a value and unpacking 0.2, less than reading four times the bytes from memory that is
shared.

Sums depend on the cut in their last bits. So features that have no place of their own (no folder
that all workers see, a full disk) are read from stored blocks as before, but by the jobs that
would read them from their place (`RecutSource`): every run over the same data sums in the same
order.
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
from dhsic.sources import AbstractSource
from dhsic.sources.blocks import Block, even_blocks, row_span, run_of
from dhsic.sources.views import ChecksummedSource

#: Consecutive integers that two bits tell apart, and values in a byte.
LEVELS = 4
#: Moves the low bits of the four bytes of a word side by side, into its highest byte.
GATHER = np.uint32(1 << 24 | 1 << 18 | 1 << 12 | 1 << 6)
LOW_BITS = np.uint32(0x03030303)
#: Values that are packed or unpacked at a time: they stay in the cache.
TILE_VALUES = 1 << 19

#: Bytes of survivors, as they are kept, that a cluster may leave to the process that asks.
HOME_BYTES = 128 << 20
#: And samples at most: sums over more are slices (`dhsic.lowrank.slices`) that belong on workers.
HOME_SAMPLES = 1 << 15
#: Flops of an exact round for each thread here that take no longer than a cluster takes to answer.
HOME_FLOPS = 2e9

#: Least and greatest of some values.
Span = tuple[int, int]


class Location(Enum):
    """A place for survivors."""

    MEMORY, HOME, SCRATCH, STORED = "memory", "memory of this process", "scratch", "the store"


def belong_home(m: int, n_features: int, n_bytes: int, n_workers: int) -> bool:
    """Whether so few features are scored sooner here, or as soon, as by a cluster."""
    if m >= HOME_SAMPLES or wanted_device() is not None:  # the workers have it
        return False
    n_here = usable_cores()
    quick = 2.0 * m**2 * n_features <= HOME_FLOPS * n_here
    return n_bytes <= HOME_BYTES and (quick or n_here >= n_workers)


@dataclass(frozen=True, slots=True)
class Form:
    """How values (c, m) are kept."""

    n_samples: int
    dtype: Any  # of the values
    packed: bool = False  # two bits a value, (c, ceil(m / 4)) uint8; else as they are
    lowest: int = 0  # the least value, where they are packed

    @property
    def kept_dtype(self) -> Any:
        """Dtype of what is kept."""
        return np.dtype(np.uint8) if self.packed else np.dtype(self.dtype)

    @property
    def length(self) -> int:
        """Numbers that are kept of a feature."""
        return -(-self.n_samples // LEVELS) if self.packed else self.n_samples

    @property
    def bytes_per_feature(self) -> int:
        """Bytes that are kept of a feature."""
        return int(self.length * self.kept_dtype.itemsize)

    def encode(self, values: Array) -> tuple[Array, Span]:
        """Return what is kept of the values, and between which they lie (if they are packed)."""
        if not self.packed:
            return values, (0, 0)
        return pack(values), (int(values.min()), int(values.max()))

    def covering(self, spans: Iterable[Span]) -> Form | None:
        """Return the form for all values between `spans`; None once they are too many to pack."""
        found: Span | None = None
        for span in spans:
            found = span if found is None else around([found, span])
            if self.packed and not fits(found):
                return None
        return self if found is None else replace(self, lowest=found[0])

    def some(self, kept: Array, rows: Index | None) -> Array:
        """Values (c, m) of what was kept of them, of the samples `rows`: C-ordered."""
        if rows is None:
            return self.decode(kept)
        span, each = row_span(rows, self.n_samples), LEVELS if self.packed else 1
        first, last = span.start // each, -(-span.stop // each)
        start = first * each
        part = replace(self, n_samples=min(last * each, self.n_samples) - start)
        values: Array = np.take(part.decode(kept[:, first:last]), rows - start, axis=1)
        return values

    def decode(self, kept: Array) -> Array:
        """Values (c, m), C-ordered, of what was kept of them."""
        if not self.packed:
            return kept
        codes = np.arange(256)[:, None] >> np.arange(0, 8, 2)  # (256, 4), of interest modulo 4
        table = self.lowest + (codes - self.lowest) % LEVELS
        words = table.astype(self.dtype).view(np.uint32).ravel()
        out = np.empty(kept.shape, dtype=np.uint32)
        for a, b in _tiles(len(kept), LEVELS * self.length):
            np.take(words, kept[a:b], out=out[a:b], mode="clip")  # the fast way: not words[kept]
        return np.ascontiguousarray(out.view(self.dtype)[:, : self.n_samples])


def forms(n_samples: int, dtype: Any) -> tuple[Form, ...]:
    """Forms to try for values of this dtype, the smallest first."""
    plain = Form(n_samples, np.dtype(dtype))
    is_short = np.dtype(dtype) in (np.dtype(np.int8), np.dtype(np.uint8))
    return (replace(plain, packed=True), plain) if is_short else (plain,)


def around(spans: Iterable[Span]) -> Span:
    """The least span around some."""
    low, high = zip(*spans, strict=True)
    return min(low), max(high)


def fits(span: Span) -> bool:
    """Whether two bits tell the integers between these apart."""
    return span[1] - span[0] < LEVELS


def pack(values: Array) -> Array:
    """Keep int8 or uint8 values (c, m) modulo 4: (c, ceil(m / 4)) uint8, the first value lowest.

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
    """Starts and stops of so many rows of `length` values that they stay in the cache."""
    step = max(1, TILE_VALUES // max(1, length))
    for a in range(0, c, step):
        yield a, min(a + step, c)


@dataclass(frozen=True, slots=True)
class Gather(AbstractPass):
    """Stored values, (c, m)."""

    def over(self, blocks: Iterator[Tile], m: int) -> Array:
        parts = [block.raw for block in blocks]
        return np.concatenate(parts) if len(parts) > 1 else parts[0]


@dataclass(frozen=True, slots=True)
class Encode(AbstractPass):
    """What is kept of features, (c, length), and between which values they lie."""

    form: Form

    def over(self, blocks: Iterator[Tile], m: int) -> tuple[Array, Span]:
        parts, spans = zip(*(self.form.encode(block.raw) for block in blocks), strict=True)
        return np.concatenate(parts), around(spans)


@dataclass(frozen=True, slots=True)
class Extremes(AbstractPass):
    """Least and greatest of the stored values."""

    def over(self, blocks: Iterator[Tile], m: int) -> Span:
        return around((int(b.raw.min()), int(b.raw.max())) for b in blocks if b.raw.size)


class AbstractSurvivors(AbstractSource):
    """Some features of a source, numbered anew."""

    @abstractmethod
    def columns(self, at: Index, rows: Index | None = None) -> Array:
        """Features at these places, ascending, of the samples `rows`: (c, m), C-ordered."""

    @final
    def read(self, block: Block, rows: Index | None = None) -> Array:
        return self.read_columns(block, np.arange(block.width), rows).T

    @final
    def read_columns(self, block: Block, local: Index, rows: Index | None = None) -> Array:
        return self.columns(block.start + local, rows)

    @final
    def fingerprint(self) -> str:
        """Refuse: it is a part of a source, and that alone can be fingerprinted."""
        raise TypeError("A part of a source has no fingerprint; ask the source that it comes from.")


class HeldSource(AbstractSurvivors):
    """Features in memory, (s, length), each contiguous, as `form` says."""

    in_memory = True

    def __init__(self, kept: Array, form: Form, missing_code: int | None) -> None:
        self.n_features, self.n_samples = len(kept), form.n_samples
        self.dtype, self.missing_code = form.dtype, missing_code
        self.client_bytes = kept.nbytes
        self.form = form
        self._kept = kept

    def blocks(self, width: int) -> tuple[Block, ...]:
        return even_blocks(self.n_features, width)

    def columns(self, at: Index, rows: Index | None = None) -> Array:
        return self.form.some(self._kept[run_of(at)], rows)

    def marked(self, missing_code: int | None) -> HeldSource:
        """Source of the same memory in which another number stands for missing values."""
        return HeldSource(self._kept, self.form, missing_code)

    def only(self, at: Index) -> HeldSource:
        """Source of features at these places, ascending, where this one was: it is no more.

        They move to the front, a few at a time, so that no other memory is taken.
        """
        kept = self._kept
        step = max(1, TILE_VALUES // max(1, self.form.length))
        for a in range(0, at.size, step):
            some = at[a : a + step]
            kept[a : a + some.size] = kept[some]
        self._kept = kept[:0]
        if kept.flags.owndata:  # what is left over goes back
            kept.resize((at.size, self.form.length), refcheck=False)
        return HeldSource(kept[: at.size], self.form, self.missing_code)

    def in_common(self) -> SharedSource:
        """Source of the same features for one of several runs."""
        return SharedSource(self._kept, self.form, self.missing_code, np.arange(len(self._kept)))


class SharedSource(HeldSource):
    """Features at some `places` of those in memory, which stay there for other runs."""

    def __init__(self, kept: Array, form: Form, missing_code: int | None, places: Index) -> None:
        super().__init__(kept, form, missing_code)
        self.n_features, self._places = places.size, places

    def columns(self, at: Index, rows: Index | None = None) -> Array:
        return self.form.some(self._kept[run_of(self._places[at])], rows)

    def in_common(self) -> SharedSource:
        return self

    def only(self, at: Index) -> SharedSource:
        """Source of features at these places, ascending; no value moves."""
        return SharedSource(self._kept, self.form, self.missing_code, self._places[at])


class RecutSource(AbstractSurvivors):
    """Features where they are stored, in `base`.

    Neighbouring blocks share a stored one, of about `width` features, so the last that a thread has
    read stays with it. `features` (s,) are ascending.
    """

    def __init__(self, base: AbstractSource, features: Index, width: int) -> None:
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

    def some(self, which: Index) -> RecutSource:
        """Fewer of them, by their numbers here."""
        return RecutSource(self.base, self.features[which], self.width)

    def checked(self, checksum: Index, rows: Index | None) -> RecutSource:
        """Source of the same features, compared with the first pass as of `ChecksummedSource`."""
        base = ChecksummedSource.over(self.base, checksum, rows)
        return RecutSource(base, self.features, self.width)

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
        wanted = self.features[at]
        m = self.n_samples if rows is None else len(rows)
        out = np.empty((wanted.size, m), dtype=self.dtype)
        for stored in self._lie_in(wanted):
            a, b = np.searchsorted(wanted, [stored.start, stored.stop])
            out[a:b] = self._some_of(stored, wanted[a:b] - stored.start, rows)
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

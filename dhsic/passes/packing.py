"""How the values of a feature are kept: as they were stored, or genotypes in two bits each.

Values that take at most four consecutive integers are kept modulo 4, four to a byte, so the least
of them is needed to read them and not to write them: it is found on the way. Packing costs 0.15 ns
a value and unpacking 0.2, less than reading four times the bytes from memory that is shared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dhsic._typing import Array

#: Consecutive integers that two bits tell apart, and values in a byte.
LEVELS = 4
#: Moves the low bits of the four bytes of a word side by side, into its highest byte.
GATHER = np.uint32(1 << 24 | 1 << 18 | 1 << 12 | 1 << 6)
LOW_BITS = np.uint32(0x03030303)
#: Values that are packed or unpacked at a time: they stay in the cache.
TILE_VALUES = 1 << 19

#: Least and greatest of some values.
Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Form:
    """How values (c, m) are kept.

    Attributes
    ----------
    n_samples : int
        m.
    dtype : numpy.dtype
        Of the values.
    packed : bool
        Two bits a value, (c, ceil(m / 4)) uint8; else as they are.
    lowest : int
        The least value, where they are packed.
    """

    n_samples: int
    dtype: Any
    packed: bool = False
    lowest: int = 0

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

    Examples
    --------
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

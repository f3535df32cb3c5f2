"""Compact storage of text of many features; as Python strings, ten million ids take a gigabyte."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd

from dhsic._typing import Array, Index
from dhsic.sources.columns import Column


@dataclass(frozen=True, eq=False)
class CompactText:
    """Texts (n,), such as ids, stored as concatenated bytes and the end of each text."""

    data: bytes
    ends: Index  # (n + 1,), from 0

    @classmethod
    def of(cls, texts: Array) -> CompactText:
        """Encode texts (n,)."""
        encoded = [text.encode() for text in texts]
        return cls(b"".join(encoded), np.cumsum([0, *map(len, encoded)]))

    @classmethod
    def joined(cls, parts: Sequence[CompactText]) -> CompactText:
        """Concatenate parts in their order."""
        starts = np.cumsum([0, *(len(part.data) for part in parts)]).tolist()
        each = [part.ends[1:] + start for part, start in zip(parts, starts, strict=False)]
        return cls(b"".join(part.data for part in parts), np.concatenate([[0], *each]))

    def column(self) -> Column:
        """Return the texts as a column."""
        return Column(self.ends.size - 1, np.dtype(object), self.read)

    def read(self, rows: slice) -> Array:
        """Return the texts in a slice without a step, (c,)."""
        start, stop, _ = rows.indices(self.ends.size - 1)
        ends = self.ends[start : stop + 1].tolist()
        return np.array([self.data[a:b].decode() for a, b in pairwise(ends)], dtype=object)


@dataclass(frozen=True, eq=False)
class RepeatedText:
    """Texts (n,) with few distinct values, such as chromosomes: `codes` (n,) index `texts`."""

    codes: Index
    texts: Array

    @classmethod
    def of(cls, texts: Array) -> RepeatedText:
        """Encode texts (n,)."""
        codes, distinct = pd.factorize(texts)
        return cls(codes.astype(np.min_scalar_type(len(distinct))), distinct)

    @classmethod
    def joined(cls, parts: Sequence[RepeatedText]) -> RepeatedText:
        """Concatenate parts in their order."""
        new, texts = pd.factorize(np.concatenate([part.texts for part in parts]))
        own = np.split(new, np.cumsum([len(part.texts) for part in parts])[:-1])
        dtype = np.min_scalar_type(len(texts))
        each = [of[part.codes].astype(dtype) for part, of in zip(parts, own, strict=True)]
        return cls(np.concatenate(each), texts)

    def column(self) -> Column:
        """Return the texts as a column."""
        return Column(self.codes.size, np.dtype(object), self.read)

    def read(self, rows: slice) -> Array:
        """Return the texts in a slice, (c,)."""
        texts: Array = self.texts[self.codes[rows]]
        return texts

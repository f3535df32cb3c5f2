"""A fingerprint: what tells one matrix from another without reading the whole of it."""

from __future__ import annotations

import hashlib
import zlib
from typing import Any

import numpy as np

from dhsic._typing import Array, Index
from dhsic.sources.base import AbstractSource, Block

CHUNKS = 8  # chunks that are read
FEATURES = 4096  # of a chunk, at most
SAMPLES = 4096  # of a chunk, at most


def fingerprint(source: AbstractSource, edges: Index, layout: Any, *names: Array | None) -> str:
    """Digest shape, dtype, layout, names, and checksums of up to eight chunks.

    Parameters
    ----------
    edges : (chunks + 1,) int array
        Boundaries of chunks along the features.
    layout : object
        Whatever else tells stores apart; its ``repr`` counts.
    *names : array or None
        Names, or numbers that name (positions).
    """
    shape = (source.n_samples, source.n_features)
    digest = hashlib.sha256(repr((shape, str(source.dtype), source.missing_code, layout)).encode())
    for part in names:
        digest.update(b"-" if part is None else _name_bytes(part))
    chosen = np.unique(np.linspace(0, len(edges) - 2, CHUNKS).astype(np.int64))
    rows = None if source.n_samples <= SAMPLES else np.arange(SAMPLES, dtype=np.int64)
    for index in chosen:
        start, stop = int(edges[index]), int(edges[index + 1])
        block = Block(int(index), start, min(stop, start + FEATURES))
        values: Any = source.read(block, rows).T  # C-ordered, so its bytes are in order
        digest.update(zlib.crc32(values).to_bytes(4, "big"))
    return digest.hexdigest()


def _name_bytes(names: Array) -> bytes:
    if names.dtype.kind in "biuf":
        return names.tobytes()
    return "\0".join(map(str, names)).encode()

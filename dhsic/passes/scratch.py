"""Scratch: temporary files of surviving features that do not fit in memory.

The tasks that read these features also write them to scratch, packed if possible. A chunk contains
a quarter of the features that a task reads at once, and a checksum. In one process scratch is an
unnamed file, which the operating system removes when the process ends. On a cluster every chunk is
a file in the folder that the runtime shares with its workers, and is removed with that folder.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import socket
import tempfile
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import google_crc32c
import numpy as np
from numcodecs import Blosc

from dhsic._typing import Array, Index
from dhsic.errors import ScratchError
from dhsic.passes import AbstractPass, Tile
from dhsic.passes.survivors import AbstractSurvivors, Form, Span, enclosing_span, fits
from dhsic.sources.blocks import Block, group_chunks, regular_edges, run_of

#: Chunks per block that a task reads; two tasks read the chunks at the ends, each a part.
CHUNKS_PER_BLOCK = 4
#: Minimum number of bytes per chunk.
CHUNK_BYTES = 512 << 10
#: Bytes of the checksum at the end of a chunk.
CHECKSUM = 4
#: Compression of unpacked values: for dosages 5% larger than level 5, and 5 times faster.
CODEC = Blosc("zstd", 1, Blosc.AUTOSHUFFLE)


class UnwritableError(Exception):
    """Error: scratch cannot be written, for example because the disk is full."""


class AbstractScratch(ABC):
    """Storage of surviving features in temporary files, in numbered chunks."""

    @abstractmethod
    def write(self, number: int, data: bytes) -> None:
        """Write a chunk; raises OSError."""

    @abstractmethod
    def read(self, number: int) -> bytes:
        """Read a chunk; raises OSError."""

    @abstractmethod
    def close(self) -> None:
        """Remove all chunks."""

    @final
    def put(self, number: int, kept: Array, form: Form) -> None:
        """Write the encoded values of the features of a chunk, (c, length)."""
        # Compression would make packed values 1.6 times smaller, but reading 3 times slower.
        data = kept.tobytes() if form.packed else CODEC.encode(np.ascontiguousarray(kept))
        try:
            self.write(number, data + _checksum(data))
        except OSError as error:
            raise UnwritableError(f"{error}, on {socket.gethostname()}") from error

    @final
    def get(self, number: int, form: Form) -> Array:
        """Read the encoded values of the features of a chunk, (c, length)."""
        try:
            stored = self.read(number)
        except OSError as error:
            raise _lost(str(error)) from error
        data = stored[:-CHECKSUM]
        if _checksum(data) != stored[-CHECKSUM:]:
            raise _lost(f"chunk {number} was changed after it was written")
        plain = data if form.packed else CODEC.decode(data)
        return np.frombuffer(plain, dtype=form.kept_dtype).reshape(-1, form.length)


def _checksum(data: bytes) -> bytes:
    return int(google_crc32c.value(data)).to_bytes(CHECKSUM, "big")


def _lost(why: str) -> ScratchError:
    return ScratchError(
        "Scratch, the temporary files of the run, is missing or damaged on "
        f"{socket.gethostname()} ({why}). It was deleted or changed, or not all workers of the "
        "cluster share the folder. Your data are not affected. Run again, with TMPDIR (on a "
        "cluster scratch= of its runtime) set to a folder that nothing cleans up and all workers "
        "share; with a checkpoint, the run continues from its last round."
    )


class LocalScratch(AbstractScratch):
    """Scratch of a single process: an unnamed file in the folder `place`.

    Chunks are stored one after the other.
    """

    def __init__(self, place: Path) -> None:
        # Unbuffered: a buffer would be written again when the file is closed on a full disk.
        self._file = tempfile.TemporaryFile(dir=place, buffering=0)  # noqa: SIM115  # it stays
        self._lock = threading.Lock()
        self._spans: dict[int, tuple[int, int]] = {}

    def write(self, number: int, data: bytes) -> None:
        with self._lock:
            at = self._file.seek(0, os.SEEK_END)
            if self._file.write(data) < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self._spans[number] = at, len(data)

    def read(self, number: int) -> bytes:
        at, length = self._spans[number]
        if hasattr(os, "pread"):
            return os.pread(self._file.fileno(), length, at)
        with self._lock:
            self._file.seek(at)
            return self._file.read(length)

    def close(self) -> None:
        self._file.close()


class SharedScratch(AbstractScratch):
    """Scratch for a cluster: a file per chunk, in a new folder that all workers can read.

    The folder, in `place`, is removed when no object in the creating process refers to it. A step
    that computed values on workers refers to it as long as the step may have to be repeated.
    """

    def __init__(self, place: Path) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="survivors-", dir=place))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)

    def write(self, number: int, data: bytes) -> None:
        aside = self.path / f"{number}.{secrets.token_hex(4)}"
        aside.write_bytes(data)
        aside.replace(self.path / f"{number}")

    def read(self, number: int) -> bytes:
        return (self.path / f"{number}").read_bytes()

    def close(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


def scratch_in(place: Path, *, shared: bool) -> AbstractScratch:
    """Create scratch in the folder `place`: for all workers if `shared`, else for this process."""
    try:
        return SharedScratch(place) if shared else LocalScratch(place)
    except OSError as error:
        raise UnwritableError(str(error)) from error


class ScratchSource(AbstractSurvivors):
    """Source that reads surviving features from scratch, with `chunk` features per chunk.

    Every process that reads the features caches up to `memory` bytes of chunks.
    """

    def __init__(
        self,
        scratch: AbstractScratch,
        n_features: int,
        chunk: int,
        form: Form,
        missing_code: int | None,
        memory: int = 0,
        imputed: Array | None = None,
    ) -> None:
        self.imputed = imputed
        self.n_features, self.n_samples = n_features, form.n_samples
        self.dtype, self.missing_code = form.dtype, missing_code
        self.form = form
        self._scratch, self._chunk_width = scratch, chunk
        self._most_kept = memory // (chunk * form.bytes_per_feature)
        self._kept: dict[int, Array] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept": {}}

    def blocks(self, width: int) -> tuple[Block, ...]:
        return group_chunks(regular_edges(self.n_features, self._chunk_width), width)

    def columns(self, at: Index, rows: Index | None = None) -> Array:
        m = self.n_samples if rows is None else len(rows)
        out = np.empty((at.size, m), dtype=self.dtype)
        numbers = at // self._chunk_width
        for number in np.unique(numbers).tolist():
            a, b = np.searchsorted(numbers, [number, number + 1])
            positions = at[a:b] - number * self._chunk_width
            out[a:b] = self.form.decode_rows(self._chunk(number)[run_of(positions)], rows)
        return out

    def _chunk(self, number: int) -> Array:
        """Return the encoded values of a chunk; the first chunks read stay in the cache.

        Later chunks do not replace chunks in the cache. If they did, repeated passes over more
        chunks than fit in the cache would never find a chunk there.
        """
        chunk = self._kept.get(number)
        if chunk is None:
            chunk = self._scratch.get(number, self.form)
            if len(self._kept) < self._most_kept:
                self._kept[number] = chunk
        return chunk


@dataclass(frozen=True, slots=True)
class Write(AbstractPass):
    """Pass that writes features to scratch in whole chunks, and returns the range of values.

    Tags are the positions of features in scratch.
    """

    scratch: AbstractScratch
    chunk: int
    form: Form

    def over(self, blocks: Iterator[Tile], m: int) -> Span:
        at = -1
        spans: list[Span] = []
        pending = np.empty((0, self.form.length), dtype=self.form.kept_dtype)
        for block in blocks:
            encoded, span = self.form.encode(block.raw)
            at = int(block.tags[0]) if at < 0 else at
            spans.append(span)
            if not fits(enclosing_span(spans)):
                return enclosing_span(spans)  # not packable: stop writing
            pending = np.concatenate([pending, encoded]) if len(pending) else encoded
            while len(pending) >= self.chunk:
                self.scratch.put(at // self.chunk, pending[: self.chunk], self.form)
                at, pending = at + self.chunk, pending[self.chunk :]
        if len(pending):
            self.scratch.put(at // self.chunk, pending, self.form)
        return enclosing_span(spans)


def chunk_width(block_width: int, form: Form) -> int:
    """Features per chunk, if tasks read blocks of `block_width` features."""
    return max(1, block_width // CHUNKS_PER_BLOCK, CHUNK_BYTES // form.bytes_per_feature)

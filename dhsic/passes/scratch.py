"""Survivors that do not fit in memory: rewritten by the tasks, to a Zarr array that is short-lived.

The array holds nothing but the survivors, packed where they can be, in chunks of a quarter of what
a task reads, in a folder of its own.

The folder of scratch: it goes when the run ends, however it ends.

What a process that was killed outright leaves behind is removed by the next one that needs the
place.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import signal
import socket
import stat
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.codecs import Crc32cCodec

from dhsic._typing import Array, Index
from dhsic.errors import DataError, ScratchError
from dhsic.passes.packing import Form, Span, around, fits
from dhsic.passes.task import AbstractPass, Columns, Tile, run
from dhsic.runtime.base import AbstractRuntime, Job
from dhsic.sources.base import AbstractSource, Block, run_of
from dhsic.sources.chunked import ChunkedArray
from dhsic.sources.writing import create_array
from dhsic.storage.lock import flock

#: Names of folders and their locks, and of nothing that a user would call a folder of theirs.
OURS = re.compile(r"(dhsic-scratch-\d+-[0-9a-f]{8})(\.lock)?")
#: Bytes of a name of a machine that a lock file holds.
HOST_BYTES = 255
#: A lock is opened where it lies, and at once.
NO_DETOURS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)

#: Folders of this process, and what removes each.
_LIVE: dict[Path, Callable[[], object]] = {}


class ScratchFolder:
    """A folder that is removed with this object, at exit, on SIGTERM, or by the next one here.

    A lock file lies beside it from before it is made until after it is gone. The kernel frees the
    lock of a dead process; only locks of this machine are tried, for not all file systems know of
    those of others.
    """

    def __init__(self, place: Path) -> None:
        sweep(place)
        name = f"dhsic-scratch-{os.getpid()}-{secrets.token_hex(4)}"
        self.path = place / name
        lock, handle = _locked(place, name)
        self.remove = weakref.finalize(self, _remove, self.path, lock, handle, os.getpid())
        _LIVE[self.path] = self.remove
        _watch()
        self.path.mkdir(mode=0o700)


def sweep(place: Path) -> None:
    """Remove folders in `place` whose process is dead; what only looks like one stays."""
    names = set(os.listdir(place))  # noqa: PTH208  # one look: a lock is there before its folder
    for stem in {match[1] for name in names if (match := OURS.fullmatch(name))}:
        with contextlib.suppress(OSError):  # it is alive, or just gone, or not ours
            if f"{stem}.lock" in names:
                _remove_dead(place / stem, place / f"{stem}.lock")
            else:  # what a task wrote when its run had ended
                _remove_tree(place / stem)


def _remove_dead(path: Path, lock: Path) -> None:
    if not stat.S_ISREG(lock.lstat().st_mode):  # opening a pipe waits for who writes to it
        return
    handle = os.open(lock, os.O_RDWR | NO_DETOURS)
    try:
        if os.read(handle, HOST_BYTES) == _host():
            flock(handle)
            _remove_tree(path)
            lock.unlink()
    finally:
        os.close(handle)


def _remove_tree(path: Path) -> None:
    """Remove a folder and nothing else of that name: a pipe would be waited for."""
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISDIR(path.lstat().st_mode):
            shutil.rmtree(path, ignore_errors=True)


def _host() -> bytes:
    return socket.gethostname().encode()[:HOST_BYTES]


def _locked(place: Path, name: str) -> tuple[Path, int | None]:
    """Make a lock file that nobody ever sees without its lock; its handle, which holds that."""
    aside, lock = place / f".{name}.lock", place / f"{name}.lock"
    handle: int | None = os.open(aside, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    assert handle is not None
    os.write(handle, _host())
    try:
        flock(handle)
    except OSError:  # no locks here: it is never swept
        os.close(handle)
        handle = None
    aside.rename(lock)
    return lock, handle


def _remove(path: Path, lock: Path, handle: int | None, owner: int) -> None:
    if os.getpid() != owner:  # a fork
        return
    for _ in range(3):  # a task that is still writing may add to what is being removed
        if path.exists():
            shutil.rmtree(path, ignore_errors=True)
    with contextlib.suppress(OSError):  # the place may have gone
        lock.unlink(missing_ok=True)
    if handle is not None:
        os.close(handle)
    _LIVE.pop(path, None)
    if not _LIVE and _in_main_thread() and signal.getsignal(signal.SIGTERM) is _end:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _watch() -> None:
    """Listen for SIGTERM, which ends a process without a word to Python, if nobody else does."""
    if _in_main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _end)


def _end(number: int, _frame: Any) -> None:
    """Remove what there is, then end as if nobody had listened."""
    for remove in list(_LIVE.values()):
        remove()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


NAME, DIMS = "survivors", ("features", "samples")
#: Chunks of the array in what a task reads, and that are decoded at a time: the ones at both ends
#: are read in part, and by two tasks.
CHUNKS_PER_BLOCK = 4
#: Bytes of a chunk, at least: below, zarr takes longer to find it (0.5 ms) than to read it.
CHUNK_BYTES = 512 << 10
#: Tasks that write, at most, and stored blocks that each reads at least: two tasks read the one
#: between.
MOST_WRITERS, BLOCKS_PER_WRITER = 1024, 4


class UnwritableError(Exception):
    """The folder takes no more: the disk is full, or it cannot be written at all."""


class ScratchSource(AbstractSource):
    """Survivors in a scratch array, (s, length); workers open it by its path.

    Up to `memory` bytes of it are kept in every process that reads them.
    """

    def __init__(self, path: Path, form: Form, missing_code: int | None, memory: int = 0) -> None:
        self._array = ChunkedArray(zarr.open_array(path, mode="r"), feature_axis=0)
        self.n_features, self.n_samples = self._array.n_features, form.n_samples
        self.dtype = form.dtype
        self.missing_code = missing_code
        self._form = form
        self._most_kept = memory // (self._array.grid[0] * form.bytes_per_feature)
        self._kept: dict[int, Array] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept": {}}

    def blocks(self, width: int) -> tuple[Block, ...]:
        return self._array.blocks(width)

    def read(self, block: Block, rows: Index | None = None) -> Array:
        """Read a block, (m, c)."""
        return self.read_columns(block, np.arange(block.width), rows).T

    def read_columns(self, block: Block, local: Index, rows: Index | None = None) -> Array:
        out = np.empty((local.size, self.n_samples), dtype=self.dtype)
        at = block.start + local
        chunk = self._array.grid[0]
        for start in range(block.start // chunk * chunk, block.stop, chunk):
            a, b = np.searchsorted(at, [start, start + chunk])
            if b > a:
                out[a:b] = self._form.decode(self._chunk(start // chunk)[run_of(at[a:b] - start)])
        return out if rows is None else np.take(out, rows, axis=1)

    def _chunk(self, number: int) -> Array:
        """A chunk as it is kept in scratch; the first ones that are read stay in memory.

        Others are not put in their place: of passes over more than fits they would serve none.
        """
        kept = self._kept.get(number)
        if kept is None:
            chunk = self._array.grid[0]
            stop = min((number + 1) * chunk, self.n_features)
            kept = self._read(Block(0, number * chunk, stop))
            if len(self._kept) < self._most_kept:
                self._kept[number] = kept
        return kept

    def _read(self, block: Block) -> Array:
        try:
            return self._array.read(block, None)
        except (OSError, DataError) as error:
            seen = str(error).partition(";")[0]  # what follows is advice on data
            raise ScratchError(
                f"Scratch, which a run writes and reads for itself, is gone or damaged on "
                f"{socket.gethostname()} ({seen}). Something cleaned that place, or not all "
                "workers of a cluster see it; the data are not concerned. Run again, with TMPDIR "
                "(on a cluster scratch= of its runtime) at a place that is left alone and that "
                "all workers share; a checkpoint goes on from its last round."
            ) from error

    def fingerprint(self) -> str:
        """Refuse: it is a part of a source, and that alone can be fingerprinted."""
        raise TypeError("Scratch has no fingerprint; ask the source that it comes from.")


def write_scratch(
    runtime: AbstractRuntime,
    source: AbstractSource,
    jobs: Sequence[Job],
    rows: Index | None,
    place: Path,
    shape: tuple[int, int],
    form: Form,
    memory: int,
) -> tuple[ScratchSource, ScratchFolder] | None:
    """Have the workers write the features of the jobs; None where they are too many to pack.

    Parameters
    ----------
    place : Path
        Where the folder of scratch is made.
    shape : tuple of int
        Features, and features of a chunk.
    memory : int
        Bytes of it that those who read it may keep.

    Raises
    ------
    UnwritableError
        The disk is full, or the place cannot be written.
    """
    try:
        folder = ScratchFolder(place)
    except OSError as error:
        raise UnwritableError(str(error)) from error
    try:
        path = folder.path / NAME
        written = Write(path, _new_array(folder.path, shape, form), form)
        settled = form.settled(runtime.map(run, source, jobs, (written, rows)))
        if settled is not None:
            return _opened(path, settled, source.missing_code, memory), folder
    except BaseException:
        folder.remove()
        raise
    folder.remove()
    return None


def _opened(path: Path, form: Form, missing_code: int | None, memory: int) -> ScratchSource:
    try:
        return ScratchSource(path, form, missing_code, memory)
    except (OSError, ValueError) as error:  # it went as soon as it was written
        raise UnwritableError(str(error)) from error


def _new_array(folder: Path, shape: tuple[int, int], form: Form) -> Any:
    """An empty array of so many features, in chunks of so many; each will end in its checksum."""
    n_features, chunk = shape
    whole: dict[str, Any] = {
        "shape": (n_features, form.length),
        "chunks": (min(chunk, n_features), form.length),
        "dtype": form.kept_dtype,
    }
    try:
        group = zarr.create_group(folder)
        if not form.packed:
            return create_array(group, NAME, dims=DIMS, **whole)
        return group.create_array(
            NAME,
            compressors=[Crc32cCodec()],  # zstd: 1.6 times smaller and 3 times slower to read
            fill_value=0,
            config={"write_empty_chunks": True},
            **whole,
        )
    except OSError as error:
        raise UnwritableError(str(error)) from error


def chunk_width(block_width: int, form: Form) -> int:
    """Features of a chunk, where tasks read so many."""
    return max(1, block_width // CHUNKS_PER_BLOCK, CHUNK_BYTES // form.bytes_per_feature)


def writing_jobs(
    blocks: Sequence[tuple[Block, slice]], at: Index, chunk: int, most: int
) -> list[Job]:
    """Cut positions `at` of a source into runs of whole chunks of the scratch array.

    Runs begin close to where stored blocks do, so that few of those are read twice.

    Parameters
    ----------
    blocks : sequence of (Block, slice)
        Stored blocks, and which of `at` lie in each.
    most : int
        Jobs, at most, unless that is less than two.
    """
    starts = np.array([part.start for _, part in blocks])
    n = max(min(len(blocks), 2), min(len(blocks) // BLOCKS_PER_WRITER, most, MOST_WRITERS))
    begins = starts[len(blocks) * np.arange(n) // n]
    edges = np.unique(np.append(-(-begins // chunk) * chunk, at.size).clip(max=at.size))
    jobs = []
    for a, b in pairwise(edges.tolist()):
        reads = blocks[np.searchsorted(starts, a, "right") - 1 : np.searchsorted(starts, b)]
        spans = [(block, max(a, part.start), min(b, part.stop)) for block, part in reads]
        columns = tuple(
            Columns(at[i:j] - block.start, tags=np.arange(i, j)) for block, i, j in spans
        )
        jobs.append(Job(tuple(block for block, _ in reads), columns))
    return jobs


@dataclass(frozen=True, slots=True)
class Write(AbstractPass):
    """Writes features, whole chunks of them; returns between which values they lie.

    Tags are their places in the array. That is the one that was made: opened anew it would leave
    out chunks of the fill value.
    """

    path: Path
    array: Any
    form: Form

    def over(self, blocks: Iterator[Tile], m: int) -> Span:
        chunk, at = self.array.chunks[0], -1
        spans: list[Span] = []
        left = np.empty((0, self.form.length), dtype=self.form.kept_dtype)
        for block in blocks:
            kept, span = self.form.encode(block.raw)
            at = int(block.tags[0]) if at < 0 else at
            spans.append(span)
            if not fits(around(spans)):
                break  # the others need not be written
            left = np.concatenate([left, kept]) if len(left) else kept
            while len(left) >= chunk:
                self._write(at, left[:chunk])
                at, left = at + chunk, left[chunk:]
        else:
            if len(left):
                self._write(at, left)
        return around(spans)

    def _write(self, at: int, kept: Array) -> None:
        if not self.path.exists():  # the run has ended, or this worker does not see the folder
            raise UnwritableError(f"{self.path} is not there on {socket.gethostname()}")
        try:
            self.array[at : at + len(kept)] = kept
        except OSError as error:
            raise UnwritableError(str(error)) from error

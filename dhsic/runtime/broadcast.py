"""Parcels: serialised values that are sent to the workers of a cluster, and large results.

A state is sent to every worker as a parcel, which is pickled once, and loaded once per worker
process. A parcel is one value in pickle protocol 5; its arrays are stored out of band, aligned to
64 bytes:

    number of buffers n | n + 1 lengths (pickle first) | pickle | buffer | buffer ...

So a worker can map a parcel file into memory without a copy, and all workers of a machine use the
same memory pages. A parcel is sent in one of three ways: with the task if it is small, as a file
that workers can read, or as the result of a task that Dask can run again. `Client.scatter` is not
used, because Dask cannot restore scattered data when a worker dies.

An object that combines the answers of all slices of samples (`Gathered`) is never assembled in this
process. Workers write the answers to files, and each process that unpickles the state combines
them.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import pickle
import secrets
import struct
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import cloudpickle  # type: ignore[import-untyped]  # no stubs
import google_crc32c
import numpy as np

from dhsic.errors import ScratchError
from dhsic.runtime.base import Make

ALIGNMENT = 64
SMALL = 256 * 1024  # largest parcel, in bytes, sent along with every task
LOST = (
    "Files that workers exchange in scratch are missing or damaged ({}): they were deleted or "
    "changed. Your data are not affected. Run again, with scratch= of the runtime set to a folder "
    "that nothing cleans up; with a checkpoint, the run continues from its last round."
)
KEPT = 3  # parcels cached by a worker process: source, state of this round and of the last


class StateUnreachableError(Exception):
    """Error: a worker cannot read the file of a parcel, or its checksum is wrong."""


@dataclass(frozen=True, slots=True)
class Parcel:
    """Reference to a serialised value.

    It consists of a name, and either the bytes or the path and CRC32C of a file. Small values are
    stored as bytes, large values in a file.
    """

    name: str
    data: bytes | None = None
    path: str | None = None
    checksum: int = 0
    n_bytes: int = 0


def pack(value: Any, gathered: list[Gathered] | None = None) -> list[memoryview]:
    """Serialise `value` into the pieces of a parcel (byte buffers), without copying its arrays.

    Every `Gathered` object inside `value` is appended to the list `gathered`.
    """
    buffers: list[pickle.PickleBuffer] = []
    file = BytesIO()
    pickler = _Pickler(file, protocol=5, buffer_callback=buffers.append)
    pickler.dump(value)
    if gathered is not None:
        gathered += pickler.gathered
    parts = [file.getbuffer(), *(buffer.raw() for buffer in buffers)]
    index = struct.pack(f"<{len(parts) + 1}Q", len(buffers), *(part.nbytes for part in parts))
    pieces: list[memoryview] = []
    for part in (memoryview(index), *parts):
        pieces += [part, memoryview(bytes(-part.nbytes % ALIGNMENT))]
    return pieces


def unpack(data: memoryview) -> Any:
    """Rebuild the value of a parcel; its arrays are read-only views of `data`."""
    (n_buffers,) = struct.unpack_from("<Q", data)
    lengths = (8 * (n_buffers + 2), *struct.unpack_from(f"<{n_buffers + 1}Q", data, 8))
    parts, at = [], 0
    for length in lengths:
        parts.append(data[at : at + length])
        at += length + -length % ALIGNMENT
    return pickle.loads(parts[1], buffers=parts[2:])


def checksum(pieces: Iterable[memoryview]) -> int:
    """Return the CRC32C checksum of the pieces of a parcel."""
    crc = 0
    for piece in pieces:
        if piece.nbytes:  # as an array: the library accepts only arrays and bytes
            crc = google_crc32c.extend(crc, np.frombuffer(piece, dtype=np.uint8))
    return int(crc)


def write(pieces: Iterable[memoryview], path: Path) -> None:
    """Write a parcel to a file atomically: to a temporary file, which is renamed to `path`."""
    aside = path.with_suffix(f".{os.getpid()}.tmp")
    with aside.open("wb") as file:
        for piece in pieces:
            file.write(piece)
    aside.replace(path)


def shelved(value: Any, folder: Path, label: str = "alone") -> Any:
    """Write a large value to a file in `folder`, and return a parcel; return a small value as is.

    A parcel is a reference to a serialised value. `label` becomes part of the file name.
    """
    pieces = pack(value)
    n_bytes = sum(piece.nbytes for piece in pieces)
    if n_bytes <= SMALL:
        return value
    name = secrets.token_hex(8)
    path = folder / f"result-{label}-{name}.pkl"
    try:
        write(pieces, path)
    except OSError:  # disk full: return the value itself
        path.unlink(missing_ok=True)
        return value
    return Parcel(name, None, str(path), checksum(pieces), n_bytes)


class Gathered:
    """Object that is built from answers about all stored values when it is unpickled.

    It owns the files of the answers. Each of `parts` is a list of some of the answers, or a parcel
    (a reference to a serialised value) of such a list.
    """

    def __init__(self, make: Make, parts: Sequence[Any]) -> None:
        self._made_of = make, tuple(parts)
        paths = [Path(str(part.path)) for part in parts if isinstance(part, Parcel)]
        weakref.finalize(self, _unlink, paths)

    def __reduce__(self) -> tuple[Any, ...]:
        return _put_together, self._made_of


def _unlink(paths: Sequence[Path]) -> None:
    for path in paths:
        with contextlib.suppress(OSError):  # the folder is gone
            path.unlink(missing_ok=True)


def _put_together(make: Make, parts: Sequence[Any]) -> Any:
    answer_lists = (_load(part, None) if isinstance(part, Parcel) else part for part in parts)
    return make([answer for answers in answer_lists for answer in answers])


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # no stubs
    """Pickler that records which `Gathered` objects it pickles."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.gathered: list[Gathered] = []

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Gathered):
            self.gathered.append(obj)
        return super().reducer_override(obj)


def fetched(result: Any) -> Any:
    """Return the result of a task; if it is in a file, read it and delete the file."""
    if not isinstance(result, Parcel):
        return result
    try:
        return _load(result, None, mmap.ACCESS_COPY)  # a private copy, writable
    finally:
        Path(str(result.path)).unlink(missing_ok=True)  # mapped pages outlive the file


class Broadcast:
    """Value that is sent to all workers: with each task, as a file, or as a task result.

    Up to `small` bytes are sent with each task. Larger values become a file in `folder`. If
    `folder` is None, because workers cannot read files of this process, `send` turns the bytes into
    a Dask future.
    """

    def __init__(
        self, value: Any, folder: Path | None, send: Callable[[bytes], Any], small: int = SMALL
    ) -> None:
        self._gathered: list[Gathered] = []  # keeps their files alive
        self._pieces = pack(value, self._gathered)
        self._send = send
        self._future: Any = None
        self._parcel = Parcel(secrets.token_hex(8), checksum=checksum(self._pieces))
        if sum(piece.nbytes for piece in self._pieces) <= small:
            self._parcel = replace(self._parcel, data=b"".join(self._pieces))
        elif folder is not None:
            path = folder / f"state-{self._parcel.name}.pkl"
            with contextlib.suppress(OSError):  # disk full or folder gone: send the bytes
                write(self._pieces, path)
                self._parcel = replace(self._parcel, path=str(path))

    def arguments(self) -> tuple[Parcel, Any]:
        """Return two arguments for a task: the parcel, and a future of its bytes or None."""
        if self._parcel.data is not None or self._parcel.path is not None:
            return self._parcel, None
        if self._future is None or self._future.cancelled():
            self._future = self._send(b"".join(self._pieces))
        return self._parcel, self._future

    def give_up_file(self) -> None:
        """Send bytes instead of a file from now on.

        It is called if a worker cannot read the file of the parcel, or files of `Gathered` objects
        in it.
        """
        if self._gathered:
            try:
                self._pieces = pack(unpack(memoryview(b"".join(self._pieces))))
            except StateUnreachableError as error:
                raise ScratchError(LOST.format(error)) from error
            self._gathered = []
            self._parcel = replace(self._parcel, data=None)
        self._parcel = replace(self._parcel, path=None)

    def renew(self) -> None:
        """Send the bytes again on the next use, because the worker with the bytes may hang."""
        self._future = None

    def discard(self) -> None:
        """Remove the file, if there is one."""
        if self._parcel.path is not None:
            Path(self._parcel.path).unlink(missing_ok=True)


#: Cache of the values that this process unpacked last, shared by its tasks.
_loaded: OrderedDict[str, Any] = OrderedDict()
_loading = threading.Lock()


def receive(parcel: Parcel, held: bytes | None = None) -> Any:
    """Return the value of a parcel, on a worker.

    `held` contains the bytes of the parcel if they were sent as the result of a task.
    """
    with _loading:  # tasks of one process wait for the first to load, then share
        if parcel.name not in _loaded:
            _loaded[parcel.name] = _load(parcel, held)
            while len(_loaded) > KEPT:
                _loaded.popitem(last=False)
        _loaded.move_to_end(parcel.name)
        return _loaded[parcel.name]


def _load(parcel: Parcel, held: bytes | None, access: int = mmap.ACCESS_READ) -> Any:
    data = parcel.data if held is None else held
    if data is not None:
        return unpack(memoryview(data))
    try:
        with Path(str(parcel.path)).open("rb") as file:
            pages = memoryview(mmap.mmap(file.fileno(), 0, access=access))
    except (OSError, ValueError) as error:
        raise StateUnreachableError(f"{parcel.path} cannot be read: {error}") from error
    if checksum([pages]) != parcel.checksum:
        raise StateUnreachableError(f"{parcel.path} does not contain the bytes that were written")
    return unpack(pages)

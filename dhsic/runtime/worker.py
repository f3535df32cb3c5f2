"""What runs on a worker of a cluster. Plain functions, importable by scheduler and workers."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Callable
from functools import lru_cache, wraps
from pathlib import Path
from typing import Any

import numpy as np
from distributed import get_worker

from dhsic.errors import ClusterError
from dhsic.runtime.base import Job, Task
from dhsic.runtime.blas import single_blas_thread
from dhsic.runtime.broadcast import Parcel, receive, shelved
from dhsic.versions import VERSION

#: Parameters of glibc's allocator, and what a process may keep for later.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, KEPT_BYTES = -1, -3, 64 << 20

#: Attribute of an error of a task: address of the worker on which it was raised.
WHERE = "dhsic_worker"


def versions() -> dict[str, str]:
    """Return the versions on which the last bit of a score depends."""
    return {"dhsic": VERSION, "numpy": np.__version__}


def other_versions(who: str, theirs: dict[str, str], ours: dict[str, str]) -> str:
    """Sentence of the error when a worker has not the versions of the client."""
    differ = "; ".join(f"{k} {theirs[k]}, client {ours[k]}" for k in ours if theirs[k] != ours[k])
    return (
        f"{who} has other versions: {differ}. Scores round differently between versions. "
        "Install the same versions on client, scheduler and workers."
    )


def greet(path: str) -> tuple[dict[str, str], str | None]:
    """Say which versions this worker has and what it reads in a file of the client."""
    try:
        return versions(), Path(path).read_text()
    except OSError:
        return versions(), None


def hold(data: bytes) -> bytes:
    """Keep `data` as a result: a task that can be run again."""
    return data


@lru_cache(maxsize=1)
def keep_pages() -> None:
    """Have a worker of a nanny keep pages of temporary arrays for the next ones.

    The nanny sets ``MALLOC_TRIM_THRESHOLD_``, and with it glibc gives every array above 128 kB new
    pages and takes them away again: a third of the time of scoring.
    """
    if "MALLOC_TRIM_THRESHOLD_" not in os.environ:
        return
    with contextlib.suppress(OSError, AttributeError, TypeError):  # no glibc
        libc = ctypes.CDLL(None)
        for parameter, size in ((M_MMAP_THRESHOLD, KEPT_BYTES), (M_TRIM_THRESHOLD, KEPT_BYTES)):
            libc.mallopt(parameter, size)


def _telling_where(function: Callable[..., Any]) -> Callable[..., Any]:
    """Have an error tell on which worker it was raised, so that another one can be tried."""

    @wraps(function)
    def called(*given: Any) -> Any:
        try:
            return function(*given)
        except Exception as error:
            with contextlib.suppress(AttributeError):  # a class with slots
                setattr(error, WHERE, get_worker().address)
            raise

    return called


@_telling_where
def run(
    task: Task,
    job: Job,
    expected: dict[str, str],
    source: Parcel,
    state: Parcel,
    source_bytes: bytes | None,
    state_bytes: bytes | None,
    shelf: tuple[str, str] | None,
    *pieces: Any,
) -> Any:
    """Run one job; `pieces` are the blocks of a source that is itself a graph on the cluster.

    A large result is left on the `shelf` (folder, label), if there is one that the client sees, and
    returned as a parcel: through the scheduler it would be copied four times.
    """
    keep_pages()
    if versions() != expected:  # this worker joined after the check at the start
        raise ClusterError(other_versions("A worker that joined the run", versions(), expected))
    opened = receive(source, source_bytes)
    if pieces:
        opened = opened.with_pieces(job.blocks, pieces)
    with single_blas_thread():
        result = task(opened, job, receive(state, state_bytes))
    return result if shelf is None else shelved(result, Path(shelf[0]), shelf[1])

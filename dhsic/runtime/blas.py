"""BLAS threads and task threads never multiply: inside a map BLAS runs one thread.

It does so on every runtime and for any number of workers, because a matrix product that is
split among threads rounds differently from one that is not.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]  # no stubs


def _setter(library: Any) -> Callable[[int], object]:
    # From 3.8 on, threadpoolctl lets one Python thread at a time control OpenBLAS and ignores
    # the others without a word; then tasks run with the threads they find, and the last bits of
    # scores change from run to run (seen in workers that share a process with their client).
    setter: Callable[[int], object] = getattr(
        library, "_real_set_num_threads", library.set_num_threads
    )
    return setter


class _Limit:
    """The limit of this process, shared by all who hold it at the same time.

    The setting of a BLAS library is global. If every holder restored what it found, the first
    to leave would lift the limit of the others; so the last one restores.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders = 0
        self._modules_seen = -1
        self._libraries: list[Any] = []
        self._found: dict[str, tuple[Callable[[int], object], int]] = {}

    def take(self) -> None:
        with self._lock:
            # Finding the libraries costs 0.2 ms, asking them 1 us: look again only when an
            # import may have brought another one (scipy carries its own OpenBLAS).
            if len(sys.modules) != self._modules_seen:
                blas = ThreadpoolController().select(user_api="blas")
                self._libraries = blas.lib_controllers
                self._modules_seen = len(sys.modules)
            # Every holder asks, for a library on OpenMP counts separately in every thread.
            for library in self._libraries:
                if library.num_threads != 1:
                    was = (_setter(library), library.num_threads)
                    self._found.setdefault(library.filepath, was)
                    _setter(library)(1)
            self._holders += 1

    def release(self) -> None:
        with self._lock:
            self._holders -= 1
            if not self._holders:
                for set_threads, n_threads in self._found.values():
                    set_threads(n_threads)
                self._found.clear()


_LIMIT = _Limit()


@contextmanager
def single_blas_thread() -> Iterator[None]:
    """Hold BLAS to one thread in this process until the last holder leaves."""
    _LIMIT.take()
    try:
        yield
    finally:
        _LIMIT.release()

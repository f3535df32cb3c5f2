"""What a scan has found so far, kept so that any death loses few tiles.

A folder, or a URL of an object store, with one writer at a time::

    pairs.dhsic/
      zarr.json      identity of the scan: data, labels, parameters, versions
      null           smallest p-values of the permutations, and what else was counted there
      tiles/000000   the best pairs of the first `TILES` tiles, and so on
      lock           held by the process that writes

Each file ends with a digest; one that is damaged is made again, with all that come after it.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

import numpy as np

from dhsic._typing import Array
from dhsic.errors import CheckpointError
from dhsic.storage import AbstractStore, store_at
from dhsic.storage.format import ROOT, Root, plain
from dhsic.storage.lock import lock_of

#: Tiles whose findings are kept together.
TILES = 16
NULL, LOCK = "null", "lock"
DIGEST = sha256().digest_size


class Kept:
    """Findings of a scan by name, each some arrays; without a store nothing is kept."""

    def __init__(self, store: AbstractStore | None = None) -> None:
        self._store = store

    def get(self, name: str) -> Mapping[str, Array] | None:
        """Arrays of a name; None where there are none, or they are damaged."""
        found = None if self._store is None else self._store.get(name)
        if found is None or sha256(found.data[:-DIGEST]).digest() != found.data[-DIGEST:]:
            return None
        with np.load(io.BytesIO(found.data[:-DIGEST]), allow_pickle=False) as arrays:
            return dict(arrays)

    def put(self, name: str, **arrays: Any) -> None:
        """Keep arrays under a name."""
        if self._store is None:
            return
        data = io.BytesIO()
        np.savez(data, **arrays)
        self._store.write(name, data.getvalue() + sha256(data.getvalue()).digest())


def tiles_name(number: int) -> str:
    """Where findings of some tiles lie."""
    return f"tiles/{number:06d}"


@contextmanager
def kept_at(path: Any, identity: Mapping[str, Any]) -> Iterator[Kept]:
    """Yield what is kept at a path of the scan of that identity; a path of None keeps nothing.

    Raises
    ------
    CheckpointError
        The folder is something else, belongs to another scan, or has a writer.
    """
    if path is None:
        yield Kept()
        return
    store, about = store_at(path), plain(dict(identity))
    store.make()
    found = store.get(ROOT)
    if found is None and (others := sorted(store.names() - {LOCK})):
        raise CheckpointError(
            f"{store.path} holds other things ({', '.join(others[:3])}) and is not a checkpoint of "
            "a scan of pairs. Pass a new or an empty folder."
        )
    lock = lock_of(store, LOCK)
    lock.take()
    try:
        if found is None:
            store.replace(ROOT, Root(about, None).encode(), None)
        else:
            Root.of(found.data, store.path).compare(about, store.path)
        yield Kept(store)
    finally:
        lock.release()

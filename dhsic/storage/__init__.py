"""Durable stores of named files, in a folder or an object store.

A store has one writing process at a time. `store_at` creates the store at a path or URL, a
`dhsic.storage.folder.FileStore` or a `dhsic.storage.objects.ObjectStore`. Both implement
`dhsic.storage.base.AbstractStore`.
"""

from __future__ import annotations

from os import PathLike, fspath
from typing import Any

from dhsic.errors import CheckpointError, DhsicError
from dhsic.storage.base import AbstractStore
from dhsic.storage.folder import FileStore
from dhsic.storage.objects import ObjectStore
from dhsic.storage.paths import as_path, check_url, is_url


def store_at(
    path: Any,
    what: str = "checkpoint=",
    refusal: type[DhsicError] = CheckpointError,
) -> AbstractStore:
    """Create the store object for a path or URL, without reading or writing.

    Errors have the class `refusal`. Their messages begin with `what`, the name of the argument.
    """
    if not isinstance(path, str | PathLike) or not str(path):
        raise refusal(
            f"{what}{path!r} is not a path. Pass the name of a folder, such as 'run.dhsic', or a "
            "URL, such as 's3://bucket/run.dhsic'."
        )
    if is_url(path):
        return ObjectStore(check_url(fspath(path), what, refusal))
    return FileStore(as_path(path))

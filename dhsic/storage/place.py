"""`place_at`: a path or URL as a place."""

from __future__ import annotations

from os import PathLike, fspath

from dhsic.errors import CheckpointError, DhsicError
from dhsic.storage.base import AbstractPlace
from dhsic.storage.bucket import Bucket
from dhsic.storage.folder import FolderPlace
from dhsic.storage.urls import as_path, check_url, is_url


def place_at(
    path: str | PathLike[str],
    what: str = "checkpoint=",
    refusal: type[DhsicError] = CheckpointError,
) -> AbstractPlace:
    """Place at a path or URL; nothing is read or made yet.

    Parameters
    ----------
    what : str
        How messages call it.
    refusal : type
        Error to raise where the URL cannot be used.
    """
    if is_url(path):
        return Bucket(check_url(fspath(path), what, refusal))
    return FolderPlace(as_path(path))

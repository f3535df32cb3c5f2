"""Whether workers see the checkpoint of a run: the folder, or the object store."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from dhsic.detached.folder import Folder
from dhsic.durable.base import AbstractPlace
from dhsic.durable.bucket import MOMENTARY
from dhsic.durable.folder import FolderPlace
from dhsic.durable.opening import place_at
from dhsic.errors import ClusterError, DhsicError


@contextmanager
def introduced(
    folder: Folder, client: Any, scheduler: str | None, security: Any = None
) -> Iterator[Any]:
    """Client of a cluster whose workers see what this process sees at a checkpoint.

    Raises
    ------
    ClusterError
        No cluster, other versions, or workers do not see it.
    """
    from dhsic.runtime import driving

    place = folder.place
    if isinstance(place, FolderPlace):
        parent = place.path.parent
        is_ours = not parent.exists()
        parent.mkdir(exist_ok=True)
        try:
            with driving.introduced(client, scheduler, parent, security) as found:
                yield found
        except DhsicError:
            if is_ours:
                with suppress(OSError):  # somebody has put something there
                    parent.rmdir()
            raise
        return
    with driving.introduced(client, scheduler, security=security) as found:
        _check_reach(place, found)
        yield found


def _check_reach(place: AbstractPlace, client: Any) -> None:
    """Have every worker read what we write at a URL, and write what we read."""
    from dhsic.runtime import driving

    sign, token = f"{MOMENTARY}{secrets.token_hex(8)}", secrets.token_hex(8)
    place.write(f"{sign}/ours", token.encode())
    try:
        for worker, said in driving.ask_all(client, answer, str(place.path), sign).items():
            name, why = said
            if why or place.read_all([name]) != {name: token.encode()}:
                raise ClusterError(
                    f"Worker {worker} does not reach {place.path}: {why or 'it sees another one'}. "
                    "A run that outlives its caller is followed by its checkpoint: give all "
                    "workers the keys in their environment and install dhsic[cloud] there, or "
                    "choose a folder on storage that all of them see."
                )
    finally:
        place.remove(sign)


def answer(url: str, sign: str) -> tuple[str, str]:
    """Copy a sign, on a worker; name of the copy, and why there is none."""
    name = f"{sign}/{secrets.token_hex(8)}"
    try:
        place = place_at(url)
        place.write(name, place.read(f"{sign}/ours"))
    except Exception as error:  # whatever it is, it is for who asked to say
        return name, f"{type(error).__name__}: {str(error).rstrip('.')}"
    return name, ""

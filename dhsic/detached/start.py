"""How a driver is started, the first time and again.

Whether workers see the checkpoint of a run: the folder, or the object store.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from dhsic.detached.driver import drive
from dhsic.detached.folder import Folder, Status
from dhsic.detached.request import arrays_of, plain_request
from dhsic.errors import CheckpointError, ClusterError, DhsicError
from dhsic.runtime.threads import Threads
from dhsic.selectors.request import Request
from dhsic.storage.checkpoint import Checkpoint
from dhsic.storage.objects import as_path, check_url, is_url
from dhsic.storage.store import MOMENTARY, AbstractStore, FileStore, check_place, store_at


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

    place = folder.store
    if isinstance(place, FileStore):
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


def _check_reach(place: AbstractStore, client: Any) -> None:
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
        place = store_at(url)
        place.write(name, place.read(f"{sign}/ours"))
    except Exception as error:  # whatever it is, it is for who asked to say
        return name, f"{type(error).__name__}: {str(error).rstrip('.')}"
    return name, ""


def name_of(id: str) -> str:  # noqa: A002  # as users call it
    """What a cluster calls a run."""
    return f"dhsic-{id}"


def place_of(checkpoint: Any) -> Path | str:
    """Folder of a checkpoint, absolute, or URL; a slip is refused before a cluster is asked."""
    if not isinstance(checkpoint, str | PathLike) or not str(checkpoint):
        raise CheckpointError(
            f"checkpoint={checkpoint!r} is no path. Pass the name of a folder that workers and "
            "this process see, such as 'run.dhsic', or a URL, such as 's3://bucket/run.dhsic'."
        )
    if is_url(checkpoint):
        return check_url(fspath(checkpoint), "checkpoint=", CheckpointError)
    path = as_path(checkpoint).absolute()
    check_place(path, "The checkpoint", CheckpointError)
    return path


def send(
    request: Request,
    folder: Folder,
    *,
    client: Any = None,
    scheduler: str | None = None,
    security: Any = None,
) -> Any:
    """Keep a request in its folder and start its driver.

    Returns
    -------
    distributed.Client or None
        The client that was given or is active; None where one was made for `scheduler`.

    Raises
    ------
    InputError, CheckpointError, ClusterError
        As of `dhsic.submit`.
    """
    arrays_of(request)
    plain_request(request)
    request.selector.check()
    with introduced(folder, client, scheduler, security) as found:
        _take(folder, request)
        start(folder, found)
        return found if client is not None or scheduler is None else None


def _take(folder: Folder, request: Request) -> None:
    """Keep a request; refuse a folder where another run is, or where one is under way."""
    with Checkpoint(folder.path) as kept, Threads(1) as nothing:
        kept.begin(request.new_run(nothing).identity())
        if folder.is_driven():
            raise CheckpointError(
                f"A run is under way in {folder.path}. Follow it with dhsic.attach, stop it with "
                "Run.cancel, or pass another folder."
            )
        folder.keep(request)


def start(folder: Folder, client: Any) -> None:
    """Start the driver of a folder on the cluster of a client."""
    from dhsic.runtime import driving

    folder.want_stop(wanted=False)
    folder.say(Status("waiting", client.scheduler.address))
    driving.send(client, name_of(folder.request().id), str(folder.path), drive)


def restart(
    folder: Folder, *, client: Any = None, scheduler: str | None = None, security: Any = None
) -> Any:
    """Start the driver of a run that nobody drives; returns as `send`."""
    with introduced(folder, client, scheduler, security) as found:
        start(folder, found)
        return found if client is not None or scheduler is None else None

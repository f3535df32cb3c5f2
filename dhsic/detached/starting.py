"""How a driver is started, the first time and again."""

from __future__ import annotations

from os import PathLike, fspath
from pathlib import Path
from typing import Any

from dhsic.checkpoint import Checkpoint
from dhsic.detached.driver import drive
from dhsic.detached.folder import Folder, Status
from dhsic.detached.reach import introduced
from dhsic.detached.request import Request
from dhsic.durable.files import check_place
from dhsic.durable.urls import as_path, check_url, is_url
from dhsic.errors import CheckpointError
from dhsic.runtime.threads import Threads
from dhsic.stability import check_stability


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
    request.arrays()
    selector = request.selector()
    selector.parameters().check()
    check_stability(selector.stability)
    with introduced(folder, client, scheduler, security) as found:
        _take(folder, request)
        start(folder, found)
        return found if client is not None or scheduler is None else None


def _take(folder: Folder, request: Request) -> None:
    """Keep a request; refuse a folder where another run is, or where one is under way."""
    with Checkpoint(folder.path) as kept, Threads(1) as nothing:
        kept.begin(request.new_run(request.open(), nothing).identity())
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

"""`attach`: a run that goes on elsewhere is found again."""

from __future__ import annotations

from os import PathLike, fspath
from typing import Any

from dhsic.detached.folder import Folder
from dhsic.detached.run import ANSWER, Run
from dhsic.detached.start import name_of
from dhsic.errors import CheckpointError
from dhsic.storage.checkpoint import Checkpoint


def attach(
    checkpoint: str | PathLike[str],
    *,
    client: Any = None,
    scheduler: str | None = None,
    security: Any = None,
) -> Run:
    """Find a run again, from any process that sees its checkpoint.

    Parameters
    ----------
    checkpoint : path, URL or str
        What was given as ``checkpoint=``; or `Run.id`, with a cluster that knows it.
    client : distributed.Client, optional
        Cluster to ask; none is needed to read how far the run is, and its result.
    scheduler : str, optional
        Address of it where no `client` is given.
    security : distributed.Security, optional
        Certificates for `scheduler`; those of Dask's configuration by default.

    Returns
    -------
    Run

    Raises
    ------
    CheckpointError
        There is no such run.
    """
    folder = Folder(fspath(checkpoint))
    if not folder.store.is_there() and (client is not None or scheduler is not None):
        known = _folder_of(str(checkpoint), client, scheduler, security)
        folder = folder if known is None else Folder(known)
    if not folder.is_detached:
        raise CheckpointError(_no_run(checkpoint, folder))
    return Run(folder, client=client, scheduler=scheduler, security=security)


def _no_run(checkpoint: str | PathLike[str], folder: Folder) -> str:
    """Why there is nothing to attach to, and what to do."""
    if Checkpoint(folder.path).is_begun():
        return (
            f"{checkpoint} keeps a run that was not left to a cluster: it goes on in the process "
            "that began it, or not at all. Where it has stopped, the same call with this "
            "checkpoint goes on."
        )
    why = "keeps no run that was submitted" if folder.store.is_there() else "is no folder"
    return (
        f"{checkpoint} {why}. Pass the folder given as checkpoint= to dhsic.submit; or the id "
        "of a run, with client= or scheduler= of the cluster that it is on."
    )


def _folder_of(
    id: str,  # noqa: A002  # as users call it
    client: Any,
    scheduler: str | None,
    security: Any,
) -> str | None:
    """Folder of a run that a cluster knows by its id."""
    from dhsic.runtime import driving

    asked = client
    if asked is None and scheduler is not None:
        asked = driving.reach(scheduler, ANSWER, security)
    if asked is None:
        return None
    try:
        found = driving.published(asked, name_of(id))
    finally:
        if asked is not client:
            asked.close()
    return None if found is None else found[0]

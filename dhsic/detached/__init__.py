"""Runs that outlive the process that started them: `submit` starts one, `attach` finds it again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from dhsic.detached.driver import published, send
from dhsic.detached.folder import Folder
from dhsic.detached.run import Run, reached
from dhsic.errors import CheckpointError, InputError
from dhsic.joins.filters import Filters
from dhsic.kernels.labels import SELF
from dhsic.passes.call_counts import counting_on
from dhsic.selection.request import Request
from dhsic.selectors import selector_of
from dhsic.storage.checkpoint import Checkpoint

__all__ = ["Run", "attach", "submit"]

#: Parameters that are said otherwise here, and how.
SAID_OTHERWISE = {
    "runtime": "client= or scheduler= says where it runs",
    "progress": "Run.wait(callback=) hears of rounds",
}


def submit(
    data: str | PathLike[str],
    target: Any,
    *,
    method: str = "bahsic",
    checkpoint: str | PathLike[str],
    client: Any = None,
    scheduler: str | None = None,
    security: Any = None,
    n_features_to_select: int | float | str | None = 50,
    covariates: Any = None,
    feature_groups: Any = None,
    sample_dim: str | int | None = None,
    variable: str | None = None,
    missing_code: int | Sequence[int] | str | None = "auto",
    pass_only: bool = False,
    filters: Filters | None = None,
    by_position: bool = False,
    **parameters: Any,
) -> Run:
    """Start a selection on a Dask cluster, where it goes on when this process ends.

    The loop itself runs on a worker. If that worker dies another one goes on from the checkpoint;
    if the scheduler dies the run is lost until `Run.resume`. Everything about the run is in its
    checkpoint, so `attach` finds it from anywhere that sees the folder or reaches the URL.

    Parameters
    ----------
    data : path or URL
        A Zarr array or VCF Zarr store that the workers and this process read by the same name.
    target : str, array or None
        Labels, or the name of the variable of `data` that holds them; None with
        ``label_kernel="self"``.
    method, n_features_to_select, sample_dim, variable, pass_only, filters, by_position, \
    **parameters
        As of `dhsic.select`, without `runtime` and `progress`.
    checkpoint : path or URL
        Folder that the workers and this process see, or a URL of an object store that they reach,
        such as ``s3://bucket/run.dhsic``, with keys in their environment. A run that is kept
        there goes on.
    client : distributed.Client, optional
        The cluster; the client that is active in this process by default.
    scheduler : str, optional
        Address of the cluster where no `client` is given.
    security : distributed.Security, optional
        Certificates for `scheduler`; those of Dask's configuration by default.
    missing_code : int, sequence of int, None or "auto"
        As of `dhsic.open_source`.
    covariates, feature_groups : array, or str for groups
        As of `dhsic.select`; small, they are kept in the checkpoint.

    Returns
    -------
    Run

    Raises
    ------
    InputError
        Data that live in this process, or arguments that `dhsic.select` would refuse.
    CheckpointError
        The checkpoint belongs to another run, or one is under way there.
    ClusterError
        No cluster, other versions, or a folder or URL that it does not share.
    StoreError
        An object store does not answer this process.
    """
    from dhsic.runtime.dask import DaskRuntime

    path = _path_of(data)
    _check_parameters(parameters, has_labels=target is not None)
    request = Request.of(
        selector_of(method, n_features_to_select, parameters),
        path,
        target,
        covariates=covariates,
        feature_groups=feature_groups,
        by_position=by_position,
        sample_dim=sample_dim,
        variable=variable,
        missing_code=missing_code,
        pass_only=pass_only,
        filters=filters,
        counting=counting_on(partial(DaskRuntime, client, scheduler, security=security)),
    )
    folder = Folder(checkpoint)
    given = send(request, folder, client=client, scheduler=scheduler, security=security)
    return Run(folder, client=given, scheduler=scheduler, security=security)


def _path_of(data: Any) -> str:
    """Data as workers find them: a URL, or an absolute path."""
    if not isinstance(data, str | PathLike):
        raise InputError(
            f"data is of type {type(data).__name__} and lives in this process, which the run is to "
            "outlive. Write it to Zarr where the workers can read, and pass the path or URL; or "
            "call dhsic.select."
        )
    path = fspath(data)
    return path if "://" in path else str(Path(path).absolute())


def _check_parameters(parameters: Mapping[str, Any], *, has_labels: bool) -> None:
    """Refuse what no run of the method takes."""
    for name, how in SAID_OTHERWISE.items():
        if name in parameters:
            raise InputError(f"{name}= is not for dhsic.submit: {how}. Leave it out.")
    if not has_labels and parameters.get("label_kernel") != SELF:
        raise InputError(
            "target is None. Pass the labels, one a sample, or the name of the variable that holds "
            "them; with label_kernel='self' the data are their own."
        )


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
    folder = Folder(checkpoint)
    if not folder.store.is_there():
        known = _folder_of(str(checkpoint), client, scheduler, security)
        folder = folder if known is None else Folder(known)
    if folder.is_detached:
        return Run(folder, client=client, scheduler=scheduler, security=security)
    if Checkpoint(folder.path).is_begun():
        raise CheckpointError(
            f"{checkpoint} keeps a run that was not left to a cluster: it goes on in the process "
            "that began it, or not at all. Where it has stopped, the same call with this "
            "checkpoint goes on, and so does `dhsic resume`."
        )
    why = "keeps no run that was submitted" if folder.store.is_there() else "is no folder"
    raise CheckpointError(
        f"{checkpoint} {why}. Pass the folder given as checkpoint= where it was begun; or the "
        "id of a run, with scheduler= (or client=) of the cluster that it is on."
    )


def _folder_of(run: str, client: Any, scheduler: str | None, security: Any) -> str | None:
    """Folder of a run that a cluster, where there is one, knows by its id."""
    asked = client
    if asked is None and scheduler is not None:
        asked = reached(scheduler, security)
    if asked is None:
        return None
    try:
        found = published(asked, run)
    finally:
        if asked is not client:
            asked.close()
    return None if found is None else found[0]

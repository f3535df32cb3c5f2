"""Runs that outlive the process that started them: `submit` starts a run, `attach` finds it."""

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
from dhsic.methods import selector_of
from dhsic.passes.call_counts import counting_on
from dhsic.selection.request import Request
from dhsic.sources.file_lists import NamedMatrices, expanded, is_several
from dhsic.storage.checkpoint import Checkpoint

__all__ = ["Run", "attach", "submit"]

#: Parameters of `dhsic.select` that `submit` does not accept, and what replaces each of them.
SAID_OTHERWISE = {
    "runtime": "client= or scheduler= sets where it runs",
    "progress": "Run.wait(callback=) reports rounds",
}


def submit(
    data: str | PathLike[str] | Sequence[str | PathLike[str]],
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
    intersect_samples: bool = False,
    filters: Filters | None = None,
    by_position: bool = False,
    event: Any = None,
    entry: Any = None,
    sample_weight: Any = None,
    **parameters: Any,
) -> Run:
    """Start a selection on a Dask cluster, where it continues after this process ends.

    The driver, the main loop of the run, is executed on a worker. If that worker dies, another
    continues from the checkpoint; if the scheduler dies, the run stops until `Run.resume`. The
    checkpoint stores everything about the run, so `attach` finds it from any process that can read
    the folder or URL.

    Parameters
    ----------
    data : path or URL, or list of these
        A Zarr array or VCF Zarr store that the workers and this process read at the same path; or
        several files, as in `dhsic.open_source`.
    target : str, array or None
        Labels, or the name of the variable of `data` that contains them; None with
        ``label_kernel="self"``.
    method, n_features_to_select, sample_dim, variable, pass_only, filters, by_position, event, \
    entry, sample_weight, **parameters
        See `dhsic.select`; `runtime` and `progress` are not accepted.
    checkpoint : path or URL
        Folder that the workers and this process can read and write, or a URL of an object store,
        such as ``s3://bucket/run.dhsic``, with credentials in their environment. An existing run
        in this folder is continued.
    client : distributed.Client, optional
        The cluster; the client that is active in this process by default.
    scheduler : str, optional
        Address of the cluster if no `client` is given.
    security : distributed.Security, optional
        Certificates for `scheduler`; those of Dask's configuration by default.
    missing_code : int, sequence of int, None or "auto"
        Integers that stand for missing values, see `dhsic.open_source`.
    intersect_samples : bool
        For several files: use only the samples that all files have, see `dhsic.open_source`.
    covariates, feature_groups : array, or str for groups
        See `dhsic.select`; they are stored in the checkpoint and must be small.

    Returns
    -------
    Run

    Raises
    ------
    InputError
        The data are in the memory of this process, or an argument is invalid.
    CheckpointError
        The checkpoint belongs to another run, or a run is using it.
    ClusterError
        There is no cluster, its workers have other versions of packages, or they cannot read the
        folder or URL.
    StoreError
        An object store does not answer this process.
    """
    from dhsic.runtime.dask import DaskRuntime

    path = _paths_of(expanded(data))
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
        intersect_samples=intersect_samples,
        filters=filters,
        event=event,
        entry=entry,
        sample_weight=sample_weight,
        counting=counting_on(partial(DaskRuntime, client, scheduler, security=security)),
    )
    folder = Folder(checkpoint)
    run_client = send(request, folder, client=client, scheduler=scheduler, security=security)
    return Run(folder, client=run_client, scheduler=scheduler, security=security)


def _paths_of(data: Any) -> str | list[str]:
    """Return the URL or absolute path of the data, as workers read them.

    The result is a list for several files.
    """
    if isinstance(data, NamedMatrices):
        return NamedMatrices(map(_paths_of, data), data.names)
    return [_path_of(each) for each in data] if is_several(data) else _path_of(data)


def _path_of(data: Any) -> str:
    """Return the URL or absolute path at which workers read a file."""
    if not isinstance(data, str | PathLike):
        raise InputError(
            f"data is of type {type(data).__name__}, in the memory of this process, but a detached "
            "run continues after this process ends. Write it to Zarr where the workers can read "
            "it, and pass the path or URL; or call dhsic.select."
        )
    path = fspath(data)
    return path if "://" in path else str(Path(path).absolute())


def _check_parameters(parameters: Mapping[str, Any], *, has_labels: bool) -> None:
    """Raise InputError for parameters that `submit` does not accept."""
    for name, how in SAID_OTHERWISE.items():
        if name in parameters:
            raise InputError(f"dhsic.submit does not accept {name}=: {how}. Leave it out.")
    if not has_labels and parameters.get("label_kernel") != SELF:
        raise InputError(
            "target is None. Pass the labels, one per sample, or the name of the variable that "
            "contains them; or pass label_kernel='self' to use the data as labels."
        )


def attach(
    checkpoint: str | PathLike[str],
    *,
    client: Any = None,
    scheduler: str | None = None,
    security: Any = None,
) -> Run:
    """Return the handle of a detached run, in any process that can read its checkpoint.

    Parameters
    ----------
    checkpoint : path, URL or str
        Checkpoint that was passed to `submit`; or `Run.id`, together with its cluster.
    client : distributed.Client, optional
        Client of the cluster; not needed to read the progress and the result of the run.
    scheduler : str, optional
        Address of the cluster if no `client` is given.
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
        published_folder = _folder_of(str(checkpoint), client, scheduler, security)
        folder = folder if published_folder is None else Folder(published_folder)
    if folder.is_detached:
        return Run(folder, client=client, scheduler=scheduler, security=security)
    if Checkpoint(folder.path).is_begun():
        raise CheckpointError(
            f"{checkpoint} is the checkpoint of a run that is not detached: only the process that "
            "started it can run it. If it has stopped, continue it by the same call with this "
            "checkpoint, or with `dhsic resume`."
        )
    why = "contains no detached run" if folder.store.is_there() else "is not a folder"
    raise CheckpointError(
        f"{checkpoint} {why}. Pass the folder that was passed as checkpoint= when the run was "
        "started; or the id of the run, with scheduler= (or client=) of its cluster."
    )


def _folder_of(run: str, client: Any, scheduler: str | None, security: Any) -> str | None:
    """Return the checkpoint that a cluster has published for a run id.

    The result is None if the cluster has none.
    """
    run_client = client
    if run_client is None and scheduler is not None:
        run_client = reached(scheduler, security)
    if run_client is None:
        return None
    try:
        entry = published(run_client, run)
    finally:
        if run_client is not client:
            run_client.close()
    return None if entry is None else entry[0]

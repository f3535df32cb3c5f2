"""Choice of the runtime of a run.

A Dask scheduler imports this package together with `dhsic.runtime.calls` and never unloads it, so
the runtimes themselves are imported only inside the functions that choose one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from dhsic.errors import ClusterError, InputError

if TYPE_CHECKING:
    from dhsic.runtime.base import AbstractRuntime


def choose_runtime(
    runtime: Literal["auto", "threads", "dask"] | AbstractRuntime = "auto",
    *,
    client: Any = None,
    scheduler: str | None = None,
    n_threads: int | None = None,
) -> AbstractRuntime:
    """Return a runtime by name; an instance of `AbstractRuntime` is returned unchanged.

    Parameters
    ----------
    runtime : {"auto", "threads", "dask"} or AbstractRuntime
        ``"auto"`` runs on Dask when a client or scheduler is given or a Dask client is active
        in this process, on threads otherwise.
    client : distributed.Client, optional
        Dask client to run on.
    scheduler : str, optional
        Address of a Dask scheduler to connect to.
    n_threads : int, optional
        Number of threads of the runtime ``"threads"``.
    """
    from dhsic.runtime.base import AbstractRuntime
    from dhsic.runtime.threads import Threads

    on_dask = client is not None or scheduler is not None
    if isinstance(runtime, AbstractRuntime):
        return runtime
    if runtime not in ("auto", "threads", "dask"):
        raise InputError(
            f"runtime={runtime!r} is unknown. Pass 'auto', 'threads', 'dask' or a runtime, such "
            "as dhsic.runtime.dask.DaskRuntime(client)."
        )
    if runtime == "threads" and on_dask:
        raise InputError(
            f"runtime='threads' runs in this process, but {client or scheduler!r} was passed. "
            "Leave that out, or pass runtime='dask'."
        )
    if runtime == "dask" or on_dask or (runtime == "auto" and _dask_client_is_active()):
        try:
            from dhsic.runtime.dask import DaskRuntime
        except ImportError as error:
            raise ClusterError(
                f"Running on Dask needs distributed, which cannot be imported ({error}). Install "
                "it, or use runtime='threads'."
            ) from error
        return DaskRuntime(client, scheduler)
    return Threads(n_threads)


@contextmanager
def running(asked: Any, n_threads: int | None = None) -> Iterator[AbstractRuntime]:
    """Yield the runtime that `choose_runtime` returns; close it unless the caller created it."""
    from dhsic.runtime.base import AbstractRuntime

    if isinstance(asked, AbstractRuntime):
        yield asked
        return
    with choose_runtime(asked, n_threads=n_threads) as runtime:
        yield runtime


def _dask_client_is_active() -> bool:
    distributed = sys.modules.get("distributed")  # if not imported, no client exists
    if distributed is None:
        return False
    try:
        distributed.default_client()
    except ValueError:
        return False
    return True

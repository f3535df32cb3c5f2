"""Which runtime a run uses when its caller does not say.

How a client of a Dask cluster is had: the one given, the active one, or a new one.
"""

from __future__ import annotations

import sys
from typing import Any, Literal

import distributed
from distributed import Client, Security
from distributed.comm.addressing import resolve_address

from dhsic.errors import ClusterError, InputError
from dhsic.runtime.base import AbstractRuntime
from dhsic.runtime.threads import Threads


def choose_runtime(
    runtime: Literal["auto", "threads", "dask"] | AbstractRuntime = "auto",
    *,
    client: Any = None,
    scheduler: str | None = None,
    n_threads: int | None = None,
) -> AbstractRuntime:
    """Return the runtime that was asked for; a runtime that is given is used as it is.

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
        Threads of ``"threads"``.
    """
    on_dask = client is not None or scheduler is not None
    if isinstance(runtime, AbstractRuntime):
        return runtime
    if runtime not in ("auto", "threads", "dask"):
        raise InputError(
            f"runtime={runtime!r} is not known. Pass 'auto', 'threads', 'dask' or a runtime, such "
            "as dhsic.runtime.dask.DaskRuntime(client)."
        )
    if runtime == "threads" and on_dask:
        raise InputError(
            f"runtime='threads' runs in this process, but {client or scheduler!r} was given. "
            "Leave that out, or pass runtime='dask'."
        )
    if runtime == "dask" or on_dask or (runtime == "auto" and _dask_client_is_active()):
        return _dask(client, scheduler)
    return Threads(n_threads)


def _dask_client_is_active() -> bool:
    distributed = sys.modules.get("distributed")  # nobody made a client who did not import it
    if distributed is None:
        return False
    try:
        distributed.default_client()
    except ValueError:
        return False
    return True


def _dask(client: Any, scheduler: str | None) -> AbstractRuntime:
    try:
        from dhsic.runtime.dask import DaskRuntime
    except ImportError as error:
        raise ClusterError(
            f"Running on Dask needs distributed, which cannot be imported ({error}). Install it, "
            "or use runtime='threads'."
        ) from error
    return DaskRuntime(client, scheduler)


def connect(
    client: Client | None, scheduler: str | None, timeout: float, security: Security | None = None
) -> Client:
    """Return the client to run on.

    `security` has the certificates for `scheduler`, by default those of Dask's configuration.

    Raises
    ------
    ClusterError
        There is none, it cannot be waited for, or no scheduler answers within `timeout` seconds.
    """
    if client is None and scheduler is not None:
        return client_at(scheduler, timeout, security)
    if client is None:
        try:
            client = distributed.get_client()
        except ValueError as error:
            raise ClusterError(
                "No cluster was named, and there is no Dask client in this process. Make one "
                "(distributed.Client(...)), pass client= or scheduler='tcp://...', or use "
                "dhsic.select with runtime='threads'."
            ) from error
    if client.asynchronous:
        raise ClusterError(
            "The Dask client is asynchronous, and dhsic waits for results. Make one with "
            "Client(..., asynchronous=False) outside the event loop."
        )
    return client


def client_at(scheduler: str, timeout: float, security: Security | None = None) -> Client:
    """Return a new client of the scheduler at an address, not the default one of this process."""
    try:
        resolve_address(scheduler)  # a Client of what is no address takes minutes to close
    except (OSError, ValueError) as error:
        raise ClusterError(
            f"scheduler={scheduler!r} cannot be connected to: {error}. Pass the address that the "
            "scheduler prints when it starts, such as tcp://10.0.0.5:8786, or leave it out to run "
            "on threads."
        ) from error
    if scheduler.startswith("tls://"):
        _check_certificates(scheduler, security or Security())
    try:
        return Client(scheduler, set_as_default=False, timeout=timeout, security=security)
    except (OSError, ValueError) as error:
        taken = "" if "://" in scheduler else f" (taken for tcp://{scheduler}; TLS needs tls://)"
        raise ClusterError(
            f"No Dask scheduler answers at {scheduler!r}{taken} within {timeout:g} s. Check that "
            "it runs, that address and port are those it prints when it starts, and that no "
            "firewall is between; or leave scheduler= out to run on threads."
        ) from error


def _check_certificates(scheduler: str, security: Security) -> None:
    """Refuse a secured address without certificates for it, before a Client hangs.

    Raises
    ------
    ClusterError
        There are none, or they cannot be read.
    """
    try:
        known = security.get_connection_args("client")
    except (OSError, ValueError) as error:  # ssl's errors are OSErrors
        raise ClusterError(
            f"The certificates for scheduler={scheduler!r} cannot be used ({error}). Pass the "
            "authority, the certificate and the key as three PEM files that this process may read."
        ) from error
    if known.get("ssl_context") is None:
        raise ClusterError(
            f"scheduler={scheduler!r} takes certificates, and Dask is configured with none: pass "
            "security=distributed.Security(...), or set distributed.comm.tls.ca-file and "
            ".client.cert and .key in its configuration (DASK_CONFIG), or "
            "DASK_DISTRIBUTED__COMM__TLS__CA_FILE and so on."
        )

"""Dask clients: connect to a scheduler, and run functions on each of its workers."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any

import cloudpickle  # type: ignore[import-untyped]  # no stubs
import distributed
from distributed import CancelledError, Client, Future, Security
from distributed.comm.addressing import resolve_address

from dhsic.errors import ClusterError
from dhsic.runtime.calls import Call


def of_each_worker(
    client: Client, key: str, function: Callable[..., Any], *given: Any
) -> dict[str, Future[Any]]:
    """Submit a function to every worker; return its futures by address of the worker."""
    seal = cloudpickle.dumps(Call(function, *given), protocol=5)
    return {
        worker: client.submit(
            pickle.loads, seal, workers=[worker], key=f"{key}-{i}", pure=False, priority=10
        )
        for i, worker in enumerate(client.nthreads())
    }


def of_holders(
    client: Client,
    futures: Sequence[Future[Any]],
    seconds: float,
    function: Callable[..., dict[str, Any]],
    *given: Any,
) -> dict[str, Any]:
    """Call ``function(keys, *given)`` on the workers that hold `futures`; merge the results.

    The function returns a dictionary with one item for each of the `keys` that its worker has. It
    is called directly, not as a Dask task. CancelledError is raised if a future has been lost.
    """
    keys = [str(future.key) for future in futures]

    async def ask() -> dict[str, Any]:
        holders = (await client.who_has(futures)).values()
        workers = sorted({entry[0] for entry in holders if entry})
        results = await client.run(function, keys, *given, workers=workers, on_error="ignore")
        return {key: one for entry in results.values() for key, one in entry.items()}

    results: dict[str, Any] = client.sync(ask, callback_timeout=seconds)
    if lost := [key for key in keys if key not in results]:
        raise CancelledError(lost)
    return results


def connect(
    client: Client | None, scheduler: str | None, timeout: float, security: Security | None = None
) -> Client:
    """Return the Dask client to run on; by default, the active client of this process."""
    if client is None and scheduler is not None:
        return client_at(scheduler, timeout, security)
    if client is None:
        try:
            client = distributed.get_client()
        except ValueError as error:
            raise ClusterError(
                "No cluster was passed, and there is no Dask client in this process. Create one "
                "(distributed.Client(...)), pass client= or scheduler='tcp://...', or use "
                "dhsic.select with runtime='threads'."
            ) from error
    if client.asynchronous:
        raise ClusterError(
            "The Dask client is asynchronous, but dhsic needs a synchronous one. Create it with "
            "Client(..., asynchronous=False), outside the event loop."
        )
    return client


def client_at(scheduler: str, timeout: float, security: Security | None = None) -> Client:
    """Return a new client for the scheduler at an address.

    The default client does not change.
    """
    try:
        resolve_address(scheduler)  # else a Client takes minutes to close
    except (OSError, ValueError) as error:
        raise ClusterError(
            f"Cannot connect to scheduler={scheduler!r}: {error}. Pass the address that the "
            "scheduler prints when it starts, such as tcp://10.0.0.5:8786, or leave it out to run "
            "on threads."
        ) from error
    if scheduler.startswith("tls://"):
        _check_certificates(scheduler, security or Security())
    try:
        return Client(scheduler, set_as_default=False, timeout=timeout, security=security)
    except (OSError, ValueError) as error:
        hint = "" if "://" in scheduler else f" (tried as tcp://{scheduler}; TLS needs tls://)"
        raise ClusterError(
            f"No Dask scheduler answered at {scheduler!r}{hint} within {timeout:g} s. Check that "
            "it is running, that it prints this address and port when it starts, and that no "
            "firewall blocks the connection. Or leave scheduler= out to run on threads."
        ) from error


def _check_certificates(scheduler: str, security: Security) -> None:
    """Raise ClusterError if certificates for tls:// are missing; otherwise a client would hang."""
    try:
        connection_args = security.get_connection_args("client")
    except (OSError, ValueError) as error:  # ssl's errors are OSErrors
        raise ClusterError(
            f"The certificates for scheduler={scheduler!r} cannot be used ({error}). Pass the "
            "authority, the certificate and the key as three PEM files that this process may read."
        ) from error
    if connection_args.get("ssl_context") is None:
        raise ClusterError(
            f"scheduler={scheduler!r} needs certificates, but Dask is configured without them. "
            "Pass --tls-ca-file, --tls-cert and --tls-key; in Python, pass "
            "security=distributed.Security(...). Or set distributed.comm.tls.ca-file, .client.cert "
            "and .client.key in Dask's configuration (DASK_CONFIG), or the environment variables "
            "DASK_DISTRIBUTED__COMM__TLS__CA_FILE and so on."
        )


def forget_messages(client: Client) -> None:
    """Clear Dask's debug log of the last thousand messages to the scheduler.

    These messages contain the states of rounds, which are hundreds of MiB in a long run.
    """
    sent = getattr(client.scheduler_comm, "recent_message_log", None)
    if sent is not None:
        sent.clear()

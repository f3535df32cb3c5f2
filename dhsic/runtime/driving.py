"""A driver on the cluster: the loop of a run as a task, so that its caller may leave.

The task secedes from its worker's threads and submits jobs as a client would. Where its worker
dies the scheduler runs it again on another one, and it goes on from its checkpoint.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from distributed import Client, Future, Security, fire_and_forget, get_worker, worker_client

from dhsic.errors import ClusterError
from dhsic.runtime.dask import DaskRuntime

RETRIES = 20  # of a driver that lost its connection; deaths of its worker count on the scheduler
WRITING = 60.0  # seconds that workers may take to answer
ANSWER = 0.5  # seconds in which the state of a driver that has ended is told
REMEMBERED = 20  # drivers that ended whom a scheduler still knows by the names of their runs
NAMES = re.compile(r"dhsic-[0-9a-f]{12}")
#: What a lost scheduler shows in.
LOST = (OSError, TimeoutError, RuntimeError, CancelledError)


def ask_all(client: Client, function: Callable[..., Any], *args: Any) -> dict[str, Any]:
    """What a function returns on every worker, by its address; without workers that have left."""
    key = f"dhsic-ask-{secrets.token_hex(8)}"
    asked = {
        worker: client.submit(
            function, *args, workers=[worker], key=f"{key}-{i}", pure=False, priority=10
        )
        for i, worker in enumerate(client.nthreads())
    }
    said, deadline = {}, time.monotonic() + WRITING
    for worker, future in asked.items():
        try:
            said[worker] = future.result(timeout=max(deadline - time.monotonic(), 0.1))
        except TimeoutError as error:
            if worker in client.nthreads():
                raise ClusterError(
                    f"No worker of {client!r} was free within {WRITING:g} s. Submit when other "
                    "work on it has ended, or add workers."
                ) from error
        except CancelledError:
            continue
    return said


def send(client: Client, name: str, folder: str, drive: Callable[..., None]) -> None:
    """Start ``drive(folder, name)`` on a worker and keep it known to the scheduler as `name`."""
    with suppress(KeyError):
        client.unpublish_dataset(name)
    _forget(client)
    key = f"{name}-{secrets.token_hex(4)}"
    future = client.submit(drive, folder, name, key=key, pure=False, retries=RETRIES, priority=10)
    fire_and_forget(future)
    client.publish_dataset((folder, future, time.time()), name=name)


def _forget(client: Client) -> None:
    """Have the scheduler forget drivers that ended, but for the last: name, task and events."""
    names = [name for name in client.list_datasets() if NAMES.fullmatch(str(name))]
    if len(names) < REMEMBERED:
        return
    ended = []
    for name in names:
        with suppress(KeyError, ValueError, *LOST):
            _, future, sent = client.get_dataset(name)
            if _state(future) != "pending":
                ended.append((sent, name))
    old = [name for _, name in sorted(ended)[: -REMEMBERED + 1]]  # there will be another one
    for name in old:
        client.unpublish_dataset(name)
    with suppress(AttributeError, ValueError, *LOST):  # a scheduler may refuse to run functions
        client.run_on_scheduler(_silence, old)


def _silence(topics: list[str], dask_scheduler: Any) -> None:
    """Drop the events of topics, on the scheduler, which keeps them for ever."""
    for topic in topics:
        dask_scheduler._broker.truncate(topic)


def _state(future: Future[Any]) -> str:
    """State of a future that came from elsewhere: that it has ended is told in a moment."""
    deadline = time.monotonic() + ANSWER
    while future.status == "pending" and time.monotonic() < deadline:
        time.sleep(0.02)
    return str(future.status)


def reach(scheduler: str, timeout: float, security: Security | None = None) -> Client | None:
    """Client of the scheduler at an address; None where none answers."""
    try:
        return Client(scheduler, set_as_default=False, timeout=timeout, security=security)
    except (OSError, ValueError):
        return None


def published(client: Client, name: str) -> tuple[str, Future[Any]] | None:
    """Folder and driver of a run that the scheduler knows by this name."""
    if client.status != "running":
        return None
    try:
        folder, future, _ = client.get_dataset(name)
    except (KeyError, *LOST):
        return None
    _state(future)
    return str(folder), future


def listen(client: Client, topic: str, hear: Callable[[Mapping[str, Any]], object]) -> None:
    """Have `hear` called with every event of a topic, those of the past first.

    It may hear an event twice, and is called in the thread of the client.
    """
    client.subscribe_topic(topic, lambda event: hear(event[1]))
    for _, event in client.get_events(topic) or ():
        hear(event)


def unsubscribe(client: Client, topic: str) -> None:
    """Hear no more of a topic."""
    with suppress(ValueError, *LOST):
        client.unsubscribe_topic(topic)


class WorkerSession:
    """What a driver has of its worker: a client, and the bytes that it may have, or None."""

    def __init__(self, client: Client, memory: int | None) -> None:
        self._client = client
        self.memory = memory

    def runtime(self, scratch: Path) -> DaskRuntime:
        """The cluster that the worker is part of; to be closed."""
        return DaskRuntime(self._client, scratch=scratch)

    def tell(self, topic: str, event: Mapping[str, Any]) -> None:
        """Tell every client that listens."""
        with suppress(*LOST):
            self._client.log_event(topic, dict(event))

    def is_connected(self) -> bool:
        """Whether the scheduler is still there: if not, an error here is none of the run."""
        return bool(self._client.status == "running")


@contextmanager
def worker_session() -> Iterator[WorkerSession]:
    """Make the task that calls it a driver: it takes no thread of its worker from now on."""
    limit = get_worker().memory_manager.memory_limit
    with worker_client(separate_thread=True) as client:
        yield WorkerSession(client, limit)

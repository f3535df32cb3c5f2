"""The driver: the main loop of a detached run, on a worker of a cluster or in this process.

The driver needs only the folder of the run. So `send` or `drive_here` can start a driver again at
any time, on any machine that can access the folder. Only one driver writes to the folder at a time.
It writes its progress to the folder first, and then sends it as events to all listeners.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dhsic.detached.folder import ENDS, Folder, Status, arrays_of, plain_request
from dhsic.errors import CheckpointError, ClusterError, DhsicError, StoreError
from dhsic.results.files import save_by
from dhsic.runtime.base import AbstractRuntime
from dhsic.runtime.calls import sealed, silence
from dhsic.runtime.threads import Threads
from dhsic.selection.execution import result_of
from dhsic.selection.progress import Hook
from dhsic.selection.request import Request
from dhsic.storage import store_at
from dhsic.storage.base import AbstractStore, LostError
from dhsic.storage.checkpoint import Checkpoint
from dhsic.storage.folder import FileStore
from dhsic.storage.lock import AbstractLock, this_process
from dhsic.storage.objects import MOMENTARY
from dhsic.storage.paths import check_place

if TYPE_CHECKING:
    from distributed import Client, Future

LOOKS = 0.5  # seconds between checks whether a stop was requested
RETRIES = 20  # retries after lost connections; Dask counts deaths of the worker separately
WRITING = 120.0  # seconds that workers may take to answer; new workers import dhsic first
TOLD = 0.5  # seconds to wait for the state of a driver that has ended
REMEMBERED = 20  # number of ended drivers whose names stay published on a scheduler
NAMES = re.compile(r"dhsic-[0-9a-f]{12}")
#: Errors raised when the scheduler is lost.
LOST = (OSError, TimeoutError, RuntimeError, CancelledError)
#: Fields of the record of a round that are published.
OF_ROUNDS = ("round", "n_features", "n_removed", "n_added", "hsic", "sigma", "engine")


class StoppedError(DhsicError):
    """Error that ends a run because a user requested a stop."""


class Driver:
    """Main loop that executes the run in a folder, from its last stored round on.

    `lock` is the lock of the driver, which must be held. `tell` is called with every event.
    """

    def __init__(self, folder: Folder, lock: AbstractLock, tell: Hook | None = None) -> None:
        self.folder = folder
        self._lock = lock
        self._tell = tell or (lambda _event: None)
        self._looked = -LOOKS
        self._began = self._here = time.monotonic()

    def look(self, *, now: bool = False) -> None:
        """Raise StoppedError if a stop was requested.

        The folder is checked every `LOOKS` seconds (less often in an object store); with `now`, it
        is checked in any case.
        """
        if now or time.monotonic() - self._looked >= LOOKS * self.folder.store.rarer:
            self._looked = time.monotonic()
            if self.folder.stop_wanted:
                raise StoppedError

    def note(self, record: Mapping[str, Any]) -> None:
        """Write the progress after a round to the folder, and send it as an event.

        `record` describes the round, see `dhsic.selection.progress.check_progress`.
        """
        done, total = int(record["features_done"]), int(record["features_total"])
        here = time.monotonic() - self._here  # seconds in which `features_done` were scored
        n_left = int(record.get("n_features", 0))
        n_left -= int(record.get("n_removed", record.get("n_added", 0)))
        note = {
            "round": int(record["round"]),
            "features_left": n_left,
            "features_done": done,
            "features_total": total,
            "seconds": time.monotonic() - self._began,
            "seconds_left": here * max(total - done, 0) / max(done, 1),
            "record": {key: record[key] for key in OF_ROUNDS if key in record},
        }
        self._lock.confirm()
        self.folder.note(note)
        self._tell({"event": "round", **note})
        self.look(now=True)  # with few features, no tasks may run, which would check

    def conduct(
        self,
        runtime: AbstractRuntime,
        *,
        memory: int | None = None,
        is_connected: Callable[[], bool] = lambda: True,
    ) -> None:
        """Execute the run, and write its final status to the folder.

        If the cluster or the object store is lost, or another driver has taken over, the error is
        raised and the status stays unchanged, so that the next driver can continue.
        """
        before = self.folder.status
        if before.state in ENDS:  # only the worker that held the driver's result died
            return
        running = replace(before, state="running", driver=this_process())
        self.folder.say(running)
        self._tell({"event": "running"})
        try:
            self._run(runtime, memory)
            end = replace(running, state="done")
        except (LostError, StoreError):
            raise
        except StoppedError:
            end = replace(running, state="cancelled")
        except Exception as error:
            if not is_connected():
                raise
            kind = type(error).__name__
            message = str(error) if isinstance(error, DhsicError) else f"{kind}: {error}"
            end = replace(running, state="failed", kind=kind, message=message)
        self._lock.confirm(surely=True)
        self.folder.say(end)
        self._tell({"event": end.state, "message": end.message})

    def _run(self, runtime: AbstractRuntime, memory: int | None) -> None:
        # The elapsed time continues from that of the last driver.
        self._began = time.monotonic() - float(self.folder.progress.get("seconds", 0.0))
        self.look()
        with runtime.polling_interrupt(self.look):
            asked = self.folder.request()
            own_limit = asked.selector.memory_limit
            asked.selector.set_params(
                checkpoint=str(self.folder.path),
                progress=self.note,
                memory_limit=memory if own_limit is None else own_limit,
            )
            result = result_of(asked, runtime)
        self._lock.confirm(surely=True)
        save_by(runtime, result, self.folder.result, overwrite=True)


def drive(path: str, topic: str) -> None:
    """Execute the run in the folder at `path` as a Dask task; log events under `topic`.

    The task does not occupy a thread of its worker.
    """
    from distributed import get_worker, worker_client

    from dhsic.runtime.dask import DaskRuntime

    memory, folder = get_worker().memory_manager.memory_limit, Folder(path)
    with (
        worker_client(separate_thread=True) as client,
        folder.driven() as lock,
        folder.clean_scratch() as scratch,
        closing(DaskRuntime(client, scratch=scratch)) as runtime,
    ):

        def tell(event: Mapping[str, Any]) -> None:
            with suppress(*LOST):
                client.log_event(topic, dict(event))

        driver = Driver(folder, lock, tell)
        driver.conduct(
            runtime, memory=memory, is_connected=lambda: bool(client.status == "running")
        )


def drive_here(folder: Folder, n_threads: int | None) -> None:
    """Execute the run in a folder on threads of this process."""
    with folder.driven() as lock, Threads(n_threads) as runtime:
        folder.want_stop(wanted=False)
        folder.say(Status("waiting"))
        Driver(folder, lock).conduct(runtime)


# How a driver is started -------------------------------------------------------------------


def name_of(id: str) -> str:  # noqa: A002  # as users call it
    """Return the name under which a run is published on a cluster."""
    return f"dhsic-{id}"


def send(
    request: Request | None,
    folder: Folder,
    *,
    client: Any = None,
    scheduler: str | None = None,
    security: Any = None,
) -> Any:
    """Start the driver of the run in a folder on a cluster.

    `request` is stored in the folder first. If it is None, the request in the folder is continued;
    no driver may be executing it. Returns the client that was passed or is active, or None if a
    client was created for `scheduler`.
    """
    from distributed import fire_and_forget

    if request is not None:
        arrays_of(request)
        plain_request(request)
        request.selector.check()
    with introduced(folder, client, scheduler, security) as found:
        if request is not None:
            _take(folder, request)
        folder.want_stop(wanted=False)
        folder.say(Status("waiting", found.scheduler.address))
        name, path = name_of(folder.request().id), str(folder.path)
        with suppress(KeyError):
            found.unpublish_dataset(name)
        _forget(found)
        key = f"{name}-{secrets.token_hex(4)}"
        driver = sealed(drive, path, name)
        future = found.submit(*driver, key=key, pure=False, retries=RETRIES, priority=10)
        fire_and_forget(future)
        found.publish_dataset((path, future, time.time()), name=name)
        return found if client is not None or scheduler is None else None


def _forget(client: Client) -> None:
    """Remove the names, tasks and events of the oldest ended drivers from the scheduler."""
    names = [name for name in client.list_datasets() if NAMES.fullmatch(str(name))]
    if len(names) < REMEMBERED:
        return
    ended = []
    for name in names:
        with suppress(KeyError, ValueError, *LOST):
            _, future, sent = client.get_dataset(name)
            if _state(future) != "pending":
                ended.append((sent, name))
    old = [name for _, name in sorted(ended)[: -REMEMBERED + 1]]  # one is about to be added
    for name in old:
        client.unpublish_dataset(name)
    with suppress(AttributeError, ValueError, *LOST):  # a scheduler may refuse to run functions
        client.run_on_scheduler(silence, old)


def _state(future: Future[Any]) -> str:
    """Return the state of a future of another client.

    If the future is pending, this waits for at most `TOLD` seconds.
    """
    deadline = time.monotonic() + TOLD
    while future.status == "pending" and time.monotonic() < deadline:
        time.sleep(0.02)
    return str(future.status)


def published(client: Client, run: str) -> tuple[str, Future[Any]] | None:
    """Return the folder of the run with this id, and the future of its driver.

    The result is None if the cluster has no such run.
    """
    if client.status != "running":
        return None
    try:
        folder, future, _ = client.get_dataset(name_of(run))
    except (KeyError, *LOST):
        return None
    _state(future)
    return str(folder), future


def _take(folder: Folder, request: Request) -> None:
    """Store a request in a folder.

    Raises
    ------
    CheckpointError
        The folder contains another run, or its run is being executed.
    """
    with Checkpoint(folder.path) as kept, Threads(1) as nothing:
        kept.begin(request.new_run(nothing).identity())
        if folder.is_driven():
            raise CheckpointError(
                f"Another run is using {folder.path}. Follow it with `dhsic attach`, stop it with "
                "`dhsic cancel` (in Python, dhsic.attach and Run.cancel), or pass another folder."
            )
        folder.keep(request)


@contextmanager
def introduced(folder: Folder, client: Any, scheduler: str | None, security: Any) -> Iterator[Any]:
    """Context that yields a client of a cluster whose workers can access the checkpoint.

    Raises
    ------
    ClusterError
        There is no cluster, or a worker cannot access the checkpoint.
    """
    from dhsic.runtime.dask import DaskRuntime

    place, new_folder = folder.store, None
    if isinstance(place, FileStore):  # it may not exist yet
        check_place(place.path, "The checkpoint", CheckpointError)
        place = FileStore(place.path.parent)
        new_folder = None if place.is_there() else place.path
        place.path.mkdir(exist_ok=True)
    try:
        with DaskRuntime(client, scheduler, security=security) as runtime:
            _check_reach(place, runtime.client)
            yield runtime.client
    except DhsicError:
        if new_folder is not None:
            with suppress(OSError):  # the folder is no longer empty
                new_folder.rmdir()
        raise


def _check_reach(place: AbstractStore, client: Any) -> None:
    """Raise ClusterError unless this process and each worker can read each other's files.

    Test files in the store `place` are used.
    """
    sign, token = f"{MOMENTARY}{secrets.token_hex(8)}", secrets.token_hex(8)
    place.write(f"{sign}/ours", token.encode())
    try:
        for worker, reply in _answers(client, str(place.path), sign).items():
            name, why = reply
            if not why and place.read_all([name]) == {name: token.encode()}:
                continue
            if isinstance(place, FileStore):
                raise ClusterError(
                    f"Not all workers of {client!r} can access {place.path}, the folder of the "
                    "checkpoint. A detached run is monitored through its checkpoint. Choose a "
                    "folder that this process and all workers share under the same path."
                )
            raise ClusterError(
                f"Worker {worker} cannot access {place.path}: "
                f"{why or 'it sees different contents'}. A detached run is monitored through its "
                "checkpoint. Set the credentials in the environment of all workers and install "
                "dhsic[cloud] there, or choose a folder that all workers share."
            )
    finally:
        place.remove(sign)


def _answers(client: Client, path: str, sign: str) -> dict[str, tuple[str, str]]:
    """Execute `answer` on every worker; return the results by address of the worker.

    Workers that left the cluster are omitted.
    """
    from dhsic.runtime.clients import of_each_worker

    futures = of_each_worker(client, f"dhsic-ask-{secrets.token_hex(8)}", answer, path, sign)
    answers, deadline = {}, time.monotonic() + WRITING
    for worker, future in futures.items():
        try:
            answers[worker] = future.result(timeout=max(deadline - time.monotonic(), 0.1))
        except TimeoutError as error:
            if worker in client.nthreads():
                raise ClusterError(
                    f"No worker of {client!r} was free within {WRITING:g} s. Submit again when "
                    "other work on the cluster has ended, or add workers. If workers have just "
                    "started, submit again: they need time to import dhsic."
                ) from error
        except CancelledError:
            continue
    return answers


def answer(path: str, sign: str) -> tuple[str, str]:
    """Copy the test file of `_check_reach` on a worker.

    Returns the name of the copy, and an error message; "" if there is no error.
    """
    name = f"{sign}/{secrets.token_hex(8)}"
    try:
        place = store_at(path)
        place.write(name, place.read(f"{sign}/ours"))
    except Exception as error:  # the caller reports any error
        return name, f"{type(error).__name__}: {str(error).rstrip('.')}"
    return name, ""

"""The driver: the loop of a run, on a worker of a cluster or on threads of this process.

It works from the folder alone, so it goes on wherever and whenever it is started again. One driver
writes; what it learns goes to the folder first and then, as events, to whoever listens.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from dhsic.detached.folder import ENDS, Folder, Status
from dhsic.errors import DhsicError, StoreError
from dhsic.results import save
from dhsic.runtime.base import AbstractRuntime
from dhsic.runtime.threads import Threads
from dhsic.storage.lock import AbstractLock
from dhsic.storage.store import LostError

LOOKS = 0.5  # seconds between looks whether the run shall stop
KEPT = ("round", "n_features", "n_removed", "n_added", "hsic", "sigma", "engine")

Tell = Callable[[Mapping[str, Any]], object]


class StoppedError(DhsicError):
    """Somebody wants the run to stop."""


class Stop:
    """Whether the folder of a run says that it shall stop: it is asked between two results."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._looked = -LOOKS

    def look(self) -> None:
        """Stop if somebody wants it; a folder is looked at now and then only."""
        if time.monotonic() - self._looked >= LOOKS * self._folder.store.rarer:
            self.look_now()

    def look_now(self) -> None:
        """Stop if somebody wants it."""
        self._looked = time.monotonic()
        if self._folder.stop_wanted:
            raise StoppedError


@dataclass
class Pace:
    """Notes and tells every round; time goes on from where the last driver stopped.

    Attributes
    ----------
    look : callable
        What raises if the run shall stop: where few features are left no task may run.
    """

    folder: Folder
    tell: Tell
    look: Callable[[], object]
    lock: AbstractLock

    def __post_init__(self) -> None:
        self._began = time.monotonic() - float(self.folder.progress.get("seconds", 0.0))

    def __call__(self, record: Mapping[str, Any]) -> None:
        """Note a round; `record` as of `dhsic.progress.Progress`."""
        left = int(record.get("n_features", 0))
        left -= int(record.get("n_removed", record.get("n_added", 0)))
        note = {
            "round": int(record["round"]),
            "features_left": left,
            "features_done": int(record["features_done"]),
            "features_total": int(record["features_total"]),
            "seconds": time.monotonic() - self._began,
            "record": {key: record[key] for key in KEPT if key in record},
        }
        self.lock.confirm()
        self.folder.note(note)
        self.tell({"event": "round", **note})
        self.look()


def conduct(
    folder: Folder,
    lock: AbstractLock,
    runtime: AbstractRuntime,
    tell: Tell,
    *,
    memory: int | None = None,
    is_connected: Callable[[], bool] = lambda: True,
) -> None:
    """Do the run of a folder from where it is; the caller holds its lock.

    How it ends is said in the folder. An error while the cluster or the object store is gone is
    none of the run, nor is that another driver has followed: it is raised, and the run stays as
    it is for the next driver.
    """
    before = folder.status
    if before.state in ENDS:  # the worker that kept the driver's return died, not the run
        return
    running, stop = replace(before, state="running"), Stop(folder)
    folder.say(running)
    tell({"event": "running"})
    try:
        stop.look()
        with runtime.heeding(stop.look):
            asked = folder.request()
            asked.selector.set_params(
                checkpoint=str(folder.path),
                progress=Pace(folder, tell, stop.look_now, lock),
                memory=memory if asked.selector.memory is None else asked.selector.memory,
            )
            result = asked.run(runtime)
        lock.confirm(surely=True)
        save(result, folder.result, overwrite=True)
        end = replace(running, state="done")
    except (LostError, StoreError):
        raise
    except StoppedError:
        end = replace(running, state="cancelled")
    except Exception as error:
        if not is_connected():
            raise
        end = failed(running, error)
    lock.confirm(surely=True)
    folder.say(end)
    tell({"event": end.state, "message": end.message})


def failed(running: Status, error: Exception) -> Status:
    """Say why: the sentence of an error of ours, the class too of any other."""
    kind = type(error).__name__
    message = str(error) if isinstance(error, DhsicError) else f"{kind}: {error}"
    return replace(running, state="failed", kind=kind, message=message)


def drive(path: str, topic: str) -> None:
    """Do the run of a folder: the task of a cluster."""
    from dhsic.runtime.driving import worker_session

    folder = Folder(path)
    with (
        worker_session() as session,
        folder.driven() as lock,
        folder.clean_scratch() as scratch,
        closing(session.runtime(scratch)) as runtime,
    ):
        conduct(
            folder,
            lock,
            runtime,
            partial(session.tell, topic),
            memory=session.memory,
            is_connected=session.is_connected,
        )


def nobody(event: Mapping[str, Any]) -> None:
    """Whom a run on threads tells: its folder says it all."""


def drive_here(folder: Folder, n_threads: int | None) -> None:
    """Do the run of a folder on threads of this process."""
    with folder.driven() as lock, Threads(n_threads) as runtime:
        folder.want_stop(wanted=False)
        folder.say(Status("waiting"))
        conduct(folder, lock, runtime, nobody)

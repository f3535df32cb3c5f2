"""What a detached run keeps with its checkpoint: the truth, whoever asks and from where.

Beside what `dhsic.storage.checkpoint` keeps::

    run.dhsic/
      detached/request.json   what was asked for; labels in labels.npz
      detached/status.json    how far it has come, replaced atomically by the one driver
      detached/progress.json  the last round that ended, likewise
      detached/lock           held by the driver; it is free, sooner or later, when he dies
      detached/stop           there when somebody wants the run to stop
      detached/scratch/       states and survivors of the driver, in a folder
      result.zarr             the result
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from dhsic.detached.request import arrays_of, plain_request, request_of
from dhsic.errors import CheckpointError
from dhsic.selectors.request import Request
from dhsic.storage.checkpoint import DETACHED
from dhsic.storage.format import plain
from dhsic.storage.lock import AbstractLock, lock_of
from dhsic.storage.store import FileStore, store_at

FORMAT = 1
#: States that a run stays in until somebody resumes it.
ENDS = ("done", "failed", "cancelled")
REQUEST, LABELS = f"{DETACHED}/request.json", f"{DETACHED}/labels.npz"
STATUS, PROGRESS = f"{DETACHED}/status.json", f"{DETACHED}/progress.json"
STOP, LOCK, SCRATCH = f"{DETACHED}/stop", f"{DETACHED}/lock", f"{DETACHED}/scratch"
LOCK_WAIT = 120.0  # seconds for a driver that lost its seat to notice and let go


@dataclass(frozen=True)
class Status:
    """What the driver, or whoever sent it, last said.

    Attributes
    ----------
    state : {"waiting", "running", "done", "failed", "cancelled"}
        Said, not checked: a driver that is killed says nothing.
    scheduler : str or None
        Where the driver was sent; None for threads.
    kind, message : str
        Class of the error of a failed run, and its sentence.
    """

    state: str
    scheduler: str | None = None
    kind: str = ""
    message: str = ""


class Folder:
    """The folder of a run, or the part of an object store.

    Parameters
    ----------
    path : path or URL
        The checkpoint.
    """

    def __init__(self, path: str | Path) -> None:
        self.store = store_at(path)
        if isinstance(self.store, FileStore):
            self.store = FileStore(self.store.path.absolute())
        self.path = self.store.path
        self._lock = lock_of(self.store, LOCK)

    @property
    def result(self) -> str:
        """Where the result is."""
        return f"{self.path}/result.zarr"

    def keep(self, request: Request) -> None:
        """Write a request; what was there from an earlier one goes."""
        data = BytesIO()
        np.savez(data, allow_pickle=False, **arrays_of(request))
        labels = data.getvalue()
        self.store.write(LABELS, labels)
        digest = hashlib.sha256(labels).hexdigest()
        self._write(REQUEST, {"format": FORMAT, "sha256": digest, **plain_request(request)})
        self.store.remove(PROGRESS)

    def request(self) -> Request:
        """What was asked for.

        Raises
        ------
        CheckpointError
            No run was detached here, by another dhsic, or its files are damaged.
        """
        content = dict(self._read(REQUEST))
        if not content:
            raise CheckpointError(
                f"{self.path} keeps no run that was submitted to a cluster. Pass the folder given "
                "as checkpoint= to dhsic.submit."
            )
        if content.pop("format") != FORMAT:
            raise CheckpointError(
                f"The run in {self.path} was submitted by a newer dhsic. Upgrade this one."
            )
        digest = content.pop("sha256")
        return request_of(content, self._labels(digest))

    def _labels(self, digest: str) -> dict[str, Any]:
        path = f"{self.path}/{LABELS}"
        try:
            data = self.store.read(LABELS)
        except OSError as error:
            raise CheckpointError(f"{path} cannot be read ({error}). Submit again.") from error
        if hashlib.sha256(data).hexdigest() != digest:
            raise CheckpointError(
                f"{path} is damaged: its sha256 differs. Submit again with the same data and "
                "parameters; the rounds that are done stay."
            )
        with np.load(BytesIO(data), allow_pickle=False) as arrays:
            return dict(arrays)

    @property
    def is_detached(self) -> bool:
        """Whether a run was submitted with this checkpoint."""
        return self.store.has(REQUEST)

    @property
    def status(self) -> Status:
        """What was last said."""
        return Status(**{"state": "waiting", **self._read(STATUS)})

    def say(self, status: Status) -> None:
        """Say how far it has come."""
        self._write(STATUS, asdict(status))

    @property
    def progress(self) -> dict[str, Any]:
        """Last round that ended, see `dhsic.detached.driver.Pace`; empty before the first."""
        return self._read(PROGRESS)

    def note(self, progress: Mapping[str, Any]) -> None:
        """Note a round, without waiting for the disk: the checkpoint keeps what counts."""
        self._write(PROGRESS, progress, sync=False)

    @property
    def stop_wanted(self) -> bool:
        """Whether somebody wants the run to stop."""
        return self.store.has(STOP)

    def want_stop(self, *, wanted: bool = True) -> None:
        """Want it to stop, or not any more."""
        if wanted:
            self.store.write(STOP, b"", sync=False)
        else:
            self.store.remove(STOP)

    def is_driven(self) -> bool:
        """Whether a driver holds the lock now."""
        return self._lock.is_taken()

    @contextmanager
    def driven(self) -> Iterator[AbstractLock]:
        """Hold the lock, waiting for one who has lost his seat and not yet noticed."""
        lock, deadline = lock_of(self.store, LOCK), time.monotonic() + LOCK_WAIT
        while not lock.held:
            try:
                lock.take()
            except CheckpointError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
        try:
            yield lock
        finally:
            lock.release()

    @contextmanager
    def clean_scratch(self) -> Iterator[Path]:
        """An empty folder for the driver, without what a dead one left; it goes when he does.

        A run at a URL has one on the machine of the driver.
        """
        if not isinstance(self.store, FileStore):
            with tempfile.TemporaryDirectory(prefix="dhsic-driver-") as name:
                yield Path(name)
            return
        scratch = self.store.path / SCRATCH
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        try:
            yield scratch
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def _write(self, name: str, content: Mapping[str, Any], *, sync: bool = True) -> None:
        text = json.dumps(plain(dict(content)), indent=1)
        self.store.write(name, text.encode(), sync=sync)

    def _read(self, name: str) -> dict[str, Any]:
        try:
            return dict(json.loads(self.store.read(name)))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise CheckpointError(
                f"{self.path}/{name} is damaged ({error}). Submit again with the same data and "
                "parameters; the rounds that are done stay."
            ) from error

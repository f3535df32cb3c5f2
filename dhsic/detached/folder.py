"""What a detached run keeps in its checkpoint folder: the truth, whoever asks and from where.

Beside what `dhsic.checkpoint` keeps::

    run.dhsic/
      detached/request.json   what was asked for; labels in labels.npz
      detached/status.json    how far it has come, replaced atomically by the one driver
      detached/progress.json  the last round that ended, likewise
      detached/lock           held by the driver, freed by the kernel when it dies
      detached/stop           there when somebody wants the run to stop
      detached/scratch/       states and survivors of the driver
      result.zarr             the result
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from dhsic.detached.request import Request
from dhsic.durable import WriterLock, aside, plain, switch, write
from dhsic.errors import CheckpointError

FORMAT = 1
#: States that a run stays in until somebody resumes it.
ENDS = ("done", "failed", "cancelled")
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
    """The folder of a run.

    Parameters
    ----------
    path : path
        The checkpoint.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).absolute()
        self.own = self.path / "detached"
        self.result = self.path / "result.zarr"
        self.scratch = self.own / "scratch"
        self._stop = self.own / "stop"

    def keep(self, request: Request) -> None:
        """Write a request; what was there from an earlier one goes."""
        self.own.mkdir(exist_ok=True)
        data = BytesIO()
        np.savez(data, allow_pickle=False, **request.arrays())
        labels = data.getvalue()
        write(self.own / "labels.npz", labels)
        digest = hashlib.sha256(labels).hexdigest()
        self._write("request", {"format": FORMAT, "sha256": digest, **request.plain()})
        (self.own / "progress.json").unlink(missing_ok=True)

    def request(self) -> Request:
        """What was asked for.

        Raises
        ------
        CheckpointError
            No run was detached here, by another dhsic, or its files are damaged.
        """
        content = dict(self._read("request"))
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
        return Request(**content | self._labels(digest))

    def _labels(self, digest: str) -> dict[str, Any]:
        path = self.own / "labels.npz"
        try:
            data = path.read_bytes()
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
        return (self.own / "request.json").exists()

    @property
    def status(self) -> Status:
        """What was last said."""
        return Status(**{"state": "waiting", **self._read("status")})

    def say(self, status: Status) -> None:
        """Say how far it has come."""
        self._write("status", asdict(status))

    @property
    def progress(self) -> dict[str, Any]:
        """Last round that ended, see `dhsic.detached.driver.Pace`; empty before the first."""
        return self._read("progress")

    def note(self, progress: Mapping[str, Any]) -> None:
        """Note a round, without waiting for the disk: the checkpoint keeps what counts."""
        path = self.own / "progress.json"
        aside(path).write_text(json.dumps(plain(dict(progress))))
        aside(path).replace(path)

    @property
    def stop_wanted(self) -> bool:
        """Whether somebody wants the run to stop."""
        return self._stop.exists()

    def want_stop(self, *, wanted: bool = True) -> None:
        """Want it to stop, or not any more."""
        if wanted:
            self._stop.touch()
        else:
            self._stop.unlink(missing_ok=True)

    def is_driven(self) -> bool:
        """Whether a driver holds the lock now."""
        lock = WriterLock(self.own)
        if not lock.path.exists():
            return False
        try:
            lock.take()
        except CheckpointError:
            return True
        except OSError:  # who may only read cannot tell
            return False
        lock.release()
        return False

    @contextmanager
    def driven(self) -> Iterator[None]:
        """Hold the lock, waiting for one who has lost his seat and not yet noticed."""
        lock, deadline = WriterLock(self.own), time.monotonic() + LOCK_WAIT
        while not lock.held:
            try:
                lock.take()
            except CheckpointError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
        try:
            yield
        finally:
            lock.release()

    @contextmanager
    def clean_scratch(self) -> Iterator[Path]:
        """An empty folder for the driver, without what a dead one left; it goes when he does."""
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.scratch.mkdir()
        try:
            yield self.scratch
        finally:
            shutil.rmtree(self.scratch, ignore_errors=True)

    def _write(self, name: str, content: Mapping[str, Any]) -> None:
        switch(self.own / f"{name}.json", json.dumps(plain(dict(content)), indent=1).encode())

    def _read(self, name: str) -> dict[str, Any]:
        path = self.own / f"{name}.json"
        try:
            return dict(json.loads(path.read_bytes()))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise CheckpointError(
                f"{path} is damaged ({error}). Submit again with the same data and parameters; "
                "the rounds that are done stay."
            ) from error

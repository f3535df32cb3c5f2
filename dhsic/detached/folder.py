"""What a detached run keeps with its checkpoint: the truth, whoever asks and from where.

The request is plain data, so that any process can do it. Beside what `dhsic.storage.checkpoint`
keeps::

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
from dataclasses import asdict, dataclass, fields
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from dhsic import kernels
from dhsic._typing import Array
from dhsic.errors import CheckpointError, InputError
from dhsic.joins.filtered import Filtered
from dhsic.kernels.base import AbstractKernel
from dhsic.selection.request import Request
from dhsic.selection.run import Groups
from dhsic.selectors import method_of, selector_of
from dhsic.storage import store_at
from dhsic.storage.checkpoint import DETACHED
from dhsic.storage.folder import FileStore
from dhsic.storage.format import plain
from dhsic.storage.lock import AbstractLock, lock_of

FORMAT = 1
#: States that a run stays in until somebody resumes it.
ENDS = ("done", "failed", "cancelled")
REQUEST, LABELS = f"{DETACHED}/request.json", f"{DETACHED}/labels.npz"
STATUS, PROGRESS = f"{DETACHED}/status.json", f"{DETACHED}/progress.json"
STOP, LOCK, SCRATCH = f"{DETACHED}/stop", f"{DETACHED}/lock", f"{DETACHED}/scratch"
LOCK_WAIT = 120.0  # seconds for a driver that lost its seat to notice and let go
#: Fields of a request that are kept as they are, and how its data are opened.
FIELDS = ("id", "n_samples", "device", "job", "attributes")
OPENING = (
    *("variable", "sample_dim", "missing_code", "missing_chunks", "ploidy_policy", "pass_only"),
    *("not_features", "na"),
)
#: Parameters that whoever does the run chooses: none of a request that is kept.
OF_DRIVERS = ("checkpoint", "progress", "runtime")
#: Bytes of labels and the like that a request may carry.
MOST_BYTES = 256 * 2**20


@dataclass(frozen=True)
class Status:
    """What the driver, or whoever sent it, last said."""

    #: "waiting", "running", "done", "failed" or "cancelled": said, not checked, for a driver that
    #: is killed says nothing.
    state: str = "waiting"
    scheduler: str | None = None  # where the driver was sent; None for threads
    driver: str = ""  # the process that has the loop of a running one
    kind: str = ""  # class of the error of a failed run,
    message: str = ""  # and its sentence


class Folder:
    """The folder of a run, or the part of an object store: its checkpoint."""

    def __init__(self, path: Any) -> None:
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
        """What was asked for; a sentence where no run was detached, or its files are damaged."""
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
        return Status(**self._read(STATUS))

    def say(self, status: Status) -> None:
        """Say how far it has come."""
        self._write(STATUS, asdict(status))

    @property
    def progress(self) -> dict[str, Any]:
        """Last round that ended, as of `Driver.note`; empty before the first."""
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


# A request as plain data -------------------------------------------------------------------


def plain_request(request: Request) -> dict[str, Any]:
    """All but the arrays, for JSON."""
    method, n_features, parameters = method_of(request.selector)
    given = {k: v for k, v in parameters.items() if k not in OF_DRIVERS}
    return {
        **{name: getattr(request, name) for name in FIELDS},
        **request.opening,
        "path": request.data,
        "left_out": dict(request.filtered.left_out),
        "method": method,
        "n_features": n_features,
        "parameters": plain_parameters(given),
    }


def arrays_of(request: Request) -> dict[str, Array]:
    """Arrays of a request, those that there are, by name; refuse large ones and mixed ones."""
    groups = request.feature_groups
    given = {
        "y": request.y,
        "covariates": request.covariates,
        "rows": request.rows,
        "kept_samples": request.filtered.samples,
        "kept_features": request.filtered.features,
        "groups": None if groups is None else groups.names[groups.codes],
    }
    out = {name: _storable(name, a) for name, a in given.items() if a is not None}
    size = sum(array.nbytes for array in out.values())
    if size > MOST_BYTES:
        raise InputError(
            f"Labels, covariates and groups take {size / 2**20:.0f} MiB, and a run on the "
            f"cluster carries at most {MOST_BYTES / 2**20:.0f} MiB of them. Pass fewer "
            "columns, or call dhsic.select."
        )
    return out


def request_of(kept: Mapping[str, Any], arrays: Mapping[str, Array]) -> Request:
    """Request that `plain_request` and `arrays_of` made plain."""
    groups = arrays.get("groups")
    return Request(
        selector_of(kept["method"], kept["n_features"], as_parameters(kept["parameters"])),
        kept["path"],
        y=arrays.get("y"),
        covariates=arrays.get("covariates"),
        rows=arrays.get("rows"),
        feature_groups=None if groups is None else Groups.of(groups, len(groups)),
        opening={name: kept[name] for name in OPENING if name in kept},
        filtered=Filtered(
            arrays.get("kept_samples"), arrays.get("kept_features"), kept.get("left_out", {})
        ),
        **{name: kept[name] for name in FIELDS if name in kept},
    )


def _storable(name: str, values: Array) -> Array:
    """An array that is read without unpickling: numbers, or text."""
    array = np.asarray(values)
    if array.dtype.kind != "O":
        return array
    if all(isinstance(value, str) for value in array.flat):
        return array.astype(str)
    raise InputError(
        f"{name} hold objects of several types, and what a run keeps on disk is numbers or text. "
        "Pass an array of numbers or of text."
    )


def plain_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of a method as plain data; `as_parameters` gives them back.

    >>> from dhsic.kernels import Polynomial
    >>> plain_parameters({"kernel": Polynomial(3), "step": 0.2})
    {'kernel': {'kernel': 'Polynomial', 'settings': {'degree': 3, 'offset': 1.0}}, 'step': 0.2}
    """
    out = {}
    for name, value in parameters.items():
        try:
            out[name] = plain(_plain(value))
        except TypeError as error:
            raise InputError(
                f"{name}={value!r} cannot be kept as plain data, which a run that outlives its "
                "caller needs. Pass names and numbers, or a kernel of dhsic.kernels."
            ) from error
    return out


def _plain(value: Any) -> Any:
    if isinstance(value, AbstractKernel):
        name = type(value).__name__
        if getattr(kernels, name, None) is not type(value):
            raise TypeError(f"{value!r} is no kernel of ours")
        told: Any = value  # a data class, all of them
        settings = {f.name: _plain(getattr(told, f.name)) for f in fields(told) if f.init}
        return {"kernel": name, "settings": settings}
    return value.name if isinstance(value, np.dtype) else value


def as_parameters(given: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters that `plain_parameters` made plain."""
    return {name: _as_given(value) for name, value in given.items()}


def _as_given(value: Any) -> Any:
    if not (isinstance(value, dict) and value.keys() == {"kernel", "settings"}):
        return value
    if value["kernel"] not in kernels.__all__:
        raise CheckpointError(
            f"A run was asked for with the kernel {value['kernel']!r}, which this dhsic does not "
            "know. Upgrade dhsic."
        )
    return getattr(kernels, value["kernel"])(**as_parameters(value["settings"]))

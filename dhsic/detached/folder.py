"""Files of a detached run: request, status and lock, stored with its checkpoint.

The request is plain data, so that any process can execute it. In addition to the files of
`dhsic.storage.checkpoint`, the folder contains::

    run.dhsic/
      detached/request.json   method, parameters and data; labels in labels.npz
      detached/status.json    state of the run, replaced atomically by the driver
      detached/progress.json  record of the last finished round, also replaced atomically
      detached/lock           lock of the driver, which expires after the driver dies
      detached/stop           exists if a user asked the run to stop
      detached/scratch/       scratch files of the driver: states and copies of remaining features
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
from dhsic.kernels.ordinal import is_ordinal, levels_of, names_of_levels
from dhsic.linalg.blocks import Blocks
from dhsic.methods import method_of, selector_of
from dhsic.selection.request import Request
from dhsic.selection.run import Groups
from dhsic.storage import store_at
from dhsic.storage.checkpoint import DETACHED
from dhsic.storage.folder import FileStore
from dhsic.storage.format import plain
from dhsic.storage.lock import AbstractLock, lock_of

FORMAT = 1
#: Final states of a run, until it is resumed.
ENDS = ("done", "failed", "cancelled")
REQUEST, LABELS = f"{DETACHED}/request.json", f"{DETACHED}/labels.npz"
STATUS, PROGRESS = f"{DETACHED}/status.json", f"{DETACHED}/progress.json"
STOP, LOCK, SCRATCH = f"{DETACHED}/stop", f"{DETACHED}/lock", f"{DETACHED}/scratch"
LOCK_WAIT = 120.0  # seconds for a replaced driver to notice and release the lock
#: Fields of a request that are stored unchanged, and options for opening its data.
FIELDS = ("id", "n_samples", "device", "job", "attributes")
OPENING = (
    *("variable", "sample_dim", "missing_code", "missing_chunks", "ploidy_policy", "pass_only"),
    *("not_features", "na", "categories", "intersect_samples"),
)
#: Parameters that the driver sets; they are not stored in a request.
OF_DRIVERS = ("checkpoint", "progress", "runtime")
#: Largest size in bytes of the labels and other arrays of a request.
MOST_BYTES = 256 * 2**20


@dataclass(frozen=True)
class Status:
    """Status of a run, as last written by its driver or by `send`."""

    #: "waiting", "running", "done", "failed" or "cancelled". May be out of date, because a driver
    #: that is killed cannot write it.
    state: str = "waiting"
    scheduler: str | None = None  # address of the driver's cluster; None for threads
    driver: str = ""  # description of the process that executes a running run
    kind: str = ""  # class of the error of a failed run
    message: str = ""  # message of that error


class Folder:
    """Checkpoint of a detached run: a folder, or a prefix of an object store."""

    def __init__(self, path: Any) -> None:
        self.store = store_at(path)
        if isinstance(self.store, FileStore):
            self.store = FileStore(self.store.path.absolute())
        self.path = self.store.path
        self._lock = lock_of(self.store, LOCK)

    @property
    def result(self) -> str:
        """Path or URL of the result of the run."""
        return f"{self.path}/result.zarr"

    def keep(self, request: Request) -> None:
        """Store a request.

        It replaces an earlier request and its progress.
        """
        data = BytesIO()
        np.savez(data, allow_pickle=False, **arrays_of(request))
        labels = data.getvalue()
        self.store.write(LABELS, labels)
        digest = hashlib.sha256(labels).hexdigest()
        self._write(REQUEST, {"format": FORMAT, "sha256": digest, **plain_request(request)})
        self.store.remove(PROGRESS)

    def request(self) -> Request:
        """Read the stored request; raises CheckpointError if it is missing or damaged."""
        content = dict(self._read(REQUEST))
        if not content:
            raise CheckpointError(
                f"{self.path} contains no detached run. Pass the folder that was passed as "
                "checkpoint= to dhsic.submit."
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
                "parameters; the completed rounds are kept."
            )
        with np.load(BytesIO(data), allow_pickle=False) as arrays:
            return dict(arrays)

    @property
    def is_detached(self) -> bool:
        """Whether a run was submitted with this checkpoint."""
        return self.store.has(REQUEST)

    @property
    def status(self) -> Status:
        """Status of the run, as last written."""
        return Status(**self._read(STATUS))

    def say(self, status: Status) -> None:
        """Write the status of the run."""
        self._write(STATUS, asdict(status))

    @property
    def progress(self) -> dict[str, Any]:
        """Return the record of progress after the last finished round; empty before the first.

        `Driver.note` writes it.
        """
        return self._read(PROGRESS)

    def note(self, progress: Mapping[str, Any]) -> None:
        """Write the progress after a round.

        There is no fsync, because the checkpoint contains the durable state.
        """
        self._write(PROGRESS, progress, sync=False)

    @property
    def stop_wanted(self) -> bool:
        """Whether a user requested a stop of the run."""
        return self.store.has(STOP)

    def want_stop(self, *, wanted: bool = True) -> None:
        """Request the run to stop; ``wanted=False`` withdraws the request."""
        if wanted:
            self.store.write(STOP, b"", sync=False)
        else:
            self.store.remove(STOP)

    def is_driven(self) -> bool:
        """Whether a driver holds the lock now."""
        return self._lock.is_taken()

    @contextmanager
    def driven(self) -> Iterator[AbstractLock]:
        """Context that holds the lock of the driver, and yields it.

        If a driver that was replaced still holds the lock, the context waits for up to `LOCK_WAIT`
        seconds.
        """
        lock, deadline = lock_of(self.store, LOCK), time.monotonic() + LOCK_WAIT
        while not lock.is_held:
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
        """Context that yields an empty scratch folder for the driver, and removes it at the end.

        If the checkpoint is a URL, the scratch folder is on the driver's machine.
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
                "parameters; the completed rounds are kept."
            ) from error


# A request as plain data -------------------------------------------------------------------


def plain_request(request: Request) -> dict[str, Any]:
    """Return a request without its arrays, as plain data for JSON."""
    method, n_features, parameters = method_of(request.selector)
    stored_parameters = {k: v for k, v in parameters.items() if k not in OF_DRIVERS}
    return {
        **{name: getattr(request, name) for name in FIELDS},
        **request.opening,
        "path": request.data,
        "left_out": dict(request.filtered.left_out),
        "method": method,
        "n_features": n_features,
        "parameters": plain_parameters(stored_parameters),
    }


def arrays_of(request: Request) -> dict[str, Array]:
    """Return the arrays of a request by name; raises InputError if they cannot be stored."""
    groups, y, levels = request.feature_groups, request.y, None
    if y is not None and is_ordinal(y.ravel()):
        levels, y = np.array(names_of_levels(y.ravel())), y.astype(np.int64)
    arrays = {
        "y": y,
        "levels": levels,
        "covariates": request.covariates,
        "sample_weight": request.sample_weight,
        "rows": request.rows,
        "kept_samples": request.filtered.samples,
        "kept_features": request.filtered.features,
        "permute_whole": None if request.blocks is None else request.blocks.whole,
        "permute_within": None if request.blocks is None else request.blocks.within,
        "groups": None if groups is None else groups.names[groups.codes],
    }
    out = {name: _storable(name, a) for name, a in arrays.items() if a is not None}
    size = sum(array.nbytes for array in out.values())
    if size > MOST_BYTES:
        raise InputError(
            f"Labels, covariates and groups need {size / 2**20:.0f} MiB, but a detached run "
            f"supports at most {MOST_BYTES / 2**20:.0f} MiB. Pass fewer columns, or call "
            "dhsic.select."
        )
    return out


def request_of(kept: Mapping[str, Any], arrays: Mapping[str, Array]) -> Request:
    """Rebuild a request from the data of `plain_request` and `arrays_of`."""
    groups, y = arrays.get("groups"), arrays.get("y")
    if "levels" in arrays:
        y = levels_of(arrays["y"], arrays["levels"].tolist())
    blocks = Blocks(arrays.get("permute_whole"), arrays.get("permute_within"))
    return Request(
        selector_of(kept["method"], kept["n_features"], as_parameters(kept["parameters"])),
        kept["path"],
        y=y,
        covariates=arrays.get("covariates"),
        sample_weight=arrays.get("sample_weight"),
        rows=arrays.get("rows"),
        blocks=blocks if blocks.options else None,
        feature_groups=None if groups is None else Groups.of(groups, len(groups)),
        opening={name: kept[name] for name in OPENING if name in kept},
        filtered=Filtered(
            arrays.get("kept_samples"), arrays.get("kept_features"), kept.get("left_out", {})
        ),
        **{name: kept[name] for name in FIELDS if name in kept},
    )


def _storable(name: str, values: Array) -> Array:
    """Return values as an array of numbers or text, which can be stored without pickle."""
    array = np.asarray(values)
    if array.dtype.kind != "O":
        return array
    if all(isinstance(value, str) for value in array.flat):
        return array.astype(str)
    raise InputError(
        f"{name} contain objects of several types, but a detached run can only store numbers or "
        "text. Pass an array of numbers or of text."
    )


def plain_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters of a method as plain data; the inverse is `as_parameters`.

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
                f"{name}={value!r} cannot be stored as plain data, which a detached run needs. "
                "Pass names and numbers, or a kernel of dhsic.kernels."
            ) from error
    return out


def _plain(value: Any) -> Any:
    if isinstance(value, AbstractKernel):
        name = type(value).__name__
        if getattr(kernels, name, None) is not type(value):
            raise TypeError(f"{value!r} is not a kernel of dhsic.kernels")
        kernel: Any = value  # every kernel is a dataclass
        settings = {f.name: _plain(getattr(kernel, f.name)) for f in fields(kernel) if f.init}
        return {"kernel": name, "settings": settings}
    return value.name if isinstance(value, np.dtype) else value


def as_parameters(given: Mapping[str, Any]) -> dict[str, Any]:
    """Rebuild parameters from the data of `plain_parameters`."""
    return {name: _as_given(value) for name, value in given.items()}


def _as_given(value: Any) -> Any:
    if not (isinstance(value, dict) and value.keys() == {"kernel", "settings"}):
        return value
    if value["kernel"] not in kernels.__all__:
        raise CheckpointError(
            f"The run uses the kernel {value['kernel']!r}, which this version of dhsic does not "
            "have. Upgrade dhsic."
        )
    return getattr(kernels, value["kernel"])(**as_parameters(value["settings"]))

"""The device that scores features, such as a GPU, chosen by an environment variable.

``DHSIC_DEVICE`` is the name of an array library and, after a colon, one of its devices: ``cupy``,
``cupy:1``, ``torch:cuda``. The process that drives the run reads the variable and sends its value
with the tasks, so that all workers use the same device. The workers need the library and the
device; the driving process of a cluster does not.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np
from array_api_compat import is_cupy_namespace

from dhsic._typing import Array
from dhsic.errors import InputError
from dhsic.namespace import to_namespace

#: Environment variable that names the device.
DEVICE = "DHSIC_DEVICE"

#: Device sent by the process that drives the run; None: the environment variable is used.
_sent: ContextVar[str | None] = ContextVar("dhsic_device", default=None)
#: Array that is moved to a device to check that the device works.
PROBE = np.zeros(1)


@dataclass(frozen=True, eq=False)
class Accelerator:
    """A device of an array library."""

    xp: Any  # the array library
    device: Any  # device as the library's functions accept it; None for the default device
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _last: list[Any] = field(default_factory=list, repr=False)

    def array(self, X: Array) -> Array:
        """Copy an array to the device."""
        return to_namespace(X, self.xp, self.device)

    def state(self, state: Any) -> Any:
        """Move an engine state to the device; the last state is cached for the tasks of a round."""
        with self._lock:
            if not self._last or self._last[0] is not state:
                self._last[:] = state, state.on(self.xp, self.device)
            return self._last[1]


@contextmanager
def scored_on(name: str | None) -> Iterator[None]:
    """Context that uses the device `name` (None: the CPU) and ignores the environment variable."""
    before = _sent.set(name or "")
    try:
        yield
    finally:
        _sent.reset(before)


def wanted_device() -> str | None:
    """Name of the device that scores features; None for the CPU."""
    sent = _sent.get()
    name = (os.environ.get(DEVICE) if sent is None else sent) or None
    if name is not None and not name.partition(":")[0].isidentifier():
        raise InputError(
            f"{DEVICE}={name!r} does not name an array library. Set it to a device such as cupy, "
            "cupy:1 or torch:cuda, or unset it to use the CPU."
        )
    return name


@lru_cache(maxsize=4)
def accelerator(name: str) -> Accelerator:
    """Return the accelerator with this name; raise InputError if it does not work here."""
    library, _, place = name.partition(":")
    try:
        xp = import_module(library)
        device = Accelerator(xp, _device(xp, place))
        device.array(PROBE)
    except Exception as error:  # libraries raise different errors for a missing driver or device
        raise InputError(
            f"{DEVICE}={name!r}, and process {os.getpid()} cannot score there "
            f"({type(error).__name__}: {str(error).rstrip('.')}). Install the library and the "
            "driver of the device on every machine that scores features (on all workers), or unset "
            "the variable."
        ) from error
    return device


def _device(xp: Any, place: str) -> Any:
    """Convert the name of a device to a device of the library `xp`: an object, or the name."""
    if not place:
        return None
    if is_cupy_namespace(xp):
        return xp.cuda.Device(int(place))
    return xp.Device(place) if hasattr(xp, "Device") else place

"""The accelerator that features are scored on, where the environment names one.

``DHSIC_DEVICE`` says the library of arrays and, after a colon, which device of it: ``cupy``,
``cupy:1``, ``torch:cuda``. It is read where the run is driven and travels with the tasks, so that
all workers score alike; they need the library and the device, the driver of a cluster does not.
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
from dhsic.namespace import moved

#: Variable of the environment that names where features are scored.
DEVICE = "DHSIC_DEVICE"

#: What was asked for where a run was sent from; None where the environment here says it.
_sent: ContextVar[str | None] = ContextVar("dhsic_device", default=None)
#: What is sent to a device to see whether it is there.
PROBE = np.zeros(1)


@dataclass(frozen=True, eq=False)
class Accelerator:
    """A device of a library of arrays."""

    xp: Any  # the library
    device: Any  # as its functions take it; None for its own choice
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _last: list[Any] = field(default_factory=list, repr=False)

    def array(self, X: Array) -> Array:
        """Copy of an array there."""
        return moved(X, self.xp, self.device)

    def state(self, state: Any) -> Any:
        """State of an engine there: the last one asked for stays, for the tasks of a round."""
        with self._lock:
            if not self._last or self._last[0] is not state:
                self._last[:] = state, state.on(self.xp, self.device)
            return self._last[1]


@contextmanager
def scored_on(name: str | None) -> Iterator[None]:
    """Score on this device, whatever the environment here says: that of who sent the run counts."""
    before = _sent.set(name or "")
    try:
        yield
    finally:
        _sent.reset(before)


def wanted_device() -> str | None:
    """What features are to be scored on; None for the cores."""
    sent = _sent.get()
    name = (os.environ.get(DEVICE) if sent is None else sent) or None
    if name is not None and not name.partition(":")[0].isidentifier():
        raise InputError(
            f"{DEVICE}={name!r} names no library of arrays; write it like cupy, cupy:1 or "
            "torch:cuda, or leave it out to score on the cores."
        )
    return name


@lru_cache(maxsize=4)
def accelerator(name: str) -> Accelerator:
    """Accelerator of that name, in this process."""
    library, _, place = name.partition(":")
    try:
        xp = import_module(library)
        found = Accelerator(xp, _device(xp, place))
        found.array(PROBE)
    except Exception as error:  # no library, no driver, no such device: each says it its way
        raise InputError(
            f"{DEVICE}={name!r}, and process {os.getpid()} cannot score there "
            f"({type(error).__name__}: {str(error).rstrip('.')}). Install the library and the "
            "driver of the device wherever features are scored, on every worker, or leave the "
            "variable out."
        ) from error
    return found


def _device(xp: Any, place: str) -> Any:
    """A device as the library takes it: an object of its own, or, of torch, its name."""
    if not place:
        return None
    if is_cupy_namespace(xp):
        return xp.cuda.Device(int(place))
    return xp.Device(place) if hasattr(xp, "Device") else place

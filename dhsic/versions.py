"""The versions that a ranking may depend on, down to the last bit of a sum."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.metadata import version
from types import MappingProxyType

VERSION = version("dhsic")
#: Variable of the environment that names where features are scored (`dhsic.accelerator`).
DEVICE = "DHSIC_DEVICE"

#: What was asked for where a run was sent from; None where the environment here says it.
_sent: ContextVar[str | None] = ContextVar("dhsic_device", default=None)


def device() -> str | None:
    """What features are to be scored on; None for the cores."""
    sent = _sent.get()
    return (os.environ.get(DEVICE) if sent is None else sent) or None


@contextmanager
def scored_on(name: str | None) -> Iterator[None]:
    """Score on this device, whatever the environment here says: that of who sent the run counts."""
    before = _sent.set(name or "")
    try:
        yield
    finally:
        _sent.reset(before)


def versions() -> dict[str, str]:
    """Versions of dhsic and of what computes for it, and the device, where there is one."""
    asked = device()
    return {**installed()} if asked is None else {**installed(), "device": asked}


@cache
def installed() -> Mapping[str, str]:
    """Versions of packages, looked up once: that takes as long as a small run."""
    return MappingProxyType({name: version(name) for name in ("dhsic", "numpy", "scipy", "zarr")})

"""The versions that a ranking may depend on, down to the last bit of a sum."""

from __future__ import annotations

import os
from importlib.metadata import version

VERSION = version("dhsic")
#: Variable of the environment that names where features are scored (`dhsic.accelerator`).
DEVICE = "DHSIC_DEVICE"


def versions() -> dict[str, str]:
    """Versions of dhsic and of what computes for it, and the device, where there is one."""
    known = {name: version(name) for name in ("dhsic", "numpy", "scipy", "zarr")}
    device = os.environ.get(DEVICE)
    return known | {"device": device} if device else known

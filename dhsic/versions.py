"""The versions that a ranking may depend on, down to the last bit of a sum."""

from __future__ import annotations

from importlib.metadata import version

VERSION = version("dhsic")


def versions() -> dict[str, str]:
    """Versions of dhsic and of what computes for it."""
    return {name: version(name) for name in ("dhsic", "numpy", "scipy", "zarr")}

"""Rows of a result, as they are written: some features at a time, and by workers where they can.

What a run found out, a few numbers a feature, is where the result is, which writes it. What a store
says of many features (names, alleles) stays there until it is asked for (`dhsic.sources.columns`):
workers that see the place of the result read it, a stretch each, and write it there.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any

import numpy as np
import xarray as xr
import zarr

from dhsic._typing import Array
from dhsic.namespace import slices
from dhsic.runtime.base import AbstractRuntime, Job
from dhsic.sources import AbstractSource
from dhsic.sources.arrays import ArraySource
from dhsic.sources.columns import STRETCH
from dhsic.sources.zarr import create_array

#: Attributes by which a worker knows the result that it is to write to.
SIGNS = ("created", "fingerprint")


def write_variables(
    group: zarr.Group,
    variables: Mapping[str, xr.Variable],
    runtime: AbstractRuntime | None = None,
    place: str | None = None,
) -> None:
    """Write variables to a group; with a runtime, whose workers may see its `place`, by them."""
    made: dict[str, Any] = {}
    for name, of in variables.items():
        chunks = tuple(min(STRETCH, n) if axis == 0 else n for axis, n in enumerate(of.shape))
        dims, dtype = tuple(map(str, of.dims)), str if of.dtype.kind in "OUT" else of.dtype
        made[name] = create_array(
            group, name, shape=of.shape, dtype=dtype, chunks=chunks, dims=dims
        )
        made[name].attrs.update(of.attrs)
    by_workers = {}
    if runtime is not None and runtime.is_remote and place is not None:
        by_workers = {name: of for name, of in variables.items() if _is_unread(of)}
    left = _sent(runtime, place, group, by_workers) if runtime and place and by_workers else []
    for name, of in variables.items():
        every: list[Any] = [*slices(of.shape[0], STRETCH)] if of.dims else [...]
        for rows in left if name in by_workers else every:
            made[name][rows] = _stored(of[rows].to_numpy())


def _sent(
    runtime: AbstractRuntime, place: str, group: zarr.Group, unread: Mapping[str, xr.Variable]
) -> list[slice]:
    """Have workers write variables along the features; stretches that they did not are left."""
    (n,) = {of.size for of in unread.values()}
    stretches = slices(n, STRETCH)
    signs = [group.attrs.get(name) for name in SIGNS]
    jobs, nothing = [Job((), rows) for rows in stretches], ArraySource(np.zeros((1, 1)))
    with closing(runtime.map(_write, nothing, jobs, (place, signs, unread))) as results:
        return [rows for rows, done in zip(stretches, results, strict=True) if not done]


def _write(source: AbstractSource, job: Job, state: Any) -> bool:
    """Write a stretch of variables where a result is; whether it is seen here."""
    del source
    place, signs, unread = state
    try:
        group: Any = zarr.open_group(place, mode="r+", use_consolidated=False)
        if [group.attrs.get(name) for name in SIGNS] != signs:
            return False
        for name, of in unread.items():
            group[name][job.payload] = _stored(of[job.payload].to_numpy())
    except OSError:  # who asks will see to it, or say what is wrong
        return False
    return True


def _is_unread(variable: xr.Variable) -> bool:
    """Whether values of the features are in their store."""
    is_lazy = variable.chunks is None and not variable._in_memory
    return is_lazy and variable.dims == ("features",)


def _stored(values: Array) -> Array:
    """Values as they are stored: text as str."""
    if values.dtype.kind not in "OUT":
        return values
    text = np.array([str(v) for v in values.flat], dtype=object)
    return text.reshape(values.shape)

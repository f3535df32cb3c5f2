"""Plain data as JSON, and Zarr groups of one-chunk arrays as names and bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import zarr
from zarr.codecs import Crc32cCodec
from zarr.core.buffer.cpu import Buffer
from zarr.storage import MemoryStore

from dhsic._typing import Array
from dhsic.sources.chunked import read_array


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{value!r} of type {type(value).__name__} is not plain data")


def plain(value: Any) -> Any:
    """Return a copy of plain data (NumPy scalars included) as JSON gives it back."""
    return json.loads(json.dumps(value, default=_plain))


def canonical(value: Any) -> str:
    """Plain data as JSON, the same text for the same data."""
    return json.dumps(value, sort_keys=True, default=_plain)


#: Name of the metadata of a group or array.
META = "zarr.json"


def encode(attributes: Mapping[str, Any], arrays: Mapping[str, Array]) -> dict[str, bytes]:
    """Files of a group, each by its name below it."""
    files: dict[str, Any] = {}
    group = zarr.create_group(MemoryStore(files), attributes=plain(attributes))
    for name, values in arrays.items():
        group.create_array(
            name,
            data=values,
            chunks=(max(values.size, 1),),
            compressors=[Crc32cCodec()],
            fill_value=-1 if values.dtype.kind == "i" else np.nan,
            chunk_key_encoding={"name": "v2", "separator": "."},  # a folder less to sync
        )
    return as_bytes(files)


def names_of(*arrays: str) -> list[str]:
    """Names of the files of a group with these arrays; an empty array has no chunk."""
    return [META, *(f"{array}/{part}" for array in arrays for part in (META, "0"))]


def decode(files: Mapping[str, bytes], *names: str) -> tuple[dict[str, Any], list[Array]]:
    """Attributes of a group and its arrays called `names`.

    Raises
    ------
    FileNotFoundError
        The metadata of one are not there.
    DataError
        An array is damaged, or has codecs that are not read.
    """
    for meta in (META, *(f"{name}/{META}" for name in names)):
        if meta not in files:
            raise FileNotFoundError(f"{meta} is not there")
    group: Any = zarr.open_group(in_memory(files), mode="r")
    return dict(group.attrs), [read_array(group[name]) for name in names]


def in_memory(files: Mapping[str, bytes]) -> MemoryStore:
    """Store that holds these files."""
    return MemoryStore({name: Buffer.from_bytes(data) for name, data in files.items()})


def as_bytes(files: Mapping[str, Any]) -> dict[str, bytes]:
    """Files of a store in memory."""
    return {name: content.to_bytes() for name, content in files.items()}

"""MuData: several AnnData objects, called modalities, in one HDF5 file or Zarr store.

A modality is opened by its path, such as ``x.h5mu/mod/rna`` or ``x.zarr/mod/rna``. The package
mudata is not needed.
"""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import zarr
from zarr.storage import StorePath

from dhsic.errors import InputError
from dhsic.sources.chunked import child, group_at
from dhsic.sources.frames import AbstractFrame, Frame
from dhsic.sources.h5ad import H5Frame, opened_h5
from dhsic.sources.stores import FolderStore

#: Suffix of MuData files in HDF5.
MUDATA = ".h5mu"
#: Name of the group of the modalities, and the attribute of MuData in Zarr with its value.
GROUP, ENCODING = "mod", ("encoding-type", "MuData")
#: Files with the attributes of the root of a Zarr store, in formats 3 and 2.
ROOTS = ("zarr.json", ".zattrs")


def modalities_of(X: Any) -> dict[str, Any]:
    """Return the modalities of MuData by name.

    They are paths if X is a local path, and Zarr groups if X is a Zarr group. The result is empty
    for data other than MuData, and for URLs and zip files.

    Raises
    ------
    DataError
        The file or the metadata of the store are damaged.
    """
    if isinstance(X, zarr.Group):
        names = _in_group(X)
        return {name: X[f"{GROUP}/{name}"] for name in names}
    if not isinstance(X, str | PathLike) or "://" in fspath(X):
        return {}
    path, names = Path(X), list[str]()
    if path.suffix.lower() == MUDATA and path.is_file():
        with opened_h5(str(path)) as file:
            names = [*file[GROUP]] if GROUP in file else []
    elif (path / GROUP).is_dir() and any((path / name).is_file() for name in ROOTS):
        names = _in_group(group_at(StorePath(FolderStore(path, read_only=True))))
    return {name: f"{path}/{GROUP}/{name}" for name in names}


def _in_group(group: zarr.Group) -> list[str]:
    """Return the names of the modalities of a Zarr group; [] if it is not MuData."""
    inside = child(group, GROUP) if group.attrs.get(ENCODING[0]) == ENCODING[1] else None
    return sorted(inside.group_keys()) if isinstance(inside, zarr.Group) else []


def are_modalities(paths: Iterable[str]) -> bool:
    """Whether all paths are modalities of MuData."""
    parents = {Path(path).parent for path in paths}
    return all(parent.name == GROUP and modalities_of(parent.parent) for parent in parents)


def joint_obs(paths: Iterable[str]) -> AbstractFrame | None:
    """Return the joint obs table of a MuData, given the paths of its modalities; None if absent."""
    listed = [*paths]
    if not listed or not are_modalities(listed):
        return None
    root = Path(listed[0]).parent.parent
    if root.suffix.lower() == MUDATA:
        with opened_h5(str(root)) as file:
            is_there = "obs" in file
        return H5Frame.of(str(root), "obs") if is_there else None
    group = group_at(StorePath(FolderStore(root, read_only=True)))
    return None if child(group, "obs") is None else Frame.of(group, "obs")


def refuse_mudata(group: zarr.Group) -> None:
    """Raise InputError for a Zarr group that is MuData; its matrices must be passed separately."""
    if group.attrs.get(ENCODING[0]) != ENCODING[1]:
        return
    place = str(group.store_path).removeprefix("file://")
    names = _in_group(group)
    if not names:
        raise InputError(
            f"{place} is MuData without modalities: its group {GROUP!r} is absent or empty. Write "
            "it again, or restore it."
        )
    listed = " ".join(f"{place}/{GROUP}/{name}" for name in names)
    raise InputError(
        f"{place} is MuData, which contains several matrices. If it is in an archive, at a URL or "
        f"beside other data, pass each matrix: {listed} (unpack a zip file first)."
    )

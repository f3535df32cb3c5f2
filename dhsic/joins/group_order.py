"""Labels in another group of a Zarr store than the matrix, whose samples are in another order.

A variable of the store has no names of its own, so it is matched to the samples by position. If its
group names the samples, these names must be those of the matrix, in the same order.
"""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np
import zarr

from dhsic.errors import InputError
from dhsic.joins.variables import anndata_of
from dhsic.sources import AbstractSource
from dhsic.sources.chunked import member, read_names
from dhsic.sources.ids import abbreviate
from dhsic.sources.opening import on_disk, open_store, opener_of
from dhsic.sources.options import dimension_names
from dhsic.sources.zarr_matrices import parent

#: Arrays that name the samples of a group, if its dimensions have no coordinates.
NAMING = ("sample_id", "samples", "sample")


def check_group_order(data: Any, name: str, source: AbstractSource) -> None:
    """Refuse the variable `name` of a store if its group has the samples in another order.

    Parameters
    ----------
    data : path, URL or group
        Store that contains the variable; other data are not checked.
    name : str
        Path of the variable in the store, such as ``clinical/bmi``.
    source : AbstractSource
        Matrix of the same store.

    Raises
    ------
    InputError
        The names of the samples beside the variable are not those of the matrix, in this order. The
        message has a command that writes a table of the variable, which is matched by name.
    """
    ours, opened = source.sample_names(), _store_of(data)
    if ours is None or opened is None:
        return
    variable = member(opened, name)
    if variable is None or not variable.ndim:
        return
    group, dims = parent(variable), dimension_names(variable) or ()
    group = opened if group is None else group
    # Names are looked up one by one, because stores on web servers cannot be listed.
    found = ((key, member(group, key)) for key in (*filter(None, dims[:1]), *NAMING))
    key, names = next(((key, of) for key, of in found if of is not None), ("", None))
    if names is None or key == name.rpartition("/")[2]:
        return
    theirs = read_names(names)
    if len(theirs) != len(ours) or np.array_equal(theirs.astype(str), ours.astype(str)):
        return
    path = str(data) if isinstance(data, (str, PathLike)) else "PATH"
    column, beside = name.rpartition("/")[2], f"{name.rpartition('/')[0]}/{key}".lstrip("/")
    code = (
        f"import pandas, zarr; g = zarr.open_group({path!r}, mode='r'); pandas.Series("
        f"g[{name!r}][:], pandas.Index(g[{beside!r}][:], name='id'), name={column!r})"
        ".to_csv('labels.csv')"
    )
    raise InputError(
        f"The samples of {name!r} are named by {beside!r} ({abbreviate(theirs, 3)}), and the "
        f"samples of the matrix are {abbreviate(ours, 3)}. Values from the store are matched by "
        f"position, so each would belong to another sample. Write a table, which is matched by "
        f'name: python -c "{code}", then pass its column {column!r} (CLI: --labels labels.csv). In '
        f"Python, pass pandas.read_csv('labels.csv', index_col='id')[{column!r}]"
        ".loc[X.sample_names()] with X = dhsic.open_source(...) of the matrix."
    )


def _store_of(data: Any) -> zarr.Group | None:
    """Open the Zarr group at a path; None for tables, single arrays and AnnData."""
    if isinstance(data, (str, PathLike)):
        path = on_disk(data)
        data = open_store(path) if opener_of(path) is None else None
    is_group = isinstance(data, zarr.Group) and anndata_of(data) is None
    return data if is_group else None

"""Coordinates of samples, in space or in an embedding: the matrices in obsm of AnnData."""

from __future__ import annotations

from typing import Any

import numpy as np

from dhsic._typing import Array
from dhsic.errors import DataError, InputError, warn
from dhsic.sources.blocks import Block
from dhsic.sources.opening import open_source
from dhsic.sources.options import MissingChunks


def coordinates_of(data: Any, name: str, missing_chunks: MissingChunks = "error") -> Array:
    """Read the coordinates of AnnData samples, (m, t) float64: the matrix `name` of obsm.

    `name` is the full name. Whole numbers (a grid of spots) are shifted by 0.5, to the centres of
    the cells: a few whole-number labels are treated as classes, but coordinates are measurements. A
    dimension in which all samples have the same value (a flat section in three dimensions) is
    dropped, with a warning.

    Raises
    ------
    InputError
        The samples do not differ in any dimension.
    DataError
        A coordinate is infinite, or the matrix is damaged.
    """
    source = open_source(
        data, variable=name, sample_dim=0, missing_code=None, missing_chunks=missing_chunks
    )
    try:
        values = source.read(Block(0, 0, source.n_features)).astype(np.float64)
    except DataError as error:
        raise DataError(f"The coordinates {name!r} cannot be read: {error}") from error
    present = np.where(np.isnan(values), -np.inf, values)  # for the maximum; below, for the minimum
    varies = present.max(axis=0) > np.where(np.isnan(values), np.inf, values).min(axis=0)
    if not varies.any():
        raise InputError(
            f"All samples have the same coordinates in {name!r}, so no feature can depend on "
            "them. Choose another target."
        )
    if not varies.all():
        flat = ", ".join(map(str, np.flatnonzero(~varies)))
        warn(
            f"All samples have the same coordinate in column {flat} of {name!r}; this column is "
            "ignored.",
        )
    values = values[:, varies]
    is_whole = (np.floor(values) == values) | np.isnan(values)
    values[:, is_whole.all(axis=0)] += 0.5
    return np.ascontiguousarray(values)

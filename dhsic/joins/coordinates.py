"""Coordinates of samples, in space or of an embedding: the matrices in obsm of AnnData."""

from __future__ import annotations

from typing import Any

import numpy as np

from dhsic._typing import Array
from dhsic.errors import DataError, InputError, warn
from dhsic.sources.blocks import Block
from dhsic.sources.opening import open_source
from dhsic.sources.options import MissingChunks


def coordinates_of(data: Any, name: str, missing_chunks: MissingChunks = "error") -> Array:
    """Coordinates of the samples of AnnData, (m, t) float64: a matrix in obsm, by its full name.

    Whole numbers (a grid of spots) become the centres of its cells: labels that are whole and few
    are taken for classes, and these are measured. A dimension in which all samples are at the same
    place (a flat section in three dimensions) is left out, with a warning.

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
    present = np.where(np.isnan(values), -np.inf, values)  # the highest, and the lowest
    varies = present.max(axis=0) > np.where(np.isnan(values), np.inf, values).min(axis=0)
    if not varies.any():
        raise InputError(
            f"All samples have the same coordinates in {name!r}: nothing depends on them. Choose "
            "another target."
        )
    if not varies.all():
        flat = ", ".join(map(str, np.flatnonzero(~varies)))
        warn(
            f"All samples have the same coordinate in column {flat} of {name!r}, which is left "
            "out.",
        )
    values = values[:, varies]
    is_whole = (np.floor(values) == values) | np.isnan(values)
    values[:, is_whole.all(axis=0)] += 0.5
    return np.ascontiguousarray(values)

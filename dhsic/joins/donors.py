"""Warning that cells come from a few donors, but are tested as if they were independent."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import numpy as np

from dhsic._typing import Array, Index
from dhsic.errors import DhsicError, warn
from dhsic.joins.variables import anndata_of, labels_at
from dhsic.linalg.blocks import FEWEST_UNITS
from dhsic.sources.ids import plain

#: Normalised names of columns that identify the person, animal or sample that cells come from.
OF_DONORS = re.compile(r"(donor|patient|individual|subject|participant|mouse|sample)(id|name)?")
#: Mean number of cells of a donor from which p-values of independent cells are misleading.
CELLS = 5


def warn_of_donors(data: Any, y: Array, rows: Index | None) -> None:
    """Warn if all cells of a donor have the same label, and there are few donors.

    Parameters
    ----------
    data : Any
        Data as passed by the user; only columns of obs of AnnData are examined.
    y : (m,) or (m, t)
        Labels of the cells in `rows` (None: all).
    """
    with suppress(DhsicError, OSError):
        store = anndata_of(data)
        if store is None:
            return
        for name in store.obs.columns:
            if not OF_DONORS.fullmatch(plain(name)):
                continue
            values = labels_at(data, name, "fill", "")
            values = values if rows is None else values[rows]
            n = n_donors(values, y)
            if n:
                warn(
                    f"{len(y):,} cells come from {n:,} groups of {name!r}, and all cells of a "
                    "group have the same label. p-values assume independent cells, so they are far "
                    f"too small. Pass permute_whole={name!r}, which permutes the labels of whole "
                    "groups."
                )
                return


def n_donors(values: Array, y: Array) -> int:
    """Count the donors named in `values` (m,); 0 if they are many or their labels y differ."""
    if values.ndim != 1 or len(values) != len(y):
        return 0
    _, first, donors = np.unique(values.astype(str), return_index=True, return_inverse=True)
    is_few = first.size >= FEWEST_UNITS and first.size * CELLS <= len(y)
    return int(first.size) if is_few and bool((y == y[first][donors]).all()) else 0

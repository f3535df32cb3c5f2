"""What the plots share: axes, colours that differ in lightness too, and thinned points."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from dhsic._typing import Array, Float, Index
from dhsic.errors import InputError

#: Colours of Okabe and Ito, which the colour-blind tell apart; black, blue and grey differ in grey.
MAIN, CHOSEN, MUTED, PALE = "#0072B2", "#D55E00", "#767676", "#B8B8B8"
#: Points are drawn once in each cell of a grid of so many columns and rows.
CELLS = (1600, 600)


def axes(ax: Any, width: float = 7.0, height: float = 3.2) -> Any:
    """Return the axes given, or those of a new figure, inches wide and high.

    Raises
    ------
    InputError
        matplotlib is not installed.
    """
    try:
        from matplotlib import pyplot as plt
    except ImportError as error:
        raise InputError('Plots need matplotlib: pip install "dhsic[plot]".') from error
    if ax is None:
        _, ax = plt.subplots(figsize=(width, height), layout="constrained")
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return ax


def variable(result: xr.Dataset, name: str, why: str) -> Array:
    """Return a variable of a result; InputError says why there may be none."""
    if name not in result:
        raise InputError(f"The result has no {name!r}: {why}.")
    values: Array = np.asarray(result[name].values)
    return values


def names(result: xr.Dataset, at: Index) -> list[str]:
    """Return what some features are called; their positions where they have no names."""
    called = result["feature"].values if "feature" in result.coords else None
    # A name is no formula, though it hold two signs of dollar.
    return [str(i) if called is None else str(called[i]).replace("$", r"\$") for i in at]


def thinned(x: Float, y: Float) -> Index:
    """Return points (n,) of which others of the same cell of a grid would be drawn over."""
    if x.size <= CELLS[0]:
        return np.arange(x.size)
    cells = [
        ((values - values.min()) * ((count - 1) / (np.ptp(values) or 1))).astype(np.int64)
        for values, count in zip((x, y), CELLS, strict=True)
    ]
    kept: Index = np.sort(np.unique(cells[0] * CELLS[1] + cells[1], return_index=True)[1])
    return kept

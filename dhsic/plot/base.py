"""Shared parts of plots: axes, colours of different lightness, and thinning of points."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from dhsic._typing import Array, Float, Index
from dhsic.errors import InputError

#: Colour-blind safe colours of Okabe and Ito; black, blue and grey differ in greyscale.
MAIN, CHOSEN, MUTED, PALE = "#0072B2", "#D55E00", "#767676", "#B8B8B8"
#: Numbers of columns and rows of a grid; at most one point is drawn per cell.
CELLS = (1600, 600)


def axes(ax: Any, width: float = 7.0, height: float = 3.2) -> Any:
    """Return `ax`, or, if it is None, the axes of a new figure of this size in inches.

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
    """Return the values of a variable; if it is missing, raise InputError with the reason `why`."""
    if name not in result:
        raise InputError(f"The result has no {name!r}: {why}.")
    values: Array = np.asarray(result[name].values)
    return values


def names(result: xr.Dataset, at: Index) -> list[str]:
    """Return the names of the features at positions `at`; positions if there are no names."""
    called = result["feature"].values if "feature" in result.coords else None
    # Escape dollar signs, which matplotlib would read as formulas.
    return [str(i) if called is None else str(called[i]).replace("$", r"\$") for i in at]


def thinned(x: Float, y: Float) -> Index:
    """Return the indices of points to draw, at most one per cell of the grid of `CELLS`."""
    if x.size <= CELLS[0]:
        return np.arange(x.size)
    cells = [
        ((values - values.min()) * ((count - 1) / (np.ptp(values) or 1))).astype(np.int64)
        for values, count in zip((x, y), CELLS, strict=True)
    ]
    drawn_points: Index = np.sort(np.unique(cells[0] * CELLS[1] + cells[1], return_index=True)[1])
    return drawn_points

"""Plot of survival curves by the best feature."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import xarray as xr

from dhsic.errors import InputError
from dhsic.plot.base import CHOSEN, MAIN, MUTED, axes, names
from dhsic.results.views import result_of_one

#: Colour and style of the line of each group, from the lowest values to the highest.
LINES = ((MAIN, "-"), (MUTED, "--"), (CHOSEN, "-"))


def survival(result: xr.Dataset, *, ax: Any = None) -> Any:
    """Draw Kaplan-Meier curves of three groups of samples: the thirds of the best feature.

    The feature was chosen with the same times, so the curves lie farther apart than in new samples.

    Parameters
    ----------
    result : xarray.Dataset
        Result of a selection or test whose labels are times to an event.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    InputError
        The labels are not times to an event.
    """
    result = result_of_one(result)
    if "survival_curves" not in result.attrs:
        raise InputError(
            "The result has no survival curves, because its labels are not times to an event. Pass "
            "a result for such labels (event=)."
        )
    curves = json.loads(result.attrs["survival_curves"])
    ax = axes(ax, 5.0, 3.4)
    for group, (colour, style) in zip(curves["groups"], LINES, strict=False):
        times = [0.0, *group["times"], group["end"]]
        values = [1.0, *group["survival"], *(group["survival"][-1:] or [1.0])]
        label = f"{group['label']} (n={group['n']:,}, {group['n_events']:,} events)"
        ax.step(times, values, where="post", color=colour, ls=style, lw=1.6, label=label)
    (name,) = names(result, np.array([curves["feature"]]))
    ax.set(xlabel="time", ylabel="without event", ylim=(0, 1.02))
    ax.set_xlim(left=0)
    ax.legend(frameon=False, title=f"feature {name}", fontsize=8, title_fontsize=8)
    return ax

"""Features of a selection, by their position in data that are open."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from dhsic._typing import Index
from dhsic.errors import InputError
from dhsic.independence import features_at
from dhsic.sources import AbstractSource
from dhsic.sources.views import STORED, stored_positions, whole_of


def chosen_features(selection: Any, source: AbstractSource) -> Index:
    """Positions of the features of a selection, ascending; none without one."""
    if selection is None:
        return np.empty(0, dtype=np.int64)
    result, stored = getattr(selection, "result_", selection), stored_positions(source)
    if isinstance(result, xr.Dataset):
        chosen = _selected(result, source.n_features + source.n_features_filtered)
    else:
        chosen = features_at(result, whole_of(source))
    here = np.isin(stored, chosen)
    lacking = np.setdiff1d(chosen, stored).size
    if lacking:
        raise InputError(
            f"selection= has {lacking} features that filters leave out here; pass the filters that "
            "it was made with, or fewer."
        )
    return np.flatnonzero(here)


def _selected(result: xr.Dataset, d: int) -> Index:
    """Positions of the features that a result selects, of d in the data."""
    if "selected" not in result:
        raise InputError(
            "selection= is a Dataset without the variable 'selected'; pass what dhsic.select "
            "returns, a selector after fit, or positions of features."
        )
    n = result["selected"].size + int(result.attrs.get("n_features_filtered", 0))
    if n != d or result["selected"].ndim != 1:
        raise InputError(
            f"selection= is about {n} features and the data have {d}; pass a selection from the "
            "same data."
        )
    chosen = np.flatnonzero(result["selected"].to_numpy())
    return result[STORED].to_numpy()[chosen] if STORED in result.coords else chosen

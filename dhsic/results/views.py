"""Parts of a result: of one run, of the selected features, of pairs, of the rounds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from dhsic._typing import Array
from dhsic.errors import InputError
from dhsic.results import tables
from dhsic.results.schema import OF_ENGINES, PAIR
from dhsic.sources.columns import NAME
from dhsic.sources.variants import IDS


def pairs_of(result: Any) -> xr.Dataset | None:
    """The best pairs of a selection with ``interactions=``, as `find_pairs` gives them; or None."""
    result = result_of_one(result)
    if f"{PAIR}share" not in result:
        return None
    known = {n: v for n, v in result.data_vars.items() if v.dims == ("pairs",)}
    return xr.Dataset(
        {str(name).removeprefix(PAIR): each for name, each in known.items()},
        attrs={k.removeprefix(PAIR): v for k, v in result.attrs.items() if k.startswith(PAIR)},
    )


def carried_over(about: Mapping[str, Any]) -> str:
    """What is told of a level that follows from permutations of some pairs only; else nothing."""
    n = about.get("n_pairs_permuted", about["n_pairs"])
    if n == about["n_pairs"]:
        return ""
    return (
        f"; the level is carried over from {n:,} permuted pairs, of runs of neighbouring features"
    )


#: Part of false ones up to which features that were tested count as real.
LEVEL = 0.05


def of_tests(result: xr.Dataset) -> xr.Dataset:
    """Tests of all features, of which those of a q-value of `LEVEL` or less count as selected."""
    selected = (result["q"] <= LEVEL).assign_attrs(long_name=f"whether q <= {LEVEL:g}")
    result = result.assign(selected=selected).assign_attrs(selected_by=f"q <= {LEVEL:g}")
    n = selected.sum(result["rank"].dims[-1:])
    if n.ndim == 0:
        return result.assign_attrs(n_selected=int(n))
    result.attrs.pop("n_selected", None)  # of each run another
    return result.assign(n_selected=n)


def of_selected(result: xr.Dataset) -> str:
    """What the features that count as selected are."""
    by = result.attrs.get("selected_by")
    return "selected" if by is None else f"of {by}"


def variant_ids(result: xr.Dataset) -> Array:
    """Ids of the features (d,); of those without one their names, and without these positions."""
    size = result["rank"].sizes[result["rank"].dims[-1]]
    named = result[NAME].to_numpy() if NAME in result.coords else np.arange(size)
    if IDS not in result.coords:
        return named.astype(str)
    ids = result[IDS].to_numpy().astype(str)
    return np.asarray(np.where(np.isin(ids, (".", "")), named.astype(str), ids))


def selected_features(result: Any) -> xr.Dataset:
    """The selected features alone, the best first, without the history of rounds.

    The coordinate ``features`` holds their positions in the data; where some of a store were left
    out, those among the others, and ``stored_feature`` those in the store. `save` writes what is
    returned as a table.

    Raises
    ------
    InputError
        `result` is no result, nor a selector that was fitted.
    """
    computed: xr.Dataset = selected_lazily(result).compute()
    return computed


def selected_lazily(result: Any) -> xr.Dataset:
    """As `selected_features`; names and alleles that nobody asks for are not read."""
    result = result_of_one(result)
    chosen = np.flatnonzero(result["selected"].to_numpy())
    best_first = chosen[np.argsort(result["rank"].to_numpy()[chosen])]
    without = result.drop_dims(["rounds", "pairs"], errors="ignore").drop_vars("selected")
    alone: xr.Dataset = without.isel(features=best_first)
    return alone.assign_coords(features=best_first)


def result_of_one(given: Any) -> xr.Dataset:
    """Return the result of one run, also of a selector after fit; InputError if it is none."""
    result = _of_one(as_result(given))
    # One of several runs has variables where these have attributes that differ.
    own = {str(n): v.item() for n, v in result.data_vars.items() if v.ndim == 0 and n != "engine"}
    return tables.along_features(result.drop_vars(list(own)).assign_attrs(own))


def as_result(given: Any) -> xr.Dataset:
    """Result of one run or of several, also of a selector after fit; InputError if it is none."""
    result = getattr(given, "result_", given)
    if not (isinstance(result, xr.Dataset) and "rank" in result and "selected" in result):
        raise InputError(
            f"{type(given).__name__} is no result of a selection; pass what dhsic.select returns, "
            "or a selector after fit."
        )
    checked: xr.Dataset = result
    return checked


def _of_one(result: xr.Dataset) -> xr.Dataset:
    if result["rank"].ndim == 1:
        return result
    dim = result["rank"].dims[0]
    names = [str(name) for name in result[dim].to_numpy()[:3]]
    raise InputError(
        f"The result is of several runs, along {dim!r} ({', '.join(names)}, ...); pass one of "
        f"them, such as result.sel({dim}={names[0]!r})."
    )


def rounds_of_engines(result: xr.Dataset) -> dict[str, Array]:
    """What engines did in every round, by names of `OF_ENGINES`; also of a result of before."""
    told = json.loads(result.attrs.get("engine", "{}"))
    text = {"advice": object}
    known = {name: np.array(values, text.get(name)) for name, values in told.items()}
    older = {name: f"round_{name}" for name in OF_ENGINES if f"round_{name}" in result}
    return known | {name: result[variable].to_numpy() for name, variable in older.items()}

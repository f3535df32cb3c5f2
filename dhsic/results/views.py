"""Parts of a result: one run, selected features, pairs, rounds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from dhsic._typing import Array, Index
from dhsic.errors import InputError
from dhsic.results import tables
from dhsic.results.schema import OF_ENGINES, PAIR


def pairs_of(result: Any) -> xr.Dataset | None:
    """Return the pairs that a selection with ``interactions=`` found; None for other results."""
    result = result_of_one(result)
    if f"{PAIR}share" not in result:
        return None
    variables = {n: v for n, v in result.data_vars.items() if v.dims == ("pairs",)}
    return xr.Dataset(
        {str(name).removeprefix(PAIR): each for name, each in variables.items()},
        attrs={k.removeprefix(PAIR): v for k, v in result.attrs.items() if k.startswith(PAIR)},
    )


def carried_over(about: Mapping[str, Any]) -> str:
    """Return a note if a threshold was estimated from permutations of some pairs only; else ""."""
    n = about.get("n_pairs_permuted", about["n_pairs"])
    if n == about["n_pairs"]:
        return ""
    return (
        f"; the threshold was estimated on {n:,} permuted pairs in blocks of neighbouring features"
    )


#: Largest q-value at which tested features are selected.
LEVEL = 0.05


def inflation_sentence(about: Mapping[str, Any]) -> str:
    """Return a sentence on the inflation of the shares that pairs explain, and its correction."""
    ratio = (
        f"The median share of pairs is {about['inflation']:.3g} times that for permuted labels "
        "(1 means no inflation)"
    )
    if about["corrected_by"] > 1:
        return (
            f"{ratio}. Permutations rarely give such a ratio, so the samples may be related, or "
            "come from several populations. The p-values were corrected."
        )
    return f"{ratio}. Chance explains this, so no correction was applied."


def of_tests(result: xr.Dataset) -> xr.Dataset:
    """Return a result of tests in which features with a q-value of at most `LEVEL` are selected."""
    selected = (result["q"] <= LEVEL).assign_attrs(long_name=f"whether q <= {LEVEL:g}")
    result = result.assign(selected=selected).assign_attrs(selected_by=f"q <= {LEVEL:g}")
    n = selected.sum(result["rank"].dims[-1:])
    if n.ndim == 0:
        return result.assign_attrs(n_selected=int(n))
    result.attrs.pop("n_selected", None)  # differs between runs
    return result.assign(n_selected=n)


def of_selected(result: xr.Dataset) -> str:
    """Adjective for the selected features in messages: "selected", or "with q <= 0.05"."""
    by = result.attrs.get("selected_by")
    return "selected" if by is None else f"with {by}"


def selected_features(result: Any) -> xr.Dataset:
    """Return the selected features, best first, without the history of rounds.

    The coordinate ``features`` contains their indices among the features in use. If filters
    excluded features of a store, ``stored_feature`` contains the indices in the store. `save`
    writes the returned Dataset as a table.

    Raises
    ------
    InputError
        `result` is neither a result nor a fitted selector.
    """
    computed: xr.Dataset = selected_lazily(result).compute()
    return computed


def selected_lazily(result: Any) -> xr.Dataset:
    """Return the Dataset of `selected_features` without reading names and alleles yet."""
    result = result_of_one(result)
    chosen = np.flatnonzero(result["selected"].to_numpy())
    best_first = chosen[np.argsort(result["rank"].to_numpy()[chosen])]
    without = result.drop_dims(["rounds", "pairs"], errors="ignore").drop_vars("selected")
    alone: xr.Dataset = without.isel(features=best_first)
    return alone.assign_coords(features=best_first)


def partner_names(result: xr.Dataset, partners: Index) -> list[str]:
    """Return the names of the features at indices `partners` (n,) in the store; "" for -1.

    A feature that is not in the result, or has no name, is called by its index.
    """
    numbers = next((name for name in tables.NUMBERS if name in result.coords), None)
    dim = result["rank"].dims[0]
    stored = np.arange(result.sizes[dim]) if numbers is None else result[numbers].to_numpy()
    order = np.argsort(stored, kind="stable")  # selected features are in the order of their ranks
    at = order[np.searchsorted(stored, partners, sorter=order).clip(max=stored.size - 1)]
    is_here = (partners >= 0) & (stored[at] == partners)
    texts = [str(partner) if partner >= 0 else "" for partner in partners.tolist()]
    if "feature" in result.coords and is_here.any():
        names = result["feature"].isel({dim: at[is_here]}).to_numpy()
        for i, name in zip(np.flatnonzero(is_here).tolist(), names.tolist(), strict=True):
            texts[i] = str(name)
    return texts


def result_of_one(given: Any) -> xr.Dataset:
    """Return the result of one run or of a fitted selector; raise InputError for anything else."""
    result = _of_one(as_result(given))
    # A run taken from a joint result has variables instead of some attributes.
    own = {str(n): v.item() for n, v in result.data_vars.items() if v.ndim == 0 and n != "engine"}
    return tables.along_features(result.drop_vars(list(own)).assign_attrs(own))


def as_result(given: Any) -> xr.Dataset:
    """Return the result that was passed, or the result of a fitted selector; else InputError."""
    result = getattr(given, "result_", given)
    if not (isinstance(result, xr.Dataset) and "rank" in result and "selected" in result):
        raise InputError(
            f"{type(given).__name__} is not a result of a selection; pass the result of "
            "dhsic.select, or a fitted selector."
        )
    checked: xr.Dataset = result
    return checked


def _of_one(result: xr.Dataset) -> xr.Dataset:
    if result["rank"].ndim == 1:
        return result
    dim = result["rank"].dims[0]
    names = [str(name) for name in result[dim].to_numpy()[:3]]
    raise InputError(
        f"The result has several runs, along {dim!r} ({', '.join(names)}, ...); pass one of "
        f"them, such as result.sel({dim}={names[0]!r})."
    )


def rounds_of_engines(result: xr.Dataset) -> dict[str, Array]:
    """Return details of the computation of scores in each round, by the names in `OF_ENGINES`.

    Results of older versions are supported.
    """
    engines = json.loads(result.attrs.get("engine", "{}"))
    text = {"advice": object}
    by_name = {name: np.array(values, text.get(name)) for name, values in engines.items()}
    older = {name: f"round_{name}" for name in OF_ENGINES if f"round_{name}" in result}
    return by_name | {name: result[variable].to_numpy() for name, variable in older.items()}

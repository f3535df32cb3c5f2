"""The result of several runs as one: a dimension more, named after what differs between them.

What is found in a run has that dimension: ranks, scores, what is selected, the history of rounds,
filled up where another run has more of them. What follows from the data alone has it where runs
differ in their samples. Attributes on which runs differ are variables along it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np
import xarray as xr

from dhsic._typing import Array
from dhsic.tables import OF_RUNS

#: Variables that follow from the data and the samples alone.
OF_DATA = frozenset({"n_missing", "mean", "allele_frequency", "constant"})
#: Attributes of the first run that count for all.
OF_FIRST = ("created", "promised_bytes")


def joined(results: Sequence[xr.Dataset], names: Sequence[str], dim: str) -> xr.Dataset:
    """One result of several, which go by these names along a new dimension, one of `OF_RUNS`."""
    first = results[0]
    n_rounds = max(int(result.sizes.get("rounds", 0)) for result in results)
    data: dict[Hashable, Any] = {}
    for name in dict.fromkeys(name for result in results for name in result.data_vars):
        like = next(result[name] for result in results if name in result)
        values = [_values(result, str(name), like, n_rounds) for result in results]
        if name in OF_DATA and all(_are_same(values[0], other) for other in values[1:]):
            data[name] = like
        else:
            data[name] = ((dim, *like.dims), np.stack(values), like.attrs)
    attributes = {}
    for key in dict.fromkeys(key for result in results for key in result.attrs):
        told = [result.attrs.get(key) for result in results]
        if key in OF_FIRST or all(value == told[0] for value in told):
            attributes[key] = told[0]
        else:
            data[key] = (dim, _column(told))
    coords = {**first.coords, dim: np.array([str(name) for name in names], dtype=object)}
    return xr.Dataset(data, coords=coords, attrs=attributes)


def dimension_of(result: xr.Dataset) -> str | None:
    """Dimension along which a result has several runs; None where it is of one."""
    return next((dim for dim in OF_RUNS if dim in result.dims), None)


def parts(result: xr.Dataset) -> Iterator[tuple[str, xr.Dataset]]:
    """Each run of a joint result, by its name: as it would be alone."""
    dim = dimension_of(result)
    if dim is None:
        yield "", result
        return
    for i, name in enumerate(result[dim].to_numpy()):
        part = result.isel({dim: i}).drop_vars(dim)
        known = [key for key in part.data_vars if not part[key].dims]
        told = {str(key): part[key].to_numpy().item() for key in known}
        part = part.drop_vars(known).assign_attrs(told)
        if "rounds" in part.dims:
            part = part.isel(rounds=np.isfinite(part["round_seconds"].to_numpy()))
        yield str(name), part


def _values(result: xr.Dataset, name: str, like: xr.DataArray, n_rounds: int) -> Array:
    """Values of a variable, filled up to so many rounds: with "", NaN or 0."""
    empty: Any = {"O": "", "f": np.nan}.get(like.dtype.kind, 0)
    values = result[name].to_numpy() if name in result else np.full(like.shape, empty, like.dtype)
    if like.dims == ("rounds",):
        more = np.full(n_rounds - len(values), empty, dtype=values.dtype)
        values = np.concatenate([values, more])
    return values


def _are_same(one: Array, other: Array) -> bool:
    """Whether all values are, NaN included."""
    return bool(np.array_equal(one, other, equal_nan=one.dtype.kind == "f"))


def _column(told: Sequence[Any]) -> Array:
    """Values of an attribute in the runs: text, or numbers."""
    if any(isinstance(value, str) for value in told):
        return np.array([str(value) for value in told], dtype=object)
    return np.array([np.nan if value is None else value for value in told])

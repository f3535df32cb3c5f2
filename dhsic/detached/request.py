"""A request as it is kept, so that any process can do it: JSON, and arrays beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from dhsic import kernels
from dhsic._typing import Array
from dhsic.errors import CheckpointError, InputError
from dhsic.kernels.base import AbstractKernel
from dhsic.selectors.groups import Groups
from dhsic.selectors.request import Request
from dhsic.selectors.select import method_of, selector_of
from dhsic.storage.format import plain

#: Fields of a request that are kept as they are.
KEPT = (
    *("id", "n_samples", "variable", "sample_dim", "missing_code", "missing_chunks", "pass_only"),
    *("device", "job", "attributes"),
)
#: Parameters that whoever does the run chooses: none of a request that is kept.
OF_DRIVERS = ("checkpoint", "progress", "runtime")
#: Bytes of labels and the like that a request may carry.
MOST_BYTES = 256 * 2**20


def plain_request(request: Request) -> dict[str, Any]:
    """All but the arrays, for JSON.

    Raises
    ------
    InputError
        A parameter that cannot be said in plain data.
    """
    method, n_features, parameters = method_of(request.selector)
    given = {k: v for k, v in parameters.items() if k not in OF_DRIVERS}
    return {
        **{name: getattr(request, name) for name in KEPT},
        "path": request.data,
        "method": method,
        "n_features": n_features,
        "parameters": plain_parameters(given),
    }


def arrays_of(request: Request) -> dict[str, Array]:
    """Arrays of a request, those that there are, by name.

    Raises
    ------
    InputError
        They are large, or hold what cannot be kept without pickling it.
    """
    groups = request.groups
    given = {
        "y": request.y,
        "covariates": request.covariates,
        "rows": request.rows,
        "groups": None if groups is None else groups.names[groups.codes],
    }
    out = {name: _storable(name, a) for name, a in given.items() if a is not None}
    size = sum(array.nbytes for array in out.values())
    if size > MOST_BYTES:
        raise InputError(
            f"Labels, covariates and groups take {size / 2**20:.0f} MiB, and a run on the "
            f"cluster carries at most {MOST_BYTES / 2**20:.0f} MiB of them. Pass fewer "
            "columns, or call dhsic.select."
        )
    return out


def request_of(kept: Mapping[str, Any], arrays: Mapping[str, Array]) -> Request:
    """Request that `plain_request` and `arrays_of` made plain."""
    groups = arrays.get("groups")
    return Request(
        selector_of(kept["method"], kept["n_features"], as_parameters(kept["parameters"])),
        kept["path"],
        y=arrays.get("y"),
        covariates=arrays.get("covariates"),
        rows=arrays.get("rows"),
        groups=None if groups is None else Groups.of(groups, len(groups)),
        **{name: kept[name] for name in KEPT if name in kept},
    )


def _storable(name: str, values: Array) -> Array:
    """An array that is read without unpickling: numbers, or text."""
    array = np.asarray(values)
    if array.dtype.kind != "O":
        return array
    if all(isinstance(value, str) for value in array.flat):
        return array.astype(str)
    raise InputError(
        f"{name} hold objects of several types, and what a run keeps on disk is numbers or text. "
        "Pass an array of numbers or of text."
    )


def plain_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of a method as plain data; `as_parameters` gives them back.

    Raises
    ------
    InputError
        One cannot be said in plain data, such as a kernel of your own.

    Examples
    --------
    >>> from dhsic.kernels import Polynomial
    >>> plain_parameters({"kernel": Polynomial(3), "step": 0.2})
    {'kernel': {'kernel': 'Polynomial', 'settings': {'degree': 3, 'offset': 1.0}}, 'step': 0.2}
    """
    out = {}
    for name, value in parameters.items():
        try:
            out[name] = plain(_plain(value))
        except TypeError as error:
            raise InputError(
                f"{name}={value!r} cannot be kept as plain data, which a run that outlives its "
                "caller needs. Pass names and numbers, or a kernel of dhsic.kernels."
            ) from error
    return out


def _plain(value: Any) -> Any:
    if isinstance(value, AbstractKernel):
        name = type(value).__name__
        if getattr(kernels, name, None) is not type(value):
            raise TypeError(f"{value!r} is no kernel of ours")
        told: Any = value  # a data class, all of them
        settings = {f.name: _plain(getattr(told, f.name)) for f in fields(told) if f.init}
        return {"kernel": name, "settings": settings}
    return value.name if isinstance(value, np.dtype) else value


def as_parameters(given: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters that `plain_parameters` made plain."""
    return {name: _as_given(value) for name, value in given.items()}


def _as_given(value: Any) -> Any:
    if not (isinstance(value, dict) and value.keys() == {"kernel", "settings"}):
        return value
    if value["kernel"] not in kernels.__all__:
        raise CheckpointError(
            f"A run was asked for with the kernel {value['kernel']!r}, which this dhsic does not "
            "know. Upgrade dhsic."
        )
    return getattr(kernels, value["kernel"])(**as_parameters(value["settings"]))

"""`select`: any method, on stores and datasets, by its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import xarray as xr

from dhsic.errors import InputError
from dhsic.fitting import Selector
from dhsic.selectors.bahsic import BAHSIC
from dhsic.selectors.fohsic import FOHSIC
from dhsic.selectors.linear import LinearHSIC
from dhsic.selectors.recursive import SVMRFE

#: Selectors by the names of their methods.
METHODS: Mapping[str, type[Selector]] = {
    "bahsic": BAHSIC,
    "fohsic": FOHSIC,
    "linear": LinearHSIC,
    "svm-rfe": SVMRFE,
}


def select(
    data: Any,
    target: Any,
    *,
    method: str = "bahsic",
    n_features_to_select: int | float | None = 50,
    covariates: Any = None,
    sample_dim: str | int | None = None,
    variable: str | None = None,
    **parameters: Any,
) -> xr.Dataset:
    """Select features of a store or dataset; the result as a Dataset.

    Parameters
    ----------
    data : path, URL, Dataset, DataArray or array
        As for `BAHSIC.fit`; an open `AbstractSource` passes too.
    target : str or array
        Labels, or the name of the variable of `data` that holds them.
    method : {"bahsic", "linear"}
        `BAHSIC` or `LinearHSIC`.
    n_features_to_select, **parameters
        Passed to it.
    covariates : array, optional
        As for `BAHSIC.fit`.
    sample_dim, variable
        As for `BAHSIC.fit`.

    Returns
    -------
    xarray.Dataset
        See `dhsic.results`.
    """
    if method not in METHODS:
        raise InputError(f"method={method!r} is unknown; pass one of {', '.join(METHODS)}.")
    known = METHODS[method]._get_param_names()
    unknown = sorted(set(parameters) - set(known))
    if unknown:
        raise InputError(
            f"{', '.join(unknown)}: no parameter of method {method!r}; it has {', '.join(known)}."
        )
    model = METHODS[method](n_features_to_select, **parameters)
    model.fit(data, target, covariates=covariates, sample_dim=sample_dim, variable=variable)
    result: xr.Dataset = model.result_
    return result

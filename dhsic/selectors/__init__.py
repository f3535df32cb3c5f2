"""What users call: selectors in scikit-learn's manner, a method a file, and `select` by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import xarray as xr

from dhsic.criteria import CRITERIA
from dhsic.errors import InputError
from dhsic.selectors.bahsic import BAHSIC, LinearHSIC
from dhsic.selectors.base import Selector
from dhsic.selectors.ccm import CCM
from dhsic.selectors.fohsic import FOHSIC
from dhsic.selectors.onepass import OnePass
from dhsic.selectors.svmrfe import SVMRFE
from dhsic.selectors.weighting import FeatureWeighting

__all__ = [
    "BAHSIC",
    "CCM",
    "FOHSIC",
    "METHODS",
    "SVMRFE",
    "FeatureWeighting",
    "LinearHSIC",
    "OnePass",
    "method_of",
    "parameters_of",
    "select",
    "selector_of",
]

#: What a method is by its name: a selector, and what the name says of its parameters.
METHODS: Mapping[str, tuple[type[Selector], Mapping[str, Any]]] = {
    "bahsic": (BAHSIC, {}),
    "fohsic": (FOHSIC, {}),
    "ccm": (CCM, {}),
    "weighting": (FeatureWeighting, {}),
    "svm-rfe": (SVMRFE, {}),
    "linear": (LinearHSIC, {}),
    **{name: (OnePass, {"criterion": name}) for name in CRITERIA},
}


def parameters_of(method: str) -> list[str]:
    """Parameters of a method besides how many features to select."""
    if method not in METHODS:
        raise InputError(f"method={method!r} is unknown; pass one of {', '.join(METHODS)}.")
    kind, said = METHODS[method]
    return [n for n in kind._get_param_names() if n not in said and n != "n_features_to_select"]


def selector_of(method: str, n_features_to_select: Any, given: Mapping[str, Any]) -> Selector:
    """Selector of a method, of which parameters are given by name."""
    known = parameters_of(method)
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise InputError(
            f"{', '.join(unknown)}: no parameter of method {method!r}; it has {', '.join(known)}."
        )
    kind, said = METHODS[method]
    return kind(n_features_to_select, **said, **given)


def method_of(selector: Selector) -> tuple[str, Any, dict[str, Any]]:
    """Method of a selector, how many features it selects, and the parameters besides."""
    given = selector.get_params(deep=False)
    for method, (kind, said) in METHODS.items():
        if type(selector) is kind and said.items() <= given.items():
            others = {k: v for k, v in given.items() if k not in said}
            return method, others.pop("n_features_to_select"), others
    raise TypeError(f"{type(selector).__name__} is no method of METHODS.")


def select(
    data: Any,
    target: Any,
    *,
    method: str = "bahsic",
    n_features_to_select: int | float | None = 50,
    covariates: Any = None,
    groups: Any = None,
    sample_dim: str | int | None = None,
    variable: str | None = None,
    missing_code: Any = "auto",
    pass_only: bool = False,
    by_position: bool = False,
    **parameters: Any,
) -> xr.Dataset:
    """Select features of a store or dataset; the result as a Dataset.

    Parameters
    ----------
    data : path, URL, Dataset, DataArray or array
        As for `BAHSIC.fit`; an open `AbstractSource` passes too.
    target : str, array or None
        Labels, or the name of the variable of `data` that holds them; None with
        ``label_kernel="self"``.
    method : str
        One of `METHODS`.
    n_features_to_select, **parameters
        Passed to it.
    covariates : array, optional
        As for `BAHSIC.fit`.
    groups : array or str, optional
        As for `BAHSIC.fit`.
    sample_dim, variable, missing_code, pass_only, by_position
        As for `BAHSIC.fit`.

    Returns
    -------
    xarray.Dataset
        See `dhsic.results`.
    """
    model = selector_of(method, n_features_to_select, parameters)
    model.fit(
        data,
        target,
        covariates=covariates,
        groups=groups,
        sample_dim=sample_dim,
        variable=variable,
        missing_code=missing_code,
        pass_only=pass_only,
        by_position=by_position,
    )
    result: xr.Dataset = model.result_
    return result

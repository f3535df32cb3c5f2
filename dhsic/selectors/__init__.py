"""What users call: selectors in scikit-learn's manner, a method a file, and `select` by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import xarray as xr

from dhsic.criteria import CRITERIA
from dhsic.errors import InputError
from dhsic.joins.filters import Filters
from dhsic.selection.multi_output import of_classes, result_of, result_of_many, targets_of
from dhsic.selection.request import NOT_THERE, OPENING, Request, check_opening
from dhsic.selection.run import Method
from dhsic.selectors.bahsic import BAHSIC, LinearHSIC
from dhsic.selectors.base import Selector
from dhsic.selectors.ccm import CCM
from dhsic.selectors.cv import BAHSICCV
from dhsic.selectors.fohsic import FOHSIC
from dhsic.selectors.onepass import OnePass
from dhsic.selectors.svmrfe import SVMRFE
from dhsic.selectors.weighting import FeatureWeighting

__all__ = [
    "BAHSIC",
    "BAHSICCV",
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
    "select_many",
    "selector_of",
]

#: What a method is by its name: a selector, and what the name says of its parameters.
METHODS: Mapping[str, tuple[type[Any], Mapping[str, Any]]] = {
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
    check_opening("select", {name: given[name] for name in unknown if name in NOT_THERE})
    if unknown:
        matrix = given.get("layer")
        meant = f" A matrix of AnnData is said by variable={matrix!r}." if matrix else ""
        raise InputError(
            f"{', '.join(unknown)}: no parameter of method {method!r}; it has {', '.join(known)}."
            f"{meant}"
        )
    kind, said = METHODS[method]
    selector: Selector = kind(n_features_to_select, **said, **given)
    return selector


def method_of(selector: Method) -> tuple[str, Any, dict[str, Any]]:
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
    n_features_to_select: int | float | str | None = 50,
    covariates: Any = None,
    feature_groups: Any = None,
    sample_dim: str | int | None = None,
    variable: str | None = None,
    missing_code: Any = "auto",
    pass_only: bool = False,
    filters: Filters | None = None,
    by_position: bool = False,
    per_target: bool = False,
    per_class: bool = False,
    **parameters: Any,
) -> xr.Dataset:
    """Select features of a store or dataset; the result as a Dataset.

    Parameters
    ----------
    data : path, URL, Dataset, DataArray or array
        As for `BAHSIC.fit`; an open `AbstractSource` passes too.
    target : str, list of str, array or None
        Labels, or the name of the variable of `data` that holds them (of a DataFrame or a table a
        column, which is then no feature), or several; None with ``label_kernel="self"``. With
        `per_target` also labels by name.
    method : str
        One of `METHODS`.
    n_features_to_select, **parameters
        Passed to it; those that are other options of `dhsic.open_source` (`missing_chunks`,
        `ploidy_policy`, `storage_options`, `not_features`) open `data`.
    covariates : array, str or list of str, optional
        As for `BAHSIC.fit`.
    feature_groups : array or str, optional
        As for `BAHSIC.fit`.
    sample_dim, variable, missing_code, pass_only, filters, by_position
        As for `BAHSIC.fit`.
    per_target : bool
        Rank features for each column of `target` by itself, as a call for that one would, with one
        reading of the data. Without it several columns are one target that features are selected
        for jointly.
    per_class : bool
        Rank features for each class of the target against the rest, with one reading of the data:
        what tells one cell type from all others.

    Returns
    -------
    xarray.Dataset
        See `dhsic.results`; with `per_target` ranks, scores, what is selected and the history of
        rounds have a dimension ``targets`` more, with `per_class` a dimension ``classes``.

    Examples
    --------
    >>> import numpy as np, dhsic
    >>> X = np.random.default_rng(0).standard_normal((100, 20))
    >>> y = {"first": X[:, 3] > 0, "second": X[:, 7] > 0}
    >>> found = dhsic.select(X, y, n_features_to_select=1, per_target=True)
    >>> found["rank"].sel(targets="second").argmin("features").item()
    7
    """
    opening = {name: parameters.pop(name) for name in OPENING if name in parameters}
    model = selector_of(method, n_features_to_select, parameters)
    asked: dict[str, Any] = {
        "covariates": covariates,
        "feature_groups": feature_groups,
        "sample_dim": sample_dim,
        "variable": variable,
        "missing_code": missing_code,
        "pass_only": pass_only,
        "filters": filters,
        "by_position": by_position,
        **opening,
    }
    if per_class:
        if per_target:
            raise InputError("per_target=True and per_class=True; pass one of them.")
        request = Request.of(model, data, target, opened_by=model.open_data, **asked)
        return result_of(of_classes(request), "classes")
    if not per_target:
        result: xr.Dataset = model.fit(data, target, **asked).result_
        return result
    named = targets_of(target, data)
    models = dict.fromkeys(named, model)
    return result_of_many(models, data, named, "targets", **asked)


def select_many(
    data: Any,
    target: Any,
    settings: Mapping[str, Mapping[str, Any]] | Sequence[Mapping[str, Any]],
    *,
    method: str = "bahsic",
    n_features_to_select: int | float | str | None = 50,
    covariates: Any = None,
    feature_groups: Any = None,
    sample_dim: str | int | None = None,
    variable: str | None = None,
    missing_code: Any = "auto",
    pass_only: bool = False,
    filters: Filters | None = None,
    by_position: bool = False,
    **parameters: Any,
) -> xr.Dataset:
    """Select with several settings of a method, as `select` with each, by one reading of the data.

    Parameters
    ----------
    settings : mapping or sequence of mappings
        Parameters of each run, by its name, besides the `parameters` that all have; such as
        ``[{"bandwidth": 0.1}, {"bandwidth": "median"}]``. Without names they are named by what
        they say: ``"bandwidth=0.1"``.
    data, target, method, n_features_to_select, covariates, feature_groups, sample_dim, variable, \
    missing_code, pass_only, filters, by_position, **parameters
        As of `select`.

    Returns
    -------
    xarray.Dataset
        As of `select`, with a dimension ``settings``.

    Examples
    --------
    >>> import numpy as np, dhsic
    >>> X = np.random.default_rng(0).standard_normal((100, 20))
    >>> found = dhsic.select_many(X, X[:, 3] > 0, [{"kernel": "linear"}, {"kernel": "gaussian"}])
    >>> found["settings"].values.tolist()
    ['kernel=linear', 'kernel=gaussian']
    """
    if not isinstance(settings, Mapping):
        settings = {", ".join(f"{k}={v}" for k, v in one.items()): one for one in settings}
    if not settings:
        raise InputError("settings are empty; pass the parameters of each run.")
    opening = {name: parameters.pop(name) for name in OPENING if name in parameters}
    models = {}
    for name, one in settings.items():
        n = one.get("n_features_to_select", n_features_to_select)
        rest = {k: v for k, v in one.items() if k != "n_features_to_select"}
        models[str(name)] = selector_of(method, n, {**parameters, **rest})
    return result_of_many(
        models,
        data,
        dict.fromkeys(models, target),
        "settings",
        covariates=covariates,
        feature_groups=feature_groups,
        sample_dim=sample_dim,
        variable=variable,
        missing_code=missing_code,
        pass_only=pass_only,
        filters=filters,
        by_position=by_position,
        **opening,
    )

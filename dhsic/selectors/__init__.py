"""Public selectors, one scikit-learn estimator per method, and `select` by method name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import xarray as xr

from dhsic import methods
from dhsic.errors import InputError
from dhsic.joins.filters import Filters
from dhsic.methods import METHODS, parameters_of, selector_of
from dhsic.selection.multi_output import of_classes, result_of, result_of_many, targets_of
from dhsic.selection.request import OPENING, Request
from dhsic.selectors.bahsic import BAHSIC, LinearHSIC
from dhsic.selectors.base import Estimator
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
    "parameters_of",
    "select",
    "select_many",
]

#: Estimator of each method.
ESTIMATORS: Mapping[type[Any], type[Any]] = {
    methods.BAHSIC: BAHSIC,
    methods.LinearHSIC: LinearHSIC,
    methods.CCM: CCM,
    methods.FOHSIC: FOHSIC,
    methods.OnePass: OnePass,
    methods.SVMRFE: SVMRFE,
    methods.FeatureWeighting: FeatureWeighting,
}


def estimator_of(method: str, n_features_to_select: Any, given: Mapping[str, Any]) -> Estimator:
    """Create the estimator of the method with this name; `given` are its parameters by name."""
    selector = selector_of(method, n_features_to_select, given)
    kind = ESTIMATORS.get(type(selector), type(selector))
    estimator: Estimator = kind(**selector.get_params(deep=False))
    return estimator


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
    event: Any = None,
    entry: Any = None,
    permute_whole: Any = None,
    permute_within: Any = None,
    sample_weight: Any = None,
    per_target: bool = False,
    per_class: bool = False,
    **parameters: Any,
) -> xr.Dataset:
    """Select features of a store or dataset, and return the result as a Dataset.

    Parameters
    ----------
    data : path, URL, Dataset, DataArray or array
        As in `BAHSIC.fit`, or an open `AbstractSource`.
    target : str, list of str, array or None
        Labels; or the name of the variable of `data` that contains them (for a DataFrame or a
        table, a column, which is then not a feature), or several names; None with
        ``label_kernel="self"``. With `per_target` also a mapping from names to labels. For censored
        times to an event, pass a structured array with the event as a second field, or pass
        `event`.
    method : str
        One of `METHODS`.
    n_features_to_select, **parameters
        Parameters of the method. The other options of `dhsic.open_source` (`missing_chunks`,
        `ploidy_policy`, `storage_options`, `not_features`, `na`, `categories`,
        `intersect_samples`) are used to open `data`.
    covariates : array, str or list of str, optional
        As in `BAHSIC.fit`.
    feature_groups : array or str, optional
        As in `BAHSIC.fit`.
    sample_dim, variable, missing_code, pass_only, filters, by_position, event, entry, \
    permute_whole, permute_within, sample_weight
        As in `BAHSIC.fit`.
    per_target : bool
        Rank features for each column of `target` separately, in one reading of the data. The
        results are the same as by one call per column. Otherwise several columns are one target,
        for which features are selected jointly.
    per_class : bool
        Rank features for each class of the target against the rest, with one reading of the data:
        these features distinguish, for example, one cell type from all others.

    Returns
    -------
    xarray.Dataset
        See `dhsic.results`. With `per_target`, ranks, scores, the selected features and the history
        of rounds have an extra dimension ``targets``; with `per_class`, a dimension ``classes``.

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
    model = estimator_of(method, n_features_to_select, parameters)
    options: dict[str, Any] = {
        "covariates": covariates,
        "feature_groups": feature_groups,
        "sample_dim": sample_dim,
        "variable": variable,
        "missing_code": missing_code,
        "pass_only": pass_only,
        "filters": filters,
        "by_position": by_position,
        "event": event,
        "entry": entry,
        "permute_whole": permute_whole,
        "permute_within": permute_within,
        "sample_weight": sample_weight,
        **opening,
    }
    if event is not None and (per_class or per_target):
        raise InputError(
            "event= belongs to one target of censored times, but per_target= and per_class= rank "
            "features for several targets. Call select once for each target, with its own event=."
        )
    if per_class:
        if per_target:
            raise InputError(
                "Both per_target=True and per_class=True were passed; pass only one of them."
            )
        request = Request.of(model, data, target, **options)
        return result_of(of_classes(request), "classes")
    if not per_target:
        result: xr.Dataset = model.fit(data, target, **options).result_
        return result
    targets = targets_of(target, data)
    models = dict.fromkeys(targets, model)
    return result_of_many(models, data, targets, "targets", **options)


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
    event: Any = None,
    entry: Any = None,
    sample_weight: Any = None,
    **parameters: Any,
) -> xr.Dataset:
    """Select features with each of several settings of a method, in one reading of the data.

    Each result is the same as by `select` with this setting.

    Parameters
    ----------
    settings : mapping or sequence of mappings
        Parameters of each run, by name, in addition to `parameters`, which apply to all runs; for
        example ``[{"bandwidth": 0.1}, {"bandwidth": "median"}]``. Runs without names are named by
        their parameters: ``"bandwidth=0.1"``.
    data, target, method, n_features_to_select, covariates, feature_groups, sample_dim, variable, \
    missing_code, pass_only, filters, by_position, event, entry, sample_weight, **parameters
        As in `select`.

    Returns
    -------
    xarray.Dataset
        As from `select`, with a dimension ``settings``.

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
        raise InputError("settings= is empty; pass the parameters of each run.")
    opening = {name: parameters.pop(name) for name in OPENING if name in parameters}
    models = {}
    for name, one in settings.items():
        n = one.get("n_features_to_select", n_features_to_select)
        own = {k: v for k, v in one.items() if k != "n_features_to_select"}
        models[str(name)] = estimator_of(method, n, {**parameters, **own})
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
        event=event,
        entry=entry,
        sample_weight=sample_weight,
        **opening,
    )

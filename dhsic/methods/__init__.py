"""Methods of selection, one class each, and a table of them by name.

A method has parameters and ranks features, without scikit-learn. The estimators of
`dhsic.selectors` are methods with `fit` and `transform`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dhsic.criteria import CRITERIA
from dhsic.errors import InputError
from dhsic.methods.bahsic import BAHSIC, LinearHSIC
from dhsic.methods.base import Selector
from dhsic.methods.ccm import CCM
from dhsic.methods.fohsic import FOHSIC
from dhsic.methods.onepass import OnePass
from dhsic.methods.svmrfe import SVMRFE
from dhsic.methods.weighting import FeatureWeighting
from dhsic.renamed import current_names
from dhsic.selection.request import NOT_THERE, check_opening
from dhsic.selection.run import Method

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
    "selector_of",
]

#: Method names, each with its class and the parameters that the name fixes.
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
    """Names of the parameters of a method, without the number of features to select."""
    if method not in METHODS:
        raise InputError(f"method={method!r} is unknown; pass one of {', '.join(METHODS)}.")
    kind, fixed = METHODS[method]
    return [n for n in kind._get_param_names() if n not in fixed and n != "n_features_to_select"]


def selector_of(method: str, n_features_to_select: Any, given: Mapping[str, Any]) -> Selector:
    """Create the selector of the method with this name; `given` are its parameters by name."""
    allowed = parameters_of(method)
    given = current_names(given, allowed)
    unknown = sorted(set(given) - set(allowed))
    check_opening("select", {name: given[name] for name in unknown if name in NOT_THERE})
    if unknown:
        matrix = given.get("layer")
        hint = f" To choose a matrix of AnnData, pass variable={matrix!r}." if matrix else ""
        raise InputError(
            f"{', '.join(unknown)}: unknown parameter of method {method!r}, which has "
            f"{', '.join(allowed)}.{hint}"
        )
    kind, fixed = METHODS[method]
    selector: Selector = kind(n_features_to_select, **fixed, **given)
    return selector


def method_of(selector: Method) -> tuple[str, Any, dict[str, Any]]:
    """Return the method name of a selector, its number of features, and its other parameters."""
    parameters = selector.get_params(deep=False)
    kinds = [kind for kind, _ in METHODS.values()]
    either = type(selector), *type(selector).__bases__  # an estimator is a subclass of its method
    own = next((kind for kind in either if kind in kinds), None)
    for method, (kind, fixed) in METHODS.items():
        if kind is own and fixed.items() <= parameters.items():
            free = {k: v for k, v in parameters.items() if k not in fixed}
            return method, free.pop("n_features_to_select"), free
    raise TypeError(f"{type(selector).__name__} is not a method of METHODS.")

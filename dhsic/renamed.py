"""Former names of parameters, which still work but emit a DeprecationWarning."""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Callable, Collection, Mapping
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec, TypeVar

from dhsic.errors import InputError, warn

P = ParamSpec("P")
R = TypeVar("R")

#: Current names by former name; checkpoints contain former names. If there are several current
#: names, a function or class has one of them.
RENAMED: Mapping[str, tuple[str, ...]] = {
    "given_others": ("rerank",),
    "approx": ("solver",),
    "estimator": ("statistic",),
    "memory": ("memory_limit",),
    "tolerance": ("max_expected_loss", "tol", "rtol"),
}
#: Value of `progress` by the former parameter `verbose`.
OF_VERBOSE = {1: "log", 2: "debug"}


def current_name(name: str, allowed: Collection[str]) -> str:
    """Return the current name of a parameter; names that are `allowed` are returned unchanged.

    >>> current_name("tolerance", ["tol"]), current_name("tolerance", ["tolerance"])
    ('tol', 'tolerance')
    """
    if name in allowed:
        return name
    return next((new for new in RENAMED.get(name, ()) if new in allowed), name)


def first_name(name: str) -> str:
    """Return the original name of a parameter, which checkpoints contain.

    >>> first_name("max_expected_loss"), first_name("step")
    ('tolerance', 'step')
    """
    return next((former for former, names in RENAMED.items() if name in names), name)


def current_names(parameters: Mapping[str, Any], allowed: Collection[str]) -> dict[str, Any]:
    """Replace former names of parameters by current names; names that are not `allowed` stay.

    Raises
    ------
    InputError
        A parameter is passed under both its former and its current name.
    """
    names = {name: current_name(name, allowed) for name in parameters}
    for former, name in names.items():
        if former == name:
            continue
        if name in parameters:
            raise InputError(f"{former}= is the former name of {name}=; pass {name}= alone.")
        warn(f"{former}= is called {name}= now. Pass {name}=.", DeprecationWarning)
    current = {names[name]: value for name, value in parameters.items()}
    if "verbose" in current and "verbose" not in allowed and "progress" in allowed:
        level = int(current.pop("verbose"))
        warn(
            "verbose= is part of progress= now. Pass progress='log' for a line per round, or "
            "progress='debug' for all messages.",
            DeprecationWarning,
        )
        if level > 0:
            current["progress"] = OF_VERBOSE[min(level, 2)]
    return current


def takes_former_names(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function to accept former names of parameters, with a DeprecationWarning."""
    allowed = signature(function).parameters

    @wraps(function)
    def called(*args: P.args, **parameters: P.kwargs) -> R:
        if not RENAMED.keys().isdisjoint(parameters):
            return function(*args, **current_names(parameters, allowed))
        return function(*args, **parameters)

    return called


class RenamingMeta(ABCMeta):
    """Metaclass of classes whose parameters may be passed under their former names."""

    def __call__(cls, *args: Any, **parameters: Any) -> Any:
        if not {*RENAMED, "verbose"}.isdisjoint(parameters):
            init = cls.__init__  # type: ignore[misc]  # a class declares it, not an instance
            parameters = current_names(parameters, signature(init).parameters)
        return super().__call__(*args, **parameters)

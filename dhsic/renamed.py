"""Former names of parameters, which still work with a DeprecationWarning."""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Collection, Mapping
from inspect import signature
from typing import Any

from dhsic.errors import InputError, warn

#: Parameters by their former names, which still work and are those that checkpoints have.
RENAMED = {"given_others": "rerank", "approx": "solver"}


def current_names(parameters: Mapping[str, Any], allowed: Collection[str]) -> dict[str, Any]:
    """Parameters by their names of today; those that are not `allowed` keep their names.

    Raises
    ------
    InputError
        A parameter is there under both of its names.
    """
    names = {old: new for old, new in RENAMED.items() if old in parameters and new in allowed}
    for old, new in names.items():
        if new in parameters:
            raise InputError(f"{old}= is the former name of {new}=; pass {new}= alone.")
        message = f"{old}= is called {new}= now. Pass {new}=."
        warn(message, DeprecationWarning)
    return {names.get(name, name): value for name, value in parameters.items()}


class RenamingMeta(ABCMeta):
    """Metaclass of classes whose parameters may be passed by their former names."""

    def __call__(cls, *args: Any, **parameters: Any) -> Any:
        if not RENAMED.keys().isdisjoint(parameters):
            parameters = current_names(parameters, signature(cls).parameters)
        return super().__call__(*args, **parameters)

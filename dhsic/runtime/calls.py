"""Serialisation of functions and arguments that pass through a Dask scheduler.

A scheduler unpickles every function that it forwards, and never unloads a module that it imported
for this. It therefore only receives the functions of this module (`call` with bytes, or `silence`).
This module imports nothing from dhsic.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any


def sealed(function: Callable[..., Any], *given: Any) -> tuple[Callable[..., Any], bytes]:
    """Return `call` and pickled bytes; a worker that calls it executes ``function(*given)``."""
    import cloudpickle  # type: ignore[import-untyped]  # no stubs

    return call, cloudpickle.dumps((function, given), protocol=5)


def call(seal: bytes, *more: Any) -> Any:
    """Call a function that `sealed` pickled, on a worker.

    The arguments `more` follow the pickled arguments.
    """
    function, arguments = pickle.loads(seal)
    return function(*arguments, *more)


class Call:
    """Function call that is executed when `pickle.loads` unpickles it.

    It is used for tasks on workers that may not have dhsic. A failed import is then an error of the
    task. Otherwise, a worker that cannot unpickle a task disconnects from its scheduler without a
    message.
    """

    def __init__(self, function: Callable[..., Any], *given: Any) -> None:
        self._call = function, given

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self._call


def silence(topics: list[str], dask_scheduler: Any) -> None:
    """Delete the stored events of `topics` on a scheduler; it would keep them forever."""
    for topic in topics:
        dask_scheduler._broker.truncate(topic)

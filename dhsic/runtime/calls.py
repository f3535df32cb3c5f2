"""Serialisation of functions and arguments that pass through a Dask scheduler.

A scheduler unpickles every function that it forwards, and never unloads a module that it imported
for this. So it receives only `call` and bytes, or `silence`; this module imports nothing of dhsic.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any


def sealed(function: Callable[..., Any], *given: Any) -> tuple[Callable[..., Any], bytes]:
    """Return `call` and pickled bytes; `Client.submit` of both calls ``function(*given)``."""
    import cloudpickle  # type: ignore[import-untyped]  # no stubs

    return call, cloudpickle.dumps((function, given), protocol=5)


def call(seal: bytes, *more: Any) -> Any:
    """Call, on a worker, the function that `sealed` pickled.

    The arguments `more` follow the pickled ones.
    """
    function, arguments = pickle.loads(seal)
    return function(*arguments, *more)


class Call:
    """Function call that is executed when `pickle.loads` unpickles it.

    Used for tasks on workers that may lack dhsic: a failed import is then an error of the task,
    whereas a worker that cannot unpickle a task disconnects from its scheduler without a message.
    """

    def __init__(self, function: Callable[..., Any], *given: Any) -> None:
        self._call = function, given

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self._call


def silence(topics: list[str], dask_scheduler: Any) -> None:
    """Delete the stored events of `topics` on a scheduler, which would keep them forever."""
    for topic in topics:
        dask_scheduler._broker.truncate(topic)

"""Functions and arguments on their way through a scheduler.

A scheduler unpickles every function that it passes on, and keeps for good what it imported for
that. So it is given `call` and bytes, or `silence`, and this module imports nothing of dhsic.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any


def sealed(function: Callable[..., Any], *given: Any) -> tuple[Callable[..., Any], bytes]:
    """What a cluster is asked, for `Client.submit`: a function, and what it is given first."""
    import cloudpickle  # type: ignore[import-untyped]  # no stubs

    return call, cloudpickle.dumps((function, given), protocol=5)


def call(seal: bytes, *more: Any) -> Any:
    """Do what was sealed, on a worker, where it is unpickled and imported."""
    function, given = pickle.loads(seal)
    return function(*given, *more)


class Call:
    """A call that is made where it is unpickled, by `pickle.loads` alone.

    So it is a task of a worker that may lack dhsic: what cannot be imported is the task's error,
    while a worker that fails to unpickle a task itself leaves its scheduler without a word.
    """

    def __init__(self, function: Callable[..., Any], *given: Any) -> None:
        self._call = function, given

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self._call


def silence(topics: list[str], dask_scheduler: Any) -> None:
    """Drop the events of topics, on the scheduler, which keeps them for ever."""
    for topic in topics:
        dask_scheduler._broker.truncate(topic)

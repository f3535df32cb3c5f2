"""Results of runs: an xarray Dataset with variables per feature and variables per round.

`schema` builds the result from the outcome of a run, `views` returns parts of a result, `files`
saves and loads results, and `tables` writes them as TSV, CSV, Parquet or JSON. `dhsic.accessor`
shows results in notebooks.
"""

from collections.abc import Callable

_callbacks: list[Callable[[], object]] = []


def call_at_first_result(callback: Callable[[], object]) -> None:
    """Register a function to be called once, before the first result is built or loaded."""
    _callbacks.append(callback)


def announce_result() -> None:
    """Call the registered functions that have not been called yet."""
    while _callbacks:
        _callbacks.pop()()

"""What does not fit in this process, and what would make it smaller."""

from __future__ import annotations

from dhsic.engines.memory import Promise, human
from dhsic.errors import MemoryBudgetError
from dhsic.runs.base import AbstractRun

#: Bytes of memory for each of a block, as `dhsic.engines.memory` counts them.
HELD = 5


def check_fits(promise: Promise, run: AbstractRun, block_bytes: int) -> None:
    """Refuse what the run itself would refuse, and say what the memory is for.

    Raises
    ------
    MemoryBudgetError
        The promise exceeds the limit of the run.
    """
    try:
        promise.check(run.memory, run.smaller)
    except MemoryBudgetError as error:
        blocks = HELD * block_bytes * run.runtime.n_workers
        if 2 * blocks > promise.total - promise.process:
            advice = (
                f"Most of it is for blocks of {human(block_bytes)}, one a thread: write the store "
                "again with narrower chunks (dhsic inspect says how), or use fewer threads."
            )
        elif 2 * (promise.squares + promise.tasks - blocks) > promise.total - promise.process:
            advice = f"Most of it is for m x m matrices: {run.smaller}."
        else:
            raise
        message = f"{error} {advice}"
        raise MemoryBudgetError(message) from error

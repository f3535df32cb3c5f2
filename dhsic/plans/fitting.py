"""What does not fit in this process, and what would make it smaller."""

from __future__ import annotations

from dhsic.engines.memory import Promise, human
from dhsic.errors import MemoryBudgetError
from dhsic.kernels.choosing import has_low_rank, resolve_kernel
from dhsic.runs.base import AbstractRun
from dhsic.runs.elimination import Elimination
from dhsic.scoring.adaptive import MOST_SAMPLES

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
        promise.check(run.memory)
    except MemoryBudgetError as error:
        blocks = HELD * block_bytes * run.runtime.n_workers
        if 2 * blocks > promise.total - promise.process:
            advice = (
                f"Most of it is for blocks of {human(block_bytes)}, one a thread: write the store "
                "again with narrower chunks (dhsic inspect says how), or use fewer threads."
            )
        elif 2 * (promise.squares + promise.tasks - blocks) > promise.total - promise.process:
            advice = f"Most of it is for m x m matrices: {fewer(run)}."
        else:
            raise
        message = f"{error} {advice}"
        raise MemoryBudgetError(message) from error


def fewer(run: AbstractRun) -> str:
    """What makes m x m matrices smaller: low rank has none where samples are many."""
    knows = isinstance(run, Elimination) and has_low_rank(resolve_kernel(run.parameters.kernel))
    if knows and run.groups is None and run.n_samples > MOST_SAMPLES:
        return "use fewer samples or approx='lowrank'"
    return "use fewer samples"

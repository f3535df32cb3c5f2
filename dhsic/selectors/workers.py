"""What a run asks of the workers of a cluster, promised before the work."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dhsic.errors import MemoryBudgetError
from dhsic.memory import COPIES, SLACK_BYTES, Promise, human
from dhsic.passes.reader import COMPACT_BYTES, block_bytes
from dhsic.runtime.base import PROCESS_BYTES, UNLIMITED, WorkerMemory
from dhsic.runtime.threads import Threads

if TYPE_CHECKING:
    from dhsic.selectors.run import SelectionRun

#: States that a worker keeps: this round's and the last one's.
STATES = 2
#: m x m matrices of a state at its largest: W and G, for the definition.
SQUARES_SENT = 2
#: Part of the thin matrices of the driver that a state may be.
OF_THIN = 8


@dataclass(frozen=True, slots=True)
class WorkerPromise:
    """Peak memory of a worker, bytes by purpose.

    Attributes
    ----------
    process : int
        What the process holds before its first task.
    states : int
        What is broadcast, of this round and the last.
    tasks : int
        Blocks, tiles and partial statistics of its tasks.
    block : int
        Of these, those that follow from how wide a block is.
    survivors : int
        Survivors that it keeps: what its limit leaves of their budget.
    n_threads : int
        Tasks at once.
    """

    process: int
    states: int
    tasks: int
    block: int
    survivors: int
    n_threads: int = 1

    @staticmethod
    def of(
        run: SelectionRun,
        memory: WorkerMemory = UNLIMITED,
        state_bytes: int | None = None,
    ) -> WorkerPromise:
        """Of a run on workers like that; `state_bytes` are bounded where they are not known."""
        m, n = run.n_samples, memory.n_threads
        alone = replace(run, runtime=Threads(n), memory=1 << 62)
        needed = alone.selector.fitted(alone)[0]
        state = _state_bound(needed, m) if state_bytes is None else state_bytes
        process, states = PROCESS_BYTES + SLACK_BYTES, STATES * state
        stored = m * run.source.n_features * np.dtype(run.source.dtype).itemsize
        kept = min(COMPACT_BYTES, stored) if needed.survivors else 0
        if memory.limit is not None:
            kept = max(0, min(kept, memory.limit - process - states - needed.tasks))
        block = n * COPIES * block_bytes(run.source, m)
        return WorkerPromise(process, states, needed.tasks, block, kept, n)

    @property
    def total(self) -> int:
        """Sum of all."""
        return self.process + self.states + self.tasks + self.survivors

    def __str__(self) -> str:
        return (
            f"at most {human(self.total)} ({human(self.tasks)} for tasks, "
            f"{human(self.states)} for what is broadcast, {human(self.survivors)} for survivors, "
            f"{human(self.process)} for the process)"
        )

    def check(self, memory: WorkerMemory, smaller: str) -> None:
        """Refuse what does not fit.

        Parameters
        ----------
        memory : WorkerMemory
            What the worker may have.
        smaller : str
            What makes m x m matrices smaller, for people.

        Raises
        ------
        MemoryBudgetError
            More than that; the message names what to change.
        """
        if memory.limit is None or self.total <= memory.limit:
            return
        squares = self.states + self.tasks - self.block
        give = "give workers more"
        if self.n_threads > 1:
            give = f"give workers fewer threads, or {human(self.total)}"
        if self.block >= max(squares, self.process):
            remedy = (
                f"write the store again with narrower chunks (dhsic inspect says how), or {give}"
            )
        elif squares >= self.process:
            remedy = f"{smaller}, or {give}"
        else:
            remedy = f"give workers {human(self.total)}"
        threads = "one thread" if self.n_threads == 1 else f"{self.n_threads} threads"
        raise MemoryBudgetError(
            f"A worker of {threads} needs {self}, and there are {human(memory.limit)} "
            f"({memory.said_by}); {remedy}."
        )


def _state_bound(needed: Promise, m: int) -> int:
    """What a round may broadcast, by what its driver holds."""
    squares = SQUARES_SENT * 8 * m * m if needed.squares else 0
    return max(squares, needed.landmarks // OF_THIN)

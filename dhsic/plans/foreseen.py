"""A cluster that is not there yet, as far as a plan is concerned with it; and what it needs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dhsic.engines.memory import SLACK_BYTES, human
from dhsic.errors import InputError, MemoryBudgetError
from dhsic.plans.passes import Work
from dhsic.runs.base import AbstractRun
from dhsic.runs.rounds import AbstractRounds
from dhsic.runtime.base import AbstractRuntime, Job, Task
from dhsic.runtime.threads import Threads
from dhsic.scoring.reader import COMPACT_BYTES
from dhsic.sources.base import AbstractSource

#: What a worker process of Dask holds with dhsic loaded.
PROCESS_BYTES = 240 << 20
#: States that a worker keeps: this round's and the last one's.
STATES = 2


class Foreseen(AbstractRuntime):
    """So many workers of one thread each, which share a folder; nothing runs on them."""

    name = "dask"
    is_remote = True

    def __init__(self, n_workers: Any) -> None:
        if isinstance(n_workers, bool) or not isinstance(n_workers, int) or n_workers < 1:
            raise InputError(f"n_workers={n_workers!r}; pass how many workers, 1 or more.")
        self.n_workers = n_workers

    @property
    def shared_folder(self) -> Path:
        """Any folder: workers are supposed to share one."""
        return Path(tempfile.gettempdir())

    def map(
        self, task: Task, source: AbstractSource, jobs: Sequence[Job], state: Any
    ) -> Iterator[Any]:
        """Refuse: a plan runs nothing."""
        raise TypeError(f"A plan runs nothing, and was given {len(jobs)} jobs.")


@dataclass(frozen=True, slots=True)
class WorkerPromise:
    """Peak memory of a worker of one thread, bytes by purpose.

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
        Survivors that it keeps.
    """

    process: int
    states: int
    tasks: int
    block: int
    survivors: int

    @staticmethod
    def of(run: AbstractRun, work: Work | None, widest: int) -> WorkerPromise:
        """Of a run on such workers; `widest` are the stored bytes of its widest block."""
        alone = replace(run, runtime=Threads(1), memory=1 << 62)
        needed = alone.promise_for(run.n_samples)
        stored = run.n_samples * run.source.n_features * run.source.dtype.itemsize
        room = run.budget if isinstance(run, AbstractRounds) else None
        return WorkerPromise(
            process=PROCESS_BYTES + SLACK_BYTES,
            states=STATES * (0 if work is None else work.state_bytes),
            tasks=needed.tasks,
            block=5 * widest,
            survivors=min(COMPACT_BYTES if room is None else room, stored)
            if needed.survivors
            else 0,
        )

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

    def check(self, limit: int | None, smaller: str) -> None:
        """Refuse what does not fit.

        Parameters
        ----------
        limit : int or None
            Bytes of a worker.
        smaller : str
            What makes m x m matrices smaller, for people.

        Raises
        ------
        MemoryBudgetError
            More than `limit`; the message names what to change.
        """
        if limit is None or self.total <= limit:
            return
        squares = self.states + self.tasks - self.block
        if self.block >= max(squares, self.survivors, self.process):
            remedy = (
                "write the store again with narrower chunks (dhsic inspect says how), or give "
                "workers more"
            )
        elif squares >= max(self.survivors, self.process):
            remedy = f"{smaller}, or give workers more"
        elif self.survivors >= self.process:
            remedy = f"give workers {human(self.total)}, or the run a smaller memory="
        else:
            remedy = f"give workers {human(self.total)}"
        raise MemoryBudgetError(
            f"A worker of one thread needs {self}, and there are {human(limit)} (worker_memory=); "
            f"{remedy}."
        )

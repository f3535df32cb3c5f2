"""Attempts to run a task on workers, and the time after which a task is late.

`Traffic` counts the tasks and bytes of a pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Literal

import distributed
from distributed import CancelledError, Future

from dhsic.runtime.worker import SharedOut
from dhsic.sources.blocks import Block

TIMES_MEDIAN = 4.0  # a share is late after this multiple of the median duration
NEVER_BEFORE = 10.0  # minimum seconds until a share is late: copies of short shares do not pay
SILENT = 5.0  # a worker is silent if its last heartbeat is this many seconds older than the newest
ENDED = ("finished", "error", "cancelled")  # in order of preference


def await_futures(
    futures: list[Future[Any]],
    seconds: float,
    until: Literal["ALL_COMPLETED", "FIRST_COMPLETED"] = "ALL_COMPLETED",
) -> None:
    """Wait for futures of one client, for at most `seconds`."""
    with futures[0].client.as_current(), suppress(TimeoutError, CancelledError):
        distributed.wait(futures, timeout=seconds, return_when=until)


@dataclass(slots=True)
class Traffic:
    """Numbers of tasks and of bytes sent on a cluster by one map."""

    is_sum: bool  # whether results were added
    n_jobs: int  # jobs, or sites
    n_values: int  # matrix values that the jobs, or the first step of the sites, read
    n_tasks: int = 0  # tasks that run jobs, including copies
    n_joins: int = 0  # tasks that add the results of others
    sent: int = 0  # bytes of tasks sent through the scheduler
    got: int = 0  # bytes of results received


@dataclass(eq=False, slots=True)
class TaskAttempt:
    """Task with the futures of its submitted copies, and its failures so far."""

    share: SharedOut
    key: str  # key of the first copy, prefix of the keys of other copies
    worker: str | None = None  # preferred worker of the first copy
    #: Submitted copies that may still return the result.
    copies: list[Future[Any]] = field(default_factory=list)
    #: Tasks that copies wait for, by the key of the copy.
    before: dict[str, Future[Any]] = field(default_factory=dict)
    n_submitted: int = 0
    tied_to: frozenset[str] = frozenset()  # allowed workers of the last copy
    since: float = 0.0  # time when the last copy was submitted or checked
    n_lost: int = 0  # times that all copies were lost with their workers
    errors: list[Exception] = field(default_factory=list)  # errors of the task, in order
    failed_on: set[str] = field(default_factory=set)  # workers on which it failed

    def next_key(self) -> str:
        """Return an unused task key for a copy.

        For a used key, the scheduler would return the old task.
        """
        self.n_submitted += 1
        return self.key if self.n_submitted == 1 else f"{self.key}-{self.n_submitted}"

    def wait(self, seconds: float) -> Future[Any] | None:
        """Wait at most `seconds` for a copy to finish; return the best finished copy, or None."""
        ended = self._ended()
        if ended is None and self.copies:
            await_futures(self.copies, seconds, "FIRST_COMPLETED")
            ended = self._ended()
        return ended

    def _ended(self) -> Future[Any] | None:
        ended = [copy for copy in self.copies if copy.status in ENDED]
        return min(ended, key=lambda copy: ENDED.index(copy.status), default=None)

    def release(self) -> None:
        """Release all copies; copies that have not started are cancelled."""
        while self.copies:
            self.copies.pop().release()
        while self.before:
            self.before.popitem()[1].release()

    @property
    def tasks(self) -> list[Future[Any]]:
        """Futures of all copies, and of the tasks that restore lost values for them."""
        return [*self.copies, *self.before.values()]

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Blocks of features that the jobs of the task read."""
        return tuple(block for job in self.share.jobs for block in job.blocks)

    @property
    def features(self) -> tuple[int, int] | None:
        """Number of the first feature in the blocks, and one past the last; None without blocks."""
        blocks = self.blocks
        return (blocks[0].start, blocks[-1].stop) if blocks else None

    def __str__(self) -> str:
        features = self.features
        return "features {} to {}".format(*features) if features else "a job"


def patience(took: Sequence[float], n_jobs: int = 1) -> float:
    """Return the seconds after which a task of `n_jobs` jobs is late.

    `took` contains the seconds per job of the finished tasks.

    >>> patience([20.0, 30.0, 40.0]), patience([0.1, 0.1, 0.2]), patience([])
    (120.0, 10.0, 10.0)
    """
    expected = TIMES_MEDIAN * median(took) * n_jobs if took else 0.0
    return max(expected, NEVER_BEFORE)


def silent(last_seen: Mapping[str, float]) -> set[str]:
    """Return the workers with a last heartbeat much older than the newest one.

    >>> silent({"tcp://a": 100.0, "tcp://b": 112.5, "tcp://c": 112.1})
    {'tcp://a'}
    """
    newest = max(last_seen.values(), default=0.0)
    return {worker for worker, time in last_seen.items() if time < newest - SILENT}

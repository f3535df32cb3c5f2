"""A flight: a share of a pass on its way to workers and back, what shows that it is late.

And what a whole pass asks of a cluster, in numbers (`Traffic`).
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

TIMES_MEDIAN = 4.0  # a share that takes so many times as long as others did is late
NEVER_BEFORE = 10.0  # seconds before which no share is late: copies of short ones cost more
SILENT = 5.0  # seconds behind the others after which a worker does not answer
ENDED = ("finished", "error", "cancelled")  # the first that is found counts


def await_futures(
    futures: list[Future[Any]],
    seconds: float,
    until: Literal["ALL_COMPLETED", "FIRST_COMPLETED"] = "ALL_COMPLETED",
) -> None:
    """Wait for futures of one client, at most so many seconds."""
    with futures[0].client.as_current(), suppress(TimeoutError, CancelledError):
        distributed.wait(futures, timeout=seconds, return_when=until)


@dataclass(slots=True)
class Traffic:
    """What a map has asked of a cluster."""

    is_sum: bool  # whether results were added
    n_jobs: int  # or sites
    n_values: int  # that jobs read; or that were read for sites at first
    n_tasks: int = 0  # that do them, copies included
    n_joins: int = 0  # tasks that add up what is left of these
    sent: int = 0  # bytes of the tasks, through the scheduler
    got: int = 0  # bytes of the results that came here


@dataclass(eq=False, slots=True)
class Flight:
    """A share, the futures of its copies, and what went wrong with it so far."""

    share: SharedOut
    key: str  # of the first copy, and the beginning of those of the others
    worker: str | None = None  # where it goes first
    #: Those of the submitted ones that may still bring the result.
    copies: list[Future[Any]] = field(default_factory=list)
    #: Tasks that those wait for, by the keys of these.
    before: dict[str, Future[Any]] = field(default_factory=dict)
    n_submitted: int = 0
    tied_to: frozenset[str] = frozenset()  # workers of the last one
    since: float = 0.0  # when the last one was submitted, or looked for
    n_lost: int = 0  # times that all copies were lost, which is no fault of the share
    errors: list[Exception] = field(default_factory=list)  # of the task, in that order,
    failed_on: set[str] = field(default_factory=set)  # and on which workers

    def next_key(self) -> str:
        """Key of another copy: one that was used keeps its old task on the scheduler."""
        self.n_submitted += 1
        return self.key if self.n_submitted == 1 else f"{self.key}-{self.n_submitted}"

    def wait(self, seconds: float) -> Future[Any] | None:
        """Return the copy that counts, None where none has ended after so many seconds."""
        ended = self._ended()
        if ended is None and self.copies:
            await_futures(self.copies, seconds, "FIRST_COMPLETED")
            ended = self._ended()
        return ended

    def _ended(self) -> Future[Any] | None:
        found = [copy for copy in self.copies if copy.status in ENDED]
        return min(found, key=lambda copy: ENDED.index(copy.status), default=None)

    def release(self) -> None:
        """No copy is needed any more; those that have not begun will not."""
        while self.copies:
            self.copies.pop().release()
        while self.before:
            self.before.popitem()[1].release()

    @property
    def tasks(self) -> list[Future[Any]]:
        """Tasks that may still bring the result."""
        return [*self.copies, *self.before.values()]

    @property
    def blocks(self) -> tuple[Block, ...]:
        """What is read for it."""
        return tuple(block for job in self.share.jobs for block in job.blocks)

    @property
    def features(self) -> tuple[int, int] | None:
        """Between which features they lie."""
        blocks = self.blocks
        return (blocks[0].start, blocks[-1].stop) if blocks else None

    def __str__(self) -> str:
        features = self.features
        return "features {} to {}".format(*features) if features else "a job"


def patience(took: Sequence[float], n_jobs: int = 1) -> float:
    """Seconds after which so many jobs are late, or looked after, when others took so long each.

    >>> patience([20.0, 30.0, 40.0]), patience([0.1, 0.1, 0.2]), patience([])
    (120.0, 10.0, 10.0)
    """
    known = TIMES_MEDIAN * median(took) * n_jobs if took else 0.0
    return max(known, NEVER_BEFORE)


def silent(last_seen: Mapping[str, float]) -> set[str]:
    """Workers whose last word came long before that of others, by the scheduler's clock.

    >>> silent({"tcp://a": 100.0, "tcp://b": 112.5, "tcp://c": 112.1})
    {'tcp://a'}
    """
    newest = max(last_seen.values(), default=0.0)
    return {worker for worker, seen in last_seen.items() if seen < newest - SILENT}

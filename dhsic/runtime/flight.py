"""One job on its way: copies of it on several workers, of which the first to end counts.

Which workers hold jobs up, so that they get nothing for a while.

A worker that hangs is not lost to Dask for minutes (its ``worker-ttl``), and looks idle meanwhile,
so that it is given more. Here it is *avoided* as soon as a job of its takes far longer than others
of the same map did, or as the scheduler hears nothing of it; the job goes to another worker too,
and the first result counts.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from statistics import median
from typing import Any, Literal

import distributed
from distributed import CancelledError, Future

from dhsic.runtime.base import Job

ENDED = ("finished", "error", "cancelled")  # the first that is found counts


def await_futures(
    futures: list[Future[Any]],
    seconds: float,
    until: Literal["ALL_COMPLETED", "FIRST_COMPLETED"] = "ALL_COMPLETED",
) -> None:
    """Wait for futures of one client, at most so many seconds."""
    with futures[0].client.as_current(), suppress(TimeoutError, CancelledError):
        distributed.wait(futures, timeout=seconds, return_when=until)


class Flight:
    """A job, the futures of its copies, and what went wrong with it so far.

    Attributes
    ----------
    key : str
        Key of the first copy, and the beginning of those of the others.
    submitted : int
        Copies that were submitted.
    lost : int
        Times that all copies were lost, which is no fault of the job.
    errors : list of Exception
        Errors of the task, in the order in which they came.
    failed_on : set of str
        Workers on which the task raised them.
    """

    def __init__(self, job: Job, key: str) -> None:
        self.job = job
        self.key = key
        self.submitted = 0
        self.lost = 0
        self.errors: list[Exception] = []
        self.failed_on: set[str] = set()
        self._copies: list[Future[Any]] = []
        self._since = time.monotonic()

    def next_key(self) -> str:
        """Key of the next copy: a key that was used keeps its old task on the scheduler."""
        return self.key if self.submitted == 0 else f"{self.key}-{self.submitted + 1}"

    def add(self, copy: Future[Any]) -> None:
        """Another copy is on its way."""
        self._copies.append(copy)
        self.submitted += 1
        self.look_again()

    def look_again(self) -> None:
        """Begin to wait anew."""
        self._since = time.monotonic()

    @property
    def waited(self) -> float:
        """Seconds since the last copy was submitted, or looked for."""
        return time.monotonic() - self._since

    @property
    def copies(self) -> list[Future[Any]]:
        """Copies that may still bring the result."""
        return list(self._copies)

    def wait(self, seconds: float) -> Future[Any] | None:
        """Return the copy that counts, None where none has ended after so many seconds."""
        ended = self._ended()
        if ended is None and self._copies:
            await_futures(self._copies, seconds, "FIRST_COMPLETED")
            ended = self._ended()
        return ended

    def _ended(self) -> Future[Any] | None:
        found = [copy for copy in self._copies if copy.status in ENDED]
        return min(found, key=lambda copy: ENDED.index(copy.status), default=None)

    def drop(self, copy: Future[Any]) -> None:
        """A copy will bring nothing any more."""
        self._copies.remove(copy)
        copy.release()

    def release(self) -> None:
        """No copy is needed any more; those that have not begun will not."""
        while self._copies:
            self._copies.pop().release()


TIMES_MEDIAN = 4.0  # a job that takes so many times as long as others did is late
KNOWN = 3  # others that must have ended for that
NEVER_BEFORE = 10.0  # seconds before which no job is late: copies of short jobs cost more
AVOIDED = 60.0  # seconds for which a worker that held a job up gets no other
SILENT = 5.0  # seconds behind the others after which a worker does not answer


def is_known(took: Sequence[float]) -> bool:
    """Whether enough jobs have ended to tell how long one takes."""
    return len(took) >= KNOWN


def patience(took: Sequence[float]) -> float:
    """Seconds after which a job is late, or looked after, when others took so long.

    Examples
    --------
    >>> patience([20.0, 30.0, 40.0]), patience([0.1, 0.1, 0.2]), patience([])
    (120.0, 10.0, 10.0)
    """
    return max(TIMES_MEDIAN * median(took), NEVER_BEFORE) if is_known(took) else NEVER_BEFORE


def silent(last_seen: Mapping[str, float]) -> set[str]:
    """Workers whose last word came long before that of others, by the scheduler's clock.

    Examples
    --------
    >>> silent({"tcp://a": 100.0, "tcp://b": 112.5, "tcp://c": 112.1})
    {'tcp://a'}
    """
    newest = max(last_seen.values(), default=0.0)
    return {worker for worker, seen in last_seen.items() if seen < newest - SILENT}


class Watch:
    """Workers that are avoided, each for a while.

    Examples
    --------
    >>> watch = Watch()
    >>> watch.avoid(["tcp://a"])
    >>> watch.others(["tcp://a", "tcp://b"])
    ['tcp://b']
    """

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def avoid(self, workers: Iterable[str]) -> None:
        """These workers held a job up."""
        self._until |= dict.fromkeys(workers, time.monotonic() + AVOIDED)

    @property
    def avoids(self) -> bool:
        """Whether any worker is to be avoided now."""
        now = time.monotonic()
        self._until = {worker: until for worker, until in self._until.items() if until > now}
        return bool(self._until)

    def others(self, workers: Iterable[str]) -> list[str]:
        """Those of the workers that are not to be avoided."""
        return [worker for worker in workers if not self.avoids or worker not in self._until]

"""One job on its way: copies of it on several workers, of which the first to end counts."""

from __future__ import annotations

import time
from contextlib import suppress
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

"""Which workers hold jobs up, so that they get nothing for a while.

A worker that hangs is not lost to Dask for minutes (its ``worker-ttl``), and looks idle meanwhile,
so that it is given more. Here it is *avoided* as soon as a job of its takes far longer than others
of the same map did, or as the scheduler hears nothing of it; the job goes to another worker too,
and the first result counts.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

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

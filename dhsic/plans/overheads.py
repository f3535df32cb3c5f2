"""What a cluster takes beside the work: its scheduler, what is sent, what comes back."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Overheads:
    """Times and rates of a cluster; by default those of one on a fast local network.

    Attributes
    ----------
    job : float
        Seconds of the scheduler for a job.
    client : float
        Seconds of the process that asks for a job; it works while the scheduler does.
    start : float
        Seconds of a pass until its first job runs.
    worker : float
        Part of its time that the scheduler spends on a worker process that does nothing.
    written : float
        Bytes of a state that the process that asks writes in a second.
    network : float
        Bytes of a state that a worker process gets in a second.
    storage : float
        The same of all worker processes together.
    results : float
        Bytes of results that the process that asks reads and adds up in a second.

    Examples
    --------
    >>> Overheads().of_job(0), Overheads(job=1e-3, worker=5e-5).of_job(1000)
    (0.0008, 0.0010526315789473684)
    """

    job: float = 0.8e-3
    client: float = 0.7e-3
    start: float = 20e-3
    worker: float = 4e-5
    written: float = 1e9
    network: float = 200e6
    storage: float = math.inf
    results: float = 1e9

    def of_job(self, n_processes: int) -> float:
        """Seconds between two jobs that the scheduler hands out to so many worker processes."""
        left = max(1 - self.worker * n_processes, 0.05)
        return max(self.job / left, self.client)

    def of_state(self, n_bytes: int, n_processes: int) -> float:
        """Seconds until all of them have a state."""
        together = n_processes * n_bytes / self.storage
        return n_bytes / self.written + max(n_bytes / self.network, together)

"""How long a run takes: its passes at the rates of one thread, shared out over workers.

A pass of J jobs on W workers takes ceil(J / W) / J of the time of one; what this process does is
shared by nobody. On a cluster the scheduler spends a millisecond on a job, and the state of a
round reaches every worker once.
"""

from __future__ import annotations

from dataclasses import dataclass

from dhsic.plans.passes import Pass, Work
from dhsic.plans.rates import Rates
from dhsic.runtime.threads import usable_cores
from dhsic.scoring.reader import JOBS_PER_THREAD

#: Seconds of the scheduler for a job, and of a pass until its first job runs.
JOB, START = 0.8e-3, 20e-3
#: The same on threads.
JOB_HERE, START_HERE = 0.4e-3, 2e-3
#: Bytes a second at which a state reaches a worker.
NETWORK = 200e6


@dataclass(frozen=True, slots=True)
class Expected:
    """Time on so many workers.

    Attributes
    ----------
    n_workers : int
        Threads, or workers of one thread each.
    on_cluster : bool
        Whether they are workers of a cluster.
    seconds, at_most : float
        Without and with what low rank may have to fall back on.
    """

    n_workers: int
    on_cluster: bool
    seconds: float
    at_most: float

    @staticmethod
    def of(work: Work, rates: Rates, n_workers: int, *, on_cluster: bool) -> Expected:
        """Sum over the passes."""

        def seconds(p: Pass) -> float:
            if p.what == "prepare":
                return p.elements / rates.elements
            if on_cluster and not p.at_home:
                return _afar(p, rates, n_workers)
            return _here(p, rates, usable_cores() if on_cluster else n_workers)

        least, most = work.total(seconds), work.total(seconds, at_most=True)
        return Expected(n_workers, on_cluster, float(least), float(most))


def _here(p: Pass, rates: Rates, n_threads: int) -> float:
    return START_HERE + p.n_jobs * JOB_HERE + _of_one(p, rates) * _share(p.n_jobs, n_threads)


def _afar(p: Pass, rates: Rates, n_workers: int) -> float:
    n_jobs = max(1, min(p.n_jobs, JOBS_PER_THREAD * n_workers))
    return (
        START
        + n_jobs * JOB
        + p.state_bytes / NETWORK
        + _of_one(p, rates) * _share(n_jobs, n_workers)
    )


def _share(n_jobs: int, n_workers: int) -> float:
    """Part of the time of one worker that so many take."""
    return -(-n_jobs // n_workers) / n_jobs


def _of_one(p: Pass, rates: Rates) -> float:
    """Seconds of one thread."""
    return (
        p.float32 / rates.float32
        + p.float64 / rates.float64
        + p.values / rates.values
        + p.bytes_decoded / rates.decode
    )

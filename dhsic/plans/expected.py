"""How long a run takes: its passes at the rates of one thread, shared out over workers.

A pass of J jobs on W threads takes ceil(J / W) / J of the time of one; what this process does is
shared by nobody. On a cluster the scheduler hands jobs out one by one while others run, the state
of a round reaches every worker process once, and results that are summed are summed here.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from dhsic.plans.overheads import Overheads
from dhsic.plans.passes import Pass, Work
from dhsic.plans.rates import Rates
from dhsic.runtime.threads import usable_cores
from dhsic.scoring.reader import JOBS_PER_THREAD

#: A cluster of which nothing else is known, and bytes a second at which a state reaches a worker.
USUAL = Overheads()
NETWORK = USUAL.network
#: Seconds of a job, and of a pass until its first job runs, on threads.
JOB_HERE, START_HERE = 0.4e-3, 2e-3
#: Time of a task for each number of a large result, room for it and its sums, in functions of a
#: matrix entry.
SUMMING = 7.0


@dataclass(frozen=True, slots=True)
class Terms:
    """Seconds, by what takes them.

    Attributes
    ----------
    driver : float
        What this process does alone: between passes, and passes over few features.
    shared : float
        Tasks, of which there are as many as threads or more.
    narrow : float
        Tasks of passes with fewer jobs than threads: more workers gain nothing there.
    scheduler : float
        What handing out jobs takes beyond the time of the tasks.
    start : float
        Until the first jobs of passes run.
    broadcast : float
        States on their way to workers.
    results : float
        Reading and adding up what workers return.
    """

    driver: float = 0.0
    shared: float = 0.0
    narrow: float = 0.0
    scheduler: float = 0.0
    start: float = 0.0
    broadcast: float = 0.0
    results: float = 0.0

    @property
    def total(self) -> float:
        """Sum of all."""
        return float(sum(getattr(self, field.name) for field in fields(self)))

    def __add__(self, other: Terms) -> Terms:
        names = [field.name for field in fields(self)]
        return Terms(**{name: getattr(self, name) + getattr(other, name) for name in names})

    def __radd__(self, nothing: int) -> Terms:
        return self


@dataclass(frozen=True, slots=True)
class Setting:
    """Where passes run.

    Attributes
    ----------
    rates : Rates
        Of one thread, here as there.
    n_workers : int
        Threads in all.
    n_processes : int
        Worker processes that they are in; 0 for threads of this process.
    overheads : Overheads
        What a cluster takes besides tasks.
    n_here : int
        Threads of this process.
    """

    rates: Rates
    n_workers: int
    n_processes: int = 0
    overheads: Overheads = USUAL
    n_here: int = 1

    def terms(self, p: Pass) -> Terms:
        """What a pass takes."""
        if p.what == "prepare":
            return Terms(driver=self._alone(p))
        if self.n_processes and not p.at_home:
            return self._afar(p)
        alone = START_HERE + p.n_jobs * JOB_HERE + self._of_one(p) * _share(p.n_jobs, self.n_here)
        return Terms(driver=alone) if self.n_processes else Terms(shared=alone)

    def _alone(self, p: Pass) -> float:
        flops = p.float64 / self.rates.float64 / self.n_here
        return p.elements / self.rates.elements + flops

    def _afar(self, p: Pass) -> Terms:
        costs = self.overheads
        n_jobs = p.n_jobs if p.result_bytes else min(p.n_jobs, JOBS_PER_THREAD * self.n_workers)
        n_jobs = max(1, n_jobs)
        tasks = self._of_one(p) * _share(n_jobs, self.n_workers)
        handing = n_jobs * costs.of_job(self.n_processes)
        is_narrow = n_jobs < self.n_workers
        return Terms(
            shared=0.0 if is_narrow else tasks,
            narrow=tasks if is_narrow else 0.0,
            scheduler=max(handing - tasks, 0.0),
            start=costs.start,
            broadcast=costs.of_state(p.sent_bytes or p.state_bytes, self.n_processes),
            results=p.result_bytes / costs.results,
        )

    def _of_one(self, p: Pass) -> float:
        """Seconds of one thread."""
        rates = self.rates
        return (
            p.float32 / rates.float32
            + p.float64 / rates.float64
            + p.values / rates.values
            + p.bytes_decoded / rates.decode
            + SUMMING * p.result_bytes / 8 / rates.elements
        )


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
        """Sum over the passes, on workers of one thread each."""
        if on_cluster:
            setting = Setting(rates, n_workers, n_workers, n_here=usable_cores())
        else:
            setting = Setting(rates, n_workers, n_here=n_workers)
        least, most = (
            work.total(lambda p: setting.terms(p).total, at_most=at_most)
            for at_most in (False, True)
        )
        return Expected(n_workers, on_cluster, float(least), float(most))


def _share(n_jobs: int, n_workers: int) -> float:
    """Part of the time of one worker that so many take."""
    return -(-n_jobs // n_workers) / n_jobs

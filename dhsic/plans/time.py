"""Expected time of a run: its passes at the rates of one thread, distributed over workers.

The rates of this machine and this store are measured within a second, or passed by the user. A pass
of J jobs on W threads takes ceil(J / W) / J of the time on one thread. Work in this process is not
distributed. On a cluster, the scheduler hands out tasks one by one, the state of a round is sent to
each worker process once, and partial sums are added on workers, level by level
(`dhsic.runtime.partition`). This process receives one sum.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from dhsic._typing import Array
from dhsic.errors import InputError
from dhsic.linalg.quadratic import Quadratic, form_flops
from dhsic.passes import TILE
from dhsic.passes.jobs import block_width
from dhsic.plans.dry_run import Step
from dhsic.plans.rounds import Work
from dhsic.runtime.cores import usable_cores
from dhsic.runtime.partition import FAN, joins, n_each, partition_jobs
from dhsic.runtime.threads import single_blas_thread
from dhsic.runtime.tree_reduce import n_nodes
from dhsic.sources import AbstractSource
from dhsic.sources.scaling import measure, standardise
from dhsic.validation import is_positive


@dataclass(frozen=True, slots=True)
class Overheads:
    """Times and rates of a cluster; the defaults describe a fast local network.

    Times are in seconds, rates in bytes per second.

    >>> Overheads().of_job(0), Overheads(job=1e-3, worker=5e-5).of_job(1000)
    (0.0008, 0.0010526315789473684)
    """

    job: float = 0.8e-3  # scheduler time per task
    client: float = 0.7e-3  # client time per task; overlaps with the scheduler
    start: float = 20e-3  # duration of an empty pass, and of one level of tasks that add sums
    worker: float = 4e-5  # fraction of the scheduler's time used by each idle worker process
    written: float = 1e9  # rate at which the client writes a state
    network: float = 200e6  # rate at which a worker process receives states and results of others
    storage: float = math.inf  # rate of shared storage, for all worker processes together
    results: float = 1e9  # rate at which the client reads and adds results

    def of_job(self, n_processes: int) -> float:
        """Seconds between two tasks that the scheduler hands out to `n_processes` workers."""
        free_share = max(1 - self.worker * n_processes, 0.05)
        return max(self.job / free_share, self.client)

    def of_state(self, n_bytes: int, n_processes: int) -> float:
        """Seconds until all worker processes have received the data of a round.

        The data have `n_bytes` bytes.
        """
        together = n_processes * n_bytes / self.storage
        return n_bytes / self.written + max(n_bytes / self.network, together)


#: Maximum time in seconds to measure one rate, and maximum number of samples used for it.
SECONDS, MOST_SAMPLES = 0.25, 2048


@dataclass(frozen=True, slots=True)
class Rates:
    """Work that one thread does per second.

    Attributes
    ----------
    float32, float64 : float
        Floating-point operations of quadratic forms, as in scoring.
    decode : float
        Stored bytes that are read and decoded; infinite for data in memory.
    values : float
        Values that are standardised.
    elements : float
        Entries of a kernel matrix that are computed.

    Examples
    --------
    >>> Rates.of({"float32": 5e10, "float64": 2e10, "decode": 1e9, "values": 4e8, "elements": 1e8})
    Rates(float32=50000000000.0, float64=20000000000.0, decode=1000000000.0, values=400000000.0, \
elements=100000000.0)
    """

    float32: float
    float64: float
    decode: float
    values: float
    elements: float

    @staticmethod
    def of(given: Any) -> Rates:
        """Validate rates that were measured elsewhere, and return them.

        Raises
        ------
        InputError
            Names differ from the fields of `Rates`, or a value is not a positive number.
        """
        if isinstance(given, Rates):
            return given
        names = [field.name for field in fields(Rates)]
        if not isinstance(given, Mapping) or sorted(given) != sorted(names):
            raise InputError(
                f"rates={given!r}; pass a dhsic.plans.Rates, or a mapping with {', '.join(names)} "
                "per second and thread, such as .rates of another plan."
            )
        for name, value in given.items():
            if not is_positive(value) and value != math.inf:
                raise InputError(f"rates[{name!r}]={value!r}; pass a positive number per second.")
        return Rates(**{name: float(value) for name, value in given.items()})

    @staticmethod
    def measured(source: AbstractSource, m: int) -> Rates:
        """Measure the rates on this machine with a block of the source, in about one second."""
        n = max(2, min(m, MOST_SAMPLES))
        rng = np.random.default_rng(0)
        X = rng.standard_normal((TILE, n))
        A = rng.standard_normal((n, n))
        K, D = np.empty_like(A), np.abs(A)
        raw = rng.integers(0, 3, X.shape, dtype=np.int8)
        scaling, _ = measure(raw, None, standardize=True)
        with single_blas_thread():
            return Rates(
                float32=_of_forms(A, X, np.float32),
                float64=_of_forms(A, X, np.float64),
                decode=_decoding(source),
                values=_rate(lambda: standardise(raw, None, scaling, np.float32), X.size),
                elements=_rate(lambda: np.exp(np.negative(D, out=K), out=K), K.size),
            )

    def plain(self) -> dict[str, float | None]:
        """Rates by name, for JSON; infinite rates, which JSON cannot express, are None."""
        return {k: v if math.isfinite(v) else None for k, v in asdict(self).items()}


def _of_forms(A: Array, X: Array, dtype: Any) -> float:
    """Measure floating-point operations per second of one thread in quadratic forms.

    Quadratic forms are most of the work of a run.
    """
    forms, values = Quadratic.of(A, 1.0, dtype), X.astype(dtype)
    return _rate(lambda: forms.forms(values), len(X) * form_flops(len(A)))


def _rate(work: Callable[[], Any], amount: float) -> float:
    """Measure the amount of work per second: call `work`, of size `amount`, for `SECONDS`.

    The first call is not timed.
    """
    work()
    n, started, passed = 0, time.perf_counter(), 0.0
    while passed < SECONDS:
        work()
        n += 1
        passed = time.perf_counter() - started
    return n * amount / passed


def _decoding(source: AbstractSource) -> float:
    """Measure stored bytes read and decoded per second, on blocks in the middle of the source."""
    if source.in_memory:
        return math.inf
    itemsize = np.dtype(source.dtype).itemsize
    blocks = source.blocks(block_width(source.n_samples, source.n_features, itemsize))
    source.read(blocks[0])  # the first one opens the store
    n_bytes, started, passed = 0, time.perf_counter(), 0.0
    for block in blocks[len(blocks) // 2 :]:
        source.read(block)
        n_bytes += block.width * source.n_samples * itemsize
        passed = time.perf_counter() - started
        if passed > SECONDS:
            break
    return n_bytes / max(passed, 1e-9)


#: Overheads of the default cluster; rate in bytes per second at which a state reaches a worker.
USUAL = Overheads()
NETWORK = USUAL.network
#: On threads: overhead in seconds per job, and delay in seconds until the first job of a pass runs.
JOB_HERE, START_HERE = 0.4e-3, 2e-3
#: Time per entry of a large result for allocation and sums, in evaluations of one matrix entry.
SUMMING = 7.0


@dataclass(frozen=True, slots=True)
class Terms:
    """Seconds of a pass or run, by cause."""

    #: Work in this process alone: between passes, and passes over few features.
    driver: float = 0.0
    #: Passes with at least as many jobs as threads.
    shared: float = 0.0
    #: Passes with fewer jobs than threads; more workers do not make them faster.
    narrow: float = 0.0
    #: Time for the scheduler to hand out tasks.
    scheduler: float = 0.0
    #: Delay until the first task of a pass runs.
    start: float = 0.0
    #: Sending states to workers.
    broadcast: float = 0.0
    #: Tasks that add partial sums.
    sums: float = 0.0
    #: Reading results.
    results: float = 0.0

    @property
    def total(self) -> float:
        """Sum of all terms, in seconds."""
        return float(sum(getattr(self, field.name) for field in fields(self)))

    def __add__(self, other: Terms) -> Terms:
        names = [field.name for field in fields(self)]
        return Terms(*(getattr(self, name) + getattr(other, name) for name in names))

    def __radd__(self, nothing: int) -> Terms:
        return self

    def __mul__(self, times: int) -> Terms:
        return Terms(*(times * getattr(self, field.name) for field in fields(self)))


@dataclass(frozen=True, slots=True)
class Setting:
    """Machine or cluster that runs passes: rates of one thread, and numbers of threads."""

    rates: Rates
    n_workers: int
    #: Number of worker processes that these threads belong to; 0 for threads of this process.
    n_processes: int = 0
    overheads: Overheads = USUAL
    n_here: int = 1

    def terms(self, p: Step) -> Terms:
        """Estimate the seconds of one step of a run, by cause."""
        if not p.n_features:
            return Terms(driver=self._alone(p))
        if self.n_processes and not p.at_home:
            return self._afar(p)
        alone = START_HERE + p.n_jobs * JOB_HERE + self._of_one(p) * _share(p.n_jobs, self.n_here)
        return Terms(driver=alone) if self.n_processes else Terms(shared=alone)

    def _alone(self, p: Step) -> float:
        flops = p.float64 / self.rates.float64 / self.n_here
        return p.elements / self.rates.elements * _share(p.inside, self.n_here) + flops

    def shares(self, p: Step) -> list[range]:
        """Partition the jobs of a pass into tasks on a cluster; return their ranges of jobs."""
        threads = [self.n_workers // self.n_processes] * self.n_processes
        return [
            jobs
            for _, jobs in partition_jobs(p.n_jobs, threads, n_each(p.n_values, self.n_workers))
        ]

    def joins(self, p: Step) -> list[int]:
        """Return the number of tasks per level of the tree that adds the partial sums of a pass."""
        return joins(len(self.shares(p))) if p.sum_bytes else []

    def _afar(self, p: Step) -> Terms:
        costs, shares, levels = self.overheads, self.shares(p), self.joins(p)
        n_threads = self.n_workers // self.n_processes
        each = _share(max(map(len, shares)) * p.inside, n_threads)
        waves = -(-len(shares) // self.n_processes)  # tasks per process, one after the other
        tasks = self._of_one(p) * each * waves * max(map(len, shares)) / p.n_jobs
        is_narrow = p.n_jobs * p.inside < self.n_workers
        nodes = sum(n_nodes(jobs, p.n_jobs) for jobs in shares) if levels else 0
        return Terms(
            shared=0.0 if is_narrow else tasks,
            narrow=tasks if is_narrow else 0.0,
            scheduler=(len(shares) + sum(levels)) * costs.of_job(self.n_processes),
            start=costs.start,
            broadcast=costs.of_state(p.sent_bytes, min(len(shares), self.n_processes)),
            sums=len(levels)
            * (costs.start + FAN * nodes / len(shares) * p.sum_bytes / costs.network),
            results=(p.result_bytes + p.sum_bytes) * (1 / costs.written + 1 / costs.results),
        )

    def _of_one(self, p: Step) -> float:
        rates = self.rates
        return (
            p.float32 / rates.float32
            + p.float64 / rates.float64
            + p.values / rates.values
            + p.bytes_decoded / rates.decode
            + p.elements / rates.elements
            + SUMMING * (p.result_bytes + p.n_jobs * p.sum_bytes) / 8 / rates.elements
        )


@dataclass(frozen=True, slots=True)
class Expected:
    """Expected time of a run on `n_workers` threads, or workers of a cluster if `on_cluster`.

    Each worker has `worker_threads` threads.
    """

    n_workers: int
    on_cluster: bool
    worker_threads: int
    seconds: float  # if low rank meets its tolerance
    at_most: float  # if it does not

    @staticmethod
    def of(
        work: Work, rates: Rates, n_workers: int, *, on_cluster: bool, n_threads: int = 1
    ) -> Expected:
        """Sum the times of all steps, on threads or on workers with `n_threads` threads each."""
        if on_cluster:
            setting = Setting(rates, n_workers * n_threads, n_workers, n_here=usable_cores())
        else:
            setting = Setting(rates, n_workers, n_here=n_workers)
        least, most = work.both(lambda p: setting.terms(p).total)
        return Expected(n_workers, on_cluster, n_threads, float(least), float(most))


def _share(n_jobs: int, n_workers: int) -> float:
    """Return the time of a pass of `n_jobs` on `n_workers` threads, relative to one thread."""
    return -(-n_jobs // n_workers) / n_jobs

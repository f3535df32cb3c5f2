"""How long a run takes: its passes at the rates of one thread, shared out over workers.

Rates of this machine and this store are measured in a second, or given. A pass of J jobs on W
threads takes ceil(J / W) / J of the time of one; what this process does is shared by nobody. On a
cluster the scheduler hands out a task for every worker process, one by one, and the state of a
round reaches each of them once; what the tasks leave of a sum is added by others, level by level
(`dhsic.runtime.shares`), and one sum comes here.
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
from dhsic.plans.dry import Step
from dhsic.plans.rounds import Work
from dhsic.runtime.cores import usable_cores
from dhsic.runtime.shares import FAN, cut, joins, n_each
from dhsic.runtime.threads import single_blas_thread
from dhsic.runtime.tree import n_nodes
from dhsic.sources import AbstractSource
from dhsic.sources.scaling import measure, standardise
from dhsic.validation import is_positive


@dataclass(frozen=True, slots=True)
class Overheads:
    """Times and rates of a cluster; by default those of one on a fast local network.

    Times are in seconds, rates in bytes a second.

    >>> Overheads().of_job(0), Overheads(job=1e-3, worker=5e-5).of_job(1000)
    (0.0008, 0.0010526315789473684)
    """

    job: float = 0.8e-3  # of the scheduler for a task
    client: float = 0.7e-3  # of the process that asks for one; it works while the scheduler does
    start: float = (
        20e-3  # of a pass of one task that does nothing, and of a level of tasks that add
    )
    worker: float = 4e-5  # part of its time that the scheduler spends on an idle worker process
    written: float = 1e9  # of a state, by the process that asks
    network: float = 200e6  # that a worker process gets, of a state or from other workers
    storage: float = math.inf  # the same of all worker processes together
    results: float = 1e9  # that the process that asks reads and adds up

    def of_job(self, n_processes: int) -> float:
        """Seconds between two tasks that the scheduler hands out to so many worker processes."""
        left = max(1 - self.worker * n_processes, 0.05)
        return max(self.job / left, self.client)

    def of_state(self, n_bytes: int, n_processes: int) -> float:
        """Seconds until all of them have a state."""
        together = n_processes * n_bytes / self.storage
        return n_bytes / self.written + max(n_bytes / self.network, together)


#: Seconds that each rate is measured for, at most; and samples that it is measured with.
SECONDS, MOST_SAMPLES = 0.25, 2048


@dataclass(frozen=True, slots=True)
class Rates:
    """What one thread does in a second.

    Attributes
    ----------
    float32, float64 : float
        Flops of quadratic forms, as scoring takes them.
    decode : float
        Stored bytes that are read and decoded; infinite in memory.
    values : float
        Values that are standardised.
    elements : float
        Entries of a kernel matrix.

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
        """Rates that were measured elsewhere.

        Raises
        ------
        InputError
            Other names than those of a `Rates`, or what is no positive number.
        """
        if isinstance(given, Rates):
            return given
        names = [field.name for field in fields(Rates)]
        if not isinstance(given, Mapping) or sorted(given) != sorted(names):
            raise InputError(
                f"rates={given!r}; pass a dhsic.plans.Rates, or a mapping with {', '.join(names)} "
                "per second of one thread, such as another plan's .rates."
            )
        for name, value in given.items():
            if not is_positive(value) and value != math.inf:
                raise InputError(f"rates[{name!r}]={value!r}; pass a positive number a second.")
        return Rates(**{name: float(value) for name, value in given.items()})

    @staticmethod
    def measured(source: AbstractSource, m: int) -> Rates:
        """Measure on this machine, with a block of this source; a second in all."""
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
        """Values for JSON, which knows no infinity."""
        return {k: v if math.isfinite(v) else None for k, v in asdict(self).items()}


def _of_forms(A: Array, X: Array, dtype: Any) -> float:
    """Flops per second of quadratic forms, which most of the time goes to."""
    forms, values = Quadratic.of(A, 1.0, dtype), X.astype(dtype)
    return _rate(lambda: forms.forms(values), len(X) * form_flops(len(A)))


def _rate(work: Callable[[], Any], amount: float) -> float:
    """Amount per second, over `SECONDS` of calls after a first one."""
    work()
    n, started, passed = 0, time.perf_counter(), 0.0
    while passed < SECONDS:
        work()
        n += 1
        passed = time.perf_counter() - started
    return n * amount / passed


def _decoding(source: AbstractSource) -> float:
    """Stored bytes per second of some blocks from the middle of the source."""
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
    """Seconds, by what takes them."""

    #: What this process does alone: between passes, and passes over few features.
    driver: float = 0.0
    #: Tasks of passes with as many jobs as threads, and with fewer: more workers gain nothing.
    shared: float = 0.0
    narrow: float = 0.0
    #: What handing out tasks takes, and until the first of them runs.
    scheduler: float = 0.0
    start: float = 0.0
    #: States on their way to workers, tasks that add up sums, and what comes here being read.
    broadcast: float = 0.0
    sums: float = 0.0
    results: float = 0.0

    @property
    def total(self) -> float:
        """Sum of all."""
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
    """Where passes run: at which rates of a thread, on how many threads in all."""

    rates: Rates
    n_workers: int
    #: Worker processes that the threads are in; 0 where they are those of this process.
    n_processes: int = 0
    overheads: Overheads = USUAL
    n_here: int = 1

    def terms(self, p: Step) -> Terms:
        """What a pass takes."""
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
        """Jobs of the tasks of a pass on a cluster."""
        threads = [self.n_workers // self.n_processes] * self.n_processes
        return [some for _, some in cut(p.n_jobs, threads, n_each(p.n_values, self.n_workers))]

    def joins(self, p: Step) -> list[int]:
        """Tasks that add up what these leave, level by level."""
        return joins(len(self.shares(p))) if p.sum_bytes else []

    def _afar(self, p: Step) -> Terms:
        costs, shares, levels = self.overheads, self.shares(p), self.joins(p)
        n_threads = self.n_workers // self.n_processes
        each = _share(max(map(len, shares)) * p.inside, n_threads)
        waves = -(-len(shares) // self.n_processes)  # of tasks, one at a time in a process
        tasks = self._of_one(p) * each * waves * max(map(len, shares)) / p.n_jobs
        is_narrow = p.n_jobs * p.inside < self.n_workers
        left = sum(n_nodes(some, p.n_jobs) for some in shares) if levels else 0
        return Terms(
            shared=0.0 if is_narrow else tasks,
            narrow=tasks if is_narrow else 0.0,
            scheduler=(len(shares) + sum(levels)) * costs.of_job(self.n_processes),
            start=costs.start,
            broadcast=costs.of_state(p.sent_bytes, min(len(shares), self.n_processes)),
            sums=len(levels)
            * (costs.start + FAN * left / len(shares) * p.sum_bytes / costs.network),
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
    """Time on so many threads, or workers of so many threads each."""

    n_workers: int
    on_cluster: bool
    worker_threads: int
    seconds: float  # where low rank meets its tolerance
    at_most: float  # and where it does not

    @staticmethod
    def of(
        work: Work, rates: Rates, n_workers: int, *, on_cluster: bool, n_threads: int = 1
    ) -> Expected:
        """Sum over the passes, on threads or on workers of `n_threads` each."""
        if on_cluster:
            setting = Setting(rates, n_workers * n_threads, n_workers, n_here=usable_cores())
        else:
            setting = Setting(rates, n_workers, n_here=n_workers)
        least, most = work.both(lambda p: setting.terms(p).total)
        return Expected(n_workers, on_cluster, n_threads, float(least), float(most))


def _share(n_jobs: int, n_workers: int) -> float:
    """Part of the time of one worker that so many take."""
    return -(-n_jobs // n_workers) / n_jobs

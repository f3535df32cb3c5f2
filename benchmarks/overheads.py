"""What a cluster takes beside the work, measured through dhsic's own runtime on this machine."""

import time
from dataclasses import replace

import numpy as np
import psutil

from dhsic.plans.time import Overheads
from dhsic.runtime.base import Job
from dhsic.runtime.dask import DaskRuntime
from dhsic.sources.arrays import ArraySource

N_TASKS, N_PASSES, N_BLOCKS = 1000, 40, 8
BLOCK = 64 << 20  # bytes of a state, and of a result


def nothing(_source, job, _state):
    """A task that takes no time."""
    return job.payload


def nap(_source, job, _state):
    """A task that takes its payload in seconds, and no processor."""
    time.sleep(job.payload)
    return job.payload


def arrival(_source, _job, _state):
    """When this process has its state, by the clock of the machine."""
    return time.time()


def block(_source, job, _state):
    return np.full(BLOCK // 8, float(job.payload))


class Clock:
    """Processor seconds of the scheduler and of this process, and seconds, from here on."""

    def __init__(self, scheduler):
        self._scheduler = psutil.Process(scheduler)
        self._began = self._now()

    def _now(self):
        times = self._scheduler.cpu_times()
        return times.user + times.system, time.process_time(), time.perf_counter()

    def passed(self):
        """(scheduler, client, wall)."""
        return tuple(now - then for now, then in zip(self._now(), self._began, strict=True))


def measured(cluster):
    """Overheads of a cluster of this machine; what it cannot tell is left as it is."""
    with cluster.client() as client, DaskRuntime(client) as runtime:
        source = ArraySource(np.zeros((2, 2)))
        job, client_s = _of_tasks(cluster, client, source)
        known = Overheads(job=job, client=client_s, start=_start(runtime, source))
        written, network = _of_state(runtime, source)
        return replace(known, written=written, network=network, results=_results(runtime, source))


def _of_tasks(cluster, client, source):
    """Processor seconds of the scheduler and of this process for a task."""
    jobs = [Job((), payload=i) for i in range(N_TASKS)]
    with DaskRuntime(client, window=N_TASKS) as runtime:
        list(runtime.map(nothing, source, jobs, None))
        clock = Clock(cluster.scheduler)
        assert list(runtime.map(nothing, source, jobs, None)) == list(range(N_TASKS))
        scheduler, client_s, _ = clock.passed()
        n_tasks = runtime.traffic[-1].n_tasks
    return scheduler / n_tasks, client_s / n_tasks


def _start(runtime, source):
    """Seconds of a pass of one job."""
    took = []
    for _ in range(N_PASSES):
        began = time.perf_counter()
        list(runtime.map(nothing, source, [Job(())], None))
        took.append(time.perf_counter() - began)
    return float(np.median(took))


def _of_state(runtime, source):
    """Bytes a second: of a state that is written here, and that a worker process then has."""
    writes, reads = [], []
    for number in range(N_BLOCKS):
        state = np.full(BLOCK // 8, float(number))
        began = time.perf_counter()
        runtime._broadcast(state).discard()
        writes.append(time.perf_counter() - began)
        began = time.perf_counter()
        list(runtime.map(arrival, source, [Job(())] * runtime.n_workers, state))
        reads.append(time.perf_counter() - began)
    write = float(np.median(writes))
    return BLOCK / write, BLOCK / max(float(np.median(reads)) - write, 1e-3)


def _results(runtime, source):
    """Bytes a second that this process reads and adds up: by its processor time."""
    total = np.zeros(BLOCK // 8)
    jobs = [Job((), payload=i) for i in range(N_BLOCKS)]
    began = time.process_time()
    for part in runtime.map(block, source, jobs, None):
        total += part
    assert total[0] == sum(range(N_BLOCKS))
    return N_BLOCKS * BLOCK / (time.process_time() - began)


def simulated(cluster, n_workers, seconds, waves=3):
    """The scheduler among so many workers whose tasks sleep: what a task takes it and this process.

    Returns
    -------
    dict
        Processor seconds a task, net of what they take while nothing happens; and efficiency, the
        time that the tasks alone would take over the time that they took.
    """
    with cluster.client() as client, DaskRuntime(client, timeout=300) as runtime:
        source = ArraySource(np.zeros((2, 2)))
        jobs = [Job((), payload=seconds)] * n_workers
        list(runtime.map(nap, source, [Job((), payload=0.01)] * n_workers, None))
        idle = Clock(cluster.scheduler)
        time.sleep(5)
        idle_s, idle_c, idle_wall = idle.passed()
        clock = Clock(cluster.scheduler)
        for _ in range(waves):
            list(runtime.map(nap, source, jobs, None))
        scheduler, mine, wall = clock.passed()
        n_tasks = waves * n_workers
        return {
            "workers": n_workers,
            "idle": idle_s / idle_wall,
            "scheduler_s": (scheduler - idle_s / idle_wall * wall) / n_tasks,
            "client_s": (mine - idle_c / idle_wall * wall) / n_tasks,
            "jobs": n_tasks,
            "seconds": seconds,
            "efficiency": waves * seconds / wall,
        }

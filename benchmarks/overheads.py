"""What a cluster takes beside the work, measured through dhsic's own runtime on this machine.

`counted` counts what a run asks of many workers in one process: a worker there has one thread of a
process that all share, so seconds mean nothing; but tasks of each pass, and what the scheduler is
told and tells, are as on machines of their own, and are held against the model of `dhsic.plan`.
"""

import time
from collections import Counter
from dataclasses import replace
from inspect import iscoroutinefunction

import numpy as np
import psutil
from distributed.comm.tcp import TCP
from selecting import how_scored, select

from dhsic.namespace import slices
from dhsic.passes import landmarks, survivors
from dhsic.plans.dry_run import Step
from dhsic.plans.time import Overheads, Setting
from dhsic.runtime.base import Job
from dhsic.runtime.dask import DaskRuntime
from dhsic.sources.arrays import ArraySource

N_TASKS, N_PASSES, N_BLOCKS = 1000, 40, 8
BLOCK = 64 << 20  # bytes of a state, and of a result
#: Messages of the scheduler for a task: sent, done, told; given back, forgotten, let go of.
OF_TASK = 6
#: And for a part that a task gets from another worker: told of, forgotten, let go of. A graph is
#: one: all tasks of a pass, and each task that adds.
OF_PART = 3
#: What is said about tasks; all else comes by the clock.
ABOUT_TASKS = (
    *("update-graph", "compute-task", "task-finished", "key-in-memory"),
    *("client-releases-keys", "free-keys", "release-worker-data", "add-keys"),
)
_counts = Counter()


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


def counted(cluster, n_workers, store, rates, n_slices, **asked):
    """Rows of a table of what was counted and what the model says.

    All survivors stay away, and samples are in so many slices.
    """
    survivors.HOME_BYTES = -1
    landmarks.sample_slices = lambda m, _: slices(m, -(-m // n_slices))
    with cluster.client() as client, DaskRuntime(client, timeout=300) as runtime:
        client.run_on_scheduler(watch)
        select(store, how_scored("lowrank"), runtime=runtime, **asked)
        messages, told = client.run_on_scheduler(seen)
        passes = list(runtime.traffic)
    setting = Setting(rates, n_workers, n_workers)
    steps = [Step(n_jobs=p.n_jobs, n_values=p.n_values, sum_bytes=int(p.is_sum)) for p in passes]
    shares, joins = [setting.shares(s) for s in steps], [setting.joins(s) for s in steps]
    tasks = [len(s) for s in shares]
    n_tasks, n_joins = sum(tasks), sum(map(sum, joins))
    n_graphs = len(passes) + n_joins
    n_parts = sum(len(s) + sum(j) - 1 for s, j in zip(shares, joins, strict=True) if j)
    n_messages = OF_TASK * (n_tasks + n_joins) + n_graphs + OF_PART * n_parts
    return [
        ("passes", len(passes), ""),
        ("most tasks of a pass", max(p.n_tasks for p in passes), max(tasks)),
        ("tasks", sum(p.n_tasks for p in passes), n_tasks),
        ("passes with other tasks", sum(map(_differs, passes, tasks, joins)), 0),
        ("tasks that add", sum(p.n_joins for p in passes), n_joins),
        ("messages of the scheduler", messages, n_messages),
        ("bytes that it sent", told, ""),
        ("bytes of tasks", sum(p.sent for p in passes), ""),
        ("bytes of results", sum(p.got for p in passes), ""),
    ]


def _differs(done, n_tasks, joins):
    return (done.n_tasks, done.n_joins) != (n_tasks, sum(joins))


def watch(dask_scheduler):
    """Count what a scheduler is told, and what it tells."""
    handlers = dask_scheduler.stream_handlers
    for op in set(ABOUT_TASKS) & set(handlers):
        handlers[op] = _counting(op, handlers[op])
    send, write = dask_scheduler.send_all, TCP.write

    def send_all(client_msgs, worker_msgs):
        for told in (*client_msgs.values(), *worker_msgs.values()):
            _counts.update(message["op"] for message in told)
        return send(client_msgs, worker_msgs)

    async def writing(comm, *message, **how):
        n = await write(comm, *message, **how)
        _counts["bytes"] += n
        return n

    dask_scheduler.send_all, TCP.write = send_all, writing


def _counting(op, do):
    def handle(*given, **named):
        _counts[op] += 1
        return do(*given, **named)

    async def await_it(*given, **named):
        return await handle(*given, **named)

    return await_it if iscoroutinefunction(do) else handle


def seen(dask_scheduler):
    """Messages about tasks, and bytes sent."""
    del dask_scheduler  # it was this process's
    return sum(_counts[op] for op in ABOUT_TASKS), _counts["bytes"]

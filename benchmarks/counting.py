"""What a run asks of a cluster, counted on many workers in one process: tasks, messages, bytes.

A worker here has one thread of a process that all share, so seconds mean nothing; how many tasks
there are of each pass, what the scheduler is told and tells, and what goes through it and the
driver is the same as on machines of their own, and is held against the model of `dhsic.plan`.
"""

from collections import Counter
from inspect import iscoroutinefunction

from distributed.comm.tcp import TCP
from selecting import how_scored, select

from dhsic.namespace import slices
from dhsic.passes import landmarks, survivors
from dhsic.plans.dry import Step
from dhsic.plans.time import Setting
from dhsic.runtime.dask import DaskRuntime

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

"""What a cluster and its client hold between runs, when they should hold nothing."""

import gc
import time
from dataclasses import asdict, dataclass

import numpy as np
import psutil
from measuring import MIB

SETTLES_S = 20.0  # that tasks and connections of a run may take to go
#: What the scheduler counts.
COUNTS = ("tasks", "datasets", "topics", "events", "clients")
#: Names of files that Dask keeps for its workers, and that a cluster says in.
OF_DASK = (".log", "scheduler.json", "dask-scratch-space", "dask-worker-space", ".lock", "workers")


@dataclass(frozen=True)
class Held:
    """What is held at one moment.

    Attributes
    ----------
    rss, fds, threads : dict
        Resident bytes, open file descriptors and threads of every process.
    tasks, datasets, events, topics, clients : int
        That the scheduler knows of: tasks (futures are tasks somebody wants), published datasets,
        events that it keeps for who asks later, their topics, and clients.
    files : list of str
        In the folder for temporary files, those of Dask left out.
    """

    rss: dict
    fds: dict
    threads: dict
    tasks: int
    datasets: int
    events: int
    topics: int
    clients: int
    files: list

    def plain(self):
        return asdict(self)


def held(client, processes, folder):
    """Look now; `processes` as of `Cluster.processes`, with any others."""
    seen = {name: psutil.Process(pid) for name, pid in processes.items()}
    known = client.run_on_scheduler(_known)
    return Held(
        rss={name: process.memory_info().rss for name, process in seen.items()},
        fds={name: process.num_fds() for name, process in seen.items()},
        threads={name: process.num_threads() for name, process in seen.items()},
        files=sorted(
            str(path.relative_to(folder)) for path in folder.rglob("*") if not _of_dask(path)
        ),
        **known,
    )


def settled(client, processes, folder):
    """Look once the tasks of a run are gone, but those of published datasets; or after a while."""
    gc.collect()
    client.run(gc.collect)
    deadline = time.monotonic() + SETTLES_S
    while True:
        now = held(client, processes, folder)
        if now.tasks <= now.datasets or time.monotonic() > deadline:
            return now
        time.sleep(0.1)


def _known(dask_scheduler):
    topics = dask_scheduler.get_events()
    return {
        "tasks": len(dask_scheduler.tasks),
        "datasets": len(dask_scheduler.extensions["publish"].datasets),
        "events": sum(len(events) for events in topics.values()),
        "topics": len(topics),
        "clients": len(dask_scheduler.clients),
    }


def _of_dask(path):
    return any(part.endswith(OF_DASK) for part in path.parts)


def slope(values):
    """MiB by which bytes grow from one run to the next: the median over all pairs of runs."""
    x, y = np.arange(len(values)), np.asarray(values, dtype=float) / MIB
    i, j = np.triu_indices(len(values), 1)
    return float(np.median((y[j] - y[i]) / (x[j] - x[i])))

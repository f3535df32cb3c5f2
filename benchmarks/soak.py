"""Fifty runs back to back on one cluster: does anything stay?

    python benchmarks/soak.py                       # about five minutes
    python benchmarks/soak.py --runs 8 --json FILE

A scheduler and two workers in processes of their own; runs of many methods, engines and data,
one after the other, on one client. After each, once its tasks are gone: resident memory, open
files and threads of every process, and what the scheduler and the folder for temporary files
hold. The verdict: whether memory grows after the first runs, and whether anything was left.
"""

import argparse
import gc
import json
import os
import signal
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import psutil
from cluster import Cluster
from measuring import MIB
from soaking import Runs

#: Runs that the memory of a process may take to find its level: every kind of run twice. Less than
#: all.
WARM_UP = 26
#: MiB a run below which memory is flat: ten thousand runs then take 1 GiB.
FLAT = 0.1
N_WORKERS = 2
SETTLES_S = 20.0  # that tasks and connections of a run may take to go
#: What the scheduler counts.
COUNTS = ("tasks", "datasets", "topics", "events", "clients")
#: Names of files that Dask keeps for its workers, and that a cluster says in.
OF_DASK = (".log", "scheduler.json", "dask-scratch-space", "dask-worker-space", ".lock", "workers")


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    add = parser.add_argument
    add("--runs", type=int, default=50)
    add("--every", type=int, default=5, help="runs between rows of the table")
    add("--only", metavar="RUN", help="runs of this name alone, as the table has it")
    add("--scratch", type=Path, help="where a folder is made for it, and removed")
    add("--json", type=Path, metavar="FILE", help="write the results here too")
    return parser.parse_args()


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


def soak(folder, options):
    """[(what the run was, its seconds, what was held after it)], the first before any run."""
    shared = folder / "tmp"
    runs = Runs(folder / "data", shared / "shared")
    ways = [way for way in runs.ways() if options.only in (None, way[0])]
    with Cluster(shared, N_WORKERS) as cluster, cluster.client() as client:
        processes = cluster.processes | {"client": os.getpid()}
        rows = [("nothing yet", 0.0, settled(client, processes, shared))]
        show_heads(rows[0][2])
        show_row(0, *rows[0])
        for number in range(1, options.runs + 1):
            way, run = ways[(number - 1) % len(ways)]
            began = time.perf_counter()
            run(client)
            took = time.perf_counter() - began
            rows.append((way, took, settled(client, processes, shared)))
            if number % options.every == 0 or number == options.runs:
                show_row(number, *rows[-1])
    return rows


def show_heads(held):
    names = [f"{name} MiB" for name in held.rss]
    print("runs  last run      ", *names, "open files   threads     ", *COUNTS, "files", sep="  ")


def show_row(number, way, _, held):
    memory = [f"{held.rss[name] / MIB:{len(name) + 4}.1f}" for name in held.rss]
    each = [f"{'/'.join(map(str, of.values())):12s}" for of in (held.fds, held.threads)]
    counts = [f"{getattr(held, name):{len(name)}d}" for name in COUNTS]
    print(f"{number:4d}  {way:14s}", *memory, *each, *counts, f"{len(held.files):5d}", sep="  ")


def verdict(rows):
    """What grew and what stayed, for JSON."""
    states = [held for _, _, held in rows]
    before, last = states[0], states[-1]
    warm = states[min(WARM_UP, len(rows) // 2) + 1 :]
    return {
        "runs": len(rows) - 1,
        "seconds": sum(took for _, took, _ in rows),
        "runs_of_slopes": len(warm),
        "mib_per_run": {name: slope([held.rss[name] for held in warm]) for name in before.rss},
        "grown_mib": {name: (last.rss[name] - warm[0].rss[name]) / MIB for name in before.rss},
        "more_fds": {name: last.fds[name] - warm[0].fds[name] for name in before.fds},
        "more_threads": {name: last.threads[name] - warm[0].threads[name] for name in before.fds},
        "left": {name: getattr(last, name) - getattr(before, name) for name in COUNTS},
        "files_left": sorted(set(last.files) - set(before.files)),
    }


def show_verdict(said):
    n_runs, n_last = said["runs"], said["runs_of_slopes"]
    print(f"\n{n_runs} runs in {said['seconds']:.0f} s; over the last {n_last}:")
    for name, grows in said["mib_per_run"].items():
        word = "flat" if grows <= FLAT else f"GROWS by more than {FLAT:g}"
        fds, threads = said["more_fds"][name], said["more_threads"][name]
        print(f"  {name:10s} {grows:+7.3f} MiB a run, {word}; {fds:+d} files, {threads:+d} threads")
    left = ", ".join(f"{n} {name}" for name, n in said["left"].items())
    print(f"left on the scheduler: {left}\nfiles left: {', '.join(said['files_left']) or 'none'}")


def main():
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the processes end too
    with tempfile.TemporaryDirectory(dir=options.scratch, prefix="soak-") as name:
        folder = Path(name)
        tempfile.tempdir = str(folder / "tmp")  # files that runs leave here are counted too
        rows = soak(folder, options)
        tempfile.tempdir = None
    said = verdict(rows)
    show_verdict(said)
    if options.json:
        states = [{"way": way, "seconds": s} | asdict(held) for way, s, held in rows]
        options.json.write_text(json.dumps({"verdict": said, "states": states}, indent=1))


if __name__ == "__main__":
    main()

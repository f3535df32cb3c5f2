"""A scheduler and its workers as processes of their own, on this machine.

As a script, `cluster.py ADDRESS N`: many workers of one thread in one process, whose tasks sleep.
"""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import dask
from distributed import Client, Worker

HERE = str(Path(__file__).parent)
STARTS_S = 300.0  # on a busy machine
LOCAL = ("--host", "127.0.0.1", "--no-dashboard")
#: Dask's profiler looks at every thread of every worker a hundred times a second; and a scheduler
#: keeps its last hundred thousand moves of tasks: a thousand do, and are soon all there.
QUIET = {
    "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False",
    "DASK_DISTRIBUTED__ADMIN__LOW_LEVEL_LOG_LENGTH": "1000",
    "OMP_NUM_THREADS": "1",
}
#: Each of many workers would look at the machine twice a second.
MONITOR = {"distributed.admin.system-monitor.interval": "600s"}


class Cluster:
    """Processes of Dask, ended with the block.

    Parameters
    ----------
    folder : Path
        For logs and what workers write; their ``TMPDIR``.
    n_workers, threads : int
        Worker processes, and threads of each.
    simulated : bool
        All workers are in one process, whose tasks sleep.

    Attributes
    ----------
    address : str
    scheduler : int
        Its process.
    """

    def __init__(self, folder, n_workers, *, threads=1, simulated=False):
        self._folder = folder
        self._n_workers = n_workers
        self._threads = threads
        self._simulated = simulated
        self._processes = []

    def __enter__(self):
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            told = self._folder / "scheduler.json"
            of_scheduler = ("scheduler", "--port", "0", "--scheduler-file", told, *LOCAL)
            self.scheduler = self._start("-m", "dask", *of_scheduler)
            self.address = self._address(told)
            self._start_workers()
            with self.client() as client:
                client.wait_for_workers(self._n_workers, timeout=STARTS_S)
                self.workers = sorted(set(client.run(os.getpid).values()))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error):
        for process in reversed(self._processes):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def client(self):
        """A client that is not the default one of this process."""
        return Client(self.address, set_as_default=False, timeout=STARTS_S)

    @property
    def processes(self):
        """{what it is: process} of all that hold work."""
        workers = {f"worker {i}": pid for i, pid in enumerate(self.workers, 1)}
        return {"scheduler": self.scheduler} | workers

    def _start_workers(self):
        if self._simulated:
            self._start(__file__, self.address, self._n_workers)
            return
        own = ("--nthreads", self._threads, "--memory-limit", "0")
        own = (*own, "--local-directory", self._folder / "workers")
        for _ in range(self._n_workers):
            self._start("-m", "dask", "worker", self.address, *own, *LOCAL)

    def _start(self, *arguments):
        command = [sys.executable, *arguments]
        log = self._folder / f"{len(self._processes)}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env=self._environment(),
                start_new_session=True,  # what it started ends with it
            )
        self._processes.append(process)
        return process.pid

    def _environment(self):
        """Tasks of benchmarks are imported by workers too."""
        path = os.pathsep.join(filter(None, (HERE, os.environ.get("PYTHONPATH"))))
        return {**os.environ, **QUIET, "TMPDIR": str(self._folder), "PYTHONPATH": path}

    def _address(self, told):
        deadline = time.monotonic() + STARTS_S
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError, ValueError):
                return json.loads(told.read_text())["address"]
            time.sleep(0.05)
        raise TimeoutError(f"no scheduler within {STARTS_S:g} s; see the logs in {self._folder}")


async def work(address, n):
    """Workers in this process, until it is asked to end."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    workers = [
        Worker(address, nthreads=1, memory_limit=0, dashboard=False, host="127.0.0.1", name=str(i))
        for i in range(n)
    ]
    for i in range(0, n, 20):
        await asyncio.gather(*workers[i : i + 20])
    await stop.wait()
    await asyncio.gather(*(worker.close(timeout=2, nanny=False) for worker in workers))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    dask.config.set(MONITOR)
    asyncio.run(work(sys.argv[1], int(sys.argv[2])))

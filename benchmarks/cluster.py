"""A scheduler and its workers as processes of their own, on this machine."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from distributed import Client

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


class Cluster:
    """Processes of Dask, ended with the block.

    Parameters
    ----------
    folder : Path
        For logs and what workers write; their ``TMPDIR``.
    n_workers, threads : int
        Worker processes, and threads of each.
    simulated : bool
        All workers are in one process, for tasks that sleep.

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
            self._start(Path(HERE) / "manyworkers.py", self.address, self._n_workers)
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

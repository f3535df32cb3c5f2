"""Scheduler, workers and driver as processes of their own, to be killed, stopped and replaced.

All listen on the loopback, or on an address that the test made for them. Every process leads a
session of its own, so that what it started ends with it; `Processes` ends them all.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

TESTS = Path(__file__).parents[1]
STARTS = 120.0  # seconds that a process may take to start on a busy machine
DASK = "distributed.cli.dask_"
QUIET = {
    "DASK_DISTRIBUTED__ADMIN__LOW_LEVEL_LOG_LENGTH": "0",
    "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONUNBUFFERED": "1",
}


def until(condition: Callable[[], object], seconds: float, what: str) -> None:
    """Wait for a condition; fail the test with `what` was waited for."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {seconds:g} s")
        time.sleep(0.01)


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


class Process:
    """A process with its log."""

    def __init__(
        self, arguments: list[str], log: Path, environment: dict[str, str], prefix: list[str]
    ) -> None:
        self.log = log
        path = os.pathsep.join([str(TESTS), str(TESTS.parent)])
        with log.open("ab") as file:
            self.popen = subprocess.Popen(
                [*prefix, sys.executable, *arguments],
                stdout=file,
                stderr=file,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **QUIET, "PYTHONPATH": path, **environment},
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self.popen.pid

    @property
    def is_alive(self) -> bool:
        return self.popen.poll() is None

    def send(self, number: int) -> None:
        os.kill(self.pid, number)

    def end(self) -> None:
        """Kill it and what it started, as far as that is still there."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.popen.wait(30)

    def wait(self, seconds: float) -> int:
        """Wait for its end; return its code."""
        try:
            self.popen.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"no end within {seconds:g} s:\n{self.said}") from None
        return int(self.popen.returncode)

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")


class Processes:
    """All processes of a test.

    Parameters
    ----------
    folder : Path
        For logs, and for what workers write.
    host : str
        Address on which the scheduler listens.
    """

    def __init__(self, folder: Path, host: str = "127.0.0.1") -> None:
        self.folder = folder
        self.host = host
        self.address = ""
        self.all: list[Process] = []
        self.workers: list[Process] = []

    def start(
        self,
        *arguments: str,
        environment: dict[str, str] | None = None,
        prefix: tuple[str, ...] = (),
    ) -> Process:
        log = self.folder / f"{len(self.all)}.log"
        process = Process(list(arguments), log, environment or {}, list(prefix))
        self.all.append(process)
        return process

    def scheduler(self, port: int = 0) -> Process:
        """Start a scheduler, on the port or any, and wait for it."""
        port = port or free_port()
        process = self.start(
            *("-m", f"{DASK}scheduler", "--host", self.host, "--port", str(port)),
            *("--dashboard-address", "127.0.0.1:0"),
        )
        until(lambda: "Scheduler at" in process.said, STARTS, "a scheduler")
        self.address = f"tcp://{self.host}:{port}"
        return process

    def worker(
        self,
        pause: float = 0.0,
        *,
        memory: str = "0",
        nanny: bool = False,
        prefix: tuple[str, ...] = (),
        host: str | None = None,
    ) -> Process:
        """Start a worker with one thread that takes `pause` seconds longer for each job."""
        process = self.start(
            *("-m", f"{DASK}worker", self.address, "--nanny" if nanny else "--no-nanny"),
            *("--nthreads", "1", "--host", host or self.host, "--memory-limit", memory),
            *("--no-dashboard", "--local-directory", str(self.folder)),
            *("--preload", str(TESTS / "faults" / "slowly.py")),
            environment={"FAULTS_SECONDS": str(pause)},
            prefix=prefix,
        )
        self.workers.append(process)
        return process

    def add_workers(self, n: int, pause: float = 0.0, **how: object) -> list[Process]:
        """Start workers and wait for them."""
        started = [self.worker(pause, **how) for _ in range(n)]
        for process in started:
            await_worker(process)
        return started

    def end(self) -> None:
        for process in self.all:
            process.end()

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *error: object) -> None:
        self.end()


def await_worker(process: Process) -> None:
    """Wait until a worker has joined the scheduler that it was started for."""

    def joined() -> bool:
        assert process.is_alive, process.said
        return "Registered to:" in process.said

    until(joined, STARTS, "a worker")

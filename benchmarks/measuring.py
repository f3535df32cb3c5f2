"""One measurement: a job in a child process, with its time, peak memory, and how it ended.

A job is named ``module:function``; the function is a context manager that gets everything ready
(imports, data) and hands out the work, a function without arguments. Only the work is timed.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import psutil

CHILD = Path(__file__).with_name("child.py")
SAMPLING_S = 0.1  # between looks at the memory of a job and its workers
SIGN_OF_LIFE_S = 15.0
MIB = 1 << 20
#: How jobs end; the middle of the table says why.
OK, FAILED, TIMED_OUT, OUT_OF_MEMORY, NOT_INSTALLED = (
    "ok",
    "failed",
    "timed out",
    "out of memory",
    "not installed",
)


@dataclass(frozen=True)
class Limits:
    """What a job may take; None is no limit.

    Attributes
    ----------
    seconds : float
        Wall clock, imports and all repeats included.
    address_space : int
        Bytes of address space of each of its processes (where the system can limit that).
    """

    seconds: float | None = None
    address_space: int | None = None


NO_LIMITS = Limits()


@dataclass(frozen=True)
class Measured:
    """How a job went.

    Attributes
    ----------
    seconds, cpu_seconds : list of float
        Wall clock and processor time of every repeat of the work, workers included; on a busy
        machine the second is the one to compare.
    before_bytes, peak_bytes : int
        Resident memory before the work, and at its peak, worker processes included.
    answer
        What the work returned the last time.
    """

    status: str
    reason: str = ""
    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    before_bytes: int = 0
    peak_bytes: int = 0
    answer: Any = None

    @property
    def ok(self):
        return self.status == OK

    @property
    def median_s(self):
        return float(np.median(self.seconds)) if self.seconds else None

    @property
    def median_cpu_s(self):
        return float(np.median(self.cpu_seconds)) if self.cpu_seconds else None

    @property
    def rise_bytes(self):
        """Peak over what the process held before the work; 0 where the work did not end."""
        return max(self.peak_bytes - self.before_bytes, 0) if self.ok else 0

    def facts(self):
        """Everything, for JSON."""
        return asdict(self) | {
            "median_s": self.median_s,
            "median_cpu_s": self.median_cpu_s,
            "rise_bytes": self.rise_bytes,
        }


def measure(call, arguments, *, limits=NO_LIMITS, repeat=1, budget_s=0.0):  # frozen
    """Run a job in a child process.

    The work is done once, and again until it was done `repeat` times or `budget_s` is spent.
    """
    with tempfile.TemporaryDirectory() as folder:
        report, noise = Path(folder) / "report.json", Path(folder) / "noise.txt"
        job = {
            "call": call,
            "arguments": arguments,
            "address_space": limits.address_space,
            "repeat": repeat,
            "budget_s": budget_s,
            "report": str(report),
        }
        with noise.open("wb") as sink:
            process = subprocess.Popen(  # our own script
                [sys.executable, str(CHILD)],
                stdin=subprocess.PIPE,
                stdout=sink,
                stderr=sink,
                start_new_session=True,  # a timeout ends the job's workers too
            )
            process.stdin.write(json.dumps(job).encode())
            process.stdin.close()
            peak, in_time = _watch(process, limits.seconds)
        told = json.loads(report.read_text()) if report.exists() else None
        if told is not None:
            return Measured(**told | {"peak_bytes": max(peak, told["peak_bytes"])})
        if not in_time:
            return Measured(TIMED_OUT, f"more than {limits.seconds:g} s", peak_bytes=peak)
        status, reason = _last_words(process.returncode, noise.read_text(errors="replace"))
        return Measured(status, reason, peak_bytes=peak)


def _watch(process, seconds):
    """Wait for a process: (peak memory of its tree, whether it ended in time)."""
    started = told = time.monotonic()
    peak = 0
    while process.poll() is None:
        now, held = time.monotonic(), tree_bytes(process.pid)
        peak = max(peak, held)
        if seconds is not None and now - started > seconds:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return peak, False
        if now - told > SIGN_OF_LIFE_S:
            told = now
            say(f"    {now - started:.0f} s, {held / MIB:,.0f} MiB")
        time.sleep(SAMPLING_S)
    return peak, True


def tree_bytes(pid):
    """Resident bytes of a process and its descendants; pages they share count in each."""
    total = 0
    try:
        root = psutil.Process(pid)
        for one in (root, *root.children(recursive=True)):
            try:
                total += one.memory_info().rss
            except psutil.Error:  # it ended meanwhile
                continue
    except psutil.Error:
        pass
    return total


def _last_words(code, noise):
    """Why a job that wrote no report ended: memory is what mostly kills a process outright."""
    lines = [line for line in noise.splitlines() if line.strip()]
    last = lines[-1].strip() if lines else "no message"
    if code == -signal.SIGKILL or "memory" in noise.lower():
        return OUT_OF_MEMORY, last
    return FAILED, f"exit status {code}: {last}"


def version_of(package):
    """Version of a package; None where it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def say(text):
    """Progress, to standard error."""
    print(text, file=sys.stderr, flush=True)

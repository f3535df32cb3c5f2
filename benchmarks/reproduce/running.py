"""Runs the cells that are not filed yet, each in a process of its own and within its time.

Processes are forked from this one, in which the libraries are loaded, for loading takes longer than
most cells do. This one has no threads, and BLAS has one in each. A cell is limited in its processor
time, so that other work on the machine does not count; one that waits for something ends too.
"""

import importlib
import math
import multiprocessing
import os
import resource
import signal
import time
from collections import deque
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path

from child import failure
from measuring import FAILED, NOT_INSTALLED, OK, OUT_OF_MEMORY, TIMED_OUT, say

from .cache import Cache
from .cells import cells_of

#: How a cell stands that no time was left for.
NOT_RUN = "not run"
#: A cell may take so many times its processor time on the clock.
PATIENCE = 10
#: Libraries of the cells that may be loaded before a process is forked, which start no threads.
LOADED = (
    *("dhsic.selectors", "sklearn.ensemble", "sklearn.feature_selection", "sklearn.linear_model"),
    *("sklearn.model_selection", "sklearn.multiclass", "sklearn.svm", "pandas"),
)


@dataclass(frozen=True)
class Running:
    """A cell at work."""

    name: str
    cell: object
    process: multiprocessing.Process
    began: float
    deadline: float


@dataclass(frozen=True)
class Run:
    """What is asked for.

    Attributes
    ----------
    experiments : dict
        By name.
    cache : Cache
        Of results.
    data : Path or None
        Folder of real data.
    limit_s : float
        Seconds of processor time that a method may take for a fold.
    """

    experiments: dict
    cache: Cache
    data: Path | None
    limit_s: float

    def cells(self):
        """(name of the experiment, cell), small sets first."""
        found = [
            (name, cell)
            for name, one in self.experiments.items()
            for cell in cells_of(one, self.data)
            if cell.takes
        ]
        return sorted(found, key=lambda entry: entry[1].size)

    def status(self, cell):
        """(how a cell stands, why)."""
        if cell.rows(self.cache) is not None:
            return OK, ""
        ended = self.cache.read(cell.failure_key(), cell.versions)
        # One that was out of time gets its chance where there is more of it.
        if ended and (ended["status"] != TIMED_OUT or ended["limit_s"] >= self.limit_s):
            return ended["status"], ended["reason"]
        return NOT_RUN, ""

    def all(self, n_jobs, until):
        """Run what is left, so many at a time, until that time of the monotonic clock."""
        left = deque(entry for entry in self.cells() if self.status(entry[1])[0] == NOT_RUN)
        say(f"{len(left)} cells to run")
        for module in LOADED:
            importlib.import_module(module)
        running = []
        while left or running:
            while left and len(running) < n_jobs and time.monotonic() < until:
                running.append(self._begin(*left.popleft()))
            if not running:
                break
            soonest = min(until, *(one.deadline for one in running), time.monotonic() + 60)
            wait([one.process.sentinel for one in running], max(0, soonest - time.monotonic()))
            running = [one for one in running if not self._ended(one, until)]
        if left:
            say(f"{len(left)} cells had no time left; run again to go on with them")

    def _begin(self, name, cell):
        """Fork a cell."""
        limit = self.limit_s * cell.folds_a_step
        process = multiprocessing.get_context("fork").Process(
            target=work, args=(cell, self.cache, limit), daemon=True
        )
        process.start()
        now = time.monotonic()
        return Running(name, cell, process, now, now + PATIENCE * limit * cell.n_steps)

    def _ended(self, one, until):
        """Whether a cell is at an end; ends it where its time is up."""
        now = time.monotonic()
        if one.process.is_alive():
            if now < min(one.deadline, until):
                return False
            one.process.kill()
            one.process.join()
            if now >= one.deadline:
                self._file(one.cell, TIMED_OUT, f"{PATIENCE * self.limit_s:g} s on the clock")
        elif one.process.exitcode == -signal.SIGXCPU:
            self._file(one.cell, TIMED_OUT, f"more than {self.limit_s:g} s a fold")
        elif one.process.exitcode == -signal.SIGKILL:
            self._file(one.cell, OUT_OF_MEMORY, "killed")
        elif one.process.exitcode:
            self._file(one.cell, FAILED, f"exit status {one.process.exitcode}")
        status, reason = self.status(one.cell)
        told = f"{status}, {now - one.began:.1f} s {reason}"
        say(f"{one.name}, {one.cell.dataset}, {one.cell.method}: {told}")
        return True

    def _file(self, cell, status, reason):
        """File how a cell ended; what it said itself comes first."""
        if self.status(cell)[0] == NOT_RUN:
            result = {"status": status, "reason": reason, "limit_s": self.limit_s}
            self.cache.write(cell.failure_key(), cell.versions, result)

    def records(self):
        """Tidy rows, and how every cell stands."""
        rows, stands = [], []
        for name, cell in self.cells():
            status, reason = self.status(cell)
            about = {"experiment": name, "set": cell.dataset, "method": cell.method}
            stands.append(about | {"status": status, "reason": reason})
            if status == OK:
                rows += [about | row for row in cell.rows(self.cache)]
        return rows, stands


def work(cell, cache, limit_s):
    """A cell, in its process, each step within its time; whatever a method raises is its result."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    try:
        for _ in cell.run(cache):
            _allow(limit_s)
    except Exception as error:
        told = failure(error)
        status = NOT_INSTALLED if isinstance(error, ImportError) else told["status"]
        result = {"status": status, "reason": told["reason"], "limit_s": None}
        cache.write(cell.failure_key(), cell.versions, result)
    os._exit(0)  # threads and atexit handlers of a rival are of no interest


def _allow(more_s):
    """End this process when it has taken so much more processor time: SIGXCPU."""
    until = math.ceil(time.process_time() + more_s)
    resource.setrlimit(resource.RLIMIT_CPU, (until, resource.getrlimit(resource.RLIMIT_CPU)[1]))

"""Runs back to back on one cluster of processes leave nothing behind (`benchmarks/soak.py`)."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SOAK = Path(__file__).parents[1] / "benchmarks" / "soak.py"
#: Runs: every way that the soak has, which loads what it needs, and all of them again.
RUNS = 26
#: What the client of Dask's own in a worker that hosted a driver keeps open, and its threads.
FDS, THREADS = 12, 8
#: MiB by which a process may grow over the second half of so few runs.
GROWTH = 80


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_runs_leave_nothing_behind(tmp_path):
    told = tmp_path / "told.json"
    command = [sys.executable, "-W", "ignore", str(SOAK), "--runs", str(RUNS)]
    command += ["--scratch", str(tmp_path), "--json", str(told)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    print(done.stdout)
    said = json.loads(told.read_text())["verdict"]
    left = said["left"]
    assert said["runs"] == RUNS
    assert left["datasets"] == 2  # the submitted runs: each is found by its id
    assert left["tasks"] == left["datasets"]
    assert said["files_left"] == []
    assert max(said["more_fds"].values()) <= FDS
    assert max(said["more_threads"].values()) <= THREADS
    assert max(said["grown_mib"].values()) <= GROWTH

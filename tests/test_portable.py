"""Without what only Unix has: the package is imported, and runs on threads go their way."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from dhsic import memory

#: A run with a checkpoint and scratch, gone on with by a second one, where all that is missing.
RUN = """
import os, sys
for name in ("resource", "fcntl", "pwd", "grp", "termios"):
    sys.modules[name] = None
for name in (
    "sched_getaffinity", "pread", "pwrite", "geteuid", "getuid", "O_CLOEXEC", "O_NOFOLLOW",
    "O_NONBLOCK",
):
    delattr(os, name)
import numpy as np
import dhsic
from dhsic.passes import reader
reader.COMPACT_BYTES = 0
rng = np.random.default_rng(0)
X = rng.integers(0, 3, (60, 200), dtype=np.int8)
y = (X[:, 7] + rng.standard_normal(60) > 1).astype(int)
import xarray as xr
folder = sys.argv[1]
data = xr.DataArray(X, dims=("samples", "features"), name="x").chunk(features=20)
data.to_zarr(folder + "/x.zarr")
class Enough(Exception):
    pass
def stop(record):
    if record["round"] == 3:
        raise Enough
def fit(**options):
    return dhsic.BAHSIC(5, step=0.2, runtime="threads", **options).fit(folder + "/x.zarr", y)
try:
    fit(checkpoint=folder + "/run.dhsic", progress=stop)
except Enough:
    pass
again = fit(checkpoint=folder + "/run.dhsic")
assert (again.scores_ == fit().scores_).all()
assert again.support_[7]
dhsic.save(again.result_, folder + "/result.zarr")
print("done", "distributed" in sys.modules)
"""


def test_runs_on_threads_need_nothing_of_unix(tmp_path):
    command = [sys.executable, "-c", RUN, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "done False\n", done.stderr


@pytest.fixture
def bare(monkeypatch):
    """A system without /proc, control groups and `resource`, where psutil knows of memory."""
    held = SimpleNamespace(rss=3 << 20, peak_wset=5 << 20)
    told = SimpleNamespace(
        Process=lambda: SimpleNamespace(memory_info=lambda: held),
        virtual_memory=lambda: SimpleNamespace(available=7 << 30),
    )

    def nothing(path, *args, **options):
        raise FileNotFoundError(path)

    monkeypatch.setitem(sys.modules, "psutil", told)
    monkeypatch.setitem(sys.modules, "resource", None)
    monkeypatch.setattr(Path, "read_text", nothing)


@pytest.mark.usefixtures("bare")
def test_memory_is_known_there_too():
    assert memory.resident_bytes() == 3 << 20
    assert memory.peak_bytes() == 5 << 20
    assert memory.available_bytes() == 7 << 30

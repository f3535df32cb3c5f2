"""Without what only Unix has: the package is imported, and runs on threads go their way."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from dhsic import memory

#: Modules of the standard library that Windows lacks.
OF_UNIX = {"resource", "fcntl", "pwd", "grp", "termios", "tty", "pty", "syslog", "readline"}
#: What is missing there: these modules, functions of `os`, and signals; folders cannot be opened.
BARE = f"""
import os, shutil, signal, sys
for name in {sorted(OF_UNIX)}:
    sys.modules[name] = None
for name in (
    "sched_getaffinity", "pread", "pwrite", "geteuid", "getuid", "O_CLOEXEC", "O_NOFOLLOW",
    "O_NONBLOCK", "O_DIRECTORY", "fork", "forkpty", "posix_fallocate", "statvfs", "mkfifo",
    "fchmod", "fchown", "chown", "killpg", "getpgid", "setsid", "wait3", "wait4",
):
    if hasattr(os, name):
        delattr(os, name)
for name in ("SIGKILL", "SIGHUP", "SIGPIPE", "SIGUSR1", "SIGALRM", "setitimer", "pause"):
    delattr(signal, name)
shutil._use_fd_functions, opened = False, os.open
def open_files(path, *args, **options):
    if os.path.isdir(path):
        raise PermissionError(13, "Permission denied", path)
    return opened(path, *args, **options)
os.open = open_files
import dhsic.storage.folder
dhsic.storage.folder._sync_folder = lambda folder: None  # as where os.name is "nt"
"""
#: A run with a checkpoint and scratch, gone on with by a second one, where all that is missing.
RUN = (
    BARE
    + """
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
)


#: Commands, one after the other.
COMMANDS = (
    BARE
    + """
os.chdir(sys.argv[1])
from dhsic.cli import main
for command in (
    "simulate x.vcz --samples 40 --variants 60",
    "convert x.vcz fast.vcz",
    "--log-json select fast.vcz --target sample_trait -n 3 --checkpoint run.dhsic --out r.zarr",
    "resume run.dhsic",
    "test fast.vcz --target sample_trait -n 3 --out tests.tsv",
    "select fast.vcz --target sample_trait -n 3 --method fohsic --out r.zarr --force",
):
    try:
        main(command.split(), standalone_mode=False)
    except SystemExit as end:
        assert not end.code, (command, end.code)
print("done")
"""
)


def bare_run(code, folder):
    command = [sys.executable, "-c", code, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.slow
def test_runs_on_threads_need_nothing_of_unix(tmp_path):
    done = bare_run(RUN, tmp_path)
    assert done.stdout == "done False\n", done.stderr
    assert "run.dhsic" in done.stderr  # whose lock is none
    assert "Make sure that only one run writes to it" in done.stderr


@pytest.mark.slow
def test_commands_need_nothing_of_unix(tmp_path):
    assert bare_run(COMMANDS, tmp_path).stdout.endswith("done\n")


def test_what_is_of_unix_may_be_missing():
    """Its modules are imported first in a `try`, and nowhere else."""
    wanted = rf"^\s*(?:import|from) (?:{'|'.join(OF_UNIX)})\b"
    files = sorted(Path(memory.__file__).parent.rglob("*.py"))
    for path in files:
        text = path.read_text()
        found = re.findall(wanted, text, re.MULTILINE)
        assert len(found) == len(re.findall(rf"try:\n+{wanted[1:]}", text)), path
    assert len(files) > 100


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

"""Signals to the command at every moment: one line, and an exit code that says which it was."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from stores import write_matrix
from thorough import one_in

import dhsic
from dhsic import cli

ENDS = {signal.SIGINT: (130, "Interrupted."), signal.SIGTERM: (75, "Terminated.")}
#: The command as it is installed, and as a module.
WAYS = {
    "installed": [sys.executable, str(Path(sys.executable).with_name("dhsic"))],
    "module": [sys.executable, "-m", "dhsic"],
}
WAIT = 60.0


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Data that take long to rank: 6,000 features, one a round."""
    path = tmp_path_factory.mktemp("signals") / "x.zarr"
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (100, 6000), dtype=np.int8)
    write_matrix(path, X, chunks=(1000, 100), dims=("features", "samples"))
    (path.parent / "y.csv").write_text("y\n" + "\n".join(map(str, np.arange(100) % 2)) + "\n")
    return path


def heed():
    """Take signals as a shell in front does: one in the background has its children ignore some."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def ended(way, store, number, when, *options):
    """(exit code, stdout, stderr) of a command that gets a signal once `when(process)` holds."""
    labels = ["--labels", str(store.parent / "y.csv"), "--target", "y"]
    command = [*WAYS[way], "select", str(store), *labels, "--step", "1", *options]
    environment = os.environ | {"PYTHONPATH": str(Path(dhsic.__file__).parent.parent)}
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        preexec_fn=heed,  # noqa: PLW1509  # one thread is here
    ) as process:
        deadline = time.monotonic() + WAIT
        while not when(process) and process.poll() is None:
            assert time.monotonic() < deadline, "it does not come"
            time.sleep(0.005)
        process.send_signal(number)
        out, err = process.communicate(timeout=WAIT)
        return process.returncode, out, err


def loaded(library):
    """A moment: the process has a library of this name in memory."""
    return lambda process: library in Path(f"/proc/{process.pid}/maps").read_text()


def after(seconds):
    """A moment: so long after NumPy began to load."""
    begun = []

    def when(process):
        if not begun and loaded("_multiarray_umath")(process):
            begun.append(time.monotonic())
        return begun and time.monotonic() - begun[0] >= seconds

    return when


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="no /proc to see a process in")
@pytest.mark.parametrize("number", ENDS)
@pytest.mark.parametrize(
    ("way", "library"),
    [
        ("module", "_multiarray_umath"),
        ("installed", "_multiarray_umath"),
        ("module", "pandas/_libs"),
    ],
)
def test_while_libraries_load(store, number, way, library):
    code, line = ENDS[number]
    assert ended(way, store, number, loaded(library)) == (code, "", f"{line}\n")


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="no /proc to see a process in")
@pytest.mark.parametrize(
    ("number", "seconds"),
    [
        (number, seconds)
        for first, number in enumerate(ENDS)
        for seconds in one_in(2, (0.05, 0.5, 1.0, 2.0), first=first)
    ],
)
def test_at_any_moment_after(store, number, seconds):
    code, line = ENDS[number]
    got, out, err = ended("module", store, number, after(seconds), "--json", "--no-progress")
    assert (got, json.loads(out)["error"]["message"].split()[0]) == (code, line)
    assert "Traceback" not in err
    assert err.splitlines()[-1].startswith(line)


def test_a_process_that_is_not_the_command_keeps_its_handlers():
    code = (
        "import signal; b = signal.getsignal(2), signal.getsignal(15); import dhsic; "
        "print(b == (signal.getsignal(2), signal.getsignal(15)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


@pytest.fixture
def heeding():
    """Signals that are heeded as in a shell's foreground; one in the background ignores some."""
    before = {number: signal.getsignal(number) for number in ENDS}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("heeding")
@pytest.mark.parametrize("number", ENDS)
def test_a_signal_whose_error_is_lost_in_a_callback(store, monkeypatch, number):
    def lose(*_):
        with contextlib.suppress(KeyboardInterrupt):  # as Python does where nobody can catch it
            signal.raise_signal(number)

    monkeypatch.setattr("dhsic.cli.select._announce", lose)
    labels = ["--labels", str(store.parent / "y.csv"), "--target", "y"]
    done = CliRunner().invoke(cli.main, ["select", str(store), *labels, "--step", "0.5"])
    code, line = ENDS[number]
    assert (done.exit_code, done.stderr.splitlines()[-1].split(" No")[0]) == (code, line)

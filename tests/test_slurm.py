"""`deploy/slurm/run.sbatch` as a job, with an `srun` that runs a command here."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from commands import run

import dhsic

DEPLOY = Path(__file__).parents[1] / "deploy"
SRUN = '#!/bin/sh\nwhile case $1 in --*) true;; *) false;; esac; do shift; done\nexec "$@"\n'
SCONTROL = '#!/bin/sh\necho "$@" >> "$RUN/scontrol"\n'


@pytest.fixture
def job(tmp_path):
    """A job that is started by calling it, with further words for `dhsic select`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in (("srun", SRUN), ("scontrol", SCONTROL)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    run("simulate", tmp_path / "g.vcz", "--samples", 200, "--variants", 3000)
    subprocess.run(
        ["sh", DEPLOY / "certificates.sh", tmp_path / "tls"], check=True, capture_output=True
    )
    (tmp_path / "run").mkdir()
    env = os.environ | {
        "PATH": f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "RUN": str(tmp_path / "run"),
        "TLS": str(tmp_path / "tls"),
        "SLURM_JOB_ID": "7",
        "SLURM_CPUS_PER_TASK": "2",
        "SLURM_MEM_PER_NODE": "2000",
    }
    words = ["bash", DEPLOY / "slurm" / "run.sbatch", tmp_path / "g.vcz", "--step", "0.02"]
    words += ["--target", "sample_trait", "-n", "20"]
    started = []

    def start():
        started.append(subprocess.Popen(words, env=env))
        return started[-1]

    yield start
    for process in started:
        process.kill()


@pytest.mark.slow
def test_a_job_whose_time_is_up_goes_on_and_finds_the_same(job, tmp_path):
    first, checkpoint = job(), tmp_path / "run" / "run.dhsic"
    until = time.monotonic() + 120
    while not any(checkpoint.glob("*")) and first.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    first.send_signal(signal.SIGTERM)
    assert first.wait(120) == 0
    assert (tmp_path / "run" / "scontrol").read_text() == "requeue 7\n"
    assert not (tmp_path / "run" / "selection.zarr").exists()

    assert job().wait(240) == 0
    assert (tmp_path / "run" / "scontrol").read_text() == "requeue 7\n"
    found = dhsic.load(tmp_path / "run" / "selection.zarr")
    options = {"n_features_to_select": 20, "step": 0.02}
    alone = dhsic.select(str(tmp_path / "g.vcz"), "sample_trait", **options)
    assert found["rank"].equals(alone["rank"])
    assert list((tmp_path / "run").glob("scheduler-*")) == []

"""Processor time of commands on a small table, relative to the bare imports of their libraries.

Run ``python benchmarks/starting.py [REPEATS]``. Each command runs in a process of its own; the
smallest time of all repeats counts.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from tables import markdown, number, seconds

BARE = ["-c", "import numpy, pandas, scipy.linalg, zarr, xarray"]
COMMANDS = (
    "--help",
    "--version",
    "inspect table.csv",
    "status run.dhsic",
    "test table.csv --target y --out tests.tsv --force",
    "select table.csv --target y --out selection.tsv --force",
)
ONE_THREAD = {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": ""}


def processor_time(words, folder):
    """Seconds of user and system time of a Python process in a folder."""
    before = os.times()
    environment = {**os.environ, **ONE_THREAD}
    subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, check=True
    )
    after = os.times()
    user = after.children_user - before.children_user
    return user + after.children_system - before.children_system


def main(repeats):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((40, 12)), columns=[f"f{i}" for i in range(12)])
    frame.insert(0, "y", frame["f0"] + 0.1 * rng.standard_normal(40))
    with tempfile.TemporaryDirectory() as folder:
        frame.to_csv(Path(folder) / "table.csv", index=False)
        run = ["-m", "dhsic", "select", "table.csv", "--target", "y", "--checkpoint", "run.dhsic"]
        processor_time(run, folder)
        bare = min(processor_time(BARE, folder) for _ in range(repeats))
        lines = [["bare imports", seconds(bare), "1.00"]]
        for command in COMMANDS:
            words = ["-m", "dhsic", *command.split()]
            best = min(processor_time(words, folder) for _ in range(repeats))
            lines.append([f"`dhsic {command}`", seconds(best), number(best / bare, 2)])
    print(markdown(["command", "processor time", "of bare imports"], lines))


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 5)

"""`dhsic select` on a cluster of processes, watched from outside through its checkpoint."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import zarr
from faults.processes import TESTS, Process, Processes, until
from stores import write

ENDS = 240.0  # seconds that a run may take on a busy machine
ROUND = 150.0  # seconds until the next round is kept, whatever happened
SAMPLES, FEATURES = 60, 4000
STEP = "0.25"


def write_problem(path: Path) -> None:
    """A matrix of genotypes (samples, features) with labels y that some of them decide."""
    rng = np.random.default_rng(7)
    X = rng.integers(0, 3, (SAMPLES, FEATURES)).astype("i1")
    y = X[:, :5].sum(axis=1) + 0.1 * rng.normal(size=SAMPLES)
    group = zarr.open_group(path, mode="w")
    write(group, "X", X, ("samples", "features"), chunks=(SAMPLES, 250))
    write(group, "y", y, ("samples",))


class Selection:
    """A run of the command line with a checkpoint."""

    def __init__(self, processes: Processes, data: Path, folder: Path) -> None:
        self._processes = processes
        self._data = data
        self.checkpoint = folder / "run"
        self.out = folder / "result.zarr"
        self.driver: Process | None = None

    def start(self, scheduler: str | None) -> Process:
        asked = ("--target", "y", "--step", STEP, "--solver", "exact", "--no-progress")
        places = ("--checkpoint", str(self.checkpoint), "--out", str(self.out))
        where = ("--threads", "1") if scheduler is None else ("--scheduler", scheduler)
        return self._drive("select", str(self._data), *asked, *places, *where)

    def resume(self, scheduler: str) -> Process:
        return self._drive("resume", str(self.checkpoint), "--scheduler", scheduler)

    def _drive(self, *arguments: str) -> Process:
        driver = self._processes.start(str(TESTS / "faults" / "driver.py"), *arguments)
        self.driver = driver
        return driver

    @property
    def round(self) -> int:
        """The last round that is kept, -1 where there is none."""
        try:
            node = json.loads((self.checkpoint / "zarr.json").read_bytes())
        except (OSError, ValueError):
            return -1
        return int(node["attributes"]["dhsic_checkpoint"]["last_round"])

    def await_round(self, number: int) -> float:
        """Wait until so many rounds are kept; return how long it took."""
        began = time.monotonic()

        def kept() -> bool:
            assert self.driver is not None
            there = self.round >= number
            assert there or self.driver.is_alive, self.driver.said
            return there

        until(kept, ROUND, f"round {number}")
        return time.monotonic() - began

    def await_next_round(self) -> float:
        return self.await_round(self.round + 1)

    def finish(self) -> dict[str, np.ndarray]:
        """Wait for the end of the run; return what was written."""
        assert self.driver is not None
        assert self.driver.wait(ENDS) == 0, self.driver.said
        return self.result()

    def result(self) -> dict[str, np.ndarray]:
        group = zarr.open_group(self.out, mode="r")
        names = ("rank", "score", "selected", "round_removed", "round_n_features", "round_sigma")
        return {name: group[name][...] for name in names if name in group}

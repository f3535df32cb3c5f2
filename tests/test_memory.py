"""Memory: what is promised before a run is kept, measured in a process of its own."""

import json
import resource
import subprocess
import sys

import numpy as np
import pytest

import dhsic
from dhsic.errors import MemoryBudgetError
from dhsic.kernels.gaussian import Gaussian
from dhsic.memory import SLACK_BYTES, MemoryEstimate, available_bytes, human, task_bytes
from dhsic.passes.engineplan import EnginePlan
from dhsic.passes.reader import COMPACT_BYTES
from dhsic.runtime.threads import Threads
from dhsic.sources.arrays import ArraySource

GB = 10**9
#: A selection in a process of its own: prints its peak and its promise, in bytes.
RUN = """
import json, sys
sys.modules["pyarrow"] = None  # pandas loads it where it is, which takes 100 MB of addresses
import dhsic
from dhsic.memory import peak_bytes
path, options = sys.argv[1], json.loads(sys.argv[2])
y = dhsic.read_target(path, "sample_trait")
result = dhsic.select(path, y, n_features_to_select=10, progress=False, **options)
peak = peak_bytes()
print(json.dumps([peak, result.attrs["promised_bytes"]]))
"""


def simulate(path, m, d):
    command = ["simulate", path, "--samples", m, "--variants", d, "--layout", "plain"]
    subprocess.run([sys.executable, "-m", "dhsic", *map(str, command)], check=True)


def select(path, limit=None, **options):
    """(peak, promise) of a selection under an address-space limit."""

    def limited():
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    out = subprocess.run(
        [sys.executable, "-c", RUN, str(path), json.dumps({"variable": "dosage", **options})],
        check=True,
        capture_output=True,
        text=True,
        preexec_fn=limited,
    ).stdout
    return json.loads(out.splitlines()[-1])


@pytest.mark.parametrize(
    "kernel",
    [
        "polynomial",
        *(pytest.param(kernel, marks=pytest.mark.slow) for kernel in ("gaussian", "linear")),
    ],
)
def test_peak_stays_below_the_promise(tmp_path, kernel):
    simulate(tmp_path / "x.zarr", 600, 6000)

    peak, promised = select(tmp_path / "x.zarr", kernel=kernel, step=0.5)

    assert peak < promised


@pytest.mark.slow
def test_a_gigabyte_under_two(tmp_path):
    """2,000 x 500,000 int8 under an address-space limit of 2.1 GB.

    Libraries take 0.9 GB of addresses, of which less than a quarter is in memory.
    """
    simulate(tmp_path / "x.zarr", 2000, 500_000)

    peak, promised = select(tmp_path / "x.zarr", limit=int(2.1 * GB), step=0.9)

    assert peak < promised < 2 * GB


def test_promise_grows_with_what_it_is_for():
    parts = ("process", "squares", "tasks", "survivors", "vectors", "landmarks", "states")
    for part in parts:
        assert MemoryEstimate(**{"process": 0, part: GB}).total == GB + SLACK_BYTES, part
    sizes = {"n_threads": 2, "block": 8 << 20, "tile": 1 << 20, "result": 1 << 20}
    for name, size in sizes.items():
        assert task_bytes(**sizes | {name: 2 * size})["tasks"] > task_bytes(**sizes)["tasks"], name

    source, kernel = ArraySource(np.zeros((4000, 8000), dtype=np.int8)), Gaussian()
    exact, lowrank = EnginePlan(False, False, True), EnginePlan(True, True, False)
    with Threads(2) as runtime:
        small, large, thin = (
            plan.memory(source, runtime, kernel, m, GB)[0]
            for plan, m in ((exact, 1000), (exact, 4000), (lowrank, 4000))
        )
    assert large.squares == 16 * small.squares
    assert (thin.squares, large.landmarks) == (0, 0)
    assert thin.landmarks > 0


def test_survivors_get_what_the_limit_leaves_them():
    source = ArraySource(np.zeros((1000, 600_000), dtype=np.int8))
    plan, kernel = EnginePlan.of("exact", Gaussian(), 1000, 600_000), Gaussian()
    with Threads(2) as runtime:
        ample, budget = plan.memory(source, runtime, kernel, 1000, 1 << 40)
        limit = ample.total - (200 << 20)
        tight, less = plan.memory(source, runtime, kernel, 1000, limit)

    assert budget is None
    assert less is not None
    assert 0 < less < COMPACT_BYTES
    assert tight.total <= limit + (16 << 20)  # this process may have grown meanwhile


def test_what_does_not_fit_is_refused_with_both_numbers():
    with pytest.raises(MemoryBudgetError, match=r"1\.1 GB.*the limit is 1\.0 GB; use fewer"):
        MemoryEstimate(0, squares=GB).check(GB)


def test_a_refused_run_reads_nothing(monkeypatch):
    """40,000 samples make matrices of 12.8 GB: refused before the first block is read."""
    source = dhsic.open_source(np.zeros((40_000, 3), dtype=np.int8))
    monkeypatch.setattr(type(source), "read", lambda *args: pytest.fail("it was read"))

    model = dhsic.BAHSIC(1, solver="exact", progress=False, memory_limit=8 * GB)
    with pytest.raises(MemoryBudgetError, match=r"peak memory of this run .* solver='lowrank'"):
        model.fit(source, np.arange(40_000) % 2)


def test_sizes_for_people():
    assert [human(n) for n in (7, 1500, 2_340_000, 1.2e9, 3e12)] == [
        "7 B",
        "1.5 kB",
        "2.3 MB",
        "1.2 GB",
        "3.0 TB",
    ]
    assert 0 < available_bytes() < 1 << 50

"""Libraries that a command does not load because its run does not use them."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

SLOW = {"sklearn", "narwhals", "joblib", "rich", "matplotlib", "distributed", "scipy.stats"}
SLOW |= {"scipy.optimize", "scipy.spatial", "scipy.sparse.csgraph", "scipy.io", "IPython"}
#: Loaded by scipy.stats, which fits the law of the largest share of pairs.
OF_STATS = {"scipy.stats", "scipy.optimize", "scipy.spatial", "scipy.sparse.csgraph"}
#: xarray loads dask.array with the first Dataset, so commands without a result are free of it.
WITHOUT_RESULT = SLOW | {"dask.array", "scipy.ndimage", "tqdm"}
CODE = """
import sys
from dhsic.cli import main
main(sys.argv[2:], standalone_mode=False)
print("loaded", *sorted({*sys.argv[1].split(",")} & {*sys.modules}))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Folder with a small table and the checkpoint of a run on it."""
    folder = tmp_path_factory.mktemp("small")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((40, 12)), columns=[f"f{i}" for i in range(12)])
    frame.insert(0, "y", frame["f0"] + 0.1 * rng.standard_normal(40))
    frame.to_csv(folder / "table.csv", index=False)
    loaded(folder, SLOW, "select table.csv --target y --checkpoint run.dhsic")
    return folder


def loaded(folder, names, command):
    """Names of the modules in `names` that a process has loaded after a command."""
    words = [str(folder / word) if "." in word else word for word in command.split()]
    words = [sys.executable, "-c", CODE, ",".join(names), *words]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1].split()[1:]


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("--help", WITHOUT_RESULT | {"numpy", "pandas", "xarray", "zarr", "scipy", "dask"}),
        ("inspect table.csv", WITHOUT_RESULT),
        ("status run.dhsic", WITHOUT_RESULT),
        ("test table.csv --target y --out tests.tsv", SLOW),
        ("select table.csv --target y --out selection.tsv", SLOW),
        ("pairs table.csv --target y --out pairs.tsv", SLOW - OF_STATS),
        ("pca table.csv --components 2 --not-feature y --out pcs.tsv", SLOW),
    ],
)
def test_a_command_loads_only_the_libraries_that_it_uses(folder, command, names):
    assert not loaded(folder, names, command)
